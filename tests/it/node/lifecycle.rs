//! Proves what a user sees when pods are deleted, killed or evicted, or cannot start.

use super::{
    application, apply, followed, install, install_alone, left_of, log, message, native::python_job, pod,
    pods, state_is, sums, until, until_event,
};
use crate::apiserver::{
    policy::{AdmissionPolicy, created_pods},
    prelude::*,
};

#[test]
#[ignore = "needs a node: make test"]
fn a_deleted_driver_has_failed_with_the_exit_code_of_its_container() {
    let _shared = install();
    let name = "driver-deleted";
    let mut job = job(name, "stay");
    json_patch::merge(&mut job["spec"], &sums::by_settings());
    runs(&job);
    has_executor(name);
    sums::are_those_of_the_pods(&job);
    kubectl(&["delete", "pod", &format!("{name}-driver")]);
    assert_eq!(followed(name).last().unwrap(), "FAILED");
    let message = message(name);
    assert_eq!(message, "driver container failed with ExitCode: 143, Reason: Error (its pod was deleted)");
    // The executors notice the end of the driver shortly after it, and some of them then exit cleanly.
    until("its status says that its executors have ended", || {
        let executors = application(name)["status"]["executorState"].take();
        executors.as_object().unwrap().values().all(|state| state == "FAILED" || state == "COMPLETED")
    });
    nothing_is_left(name, "background");
}

#[test]
#[ignore = "needs a node: make test"]
fn a_driver_that_exceeds_its_memory_limit_is_reported_as_oom_killed() {
    let _shared = install();
    let name = "driver-eats";
    apply(&job(name, "eat alone"));
    assert_eq!(followed(name).last().unwrap(), "FAILED");
    let message = message(name);
    assert!(
        message.starts_with("driver container failed with ExitCode: 137, Reason: OOMKilled"),
        "{message}"
    );
    let conditions = application(name)["status"]["conditions"].take();
    let failed =
        conditions.as_array().unwrap().iter().find(|condition| condition["type"] == "Failed").unwrap();
    assert_eq!((&failed["status"], &failed["reason"]), (&json!("True"), &json!("OOMKilled")));
    nothing_is_left(name, "foreground");
}

#[test]
#[ignore = "needs a node: make test"]
fn executors_that_a_policy_refuses_are_reported_and_new_ones_follow_edits() {
    let _shared = install();
    let name = "executor-killed";
    let refused = refusing("executor", name);
    let mut job = job(name, "replace");
    job["metadata"]["annotations"] = json!({annotation::PARTIAL_RESTART: "true"});
    json_patch::merge(&mut job["spec"], &sums::by_fields());
    runs(&job);
    let why = || {
        let conditions = application(name)["status"]["conditions"].take();
        let mut conditions = conditions.as_array().unwrap().iter();
        conditions
            .find(|condition| condition["type"] == "ExecutorsRefused")
            .map(|it| it["message"].to_string())
    };
    until("the status says why it has no executors", || {
        why().is_some_and(|why| why.contains("executors are refused: ") && why.contains("none today"))
    });
    drop(refused);
    has_executor(name);
    until("the condition ExecutorsRefused is gone", || why().is_none());
    let driver = format!("{name}-driver");
    until("the executor works", || log(&driver).contains("first executor:"));
    sums::are_those_of_the_pods(&job);

    let before = pod(name, "driver");
    let toleration = json!({"key": "pool", "operator": "Equal", "value": "new", "effect": "NoSchedule"});
    let executor = json!({"nodeSelector": {"kubernetes.io/os": "linux"}, "tolerations": [toleration]});
    let edit = json!({"spec": {"executor": executor}}).to_string();
    kubectl(&["patch", "sparkapp", name, "--type=merge", "--patch", &edit]);
    until_event(&format!("sparkapplication/{name}"), &["SparkApplicationWebhookFieldsUpdated"]);
    let template = ["--", "cat", "/opt/spark/pod-template/pod-spec-template.yml"];
    until("the driver has the new template", || {
        let exec = ["exec", &driver, "-c", "spark-kubernetes-driver"];
        kubectl(&[&exec[..], &template].concat()).contains("kubernetes.io/os")
    });
    kubectl(&["delete", "pod", pod(name, "executor")["metadata"]["name"].as_str().unwrap()]);
    until("the next executor follows the edit", || {
        pods(name, "executor").iter().any(|pod| {
            let spec = &pod["spec"];
            spec["nodeSelector"]["kubernetes.io/os"] == "linux"
                && spec["tolerations"].as_array().is_some_and(|all| all.contains(&toleration))
        })
    });
    // The job ends once another executor has worked.
    assert_eq!(followed(name).last().unwrap(), "COMPLETED");
    let status = application(name)["status"].take();
    assert!(status["executorState"].as_object().unwrap().len() >= 2, "{status}");
    assert_eq!(status["runs"].as_array().unwrap().len(), 1, "{status}");
    assert_eq!(pod(name, "driver")["metadata"]["uid"], before["metadata"]["uid"]);
    nothing_is_left(name, "background");
}

