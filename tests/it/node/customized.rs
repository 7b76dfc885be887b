//! Proves that the processes in a pod see every change that the webhook can make to the pod, with all changes at once.

use super::{application, delete, followed, install, make_job, pod, printed};
use crate::apiserver::prelude::*;
use pod_customization::STEPS;

/// The folder with the application, the objects that it mounts, and its program.
const FOLDER: &str = "tests/data/node/customized";

#[test]
#[ignore = "needs a node: make test"]
fn processes_see_all_customizations_at_once() {
    let _shared = install();
    offer_gpus();
    make_job("customized-job", &format!("{FOLDER}/look_around.py"));
    kubectl(&["apply", "-f", &format!("{FOLDER}/application.yaml")]);
    let states = followed("customized");
    // The application completes although its sidecars never end.
    assert_eq!(states.last().unwrap(), "COMPLETED", "{states:?}");

    let pods = ["driver", "executor"].map(|role| (role, pod("customized", role)));
    let saw: Value = serde_json::from_str(&printed("customized-driver", "saw: ")).unwrap();
    assert_eq!(saw["hadoop configuration"], "hello from Hadoop's configuration");
    assert_eq!(saw["spark user"], "analyst");
    for (role, pod) in &pods {
        assert_eq!(saw[role], seen_by(role, pod), "{:#}", saw[role]);
        asks_for_everything(role, pod);
        is_as_no_process_can_see(role, pod);
    }

    let driver = &pods[0].1["status"];
    let companion = driver["containerStatuses"].as_array().unwrap().iter().find(|c| c["name"] == "companion");
    assert!(driver["phase"] == "Running" && !companion.unwrap()["state"]["running"].is_null(), "{driver:#}");
    // The executor's sidecar also continues after Spark's container has ended.
    let completed = "--for=jsonpath={.status.executorState.*}=COMPLETED";
    kubectl(&["wait", completed, "sparkapp/customized", "--timeout=60s"]);
    assert_eq!(pod("customized", "executor")["status"]["phase"], "Running");
    kubectl(&["delete", "pod", "customized-driver", "--wait=false"]);
    // The kubelet waits for a sidecar that ignores SIGTERM for this many seconds at most.
    assert_eq!(pod("customized", "driver")["metadata"]["deletionGracePeriodSeconds"], 7);
    assert_eq!(application("customized")["status"]["applicationState"], json!({"state": "COMPLETED"}));
    delete("customized");
}

/// Adds GPUs to the node's capacity, as a device plugin would.
fn offer_gpus() {
    let node = kubectl(&["get", "nodes", "--output=name"]);
    let capacity = json!({"status": {"capacity": {"customized.test/gpu": "2"}}}).to_string();
    kubectl(&["patch", node.trim(), "--subresource=status", "--type=merge", "--patch", &capacity]);
}

/// Returns the values that `look_around.py` must find in this pod of `role`.
fn seen_by(role: &str, pod: &Value) -> Value {
    let mut seen: Value = yaml(&data("node/customized/seen.yaml"));
    seen["files"]["downward"] = json!(role);
    seen["env"]["POD_NAME"] = pod["metadata"]["name"].clone();
    seen["own address"] = pod["status"]["podIP"].clone();
    seen
}

/// Asserts that the pod has the annotations of all customization steps, except those that its role cannot use in this
/// test.
fn asks_for_everything(role: &str, pod: &Value) {
    let cannot = match role {
        "driver" => annotation::HOST_NETWORK,
        _ => annotation::OWNER_REFERENCE,
    };
    // This cluster is too old for the last two.
    let left_out = [annotation::PROMETHEUS, cannot, annotation::POD_GROUP, annotation::SCHEDULING_GATE];
    let annotations = &pod["metadata"]["annotations"];
    let missing: Vec<_> =
        STEPS.iter().map(|step| step.key).filter(|key| annotations[key].is_null()).collect();
    let mut expected = left_out.to_vec();
    expected.sort_by_key(|key| STEPS.iter().position(|step| step.key == *key));
    assert_eq!(missing, expected, "{role}: {annotations:#}");
}

/// Asserts the settings that are for the scheduler and the kubelet, which no process can see.
fn is_as_no_process_can_see(role: &str, pod: &Value) {
    let (spec, container) = (&pod["spec"], &pod["spec"]["containers"][0]);
    let asked = &application("customized")["spec"][role];
    for field in
        ["affinity", "nodeSelector", "priorityClassName", "schedulerName", "terminationGracePeriodSeconds"]
    {
        assert_eq!(spec[field], asked[field], "{role}'s {field}");
    }
    let status = &pod["status"];
    assert_eq!(status["podIP"] == status["hostIP"], role == "executor", "{role}: {status:#}");
    assert_eq!(spec["priority"], 1234, "{role}: that of its class");
    let tolerations = spec["tolerations"].as_array().unwrap();
    assert!(tolerations.contains(&asked["tolerations"][0]), "{role}: {tolerations:?}");
    let port = container["ports"].as_array().unwrap().iter().find(|port| port["name"] == "extra");
    let (port, asked_port) = (port.unwrap(), &asked["ports"][0]);
    assert_eq!(
        ["containerPort", "protocol"].map(|field| &port[field]),
        ["containerPort", "protocol"].map(|field| &asked_port[field])
    );
    assert_eq!(container["lifecycle"], asked["lifecycle"], "{role}");
    let limits = json!({"memory": "1200Mi", "customized.test/gpu": "1"});
    assert_eq!(container["resources"]["limits"], limits, "{role}");
}
