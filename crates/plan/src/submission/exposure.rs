//! The path of the driver's web UI as its readers see it, so that its links lead back to it.

use super::{Context, Properties};
use api::names::conf;

/// Defaults: what the user says in sparkConf comes later.
pub(super) fn web_ui(context: &Context, properties: &mut Properties) {
    if let Some(path) = &context.ui_path {
        properties.set(conf::UI_PROXY_BASE, path);
        properties.set(conf::UI_PROXY_REDIRECT_URI, "/");
    }
}
