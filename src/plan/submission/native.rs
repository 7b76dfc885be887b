//! What is given to native submission for an application? The same as to `spark-submit`. And which objects
//! are created then? Those that Spark would make, ours by owner and labels, the driver already customized.

use super::{
    Context, Submitter, Surroundings, choice::submitter, dependencies, properties, stated, template,
    templates,
};
use crate::{
    api::{
        Role, SparkApplication,
        names::{conf, label, submit_conf},
        with_defaults,
    },
    plan::{
        Policy,
        children::ui_path,
        customization, monitoring,
        native::{
            self, Child, Environment, Ids, Line, NotNative, Objects, Submission, flag_list, read_properties,
        },
        owner_reference,
        run::Run,
        submission_pod, validation,
    },
};
use jiff::Timestamp;
use serde_json::json;

/// The flags whose lists Spark resolves before they become properties.
const RESOLVED: [&str; 4] =
    [submit_conf::JARS, submit_conf::FILES, submit_conf::ARCHIVES, submit_conf::PY_FILES];

/// The objects of `run`, as they are to be created, and what its user should know about them.
///
/// # Errors
///
/// When there is nothing to make: see [`NotNative`].
pub fn objects(
    application: &SparkApplication,
    run: &Run,
    policy: &Policy,
    surroundings: &Surroundings,
    now: Timestamp,
) -> Result<(Objects, Option<String>), NotNative> {
    let Surroundings { defaults, environment } = surroundings;
    let submission = native(application, run, policy, defaults, environment.clone(), now)?;
    let Objects { mut pod, mut children } = native::objects(&submission)?;
    for child in &mut children {
        let metadata = &mut child["metadata"];
        metadata["ownerReferences"] = json!([owner_reference(application)]);
        for (label, value) in [
            (label::APP_NAME, application.metadata.name.as_deref().unwrap_or_default()),
            (label::SUBMISSION_ID, run.id.as_str()),
            (label::LAUNCHED_BY, "true"),
        ] {
            metadata["labels"][label] = value.into();
        }
    }
    // The driver's own ConfigMap stays the last: where it is there, everything is.
    children.splice(0..0, monitoring::config_map(application, run));
    let patch = customization::patch(&(&pod).into()).map_err(|denials| {
        NotNative::Refused(denials.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    })?;
    json_patch::patch(&mut pod, &patch).expect("the patch was made for this very pod");
    Ok((Objects { pod, children }, Line::nearest(&submission.spark_version).1))
}

/// What the operator has made beside pods for `run`, however it was submitted: what [`objects`] has made beside the
/// driver's pod, or the ConfigMap of the submission pod. Claims that have a name of the user's are not among it: they may
/// be somebody else's.
#[must_use]
pub fn children(application: &SparkApplication, run: &Run, policy: &Policy) -> Vec<Child> {
    let made = match submitter(application, policy) {
        Ok(Submitter::SparkSubmit) => None,
        _ => native(application, run, policy, "", Environment::default(), Timestamp::UNIX_EPOCH)
            .and_then(|submission| native::objects(&submission))
            .ok(),
    };
    let ids = Ids::of_run(run);
    let monitoring = monitoring::config_map(application, run);
    let mut named: Vec<_> = monitoring.iter().filter_map(Child::of).collect();
    match made {
        Some(Objects { children, .. }) => {
            let is_ours = |child: &Child| child.kind != CLAIM || child.name.contains(&ids.prefix);
            named.extend(children.iter().filter_map(Child::of).filter(is_ours));
        }
        // Whatever cannot be made natively has been left to a submission pod, or not been made.
        None => named.push(submission_pod::config_map(&submission_pod::name(application, run))),
    }
    named
}

const CLAIM: &str = "PersistentVolumeClaim";

/// The native submission of `run`. `defaults` is the text of a `spark-defaults.conf`, below all other
/// properties; `environment` is what `spark-submit` would find around it.
///
/// # Errors
///
/// When the application cannot be run as it is written.
pub fn native(
    application: &SparkApplication,
    run: &Run,
    policy: &Policy,
    defaults: &str,
    environment: Environment,
    now: Timestamp,
) -> Result<Submission, NotNative> {
    validation::validate(application).map_err(|refusal| NotNative::Refused(refusal.brief()))?;
    let spec = with_defaults(application.spec.clone());
    let ids = Ids::of_run(run);
    let ui_path = ui_path(application, Some(&ids.application), policy);
    let refused = |problem| NotNative::Refused(format!("spark-defaults.conf: {problem}"));
    let defaults = read_properties(defaults).map_err(refused)?;
    let context = Context { application, spec: &spec, run, defaults: &defaults, ui_path };

    let mut merged = defaults.clone();
    merged.extend(properties(&context).into_map());
    merged.retain(|key, _| key.starts_with("spark."));
    merged.insert(conf::MASTER.to_owned(), policy.master.clone());
    merged.insert(conf::DEPLOY_MODE.to_owned(), "cluster".to_owned());
    merged.insert(conf::APP_NAME.to_owned(), context.name().to_owned());
    for (_, key, list) in dependencies::lists(&spec.deps).into_iter().filter(|(_, _, list)| !list.is_empty())
    {
        let list = list.join(",");
        let list = if RESOLVED.contains(&key) { flag_list(key, &list)? } else { list };
        merged.insert(key.to_owned(), list);
    }
    let templates = context.has_templates();
    let executor_template = templates.then(|| template(&context, Role::Executor, policy)).transpose();
    let executor_template = executor_template
        .map_err(|refusal| NotNative::Refused(refusal.brief()))?
        .map(|template| templates::text(&template));
    Ok(Submission {
        line: Line::nearest(&spec.spark_version).0,
        spark_version: spec.spark_version.clone(),
        properties: merged,
        main_class: spec.main_class.clone(),
        primary_resource: spec.main_application_file.clone(),
        arguments: spec.arguments.clone(),
        proxy_user: stated(&spec.proxy_user).cloned(),
        driver_template: templates.then(|| templates::template(application, &spec, Role::Driver)),
        executor_template,
        environment,
        ids,
        now,
    })
}
