//! Caches the parts of Services, Ingresses and PodGroups that the operator needs, by application. One watch for each
//! kind updates the cache.

use super::{
    ApplicationRef,
    application_index::{ApplicationIndex, ApplicationKey, Record, references},
    kept::{Keep, Kept},
    namespaced_watches,
    pod_groups::{Coscheduling, PodGroup, Volcano},
    watch::Watching,
};
use api::{Lenient, ObjectKey, ObjectKind, names::label};
use futures::{Stream, StreamExt, stream};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{core::v1::Service, networking::v1::Ingress},
};
use kube::{
    Resource,
    runtime::watcher::{self, Event},
};
use plan::{auxiliary::AuxiliaryObject, extension::Extensions, gang::GroupApi};
use serde::{Serialize, de::DeserializeOwned};
use std::{collections::BTreeSet, fmt::Debug, sync::Arc, time::Duration};
use tokio::{sync::watch as state, time::sleep};
use tracing::warn;

/// The pause before the next attempt to watch a kind that the cluster does not have, or that the operator may not
/// watch. After an admin has installed or allowed the kind, the watch begins within this time.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// The Services, Ingresses and PodGroups that the API server has reported.
#[derive(Debug)]
pub(super) struct AuxiliaryIndex {
    services: Arc<Kind>,
    ingresses: Arc<Kind>,
    /// The PodGroups of each batch scheduler that applications may name.
    groups: Vec<(GroupApi, Arc<Kind>)>,
}

/// All objects of one kind.
#[derive(Debug)]
struct Kind {
    kind: ObjectKind,
    objects: ApplicationIndex<AuxiliaryObject>,
    state: state::Sender<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The first list is not complete yet.
    Begins,
    /// The cluster does not have the kind, or the operator may not watch it: no watch reports its objects.
    Unwatched,
    Known,
}

impl AuxiliaryIndex {
    /// Creates an empty index of Services and Ingresses, and of the objects of `extensions`.
    pub(super) fn new(extensions: &Extensions) -> Self {
        let kind = |kind: ObjectKind| Arc::new(Kind::new(kind));
        let groups = extensions.watched().into_iter();
        let groups = groups.filter_map(|watched| Some((GroupApi::of(&watched)?, kind(watched))));
        Self {
            services: kind(ObjectKind::SERVICE),
            ingresses: kind(ObjectKind::INGRESS),
            groups: groups.collect(),
        }
    }

    fn kinds(&self) -> impl Iterator<Item = &Arc<Kind>> {
        [&self.services, &self.ingresses].into_iter().chain(self.groups.iter().map(|(_, kind)| kind))
    }

    /// Waits until all objects that existed at the start are known, or until it is clear that a kind cannot be watched.
    pub(super) async fn synced(&self) {
        for kind in self.kinds() {
            // The sender lives as long as `self`, so this wait cannot fail.
            drop(kind.state.subscribe().wait_for(|state| *state != State::Begins).await);
        }
    }

    /// Returns the objects of an application, and the kinds that are not watched.
    pub(super) fn of(&self, namespace: &str, application: &str) -> (Vec<AuxiliaryObject>, Vec<ObjectKind>) {
        let (mut there, mut unwatched) = (Vec::new(), Vec::new());
        for kind in self.kinds() {
            match *kind.state.borrow() {
                State::Known => there.extend(kind.objects.of(namespace, application).into_values()),
                State::Begins | State::Unwatched => unwatched.push(kind.kind.clone()),
            }
        }
        (there, unwatched)
    }

    /// Returns the first of `addresses` that an Ingress of another application has, with the namespace and name of that
    /// application. `uid` is the application that asks for the addresses. Whoever may create Ingresses can write any
    /// owner into one; so only the Ingress of an application counts that `takes` the address, too: it is asked with the
    /// application's key and uid.
    pub(super) fn holder(
        &self,
        addresses: &[String],
        uid: &str,
        takes: impl Fn(&ApplicationKey, &str, &str) -> bool,
    ) -> Option<(String, ApplicationKey)> {
        let ingresses = self.ingresses.objects.read();
        addresses.iter().find_map(|address| {
            let has = |(key, object): &(&ApplicationKey, &AuxiliaryObject)| {
                object.owner != uid
                    && !object.terminating
                    && object.addresses.contains(address)
                    && takes(key, &object.owner, address)
            };
            let mut all = ingresses.iter().flat_map(|(key, of)| of.values().map(move |object| (key, object)));
            all.find(has).map(|(key, _)| (address.clone(), key.clone()))
        })
    }

    /// Whether a watch reports the changes of this object.
    pub(super) fn watches(&self, child: &ObjectKey) -> bool {
        let kind = self.kinds().find(|kind| kind.kind == child.kind);
        kind.is_some_and(|kind| *kind.state.borrow() == State::Known)
    }

