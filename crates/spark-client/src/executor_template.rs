//! Adds a ConfigMap with the executors' pod template to the driver, and serialises pod templates.

use super::{
    Context,
    driver_in_progress::{Driver, immutable},
    names::suffix,
    not_native::NotNative,
    submitter_file,
};
use api::{Role, names::conf};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// The key of the template in its ConfigMap.
pub const KEY: &str = "podspec-configmap-key";
const FILE: &str = "pod-spec-template.yml";
const DIRECTORY: &str = "/opt/spark/pod-template";

/// Adds the ConfigMap with the template. The template is passed on unchanged: only the driver parses it.
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

/// Returns the text of the file from which Spark reads `template`: JSON, which is also valid YAML.
///
/// Spark writes the executors' template into a ConfigMap for the driver by server-side apply, and the API server reads
/// the request as YAML. Its YAML reader refuses control characters, and silently replaces a Unicode line end by a
/// blank. Escaped characters arrive unchanged.
pub fn text(template: &Value) -> String {
    let json = template.to_string();
    json.chars().fold(String::with_capacity(json.len()), |mut text, c| {
        match c {
            // In JSON, these characters can be only in strings, where `\u` and four digits mean the same character.
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                write!(text, "\\u{:04x}", u32::from(c)).expect("writing to a String cannot fail");
            }
            c => text.push(c),
        }
        text
    })
}
