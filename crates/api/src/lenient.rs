//! Parses objects that any user of the cluster may have written. [`Lenient`] parses each object separately and skips
//! `metadata.managedFields`. If an object cannot be parsed, its metadata is still available, and all other objects of
//! the list are parsed.
//!
//! Go accepts values that our types refuse: times up to the end of the year 9999 (jiff's range ends a day earlier),
//! JSON nested 10,000 levels deep (serde_json stops at 127). The API server stores the managedFields that a client
//! sends, including such times and such nesting. So any user who may create a Service could make a list of Services
//! unreadable for the operator.

use super::{Bounds, excerpt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::{Resource, error_boundary::InvalidObject};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned, ser::Error as _};
use serde_json::value::{RawValue, to_raw_value};
use std::{borrow::Cow, collections::BTreeMap};

/// An object of type `K`. If the object cannot be parsed as `K`, contains the error and those parts of the metadata
/// that can be parsed.
///
/// Like kube's `DeserializeGuard`, but `DeserializeGuard` first reads the whole object, managedFields included, and
/// fails if that first step fails. `Lenient` can be read only from JSON text as the API server sends it, not from a
/// [`serde_json::Value`] and not from a deserializer of another format that serde buffers.
#[derive(Clone, Debug)]
pub struct Lenient<K>(pub Result<K, Box<InvalidObject>>);

/// The greatest size of an object that is parsed, in bytes of JSON without managedFields. etcd accepts 1.5 MB including
/// managedFields. Of a larger object only the metadata is kept in memory.
const LONGEST: usize = 1 << 20;
/// The greatest length of the reason why an object cannot be parsed, in bytes.
const LONGEST_ERROR: usize = 1024;
/// The greatest size of a field of the metadata of an object that cannot be parsed, in bytes of JSON.
const LONGEST_METADATA: usize = 16 << 10;

impl<K: DeserializeOwned> Lenient<K> {
    /// Parses `object`. Returns with it the text that was parsed: the object without `metadata.managedFields`, or an
    /// empty text if the fields of the object cannot be told apart.
    pub fn parse(object: &RawValue) -> (Self, Box<str>) {
        let text = without_managed_fields(object);
        let read = text.as_ref().map_err(without_position).and_then(|object| {
            if object.get().len() > LONGEST {
                return Err(format!("longer than {LONGEST} bytes of JSON"));
            }
            if let Some(excess) = Bounds::TYPED.excess(object.get(), "") {
                return Err(excess.to_string());
            }
            serde_json::from_str(object.get()).map_err(|error| without_position(&error))
        });
        let read = read.map_err(|error| {
            // The error may quote a value of any length.
            let error = excerpt::beginning(error, LONGEST_ERROR);
            Box::new(InvalidObject { error, metadata: readable_metadata(object) })
        });
        (Self(read), text.map(Into::into).unwrap_or_default())
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Lenient<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // `RawValue` only finds the end of the value, and needs no more stack for a value that is nested deeper.
        Box::<RawValue>::deserialize(deserializer).map(|object| Self::parse(&object).0)
    }
}

/// `kube::Api` needs this implementation to write objects that were read leniently. Writing an object that could not be
/// parsed is an error.
impl<K: Serialize> Serialize for Lenient<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let object = self.0.as_ref().map_err(|invalid| S::Error::custom(&invalid.error))?;
        object.serialize(serializer)
    }
}

impl<K: Resource> Resource for Lenient<K> {
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
        self.0.as_ref().map_or_else(|invalid| &invalid.metadata, K::meta)
    }

    fn metadata_api() -> bool {
        K::metadata_api()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.as_mut().map_or_else(|invalid| &mut invalid.metadata, K::meta_mut)
    }
}

/// The fields of a JSON object; the values are not parsed.
pub type Fields<'t> = BTreeMap<String, &'t RawValue>;

/// Returns `object` without `metadata.managedFields`, which may contain values that `serde_json` refuses to parse. Of a
/// repeated field of the object and of its metadata, only the last value is kept.
///
/// # Errors
/// If `object` is not a JSON object, or its metadata is neither a JSON object nor null.
pub fn without_managed_fields(object: &RawValue) -> serde_json::Result<Box<RawValue>> {
    let mut fields: Fields = serde_json::from_str(object.get())?;
    let metadata: Option<Fields> =
        fields.get("metadata").map_or(Ok(None), |text| serde_json::from_str(text.get()))?;
    let Some(mut metadata) = metadata else { return to_raw_value(&fields) };
    metadata.remove("managedFields");
    let metadata = to_raw_value(&metadata)?;
    fields.insert("metadata".to_owned(), &metadata);
    to_raw_value(&fields)
}

