//! Reduces the objects of a watch to what the operator needs of them, each as soon as it is decoded: of a page of a list,
//! one object at a time is whole in memory, and what stays of it is not much more than its text.

use super::{
    Cluster,
    error::Error,
    events::reference,
    schedule_owner::{Owner, child},
    watch::Readable,
};
use api::{ConnectAccess, Lenient, ScheduledSparkApplication, SparkApplication, SparkConnect, State};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Resource,
    core::{NamespaceResourceScope, PartialObjectMeta, error_boundary::InvalidObject},
};
use plan::{auxiliary::controlling_application, events::invalid};
use schedules::Child;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap, fmt::Debug, marker::PhantomData, sync::Arc};
use tokio::sync::{Semaphore, SemaphorePermit};
use work::{Turn, caught_now};

/// The part of an object of the kind `K` that is kept in memory: its metadata, or what is needed of it, and `T`.
#[derive(Clone, Debug)]
pub struct Kept<K, T> {
    metadata: ObjectMeta,
    pub(super) kept: T,
    /// The object itself if its kind has [`Keep::IS_WHOLE`], unless it is too large: as its text, which is parsed while the
    /// object is worked on. A tree of it takes four times the memory, and of some objects a hundred times. If the object
    /// could not be read, why not.
    text: Result<Option<Arc<Text>>, String>,
    kind: PhantomData<fn() -> K>,
}

/// A kind of objects that are reconciled.
pub(super) trait Reconciled:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl Reconciled for ScheduledSparkApplication {}
impl Reconciled for SparkApplication {}
impl Reconciled for SparkConnect {}

/// A part of objects of the kind `K` that is kept in memory.
pub(super) trait Keep<K>: Clone + Debug + Send + 'static {
    /// Whether the object itself is kept, too.
    const IS_WHOLE: bool = false;

    /// Returns what is kept of `object`, whose text is `text`.
    fn of(object: &Lenient<K>, text: &str) -> Self;

    /// Returns the part of the metadata that is kept, by default what tells objects apart.
    fn metadata(all: &ObjectMeta) -> ObjectMeta {
        of_any(all)
    }
}

/// Up to how many bytes the text of an object is kept in any case. An ordinary one has a tenth of it.
const ORDINARY_TEXT: usize = 64 << 10;
/// Up to how many bytes of text any number of objects are worked on at once: a tree of this text may take 2 MB.
const SMALL_TEXT: usize = 32 << 10;
/// The number of objects with longer texts that are worked on at once.
pub(super) const AT_ONCE: usize = 4;
/// The longest text that is kept if there is room, in bytes: the status of an application with a thousand executors has
/// 55 KiB. A larger object is fetched while it is worked on: etcd stores as many of 1 MB as anybody likes.
const LONGEST_TEXT: usize = 512 << 10;
/// The most bytes that kept texts which are not ordinary have together.
const MOST_TEXT: usize = 16 << 20;
/// The room for them.
static LARGE_TEXTS: Semaphore = Semaphore::const_new(MOST_TEXT);
/// The most bytes of labels that are kept of an object: nobody counts applications by labels of which there are more.
const MOST_LABELS: usize = 16 << 10;

/// The text of an object, with its room if it is not ordinary.
#[derive(Debug)]
struct Text {
    text: Box<str>,
    _room: Option<SemaphorePermit<'static>>,
}

impl Text {
    /// Returns the text if it may be kept.
    fn kept(text: Box<str>) -> Option<Self> {
        if text.len() <= ORDINARY_TEXT {
            return Some(Self { text, _room: None });
        }
        let bytes = u32::try_from(text.len()).ok().filter(|_| text.len() <= LONGEST_TEXT)?;
        LARGE_TEXTS.try_acquire_many(bytes).ok().map(|room| Self { text, _room: Some(room) })
    }
}

/// The facts that are asked of all applications at once.
#[derive(Clone, Debug)]
pub struct KeptApplication {
    /// Unknown if the application cannot be read.
    pub(super) state: State,
    pub(super) executor_labels: BTreeMap<String, String>,
    /// The schedule to which the application refers, and what that needs to know of it.
    pub(super) child: Option<(Owner, Child)>,
}

impl KeptApplication {
    /// Whether the application refers to this schedule.
    pub(super) fn is_of(&self, schedule: &Owner) -> bool {
        self.child.as_ref().is_some_and(|(owner, _)| owner == schedule)
    }
}

/// The facts that are asked of all SparkConnects at once.
#[derive(Clone, Debug)]
pub struct KeptConnect {
    /// When it was created: of two that have the same port, the older one keeps it.
    pub(super) created: Option<Timestamp>,
    /// The port of the gateway in the status.
    pub(super) gateway_port: Option<i32>,
    pub(super) access: Option<ConnectAccess>,
}

/// Returns what tells objects apart.
fn of_any(all: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: all.name.clone(),
        namespace: all.namespace.clone(),
        uid: all.uid.clone(),
        resource_version: all.resource_version.clone(),
        ..ObjectMeta::default()
    }
}

