//! Reduces each object of a watch to the parts that the operator needs, as soon as it is decoded: of a page of a list,
//! only one object at a time is in memory as a whole, and the kept part is not much larger than the object's text.

use super::{
    Cluster,
    error::Error,
    events::reference,
    schedule_owner::{Owner, child},
    watch::Readable,
};
use api::{
    ConnectAccess, Identity, Lenient, ScheduledSparkApplication, SparkApplication, SparkConnect, State,
};
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

/// The part of an object of the kind `K` that is kept in memory: the needed fields of its metadata, and `T`.
#[derive(Clone, Debug)]
pub struct Kept<K, T> {
    metadata: ObjectMeta,
    pub(super) kept: T,
    /// The text of the whole object if its kind has [`Keep::IS_WHOLE`], unless the text is too long. It is parsed for
    /// each reconcile, because a parsed object takes four times the memory, and some a hundred times. If the object
    /// could not be read, the reason.
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

    /// Returns the part of the metadata that is kept, by default the fields that identify an object.
    fn metadata(all: &ObjectMeta) -> ObjectMeta {
        identity(all)
    }
}

/// Texts of up to so many bytes are always kept. An ordinary text has a tenth of that.
const ORDINARY_TEXT: usize = 64 << 10;
/// Any number of objects with texts of up to so many bytes may be worked on at once: parsed, such a text takes up to 2
/// MB.
const SMALL_TEXT: usize = 32 << 10;
/// The maximum number of objects with longer texts that are worked on at once.
pub(super) const AT_ONCE: usize = 4;
/// The maximum length of a text that is kept if there is room, in bytes: the status of an application with a thousand
/// executors has 55 KiB. A larger object is fetched for each reconcile: users may store any number of objects of 1 MB
/// in etcd.
const LONGEST_TEXT: usize = 512 << 10;
/// The maximum size of all kept texts together that are longer than [`ORDINARY_TEXT`], in bytes.
const MOST_TEXT: usize = 16 << 20;
/// The permits for them: one for each byte of [`MOST_TEXT`].
static LARGE_TEXTS: Semaphore = Semaphore::const_new(MOST_TEXT);
/// The maximum size of the labels that are kept of an object, in bytes. Metrics need fewer.
const MOST_LABELS: usize = 16 << 10;

/// The text of an object, with its permits if it is longer than [`ORDINARY_TEXT`].
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

/// The facts about an application that are needed while the object is not parsed: for metrics, and for its schedule.
#[derive(Clone, Debug)]
pub struct KeptApplication {
    /// Unknown if the application cannot be read.
    pub(super) state: State,
    pub(super) executor_labels: BTreeMap<String, String>,
    /// The schedule to which the application refers, and the facts about the application that the schedule needs.
    pub(super) child: Option<(Owner, Child)>,
}

impl KeptApplication {
    /// Whether the application refers to this schedule.
    pub(super) fn is_of(&self, schedule: &Owner) -> bool {
        self.child.as_ref().is_some_and(|(owner, _)| owner == schedule)
    }
}

/// The facts about a SparkConnect that are needed while the object is not parsed: for the ports of the gateway.
#[derive(Clone, Debug)]
pub struct KeptConnect {
    /// When it was created: of two that have the same port, the older one keeps it.
    pub(super) created: Option<Timestamp>,
    /// The port of the gateway in the status.
    pub(super) gateway_port: Option<i32>,
    pub(super) access: Option<ConnectAccess>,
}

/// Returns the fields that identify an object.
fn identity(all: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: all.name.clone(),
        namespace: all.namespace.clone(),
        uid: all.uid.clone(),
        resource_version: all.resource_version.clone(),
        ..ObjectMeta::default()
    }
}

/// Returns the labels; empty if they have more than [`MOST_LABELS`] bytes.
fn bounded(labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let bytes: usize = labels.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes <= MOST_LABELS { labels.clone() } else { BTreeMap::new() }
}

/// Keeps nothing but the schedule itself.
impl Keep<ScheduledSparkApplication> for () {
    const IS_WHOLE: bool = true;

    fn of(_: &Lenient<ScheduledSparkApplication>, _: &str) -> Self {}
}

/// Keeps the text of an object of any kind, which its users reduce further. Empty if no application controls the
/// object, or if the text is longer than that of any object that the operator creates.
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
        let labels = read.map(|application| bounded(&application.spec.executor.pod.labels));
        Self { state, executor_labels: labels.unwrap_or_default(), child: child(application.meta(), state) }
    }

    /// Returns the fields that identify an application, the labels, which metrics need, and the time of its deletion.
    fn metadata(all: &ObjectMeta) -> ObjectMeta {
        ObjectMeta {
            deletion_timestamp: all.deletion_timestamp.clone(),
            labels: all.labels.as_ref().map(bounded),
            ..identity(all)
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
    /// Whether the object has to be fetched for a reconcile, because its text is too long to be kept.
    pub(super) fn is_fetched(&self) -> bool {
        matches!(self.text, Ok(None))
    }
}

impl Cluster {
    /// Returns the whole object. A large object waits for its turn, which is returned with it. `None` if the object
    /// cannot be read, which is reported by an event, or if it has to be fetched and does not exist any more, which the
    /// watch will report.
    ///
    /// # Errors
    ///
    /// If the API server does not answer.
    pub(super) async fn whole<K: Reconciled, T>(
        &self,
        watched: &Kept<K, T>,
        now: Timestamp,
    ) -> Result<Option<(K, Option<Turn>)>, Error> {
        let namespace = watched.own_namespace();
        let is_large =
            |text: &Option<Arc<Text>>| text.as_ref().is_none_or(|text| text.text.len() > SMALL_TEXT);
        let needs_turn = watched.text.as_ref().is_ok_and(is_large);
        let turn = if needs_turn { self.large.turn(None, namespace).await } else { None };
        let read = match &watched.text {
            Err(error) => Err(error.clone()),
            Ok(Some(text)) => Ok(serde_json::from_str(&text.text).expect("it was parsed before")),
            Ok(None) => {
                let api = Api::<Lenient<K>>::namespaced(self.client.clone(), namespace);
                let found = api.get_opt(watched.own_name()).await;
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
            // A panic that is not caught here would end the watch of all objects.
            Ok(_) => caught_now(|| T::of(&object, &text)).map_err(|bug| unreadable(bug.to_string())),
            Err(invalid) => Err(invalid),
        };
        let (kept, text) = match read {
            Ok(kept) => (kept, Ok(T::IS_WHOLE.then_some(text).and_then(Text::kept).map(Arc::new))),
            // The text of an object that cannot be read is not used.
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
    fn only_texts_of_objects_that_an_application_controls_are_kept() {
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
    fn an_object_that_causes_a_panic_counts_as_unreadable() {
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
        assert_eq!(texts.len(), MOST_TEXT / LONGEST_TEXT, "the size of all large texts together is bounded");
        assert!(text(ORDINARY_TEXT).is_some(), "an ordinary text is always kept");
        drop(texts);
        assert_eq!(LARGE_TEXTS.available_permits(), MOST_TEXT);
    }
}
