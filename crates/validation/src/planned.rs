//! Plans a run of the application, and checks the planned objects by the rules of Kubernetes: mistakes that would appear at
//! the submission are reported when the application is applied.

use super::{
    Subject, Validated, customization,
    kubernetes::{self, Place},
    pod_templates, start, volumes,
};
use api::{Role, SparkApplication, SparkApplicationSpec, conf, volume};
use serde_json::Value;
use spark_client::{NotNative, Objects, Submission};
use std::{borrow::Cow, cell::LazyCell, collections::BTreeMap};
use submission::{field_of, model, model_submission, stated_in};

/// What happens to files on the user's machine that an application names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// They are uploaded before the application is applied.
    AreUploaded,
    /// They stay where they are, and no driver can read them.
    Stay,
}

/// Adds the mistakes in the plan, if there was none before: otherwise, a mistake would be reported twice, in two ways.
/// Without planned pods, adds the mistakes in the customization of pods.
pub(super) fn run(subject: &Subject, files: Files) {
    let is_valid = subject.findings.borrow().invalid.is_empty();
    let planned = is_valid.then(|| planned(subject, files)).flatten();
    let Some((Objects { pod: driver, children }, executor)) = planned else {
        return customization::rehearsal(subject);
    };
    for (role, pod) in [(Role::Driver, &driver), (Role::Executor, &executor)] {
        if let Some(pod) = customization::customized(subject, role, pod) {
            volumes::left_out(subject, role, &pod);
            check(subject, &pod, Some(role));
            images(subject, &pod, role);
        }
    }
    for child in &children {
        pod_templates::size(subject, child);
        check(subject, child, None);
    }
}

/// The maximum number of plans of one application in order to find all of its mistakes: each plan stops at the first.
const MOST_PLANS: usize = 10;
/// The suffix of the property with the path at which Spark mounts a volume.
const MOUNT_PATH: &str = ".mount.path";

/// Returns the plan without the properties that were refused; `None` if no plan is possible.
fn planned(subject: &Subject, files: Files) -> Option<(Objects, Value)> {
    let application = with_metadata(subject.application);
    let valid = Validated::vouched(&application, Cow::Borrowed(&subject.spec));
    // Reports the field that is refused and returns it; `None` if there is nothing new to report.
    let reported = |problem: NotNative, before: &[String]| {
        // Otherwise, only `spark-submit` itself can plan the run.
        let NotNative::Refused { field, why } = problem else { return None };
        // The refusal only follows from what was left out for this plan.
        if before.iter().any(|left_out| follows(left_out, &field, &why)) {
            return None;
        }
        // Flags are spark-submit's; users write fields.
        let why = why.replace("with --class", "in mainClass");
        let path = field_of(&application.spec, subject.root, &field);
        subject.findings.borrow_mut().refuse(path, why);
        Some(field)
    };
    let planned = model_submission(&valid, files == Files::AreUploaded);
    let (run, mut submission) = planned.map_err(|problem| reported(problem, &[])).ok()?;
    overridden(subject, &submission.properties);
    start::check(subject, &submission.properties);
    let mut refused = Vec::<String>::new();
    while refused.len() < MOST_PLANS {
        match model(&valid, &run, &submission) {
            Ok(model) => return Some(model),
            Err(problem) => {
                let field = reported(problem, &refused)?;
                if !leave_out(&field, refused.len(), &mut submission) {
                    return None;
                }
                refused.push(field);
            }
        }
    }
    None
}

/// Whether a refusal of `field` only follows from what was left out before.
fn follows(left_out: &str, field: &str, why: &str) -> bool {
    let is_its_volume = left_out.ends_with(MOUNT_PATH) && left_out.starts_with(field);
    left_out == field || is_its_volume || why.contains(left_out)
}

/// Takes `property` out of a submission, of which `number` others were left out before, so that the next plan finds other
/// mistakes. Returns whether that was possible.
fn leave_out(property: &str, number: usize, submission: &mut Submission) -> bool {
    if submission.properties.remove(property).is_some() {
        return true;
    }
    if property.ends_with(MOUNT_PATH) {
        // The volume stays, since others may mount it.
        submission.properties.insert(property.to_owned(), format!("/left-out-{number}"));
        return true;
    }
    let ending = [".py", ".R"].into_iter().find(|ending| property.ends_with(ending));
    let is_main = property == submission.primary_resource && !property.starts_with("local:");
    // Without a main class, it has to be read from this very file.
    if !is_main || ending.is_none() && submission.main_class.is_none() {
        return false;
    }
    submission.primary_resource = format!("local:///left-out{}", ending.unwrap_or(".jar"));
    true
}

/// Warns of properties that a field of the spec overrides.
fn overridden(subject: &Subject, properties: &BTreeMap<String, String>) {
    let spec = &subject.spec;
    for (key, given) in &spec.spark_conf {
        // The operator appends an option to some.
        let is_kept = |value: &String| value == given || value.starts_with(&format!("{given} "));
        let is_lost = properties.get(key).is_some_and(|value| !is_kept(value));
        let field = is_lost.then(|| stated_in(spec, key)).flatten();
        if let Some(field) = field.filter(|field| !field.starts_with("sparkConf")) {
            let field = subject.field(field);
            subject.warn("sparkConf", format_args!("`{key}` is ignored: {field} counts"));
        }
    }
}

