//! Sets the path of the driver's web UI outside the cluster, so that the links in the web UI work there.

use crate::{Context, Properties};
use api::names::conf;

/// Sets only defaults: the values of `sparkConf` are set later and override them.
pub(crate) fn web_ui(context: &Context, properties: &mut Properties) {
    if let Some(path) = &context.ui_path {
        properties.set(conf::UI_PROXY_BASE, path);
        properties.set(conf::UI_PROXY_REDIRECT_URI, "/");
    }
}
