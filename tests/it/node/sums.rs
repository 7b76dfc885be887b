//! Compares the sums of requests for quotas and batch schedulers with the requests of the pods that a real Spark
//! creates, to the last MiB. The applications are those of other tests, with the additions of this file.

use super::{native::image, pod};
use crate::prelude::*;
use plan::pod_requests::PodRequests;
use pods::PodClaim;

/// Returns a part of a spec in Python: non-heap memory by settings of Spark and by a factor.
pub(super) fn by_settings() -> Value {
    json!({
        "sparkConf": {
            // With less memory, Python does not start.
            "spark.executor.pyspark.memory": "1g", "spark.memory.offHeap.enabled": "true",
            "spark.memory.offHeap.size": "100m",
        },
        "memoryOverheadFactor": "0.9",
    })
}

/// Returns a part of a spec: cores, memory overhead and containers beside Spark's.
pub(super) fn by_fields() -> Value {
    json!({
        "driver": {
            "memoryOverhead": "200m", "coreLimit": "900m", "sidecars": [container("beside", "3600", "200m", "50Mi")],
            "initContainers": [container("before", "0", "900m", "10Mi")],
        },
        "executor": {
            "memoryOverhead": "311m", "coreRequest": "150m", "sidecars": [container("beside", "3600", "10m", "20Mi")],
            "initContainers": [container("before", "0", "5m", "2Gi")],
        },
    })
}

/// Asserts that the driver and the only executor of an application have the planned requests.
pub(super) fn are_those_of_the_pods(application: &Value) {
    let name = application["metadata"]["name"].as_str().unwrap();
    let typed = serde_json::from_value(application.clone()).unwrap();
    let expected = PodRequests::of(&validate(&typed).unwrap(), "", "sums").unwrap();
    for (role, planned) in [("driver", &expected.driver), ("executor", &expected.executor)] {
        let made: Pod = serde_json::from_value(pod(name, role)).unwrap();
        assert_eq!(PodClaim::of(made).requests(), planned.claim.requests(), "{name}: {role}");
    }
}

/// Returns a container that runs for this number of seconds.
fn container(name: &str, seconds: &str, cpu: &str, memory: &str) -> Value {
    let requests = json!({"cpu": cpu, "memory": memory});
    json!({"name": name, "image": image(), "command": ["sleep", seconds], "resources": {"requests": requests}})
}
