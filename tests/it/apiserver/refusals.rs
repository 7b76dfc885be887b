//! Tests the errors and warnings that a user sees when applying an application.

use super::{client_requests, edits, gangs, validation_agreement};
use crate::{apiserver::prelude::*, program};

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn invalid_applications_are_refused_and_others_get_warnings_and_defaults() {
    let namespace = Namespace::new("refusals").await;
    let _reviewed = reviewed();
    let _operator = Operator::start(&namespace).await;
    ineffective_fields_cause_warnings_and_missing_ones_get_defaults(&namespace).await;
    let all = namespace.beside("told").await;
    validation_agreement::the_api_server_refuses_exactly_what_validation_refuses(&all);
    let gitops = namespace.beside("gitops").await;
    edits::a_reapplied_manifest_starts_no_run_and_causes_no_drift(&gitops).await;
    let clients = namespace.beside("clients").await;
    client_requests::requests_of_other_programs_are_accepted_and_get_a_driver(&clients).await;
    let examples = namespace.beside("gang-examples").await;
    gangs::computed_requests_equal_those_of_the_drivers_of_all_examples(&examples).await;
}

async fn ineffective_fields_cause_warnings_and_missing_ones_get_defaults(namespace: &Namespace) {
    let mut old = application("old");
    // A suspended application stays New, so that the operator does not write to it.
    old["spec"]["suspend"] = json!(true);
    old["spec"]["driver"]["envVars"] = json!({"A": "b"});
    let (status, _, stderr) = applied(namespace, &old);
    assert!(status, "{stderr}");
    assert!(
        stderr.contains("Warning: spec.driver.envVars: is deprecated: write spec.driver.env"),
        "{stderr}"
    );
    let spec = &namespace.application("old").await["spec"];
    for (role, field, value) in [
        ("driver", "cores", json!(1)),
        ("driver", "memory", json!("1g")),
        ("executor", "memory", json!("1g")),
        ("executor", "instances", json!(1)),
    ] {
        assert_eq!(spec[role][field], value, "{role}.{field}: {spec}");
    }
    assert_eq!((&spec["mode"], &spec["restartPolicy"]["type"]), (&json!("cluster"), &json!("Never")));
    let (status, stdout, _) = applied(namespace, &old);
    assert!(status && stdout.contains("unchanged"), "{stdout}");

    let mut grouped = application("grouped");
    grouped["spec"]["suspend"] = json!(true);
    grouped["spec"]["batchScheduler"] = json!("volcano");
    let (status, _, stderr) = applied(namespace, &grouped);
    let warning = "Warning: spec.batchScheduler: only becomes the schedulerName of the pods, without a group: the operator runs without \
                   --enable-batch-scheduler";
    assert!(status && stderr.contains(warning), "{stderr}");
}

/// Runs `kubectl apply`; returns whether it succeeds, its standard output and its standard error.
fn applied(namespace: &Namespace, object: &Value) -> (bool, String, String) {
    let arguments = ["apply", "--namespace", namespace.name, "-f", "-"];
    let output = program::run("kubectl", &arguments, &object.to_string());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}
