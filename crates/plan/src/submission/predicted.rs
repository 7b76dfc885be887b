//! Predicts what `spark-submit` would create for an application, as far as that is possible without running it.

use super::{Surroundings, file, native::native, spark_submit, starting_point};
use crate::{Policy, children::has_id_in_ui_path, monitoring, run::Run};
use api::{Role, SparkApplication, names::conf};
use jiff::Timestamp;
use serde_json::json;
use spark_client::{self, NotNative, Objects, trimmed};
use std::collections::BTreeSet;

/// The objects that Spark's own client makes of what it is handed for `run`, before any webhook sees them: the
/// pod first, then the children in their order; and at the end what the operator makes before. Names and ids that Spark draws are those of
/// [`Run::ids`]; the pod's uid in the children's owner reference is missing.
///
/// # Errors
///
/// [`NotNative::Refused`] where `spark-submit` would refuse it, and [`NotNative::Fallback`] where only the JVM
/// knows.
pub fn predicted(
    application: &SparkApplication,
    run: &Run,
    policy: &Policy,
    surroundings: &Surroundings,
    now: Timestamp,
) -> Result<Objects, NotNative> {
    let Surroundings { defaults, environment } = surroundings;
    let mut submission = native(application, run, policy, defaults, environment.clone(), now)?;
    let command = spark_submit(application, run, policy, "");
    let command = command.map_err(|refusal| NotNative::Refused(refusal.brief()))?;
    let template = command.files.get(file::template(Role::Driver));
    // Without a webhook it has what the webhook would add.
    submission.driver_template = template.map(|text| serde_json::from_str(text).expect("it was JSON before"));
    let properties = starting_point(application).0;
    if has_id_in_ui_path(application, policy) {
        // It cannot tell its readers' path by an id that it has yet to draw.
        for key in [conf::UI_PROXY_BASE, conf::UI_PROXY_REDIRECT_URI] {
            if properties.get(key).is_none() {
                submission.properties.remove(key);
            }
        }
    }
    let arguments: BTreeSet<_> = properties.for_arguments().into_iter().collect();
    for (key, value) in properties.into_map() {
        // What is no argument stands in the file, from which Spark takes no blanks around a value.
        if !arguments.contains(&format!("{key}={value}"))
            && let Some(read) = submission.properties.get_mut(&key).filter(|read| **read == value)
        {
            *read = trimmed(&value).to_owned();
        }
    }
    for argument in &mut submission.arguments {
        // Spark's script `spark-class` deletes them.
        argument.retain(|c| c != '\r');
    }
    let Objects { pod, mut children } = spark_client::objects(&submission)?;
    for child in &mut children {
        let name = &pod["metadata"]["name"];
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": name, "controller": true});
        child["metadata"]["ownerReferences"] = json!([owner]);
    }
    children.extend(monitoring::config_map(application, run));
    Ok(Objects { pod, children })
}
