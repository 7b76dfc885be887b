//! Caches the parts of pods that the operator needs, by application. One watch updates the cache.

use super::{
    Key,
    application_index::ApplicationIndex,
    kept::{Keep, Kept},
    key,
    watch::Watching,
};
use api::{ExecutorState, Lenient, Role, names::label};
use futures::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, runtime::watcher::Event};
use parking_lot::RwLock;
use pods::PodSummary;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The pods of applications that the API server has reported.
#[derive(Debug, Default)]
pub struct PodIndex {
    pods: ApplicationIndex<PodSummary>,
    /// For each application, the last state of its latest driver that is gone. The event that reports the deletion may
    /// be the only event that contains the driver's outcome.
    departed: RwLock<BTreeMap<Key, Box<PodSummary>>>,
}

impl PodIndex {
    /// Waits until all pods that existed at the start are known: see [`ApplicationIndex::synced`].
    pub async fn synced(&self) {
        self.pods.synced().await;
    }

    /// Returns the pods of an application, by name, and the last state of its latest driver that is gone.
    pub fn of(&self, application: &Key) -> (BTreeMap<String, PodSummary>, Option<Box<PodSummary>>) {
        // In this order: a driver is recorded as departed before it leaves the index, so at least one of them has it.
        let pods = self.pods.of(application);
        (pods, self.departed.read().get(application).cloned())
    }

    /// Returns the number of running executors for each application that has any.
    pub fn running_executors(&self) -> Vec<(Key, u64)> {
        let index = self.pods.records.read();
        let runs = |pod: &&PodSummary| pod.is_executor_of(None) && pod.state() == ExecutorState::Running;
        let running = index.iter().map(|(key, pods)| (key, pods.values().filter(runs).count()));
        let some = running.filter(|(_, running)| *running > 0);
        some.map(|(key, running)| (key.clone(), u64::try_from(running).unwrap_or(u64::MAX))).collect()
    }

    /// Calls `each` with the pods of each other application of which at least one pod has a placement.
    pub(super) fn of_others(&self, application: &Key, each: &mut dyn FnMut(&[&PodSummary])) {
        for (of, pods) in self.pods.records.read().iter() {
            if of != application && pods.values().any(|pod| pod.placement().is_some()) {
                each(&pods.values().collect::<Vec<_>>());
            }
        }
    }

    /// Forgets the last driver of an application that does not exist any more. Keeps a driver of the application with
    /// the uid `namesake`, which has the name now.
    pub fn forget(&self, application: &Key, namesake: Option<&str>) {
        let mut departed = self.departed.write();
        let is_of_namesake = |pod: &PodSummary| namesake.is_some_and(|uid| pod.is_controlled_by(uid));
        if !departed.get(application).is_some_and(|pod| is_of_namesake(pod)) {
            departed.remove(application);
        }
    }

    /// Forgets the last drivers of all applications that do not exist any more.
    pub fn forget_others(&self, exists: impl Fn(&Key) -> bool) {
        self.departed.write().retain(|application, _| exists(application));
    }

    /// Follows all pods that have the operator's label; yields the applications whose pods have changed.
    pub fn follow(self: Arc<Self>, watching: &Watching) -> impl Stream<Item = Key> + Send + use<> {
        let selector = format!("{}=true", label::LAUNCHED_BY);
        watching
            .changes::<KeptPod>(&(), Some(&selector))
            .flat_map(move |event| stream::iter(self.apply(event)))
    }

    /// Applies one event of the watch. Returns the applications whose pods have changed.
    pub(super) fn apply(&self, event: Event<KeptPod>) -> BTreeSet<Key> {
        let keyed = |pod: KeptPod| Some(((pod.namespace()?, pod.kept.application.clone()?), pod.kept));
        let is_going = |application: &Key, pod: &PodSummary| {
            if pod.role == Some(Role::Driver) {
                let is_owned = |pod: &PodSummary| pod.is_of_application(&application.1);
                let mut departed = self.departed.write();
                // A pod that only has the labels of a driver does not hide how a driver ended.
                if is_owned(pod) || !departed.get(application).is_some_and(|known| is_owned(known)) {
                    departed.insert(application.clone(), Box::new(pod.clone()));
                }
            }
        };
        self.pods.apply(event, key, keyed, |pod| &pod.uid, is_going)
    }
}

/// A pod as the watch reads it.
pub(super) type KeptPod = Kept<Pod, PodSummary>;

impl Keep<Pod> for PodSummary {
    /// A pod that cannot be read has a record too: its metadata contains the application to which the pod belongs.
    fn of(pod: &Lenient<Pod>, _: &str) -> Self {
        pod.0.as_ref().map_or_else(|invalid| Self::of_metadata(&invalid.metadata), Self::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn driver(name: &str, application: &str) -> KeptPod {
        from_value(json!({"metadata": {
            "name": name, "namespace": "default",
            "labels": {"sparkoperator.k8s.io/app-name": application, "spark-role": "driver"},
        }}))
        .unwrap()
    }

    fn key(application: &str) -> Key {
        ("default".to_owned(), application.to_owned())
    }

    #[test]
    fn last_drivers_of_applications_that_do_not_exist_are_forgotten() {
        let index = PodIndex::default();
        for application in ["pi", "gone"] {
            index.apply(Event::Delete(driver(&format!("{application}-driver"), application)));
        }
        index.forget_others(|application| *application == key("pi"));
        assert!(index.of(&key("pi")).1.is_some() && index.of(&key("gone")).1.is_none());
    }

    #[test]
    fn a_pod_that_only_has_the_labels_of_a_driver_does_not_hide_how_a_driver_ended() {
        let index = PodIndex::default();
        let departed = |pod: KeptPod| {
            index.apply(Event::Delete(pod));
            index.of(&key("pi")).1.unwrap().name.clone()
        };
        let owned = json!([{
            "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication", "name": "pi", "uid": "u1",
            "controller": true,
        }]);
        let pod = json!({"metadata": {
            "name": "pi-driver", "namespace": "default", "ownerReferences": owned,
            "labels": {"sparkoperator.k8s.io/app-name": "pi", "spark-role": "driver"},
        }});
        assert_eq!(departed(driver("copy", "pi")), "copy");
        assert_eq!(departed(from_value(pod).unwrap()), "pi-driver");
        assert_eq!(departed(driver("copy", "pi")), "pi-driver");
    }
}