/// Returns the metadata of `object`. A field that cannot be parsed is left out, and so is one that is very long: it
/// would be kept for each of any number of objects that cannot be read.
fn readable_metadata(object: &RawValue) -> ObjectMeta {
    let fields = |json: &str| serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(json).ok();
    let metadata = fields(object.get()).and_then(|object| fields(object.get("metadata")?.get()));
    let mut readable = metadata.unwrap_or_default();
    readable.retain(|name, value| {
        name != "managedFields"
            && value.get().len() <= LONGEST_METADATA
            && metadata_of(&BTreeMap::from([(name, &*value)])).is_some()
    });
    metadata_of(&readable).unwrap_or_default()
}

fn metadata_of(fields: &impl serde::Serialize) -> Option<ObjectMeta> {
    serde_json::from_str(&serde_json::to_string(fields).ok()?).ok()
}

/// Returns the text of the error without line and column, which mean nothing to the user: the text that was parsed is
/// not the text that the user wrote.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").filter(|_| error.line() > 0).map(|(what, _)| what.to_owned());
    what.unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SparkApplication;
    use k8s_openapi::api::core::v1::Service;
    use kube_core::{ObjectList, PartialObjectMeta, ResourceExt, WatchEvent};
    use serde_json::json;

    /// Otherwise a metadata watch of Secrets would receive their contents.
    #[test]
    fn a_metadata_watch_requests_metadata_only() {
        assert!(Lenient::<PartialObjectMeta<Service>>::metadata_api());
        assert!(!Lenient::<Service>::metadata_api());
    }

    fn nested(levels: usize) -> String {
        format!("{}1{}", r#"{"f:x":"#.repeat(levels), "}".repeat(levels))
    }

    fn service(name: &str, managed: &str, spec: &str) -> String {
        format!(
            r#"{{"kind":"Service","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"team-a","uid":"u-{name}","resourceVersion":"7",
                "labels":{{"a":"b"}},"managedFields":[{managed}]}},"spec":{spec}}}"#
        )
    }

    fn list(items: &[String]) -> ObjectList<Lenient<Service>> {
        let list = format!(
            r#"{{"kind":"ServiceList","apiVersion":"v1","metadata":{{"resourceVersion":"9"}},"items":[{}]}}"#,
            items.join(",")
        );
        serde_json::from_str(&list).unwrap()
    }

    #[test]
    fn managed_fields_are_never_parsed() {
        let late = r#"{"manager":"m","operation":"Update","time":"9999-12-31T12:00:00Z","fieldsV1":{}}"#;
        let deep = format!(r#"{{"manager":"m","fieldsV1":{}}}"#, nested(100_000));
        let list = list(&[
            service("late", late, r#"{"clusterIP":"10.0.0.1"}"#),
            service("deep", &deep, "{}"),
            service("other", r#"17, "x""#, "{}"),
        ]);
        for service in &list.items {
            let read = service.0.as_ref().unwrap();
            assert!(read.metadata.managed_fields.is_none() && read.metadata.labels.is_some());
        }
        assert_eq!(
            list.items[0].0.as_ref().unwrap().spec.as_ref().unwrap().cluster_ip.as_deref(),
            Some("10.0.0.1")
        );
    }

    #[test]
    fn an_unreadable_object_keeps_its_metadata_and_the_others_are_read() {
        let list = list(&[
            service("a", "", "{}"),
            service("typed", "", r#"{"ports":"many"}"#),
            // A field that the type does not have is not parsed, so its nesting does not matter.
            service("deep", "", &nested(4_000)),
            service("broad", "", &format!(r#"{{"ports":[{}{{}}]}}"#, "{},".repeat(5_000))),
            service("long", "", &format!(r#"{{"clusterIP":"{}"}}"#, "x".repeat(LONGEST))),
            service("z", "", "{}"),
        ]);
        let found: Vec<_> =
            list.items.iter().map(|item| (item.name_any(), item.uid().unwrap(), item.0.is_ok())).collect();
        let expected =
            [("a", true), ("typed", false), ("deep", true), ("broad", false), ("long", false), ("z", true)];
        assert_eq!(found, expected.map(|(name, is_read)| (name.to_owned(), format!("u-{name}"), is_read)));
        let why: Vec<_> = list
            .items
            .iter()
            .filter_map(|item| item.0.as_ref().err())
            .map(|invalid| &*invalid.error)
            .collect();
        assert_eq!(
            why,
            [
                r#"invalid type: string "many", expected a sequence"#,
                "spec.ports[4995]: is beyond the 5000 lists and maps that an object may have: move what is so long into \
                 ConfigMaps or files",
                "longer than 1048576 bytes of JSON",
            ]
        );
    }

    #[test]
    fn an_object_that_is_nested_too_deep_keeps_its_metadata() {
        let text = |levels| {
            format!(
                r#"{{"metadata":{{"name":"pi"}},"spec":{{"type":"Scala","sparkVersion":"4.0.1","driver":{{"template":{}}},"executor":{{}}}}}}"#,
                nested(levels)
            )
        };
        let application: Lenient<SparkApplication> = serde_json::from_str(&text(100)).unwrap();
        application.0.unwrap();
        let application: Lenient<SparkApplication> = serde_json::from_str(&text(4_000)).unwrap();
        let invalid = application.0.unwrap_err();
        assert_eq!(
            (&*invalid.error, invalid.metadata.name.as_deref()),
            ("recursion limit exceeded", Some("pi"))
        );
    }

    #[test]
    fn unreadable_fields_of_metadata_are_left_out_and_the_rest_is_kept() {
        let text = r#"{"metadata":{"name":"pi","namespace":"team-a","uid":"u","creationTimestamp":"9999-12-31T12:00:00Z",
            "labels":{"a":"b"},"finalizers":"one"},"spec":{}}"#;
        let application: Lenient<SparkApplication> = serde_json::from_str(text).unwrap();
        let metadata = &application.0.unwrap_err().metadata;
        assert_eq!(metadata.name.as_deref(), Some("pi"));
        assert_eq!(metadata.labels.as_ref().unwrap()["a"], "b");
        assert!(metadata.creation_timestamp.is_none() && metadata.finalizers.is_none());

        for text in ["{}", "[]", "7", "null", r#"{"metadata":7}"#, r#"{"metadata":{"name":7}}"#] {
            let application: Lenient<SparkApplication> = serde_json::from_str(text).unwrap();
            assert_eq!(application.0.unwrap_err().metadata, ObjectMeta::default(), "{text}");
        }
    }

    #[test]
    fn a_watch_event_with_an_unreadable_object_keeps_its_metadata() {
        let event = format!(r#"{{"type":"MODIFIED","object":{}}}"#, service("deep", "", &nested(4_000)));
        let event: WatchEvent<Lenient<Service>> = serde_json::from_str(&event).unwrap();
        let WatchEvent::Modified(service) = event else { panic!("{event:?}") };
        assert_eq!(
            (service.name_any(), service.resource_version()),
            ("deep".to_owned(), Some("7".to_owned()))
        );
    }

    #[test]
    fn a_readable_object_is_written_as_read_and_an_unreadable_one_never() {
        let read: Lenient<Service> =
            serde_json::from_str(&service("a", "{}", r#"{"clusterIP":"None"}"#)).unwrap();
        assert_eq!(json!(read), json!(read.0.unwrap()));
        let unread: Lenient<Service> =
            serde_json::from_str(&service("a", "{}", r#"{"ports":"many"}"#)).unwrap();
        let error = serde_json::to_string(&unread).unwrap_err();
        assert_eq!(error.to_string(), r#"invalid type: string "many", expected a sequence"#);
    }

    #[test]
    fn a_readable_object_equals_what_kubes_own_types_read() {
        let object = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "é\"\\", "annotations": {"metadata": "{\"managedFields\": []}"}},
            "spec": {"ports": [{"port": 1, "name": "a"}], "selector": {"managedFields": "x"}},
        });
        let plain: Service = serde_json::from_value(object.clone()).unwrap();
        let lenient: Lenient<Service> = serde_json::from_str(&object.to_string()).unwrap();
        assert_eq!(lenient.0.unwrap(), plain);
    }
}
