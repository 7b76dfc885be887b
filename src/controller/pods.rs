//! Caches the pods of each application, reduced to what the operator needs to know, and fed by one watch.

use crate::{
    api::{ExecutorState, Lenient, Role, names::label},
    controller::{
        ApplicationRef,
        watch::{self, ReadMetrics},
    },
    plan::{
        executors,
        pod_summary::{Phase, PodSummary},
    },
};
use futures::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt, runtime::watcher::Event};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    mem,
    sync::{Arc, RwLock},
};
use tokio::sync::watch as state;
use tracing::warn;

/// Namespace and name of an application.
type ApplicationKey = (String, String);
/// Pods by their names.
type Pods = BTreeMap<String, PodSummary>;

/// The driver, executor and submission pods that the API server has reported.
#[derive(Debug)]
pub struct PodIndex {
    by_application: RwLock<BTreeMap<ApplicationKey, Pods>>,
    /// For each application, the last state of its latest driver that is gone. The event that reports the deletion may
    /// be the only event that contains the driver's outcome.
    departed: RwLock<BTreeMap<ApplicationKey, Box<PodSummary>>>,
    synced: state::Sender<bool>,
}

impl Default for PodIndex {
    fn default() -> Self {
        Self {
            by_application: RwLock::default(),
            departed: RwLock::default(),
            synced: state::Sender::new(false),
        }
    }
}

impl PodIndex {
    /// Waits until all pods that existed at the start are known. Until then, a pod that is not in the index may still
    /// exist.
    pub async fn synced(&self) {
        // The sender lives as long as `self`, so this wait cannot fail.
        drop(self.synced.subscribe().wait_for(|synced| *synced).await);
    }

    /// Returns the pods of an application, by name, and the last state of its latest driver that is gone.
    pub fn of(&self, namespace: &str, application: &str) -> (Pods, Option<Box<PodSummary>>) {
        let key = (namespace.to_owned(), application.to_owned());
        let index = self.by_application.read().expect("no code panics while it holds this lock");
        let departed = self.departed.read().expect("no code panics while it holds this lock");
        (index.get(&key).cloned().unwrap_or_default(), departed.get(&key).cloned())
    }

    /// Whether the index contains a pod of the application that has not ended.
    pub fn has_live(&self, namespace: &str, application: &str) -> bool {
        let key = (namespace.to_owned(), application.to_owned());
        let index = self.by_application.read().expect("no code panics while it holds this lock");
        let mut pods = index.get(&key).into_iter().flat_map(BTreeMap::values);
        pods.any(|pod| !matches!(pod.phase, Phase::Succeeded | Phase::Failed))
    }

    /// Returns the number of running executors for each application that has any.
    pub fn running_executors(&self) -> Vec<(ApplicationKey, u64)> {
        let index = self.by_application.read().expect("no code panics while it holds this lock");
        let runs = |pod: &&PodSummary| {
            pod.role == Some(Role::Executor) && executors::state(pod) == ExecutorState::Running
        };
        let running = index.iter().map(|(key, pods)| (key, pods.values().filter(runs).count()));
        let some = running.filter(|(_, running)| *running > 0);
        some.map(|(key, running)| (key.clone(), u64::try_from(running).unwrap_or(u64::MAX))).collect()
    }

    /// Forgets the last driver of an application that does not exist any more.
    pub fn forget(&self, namespace: &str, application: &str) {
        let mut departed = self.departed.write().expect("no code panics while it holds this lock");
        departed.remove(&(namespace.to_owned(), application.to_owned()));
    }

    /// Forgets the last drivers of all applications that are not `listed`.
    pub fn forget_others(&self, listed: &HashSet<ApplicationKey>) {
        let mut departed = self.departed.write().expect("no code panics while it holds this lock");
        departed.retain(|application, _| listed.contains(application));
    }

