//! Caches the parts of Services, Ingresses and objects of extensions that the operator needs, by application. One watch for
//! each kind updates the cache.

use super::{
    Key,
    application_index::{ApplicationIndex, State},
    kept::Kept,
    key, namespaced_watches,
    watch::Watching,
};
use api::{ObjectKey, ObjectKind, names::label};
use futures::{
    Stream, StreamExt, future,
    stream::{self, BoxStream},
};
use kube::{
    Resource,
    core::PartialObjectMeta,
    runtime::watcher::{self, Event},
};
use plan::{auxiliary::AuxiliaryObject, extension::Extensions};
use serde_json::Value;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::time::sleep;
use tracing::warn;
use work::caught_now;

/// The pause before the next attempt to watch a kind that the cluster does not have, or that the operator may not
/// watch. After an admin has installed or allowed the kind, the watch begins within this time.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// The Services, Ingresses and objects of extensions that the API server has reported.
#[derive(Debug)]
pub(super) struct AuxiliaryIndex {
    kinds: Vec<Arc<Kind>>,
    pub(super) extensions: Extensions,
}

/// All objects of one kind.
#[derive(Debug)]
struct Kind {
    kind: ObjectKind,
    extensions: Extensions,
    objects: ApplicationIndex<AuxiliaryObject>,
}

impl AuxiliaryIndex {
    /// Creates an empty index of Services and Ingresses, and of the objects of `extensions`.
    pub(super) fn new(extensions: &Extensions) -> Self {
        let of_extensions = extensions.iter().flat_map(|extension| extension.watched());
        let kinds = [ObjectKind::SERVICE, ObjectKind::INGRESS].into_iter().chain(of_extensions);
        let kinds = kinds.map(|kind| Arc::new(Kind::new(kind, extensions.clone()))).collect();
        Self { kinds, extensions: extensions.clone() }
    }

    fn of_kind(&self, kind: &ObjectKind) -> Option<&Arc<Kind>> {
        self.kinds.iter().find(|known| known.kind == *kind)
    }

    /// Waits for each kind: see [`ApplicationIndex::synced`].
    pub(super) async fn synced(&self) {
        for kind in &self.kinds {
            kind.objects.synced().await;
        }
    }

    /// Returns the objects of an application, and the kinds that are not watched.
    pub(super) fn of(&self, application: &Key) -> (Vec<AuxiliaryObject>, Vec<ObjectKind>) {
        let (mut there, mut unwatched) = (Vec::new(), Vec::new());
        for kind in &self.kinds {
            match *kind.objects.state.borrow() {
                State::Known => there.extend(kind.objects.of(application).into_values()),
                State::Begins | State::Unwatched => unwatched.push(kind.kind.clone()),
            }
        }
        (there, unwatched)
    }

    /// Returns the first of `addresses` (host and path) that an Ingress of an application has, with the namespace and
    /// name of that application. Users who may create Ingresses can write any owner into them, so an Ingress counts
    /// only if its owner `takes` the address: that is called with the owner's key, the owner's uid and the address.
    pub(super) fn holder(
        &self,
        addresses: &[String],
        takes: impl Fn(&Key, &str, &str) -> bool,
    ) -> Option<(String, Key)> {
        let ingresses = self.of_kind(&ObjectKind::INGRESS)?.objects.records.read();
        addresses.iter().find_map(|address| {
            let has = |(key, object): &(&Key, &AuxiliaryObject)| {
                !object.terminating
                    && object.addresses.contains(address)
                    && takes(key, &object.owner, address)
            };
            let mut all = ingresses.iter().flat_map(|(key, of)| of.values().map(move |object| (key, object)));
            all.find(has).map(|(key, _)| (address.clone(), key.clone()))
        })
    }

    /// Whether a watch reports the changes of this object.
    pub(super) fn watches(&self, child: &ObjectKey) -> bool {
        self.of_kind(&child.kind).is_some_and(|kind| *kind.objects.state.borrow() == State::Known)
    }

    /// Follows all kinds; yields the applications whose objects have changed.
    pub(super) fn follow(&self, watching: &Watching) -> impl Stream<Item = Key> + Send + use<> {
        let all = self.kinds.iter().map(|kind| {
            // The label of the submission id is the only label by which the Ingresses of Kubeflow's operator differ from
            // Ingresses of other owners.
            let is_ingress = kind.kind == ObjectKind::INGRESS;
            let created_by_operator = format!("{}=true", label::CREATED_BY);
            let selector = if is_ingress { label::SUBMISSION_ID.to_owned() } else { created_by_operator };
            let (watching, resource) = (watching.clone(), kind.kind.resource());
            let watch = move || watching.events::<Object>(&resource, Some(selector.as_str())).boxed();
            changes(watch, Arc::clone(kind)).boxed()
        });
        stream::select_all(all)
    }
}

/// An object as it is read from the API server: its text.
pub(super) type Object = Kept<PartialObjectMeta, Box<str>>;
type Events = BoxStream<'static, watcher::Result<Event<Object>>>;

/// Returns the name of the application that controls an object of this kind, and the part of the object that the
/// operator needs. Returns `None` for an object that no application controls, or that cannot be read: such an object is
/// not repaired, and is in no status.
pub(super) fn read(
    kind: &ObjectKind,
    object: &Object,
    extensions: &Extensions,
) -> Option<(String, AuxiliaryObject)> {
    let json: Value = serde_json::from_str(&object.kept).ok()?;
    // A panic would end the watch of all objects.
    caught_now(|| AuxiliaryObject::of(kind, &json, extensions)).ok().flatten()
}

