//! Runs Kueue's own program beside the cluster: an application waits in its queue, is admitted, ready, preempted,
//! edited, deactivated, placed, suspended after its maximum execution time, and fails to be submitted.

use crate::{
    apiserver::prelude::*,
    node::{
        APPLICATIONS, application, apply, delete, install_alone, kept, lifecycle::refusing, listed,
        native::python_job, node_address, state_is, until,
    },
};
use std::fs::File;

const SERVICE: &str = "kueue-webhook-service";
const NAMESPACE: &str = "kueue-system";
/// The port of Kueue's webhook.
const PORT: u16 = 9443;
const WORKLOADS: &str = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads";
/// The label of nodes by which Kueue places pods.
const HOSTNAME: &str = "kubernetes.io/hostname";

#[test]
#[ignore = "needs a node and Kueue: make clients"]
fn an_application_runs_while_kueue_admits_it() {
    let _alone = install_alone();
    let _kueue = kueue();
    make_queue("tests", &json!({}));

    // The quota is that of one application.
    apply(&job("first", "stay", &json!({})));
    state_is("first", "RUNNING");
    until("Kueue sees that its executor runs", || condition("first", "PodsReady").as_deref() == Some("True"));
    apply(&job("second", "stay", &json!({annotation::ELASTIC_JOB: "true"})));
    until("the second one waits", || condition("second", "QuotaReserved").as_deref() == Some("False"));
    assert_eq!(application("second")["spec"]["suspend"], true);
    assert!(!has_driver("second"));
    delete("first");
    state_is("second", "RUNNING");

    let mut urgent = job("urgent", "end", &json!({}));
    urgent["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!("urgent");
    apply(&urgent);
    state_is("second", "SUSPENDED");
    assert!(!has_driver("second"));
    state_is("urgent", "COMPLETED");
    until("the quota is given back", || condition("urgent", "Finished").as_deref() == Some("True"));
    state_is("second", "RUNNING");

    // Kueue resets the number, and suspends the application meanwhile. If the edit ended the run, it would be the cause
    // of the next run.
    let edit = json!({"spec": {"executor": {"instances": 2}}});
    calls::merge(&format!("{APPLICATIONS}/second"), &edit);
    until("the third run is running, with the executors that were admitted", || {
        let second = application("second");
        second["status"]["runOrdinal"] == 3
            && second["status"]["applicationState"]["state"] == "RUNNING"
            && second["spec"]["executor"]["instances"] == 1
    });
    let runs = application("second")["status"]["runs"].take();
    assert_eq!([&runs[1]["cause"], &runs[2]["cause"]], ["Resumed", "Resumed"], "{runs}");
    delete("second");

    // Kueue takes SUBMISSION_FAILED for a final state.
    let refused = refusing("driver", "refused");
    let mut retried = job("refused", "stay", &json!({}));
    retried["spec"]["restartPolicy"] = json!({
        "type": "OnFailure", "onSubmissionFailureRetries": 20, "onSubmissionFailureRetryInterval": 1,
    });
    apply(&retried);
    until("its submission is retried", || {
        application("refused")["status"]["submissionAttempts"].as_i64().is_some_and(|count| count > 1)
    });
    assert_ne!(condition("refused", "Finished").as_deref(), Some("True"));
    drop(refused);
    state_is("refused", "RUNNING");
    assert_ne!(condition("refused", "Finished").as_deref(), Some("True"));
    delete("refused");
    let _refused = refusing("driver", "hopeless");
    apply(&job("hopeless", "stay", &json!({})));
    until("it has ended for Kueue", || condition("hopeless", "Finished").as_deref() == Some("True"));
    kubectl(&["delete", "sparkapp", "--all"]);
    println!("soak: clients: Kueue: as it should be");
}

#[test]
#[ignore = "needs a node and Kueue: make clients"]
fn kueue_deactivates_an_application_limits_its_time_and_places_its_pods() {
    let _alone = install_alone();
    let _kueue = kueue();
    make_queue("tests", &json!({}));
    is_deactivated_and_active_again();
    is_suspended_after_its_maximum_execution_time();
    // Kueue requires labels of a flavor with a topology, and adds them to the pods' node selectors.
    make(&[("Topology", "nodes", json!({"spec": {"levels": [{"nodeLabel": HOSTNAME}]}}))]);
    make_queue("placed", &json!({"nodeLabels": {"kubernetes.io/os": "linux"}, "topologyName": "nodes"}));
    is_placed();
    kubectl(&["delete", "sparkapp", "--all"]);
    println!("soak: clients: Kueue, deactivation, longest time and topology: as it should be");
}

fn is_deactivated_and_active_again() {
    apply(&job("paused", "stay", &json!({})));
    state_is("paused", "RUNNING");
    activate("paused", false);
    state_is("paused", "SUSPENDED");
    assert!(!has_driver("paused"));
    until("the quota is given back", || condition("paused", "QuotaReserved").as_deref() == Some("False"));
    assert_eq!(application("paused")["spec"]["suspend"], true);
    activate("paused", true);
    state_is("paused", "RUNNING");
    let status = application("paused")["status"].take();
    assert_eq!(
        (&status["runOrdinal"], &status["runs"][1]["cause"]),
        (&json!(2), &json!("Resumed")),
        "{status}"
    );
    delete("paused");
}

fn is_suspended_after_its_maximum_execution_time() {
    let mut limited = job("limited", "stay", &json!({}));
    limited["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = json!("60");
    apply(&limited);
    state_is("limited", "RUNNING");
    state_is("limited", "SUSPENDED");
    assert!(!has_driver("limited"));
    let workload = workload("limited").expect("Kueue has one for each application");
    assert_eq!(workload["spec"]["active"], false, "{workload}");
    let status = application("limited")["status"].take();
    assert_eq!(status["runs"].as_array().map(Vec::len), Some(1), "{status}");
    delete("limited");
}

/// Kueue gives all pods a scheduling gate, and removes it when it has chosen a node for the pod.
fn is_placed() {
    const DRIVER: &str = "/api/v1/namespaces/default/pods/placed-driver";
    const EXECUTORS: &str = "/api/v1/namespaces/default/pods?labelSelector=sparkoperator.k8s.io/app-name=placed,spark-role=executor";
    let mut placed = job("placed", "stay", &json!({}));
    placed["metadata"]["labels"][label::QUEUE_NAME] = json!("placed");
    for role in ["driver", "executor"] {
        placed["spec"][role]["annotations"]["kueue.x-k8s.io/podset-required-topology"] = json!(HOSTNAME);
    }
    // With a second gate, of the user's, the driver still has a gate after Kueue has removed its own.
    let gates = json!([{"name": "example.com/hold"}]);
    let containers = json!([{"name": "spark-kubernetes-driver"}]);
    placed["spec"]["driver"]["template"] =
        json!({"spec": {"containers": containers, "schedulingGates": gates}});
    apply(&placed);
    let is_chosen = |pod: &Value| {
        let selector = &pod["spec"]["nodeSelector"];
        selector[HOSTNAME].is_string() && selector["kubernetes.io/os"] == "linux"
    };
    until("Kueue has placed the driver", || {
        calls::get(DRIVER).is_some_and(|pod| pod["spec"]["schedulingGates"] == gates && is_chosen(&pod))
    });
    until("the status says that the driver is gated", || {
        let state = application("placed")["status"]["applicationState"].take();
        let why = state["errorMessage"].as_str().unwrap_or_default();
        state["state"] == "SUBMITTED" && why.starts_with("SchedulingGated: ")
    });
    calls::merge(DRIVER, &json!({"spec": {"schedulingGates": null}}));
    state_is("placed", "RUNNING");
    until("executors run where Kueue has placed them", || {
        let executors = listed(EXECUTORS);
        let runs = |pod: &Value| is_chosen(pod) && pod["status"]["phase"] == "Running";
        !executors.is_empty() && executors.iter().all(runs)
    });
    let placed = application("placed");
    assert_eq!(placed["status"]["runOrdinal"], 1, "{placed}");
    delete("placed");
}

/// Returns an application in the queue.
fn job(name: &str, what: &str, annotations: &Value) -> Value {
    let mut job = python_job(name, "lifecycle-job", "tests/data/node/lifecycle/job.py");
    job["metadata"]["labels"] = json!({label::QUEUE_NAME: "tests"});
    job["metadata"]["annotations"] = annotations.clone();
    job["spec"]["arguments"] = json!([what]);
    for role in ["driver", "executor"] {
        job["spec"][role]["terminationGracePeriodSeconds"] = json!(1);
    }
    job
}

fn has_driver(name: &str) -> bool {
    calls::get(&format!("/api/v1/namespaces/default/pods/{name}-driver")).is_some()
}

/// Returns the application's Workload, if it has one.
fn workload(application: &str) -> Option<Value> {
    let mut workloads = listed(WORKLOADS).into_iter();
    workloads.find(|own| own["metadata"]["ownerReferences"][0]["name"] == application)
}

/// Returns the status of this condition of the application's Workload, if it has one.
fn condition(application: &str, kind: &str) -> Option<String> {
    let workload = workload(application)?;
    let mut conditions = workload["status"]["conditions"].as_array()?.iter();
    let found = conditions.find(|condition| condition["type"] == kind)?;
    found["status"].as_str().map(str::to_owned)
}

/// Activates the application's Workload, or deactivates it.
fn activate(application: &str, active: bool) {
    let workload = workload(application).expect("Kueue has one for each application");
    let name = workload["metadata"]["name"].as_str().expect("every object has one");
    calls::merge(&format!("{WORKLOADS}/{name}"), &json!({"spec": {"active": active}}));
}

/// Creates a queue with room for one application, and a flavor of the same name with this spec.
fn make_queue(name: &str, flavor: &Value) {
    let resources =
        json!([{"name": "cpu", "nominalQuota": "500m"}, {"name": "memory", "nominalQuota": "4Gi"}]);
    let queue = json!({
        "namespaceSelector": {}, "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [
            {"coveredResources": ["cpu", "memory"], "flavors": [{"name": name, "resources": resources}]},
        ],
    });
    make(&[
        ("WorkloadPriorityClass", "urgent", json!({"value": 1000})),
        ("ResourceFlavor", name, json!({"spec": flavor})),
        ("ClusterQueue", name, json!({"spec": queue})),
        ("LocalQueue", name, json!({"spec": {"clusterQueue": name}})),
    ]);
}

/// Applies objects of Kueue, each with its kind, its name and its fields.
fn make(objects: &[(&str, &str, Value)]) {
    for (kind, name, fields) in objects {
        let mut object = of_kueue(kind, name);
        json_patch::merge(&mut object, fields);
        kubectl_with(&object, &["apply", "-f", "-"]);
    }
}

fn of_kueue(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}})
}

