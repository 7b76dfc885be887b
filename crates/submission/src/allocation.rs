//! Sets the properties of dynamic allocation, which allows Spark to change the number of executors during a run.

use super::{Context, Properties};
use api::names::conf;

pub(super) fn dynamic_allocation(context: &Context, properties: &mut Properties) {
    let Some(allocation) = context.spec.dynamic_allocation.as_ref().filter(|allocation| allocation.enabled)
    else {
        return;
    };
    properties.set(conf::DYNAMIC_ALLOCATION, "true");
    properties.set_some(conf::DYNAMIC_ALLOCATION_INITIAL, allocation.initial_executors);
    properties.set_some(conf::DYNAMIC_ALLOCATION_MIN, allocation.min_executors);
    properties.set_some(conf::DYNAMIC_ALLOCATION_MAX, allocation.max_executors);
    // Kubernetes has no external shuffle service, so Spark refuses to start without shuffle tracking.
    properties.set(conf::SHUFFLE_TRACKING, allocation.shuffle_tracking_enabled.unwrap_or(true).to_string());
    properties.set_some(conf::SHUFFLE_TRACKING_TIMEOUT, allocation.shuffle_tracking_timeout);
}
