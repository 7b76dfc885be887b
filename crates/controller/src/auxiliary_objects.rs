//! Creates, repairs and deletes Services and Ingresses in the background: a limited number at once, each with a
//! deadline, so that neither a failure nor a slow answer delays an application.

use super::{
    Applications, Background, Key, Watched,
    auxiliary_index::read,
    calls::{self, Calls},
    events::reference,
    key,
    objects::{already_exists, delete_owned, in_words, name_taken, still_terminating},
    reconcile_memory::Note,
    source::Source,
    watch::Readable,
};
use api::{Identity, ObjectKey, SparkApplication};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt, api::Patch};
use plan::{
    auxiliary::{AskedAddresses, AuxiliaryAction, AuxiliaryObjects, Try, mend},
    events,
};
use std::{collections::HashMap, sync::Arc, time::Duration};
use submission::exposure::addresses;
use tokio::time::timeout;
use tracing::{debug, warn};
use work::caught;

/// How many objects are created, repaired or deleted at once. This is enough for all applications that are submitted
/// while the API server handles one object.
pub(super) const AT_ONCE: usize = 32;
/// The timeout of the work on one object. After a timeout the work is retried.
const PATIENCE: Duration = Duration::from_secs(5);

impl Applications {
    /// Returns the Services and Ingresses of an application, and the latest attempt to change each of them. Records the
    /// addresses (host and path) of the Ingresses that the application requests.
    pub(super) fn auxiliary(
        &self,
        application: &SparkApplication,
        asked: AskedAddresses,
    ) -> AuxiliaryObjects {
        let key = key(application);
        let (there, unwatched) = self.cluster.auxiliary.of(&key);
        let tries = self.memory.with(application.own_uid(), |note| {
            note.asked = Some((key, asked));
            note.tries.clone()
        });
        AuxiliaryObjects { there, unwatched, tries }
    }

    /// Starts all `actions` in the `background`. They belong to the run of `application` with the submission id `run`.
    pub(super) fn start_auxiliary(
        &self,
        background: &Background,
        application: &SparkApplication,
        run: &str,
        actions: Vec<AuxiliaryAction>,
        now: Timestamp,
    ) {
        let uid = application.own_uid();
        for auxiliary in actions {
            let (child, addresses) = match &auxiliary {
                AuxiliaryAction::Make(object) | AuxiliaryAction::Mend(object) => {
                    (ObjectKey::of(object).unwrap_or_default(), addresses(object))
                }
                AuxiliaryAction::Delete(child) => (child.clone(), Vec::new()),
            };
            let taken = self.begin(uid, &child, addresses, now);
            let (applications, about, run) = (self.clone(), reference(application, &()), run.to_owned());
            background
                .start(async move { applications.carry_out(about, run, &child, auxiliary, taken).await });
        }
    }

    /// Records that the work on an object begins, which gives an Ingress these addresses (host and path). Returns why
    /// it may not have them, if another application has one.
    fn begin(&self, uid: &str, child: &ObjectKey, addresses: Vec<String>, now: Timestamp) -> Option<String> {
        let mut notes = self.memory.lock();
        let asked = notes.get(uid).and_then(|note| note.asked.as_ref());
        let is_of_ui = asked.is_some_and(|(_, asked)| addresses.iter().all(|one| asked.takes(one, true)));
        let taken = self.holder(&notes, &addresses, is_of_ui, uid);
        // An application that was deleted meanwhile has no note any more.
        let Some(Note { tries, .. }) = notes.get_mut(uid) else { return taken };
        let claims = if taken.is_none() { addresses } else { Vec::new() };
        let tried = Try { claims, ..Try::begun(tries.remove(child), now) };
        tries.insert(child.clone(), tried);
        taken
    }