/// Returns the labels, or none if they are more than anybody writes.
fn few(labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let bytes: usize = labels.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes <= MOST_LABELS { labels.clone() } else { BTreeMap::new() }
}

/// Nothing but the schedule itself.
impl Keep<ScheduledSparkApplication> for () {
    const IS_WHOLE: bool = true;

    fn of(_: &Lenient<ScheduledSparkApplication>, _: &str) -> Self {}
}

/// The text of an object of any kind, for those who make something smaller of it. Empty if no application controls the
/// object, or if it is larger than any that the operator makes.
impl Keep<PartialObjectMeta> for Box<str> {
    fn of(object: &Lenient<PartialObjectMeta>, text: &str) -> Self {
        let owners = object.meta().owner_references.as_deref().unwrap_or_default();
        let is_of_use = controlling_application(owners).is_some() && text.len() <= LONGEST_TEXT;
        if is_of_use { text.into() } else { Self::default() }
    }
}

impl Keep<SparkApplication> for KeptApplication {
    const IS_WHOLE: bool = true;

    fn of(application: &Lenient<SparkApplication>, _: &str) -> Self {
        let read = application.0.as_ref();
        let state = read.map_or(State::Unknown, SparkApplication::state);
        let labels = read.map(|application| few(&application.spec.executor.pod.labels));
        Self { state, executor_labels: labels.unwrap_or_default(), child: child(application.meta(), state) }
    }

    /// Returns what metrics need of an application's metadata, and whether it is being deleted.
    fn metadata(all: &ObjectMeta) -> ObjectMeta {
        ObjectMeta {
            deletion_timestamp: all.deletion_timestamp.clone(),
            labels: all.labels.as_ref().map(few),
            ..of_any(all)
        }
    }
}

impl Keep<SparkConnect> for KeptConnect {
    const IS_WHOLE: bool = true;

    fn of(connect: &Lenient<SparkConnect>, _: &str) -> Self {
        let read = connect.0.as_ref().ok();
        let created = connect.meta().creation_timestamp.as_ref().map(|time| time.0);
        let gateway_port = read.and_then(|connect| Some(connect.status.as_ref()?.gateway.as_ref()?.port));
        Self { created, gateway_port, access: read.and_then(|connect| connect.spec.server.access) }
    }
}

impl<K, T> Kept<K, T> {
    /// Whether the object has to be fetched to be read.
    pub(super) fn is_fetched(&self) -> bool {
        matches!(self.text, Ok(None))
    }
}

impl Cluster {
    /// Returns an object with its turn, for which a large one waits. None if it cannot be read, which an event tells; or if
    /// it is too large to be kept, and gone when it is fetched: the watch will report that.
    ///
    /// # Errors
    ///
    /// If the API server does not answer.
    pub(super) async fn whole<K: Reconciled, T>(
        &self,
        watched: &Kept<K, T>,
        now: Timestamp,
    ) -> Result<Option<(K, Option<Turn>)>, Error> {
        let namespace = watched.metadata.namespace.as_deref().unwrap_or_default();
        let is_large =
            |text: &Option<Arc<Text>>| text.as_ref().is_none_or(|text| text.text.len() > SMALL_TEXT);
        let needs_turn = watched.text.as_ref().is_ok_and(is_large);
        let turn = if needs_turn { self.large.turn(None, namespace).await } else { None };
        let read = match &watched.text {
            Err(error) => Err(error.clone()),
            Ok(Some(text)) => Ok(serde_json::from_str(&text.text).expect("it was parsed before")),
            Ok(None) => {
                let api = Api::<Lenient<K>>::namespaced(self.client.clone(), namespace);
                let found = api.get_opt(watched.metadata.name.as_deref().unwrap_or_default()).await;
                let found = found.map_err(Error::api("GET of a large object"))?;
                let Some(found) = found else { return Ok(None) };
                found.0.map_err(|unread| unread.error)
            }
        };
        match read {
            Ok(object) => Ok(Some((object, turn))),
            Err(error) => {
                self.send_event_once(reference(watched, &()), &invalid(&error), now).await;
                Ok(None)
            }
        }
    }
}

impl<'de, K: Resource + DeserializeOwned, T: Keep<K>> Deserialize<'de> for Kept<K, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (object, text) = Lenient::<K>::parse(&Box::<RawValue>::deserialize(deserializer)?);
        let metadata = T::metadata(object.meta());
        let unreadable = |error| Box::new(InvalidObject { error, metadata: object.meta().clone() });
        let read = match object.0 {
            // The watch of all objects ends with what is not caught here.
            Ok(_) => caught_now(|| T::of(&object, &text)).map_err(|bug| unreadable(bug.to_string())),
            Err(invalid) => Err(invalid),
        };
        let (kept, text) = match read {
            Ok(kept) => (kept, Ok(T::IS_WHOLE.then_some(text).and_then(Text::kept).map(Arc::new))),
            // Nothing is made of the text of an object that cannot be read.
            Err(invalid) => {
                let error = invalid.error.clone();
                (T::of(&Lenient(Err(invalid)), ""), Err(error))
            }
        };
        Ok(Self { metadata, kept, text, kind: PhantomData })
    }
}

