//! Fills in the fields of a spec that the user did not set, with the values that the webhook of Kubeflow's operator
//! writes into the object.

use serde_json::{Map, Value};

use super::{RestartPolicy, RestartPolicyType, Role, SparkApplicationSpec, conf};

/// Seconds between two retries of a run or of a submission.
const RETRY_INTERVAL_SECONDS: i64 = 5;
/// Cores of a driver and of an executor; Spark's own default is the same.
const CORES: i32 = 1;
/// Heap of a driver and of an executor; Spark's own default is the same.
const MEMORY: &str = "1g";
/// Number of executors. Spark's own default is 2.
const INSTANCES: i32 = 1;

impl RestartPolicy {
    /// Returns the policy with values for the intervals that the user did not set: see [`with_defaults`].
    pub fn with_defaults(mut self) -> Self {
        if self.restart_type != RestartPolicyType::Never {
            self.on_failure_retry_interval.get_or_insert(RETRY_INTERVAL_SECONDS);
            self.on_submission_failure_retry_interval.get_or_insert(RETRY_INTERVAL_SECONDS);
        }
        self
    }
}

/// Returns `spec` with values for the fields that the user did not set. A second call changes nothing.
///
/// `type`, `mode` and `restartPolicy.type` already have their defaults, which their Rust types set when an object is
/// read.
pub fn with_defaults(mut spec: SparkApplicationSpec) -> SparkApplicationSpec {
    spec.restart_policy = spec.restart_policy.with_defaults();

    for (role, pod) in [(Role::Driver, &mut spec.driver.pod), (Role::Executor, &mut spec.executor.pod)] {
        if !spec.spark_conf.contains_key(&conf::spark(role, conf::CORES)) {
            pod.cores.get_or_insert(CORES);
        }
        if !spec.spark_conf.contains_key(&conf::spark(role, conf::MEMORY)) {
            pod.memory.get_or_insert_with(|| MEMORY.to_owned());
        }
    }

    let said_in_conf = spec.spark_conf.get(conf::EXECUTOR_INSTANCES).is_some_and(|count| !count.is_empty());
    if !said_in_conf && !is_dynamic_allocation_on(&spec) {
        spec.executor.instances.get_or_insert(INSTANCES);
    }
    if let Some(allocation) = &mut spec.dynamic_allocation
        && allocation.enabled
    {
        allocation.shuffle_tracking_enabled.get_or_insert(true);
    }
    spec
}

/// Writes default values into `spec`, the JSON that the user wrote, for the fields that the user did not set.
/// Everything that the user wrote is kept, including fields that our types do not know; but an empty string in `type`,
/// `mode` or `restartPolicy.type` counts as not set, as in Kubeflow's operator.
///
/// # Errors
///
/// If `spec` cannot be parsed as a `SparkApplicationSpec`; `spec` then stays unchanged.
pub fn fill_in(spec: &mut Map<String, Value>) -> Result<(), serde_json::Error> {
    let mut written = Value::Object(spec.clone());
    for field in ["/type", "/mode", "/restartPolicy/type"] {
        if let Some(value) = written.pointer_mut(field).filter(|value| *value == "") {
            value.take();
        }
    }
    let read: SparkApplicationSpec = serde::Deserialize::deserialize(&written)?;
    let json = |spec: &SparkApplicationSpec| serde_json::to_value(spec).expect("a spec is JSON");
    let (before, after) = (json(&read), json(&with_defaults(read)));
    complete(&mut written, &before, &after);
    if let Value::Object(written) = written {
        *spec = written;
    }
    Ok(())
}

/// Writes what `after` has and `before` has not, at any depth, into `written` where `written` has no value or `null`.
fn complete(written: &mut Value, before: &Value, after: &Value) {
    /// Fields whose defaults come from their Rust types, so that `before` has them too.
    const OF_TYPES: [&str; 3] = ["type", "mode", "restartPolicy"];
    for (field, value) in after.as_object().into_iter().flatten() {
        match written.get_mut(field) {
            Some(inner) if inner.is_object() => complete(inner, &before[field], value),
            None | Some(Value::Null) if before[field] != *value || OF_TYPES.contains(&field.as_str()) => {
                written[field] = value.clone();
            }
            _ => {}
        }
    }
}

/// Returns whether dynamic allocation is on. `spec.dynamicAllocation` decides if it is set, otherwise `sparkConf`.
///
/// Kubeflow's operator reads a key in lower case, which Spark does not have, so it sets a fixed number of executors
/// although dynamic allocation is on. This function reads both keys.
pub fn is_dynamic_allocation_on(spec: &SparkApplicationSpec) -> bool {
    if let Some(allocation) = &spec.dynamic_allocation {
        return allocation.enabled;
    }
    let keys = [conf::DYNAMIC_ALLOCATION, conf::DYNAMIC_ALLOCATION_KUBEFLOW];
    keys.iter().filter_map(|key| spec.spark_conf.get(*key)).any(|value| is_true(value))
}

/// Returns whether Go's `strconv.ParseBool` or Spark would read `value` as true.
fn is_true(value: &str) -> bool {
    let value = value.trim();
    value.eq_ignore_ascii_case("true") || matches!(value, "1" | "t" | "T")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn defaulted(spec: Value) -> Value {
        let spec = with_defaults(serde_json::from_value(spec).unwrap());
        assert_eq!(with_defaults(spec.clone()), spec, "a second time must change nothing");
        serde_json::to_value(spec).unwrap()
    }

    #[test]
    fn unset_fields_get_kubeflows_defaults_and_set_fields_are_kept() {
        let cases: Vec<(Value, serde_json::Map<String, Value>)> =
            serde_saphyr::from_str(include_str!("../../../tests/data/defaults/spec.yaml")).unwrap();
        for (spec, expected) in cases {
            let defaulted = defaulted(spec.clone());
            for (place, value) in &expected {
                assert_eq!(defaulted.pointer(place).unwrap_or(&Value::Null), value, "{spec} {place}");
            }
        }
    }

    #[test]
    fn defaults_are_filled_into_json_without_losing_unknown_fields() {
        let mut spec = json!({
            "type": "", "restartPolicy": {"type": "OnFailure", "onFailureRetries": null}, "driver": null,
            "executor": {"memory": "2g", "wormhole": {"radius": 0}}, "dynamicAllocation": {"enabled": true},
            "gpu": {}, "volumes": [],
        });
        fill_in(spec.as_object_mut().unwrap()).unwrap();
        let expected = json!({
            "type": "Scala", "mode": "cluster",
            "restartPolicy": {
                "type": "OnFailure", "onFailureRetries": null, "onFailureRetryInterval": 5,
                "onSubmissionFailureRetryInterval": 5,
            },
            "driver": {"cores": 1, "memory": "1g"},
            "executor": {"memory": "2g", "cores": 1, "wormhole": {"radius": 0}},
            "dynamicAllocation": {"enabled": true, "shuffleTrackingEnabled": true}, "gpu": {}, "volumes": [],
        });
        assert_eq!(spec, expected);
        fill_in(spec.as_object_mut().unwrap()).unwrap();
        assert_eq!(spec, expected, "a second time must change nothing");
    }
}
