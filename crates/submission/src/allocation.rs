//! Sets the properties of dynamic allocation, which allows Spark to change the number of executors during a run.

use super::Context;
use api::{DynamicAllocation, conf};
use spark_client::Conf;

pub(super) fn dynamic_allocation(context: &Context, properties: &mut Conf) {
    for (key, value) in allocation_properties(context.spec.dynamic_allocation.as_ref()) {
        properties.set(key, value);
    }
}

/// Returns the properties; empty if dynamic allocation is off.
pub fn allocation_properties(
    allocation: Option<&DynamicAllocation>,
) -> impl Iterator<Item = (&'static str, String)> {
    fields(allocation).filter_map(|(_, key, value)| {
        // Kubernetes has no external shuffle service, so Spark refuses to start without shuffle tracking.
        let default = (key == conf::SHUFFLE_TRACKING).then(|| "true".to_owned());
        Some((key, value.or(default)?))
    })
}

/// Returns the fields, the properties that they set, and their values if they are set; empty if dynamic allocation is
/// off.
pub(super) fn fields(
    allocation: Option<&DynamicAllocation>,
) -> impl Iterator<Item = (&'static str, &'static str, Option<String>)> {
    let of = |allocation: &DynamicAllocation| {
        let count = |count: Option<i32>| count.map(|count| count.to_string());
        let tracks = allocation.shuffle_tracking_enabled.map(|is_on| is_on.to_string());
        let timeout = allocation.shuffle_tracking_timeout.map(|timeout| timeout.to_string());
        [
            ("enabled", conf::DYNAMIC_ALLOCATION, Some("true".to_owned())),
            ("initialExecutors", conf::DYNAMIC_ALLOCATION_INITIAL, count(allocation.initial_executors)),
            ("minExecutors", conf::DYNAMIC_ALLOCATION_MIN, count(allocation.min_executors)),
            ("maxExecutors", conf::DYNAMIC_ALLOCATION_MAX, count(allocation.max_executors)),
            ("shuffleTrackingEnabled", conf::SHUFFLE_TRACKING, tracks),
            ("shuffleTrackingTimeout", conf::SHUFFLE_TRACKING_TIMEOUT, timeout),
        ]
    };
    allocation.filter(|allocation| allocation.enabled).map(of).into_iter().flatten()
}