    /// Carries out an action for the application to which `about` refers.
    async fn carry_out(
        &self,
        about: ObjectReference,
        run: String,
        child: &ObjectKey,
        auxiliary: AuxiliaryAction,
        taken: Option<String>,
    ) {
        let [namespace, name, uid] =
            [&about.namespace, &about.name, &about.uid].map(|field| field.clone().unwrap_or_default());
        let Source { cluster, queue, .. } = self;
        let is_deletion = matches!(auxiliary, AuxiliaryAction::Delete(_));
        let act = self.act(&namespace, &uid, child, auxiliary);
        let done = async {
            if let Some(why) = taken {
                return Err(why);
            }
            let _slot = self.cluster.changes.turn(None, &namespace).await;
            match timeout(PATIENCE, caught(act)).await {
                Ok(Ok(done)) => done,
                Ok(Err(bug)) => Err(bug.to_string()),
                Err(_) => Err(format!("the API server does not answer a request about {child}")),
            }
        };
        let why = done.await.err();
        if why.is_none() {
            debug!(kind = %child.kind, name = child.name, "done in the background");
        }
        let is_made = why.is_none() && !is_deletion;
        let is_known = self.end(&uid, child, is_made.then(|| run.clone()));
        if let Some(why) = why.as_ref().filter(|_| is_known) {
            warn!(namespace, application = name, why, "an object was not created, changed or deleted");
            // The name of the event follows from the run and the reason, so that it is stored once, however often the
            // attempt fails.
            let event = events::not_made(why, events::RUNS_ON);
            cluster.send_event_about(about, &run, &event, super::now()).await;
        }
        // If no watch reports the result, the application is queued after a success, too.
        if why.is_some() || !cluster.auxiliary.watches(child) {
            queue.push(&namespace, &name);
        }
    }

    /// Returns why an Ingress with these addresses, which is that of a web UI if `is_of_ui`, is not created: an
    /// application other than the one with `uid` has one of the addresses. An ingress controller chooses one of two
    /// Ingresses with the same address, so a tenant could take over the address of another tenant. Only known facts
    /// count, and nothing is parsed, because all applications wait while the notes are locked. The Ingresses of an
    /// application that was not reconciled yet count as requested by it.
    fn holder(
        &self,
        notes: &HashMap<String, Note>,
        addresses: &[String],
        is_of_ui: bool,
        uid: &str,
    ) -> Option<String> {
        // Every application has a Service, and Services have no addresses: this avoids a search through all
        // applications for each Service.
        if addresses.is_empty() {
            return None;
        }
        let takes = |application: &Key, owner: &str, address: &str| {
            let asked = notes.get(owner).and_then(|other| other.asked.as_ref());
            owner != uid
                && asked.is_none_or(|(_, asked)| asked.takes(address, is_of_ui))
                && self.is_driven(application, owner)
        };
        let claimed = notes.iter().find_map(|(owner, note)| {
            let (application, _) = note.asked.as_ref()?;
            let mut claims = note.tries.values().flat_map(|tried| &tried.claims);
            let address =
                claims.find(|claim| addresses.contains(claim) && takes(application, owner, claim))?;
            Some((address.clone(), application.clone()))
        });
        let (address, (namespace, name)) =
            claimed.or_else(|| self.cluster.auxiliary.holder(addresses, takes))?;
        Some(format!(
            "{address} is the address of application {name} in namespace {namespace}: choose another one, or delete that \
             application"
        ))
    }

    /// Whether the application with this namespace and name has this uid, can be read, is not being deleted, and is driven
    /// by this operator.
    fn is_driven(&self, (namespace, name): &Key, uid: &str) -> bool {
        let watched = self.cluster.application(namespace, name);
        // An application that is being deleted is not reconciled any more, and requests nothing.
        let is_it = |watched: Arc<Watched>| {
            watched.uid().as_deref() == Some(uid)
                && watched.error().is_none()
                && watched.meta().deletion_timestamp.is_none()
        };
        self.cluster.namespaces.include(namespace) && watched.is_some_and(is_it)
    }

    /// Records that the work on an object has ended, and the run for which the object exists now, if it does. Returns
    /// whether the application is still known.
    fn end(&self, uid: &str, child: &ObjectKey, made_for: Option<String>) -> bool {
        let mut notes = self.memory.lock();
        let tried = notes.get_mut(uid).and_then(|note| note.tries.get_mut(child));
        let Some(tried) = tried else { return false };
        (tried.ended, tried.made_for) = (Some(super::now()), made_for);
        true
    }

