//! Reduces the objects of a watch to what the operator needs of them, each as soon as it is decoded: of a page of a list,
//! one object at a time is whole in memory, and what stays of it is not much more than its text.

use super::watch::Readable;
use api::{Lenient, ScheduledSparkApplication, SparkApplication, State};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, core::error_boundary::InvalidObject};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap, fmt::Debug, marker::PhantomData};
use work::caught_now;

/// The part of an object of the kind `K` that is kept in memory: its metadata, or what is needed of it, and `T`.
#[derive(Clone, Debug)]
pub struct Kept<K, T> {
    metadata: ObjectMeta,
    pub(super) kept: T,
    /// Why the object could not be read, if it could not.
    error: Option<String>,
    kind: PhantomData<fn() -> K>,
}

/// A part of objects of the kind `K` that is kept in memory.
pub(super) trait Keep<K>: Clone + Debug + Send + 'static {
    /// Returns what is kept of `object`, whose text is `text`.
    fn of(object: &Lenient<K>, text: Box<str>) -> Self;

    /// Returns the part of the metadata that is kept, by default what tells objects apart.
    fn metadata(all: &ObjectMeta) -> ObjectMeta {
        let ObjectMeta { name, namespace, uid, resource_version, .. } = all.clone();
        ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() }
    }
}

/// An object that is kept as its text, and parsed while it is worked on: a tree of it takes four times the memory, and
/// of some objects a hundred times.
#[derive(Clone, Debug)]
pub struct Text(Box<str>);

/// An application that is kept as its text, with what is asked of all applications at once.
#[derive(Clone, Debug)]
pub struct KeptApplication {
    text: Text,
    /// Unknown if the application cannot be read.
    pub(super) state: State,
    pub(super) executor_labels: BTreeMap<String, String>,
}

/// Returns the metadata without the annotation in which `kubectl apply` keeps the whole object once more.
fn of_whole(all: &ObjectMeta) -> ObjectMeta {
    let mut metadata = all.clone();
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
    metadata
}

impl Keep<ScheduledSparkApplication> for Text {
    fn of(_: &Lenient<ScheduledSparkApplication>, text: Box<str>) -> Self {
        Self(text)
    }

    fn metadata(all: &ObjectMeta) -> ObjectMeta {
        of_whole(all)
    }
}

impl Keep<SparkApplication> for KeptApplication {
    fn of(application: &Lenient<SparkApplication>, text: Box<str>) -> Self {
        let read = application.0.as_ref();
        Self {
            text: Text(text),
            state: read.map_or(State::Unknown, SparkApplication::state),
            executor_labels: read
                .map(|application| application.spec.executor.pod.labels.clone())
                .unwrap_or_default(),
        }
    }

    fn metadata(all: &ObjectMeta) -> ObjectMeta {
        of_whole(all)
    }
}

impl AsRef<Text> for Text {
    fn as_ref(&self) -> &Text {
        self
    }
}

impl AsRef<Text> for KeptApplication {
    fn as_ref(&self) -> &Text {
        &self.text
    }
}

impl<K: DeserializeOwned, T: AsRef<Text>> Kept<K, T> {
    /// Returns the object.
    ///
    /// # Errors
    ///
    /// If it cannot be read, as the watch has reported it.
    pub(super) fn read(&self) -> Result<K, &str> {
        match &self.error {
            Some(error) => Err(error),
            None => Ok(serde_json::from_str(&self.kept.as_ref().0).expect("it was parsed before")),
        }
    }
}

impl<'de, K: Resource + DeserializeOwned, T: Keep<K>> Deserialize<'de> for Kept<K, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (object, text) = Lenient::<K>::parse(&Box::<RawValue>::deserialize(deserializer)?);
        let metadata = T::metadata(object.meta());
        let unreadable = |error| Lenient(Err(Box::new(InvalidObject { error, metadata: metadata.clone() })));
        let (kept, error) = match object.0 {
            // The watch of all objects ends with what is not caught here.
            Ok(_) => match caught_now(|| T::of(&object, text)) {
                Ok(kept) => (kept, None),
                Err(bug) => (T::of(&unreadable(bug.to_string()), Box::default()), Some(bug.to_string())),
            },
            // Nothing is made of the text of an object that cannot be read.
            Err(invalid) => {
                let error = Some(invalid.error.clone());
                (T::of(&Lenient(Err(invalid)), Box::default()), error)
            }
        };
        Ok(Self { metadata, kept, error, kind: PhantomData })
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
    K: Resource<DynamicType = ()> + DeserializeOwned + Debug + Clone + 'static,
    T: Keep<K>,
{
    fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;

    #[derive(Clone, Debug)]
    struct Broken;

    impl Keep<Pod> for Broken {
        fn of(pod: &Lenient<Pod>, _: Box<str>) -> Self {
            assert!(pod.0.is_err(), "as the test wants it");
            Self
        }
    }

    #[test]
    fn an_object_that_meets_a_bug_is_one_that_cannot_be_read() {
        let pod = r#"{"metadata":{"name":"pi","namespace":"team-a","uid":"u","resourceVersion":"7"}}"#;
        let kept: Kept<Pod, Broken> = serde_json::from_str(pod).unwrap();
        assert_eq!(kept.error.as_deref(), Some("a bug of the operator: as the test wants it"));
        assert_eq!(
            (kept.metadata.name.as_deref(), kept.metadata.resource_version.as_deref()),
            (Some("pi"), Some("7"))
        );
    }
}
