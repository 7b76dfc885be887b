//! Tests the webhook's answers to reviews of applications and schedules.

use crate::{fuzzed::GATEWAY, prelude::*, webhook::Server};

#[tokio::test]
async fn an_application_is_filled_in_and_keeps_what_we_do_not_know() {
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

#[tokio::test]
async fn an_application_that_was_submitted_is_not_filled_in() {
    for (state, is_filled_in) in
        [("", true), ("INVALIDATING", true), ("SUBMITTED", false), ("RUNNING", false), ("COMPLETED", false)]
    {
        let mut old = pi(json!({}));
        old["status"] = json!({"applicationState": {"state": state}});
        let review = review("UPDATE", &pi(json!({})), &old);
        assert_eq!(patched("/mutate", &review).await.is_some(), is_filled_in, "{state}");
    }
    // A user may apply an application that was read from a cluster. The API server drops the status of a new object.
    let mut copy = pi(json!({}));
    copy["status"] = json!({"applicationState": {"state": "COMPLETED"}});
    assert!(patched("/mutate", &review("CREATE", &copy, &Value::Null)).await.is_some());
}

/// The webhook admits such an application unchanged: afterwards the API server checks it against the CRD, and reports
/// every field that is wrong.
#[tokio::test]
async fn an_application_that_cannot_be_read_is_not_filled_in() {
    for spec in [json!({"type": "Ruby"}), json!({"driver": "one"})] {
        assert_eq!(answer("/mutate", &review("CREATE", &pi(spec), &Value::Null)).await, allowed());
    }
    let without_spec = json!({"metadata": {"name": "pi"}});
    assert_eq!(answer("/mutate", &review("CREATE", &without_spec, &Value::Null)).await, allowed());
}

#[tokio::test]
async fn a_schedule_is_not_filled_in() {
    let review = review("CREATE", &nightly(json!({})), &Value::Null);
    assert_eq!(answer("/mutate", &review).await, allowed());
}

#[tokio::test]
async fn an_application_that_can_never_work_is_refused_with_all_that_is_wrong_and_its_warnings() {
    let pi = pi(json!({"mode": "client", "driver": {"memory": "1gg"}, "retryInterval": 5}));
    let message = "spec.mode: `client` would run the driver where it is submitted, not in a pod of its own: write `cluster`; \
        spec.driver.memory: `1gg` is not a Java memory size (try `1g`)";
    let mut expected = refused(403, "Forbidden", message);
    expected["warnings"] =
        json!(["spec.retryInterval: has no effect: write spec.restartPolicy.onFailureRetryInterval"]);
    assert_eq!(answer("/validate", &review("CREATE", &pi, &Value::Null)).await, expected);
}

#[tokio::test]
async fn an_application_that_may_work_is_let_in_with_its_warnings() {
    assert_eq!(answer("/validate", &review("CREATE", &pi(json!({})), &Value::Null)).await, allowed());
    let mut expected = allowed();
    expected["warnings"] = json!(["spec.driver.envVars: is deprecated: write spec.driver.env"]);
    let pi = pi(json!({"driver": {"envVars": {"A": "b"}}}));
    assert_eq!(answer("/validate", &review("CREATE", &pi, &Value::Null)).await, expected);
}

#[tokio::test]
async fn an_edit_is_let_in_with_a_warning_of_what_it_does_to_the_run() {
    let mut old = pi(json!({}));
    old["status"] = json!({"applicationState": {"state": "RUNNING"}, "submissionID": "1"});
    let mut expected = allowed();
    assert_eq!(
        answer("/validate", &review("UPDATE", &pi(json!({"timeToLiveSeconds": 5})), &old)).await,
        expected
    );
    let edited = pi(json!({"driver": {"cores": 2, "envVars": {"A": "b"}}}));
    expected["warnings"] = json!([
        "an edit of spec.driver.cores (and 1 more) ends this run and starts another",
        "spec.driver.envVars: is deprecated: write spec.driver.env",
    ]);
    assert_eq!(answer("/validate", &review("UPDATE", &edited, &old)).await, expected);
    old["status"]["specHash"] = json!("v1-partial:1");
    let moved = pi(json!({"executor": {"nodeSelector": {"pool": "new"}}}));
    expected["warnings"] =
        json!(["an edit of spec.executor.nodeSelector is for the next executor, and this run goes on"]);
    assert_eq!(answer("/validate", &review("UPDATE", &moved, &old)).await, expected);
}

#[tokio::test]
async fn a_schedule_is_refused_for_its_times_and_for_its_applications() {
    let nightly = nightly(json!({"schedule": "0 25 * * *", "template": {"mode": "client"}}));
    let message = "spec.schedule: field 2 (hour), `25` at character 3: must be from 0 to 23; \
        spec.template.mode: `client` would run the driver where it is submitted, not in a pod of its own: write `cluster`";
    let expected = refused(403, "Forbidden", message);
    assert_eq!(answer("/validate", &review("CREATE", &nightly, &Value::Null)).await, expected);
}

#[tokio::test]
async fn a_server_is_refused_for_its_mistakes_and_can_be_stopped_all_the_same() {
    let wrong = notebook(json!({"server": {"memory": "1gg"}}));
    let expected =
        refused(403, "Forbidden", "spec.server.memory: `1gg` is not a Java memory size (try `1g`)");
    for path in ["/validate", "/validate-sparkoperator-k8s-io-v1alpha1-sparkconnect"] {
        assert_eq!(answer(path, &review("CREATE", &wrong, &Value::Null)).await, expected);
    }
    let stopped = notebook(json!({"server": {"memory": "1gg"}, "suspend": true}));
    assert_eq!(answer("/validate", &review("UPDATE", &stopped, &wrong)).await, allowed());
    let of_kubeflow = "/mutate-sparkoperator-k8s-io-v1alpha1-sparkconnect";
    assert_eq!(answer(of_kubeflow, &review("CREATE", &wrong, &Value::Null)).await, allowed());
}

#[tokio::test]
async fn an_edit_that_restarts_a_server_says_so() {
    let (idle, mut running) = (notebook(json!({})), notebook(json!({})));
    running["status"] = json!({"state": "Ready", "server": {"podName": "notebook-server"}});
    let warned = {
        let mut warned = allowed();
        warned["warnings"] = json!(["spec: this edit restarts the server, which ends its sessions"]);
        warned
    };
    let larger = notebook(json!({"server": {"cores": 2}}));
    assert_eq!(answer("/validate", &review("UPDATE", &larger, &running)).await, warned);
    assert_eq!(answer("/validate", &review("UPDATE", &larger, &idle)).await, allowed());
    let elsewhere = notebook(json!({"server": {"service": {"metadata": {"name": "other"}}}}));
    assert_eq!(answer("/validate", &review("UPDATE", &elsewhere, &running)).await, allowed());
}

/// Kubernetes has no right on an annotation alone, and the gateway is where clients of all tenants come.
#[tokio::test]
async fn the_gateways_account_may_only_note_when_somebody_connected() {
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
async fn what_cannot_be_read_is_refused_with_the_path() {
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
        "{path}: is nested more than 64 levels deep, and readers of the object end soon after that: write it flatter"
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
async fn nothing_is_refused_of_an_update_that_asks_for_the_same() {
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
async fn an_object_that_does_not_say_where_it_is_is_where_the_request_is() {
    let mut pi = pi(json!({"sparkConf": {"spark.kubernetes.namespace": "default"}}));
    pi["metadata"] = json!({"generateName": "pi-"});
    assert_eq!(answer("/validate", &review("CREATE", &pi, &Value::Null)).await, allowed());
    pi["spec"]["sparkConf"]["spark.kubernetes.namespace"] = json!("elsewhere");
    assert_eq!(answer("/validate", &review("CREATE", &pi, &Value::Null)).await["allowed"], false);
}

#[tokio::test]
async fn a_kind_that_nobody_validates_is_refused_and_the_rules_are_named() {
    let mut review = review("CREATE", &json!({"metadata": {"name": "pi"}}), &Value::Null);
    review["request"]["kind"] = json!({"group": "", "version": "v1", "kind": "Pod"});
    let message = "this webhook does not know Pod of group ``: take it out of the rules of the ValidatingWebhookConfiguration";
    assert_eq!(answer("/validate", &review).await, refused(403, "Forbidden", message));
}

/// Returns the response to `review`.
async fn answer(path: &str, review: &Value) -> Value {
    let server = Server::start().await;
    let answer = server.connect("h2").await.review_at(path, review).await;
    answer["response"].clone()
}

/// Returns the object of `review` with the response's patch, or nothing if the response has no patch.
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