/// Starts a Kueue outside of the cluster, as the administrator. When the returned value is dropped, its webhook
/// configurations are deleted, and then its process ends.
fn kueue() -> (Finally, EndedOnDrop) {
    let program = PathBuf::from(env::var("KUEUE").expect("`make clients` sets KUEUE"));
    let folder = kept("kueue");
    let certificates = folder.join("certificates");
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&certificates).unwrap();
    install(&program.with_file_name("config").join("default"), &folder);
    let settings = json!({
        "apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
        "leaderElection": {"leaderElect": false}, "metrics": {"bindAddress": "0"},
        "waitForPodsReady": {"timeout": "5m", "blockAdmission": false},
        "webhook": {"port": PORT, "certDir": certificates},
        "integrations": {"frameworks": ["sparkoperator.k8s.io/sparkapplication"]},
        // The server of this feature, which lists pending workloads, has its files in a folder of the machine.
        "featureGates": {"SparkApplicationIntegration": true, "VisibilityOnDemand": false},
    });
    let file = folder.join("settings.yaml");
    fs::write(&file, settings.to_string()).unwrap();
    let log = File::create(folder.join("log")).unwrap();
    let process = Command::new(program)
        .arg("--config")
        .arg(file)
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    let of = |kind: &str| format!("{kind}webhookconfiguration/kueue-{kind}-webhook-configuration");
    let webhooks = [of("mutating"), of("validating")];
    let goes = move || drop(kubectl(&["delete", "--ignore-not-found", &webhooks[0], &webhooks[1]]));
    let kueue = (Finally::new(goes), EndedOnDrop(process));
    until("Kueue has made its certificate", || mounted(&certificates));
    // An open port is not enough. Objects of an earlier Kueue make its certificate valid at once; the API server learns
    // of the webhooks a little later, and accepts objects without them until then; and Kueue registers its own kinds
    // before those of others. A dry run is sent even if an object of this name exists.
    let [flavor, application] = [of_kueue("ResourceFlavor", "probe"), job("probe", "end", &json!({}))];
    let dry_run = ["create", "--dry-run=server", "--output=jsonpath={.spec.suspend}", "-f", "-"];
    until("Kueue's webhooks answer, and suspend an application", || {
        try_kubectl_with(&flavor, &dry_run).is_ok()
            && try_kubectl_with(&application, &dry_run).is_ok_and(|suspend| suspend == "true")
    });
    kueue
}

