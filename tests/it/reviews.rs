//! Tests the webhook's answers to reviews of applications and schedules.

use crate::{fuzzed::GATEWAY, prelude::*, webhook::Server};

#[tokio::test]
async fn an_application_gets_defaults_and_keeps_unknown_fields() {
    let mut pi =
        pi(json!({"executor": {"instances": 3, "wormhole": true}, "restartPolicy": {"type": "Always"}}));
    pi["spec"].as_object_mut().unwrap().remove("mode");
    pi["metadata"]["managedFields"] = json!([{"manager": "kubectl"}]);
    let filled_in = patched("/mutate", &review("CREATE", &pi, &Value::Null)).await.unwrap();

    let mut expected = pi.clone();
    expected["spec"]["mode"] = json!("cluster");
    expected["spec"]["driver"] = json!({"cores": 1, "memory": "1g"});
    expected["spec"]["executor"] = json!({"instances": 3, "wormhole": true, "cores": 1, "memory": "1g"});
    expected["spec"]["restartPolicy"] =
        json!({"type": "Always", "onFailureRetryInterval": 5, "onSubmissionFailureRetryInterval": 5});
    assert_eq!(filled_in, expected);
    assert_eq!(patched("/mutate", &review("CREATE", &filled_in, &Value::Null)).await, None);
}

/// A review of an object: the object as it is sent and as it is stored, and the answer of the webhook.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Case {
    case: String,
    kind: Option<String>,
    paths: Vec<String>,
    new: Value,
    old: Value,
    refused: Option<String>,
    warnings: Vec<String>,
    patched: bool,
}

#[tokio::test]
async fn a_review_is_answered_as_its_case_says() {
    let server = Server::start().await;
    let mut client = server.connect("h2").await;
    for Case { case, kind, paths, new, old, refused, warnings, patched } in
        yaml::<Vec<Case>>(&data("webhook/reviews.yaml"))
    {
        let object = |changes: &Value| {
            let mut object = match kind.as_deref() {
                None => pi(json!({})),
                Some("ScheduledSparkApplication") => nightly(json!({})),
                Some("SparkConnect") => notebook(json!({})),
                Some(kind) => panic!("{case}: {kind}"),
            };
            json_patch::merge(&mut object, changes);
            object
        };
        let review = match &old {
            Value::Null => review("CREATE", &object(&new), &Value::Null),
            old => review("UPDATE", &object(&new), &object(old)),
        };
        let mut expected = refused.map_or_else(allowed, |why| self::refused(403, "Forbidden", &why));
        if !warnings.is_empty() {
            expected["warnings"] = json!(warnings);
        }
        let paths = if paths.is_empty() { vec!["/validate".to_owned()] } else { paths };
        for path in paths {
            let mut answer = client.review_at(&path, &review).await["response"].take();
            let fields = answer.as_object_mut().unwrap();
            let has_patch = fields.remove("patchType").is_some() && fields.remove("patch").is_some();
            assert_eq!((answer, has_patch), (expected.clone(), patched), "{case}: {path}");
        }
    }
}

/// Kubernetes has no right for a single annotation, and the clients of all tenants connect to the gateway.
#[tokio::test]
async fn the_gateways_account_may_only_write_the_time_of_the_last_connection() {
    let old = notebook(json!({}));
    let with = |annotations: Value| {
        let mut new = old.clone();
        new["metadata"]["annotations"] = annotations;
        new["metadata"]["resourceVersion"] = json!("2");
        new
    };
    let connected = json!({"sparkoperator.k8s.io/last-connection": "2026-01-01T00:00:00Z"});
    let mut other = connected.clone();
    other["a"] = json!("b");
    let why =
        "metadata: the gateway's account may only write the annotation sparkoperator.k8s.io/last-connection";
    for (new, is_allowed) in [
        (with(connected), true),
        (with(other), false),
        (notebook(json!({"suspend": true})), false),
        (notebook(json!({"server": {"access": "Cluster"}})), false),
    ] {
        for (user, may) in [(GATEWAY, is_allowed), ("alice", true)] {
            let mut review = review("UPDATE", &new, &old);
            review["request"]["userInfo"] = json!({"username": user});
            let expected = if may { allowed() } else { refused(403, "Forbidden", why) };
            assert_eq!(answer("/validate", &review).await, expected, "{user}: {new}");
        }
    }
}

