//! Tests the webhook's answers to reviews, and to requests that are not reviews.

use super::{Server, review, spark_pod};
use crate::golden::{data, lacks, yaml};
use axum::http::{Request, StatusCode};
use http_body_util::Full;
use serde::Deserialize;
use serde_json::{Value, json};
use spark_operator::metrics;

#[tokio::test]
async fn a_denial_says_everything_that_is_wrong() {
    let server = Server::start().await;
    let pod = spark_pod(json!({"memory-limit": "2g", "tolerations": "[1]"}));
    let answer = server.connect("h2").await.review(&review(&pod)).await;
    let message = "annotation sparkoperator.k8s.io/tolerations at [0]: invalid type: integer `1`, expected Toleration; \
        annotation sparkoperator.k8s.io/memory-limit: `2g` is not a Kubernetes quantity (try `2Gi`)";
    let expected = json!({
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "allowed": false,
        "status": {"code": 403, "reason": "Forbidden", "message": message},
    });
    assert_eq!(answer["response"], expected);
}

/// The rule holds for any object that is deleted or connected to: `kubectl exec` sends its options as the object.
#[tokio::test]
async fn a_deletion_and_a_connection_are_allowed_as_they_are() {
    let server = Server::start().await;
    let pod = spark_pod(json!({"memory-limit": "2g"}));
    let kind = json!({"group": "", "version": "v1", "kind": "PodExecOptions"});
    let options = json!({"apiVersion": "v1", "kind": "PodExecOptions", "command": ["sh"], "container": "c"});
    let (null, pods) = (json!(null), json!({"group": "", "version": "v1", "kind": "Pod"}));
    for (operation, kind, object, old) in [
        ("DELETE", &pods, &null, &pod),
        ("DELETE", &pods, &null, &null),
        ("DELETE", &pods, &pod, &pod),
        ("CONNECT", &kind, &options, &null),
        ("CONNECT", &pods, &pod, &null),
    ] {
        let mut review = review(&json!({}));
        let request = &mut review["request"];
        request["operation"] = operation.into();
        request["subResource"] = json!(if operation == "CONNECT" { "exec" } else { "" });
        (request["kind"], request["object"], request["oldObject"]) =
            (kind.clone(), object.clone(), old.clone());
        for path in ["/mutate", "/validate"] {
            let answer = server.connect("h2").await.review_at(path, &review).await;
            let uid = "705ab4f5-6393-11e8-b7cc-42010a800002";
            assert_eq!(answer["response"], json!({"uid": uid, "allowed": true}), "{operation} at {path}");
        }
    }
}

#[tokio::test]
async fn a_review_in_the_version_of_old_api_servers_is_answered_in_it() {
    let server = Server::start().await;
    let mut review = review(&spark_pod(json!({"host-network": "true"})));
    let mut new = server.connect("h2").await.review(&review).await;
    review["apiVersion"] = "admission.k8s.io/v1beta1".into();
    let old = server.connect("h2").await.review(&review).await;
    new["apiVersion"] = "admission.k8s.io/v1beta1".into();
    assert_eq!(old, new);
}

#[tokio::test]
async fn a_pod_without_name_and_namespace_is_customized() {
    let server = Server::start().await;
    let mut pod = spark_pod(json!({"scheduler-name": "volcano"}));
    pod["metadata"].as_object_mut().unwrap().remove("name");
    let mut review = review(&pod);
    for field in ["name", "namespace"] {
        review["request"].as_object_mut().unwrap().remove(field);
    }
    assert!(server.connect("h2").await.review(&review).await["response"]["patch"].is_string());
}

#[tokio::test]
async fn a_body_that_is_not_utf_8_is_refused() {
    let server = Server::start().await;
    let body = review(&spark_pod(json!({}))).to_string();
    let (before, after) = body.split_once("everything-driver").unwrap();
    let body = [before.as_bytes(), b"\xff\xfe", after.as_bytes()].concat();
    let request = Request::post("https://localhost/mutate").header("content-type", "application/json");
    let request = request.body(Full::from(body)).unwrap();
    let (code, said) = server.connect("h2").await.send(request).await.unwrap();
    assert_eq!(code, StatusCode::BAD_REQUEST);
    assert!(said.starts_with(b"not an AdmissionReview: invalid utf-8 sequence"), "{said:?}");
}

