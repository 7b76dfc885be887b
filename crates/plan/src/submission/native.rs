//! Prepares the native submission of an application. The input is the same as that of `spark-submit`, and the objects
//! are those that Spark would create, except that the application owns them, they have the operator's labels, and the
//! driver's pod is already customized.

use super::{
    Context, SubmissionEnvironment, Submitter, choice::submitter, dependencies, pod_templates, properties,
    template,
};
use crate::{
    Policy, auxiliary::ui_path, findings::Validated, gang, monitoring, owned::owned, pod_summary::PodSummary,
    run::Run, submission_pod, validation::validate,
};
use api::{
    Role, SparkApplication,
    names::{conf, label, submit_conf},
    stated, with_defaults,
};
use jiff::Timestamp;
use pod_customization;
use serde_json::Value;
use spark_client::{
    self, Child, Environment, Line, NotNative, Objects, Submission, flag_list, possible_children,
    read_properties,
};

/// The flags whose lists Spark resolves before they become properties.
const RESOLVED: [&str; 4] =
    [submit_conf::JARS, submit_conf::FILES, submit_conf::ARCHIVES, submit_conf::PY_FILES];

/// Returns the objects of `run`, ready to be created, and a note for the user about them.
///
/// # Errors
///
/// When no objects can be built: see [`NotNative`].
pub fn objects(
    application: Validated,
    run: &Run,
    policy: &Policy,
    submission_environment: &SubmissionEnvironment,
    now: Timestamp,
) -> Result<(Objects, Option<String>), NotNative> {
    let SubmissionEnvironment { defaults, environment, .. } = submission_environment;
    let submission = native(application, run, policy, defaults, environment.clone(), now)?;
    let note = Line::nearest(&submission.spark_version).1;
    Ok((of_submission(application, run, &submission)?, note))
}

/// Returns the objects of `run`, whose submission this is.
fn of_submission(application: Validated, run: &Run, submission: &Submission) -> Result<Objects, NotNative> {
    let Objects { mut pod, children } = uncustomized(application, run, submission)?;
    let patch = pod_customization::patch(&(&pod).into()).map_err(|denials| {
        let why = denials.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        NotNative::refused("the driver's pod", why)
    })?;
    json_patch::patch(&mut pod, &patch).expect("the patch was made for this very pod");
    Ok(Objects { pod, children })
}

/// Returns the objects with the driver's pod as Spark makes it, before the webhook changes it.
fn uncustomized(application: Validated, run: &Run, submission: &Submission) -> Result<Objects, NotNative> {
    let Objects { pod, children } = spark_client::objects(submission)?;
    let own = |child| owned(child, &application, Some(run.id.as_str()), label::LAUNCHED_BY);
    // The driver's own ConfigMap stays the last of all objects: if it exists, all other objects exist.
    let of_monitoring = monitoring::config_map(&application, run).into_iter();
    Ok(Objects { pod, children: of_monitoring.chain(children.into_iter().map(own)).collect() })
}

/// Returns the objects that the operator may have created for `run` in addition to pods: those that [`objects`] returns
/// in addition to the driver's pod, or the ConfigMap of the submission pod; the ConfigMap of monitoring; and the group of
/// the batch scheduler.
///
/// The objects are found by their names. The names follow from the application and the run, not from the admin's
/// configuration, which may have changed since. (To find the objects by label, the operator would need the right to
/// list all ConfigMaps and claims, and would have to list those of the namespace for every run that ends.) Before an
/// object is deleted, the caller has to check its owner.
///
/// The names of claims depend on all volumes of the driver. They are taken from `driver`, the pod of the run's driver.
/// Without `driver`, the names are computed from `submission_environment`: they are exact if it equals that of the
/// submission, otherwise a best guess. Claims whose name the user has chosen are not returned: they may belong to
/// another user.
#[must_use]
pub fn children(
    application: &SparkApplication,
    run: &Run,
    policy: &Policy,
    submission_environment: &SubmissionEnvironment,
    driver: Option<&PodSummary>,
) -> Vec<Child> {
    let name = application.metadata.name.as_deref().unwrap_or_default();
    let ids = run.ids();
    let possible = possible_children(name, &ids);
    let config_map = driver.and_then(|driver| driver.driver_config_map.as_ref());
    let is_native = config_map.map(|config_map| possible.iter().any(|child| child.name == *config_map));
    let (by_operator, by_pod) = match (is_native, submitter(application, policy)) {
        (Some(is_native), _) => (is_native, !is_native),
        (None, Ok(Submitter::Native)) => (true, false),
        (None, Ok(Submitter::SparkSubmit)) => (false, true),
        // With `auto`, either the operator or a submission pod may have submitted the run, so the objects of both are
        // possible.
        (None, Ok(Submitter::Auto) | Err(_)) => (true, true),
    };

    let mut named: Vec<_> = monitoring::config_map(application, run).iter().filter_map(Child::of).collect();
    named.extend(gang::possible(application, run.id.as_str(), policy, driver));
    if by_operator {
        let has_policy = Line::nearest(&application.spec.spark_version).0 >= Line::V4_2;
        named.extend(possible.into_iter().filter(|child| has_policy || child.kind != "NetworkPolicy"));
        let is_ours = |claim: &Child| claim.name.contains(&ids.prefix);
        let claims = match driver.filter(|_| is_native.is_some()) {
            Some(driver) => driver.claims.iter().map(|name| claim(name.clone())).collect(),
            None => planned_claims(application, run, policy, submission_environment),
        };
        named.extend(claims.into_iter().filter(is_ours));
    }
    if by_pod {
        named.push(submission_pod::config_map(&submission_pod::name(application, run)));
    }
    named
}