#[tokio::test]
async fn a_field_that_cannot_be_read_is_refused_with_its_path() {
    let pi = pi(json!({"arguments": [{}]}));
    let expected = refused(400, "BadRequest", "spec.arguments[0]: invalid type: map, expected a string");
    assert_eq!(answer("/validate", &review("CREATE", &pi, &Value::Null)).await, expected);
    let nightly = nightly(json!({"template": {"type": "Ruby"}}));
    let answer = answer("/validate", &review("CREATE", &nightly, &Value::Null)).await;
    assert!(
        answer["status"]["message"]
            .as_str()
            .unwrap()
            .starts_with("spec.template.type: unknown variant `Ruby`")
    );
}

/// `serde_json` reads at most 127 levels, so no part of the operator could ever read an object that is nested deeper.
#[tokio::test]
async fn an_object_that_is_nested_too_deep_to_be_read_is_refused_by_its_review() {
    let nested = (0..500).fold("{}".to_owned(), |inner, _| format!(r#"{{"x":{inner}}}"#));
    let with = |review: &Value| review.to_string().replace(r#""NESTED""#, &nested);
    let deep = pi(json!({"driver": {"template": {"spec": "NESTED"}}}));
    let path = format!("spec.driver.template.spec{}", ".x".repeat(61));
    let message = format!(
        "{path}: is nested more than 64 levels deep, and parsers of the object accept little more: write it flatter"
    );
    let server = Server::start().await;
    let mut client = server.connect("h2").await;
    for path in
        ["/mutate", "/validate", "/mutate--v1-pod", "/validate-sparkoperator-k8s-io-v1beta2-sparkapplication"]
    {
        for (operation, old) in [("CREATE", Value::Null), ("UPDATE", pi(json!({})))] {
            let answer = client.text_at(path, with(&review(operation, &deep, &old))).await;
            assert_eq!(answer["response"], refused(403, "Forbidden", &message), "{operation} {path}");
        }
        // An object that is stored already can be labelled, finalized, deleted and corrected.
        let mut labelled = deep.clone();
        labelled["metadata"]["labels"] = json!({"team": "data"});
        let mut deleted = pi(json!({"driver": {"template": {"x": "NESTED"}}}));
        deleted["metadata"]["deletionTimestamp"] = json!("2026-11-21T12:00:00Z");
        for (operation, object) in [("UPDATE", &labelled), ("UPDATE", &deleted), ("DELETE", &Value::Null)] {
            let answer = client.text_at(path, with(&review(operation, object, &deep))).await;
            assert_eq!(answer["response"], allowed(), "{operation} {path}");
        }
        let answer = client.text_at(path, with(&review("UPDATE", &pi(json!({})), &deep))).await;
        assert_eq!(answer["response"]["allowed"], true, "{path}");
    }
    let mut wrong = pi(json!({"mode": "client"}));
    wrong["metadata"]["managedFields"] = json!("NESTED");
    let answer = client.text_at("/validate", with(&review("UPDATE", &wrong, &deep))).await;
    assert!(answer["response"]["status"]["message"].as_str().unwrap().starts_with("spec.mode: "), "{answer}");
}

/// An object that was stored before this webhook was installed can be labelled, suspended, finalized and deleted.
#[tokio::test]
async fn an_update_that_asks_for_the_same_run_is_not_refused() {
    let invalid = json!({"mode": "client", "retryInterval": 5});
    let unreadable = json!({"type": "Ruby"});
    for old in [pi(invalid.clone()), pi(unreadable), nightly(json!({"template": invalid}))] {
        let mut labelled = old.clone();
        labelled["metadata"]["labels"] = json!({"team": "data"});
        assert_eq!(answer("/validate", &review("UPDATE", &labelled, &old)).await, allowed());

        let mut deleted = old.clone();
        deleted["metadata"]["deletionTimestamp"] = json!("2026-11-21T12:00:00Z");
        deleted["spec"]["mode"] = json!("client");
        assert_eq!(answer("/validate", &review("UPDATE", &deleted, &old)).await, allowed());
        assert_eq!(answer("/validate", &review("DELETE", &Value::Null, &old)).await, allowed());

        let created = answer("/validate", &review("CREATE", &old, &Value::Null)).await;
        assert_eq!(created["allowed"], false);
    }
    let old = pi(invalid);
    let mut suspended = old.clone();
    suspended["spec"]["suspend"] = json!(true);
    suspended["spec"]["driver"] = json!({"cores": 1, "memory": "1g"});
    assert_eq!(answer("/validate", &review("UPDATE", &suspended, &old)).await, allowed());

    let mut edited = old.clone();
    edited["spec"]["driver"] = json!({"cores": 2});
    assert_eq!(answer("/validate", &review("UPDATE", &edited, &old)).await["allowed"], false);
}

#[tokio::test]
async fn an_unknown_kind_is_refused_and_the_configuration_is_named() {
    for (path, group, kind, configuration) in [
        ("/mutate", "apps", "Deployment", "MutatingWebhookConfiguration"),
        ("/validate", "", "Pod", "ValidatingWebhookConfiguration"),
    ] {
        let mut review = review("CREATE", &json!({"metadata": {"name": "pi"}}), &Value::Null);
        review["request"]["kind"] = json!({"group": group, "version": "v1", "kind": kind});
        let message = format!(
            "this webhook does not know {kind} of group `{group}`: take it out of the rules of the {configuration}"
        );
        assert_eq!(answer(path, &review).await, refused(403, "Forbidden", &message));
    }
}

/// Returns the response to `review`.
async fn answer(path: &str, review: &Value) -> Value {
    let server = Server::start().await;
    let answer = server.connect("h2").await.review_at(path, review).await;
    answer["response"].clone()
}

/// Returns the object of `review` after the response's patch; `None` if the response has no patch.
async fn patched(path: &str, review: &Value) -> Option<Value> {
    let answer = answer(path, review).await;
    assert_eq!(answer["allowed"], true, "{answer}");
    let patch: k8s_openapi::ByteString = serde_json::from_value(answer.get("patch")?.clone()).unwrap();
    let mut patched = review["request"]["object"].clone();
    json_patch::patch(&mut patched, &serde_json::from_slice::<json_patch::Patch>(&patch.0).unwrap()).unwrap();
    Some(patched)
}

fn allowed() -> Value {
    json!({"uid": "705ab4f5", "allowed": true})
}

fn refused(code: u16, reason: &str, message: &str) -> Value {
    json!({"uid": "705ab4f5", "allowed": false, "status": {"code": code, "reason": reason, "message": message}})
}

fn review(operation: &str, object: &Value, old: &Value) -> Value {
    let kind = if object["kind"].is_null() { &old["kind"] } else { &object["kind"] };
    let kind = if kind.is_null() { &json!("SparkApplication") } else { kind };
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "705ab4f5", "kind": {"group": "sparkoperator.k8s.io", "version": "v1beta2", "kind": kind},
        "name": "pi", "namespace": "default", "operation": operation, "object": object, "oldObject": old,
    }})
}

