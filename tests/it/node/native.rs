//! Proves that Spark runs as well from objects that the operator has created as from those that `spark-submit` creates
//! in a submission pod.

use super::{
    Installed, application, apply, delete, followed, install, install_alone, log, make_job, pod, printed,
    sparkctl::each_line_of_all_executors_says_whose_it_is, until_event,
};
use crate::apiserver::prelude::*;

/// Returns the version of Spark on the node.
pub(crate) fn spark_version() -> String {
    env::var("SPARK").unwrap_or_else(|_| "4.0.1".to_owned())
}

pub(crate) fn image() -> String {
    format!("docker.io/apache/spark:{}", spark_version())
}

#[test]
#[ignore = "needs a node: make test"]
fn dynamic_allocation_scratch_space_and_sidecars_work_natively() {
    let _shared = install();
    let mut job = job("native-dynamic");
    let template = |role: &str| {
        let sidecar = json!({"name": "companion", "image": image(), "command": ["sleep", "3600"]});
        let own = json!({"name": format!("spark-kubernetes-{role}")});
        json!({
            "metadata": {"labels": {"template": role}},
            "spec": {"containers": [own, sidecar], "terminationGracePeriodSeconds": 1},
        })
    };
    let scratch = json!({"name": "spark-local-dir-1", "emptyDir": {"sizeLimit": "1Gi"}});
    let mount = json!({"name": "spark-local-dir-1", "mountPath": "/scratch"});
    let (volume, program) = (&job["spec"]["volumes"][0], &job["spec"]["driver"]["volumeMounts"][0]);
    let spec = json!({
        "dynamicAllocation": {"enabled": true, "initialExecutors": 0, "minExecutors": 0, "maxExecutors": 2},
        "sparkConf": {"spark.dynamicAllocation.executorIdleTimeout": "3s"}, "volumes": [volume, scratch],
        "driver": {"volumeMounts": [program, mount], "template": template("driver")},
        "executor": {"instances": null, "volumeMounts": [mount], "template": template("executor")},
    });
    json_patch::merge(&mut job["spec"], &spec);
    completes(&job);

    // What the operator itself creates is deleted at the end of the run. The Service of the web UI stays.
    let of_run =
        "sparkoperator.k8s.io/app-name=native-dynamic,!sparkoperator.k8s.io/created-by-spark-operator";
    assert_eq!(kubectl(&["get", "services,configmaps", "--selector", of_run, "--output=name"]), "");
    let driver = "native-dynamic-driver";
    assert_eq!(printed(driver, "executors: "), "2 then 0");
    assert_eq!(printed(driver, "scratch of driver: "), "/scratch");
    let saw = printed(driver, "executor saw: ");
    assert!(saw.starts_with("('/scratch/blockmgr-") && saw.ends_with("', 'green', True)"), "{saw}");
    let pod = pod("native-dynamic", "driver");
    assert_eq!(pod["metadata"]["labels"]["template"], "driver");
    let names: Vec<_> = pod["spec"]["containers"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert!(names.len() == 2 && names.contains(&&json!("companion")), "{names:?}");
    let states = application("native-dynamic")["status"]["executorState"].take();
    assert!(states.as_object().unwrap().len() >= 2, "{states}");
    let events = kubectl(&["events", "--for", &format!("pod/{driver}"), "--no-headers"]);
    assert!(!events.contains("FailedMount"), "what the driver mounts exists before it: {events}");
    delete("native-dynamic");
}

#[test]
#[ignore = "needs a node: make test"]
fn without_the_webhook_both_submitters_give_the_same_result_alone() {
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
    let submitted = "unhooked-spark-submit";
    each_line_of_all_executors_says_whose_it_is(submitted);
    for (name, job) in jobs {
        completes(&job);
        let driver = format!("{name}-driver");
        assert_eq!(printed(&driver, "result: "), "333328333350000");
        let saw = printed(&driver, "executor saw: ");
        assert!(saw.contains("'green'"), "{saw}");
        let overwritten = "in which Spark overwrites spec.executor.memoryLimit";
        until_event(&format!("sparkapplication/{name}"), &[overwritten]);
    }
    // Spark's own objects exist as long as the driver's pod, those of the submission do not.
    let driver = pod(submitted, "driver");
    let mut volumes = driver["spec"]["volumes"].as_array().unwrap().iter();
    let made = volumes.find(|volume| volume["name"] == "spark-conf-volume-driver").unwrap();
    kubectl(&["get", "configmap", made["configMap"]["name"].as_str().unwrap()]);
    let submission = format!("sparkoperator.k8s.io/app-name={submitted},spark-role=submission");
    assert_eq!(kubectl(&["get", "pods,configmaps", "--selector", &submission, "--output=name"]), "");
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
    let pod = json!({"cores": 1, "coreRequest": "100m", "memory": "512m"});
    let mut driver = pod.clone();
    driver["serviceAccount"] = json!("spark");
    driver["volumeMounts"] = json!([{"name": "job", "mountPath": "/opt/job"}]);
    let mut executor = pod;
    executor["instances"] = json!(1);
    executor["env"] = json!([{"name": "COLOUR", "value": "green"}]);
    json!({
        "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "type": "Python", "pythonVersion": "3", "mode": "cluster", "sparkVersion": spark_version(),
            "image": image(), "imagePullPolicy": "IfNotPresent",
            "mainApplicationFile": "local:///opt/job/job.py",
            "volumes": [{"name": "job", "configMap": {"name": config_map}}], "driver": driver,
            "executor": executor,
        },
    })
}