/// Installs the manifests of `config`, a folder beside the program: the kinds, and the webhooks for these and for
/// applications, which the API server reaches on the node.
fn install(config: &Path, folder: &Path) {
    let file = folder.join("manifests.yaml");
    fs::write(&file, kubectl(&["kustomize", config.to_str().unwrap()])).unwrap();
    let mut objects = documents(&file);
    objects.retain(|object| match object["kind"].as_str().unwrap_or_default() {
        "Service" => object["metadata"]["name"] == SERVICE,
        kind => {
            ["Namespace", "CustomResourceDefinition", "Secret"].contains(&kind)
                || kind.ends_with("WebhookConfiguration")
        }
    });
    let groups = [json!("kueue.x-k8s.io"), json!("sparkoperator.k8s.io")];
    for object in &mut objects {
        if object["kind"] == "Service" {
            object["spec"].as_object_mut().unwrap().remove("selector");
        }
        if let Some(webhooks) = object.get_mut("webhooks").and_then(Value::as_array_mut) {
            webhooks.retain(|webhook| groups.contains(&webhook["rules"][0]["apiGroups"][0]));
        }
    }
    objects.push(json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": SERVICE, "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": SERVICE},
        },
        "addressType": "IPv4", "ports": [{"name": "", "port": PORT, "protocol": "TCP"}],
        "endpoints": [{"addresses": [node_address()]}],
    }));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    kubectl_with(&list, &["apply", "--server-side", "-f", "-"]);
}

/// Writes the certificate from Kueue's Secret into the folder in which Kueue looks for it, as the kubelet would.
/// Returns false if there is no certificate yet.
fn mounted(folder: &Path) -> bool {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets/kueue-webhook-server-cert");
    let secret: Secret = serde_json::from_value(calls::get(&path).unwrap()).unwrap();
    let files = secret.data.unwrap_or_default();
    for (name, content) in &files {
        fs::write(folder.join(name), &content.0).unwrap();
    }
    files.contains_key("tls.crt")
}
