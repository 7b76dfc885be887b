//! Lists the objects that are created for an application or a SparkConnect, in the order of creation, as a stream of YAML documents that
//! `kubectl create` accepts.

use super::manifest::{Found, Subject, without_unknown_owners};
use crate::yaml;
use api::names::label;
use serde_json::Value;
use spark_client::{NotNative, Objects};
use std::{fmt::Write, iter};

/// The mark before each line of the script that is run.
const SCRIPT: &str = "#$ ";
/// The mark before each line of the submission pod.
const POD: &str = "#| ";

/// Returns the objects that the operator itself creates, the pod of the driver or server last. `how` is added to the
/// sentence "the operator creates this".
pub(super) fn created(
    found: &Found,
    how: &str,
    notes: &[&str],
    objects: &[&Value],
) -> anyhow::Result<String> {
    let pod = objects.last().copied().unwrap_or(&Value::Null);
    let what = format!("# {}: the operator creates this{how}.\n", found.heading);
    Ok(what + &remarks(found, notes) + &documents(found, objects, pod, true)?)
}

/// Returns what `spark-submit` is given, the pod in which it runs, and the objects that it creates; or why these
/// objects are not known. `before` are the objects of extensions that are created before the pod.
pub(super) fn spark_submit(
    found: &Found,
    notes: &[&str],
    script: &str,
    before: &[Value],
    submission_pod: &Value,
    objects: Result<&Objects, &NotNative>,
) -> anyhow::Result<String> {
    let mut text = format!("# {}: spark-submit runs in a pod of the application's own:\n", found.heading);
    text += &yaml::comment(SCRIPT, script);
    text += "# The operator makes a ConfigMap with the files, and this pod, which mounts it:\n";
    let pod = without_unknown_owners(placed(found, submission_pod));
    text += &yaml::comment(POD, &yaml::document(&pod)?);
    for group in before {
        let (kind, name) = (&group["kind"], &group["metadata"]["name"]);
        let (kind, name) = (kind.as_str().unwrap_or_default(), name.as_str().unwrap_or_default());
        writeln!(text, "# Before it, {kind} {name} for the batch scheduler:")?;
        text += &yaml::comment(POD, &yaml::document(&without_unknown_owners(placed(found, group)))?);
    }
    match objects {
        Ok(objects) => {
            text += "# It creates the following; names and ids that it chooses at random differ in the cluster.\n";
            for child in objects.children.iter().filter(|child| is_made_before(child)) {
                let (kind, name) = (&child["kind"], &child["metadata"]["name"]);
                let (kind, name) = (kind.as_str().unwrap_or_default(), name.as_str().unwrap_or_default());
                writeln!(text, "# Except {kind} {name}, which the operator creates before.")?;
            }
            text += &remarks(found, notes);
            let order: Vec<_> = iter::once(&objects.pod).chain(&objects.children).collect();
            text += &documents(found, &order, &objects.pod, false)?;
        }
        Err(why) => {
            let why = format!("What it creates is not known without running it: {why}");
            text += &yaml::comment("# ", &yaml::printable(&why));
            text += &remarks(found, notes);
        }
    }
    Ok(text)
}

/// Whether `object` is one that the operator creates before the pod of `spark-submit`.
fn is_made_before(object: &Value) -> bool {
    !object["metadata"]["labels"][label::CREATED_BY].is_null()
}

/// Returns the remarks on a subject, which come before its objects.
pub(super) fn remarks(found: &Found, notes: &[&str]) -> String {
    let notes = notes.iter().map(|note| format!("Note: {note}"));
    let remarks = found.remark.into_iter().map(str::to_owned).chain(notes);
    remarks.map(|remark| yaml::comment("# ", &yaml::printable(&remark))).collect()
}

/// Returns `objects` as documents, each under a comment that says what the object is. With `with_templates`, the pod
/// templates in ConfigMaps are shown too.
fn documents(found: &Found, objects: &[&Value], pod: &Value, with_templates: bool) -> anyhow::Result<String> {
    let mut text = String::new();
    if !found.has_uid {
        text += match found.subject {
            Subject::Application(_) => {
                "# It has no uid yet: references to it as owner are left out, and names that are derived from it differ in the cluster.\n"
            }
            Subject::Connect(_) => "# It has no uid yet: references to it as owner are left out.\n",
        };
    }
    for (i, object) in objects.iter().enumerate() {
        writeln!(
            text,
            "---\n# {} of {}: {}",
            i + 1,
            objects.len(),
            yaml::printable(&purpose(found, object, pod))
        )?;
        if with_templates {
            text += &templates(object)?;
        }
        text += &yaml::document(&without_unknown_owners(placed(found, object)))?;
    }
    Ok(text)
}

/// Returns `object` with the subject's namespace.
pub(super) fn placed(found: &Found, object: &Value) -> Value {
    let mut object = found.known(object);
    object["metadata"]["namespace"] = found.namespace.as_str().into();
    object
}

/// Returns what `object` is for, as the pod of the driver or server uses it.
fn purpose(found: &Found, object: &Value, pod: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or_default();
    let spark = match found.subject {
        Subject::Application(_) => "driver",
        Subject::Connect(_) => "server",
    };
    match kind {
        "Pod" if object == pod => format!("Pod, the {spark}"),
        "NetworkPolicy" if spark == "server" => "NetworkPolicy, which lets clients in".to_owned(),
        "Service" if spark == "server" => "Service, by whose name clients find the server".to_owned(),
        "Pod" => "Pod, which holds room for an executor".to_owned(),
        "PodGroup" => {
            "PodGroup, by which the batch scheduler places driver and executors together".to_owned()
        }
        "Service" => "Service, by whose name executors find the driver".to_owned(),
        _ => match mount_path(object, pod) {
            Some(path) => format!("{kind}, which the {spark} mounts at {path}"),
            None => kind.to_owned(),
        },
    }
}

/// Returns the path at which `pod` mounts `object`.
fn mount_path<'a>(object: &Value, pod: &'a Value) -> Option<&'a str> {
    let name = &object["metadata"]["name"];
    let is_of = |volume: &&Value| match object["kind"].as_str() {
        Some("ConfigMap") => volume["configMap"]["name"] == *name,
        Some("Secret") => volume["secret"]["secretName"] == *name,
        Some("PersistentVolumeClaim") => volume["persistentVolumeClaim"]["claimName"] == *name,
        _ => false,
    };
    let volume = pod["spec"]["volumes"].as_array()?.iter().find(is_of)?;
    let containers = pod["spec"]["containers"].as_array()?.iter();
    let mut mounts = containers.filter_map(|container| container["volumeMounts"].as_array()).flatten();
    mounts.find(|mount| mount["name"] == volume["name"])?["mountPath"].as_str()
}

/// Returns the pod templates in a ConfigMap as YAML for people to read: in the ConfigMap they are JSON in one line.
fn templates(object: &Value) -> anyhow::Result<String> {
    let mut text = String::new();
    for (key, value) in object["data"].as_object().into_iter().flatten() {
        let template = value.as_str().and_then(|value| serde_json::from_str::<Value>(value).ok());
        if let Some(template) = template.filter(Value::is_object) {
            writeln!(text, "# {key}, from which executors are created, is this:")?;
            text += &yaml::comment("#   ", &yaml::document(&template)?);
        }
    }
    Ok(text)
}
