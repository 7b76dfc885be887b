//! Prepares the native submission of an application. The input is the same as that of `spark-submit`, and the objects
//! are those that Spark would create, except that the application owns them, they have the operator's labels, and the
//! driver's pod is already customized.

use super::{Context, Settings, SubmissionEnvironment, fields, pod_templates, properties, template};
use crate::{exposure::ui_path, findings::Validated, monitoring, owned::owned, run::Run};
use api::{Role, conf, label, stated, submit_conf};
use jiff::Timestamp;
use spark_client::{
    self, Environment, Line, NotNative, Objects, Submission, flag_list, read_properties, template_text,
};

/// The properties whose lists are flags of `spark-submit` (`--jars` and the like) that Spark parses as lists of URIs.
const URI_LISTS: [&str; 4] =
    [submit_conf::JARS, submit_conf::FILES, submit_conf::ARCHIVES, submit_conf::PY_FILES];

/// Returns the objects of `run`, ready to be created, and a note for the user if the release line of Spark is not
/// known.
///
/// # Errors
///
/// When no objects can be built: see [`NotNative`].
pub fn objects(
    application: &Validated,
    run: &Run,
    settings: &Settings,
    submission_environment: &SubmissionEnvironment,
    now: Timestamp,
) -> Result<(Objects, Option<String>), NotNative> {
    let SubmissionEnvironment { defaults, environment, .. } = submission_environment;
    let submission = native(application, run, settings, defaults, environment.clone(), now)?;
    let note = Line::nearest(&submission.spark_version).1;
    let Objects { pod, children } = uncustomized(application, run, &submission)?;
    let refused = |why| NotNative::refused("the driver's pod", why);
    let pod = pod_templates::customized_pod(&pod).map_err(refused)?;
    Ok((Objects { pod, children }, note))
}

/// Returns the objects with the driver's pod as Spark creates it, before the webhook changes it.
fn uncustomized(application: &Validated, run: &Run, submission: &Submission) -> Result<Objects, NotNative> {
    let Objects { pod, children } = spark_client::objects(submission)?;
    let own = |child| owned(child, application, Some(run.id.as_str()), label::LAUNCHED_BY);
    // The driver's own ConfigMap stays the last of all objects: if it exists, all other objects exist.
    let of_monitoring = monitoring::config_map(application, run).into_iter();
    Ok(Objects { pod, children: of_monitoring.chain(children.into_iter().map(own)).collect() })
}

/// Returns a model of the next run of an application without mistakes, and its submission by an operator with default
/// flags. The admin's `spark-defaults.conf` is not known: it is assumed to set an image and, if `uploads_files`, an
/// upload path for local files.
///
/// # Errors
///
/// When the application cannot be run as it is written.
pub fn model_submission(
    application: &Validated,
    uploads_files: bool,
) -> Result<(Run, Submission), NotNative> {
    let upload_path = if uploads_files { submit_conf::UPLOAD_PATH } else { "" };
    let defaults = format!("{} unknown\n{upload_path} unknown\n", conf::IMAGE);
    let settings = Settings::new("k8s://https://kubernetes.default.svc");
    let run = Run::model(application);
    let environment = Environment::default();
    let submission = native(application, &run, &settings, &defaults, environment, Timestamp::UNIX_EPOCH)?;
    Ok((run, submission))
}

/// Returns the objects of `submission` as they would be created, and a model of its executors. The pods are as Spark
/// creates them, before the webhook changes them.
///
/// # Errors
///
/// As for [`objects`].
pub fn model(
    application: &Validated,
    run: &Run,
    submission: &Submission,
) -> Result<(Objects, serde_json::Value), NotNative> {
    Ok((uncustomized(application, run, submission)?, spark_client::executor(submission)?))
}

/// Returns the native submission of `run`. `defaults` is the text of a `spark-defaults.conf`, which all other
/// properties override; `environment` is the environment that `spark-submit` would have.
///
/// # Errors
///
/// When the application cannot be run as it is written.
pub fn native(
    application: &Validated,
    run: &Run,
    settings: &Settings,
    defaults: &str,
    environment: Environment,
    now: Timestamp,
) -> Result<Submission, NotNative> {
    let (spec, ids) = (application.spec_with_defaults(), run.ids());
    let ui_path = ui_path(application, Some(&ids.application), &settings.exposure);
    let refused = |problem| NotNative::refused("spark-defaults.conf", problem);
    let defaults = read_properties(defaults).map_err(refused)?;
    let context = Context { application, spec, run, defaults: &defaults, ui_path };

    let mut merged = properties(&context).over(defaults.clone()).0;
    merged.retain(|key, _| key.starts_with("spark."));
    merged.insert(conf::MASTER.to_owned(), settings.master.clone());
    merged.insert(conf::DEPLOY_MODE.to_owned(), "cluster".to_owned());
    merged.insert(conf::APP_NAME.to_owned(), context.name().to_owned());
    for (_, key, _, list) in fields::dependencies(&spec.deps) {
        let list = list.join(",");
        let list = if URI_LISTS.contains(&key) { flag_list(key, &list)? } else { list };
        merged.insert(key.to_owned(), list);
    }
    let templates = context.has_templates();
    let refused =
        |refusal: crate::findings::Refusal| NotNative::refused("the executors' template", refusal.brief());
    let executors = || template(application, Role::Executor, settings).map_err(refused);
    let executor_template = templates.then(executors).transpose()?;
    Ok(Submission {
        line: Line::nearest(&spec.spark_version).0,
        spark_version: spec.spark_version.clone(),
        properties: merged,
        main_class: spec.main_class.clone(),
        primary_resource: spec.main_application_file.clone(),
        arguments: spec.arguments.clone(),
        proxy_user: stated(&spec.proxy_user).cloned(),
        driver_template: templates.then(|| pod_templates::template(application, Role::Driver)),
        executor_template: executor_template.map(|template| template_text(&template)),
        environment,
        ids,
        now,
    })
}
