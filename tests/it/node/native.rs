//! Proves that Spark runs as well from objects that the operator has created as from those that `spark-submit` creates
//! in a submission pod.

use super::{
    Installed, application, apply, delete, followed, install, install_alone, log, make_job, printed,
    sparkctl::each_line_of_all_executors_says_whose_it_is, until_told,
};
use crate::apiserver::kubectl::kubectl;
use serde_json::{Value, json};
use std::env;

/// Returns the version of Spark on the node.
pub(crate) fn spark_version() -> String {
    env::var("SPARK").unwrap_or_else(|_| "4.0.1".to_owned())
}

pub(crate) fn image() -> String {
    format!("docker.io/apache/spark:{}", spark_version())
}

#[test]
#[ignore = "needs a node: make test"]
fn both_submitters_bring_the_same_result_and_natively_executors_come_and_go() {
    let _shared = install();
    let native = dynamic();
    apply(&native);
    let submitted = "same-spark-submit";
    let mut by_pod = job(submitted);
    by_pod["metadata"]["annotations"] = json!({"sparkoperator.k8s.io/submitter": "spark-submit"});
    apply(&by_pod);
    each_line_of_all_executors_says_whose_it_is(submitted);
    completes(&by_pod);
    completes(&native);
    let results =
        ["native-dynamic-driver", "same-spark-submit-driver"].map(|driver| printed(driver, "result: "));
    assert_eq!(results, ["333328333350000"; 2]);
    let saw = printed("same-spark-submit-driver", "executor saw: ");
    assert!(saw.contains("'green'"), "{saw}");
    // The remaining objects show who submitted: natively created objects are deleted at the end of the run; Spark's own
    // objects stay as long as the driver's pod. The Service of the web UI stays in both cases and is left out here.
    let of_native =
        "sparkoperator.k8s.io/app-name=native-dynamic,!sparkoperator.k8s.io/created-by-spark-operator";
    assert_eq!(kubectl(&["get", "services,configmaps", "--selector", of_native, "--output=name"]), "");
    let driver: Value =
        serde_json::from_str(&kubectl(&["get", "pod", "same-spark-submit-driver", "-o", "json"])).unwrap();
    let made = driver["spec"]["volumes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|volume| volume["name"] == "spark-conf-volume-driver");
    let config_map = made.unwrap()["configMap"]["name"].as_str().unwrap();
    kubectl(&["get", "configmap", config_map]);
    let submission = "sparkoperator.k8s.io/app-name=same-spark-submit,spark-role=submission";
    assert_eq!(kubectl(&["get", "pods,configmaps", "--selector", submission, "--output=name"]), "");
    executors_have_come_and_gone_in_scratch_space_and_beside_sidecars();
    delete("native-dynamic");
}

/// Returns an application whose executors come and go, with scratch space, and with templates that have sidecars.
fn dynamic() -> Value {
    let mut job = job("native-dynamic");
    let spec = &mut job["spec"];
    spec["dynamicAllocation"] =
        json!({"enabled": true, "initialExecutors": 0, "minExecutors": 0, "maxExecutors": 2});
    spec["sparkConf"] = json!({"spark.dynamicAllocation.executorIdleTimeout": "3s"});
    let scratch = json!({"name": "spark-local-dir-1", "emptyDir": {"sizeLimit": "1Gi"}});
    spec["volumes"].as_array_mut().unwrap().push(scratch);
    for role in ["driver", "executor"] {
        let pod = &mut spec[role];
        let mounts = pod["volumeMounts"].as_array_mut();
        let mount = json!({"name": "spark-local-dir-1", "mountPath": "/scratch"});
        match mounts {
            Some(mounts) => mounts.push(mount),
            None => pod["volumeMounts"] = json!([mount]),
        }
        let sidecar = json!({"name": "companion", "image": image(), "command": ["sleep", "3600"]});
        let own = json!({"name": format!("spark-kubernetes-{role}")});
        pod["template"] = json!({
            "metadata": {"labels": {"template": role}},
            "spec": {"containers": [own, sidecar], "terminationGracePeriodSeconds": 1},
        });
    }
    spec["executor"].as_object_mut().unwrap().remove("instances");
    job
}

fn executors_have_come_and_gone_in_scratch_space_and_beside_sidecars() {
    let driver = "native-dynamic-driver";
    assert_eq!(printed(driver, "executors: "), "2 then 0");
    assert_eq!(printed(driver, "scratch of driver: "), "/scratch");
    let saw = printed(driver, "executor saw: ");
    assert!(saw.starts_with("('/scratch/blockmgr-") && saw.ends_with("', 'green', True)"), "{saw}");
    let pod: Value = serde_json::from_str(&kubectl(&["get", "pod", driver, "-o", "json"])).unwrap();
    assert_eq!(pod["metadata"]["labels"]["template"], "driver");
    let names: Vec<_> = pod["spec"]["containers"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert!(names.len() == 2 && names.contains(&&json!("companion")), "{names:?}");
    let states = application("native-dynamic")["status"]["executorState"].take();
    assert!(states.as_object().unwrap().len() >= 2, "{states}");
    let events = kubectl(&["events", "--for", &format!("pod/{driver}"), "--no-headers"]);
    assert!(!events.contains("FailedMount"), "what it mounts was there before: {events}");
}

#[test]
#[ignore = "needs a node: make test"]
fn without_the_webhook_drivers_and_executors_are_customized_all_the_same_alone() {
    let _alone = install_alone();
    // With these configurations, the API server would call a webhook that does not answer.
    for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
        kubectl(&["delete", kind, "spark-operator-webhook"]);
    }
    let _installed = Installed::with(&["--webhook=false"]);
    let jobs = ["spark-submit", "native"].map(|submitter| {
        let name = format!("unhooked-{submitter}");
        let mut job = job(&name);
        job["metadata"]["annotations"] = json!({"sparkoperator.k8s.io/submitter": submitter});
        job["spec"]["executor"]["memoryLimit"] = json!("900m");
        apply(&job);
        (name, job)
    });
    for (name, job) in jobs {
        completes(&job);
        let saw = printed(&format!("{name}-driver"), "executor saw: ");
        assert!(saw.contains("'green'"), "{saw}");
        let overwritten = "in which Spark overwrites spec.executor.memoryLimit";
        until_told(&format!("sparkapplication/{name}"), &[overwritten]);
    }
}

/// Applies a job; asserts that it completes.
fn completes(job: &Value) {
    let name = job["metadata"]["name"].as_str().unwrap();
    apply(job);
    let states = followed(name);
    assert_eq!(states.last().unwrap(), "COMPLETED", "{states:?}\n{}", log(&format!("{name}-driver")));
}

fn job(name: &str) -> Value {
    python_job(name, "native-job", "tests/data/node/native/job.py")
}

/// Returns an application that runs the Python program in `file`; stores the program in the ConfigMap `config_map`.
pub(crate) fn python_job(name: &str, config_map: &str, file: &str) -> Value {
    make_job(config_map, file);
    let pod = json!({"cores": 1, "coreRequest": "200m", "memory": "512m"});
    let mut driver = pod.clone();
    driver["serviceAccount"] = json!("spark");
    driver["volumeMounts"] = json!([{"name": "job", "mountPath": "/opt/job"}]);
    let mut executor = pod;
    executor["instances"] = json!(1);
    executor["env"] = json!([{"name": "COLOUR", "value": "green"}]);
    json!({
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "type": "Python",
            "pythonVersion": "3",
            "mode": "cluster",
            "sparkVersion": spark_version(),
            "image": image(),
            "imagePullPolicy": "IfNotPresent",
            "mainApplicationFile": "local:///opt/job/job.py",
            "volumes": [{"name": "job", "configMap": {"name": config_map}}],
            "driver": driver,
            "executor": executor,
        },
    })
}