/// Recursive code that reads this number of levels, or drops the value, would overflow the stack and end the process.
#[tokio::test]
async fn ten_thousand_levels_are_refused_wherever_they_are() {
    const LEVELS: usize = 10_000;
    let server = Server::start().await;
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = open.repeat(LEVELS) + "1" + &close.repeat(LEVELS);
        let shallow = review(&spark_pod(json!({}))).to_string();
        let in_pod = shallow.replacen("\"spec\":", &format!("\"deep\":{deep},\"spec\":"), 1);
        let denied = server.connect("h2").await.text_at("/mutate", in_pod).await;
        let message = denied["response"]["status"]["message"].as_str().unwrap();
        assert!(message.starts_with("deep") && message.contains("nested more than 64 levels"), "{message}");
        for body in [deep.clone(), open.repeat(LEVELS)] {
            let (code, said) = server.connect("h2").await.post("application/json", body).await.unwrap();
            assert_eq!(code, StatusCode::BAD_REQUEST);
            assert!(said.starts_with(b"not an AdmissionReview: "), "{said:?}");
        }
        for key in ["env", "affinity", "gpu", "host-network"] {
            let pod = spark_pod(json!({key: deep}));
            let response = &server.connect("h2").await.review(&review(&pod)).await["response"];
            assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(403)));
            let message = response["status"]["message"].as_str().unwrap();
            let begin = format!("annotation sparkoperator.k8s.io/{key} at ");
            assert!(
                message.starts_with(&begin) && message.contains("nested more than 64 levels"),
                "{message}"
            );
        }
    }
}

/// Bodies that are no reviews, each with the beginning of the answer.
#[derive(Deserialize)]
struct NoReviews {
    whole: Vec<[String; 2]>,
    /// Reviews in which the value at a JSON pointer is replaced.
    changed: Vec<(String, Value, String)>,
    /// Reviews in which a field has another name.
    renamed: Vec<[String; 3]>,
}

#[tokio::test]
async fn a_body_that_is_not_a_review_is_refused_with_the_reason() {
    let server = Server::start().await;
    let plain = review(&spark_pod(json!({}))).to_string();
    let with = |pointer: &str, value: Value| {
        let mut review = review(&spark_pod(json!({})));
        *review.pointer_mut(pointer).unwrap() = value;
        review.to_string()
    };
    let json = "application/json";
    let NoReviews { whole, changed, renamed } = yaml(&data("webhook/no-reviews.yaml"));
    let of_type =
        |of: &'static str| (of, plain.clone(), format!("content type `{of}`: must be application/json"));
    let whole = whole.into_iter().map(|[body, why]| (json, body, why));
    let changed = changed.into_iter().map(|(pointer, value, why)| (json, with(&pointer, value), why));
    let renamed = renamed.into_iter().map(|[field, name, why]| {
        (json, plain.replace(&format!("\"{field}\":"), &format!("\"{name}\":")), why)
    });
    let cases = ["text/plain", ""].map(of_type).into_iter().chain(whole).chain(changed).chain(renamed);
    for (content_type, body, why) in cases {
        let (code, said) = server.connect("h2").await.post(content_type, body.clone()).await.unwrap();
        assert_eq!(code, StatusCode::BAD_REQUEST, "{body}");
        assert!(said.starts_with(why.as_bytes()), "{said:?} instead of {why}");
    }
    // A charset has no meaning for JSON.
    let body = review(&spark_pod(json!({}))).to_string();
    let (code, _) = server.connect("h2").await.post("application/json; charset=utf-8", body).await.unwrap();
    assert_eq!(code, StatusCode::OK);
}

#[tokio::test]
async fn reviews_are_counted_by_path_kind_operation_and_result() {
    let server = Server::start().await;
    let mut client = server.connect("h2").await;
    for annotations in [json!({}), json!({"memory-limit": "1Gi"}), json!({"tolerations": "[{\"key\": 1}]"})] {
        client.review(&review(&spark_pod(annotations))).await;
    }
    let mut odd = review(&json!({}));
    odd["request"]["kind"]["kind"] = json!("Odd");
    odd["request"]["operation"] = json!("STEAL");
    client.review(&odd).await;
    client.post("application/json", "{".to_owned()).await.unwrap();
    let text = metrics::text(&server.registry);
    assert_eq!(lacks(&text, "webhook/metrics.txt"), None, "{text}");
}