    fn departed<'a>(&self, pods: impl IntoIterator<Item = (&'a ApplicationKey, &'a PodSummary)>) {
        let mut departed = self.departed.write().expect("no code panics while it holds this lock");
        for (key, pod) in pods {
            if pod.role == Some(Role::Driver) {
                departed.insert(key.clone(), Box::new(pod.clone()));
            }
        }
    }

    /// Follows all pods that have the operator's label; yields the applications whose pods have changed.
    pub fn follow(
        self: Arc<Self>,
        client: Client,
        watch_seconds: u32,
        metrics: &ReadMetrics,
    ) -> impl Stream<Item = ApplicationRef> + Send + use<> {
        let selector = format!("{}=true", label::LAUNCHED_BY);
        let config = watch::config(watch_seconds).labels(&selector);
        let mut listed = BTreeMap::new();
        watch::events(Api::<Lenient<Pod>>::all(client), config, metrics)
            .filter_map(async |event| {
                event.inspect_err(|error| warn!(%error, "the pod watch is retried")).ok()
            })
            .flat_map(move |event| {
                let changed = self.apply(event, &mut listed);
                stream::iter(
                    changed
                        .into_iter()
                        .map(|(namespace, name)| ApplicationRef::new(&name).within(&namespace)),
                )
            })
    }

    /// Takes in one event; `listed` collects a list that is not complete yet. Returns the applications whose pods have
    /// changed.
    pub(super) fn apply(
        &self,
        event: Event<Lenient<Pod>>,
        listed: &mut BTreeMap<ApplicationKey, Pods>,
    ) -> BTreeSet<ApplicationKey> {
        match event {
            Event::Init => {
                listed.clear();
                BTreeSet::new()
            }
            Event::InitApply(pod) => {
                if let Some((key, record)) = keyed(&pod) {
                    listed.entry(key).or_default().insert(record.name.clone(), record);
                }
                BTreeSet::new()
            }
            Event::InitDone => {
                let mut index = self.by_application.write().expect("no code panics while it holds this lock");
                let before = mem::replace(&mut *index, mem::take(listed));
                self.synced.send_replace(true);
                let gone = before
                    .iter()
                    .flat_map(|(key, pods)| pods.values().map(move |pod| (key, pod)))
                    .filter(|(key, pod)| {
                        let now = index.get(*key).and_then(|pods| pods.get(&pod.name));
                        now.is_none_or(|now| now.uid != pod.uid)
                    });
                self.departed(gone);
                let differs = |key: &&ApplicationKey| before.get(*key) != index.get(*key);
                before.keys().chain(index.keys()).filter(differs).cloned().collect()
            }
            Event::Apply(pod) => self.change(&pod, |pods, record| {
                pods.insert(record.name.clone(), record);
            }),
            Event::Delete(pod) => {
                if let Some((key, record)) = keyed(&pod) {
                    self.departed([(&key, &record)]);
                }
                self.change(&pod, |pods, record| {
                    pods.remove(&record.name);
                })
            }
        }
    }

    fn change(
        &self,
        pod: &Lenient<Pod>,
        change: impl FnOnce(&mut Pods, PodSummary),
    ) -> BTreeSet<ApplicationKey> {
        let Some((key, record)) = keyed(pod) else { return BTreeSet::new() };
        let mut index = self.by_application.write().expect("no code panics while it holds this lock");
        let pods = index.entry(key.clone()).or_default();
        change(pods, record);
        if pods.is_empty() {
            index.remove(&key);
        }
        BTreeSet::from([key])
    }
}

fn keyed(pod: &Lenient<Pod>) -> Option<(ApplicationKey, PodSummary)> {
    let record = record(pod);
    Some(((pod.namespace()?, record.application.clone()?), record))
}

/// Reduces a pod to its record. A pod that cannot be read has a record too: its metadata contains the application to
/// which the pod belongs.
pub(super) fn record(pod: &Lenient<Pod>) -> PodSummary {
    pod.0.as_ref().map_or_else(|invalid| PodSummary::of_metadata(&invalid.metadata), PodSummary::of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::Resource;
    use serde_json::{from_value, json};

    fn pod(name: &str, application: &str) -> Lenient<Pod> {
        from_value(json!({"metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"sparkoperator.k8s.io/app-name": application},
        }}))
        .unwrap()
    }

    fn key(application: &str) -> ApplicationKey {
        ("default".to_owned(), application.to_owned())
    }

    #[test]
    fn a_new_list_replaces_what_was_known_and_names_whose_pods_differ() {
        let index = PodIndex::default();
        let mut listed = BTreeMap::new();
        let mut apply = |event| index.apply(event, &mut listed);
        apply(Event::Apply(pod("pi-driver", "pi")));
        apply(Event::Apply(pod("old-driver", "old")));
        assert!(apply(Event::Init).is_empty() && apply(Event::InitApply(pod("pi-driver", "pi"))).is_empty());
        assert!(apply(Event::InitApply(pod("new-driver", "new"))).is_empty());
        assert_eq!(apply(Event::InitDone), BTreeSet::from([key("new"), key("old")]));
        assert!(
            index.of("default", "old").0.is_empty() && index.of("default", "pi").0.contains_key("pi-driver")
        );
        assert_eq!(apply(Event::Delete(pod("pi-driver", "pi"))), BTreeSet::from([key("pi")]));
        assert!(index.of("default", "pi").0.is_empty());
    }

    #[test]
    fn nothing_is_remembered_of_applications_that_a_list_does_not_have() {
        let index = PodIndex::default();
        let mut listed = BTreeMap::new();
        for application in ["pi", "gone"] {
            let mut driver = pod(&format!("{application}-driver"), application);
            let labels = driver.meta_mut().labels.get_or_insert_default();
            labels.insert("spark-role".to_owned(), "driver".to_owned());
            index.apply(Event::Delete(driver), &mut listed);
        }
        index.forget_others(&HashSet::from([key("pi")]));
        assert!(index.of("default", "pi").1.is_some() && index.of("default", "gone").1.is_none());
    }
}
