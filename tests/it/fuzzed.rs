//! Defines what must be true for any bytes that the operator reads as an admission review, as Spark's configuration or
//! as a list. The fuzzers (tests/fuzz) search for bytes that break these properties. The module `fuzz` checks the
//! regression inputs.

use api::{Lenient, SparkApplication};
use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    http::{Request, StatusCode},
};
use futures::executor::block_on;
use json_patch::{Patch, patch};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{
    Resource, ResourceExt,
    api::{ObjectList, WatchEvent},
};
use plan::extension::Extensions;
use pod_customization::{self, STEPS};
use pods::PodSummary;
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use serde_json::{Value, json, value::RawValue};
use spark_client::{self, NotNative};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
    time::Duration,
};
use submission::{Settings, run::Run, spark_submit};
use tower::ServiceExt;
use validation::{self, MOST_FINDINGS, Precision, Refusal};
use webhook::{LargeReviews, Lookups, ReviewMetrics, Reviews, router};

/// The byte between two annotations in an input. Kubernetes stores no value that contains this byte.
pub const SEPARATOR: u8 = 0;

/// The user name of the gateway's account.
pub const GATEWAY: &str = "system:serviceaccount:spark-operator:spark-operator-connect-gateway";

/// Sends `bytes` as a review to the paths `/mutate` and `/validate` of the webhook's router. Asserts that each review
/// is answered, and that an object that was patched is not patched again.
pub fn review(bytes: &[u8]) {
    for path in ["/mutate", "/validate"] {
        let (status, answer) = sent(path, bytes.to_vec().into());
        if status == StatusCode::BAD_REQUEST {
            assert!(!answer.is_empty(), "the answer does not say what is wrong");
            continue;
        }
        assert_eq!(status, StatusCode::OK);
        // A review is answered even if parts of it that the webhook does not read are not valid.
        let Ok(mut review) = serde_json::from_slice::<Value>(bytes) else { continue };
        let request = &mut review["request"];
        let response = response(&answer);
        assert_eq!(response["uid"], request["uid"]);
        if response["allowed"] == false {
            assert!(response["status"]["message"].as_str().is_some_and(|message| !message.is_empty()));
            continue;
        }
        let Some(changes) = response.get("patch") else { continue };
        let k8s_openapi::ByteString(changes) = serde_json::from_value(changes.clone()).unwrap();
        let changes: Patch = serde_json::from_slice(&changes).unwrap();
        patch(&mut request["object"], &changes).expect("a patch fits the object that it was made for");
        let (_, again) = sent(path, review.to_string().into());
        assert_eq!(self::response(&again), json!({"uid": review["request"]["uid"], "allowed": true}));
    }
}

/// Adds annotations to a driver pod as Spark creates it. In `bytes`, an annotation is one character that selects the
/// key, followed by the value, with [`SEPARATOR`] between two annotations. Asserts that if the pod is admitted, the
/// patch fits the pod, and a second review changes nothing.
pub fn annotations(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let mut pod = DRIVER.clone();
    for annotation in text.split(char::from(SEPARATOR)) {
        let mut rest = annotation.chars();
        let Some(which) = rest.next() else { continue };
        let key = STEPS[which as usize % STEPS.len()].key;
        pod["metadata"]["annotations"][key] = rest.as_str().into();
    }
    match pod_customization::patch(&pod) {
        Err(denials) => assert!(denials.iter().all(|denial| !denial.to_string().is_empty())),
        Ok(changes) => {
            patch(&mut pod, &changes).expect("a patch fits the pod that it was made for");
            assert_eq!(pod_customization::patch(&pod), Ok(Patch::default()), "a second review changes it");
        }
    }
}

/// Returns whether the property refers, directly or through other properties, to a property that refers to itself.
/// [`spark_client::unbounded`] does not report such properties, because Spark refuses a cycle only when it reads one of
/// its properties.
fn leads_to_a_cycle(properties: &BTreeMap<String, String>, key: &str) -> bool {
    // This finds more names than Spark does if one reference begins inside another.
    let named = |key: &str| -> Vec<&str> {
        let text = properties.get(key).map_or("", String::as_str);
        let begun = text.match_indices("${").map(|(at, begin)| &text[at + begin.len()..]);
        begun.filter_map(|rest| Some(rest.split_once('}')?.0)).collect()
    };
    let reached = |key: &str| {
        let mut reached = BTreeSet::new();
        let mut open = named(key);
        while let Some(name) = open.pop() {
            if reached.insert(name) {
                open.extend(named(name));
            }
        }
        reached
    };
    reached(key).into_iter().any(|name| reached(name).contains(name))
}

/// Reads bytes as properties, and replaces every `${…}` in them. Asserts that each resulting text either stays within
/// the limits, or is refused with the property's name, and that [`spark_client::unbounded`] reports texts beyond the
/// limits in advance, except circular references.
pub fn expansion(bytes: &[u8]) {
    const LONGEST: usize = 64 << 10;
    let Some(properties) =
        str::from_utf8(bytes).ok().and_then(|text| spark_client::read_properties(text).ok())
    else {
        return;
    };
    let beyond = spark_client::unbounded(&[("", &properties)]);
    assert!(beyond.iter().all(|(_, key, _)| properties.contains_key(*key)));
    for (key, own) in properties.iter().take(100) {
        match spark_client::expanded(&properties, key) {
            Ok(text) => {
                assert!(text.is_some_and(|text| text == *own || text.len() <= LONGEST.max(own.len())))
            }
            Err(NotNative::Refused { field, why }) => {
                assert_eq!(field, *key);
                let is_known = !beyond.is_empty() || leads_to_a_cycle(&properties, key);
                assert!(why.starts_with("circular reference to ") || is_known, "{why}");
            }
            Err(NotNative::Fallback { field, .. }) => assert_eq!(field, *key),
        }
    }
}

