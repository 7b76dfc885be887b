//! Proves that a schedule runs a job when it is triggered, and keeps as many runs as its spec allows. That it runs jobs
//! at their times is proved in `apiserver::schedules`.

use super::{APPLICATIONS, apply, followed, install, listed, log, until, until_event};
use crate::apiserver::prelude::*;

#[test]
#[ignore = "needs a node: make test"]
fn a_schedule_runs_pi_twice_when_it_is_triggered_and_keeps_the_latest() {
    let _shared = install();
    let name = "spark-pi-nightly";
    let mut schedule: Value = yaml(&data(&format!("../../manifests/examples/{name}.yaml")));
    schedule["spec"]["schedule"] = json!("@every 24h");
    schedule["spec"]["successfulRunHistoryLimit"] = json!(1);
    apply(&schedule);
    kubectl(&["wait", "scheduledsparkapp", name, "--for=jsonpath={.status.nextRun}", "--timeout=60s"]);
    let trigger = ["annotate", "scheduledsparkapp", name, "--overwrite"];
    kubectl(&[&trigger[..], &["sparkoperator.k8s.io/trigger=first"]].concat());
    let first = run_other_than(name, "");
    assert_eq!(followed(&first).last().unwrap(), "COMPLETED");
    assert!(log(&format!("{first}-driver")).contains("Pi is roughly 3."));
    // The second run does nothing, because its result would be that of the first.
    let ends = json!({"name": "spark-kubernetes-driver", "command": ["true"]});
    let template = json!({"driver": {"template": {"spec": {"containers": [ends]}}}});
    let edit = json!({"spec": {"template": template}}).to_string();
    kubectl(&["patch", "scheduledsparkapp", name, "--type=merge", "--patch", &edit]);
    kubectl(&[&trigger[..], &["sparkoperator.k8s.io/trigger=second"]].concat());
    let second = run_other_than(name, &first);
    assert_eq!(followed(&second).last().unwrap(), "COMPLETED");

    let kept = format!("--for=jsonpath={{.status.pastSuccessfulRunNames[0]}}={second}");
    kubectl(&["wait", "scheduledsparkapp", name, &kept, "--timeout=60s"]);
    until("the first is gone", || runs(name) == [second.clone()].into());
    let columns = kubectl(&["get", "scheduledsparkapp", name, "--no-headers"]);
    assert!(columns.contains(&second) && columns.contains("@every 24h"), "{columns}");
    for reason in ["ScheduledRunStarted", "ScheduledRunsPruned"] {
        until_event(&format!("scheduledsparkapplication/{name}"), &[reason]);
    }
    kubectl(&["delete", "scheduledsparkapp", name]);
    until("its applications are deleted with it", || runs(name).is_empty());
}

/// Waits until the schedule has an application with a name other than `other`, and returns its name.
fn run_other_than(schedule: &str, other: &str) -> String {
    let mut found = None;
    until("there is another run", || {
        found = runs(schedule).into_iter().find(|run| run != other);
        found.is_some()
    });
    found.unwrap()
}

fn runs(schedule: &str) -> BTreeSet<String> {
    let ours = format!("{APPLICATIONS}?labelSelector=sparkoperator.k8s.io/scheduled-app-name={schedule}");
    listed(&ours).iter().map(|run| run["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}