#[test]
#[ignore = "needs a node: make test"]
fn a_drained_node_ends_the_run_and_the_next_one_waits_for_a_node_alone() {
    let _alone = install_alone();
    let name = "node-drained";
    let mut job = job(name, "stay alone");
    job["spec"]["restartPolicy"] = json!({"type": "OnFailure", "onFailureRetries": 1});
    runs(&job);
    let node = kubectl(&["get", "nodes", "--output=jsonpath={.items[0].metadata.name}"]);
    let _cordoned = cordoned(&node);
    let drivers = "--pod-selector=spark-role=driver";
    kubectl(&["drain", &node, drivers, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s"]);
    until("the next driver waits for a node", || {
        application(name)["status"]["executionAttempts"] == 2 && message(name).starts_with("Unschedulable: ")
    });
    let runs = application(name)["status"]["runs"].take();
    assert_eq!(runs[0]["state"], "FAILED", "{runs}");
    let why = runs[0]["message"].as_str().unwrap();
    assert!(why.contains("EvictionByEvictionAPI"), "{why}");

    // The application is edited while its driver waits: the run ends, and the new spec is run.
    job["spec"]["arguments"] = json!(["end", "alone"]);
    apply(&job);
    until("the driver of the edited application waits for a node", || {
        application(name)["status"]["runOrdinal"] == 3 && message(name).starts_with("Unschedulable: ")
    });
    kubectl(&["uncordon", &node]);
    assert_eq!(followed(name).last().unwrap(), "COMPLETED");
    assert_eq!(application(name)["status"]["applicationState"]["errorMessage"], Value::Null);
    let status = application(name)["status"].take();
    let causes: Vec<_> = status["runs"].as_array().unwrap().iter().map(|run| &run["cause"]).collect();
    assert_eq!(causes, ["Created", "FailureRetry", "SpecEdited"]);
    assert_eq!(status["executionAttempts"], 1);
    kubectl(&["wait", "sparkapp", name, "--for=condition=Succeeded", "--timeout=1s"]);
    nothing_is_left(name, "background");
}

#[test]
#[ignore = "needs a node: make test"]
fn a_missing_image_or_volume_is_named_while_the_driver_waits_for_it() {
    let _shared = install();
    let unpulled = ["ErrImagePull: ", "ImagePullBackOff: "];
    let missing = [
        ("image-missing", "/spec/image", "localhost/no-such-image:1", &unpulled[..]),
        ("volume-missing", "/spec/volumes/0/configMap/name", "no-such-map", &["FailedMount: "]),
    ];
    for (name, place, what, _) in missing {
        let mut job = job(name, "end");
        *job.pointer_mut(place).unwrap() = json!(what);
        apply(&job);
    }
    for (name, _, what, reasons) in missing {
        until("the status says what is missing", || {
            let message = message(name);
            reasons.iter().any(|reason| message.starts_with(reason)) && message.contains(what)
        });
        assert_eq!(application(name)["status"]["applicationState"]["state"], "SUBMITTED");
    }
    let suspend = json!({"spec": {"suspend": true}}).to_string();
    kubectl(&["patch", "sparkapp", "image-missing", "--type=merge", "--patch", &suspend]);
    state_is("image-missing", "SUSPENDED");
    let ours = "--selector=sparkoperator.k8s.io/app-name=image-missing";
    assert_eq!(kubectl(&["get", "pods,configmaps", ours, "--output=name"]), "");
    nothing_is_left("image-missing", "background");
    // The other one is deleted while its driver waits.
    nothing_is_left("volume-missing", "foreground");
}

/// Returns an application of `job.py` with these arguments.
fn job(name: &str, what: &str) -> Value {
    let mut job = python_job(name, "lifecycle-job", "tests/data/node/lifecycle/job.py");
    job["spec"]["arguments"] = what.split(' ').collect();
    // The tests delete these pods, and would otherwise wait for longer grace periods.
    job["spec"]["driver"]["terminationGracePeriodSeconds"] = json!(5);
    job["spec"]["executor"]["terminationGracePeriodSeconds"] = json!(1);
    job
}

/// Refuses each pod of `role` of the application called `name`, as an admin's policy would.
pub(crate) fn refusing(role: &str, name: &str) -> AdmissionPolicy {
    let labels = json!({"sparkoperator.k8s.io/app-name": name, "spark-role": role});
    let spec = json!({
        "matchConstraints": {"resourceRules": [created_pods()], "objectSelector": {"matchLabels": labels}},
        "validations": [{"expression": "false", "message": "none today"}],
    });
    let policy = AdmissionPolicy::apply(name, spec);
    let refused = plain_pod(&json!({"name": name, "labels": labels}));
    let tried = || calls::tried_in("default", &refused);
    until("the policy holds", || tried().is_err_and(|why| why.contains("none today")));
    policy
}

/// Applies a job and waits until it runs.
fn runs(job: &Value) {
    apply(job);
    state_is(job["metadata"]["name"].as_str().unwrap(), "RUNNING");
}

fn has_executor(name: &str) {
    until("an executor runs", || {
        let states = application(name)["status"]["executorState"].take();
        states.as_object().is_some_and(|states| states.values().any(|state| state == "RUNNING"))
    });
}

/// Deletes an application; asserts that Kubernetes deletes all its objects.
fn nothing_is_left(name: &str, cascade: &str) {
    kubectl(&["delete", "sparkapp", name, &format!("--cascade={cascade}"), "--timeout=60s"]);
    until("nothing is left", || left_of(name).is_empty());
}

/// Returns a value that uncordons the node when it is dropped.
pub(super) fn cordoned(node: &str) -> Finally {
    let node = node.to_owned();
    Finally::new(move || drop(kubectl(&["uncordon", &node])))
}
