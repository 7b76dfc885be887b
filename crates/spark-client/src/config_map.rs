//! Builds the ConfigMap for the driver's configuration directory: Spark's properties, and configuration files of the
//! submitter.

use super::{
    Context,
    driver_in_progress::{Driver, immutable},
    not_native::NotNative,
    properties_text, submit_conf,
};
use api::names::{conf, env, volume};
use serde_json::{Map, json};
use std::collections::BTreeMap;

pub(super) const DIRECTORY: &str = "/opt/spark/conf";
const PROPERTIES: &str = "spark.properties";
/// The maximum size of a ConfigMap that Kubernetes accepts, in bytes.
const MOST_BYTES: u64 = 1_048_576;
/// The mode of the files: everyone may read them, the owner may write.
const MODE: u32 = 0o644;

pub(super) fn config_map(context: &Context, driver: &mut Driver) -> Result<(), NotNative> {
    let mut files = eligible(context)?;
    let mut properties = context.conf.0.clone();
    properties.append(&mut driver.properties);
    let name = &context.names.config_map;
    let text = properties_text::text(&properties, name, context.submission.now);
    files.insert(PROPERTIES.to_owned(), text);

    let items: Vec<_> = files.keys().map(|file| json!({"key": file, "mode": MODE, "path": file})).collect();
    let source = json!({"configMap": {"name": name, "items": items}});
    driver.mount(volume::SPARK_CONF_DRIVER, source, DIRECTORY);
    driver.add_env(env::SPARK_CONF_DIR, DIRECTORY);

    let mut data: Map<_, _> = files.into_iter().map(|(file, text)| (file, text.into())).collect();
    // Spark also adds the namespace to the ConfigMap's data, although it is not a file in the driver.
    data.insert(conf::NAMESPACE.to_owned(), context.namespace.as_str().into());
    let mut config_map = immutable("ConfigMap", name, data);
    config_map["metadata"]["namespace"] = context.namespace.as_str().into();
    driver.children.push(config_map);
    Ok(())
}

/// Returns the configuration files of the submitter that the driver gets: the smallest files first, as long as there is
/// room in the ConfigMap.
fn eligible(context: &Context) -> Result<BTreeMap<String, String>, NotNative> {
    let most = most_bytes(context)?;
    let files = context.submission.environment.spark_conf.iter().filter(|(name, _)| !is_left_out(name));
    let mut files: Vec<_> = files.filter(|(name, text)| (name.len() + text.len()) as u64 <= most).collect();
    files.sort_by_key(|(_, text)| text.len());
    let (mut total, mut chosen) = (0, BTreeMap::new());
    for (name, text) in files {
        // The length is counted in UTF-16 units, because Spark uses the length of Java strings.
        let size = (name.encode_utf16().count() + text.encode_utf16().count()) as u64;
        if total + size < most {
            total += size;
            chosen.insert(name.clone(), text.clone());
        }
    }
    Ok(chosen)
}

fn most_bytes(context: &Context) -> Result<u64, NotNative> {
    const KEY: &str = submit_conf::CONFIG_MAP_MAX_SIZE;
    let Some(text) = context.conf.text(KEY)? else { return Ok(MOST_BYTES) };
    match text.trim().parse() {
        Ok(most @ ..=MOST_BYTES) => Ok(most),
        _ => Err(NotNative::refused(
            KEY,
            format_args!("`{text}` must be a number of at most {MOST_BYTES} bytes"),
        )),
    }
}

/// Whether the file `name` is left out of the ConfigMap, because it is an archive, a template or a file of Spark's
/// properties.
fn is_left_out(name: &str) -> bool {
    let is_properties = name.strip_prefix("spark").is_some_and(|rest| {
        // Spark's regular expression is `spark.*(conf|properties)`, in which the dot matches any character.
        rest.ends_with("conf") || rest.ends_with("properties")
    });
    is_properties || [".gz", ".zip", ".jar", ".tar", ".template"].iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::is_left_out;

    #[test]
    fn archives_templates_and_sparks_properties_are_left_out() {
        let cases = include_str!("../../../tests/data/spark-client/left-out.json");
        for (name, expected) in serde_json::from_str::<Vec<(&str, bool)>>(cases).unwrap() {
            assert_eq!(is_left_out(name), expected, "{name}");
        }
    }
}
