//! Proves that quotas and batch schedulers are told what the pods of a real Spark ask for, to the last MiB.

use super::{
    apply, install,
    native::{image, python_job},
    pod, pods, until,
};
use crate::apiserver::kubectl::kubectl;
use k8s_openapi::api::core::v1::Pod;
use plan::pod_requests::PodRequests;
use pods::PodClaim;
use serde_json::{Value, json};

#[test]
#[ignore = "needs a node: make test"]
fn the_sums_are_those_of_the_pods_that_spark_makes() {
    let _shared = install();
    let jobs = [
        (
            "sums-python",
            json!({
                "sparkConf": {
                    "spark.executor.pyspark.memory": "300m",
                    "spark.memory.offHeap.enabled": "true",
                    "spark.memory.offHeap.size": "100m",
                },
                "memoryOverheadFactor": "0.9",
            }),
        ),
        (
            "sums-beside",
            json!({
                "driver": {
                    "memoryOverhead": "200m",
                    "coreLimit": "900m",
                    "sidecars": [beside("200m", "50Mi")],
                    "initContainers": [before("900m", "10Mi")],
                },
                "executor": {
                    "memoryOverhead": "311m",
                    "coreRequest": "150m",
                    "sidecars": [beside("10m", "20Mi")],
                    "initContainers": [before("5m", "2Gi")],
                },
            }),
        ),
    ];
    let jobs = jobs.map(|(name, spec)| {
        let mut job = python_job(name, "sums-job", "tests/data/node/native/job.py");
        json_patch::merge(&mut job["spec"], &spec);
        apply(&job);
        (name, job)
    });
    for (name, job) in jobs {
        let expected = PodRequests::of(&serde_json::from_value(job).unwrap(), "").unwrap();
        for (role, planned) in [("driver", &expected.driver), ("executor", &expected.executor)] {
            let selector = format!("sparkoperator.k8s.io/app-name={name},spark-role={role}");
            until(&format!("{name} has a pod of the {role}"), || !pods(&selector).is_empty());
            let made: Pod = serde_json::from_value(pod(name, role)).unwrap();
            assert_eq!(PodClaim::of(made).requests(), planned.claim.requests(), "{name}: {role}");
        }
        kubectl(&["delete", "sparkapplication", name, "--wait=false"]);
    }
}

fn beside(cpu: &str, memory: &str) -> Value {
    let requests = json!({"cpu": cpu, "memory": memory});
    json!({"name": "beside", "image": image(), "command": ["sleep", "3600"], "resources": {"requests": requests}})
}

fn before(cpu: &str, memory: &str) -> Value {
    let requests = json!({"cpu": cpu, "memory": memory});
    json!({"name": "before", "image": image(), "command": ["true"], "resources": {"requests": requests}})
}