impl<K: Resource, T> Resource for Kept<K, T> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dynamic)
    }

    fn group(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::group(dynamic)
    }

    fn version(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::version(dynamic)
    }

    fn plural(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl<K, T> Readable for Kept<K, T>
where
    K: Resource<DynamicType: Clone> + DeserializeOwned + Debug + Clone + 'static,
    T: Keep<K>,
{
    fn error(&self) -> Option<&str> {
        self.text.as_ref().err().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Setup, tests::api_server};
    use api::names::annotation;
    use k8s_openapi::api::core::v1::Pod;
    use kube::runtime::reflector;
    use serde_json::json;
    use std::{
        future::ready,
        sync::atomic::{AtomicUsize, Ordering},
    };

    #[test]
    fn only_the_text_of_what_an_application_controls_is_kept() {
        let kept = |owner: &str, padding: usize| {
            let metadata = json!({
                "name": "a", "annotations": {"a": "a".repeat(padding)},
                "ownerReferences": [{"apiVersion": "v1", "kind": owner, "name": "a", "uid": "a", "controller": true}],
            });
            let object = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata});
            let kept: Kept<PartialObjectMeta, Box<str>> = serde_json::from_str(&object.to_string()).unwrap();
            !kept.kept.is_empty()
        };
        assert!(kept("SparkApplication", 256 << 10));
        assert!(!kept("SparkApplication", LONGEST_TEXT) && !kept("ReplicaSet", 0));
    }

    #[derive(Clone, Debug)]
    struct Broken;

    impl Keep<Pod> for Broken {
        fn of(pod: &Lenient<Pod>, _: &str) -> Self {
            assert!(pod.0.is_err(), "as the test wants it");
            Self
        }
    }

    #[test]
    fn an_object_that_meets_a_bug_is_one_that_cannot_be_read() {
        let pod = r#"{"metadata":{"name":"pi","namespace":"team-a","uid":"u","resourceVersion":"7"}}"#;
        let kept: Kept<Pod, Broken> = serde_json::from_str(pod).unwrap();
        assert_eq!(kept.error(), Some("a bug of the operator: as the test wants it"));
        assert_eq!(
            (kept.metadata.name.as_deref(), kept.metadata.resource_version.as_deref()),
            (Some("pi"), Some("7"))
        );
    }

    #[tokio::test]
    async fn a_large_application_is_not_kept_but_fetched() {
        let application = |argument: &str| {
            let labels = BTreeMap::from([("team", argument)]);
            json!({
                "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication",
                "metadata": {
                    "name": "pi", "namespace": "team-a", "uid": "u", "resourceVersion": "7", "labels": labels,
                    "annotations": {"a": argument, annotation::TRIGGER: "now"}, "managedFields": [{"manager": argument}],
                    "ownerReferences": [{
                        "apiVersion": "v1", "kind": "ScheduledSparkApplication", "name": "nightly", "uid": "s",
                    }],
                },
                "spec": {"type": "Scala", "arguments": [argument], "driver": {}, "executor": {"labels": labels}},
            })
        };
        let fetched = Arc::new(AtomicUsize::new(0));
        let large = application(&"x".repeat(LONGEST_TEXT / 3));
        let (counted, there) = (Arc::clone(&fetched), large.clone());
        let client = api_server(move |request| {
            let path = request.uri().path();
            assert!(path.ends_with("/namespaces/team-a/sparkapplications/pi"), "{path}");
            counted.fetch_add(1, Ordering::Relaxed);
            ready((200, there.clone()))
        });
        let setup = Setup::of_tests(client, "team-a");
        let cluster = Cluster::new(&setup, reflector::store().0);
        for (object, fetches) in [(application("x"), 0), (large, 1)] {
            let kept: Kept<SparkApplication, KeptApplication> =
                serde_json::from_str(&object.to_string()).unwrap();
            let size = format!("{kept:?}").len();
            assert!(size < 4 << 10, "{size} bytes are kept");
            assert_eq!(kept.kept.child.as_ref().unwrap().1.trigger.as_deref(), Some("now"));
            let (read, _turn) = cluster.whole(&kept, Timestamp::UNIX_EPOCH).await.unwrap().unwrap();
            assert_eq!(json!(read.spec.arguments), object["spec"]["arguments"]);
            assert_eq!(cluster.large.free(), AT_ONCE - fetches);
            assert_eq!((fetched.load(Ordering::Relaxed), kept.is_fetched()), (fetches, fetches > 0));
        }
        let text = |bytes| Text::kept("x".repeat(bytes).into());
        let texts: Vec<_> = (0..200).filter_map(|_| text(LONGEST_TEXT)).collect();
        assert_eq!(texts.len(), MOST_TEXT / LONGEST_TEXT, "they have room together");
        assert!(text(ORDINARY_TEXT).is_some(), "an ordinary one always has");
        drop(texts);
        assert_eq!(LARGE_TEXTS.available_permits(), MOST_TEXT);
    }
}
