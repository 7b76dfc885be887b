//! Sets the node selector that applies to driver and executors. The selector of a single role is applied by the webhook.

use super::Context;
use api::conf;
use spark_client::Conf;

pub(super) fn node_selector(context: &Context, properties: &mut Conf) {
    properties.set_all(conf::NODE_SELECTOR_PREFIX, &context.spec.node_selector);
}
