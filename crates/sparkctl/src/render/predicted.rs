//! Predicts the objects that `spark-submit` would create for an application, without running `spark-submit`, as far as
//! that is possible.

use api::{Role, names::conf};
use jiff::Timestamp;
use plan::Policy;
use serde_json::json;
use spark_client::{self, NotNative, Objects, properties_beside_file, trimmed};
use std::collections::{BTreeMap, BTreeSet};
use submission::{
    SubmissionEnvironment, exposure::has_id_in_ui_path, file, findings::Validated, monitoring, native,
    run::Run, spark_submit, starting_point,
};

/// Returns the objects that Spark's own client would create for `run`, before any webhook changes them: the pod, its
/// children in the order in which Spark creates them, and as the last child the ConfigMap of monitoring, which the
/// operator creates before the submission. The names and ids that Spark would choose at random are those of
/// [`Run::ids`]. The owner references of the children do not contain the pod's uid, which does not exist yet.
///
/// # Errors
///
/// [`NotNative::Refused`] if `spark-submit` would refuse the run, and [`NotNative::Fallback`] if only `spark-submit`
/// itself can determine the objects.
pub fn predicted(
    application: &Validated,
    run: &Run,
    policy: &Policy,
    submission_environment: &SubmissionEnvironment,
    now: Timestamp,
) -> Result<Objects, NotNative> {
    let SubmissionEnvironment { defaults, environment, .. } = submission_environment;
    let mut submission = native(application, run, &policy.submission, defaults, environment.clone(), now)?;
    let command = spark_submit(application, run, &policy.submission, "");
    let command = command.map_err(|refusal| NotNative::refused("the pod templates", refusal.brief()))?;
    let template = command.files.get(file::template(Role::Driver));
    // Without a webhook, the template contains what the webhook would add.
    submission.driver_template = template.map(|text| serde_json::from_str(text).expect("templates are JSON"));
    let properties = starting_point(application, BTreeMap::new()).0;
    if has_id_in_ui_path(application, &policy.submission.exposure) {
        // The path of the web UI contains Spark's application id. `spark-submit` chooses this id only after the
        // properties are written, so the properties cannot contain the path.
        for key in [conf::UI_PROXY_BASE, conf::UI_PROXY_REDIRECT_URI] {
            if properties.raw(key).is_none() {
                submission.properties.remove(key);
            }
        }
    }
    let arguments: BTreeSet<_> = properties_beside_file(&properties.0).into_iter().collect();
    for (key, value) in properties.0 {
        // A property that is not passed as an argument is in the properties file. Spark removes the blanks around
        // values in that file.
        if !arguments.contains(&format!("{key}={value}"))
            && let Some(read) = submission.properties.get_mut(&key).filter(|read| **read == value)
        {
            *read = trimmed(&value).to_owned();
        }
    }
    for argument in &mut submission.arguments {
        // Spark's script `spark-class` deletes carriage returns.
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
