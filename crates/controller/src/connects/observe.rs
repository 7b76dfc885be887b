//! Collects the facts about one SparkConnect. Nothing is decided here.

use super::{
    super::{Error, calls::Calls, kept::Kept, observe::try_executor},
    Context, KnownGateway,
    index::{POD, Part},
};
use api::{Identity, ObjectKey, ObjectKind, SparkConnect};
use connect::{Found, Observed, ServerPod, names};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Resource, ResourceExt};
use plan::executor_trial::Trial;
use pods::{Controller, PodSummary};
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration};

/// The facts about one SparkConnect.
#[derive(Default)]
pub(super) struct Seen {
    pub facts: Observed,
    /// The resourceVersion of each object other than a pod.
    pub versions: BTreeMap<ObjectKey, String>,
    /// Whether an object of a deleted SparkConnect of the same name still exists: Kubernetes deletes it in a moment.
    pub is_left: bool,
}

impl Seen {
    fn add(&mut self, connect: &SparkConnect, kind: &ObjectKind, part: Part) {
        let Part { pod, version, has_selector, .. } = part;
        let PodSummary { name, uid, controller, .. } = &pod.summary;
        let is_ours = pod.summary.is_controlled_by(connect.own_uid());
        let is_of_name =
            |owner: &Controller| owner.kind == SparkConnect::kind(&()) && owner.name == connect.name_any();
        self.is_left |= !is_ours && controller.as_ref().is_some_and(is_of_name);
        if *kind != POD {
            let key = kind.clone().named(name);
            self.versions.insert(key.clone(), version);
            self.facts.objects.push(Found { key, uid: uid.clone(), is_ours, has_selector });
        } else if *name == names::server(connect) {
            self.facts.server = Some(Box::new(pod));
        }
    }
}

impl Context {
    /// Collects all facts about `connect`: those that watches have reported, and those that only the API server knows.
    ///
    /// # Errors
    ///
    /// If the API server does not answer.
    pub(super) async fn observe(&self, connect: &SparkConnect, now: Timestamp) -> Result<Seen, Error> {
        let (namespace, uid) = (connect.own_namespace(), connect.own_uid());
        let (mut seen, mut all) = (Seen::default(), Vec::new());
        for (kind, part) in self.parts.of(namespace, &connect.name_any()) {
            if kind == POD {
                all.push(part.pod.summary.clone());
            }
            seen.add(connect, &kind, part);
        }
        if seen.facts.server.is_none() {
            // A pod of another owner may have the server's name, but not the label that the watch selects.
            let pods = Api::<Kept<Pod, Part>>::namespaced(self.source.cluster.client.clone(), namespace);
            let found = pods.get_opt(&names::server(connect)).await.map_err(Error::api("GET of a server"))?;
            if let Some(found) = found {
                seen.add(connect, &POD, found.kept);
            }
        }
        seen.facts.executors = executors(&all, seen.facts.server.as_deref());
        seen.facts.executor_trial = self.trial(connect, &seen.facts, now).await;
        if let Some(pod) = &seen.facts.server {
            let cluster = &self.source.cluster;
            seen.facts.start_failure = cluster.start_failure(namespace, &pod.summary, now).await;
        }
        (seen.facts.refusal, seen.facts.refused_object) =
            self.source.memory.with(uid, |note| (note.refusal.clone(), note.refused_object.clone()));
        let gateway = self.gateway.as_ref().filter(|_| connect.needs_gateway());
        seen.facts.gateway_port = gateway.and_then(|gateway| gateway.port(connect, &self.source.cache));
        seen.facts.settling = gateway.map_or(Duration::ZERO, KnownGateway::settling);
        Ok(seen)
    }

    /// Tries an executor of a server that has none: see [`try_executor`]. Returns `None` if no trial is due, or if the
    /// answer shows nothing about the executors.
    async fn trial(&self, connect: &SparkConnect, facts: &Observed, now: Timestamp) -> Option<Trial> {
        let (server, uid) = (facts.server.as_deref()?, connect.own_uid());
        let known = self.source.memory.with(uid, |note| note.executors_tried.clone());
        let known = known.filter(|(of, _)| *of == server.summary.uid).map(|(_, at)| at);
        if !self.policy.tries_executors || !connect::is_trial_due(connect, facts, known, now) {
            return None;
        }
        let tried = Some((server.summary.uid.clone(), now));
        self.source.memory.with(uid, |note| note.executors_tried = tried);
        let executor = connect::executor(connect, server)?;
        let namespace = connect.own_namespace();
        try_executor(&self.source.cluster.client, namespace, &executor).await
    }

    /// Asks the API server for those objects of `wanted` that no watch has reported: another owner may have an object
    /// of the same name. Returns whether any of them exists.
    ///
    /// # Errors
    ///
    /// If the API server does not answer.
    pub(super) async fn look_for(
        &self,
        connect: &SparkConnect,
        wanted: &[Value],
        seen: &mut Seen,
    ) -> Result<bool, Error> {
        let namespace = connect.own_namespace();
        let mut is_any = false;
        for key in wanted.iter().filter_map(ObjectKey::of) {
            if seen.versions.contains_key(&key) {
                continue;
            }
            let calls = Calls::of_kind(&self.source.cluster.client, &key.kind, namespace);
            let found = calls.metadata(&key.name).await;
            if let Some(found) = found.map_err(Error::api("GET of an object of a SparkConnect"))? {
                seen.add(connect, &key.kind, Part::of_metadata(found.meta()));
                is_any = true;
            }
        }
        Ok(is_any)
    }
}

/// Counts the executors of `server` by the phase of their pods, in lower case. Only pods that the server controls
/// count: any user of the namespace may give a pod the labels of an executor.
fn executors(pods: &[PodSummary], server: Option<&ServerPod>) -> BTreeMap<String, i32> {
    let mut counts = BTreeMap::new();
    let is_of =
        |pod: &&PodSummary| server.is_some_and(|server| pod.is_executor_of(Some(&server.summary.uid)));
    for pod in pods.iter().filter(is_of) {
        // The names of the phases are those of Kubernetes.
        *counts.entry(format!("{:?}", pod.phase).to_lowercase()).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Role;
    use pods::Phase;

    #[test]
    fn executors_count_by_the_uid_of_their_server_and_not_by_labels() {
        let owned = |kind: &str, name: &str, uid: &str, phase| {
            let owner = Controller { kind: kind.to_owned(), name: name.to_owned(), uid: uid.to_owned() };
            PodSummary { role: Some(Role::Executor), controller: Some(owner), phase, ..PodSummary::default() }
        };
        let controlled = |uid: &str, phase| owned("Pod", "pi-server", uid, phase);
        let pods = [
            controlled("1", Phase::Running),
            controlled("1", Phase::Pending),
            controlled("0", Phase::Running),
            PodSummary { controller: None, ..controlled("1", Phase::Running) },
            PodSummary { role: None, ..controlled("1", Phase::Running) },
            // Of a StatefulSet that the server has created, with
            // `spark.kubernetes.allocation.pods.allocator=statefulset`.
            owned("StatefulSet", "spark-s-1-0", "2", Phase::Running),
            owned("StatefulSet", "database", "3", Phase::Running),
        ];
        let summary = PodSummary { uid: "1".to_owned(), ..PodSummary::default() };
        let server = ServerPod { summary, ..ServerPod::default() };
        let expected = [("pending".to_owned(), 1), ("running".to_owned(), 2)];
        assert_eq!(executors(&pods, Some(&server)), expected.into());
        assert_eq!(executors(&pods, None).len(), 0);
    }
}
