//! Sets the properties of dynamic allocation, which allows Spark to change the number of executors during a run.

use super::{Context, Properties};
use api::{DynamicAllocation, names::conf};

pub(super) fn dynamic_allocation(context: &Context, properties: &mut Properties) {
    for (key, value) in allocation_properties(context.spec.dynamic_allocation.as_ref()) {
        properties.set(key, value);
    }
}

/// Returns the properties; none if it is off.
pub fn allocation_properties(
    allocation: Option<&DynamicAllocation>,
) -> impl Iterator<Item = (&'static str, String)> {
    let of = |allocation: &DynamicAllocation| {
        let count = |count: Option<i32>| count.map(|count| count.to_string());
        [
            (conf::DYNAMIC_ALLOCATION, Some("true".to_owned())),
            (conf::DYNAMIC_ALLOCATION_INITIAL, count(allocation.initial_executors)),
            (conf::DYNAMIC_ALLOCATION_MIN, count(allocation.min_executors)),
            (conf::DYNAMIC_ALLOCATION_MAX, count(allocation.max_executors)),
            // Kubernetes has no external shuffle service, so Spark refuses to start without shuffle tracking.
            (conf::SHUFFLE_TRACKING, Some(allocation.shuffle_tracking_enabled.unwrap_or(true).to_string())),
            (
                conf::SHUFFLE_TRACKING_TIMEOUT,
                allocation.shuffle_tracking_timeout.map(|timeout| timeout.to_string()),
            ),
        ]
    };
    let all = allocation.filter(|allocation| allocation.enabled).map(of);
    all.into_iter().flatten().filter_map(|(key, value)| Some((key, value?)))
}
