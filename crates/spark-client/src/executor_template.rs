//! Adds a ConfigMap with the executors' pod template to the driver.

use super::{
    Context,
    driver_in_progress::{Driver, immutable},
    names::suffix,
    not_native::NotNative,
    submitter_file,
};
use api::{Role, names::conf};
use serde_json::{Map, json};

/// The key of the template in its ConfigMap.
pub const KEY: &str = "podspec-configmap-key";
const FILE: &str = "pod-spec-template.yml";
const DIRECTORY: &str = "/opt/spark/pod-template";

/// Adds the ConfigMap with the template. The template is passed on unchanged: Spark does not parse it before the driver
/// does.
pub(super) fn config_map(context: &Context, driver: &mut Driver) -> Result<(), NotNative> {
    let key = conf::kubernetes(Role::Executor, conf::POD_TEMPLATE_FILE);
    let Some(file) = context.conf.text(&key)? else { return Ok(()) };
    let text = match &context.submission.executor_template {
        Some(text) => text.clone(),
        None => String::from_utf8_lossy(submitter_file::read(context, &key, &file)?).into_owned(),
    };
    let name = context.names.prefixed(suffix::EXECUTOR_TEMPLATE);
    let source = json!({"configMap": {"name": name, "items": [{"key": KEY, "path": FILE}]}});
    driver.mount("pod-template-volume", source, DIRECTORY);
    driver.children.push(immutable("ConfigMap", &name, Map::from_iter([(KEY.to_owned(), text.into())])));
    driver.set_property(&key, format!("{DIRECTORY}/{FILE}"));
    Ok(())
}