/// Uses bytes as a `spark-defaults.conf`, as a property's value and as a `metrics.properties`. Asserts that the file
/// written for Spark is read back with the intended content, and that no more mistakes are reported than an answer of
/// the webhook can hold.
pub fn properties(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let application = |spec: Value| -> SparkApplication {
        let metadata = json!({"name": "pi", "namespace": "default", "uid": "1"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec}))
            .expect("the object has every required field")
    };
    let monitored = application(json!({"monitoring": {"metricsProperties": text}}));
    let said = validation::examine(&monitored, validation::Files::Stay);
    assert!(said.invalid.len() <= MOST_FINDINGS + 1 && Refusal(said.invalid).to_string().len() < 32 << 10);

    let pi = application(json!({"sparkVersion": "4.0.1", "sparkConf": {"spark.fuzzed": text}}));
    let settings = Settings::new("k8s://https://api:443");
    let command = validation::validate(&pi)
        .and_then(|validated| spark_submit(&validated, &Run::next(&pi), &settings, text));
    let (Ok(defaults), Ok(command)) = (spark_client::read_properties(text), command) else {
        return;
    };
    assert!(defaults.keys().all(|key| command.properties.contains_key(key)));
    let read = spark_client::read_properties(&command.files["spark.properties"])
        .expect("both parts of it can be read");
    let trimmed = |properties: &BTreeMap<String, String>| -> Vec<(String, String)> {
        properties.iter().map(|(key, value)| (key.clone(), spark_client::trimmed(value).to_owned())).collect()
    };
    assert_eq!(trimmed(&read), trimmed(&command.properties));
}

/// Uses bytes as an item of a list, between two other items. Asserts that if the bytes are JSON, the list can be read,
/// and the other items are unchanged.
pub fn items(bytes: &[u8]) {
    let Ok(item) = serde_json::from_slice::<&RawValue>(bytes) else { return };
    let other = r#"{"metadata":{"name":"other","uid":"1"},"spec":{"type":"Scala","sparkVersion":"4.0.1","driver":{},"executor":{}}}"#;
    let list = format!(r#"{{"metadata":{{}},"items":[{other},{item},{other}]}}"#);
    let applications = read::<SparkApplication>(&list);
    let watched = format!(r#"{{"type":"ADDED","object":{item}}}"#);
    let event: WatchEvent<Lenient<SparkApplication>> =
        serde_json::from_str(&watched).expect("an event of a watch is read");
    assert!(matches!(event, WatchEvent::Added(_)));
    let states = applications.iter().map(SparkApplication::state);
    assert!(states.count() >= 2);
    let pods = read::<Pod>(&list);
    pods.iter().for_each(|pod| drop(PodSummary::of(pod)));
    read::<Service>(&list);
}

/// Parses a list. Returns its items without those that cannot be parsed.
fn read<K: DeserializeOwned + Resource<DynamicType = ()> + Clone>(list: &str) -> Vec<K> {
    let list: ObjectList<Lenient<K>> = serde_json::from_str(list).expect("a list is read");
    let [first, item, last] = &list.items[..] else { panic!("{} items", list.items.len()) };
    assert!([first, last].iter().all(|other| other.name_any() == "other" && other.uid().is_some()));
    assert!(item.meta().managed_fields.is_none());
    list.items.into_iter().filter_map(|item| item.0.ok()).collect()
}

/// Creates reviews that send no request to an API server. Their metrics are in `registry`.
pub fn reviews(registry: &mut Registry) -> Reviews {
    Reviews {
        metrics: ReviewMetrics::new(registry),
        quotas: None,
        exposure_rights: None,
        extensions: Extensions::default(),
        precision: Precision::default(),
        shortest_period: Duration::ZERO,
        lookups: Lookups::new(false),
        gateway: Some(GATEWAY.to_owned()),
        large: LargeReviews::default(),
    }
}

fn sent(path: &str, body: Bytes) -> (StatusCode, Bytes) {
    static ROUTER: LazyLock<Router> = LazyLock::new(|| router(reviews(&mut Registry::default())));
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(Body::from(body)).unwrap();
    block_on(async {
        let response = ROUTER.clone().oneshot(request).await.unwrap();
        (response.status(), to_bytes(response.into_body(), usize::MAX).await.unwrap())
    })
}

fn response(answer: &[u8]) -> Value {
    let mut answer: Value = serde_json::from_slice(answer).unwrap();
    answer["response"].take()
}

/// A driver as Spark creates it.
static DRIVER: LazyLock<Value> =
    LazyLock::new(|| serde_saphyr::from_str(include_str!("../data/annotations/driver.pod.yaml")).unwrap());