    /// Carries out an action. The reason of a failure is in words for the user.
    async fn act(
        &self,
        namespace: &str,
        uid: &str,
        child: &ObjectKey,
        auxiliary: AuxiliaryAction,
    ) -> Result<(), String> {
        let (client, extensions) = (&self.cluster.client, &self.cluster.auxiliary.extensions);
        let calls = Calls::of_kind(client, &child.kind, namespace);
        let failed = |what: &str, error: &kube::Error| in_words(what, child, error, extensions);
        let patch = match auxiliary {
            AuxiliaryAction::Make(object) => match calls.create(object.to_string()).await {
                Ok(_) => return Ok(()),
                Err(error) if already_exists(&error) => {
                    let there = match calls.get(&child.name).await {
                        Err(kube::Error::Api(status)) if status.is_not_found() => {
                            return Err(still_terminating(child));
                        }
                        there => there.map_err(|error| failed("read", &error))?,
                    };
                    let there = read(&child.kind, &there, extensions).map(|(_, there)| there);
                    let own = there.filter(|there| there.owner == uid).ok_or_else(|| name_taken(child))?;
                    if own.terminating {
                        return Err(still_terminating(child));
                    }
                    mend(&object, &own, extensions)
                }
                Err(error) => return Err(failed("create", &error)),
            },
            AuxiliaryAction::Mend(patch) => Some(patch),
            AuxiliaryAction::Delete(_) => {
                let deleted = calls::done_or_gone(delete_owned(client, namespace, uid, child).await);
                return deleted.map_err(|error| failed("delete", &error));
            }
        };
        let Some(patch) = patch else { return Ok(()) };
        // If the object is gone, or another one has its name by now, the watch reports that.
        let patched = calls::done_or_gone(calls.patch(&child.name, &Patch::Merge(patch)).await);
        patched.map_err(|error| failed("change", &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Cluster, Setup,
        namespaces::OurNamespaces,
        tests::{api_server, application},
    };
    use api::ObjectKind;
    use kube::{
        Client,
        runtime::{reflector, watcher::Event},
    };
    use plan::namespaces::Namespaces;
    use serde_json::{from_value, json};
    use std::future::{pending, ready};

    const ADDRESS: &str = "ui.example.com/ours/pi";

    /// Returns a worker of an operator that drives the namespaces `ours` and `theirs` and knows these applications, each
    /// with its namespace, name and uid.
    fn driven(applications: &[(&str, &str, &str)]) -> Applications {
        driven_at(api_server(|_| pending()), applications)
    }

    fn driven_at(client: Client, applications: &[(&str, &str, &str)]) -> Applications {
        let setup = Setup::of_tests(client, "ours");
        let (store, mut writer) = reflector::store();
        for (namespace, name, uid) in applications {
            let metadata = json!({"name": name, "namespace": namespace, "uid": uid});
            let application: Watched = from_value(application(&metadata)).unwrap();
            writer.apply_watcher_event(&Event::Apply(application));
        }
        let chosen = Namespaces::new(["ours", "theirs"].map(str::to_owned), None);
        let mut cluster = Cluster::new(&setup, store.clone());
        cluster.namespaces = Arc::new(OurNamespaces::new(chosen));
        Source::new(cluster, &setup.workloads.applications, store)
    }

    /// Records that an application requests these addresses for its web UI.
    fn requests(driven: &Applications, (namespace, name, uid): (&str, &str, &str), addresses: &[&str]) {
        let asked = AskedAddresses(addresses.iter().map(|&address| (address.to_owned(), true)).collect());
        let key = (namespace.to_owned(), name.to_owned());
        driven.memory.begin(uid);
        driven.memory.with(uid, |note| note.asked = Some((key, asked)));
    }

    /// An object of a kind that the operator does not watch would otherwise not be created again for the same run.
    #[tokio::test]
    async fn a_deleted_object_does_not_count_as_created() {
        let made = json!({"metadata": {"name": "pi-ui-svc"}});
        let driven = driven_at(api_server(move |_| ready((200, made.clone()))), &[("ours", "pi", "1")]);
        driven.memory.begin("1");
        let child = ObjectKind::SERVICE.named("pi-ui-svc");
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "pi-ui-svc"}});
        for (action, made_for) in [
            (AuxiliaryAction::Make(service), Some("run".to_owned())),
            (AuxiliaryAction::Delete(child.clone()), None),
        ] {
            driven.begin("1", &child, Vec::new(), Timestamp::UNIX_EPOCH);
            let about = ObjectReference {
                namespace: Some("ours".to_owned()),
                name: Some("pi".to_owned()),
                uid: Some("1".to_owned()),
                ..ObjectReference::default()
            };
            driven.carry_out(about, "run".to_owned(), &child, action, None).await;
            let tried = driven.memory.with("1", |note| note.tries[&child].clone());
            assert!(tried.ended.is_some());
            assert_eq!(tried.made_for, made_for);
        }
    }

    /// In an earlier version, an application that was deleted during the creation of its Ingress kept the address, so
    /// that the next application of its name did not get it.
    #[tokio::test]
    async fn an_address_is_claimed_as_long_as_its_application_exists() {
        let pi = ("ours", "pi", "1");
        for applications in [vec![], vec![pi]] {
            let driven = driven(&applications);
            requests(&driven, pi, &[ADDRESS]);
            let ingress = ObjectKind::INGRESS.named("pi-ui-ingress");
            let taken = driven.begin("1", &ingress, vec![ADDRESS.to_owned()], Timestamp::UNIX_EPOCH);
            assert_eq!(taken, None);
            let holder = driven.holder(&driven.memory.lock(), &[ADDRESS.to_owned()], true, "2");
            let complaint = "ui.example.com/ours/pi is the address of application pi in namespace ours: choose another one, or \
                             delete that application";
            assert_eq!(holder.as_deref(), (!applications.is_empty()).then_some(complaint));
        }
    }

    /// In an earlier version, a user who could create Ingresses in one namespace could deny the web UI of another
    /// namespace its address, with an Ingress whose owner did not exist.
    #[tokio::test]
    async fn an_ingress_takes_no_address_that_its_application_does_not_request() {
        let (pi, other, idle, asking, late) = ("1", "2", "3", "4", "7");
        for (what, owner, uid, holds) in [
            ("an owner that does not exist", "nobody", "0", false),
            ("the application that requests the address", "pi", pi, false),
            ("an application of the other namespace that requests the address too", "other", other, false),
            ("an application that requests no address, by an Ingress in its namespace", "idle", idle, false),
            ("another uid of an application that requests the address", "asking", "5", false),
            ("an application that requests the address in its own namespace", "asking", asking, true),
            ("an application that was not reconciled yet", "late", late, true),
        ] {
            let applications = [
                ("ours", "pi", pi),
                ("ours", "other", other),
                ("theirs", "idle", idle),
                ("theirs", "asking", asking),
                ("theirs", "late", late),
            ];
            let driven = driven(&applications);
            requests(&driven, applications[1], &[ADDRESS]);
            requests(&driven, applications[2], &[]);
            requests(&driven, applications[3], &[ADDRESS]);
            driven.cluster.auxiliary.apply_ingress(json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
                "metadata": {
                    "name": "bare", "namespace": "theirs", "uid": "6",
                    "labels": {"sparkoperator.k8s.io/submission-id": "none"},
                    "ownerReferences": [{
                        "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication",
                        "name": owner, "uid": uid, "controller": true,
                    }],
                },
                "spec": {"rules": [{"host": "ui.example.com", "http": {"paths": [{"path": "/ours/pi"}]}}]},
            }));
            let holder = driven.holder(&driven.memory.lock(), &[ADDRESS.to_owned()], true, pi);
            assert_eq!(holder.is_some(), holds, "{what}: {holder:?}");
        }
    }
}
