//! Sets the path under which users see the driver's web UI, so that the links in the web UI lead back to it.

use super::{Context, Properties};
use api::names::conf;

/// Sets defaults: the values of `sparkConf` are set later and win.
pub(super) fn web_ui(context: &Context, properties: &mut Properties) {
    if let Some(path) = &context.ui_path {
        properties.set(conf::UI_PROXY_BASE, path);
        properties.set(conf::UI_PROXY_REDIRECT_URI, "/");
    }
}