/// Returns the application `pi` with this spec, and the fields that the CRD requires.
fn pi(spec: Value) -> Value {
    let mut pi = json!({
        "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication",
        "metadata": {"name": "pi", "namespace": "default"},
        "spec": {
            "type": "Scala", "mode": "cluster", "sparkVersion": "4.0.1", "mainClass": "a.B", "mainApplicationFile": "local:///app.jar",
            "image": "spark", "driver": {}, "executor": {},
        },
    });
    json_patch::merge(&mut pi["spec"], &spec);
    pi
}

/// Returns the server `notebook` with this spec.
fn notebook(spec: Value) -> Value {
    let mut notebook = json!({
        "apiVersion": "sparkoperator.k8s.io/v1alpha1", "kind": "SparkConnect",
        "metadata": {"name": "notebook", "namespace": "default", "resourceVersion": "1"},
        "spec": {"sparkVersion": "4.0.1", "image": "spark", "server": {}, "executor": {}},
    });
    json_patch::merge(&mut notebook["spec"], &spec);
    notebook
}

/// Returns the schedule `nightly` with these changes to its spec.
fn nightly(spec: Value) -> Value {
    let mut nightly = json!({
        "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "ScheduledSparkApplication",
        "metadata": {"name": "nightly", "namespace": "default"},
        "spec": {"schedule": "@daily", "template": pi(json!({}))["spec"]},
    });
    json_patch::merge(&mut nightly["spec"], &spec);
    nightly
}
