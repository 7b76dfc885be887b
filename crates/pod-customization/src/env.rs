//! Adds environment variables to Spark's container.

use super::{Problem, SparkPod, Step, entries, value};
use api::names::{annotation, env as variable, path};
use entries::OnClash;
use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar};
use serde_json::{Value, json};

pub(super) const ENV: Step = Step {
    key: annotation::ENV,
    asked: |pod, _, _| value::written_list(&pod.env),
    apply: |pod, text| {
        // A later step sets these two variables, and its entry would take effect. The same value is used here, because
        // otherwise each further call of the webhook would append both entries again.
        let later = [
            (annotation::HADOOP_CONFIG_MAP, variable::HADOOP_CONF_DIR, path::HADOOP_CONF),
            (annotation::SPARK_CONFIG_MAP, variable::SPARK_CONF_DIR, path::SPARK_CONF),
        ];
        let later: Vec<_> = later.into_iter().filter(|(key, ..)| pod.has_annotation(key)).collect();
        let mut env = value::list::<EnvVar>(text)?;
        for entry in &mut env {
            if let Some((_, name, value)) = later.iter().find(|(_, name, _)| entry["name"] == *name) {
                *entry = json!({"name": name, "value": value});
            }
        }
        add(pod, env)
    },
};

pub(super) const ENV_FROM: Step = Step {
    key: annotation::ENV_FROM,
    asked: |pod, _, _| value::written_list(&pod.env_from),
    apply: |pod, text| {
        entries::add(&mut pod.container, "envFrom", value::list::<EnvFromSource>(text)?, &[], OnClash::Append)
    },
};

/// Appends environment variables. A variable that Spark has already set is appended again, since the later entry takes
/// effect.
fn add(pod: &mut SparkPod, env: Vec<Value>) -> Result<(), Problem> {
    entries::add(&mut pod.container, "env", env, &["name"], OnClash::Override)
}

/// Appends one variable with a literal value.
pub(super) fn set(pod: &mut SparkPod, name: &str, value: &str) -> Result<(), Problem> {
    add(pod, vec![json!({"name": name, "value": value})])
}