    /// Follows all kinds; yields the applications whose objects have changed.
    pub(super) fn follow(&self, watching: &Watching) -> impl Stream<Item = ApplicationRef> + Send + use<> {
        let created_by_operator = format!("{}=true", label::CREATED_BY);
        let ours = Some(&*created_by_operator);
        // The label of the submission id is the only label by which the Ingresses of Kubeflow's operator differ from
        // Ingresses of other owners.
        let ingresses = watching.events(Some(label::SUBMISSION_ID));
        let mut changes = vec![
            changes::<Service>(watching.events(ours), Arc::clone(&self.services)).boxed(),
            changes::<Ingress>(ingresses, Arc::clone(&self.ingresses)).boxed(),
        ];
        for (api, kind) in &self.groups {
            let kind = Arc::clone(kind);
            changes.push(match api {
                GroupApi::Volcano => self::changes::<PodGroup<Volcano>>(watching.events(ours), kind).boxed(),
                GroupApi::Coscheduling => {
                    self::changes::<PodGroup<Coscheduling>>(watching.events(ours), kind).boxed()
                }
                // Not watched: the pods of these groups report what the group waits for.
                GroupApi::Kubernetes(_) => continue,
            });
        }
        stream::select_all(changes)
    }
}

/// The conditions on the types of objects that are followed.
trait Followed:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
    + Send
    + 'static
{
}

impl Followed for Service {}
impl Followed for Ingress {}
impl Followed for PodGroup<Volcano> {}
impl Followed for PodGroup<Coscheduling> {}

/// An object with the name of its application; none if no application controls it or if it cannot be read: the operator
/// does not repair it and shows it in no status.
type OfApplication = Option<(String, AuxiliaryObject)>;

impl<K: Followed> Keep<K> for OfApplication {
    fn of(object: &Lenient<K>, _: Box<str>) -> Self {
        let json = serde_json::to_value(object.0.as_ref().ok()?).expect("an object is JSON");
        AuxiliaryObject::of(&ObjectKind { api_version: K::api_version(&()), kind: K::kind(&()) }, &json)
    }
}

/// Applies the events of a watch to `kind`; yields the applications whose objects have changed.
fn changes<K: Followed>(
    events: impl Stream<Item = watcher::Result<Event<Kept<K, OfApplication>>>> + Send,
    kind: Arc<Kind>,
) -> impl Stream<Item = ApplicationRef> + Send {
    let missing = Arc::clone(&kind);
    let events = events.filter_map(move |event| {
        let unwatched = event.as_ref().is_err_and(|error| missing.is_missing(error));
        async move {
            if unwatched {
                // The watch is not polled again before this pause is over.
                sleep(LOOK_AGAIN).await;
            }
            event.ok()
        }
    });
    events.flat_map(move |event| stream::iter(references(kind.apply(event))))
}

impl Record for AuxiliaryObject {
    fn name(&self) -> &str {
        &self.child.name
    }

    fn uid(&self) -> &str {
        &self.uid
    }
}

impl Kind {
    fn new(kind: ObjectKind) -> Self {
        Self { kind, objects: ApplicationIndex::default(), state: state::Sender::new(State::Begins) }
    }

    /// Handles a failure of the watch. Returns whether the kind cannot be watched at all; in that case `synced` does
    /// not wait for the kind any more.
    fn is_missing(&self, error: &watcher::Error) -> bool {
        let is_missing = namespaced_watches::is_missing(error);
        if is_missing {
            // The watch is retried for ever, and the failure is logged once.
            if self.state.send_replace(State::Unwatched) != State::Unwatched {
                warn!(kind = %self.kind, %error, "not watched: what becomes of them is not known, nor mended");
            }
        } else {
            warn!(kind = %self.kind, %error, "the watch is retried");
        }
        is_missing
    }

    /// Applies one event of the watch. Returns the applications whose objects have changed.
    fn apply<K: Followed>(&self, event: Event<Kept<K, OfApplication>>) -> BTreeSet<ApplicationKey> {
        let is_complete = matches!(event, Event::InitDone);
        let keyed = |object: Kept<K, OfApplication>| {
            let namespace = object.meta().namespace.clone()?;
            let (application, auxiliary) = object.kept?;
            Some(((namespace, application), auxiliary))
        };
        let changed = self.objects.apply(event, keyed, |_, _| {});
        if is_complete {
            self.state.send_replace(State::Known);
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status as ApiStatus;

    #[test]
    fn a_kind_that_is_not_there_is_waited_for_by_nobody_and_a_busy_api_server_by_all() {
        let failed = |code: u16| {
            let status = ApiStatus { code, ..ApiStatus::failure("404 page not found", "in no known words") };
            watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)))
        };
        let kind = Kind::new(ObjectKind::INGRESS);
        assert!(!kind.is_missing(&failed(503)));
        assert_eq!(*kind.state.borrow(), State::Begins);
        for code in [403, 404] {
            assert!(kind.is_missing(&failed(code)));
            assert_eq!(*kind.state.borrow(), State::Unwatched);
        }
        kind.apply::<Ingress>(Event::InitDone);
        assert_eq!(*kind.state.borrow(), State::Known);
    }
}
