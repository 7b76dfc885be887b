//! Tests the errors and warnings that a user sees when applying an application.

use super::{client_requests, edits, gangs, told};
use crate::{apiserver::prelude::*, program};

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn applications_that_cannot_work_are_refused_and_others_are_warned_of_completed_and_run() {
    let namespace = Namespace::new("refusals").await;
    let _reviewed = reviewed();
    let _operator = Operator::start(&namespace).await;
    what_has_no_effect_is_warned_of_and_what_was_left_out_is_filled_in(&namespace).await;
    let all = namespace.beside("told").await;
    told::the_api_server_refuses_what_validation_refuses_and_nothing_else(&all);
    let gitops = namespace.beside("gitops").await;
    edits::a_manifest_that_comes_again_starts_no_run_and_nothing_drifts_from_it(&gitops).await;
    let clients = namespace.beside("clients").await;
    client_requests::what_other_programs_send_is_taken_and_gets_a_driver(&clients).await;
    let examples = namespace.beside("gang-examples").await;
    gangs::the_sums_are_those_of_the_drivers_of_all_examples(&examples).await;
}

async fn what_has_no_effect_is_warned_of_and_what_was_left_out_is_filled_in(namespace: &Namespace) {
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