/// Applies the events of the watch that `watch` begins to `kind`; yields the applications whose objects have changed.
/// If the kind cannot be watched, a new watch begins after a pause.
fn changes(watch: impl Fn() -> Events + Send, kind: Arc<Kind>) -> impl Stream<Item = Key> + Send {
    let begin = (watch, Arc::clone(&kind), None::<Events>);
    let events = stream::unfold(begin, async |(watch, kind, running)| {
        let mut running = running.unwrap_or_else(&watch);
        let event = running.next().await?;
        if event.as_ref().is_err_and(|error| kind.is_missing(error)) {
            // Otherwise the watch of another namespace, which is not polled during the pause, would keep the permit for
            // a page, for which all lists of the process wait.
            drop(running);
            sleep(LOOK_AGAIN).await;
            return Some((None, (watch, kind, None)));
        }
        Some((event.ok(), (watch, kind, Some(running))))
    });
    let events = events.filter_map(future::ready);
    events.flat_map(move |event| stream::iter(kind.apply(event)))
}

impl Kind {
    fn new(kind: ObjectKind, extensions: Extensions) -> Self {
        Self { kind, extensions, objects: ApplicationIndex::default() }
    }

    /// Handles a failure of the watch. Returns whether the kind cannot be watched at all; in that case `synced` does
    /// not wait for the kind any more.
    fn is_missing(&self, error: &watcher::Error) -> bool {
        let is_missing = namespaced_watches::is_missing(error);
        if is_missing {
            // The watch is retried for ever, and the failure is logged once.
            if self.objects.state.send_replace(State::Unwatched) != State::Unwatched {
                warn!(kind = %self.kind, %error, "not watched: objects of this kind are neither observed nor repaired");
            }
        } else {
            warn!(kind = %self.kind, %error, "the watch is retried");
        }
        is_missing
    }

    /// Applies one event of the watch. Returns the applications whose objects have changed.
    fn apply(&self, event: Event<Object>) -> BTreeSet<Key> {
        let keyed = |object: Object| {
            let namespace = object.meta().namespace.clone()?;
            let (application, auxiliary) = read(&self.kind, &object, &self.extensions)?;
            Some(((namespace, application), auxiliary))
        };
        self.objects.apply(event, key, keyed, |object| &object.uid, |_, _| {})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status as ApiStatus;
    use parking_lot::Mutex;
    use serde_json::json;
    use std::{pin::pin, sync::Weak};
    use tokio::time::timeout;

    impl AuxiliaryIndex {
        /// Applies what the watch reports of an Ingress that was created or has changed.
        pub(crate) fn apply_ingress(&self, ingress: Value) {
            let object: Object = serde_json::from_value(ingress).unwrap();
            self.of_kind(&ObjectKind::INGRESS).unwrap().apply(Event::Apply(object));
        }
    }

    fn failed(code: u16) -> watcher::Error {
        let status = ApiStatus { code, ..ApiStatus::failure("404 page not found", "in no known words") };
        watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn an_object_is_read_if_it_is_not_too_large_and_an_application_owns_it() {
        let list = |count: usize| vec!["{}"; count].join(",");
        for (owner, ports, managed, is_read) in [
            ("SparkApplication", 3, 400_000, true),
            ("SparkApplication", 300_000, 0, false),
            ("ReplicaSet", 3, 0, false),
        ] {
            let owner =
                json!({"apiVersion": "a/v1", "kind": owner, "name": "pi", "uid": "1", "controller": true});
            let (managed, ports) = (list(managed), list(ports));
            let object = format!(
                r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"a","ownerReferences":[{owner}],
                    "managedFields":[{managed}]}},"spec":{{"ports":[{ports}]}}}}"#
            );
            let object: Object = serde_json::from_str(&object).unwrap();
            let read = read(&ObjectKind::SERVICE, &object, &Extensions::default());
            assert_eq!(read.map(|(application, _)| application), is_read.then(|| "pi".to_owned()));
        }
    }

    /// In an earlier version, if several namespaces were named and one kind was not installed, each page of each list
    /// took a minute.
    #[tokio::test(start_paused = true)]
    async fn a_failed_watch_is_dropped_before_the_pause() {
        let watches = Arc::<Mutex<Vec<Weak<()>>>>::default();
        let begun = Arc::clone(&watches);
        let watch = move || {
            let mark = Arc::new(());
            begun.lock().push(Arc::downgrade(&mark));
            let events = stream::iter([Err(failed(404))]).chain(stream::pending());
            events.zip(stream::repeat(mark)).map(|(event, _)| event).boxed()
        };
        let kind = Arc::new(Kind::new(ObjectKind::INGRESS, Extensions::default()));
        let mut changes = pin!(changes(watch, kind));
        for count in 1..=3 {
            let pause = if count == 1 { LOOK_AGAIN / 2 } else { LOOK_AGAIN };
            assert!(timeout(pause, changes.next()).await.is_err());
            let watches = watches.lock();
            assert_eq!(
                (watches.len(), watches.iter().any(|watch| watch.upgrade().is_some())),
                (count, false)
            );
        }
    }

    #[test]
    fn synced_waits_for_a_busy_api_server_but_not_for_a_missing_kind() {
        let kind = Kind::new(ObjectKind::INGRESS, Extensions::default());
        assert!(!kind.is_missing(&failed(503)));
        assert_eq!(*kind.objects.state.borrow(), State::Begins);
        for code in [403, 404] {
            assert!(kind.is_missing(&failed(code)));
            assert_eq!(*kind.objects.state.borrow(), State::Unwatched);
        }
        kind.apply(Event::InitDone);
        assert_eq!(*kind.objects.state.borrow(), State::Known);
    }
}