/// Returns the application with metadata that the API server adds to a new one.
fn with_metadata(application: &SparkApplication) -> SparkApplication {
    let mut application = application.clone();
    let metadata = &mut application.metadata;
    metadata.name.get_or_insert_with(|| "application".to_owned());
    metadata.namespace.get_or_insert_with(|| "default".to_owned());
    metadata.uid.get_or_insert_with(|| "00000000-0000-4000-8000-000000000000".to_owned());
    application
}

/// Refuses the application for the mistakes in `object`: a pod of `role`, or an object that is created with the driver's pod.
fn check(subject: &Subject, object: &Value, role: Option<Role>) {
    // The positions of volumes by their names, collected once: there can be thousands of volumes and as many mistakes.
    let volumes = LazyCell::new(|| {
        let names = subject.spec.volumes.iter().map(|volume| volume.json()["name"].as_str());
        names
            .enumerate()
            .map(|(position, name)| (Place::volume(name.unwrap_or_default()), position))
            .collect::<BTreeMap<_, _>>()
    });
    let position = |place: &Place| volumes.get(place).copied();
    for (place, why) in kubernetes::mistakes(object) {
        let mut findings = subject.findings.borrow_mut();
        if let Some(field) = role.and_then(|role| field(subject, role, &place, &position)) {
            findings.refuse(field, why);
        } else if let Some(role) = role {
            findings.refuse(subject.field(role), format_args!("its pods would have {place}: {why}"));
        } else if findings.invalid.is_empty() || matches!(place, Place::Field(_)) {
            // Mistakes in labels, which are also those of the driver's pod, are reported for the pod.
            let kind = object["kind"].as_str().unwrap_or_default();
            findings.refuse(subject.root, format_args!("its {kind} would have {place}: {why}"));
        }
    }
}

/// Warns of containers that Kubernetes refuses unless a webhook of the cluster names their images.
fn images(subject: &Subject, pod: &Value, role: Role) {
    let lists = ["initContainers", "containers"].into_iter().filter_map(|kind| pod["spec"][kind].as_array());
    for container in lists.flatten() {
        if container["image"].as_str().is_none_or(str::is_empty) {
            let name = container["name"].as_str().unwrap_or_default();
            let what = "has no image, and Kubernetes refuses such pods: name one";
            subject.warn(role, format_args!("its container `{name}` {what}"));
        }
    }
}

/// Returns the field that the user wrote and from which `place` of a pod was created. `position` returns the position in the
/// spec of the last volume with a name.
fn field(
    subject: &Subject,
    role: Role,
    place: &Place,
    position: &dyn Fn(&Place) -> Option<usize>,
) -> Option<String> {
    let key = |prefix: &str, name: &str| conf::kubernetes(role, &format!("{prefix}{name}"));
    let configured = |key: &str| subject.configured(key).map(|(path, _)| path);
    let stated = |key: String| configured(&key).or_else(|| stated_in(&subject.spec, &key));
    let path = match place {
        Place::Label(name) => {
            let stated = stated(key(conf::LABEL_PREFIX, name));
            let of_application = subject.application.metadata.labels.as_ref();
            // Pods have the labels of their application.
            if stated.is_none() && of_application.is_some_and(|labels| labels.contains_key(name)) {
                return Some(format!("metadata.labels[{name}]"));
            }
            stated
        }
        Place::Annotation(name) => stated(key(conf::ANNOTATION_PREFIX, name)),
        Place::Name(_) => configured(conf::EXECUTOR_POD_NAME_PREFIX).filter(|_| role == Role::Executor),
        Place::Volume(name) => {
            let of_secret =
                || configured(&key(conf::SECRETS_PREFIX, name.strip_suffix(volume::SECRET_SUFFIX)?));
            position(place).map(|position| format!("volumes[{position}]")).or_else(of_secret)
        }
        Place::Field(path) => {
            let has_template = role.pod(&subject.spec).template.is_some();
            of_pod(&subject.spec, role, path).filter(|_| !has_template)
        }
    };
    path.map(|path| subject.field(path))
}

/// Returns the path in the spec of what is at `path` in the spec of the role's pods, if the role has no template.
fn of_pod(spec: &SparkApplicationSpec, role: Role, path: &str) -> Option<String> {
    let (pod, name) = (role.pod(spec), role.as_str());
    if let Some(field) = path.strip_prefix("containers[0].") {
        let is_configured = |prefix: &str| {
            let mut from = spec.spark_conf.range(prefix.to_owned()..);
            from.next().is_some_and(|(key, _)| key.starts_with(prefix))
        };
        let is_stated = match field {
            "env" => !pod.env.is_empty() && !is_configured(&conf::env(role, "")),
            "envFrom" => !pod.env_from.is_empty(),
            "ports" => !pod.ports.is_empty(),
            "volumeMounts" => {
                !pod.volume_mounts.is_empty() && !is_configured(&conf::kubernetes(role, conf::VOLUMES_PREFIX))
            }
            field => field.starts_with("lifecycle."),
        };
        return is_stated.then(|| format!("{name}.{field}"));
    }
    if let Some((number, field)) = path.strip_prefix("containers[").and_then(|path| path.split_once("].")) {
        let number = number.parse::<usize>().ok()?.checked_sub(1)?;
        return Some(format!("{name}.sidecars[{number}].{field}"));
    }
    if let Some(key) = path.strip_prefix("nodeSelector[").and_then(|key| key.strip_suffix(']')) {
        let own = pod.node_selector.contains_key(key).then(|| format!("{name}.{path}"));
        return own.or_else(|| spec.node_selector.contains_key(key).then(|| path.to_owned()));
    }
    let field = if path == "serviceAccountName" { "serviceAccount" } else { path };
    Some(format!("{name}.{field}"))
}
