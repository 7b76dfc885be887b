//! Runs Kueue's own program beside the cluster: an application waits in its queue, is admitted, preempted, edited, and fails to be
//! submitted.

use crate::{
    apiserver::{
        calls,
        kubectl::{kubectl, kubectl_with, try_kubectl_with},
    },
    golden::documents,
    node::{
        APPLICATIONS, EndedOnDrop, application, apply, delete, install_alone, kept, lifecycle::refusing,
        listed, native::python_job, node_address, state_is, until,
    },
};
use api::names::{annotation, label};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};
use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

const SERVICE: &str = "kueue-webhook-service";
const NAMESPACE: &str = "kueue-system";
/// The port of Kueue's webhook.
const PORT: u16 = 9443;

#[test]
#[ignore = "needs a node and Kueue: make clients"]
fn an_application_runs_while_kueue_admits_it() {
    let _alone = install_alone();
    let _kueue = Kueue::start();
    make_queue();

    // The quota is that of one application.
    apply(&job("first", "stay", &json!({})));
    state_is("first", "RUNNING");
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

    // Kueue sets the number back, and suspends the application meanwhile. An edit that ended the run would be a cause of its own.
    let edit = json!({"spec": {"executor": {"instances": 2}}});
    calls::merge(&format!("{APPLICATIONS}/second"), &edit);
    until("the third run is on, with the executors that were admitted", || {
        let second = application("second");
        second["status"]["runOrdinal"] == 3
            && second["status"]["applicationState"]["state"] == "RUNNING"
            && second["spec"]["executor"]["instances"] == 1
    });
    let runs = application("second")["status"]["runs"].take();
    assert_eq!([&runs[1]["cause"], &runs[2]["cause"]], ["Resumed", "Resumed"], "{runs}");
    delete("second");

    // Kueue takes SUBMISSION_FAILED for the end.
    let refused = refusing("driver", "refused");
    let mut retried = job("refused", "stay", &json!({}));
    retried["spec"]["restartPolicy"] = json!({
        "type": "OnFailure", "onSubmissionFailureRetries": 20, "onSubmissionFailureRetryInterval": 1,
    });
    apply(&retried);
    until("it is submitted again and again", || {
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

/// Returns the status of this condition of the application's Workload, if it has one.
fn condition(application: &str, kind: &str) -> Option<String> {
    let workloads = listed("/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads");
    let mut own = workloads.iter().filter(|own| own["metadata"]["ownerReferences"][0]["name"] == application);
    let mut conditions = own.next()?["status"]["conditions"].as_array()?.iter();
    let found = conditions.find(|condition| condition["type"] == kind)?;
    found["status"].as_str().map(str::to_owned)
}

/// Makes a queue with room for one application.
fn make_queue() {
    let resources =
        json!([{"name": "cpu", "nominalQuota": "500m"}, {"name": "memory", "nominalQuota": "4Gi"}]);
    let queue = json!({
        "namespaceSelector": {},
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [
            {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "default", "resources": resources}]},
        ],
    });
    for (kind, name, fields) in [
        ("WorkloadPriorityClass", "urgent", json!({"value": 1000})),
        ("ClusterQueue", "tests", json!({"spec": queue})),
        ("LocalQueue", "tests", json!({"spec": {"clusterQueue": "tests"}})),
    ] {
        let mut object = of_kueue(kind, name);
        json_patch::merge(&mut object, &fields);
        kubectl_with(&object, &["apply", "-f", "-"]);
    }
}

fn of_kueue(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}})
}

/// A Kueue outside of the cluster, as the administrator. Its webhooks go when this value is dropped.
struct Kueue {
    _process: EndedOnDrop,
}

impl Kueue {
    fn start() -> Self {
        let program = PathBuf::from(env::var("KUEUE").expect("`make clients` sets KUEUE"));
        let folder = kept("kueue");
        let certificates = folder.join("certificates");
        fs::remove_dir_all(&folder).ok();
        fs::create_dir_all(&certificates).unwrap();
        install(&program.with_file_name("config").join("default"), &folder);
        let settings = json!({
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "leaderElection": {"leaderElect": false},
            "metrics": {"bindAddress": "0"},
            "webhook": {"port": PORT, "certDir": certificates},
            "integrations": {"frameworks": ["sparkoperator.k8s.io/sparkapplication"]},
            // The server that lists what waits has its files in a folder of the machine.
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
        let kueue = Self { _process: EndedOnDrop(process) };
        until("Kueue has made its certificate", || mounted(&certificates));
        let flavor = of_kueue("ResourceFlavor", "default");
        until("Kueue's webhook answers", || try_kubectl_with(&flavor, &["apply", "-f", "-"]).is_ok());
        kueue
    }
}

impl Drop for Kueue {
    fn drop(&mut self) {
        let of = |kind: &str| format!("{kind}webhookconfiguration/kueue-{kind}-webhook-configuration");
        kubectl(&["delete", "--ignore-not-found", &of("mutating"), &of("validating")]);
    }
}

/// Installs what `config` has beside the program: the kinds, and the webhooks of these and of applications, which the API server
/// finds on the node.
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
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": SERVICE,
            "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": SERVICE},
        },
        "addressType": "IPv4",
        "ports": [{"name": "", "port": PORT, "protocol": "TCP"}],
        "endpoints": [{"addresses": [node_address()]}],
    }));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    kubectl_with(&list, &["apply", "--server-side", "-f", "-"]);
}

/// Writes the certificate that Kueue has made into the folder where it looks for it, as the kubelet would; false if there is none
/// yet.
fn mounted(folder: &Path) -> bool {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets/kueue-webhook-server-cert");
    let secret: Secret = serde_json::from_value(calls::get(&path).unwrap()).unwrap();
    let files = secret.data.unwrap_or_default();
    for (name, content) in &files {
        fs::write(folder.join(name), &content.0).unwrap();
    }
    files.contains_key("tls.crt")
}
