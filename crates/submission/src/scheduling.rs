//! Sets the node selector that applies to driver and executors. The selector of a single role is applied by the webhook.

use super::{Context, Properties};
use api::conf;

pub(super) fn node_selector(context: &Context, properties: &mut Properties) {
    properties.set_all(conf::NODE_SELECTOR_PREFIX, &context.spec.node_selector);
}