/// The objects of a run as they would be created, and a model of its executors. The pods are as Spark makes them, before the
/// webhook changes them.
pub struct Model {
    pub driver: Value,
    pub children: Vec<Value>,
    pub executor: Value,
}

/// Returns a model of the next run of an application in which no mistake was found, and its submission, as an operator
/// with default flags and without a `spark-defaults.conf` plans it; an image is taken for granted, since the admin may
/// have set it there, and with `uploads_files` a place for files.
///
/// # Errors
///
/// When the application cannot be run as it is written.
pub fn model_submission(application: Validated, uploads_files: bool) -> Result<(Run, Submission), NotNative> {
    let upload_path = if uploads_files { submit_conf::UPLOAD_PATH } else { "" };
    let defaults = format!("{} unknown\n{upload_path} unknown\n", conf::IMAGE);
    let policy = Policy::new("k8s://https://kubernetes.default.svc");
    let run = Run::model(&application);
    let environment = Environment::default();
    let submission = native(application, &run, &policy, &defaults, environment, Timestamp::UNIX_EPOCH)?;
    Ok((run, submission))
}

/// Returns the objects of `submission`, and a model of its executors.
///
/// # Errors
///
/// As for [`objects`].
pub fn model(application: Validated, run: &Run, submission: &Submission) -> Result<Model, NotNative> {
    let Objects { pod, children } = uncustomized(application, run, submission)?;
    Ok(Model { driver: pod, children, executor: spark_client::executor(submission)? })
}

const CLAIM: &str = "PersistentVolumeClaim";

fn claim(name: String) -> Child {
    Child { kind: CLAIM.to_owned(), name }
}

/// Returns the claims that are created for the driver of `run`; empty if its submission cannot be planned.
fn planned_claims(
    application: &SparkApplication,
    run: &Run,
    policy: &Policy,
    submission_environment: &SubmissionEnvironment,
) -> Vec<Child> {
    let SubmissionEnvironment { defaults, environment, .. } = submission_environment;
    let Ok(application) = validate(application) else { return Vec::new() };
    let planned = native(application, run, policy, defaults, environment.clone(), Timestamp::UNIX_EPOCH)
        .and_then(|submission| spark_client::objects(&submission));
    let children = planned.map(|objects| objects.children).unwrap_or_default();
    children.iter().filter_map(Child::of).filter(|child| child.kind == CLAIM).collect()
}

/// Returns the native submission of `run`. `defaults` is the text of a `spark-defaults.conf`, which all other
/// properties override; `environment` is the environment that `spark-submit` would have.
///
/// # Errors
///
/// When the application cannot be run as it is written.
pub fn native(
    application: Validated,
    run: &Run,
    policy: &Policy,
    defaults: &str,
    environment: Environment,
    now: Timestamp,
) -> Result<Submission, NotNative> {
    let application = application.get();
    let spec = with_defaults(application.spec.clone());
    let ids = run.ids();
    let ui_path = ui_path(application, Some(&ids.application), policy);
    let refused = |problem| NotNative::refused("spark-defaults.conf", problem);
    let defaults = read_properties(defaults).map_err(refused)?;
    let context = Context { application, spec: &spec, run, defaults: &defaults, ui_path };

    let mut merged = properties(&context).over(defaults.clone()).into_map();
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
        .map_err(|refusal| NotNative::refused("the executors' template", refusal.brief()))?
        .map(|template| pod_templates::text(&template));
    Ok(Submission {
        line: Line::nearest(&spec.spark_version).0,
        spark_version: spec.spark_version.clone(),
        properties: merged,
        main_class: spec.main_class.clone(),
        primary_resource: spec.main_application_file.clone(),
        arguments: spec.arguments.clone(),
        proxy_user: stated(&spec.proxy_user).cloned(),
        driver_template: templates.then(|| pod_templates::template(application, &spec, Role::Driver)),
        executor_template,
        environment,
        ids,
        now,
    })
}
