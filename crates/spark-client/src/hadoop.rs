//! Mounts Hadoop's configuration into the driver: an existing ConfigMap, or the files in `HADOOP_CONF_DIR`.

use super::{
    Context,
    driver_in_progress::{Driver, immutable},
    names::suffix,
    not_native::NotNative,
    submit_conf,
};
use api::names::env;
use serde_json::{Value, json};

const VOLUME: &str = "hadoop-properties";
const DIRECTORY: &str = "/opt/hadoop/conf";

pub(super) fn configuration(context: &Context, driver: &mut Driver) -> Result<(), NotNative> {
    let existing = context.conf.text(submit_conf::HADOOP_CONFIG_MAP)?;
    let (name, items) = match (existing, &context.submission.environment.hadoop_conf) {
        (None, None) => return Ok(()),
        (Some(_), Some(_)) => {
            let problem = "do not specify both HADOOP_CONF_DIR in the environment and the ConfigMap";
            return Err(NotNative::refused(submit_conf::HADOOP_CONFIG_MAP, problem));
        }
        (Some(name), None) => (name, Vec::new()),
        (None, Some(files)) => {
            let name = context.names.prefixed(suffix::HADOOP);
            let data = files.iter().map(|(name, text)| (name.clone(), text.as_str().into())).collect();
            driver.children.push(immutable("ConfigMap", &name, data));
            (name, files.keys().map(|name| json!({"key": name, "path": name})).collect())
        }
    };
    let mut source = json!({"configMap": {"name": name}});
    if !items.is_empty() {
        source["configMap"]["items"] = Value::Array(items);
    }
    driver.mount(VOLUME, source, DIRECTORY);
    driver.add_env(env::HADOOP_CONF_DIR, DIRECTORY);
    driver.set_property(submit_conf::EXECUTOR_HADOOP_CONFIG_MAP, name);
    Ok(())
}
