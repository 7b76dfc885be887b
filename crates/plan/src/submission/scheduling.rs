//! On which nodes may the pods of both roles run? A role's own selector goes through the webhook.

use super::{Context, Properties};
use api::names::conf;

pub(super) fn node_selector(context: &Context, properties: &mut Properties) {
    properties.set_all(conf::NODE_SELECTOR_PREFIX, &context.spec.node_selector);
}
