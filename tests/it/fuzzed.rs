//! What holds of the webhook's answers, whatever bytes it is sent? The fuzzers (tests/fuzz) look for bytes of which it does not;
//! what they have found is tried here.

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    http::{Request, StatusCode},
};
use futures::executor::block_on;
use json_patch::{Patch, patch};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use spark_operator::{
    plan::customization::{self, STEPS},
    webhook::{ReviewMetrics, router},
};
use std::sync::LazyLock;
use tower::ServiceExt;

/// What separates the annotations in an input; it cannot be in a value that Kubernetes stores.
pub const SEPARATOR: u8 = 0;

/// Sends `bytes` as a review to both paths, by the way that all requests go once they have arrived. Whatever it is, it is answered;
/// and an object that was patched is not patched again.
pub fn review(bytes: &[u8]) {
    for path in ["/mutate", "/validate"] {
        let (status, answer) = sent(path, bytes.to_vec().into());
        if status == StatusCode::BAD_REQUEST {
            assert!(!answer.is_empty(), "it is not said what is wrong");
            continue;
        }
        assert_eq!(status, StatusCode::OK);
        // In what nobody reads there may be anything.
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

/// Puts annotations onto a driver as Spark makes it: each is a byte that says which, and its value; [`SEPARATOR`] is between them.
/// If the pod is admitted, then by a patch that fits, and as one that does not change any more.
pub fn annotations(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let mut pod = DRIVER.clone();
    for annotation in text.split(char::from(SEPARATOR)) {
        let mut rest = annotation.chars();
        let Some(which) = rest.next() else { continue };
        let key = STEPS[which as usize % STEPS.len()].key;
        pod["metadata"]["annotations"][key] = rest.as_str().into();
    }
    match customization::patch(&(&pod).into()) {
        Err(denials) => assert!(denials.iter().all(|denial| !denial.to_string().is_empty())),
        Ok(changes) => {
            patch(&mut pod, &changes).expect("a patch fits the pod that it was made for");
            assert_eq!(
                customization::patch(&(&pod).into()),
                Ok(Patch::default()),
                "a second call changes it"
            );
        }
    }
}

fn sent(path: &str, body: Bytes) -> (StatusCode, Bytes) {
    static ROUTER: LazyLock<Router> = LazyLock::new(|| router(ReviewMetrics::new(&mut Registry::default())));
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

/// A driver as Spark makes it.
static DRIVER: LazyLock<Value> =
    LazyLock::new(|| serde_saphyr::from_str(include_str!("../data/annotations/driver.pod.yaml")).unwrap());
