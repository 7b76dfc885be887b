//! Builds the NetworkPolicy of the executors: since Spark 4.2, only pods of the same application may connect to
//! executors.

use super::{Context, Line, driver_in_progress::Driver, names::suffix, not_native::NotNative};
use api::names::{label, role};
use serde_json::json;

#[expect(clippy::unnecessary_wraps, reason = "it is a step")]
pub(super) fn network_policy(context: &Context, driver: &mut Driver) -> Result<(), NotNative> {
    if context.line < Line::V4_2 {
        return Ok(());
    }
    let application = json!({label::SPARK_APP_SELECTOR: context.submission.ids.application});
    let mut executors = application.clone();
    executors[label::SPARK_ROLE] = role::EXECUTOR.into();
    driver.children.push(json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": context.names.prefixed(suffix::POLICY),
            "namespace": context.namespace,
            "labels": application,
        },
        "spec": {
            "podSelector": {"matchLabels": executors},
            "ingress": [{"from": [{"podSelector": {"matchLabels": application}}]}],
        },
    }));
    Ok(())
}
