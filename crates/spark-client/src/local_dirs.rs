//! Adds the volumes for the scratch space of the driver and of the model of an executor.

use super::{Context, driver_in_progress::Driver, not_native::NotNative, submit_conf};
use api::names::{env, volume};
use serde_json::json;

/// Uses the volumes whose names begin with `spark-local-dir-` as scratch space, if any are mounted. Otherwise adds one
/// volume for each scratch directory.
pub(super) fn local_dirs(context: &Context, driver: &mut Driver) -> Result<(), NotNative> {
    let in_memory = context.conf.boolean(submit_conf::TMPFS)?.unwrap_or(false);
    let mounts = driver.container["volumeMounts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mounts = mounts.iter().filter(|mount| volume::is_scratch(mount));
    let mounted: Vec<_> = mounts.filter_map(|mount| mount["mountPath"].as_str()).map(str::to_owned).collect();
    if !mounted.is_empty() {
        driver.add_env(env::SPARK_LOCAL_DIRS, &mounted.join(","));
        return Ok(());
    }
    let own = format!("/var/data/spark-{}", context.submission.ids.local_dir);
    let stated = context.submission.environment.spark_local_dirs.as_deref();
    let directories = stated.or(context.conf.raw(submit_conf::LOCAL_DIR)).unwrap_or(&own);
    // This matches Java's `split`, which drops empty elements only at the end.
    let directories: Vec<_> = match directories.trim_end_matches(',') {
        "" if !directories.is_empty() => Vec::new(),
        directories => directories.split(',').collect(),
    };
    for (i, directory) in directories.iter().enumerate() {
        let source = if in_memory { json!({"medium": "Memory"}) } else { json!({}) };
        driver.mount(
            &format!("{}{}", volume::LOCAL_DIR_PREFIX, i + 1),
            json!({"emptyDir": source}),
            directory,
        );
    }
    driver.add_env(env::SPARK_LOCAL_DIRS, &directories.join(","));
    Ok(())
}
