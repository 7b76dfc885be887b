//! Reads the driver's pod template, and determines which of its containers is Spark's.
//!
//! A template is parsed by the rules of Spark's client library (fabric8), into the types of a pod: a number in a string
//! field becomes a string, a string in a number field becomes a number, fields that are null or empty lists are
//! dropped, and fields that the library does not know are kept.

use super::{
    Context,
    driver_in_progress::list,
    not_native::{NotNative, Reason},
    submitter_file,
};
use api::{Role, names::conf};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use serde_path_to_error::Segment;

/// The maximum number of conversions of one value: from a number to a string, and from that string to an integer.
const MOST_TRIES: usize = 2;
/// The maximum number of values of a template that are converted. A document with more values of a wrong type is
/// probably not a template at all.
const MOST_REPAIRS: usize = 200;
/// The names of fields that are maps. An empty map is dropped, an empty object of another type is not.
const MAPS: [&str; 9] = [
    "annotations", "labels", "limits", "matchLabels", "nodeSelector", "options", "overhead", "requests",
    "volumeAttributes",
];
/// The names of fields that are quantities, or maps of quantities. Our types accept numbers in these fields, while the
/// library converts the numbers to strings.
const QUANTITIES: [&str; 5] = ["divisor", "limits", "overhead", "requests", "sizeLimit"];

/// Returns the driver's pod without Spark's container, and Spark's container separately.
pub(super) fn starting_point(context: &Context) -> Result<(Value, Value), NotNative> {
    let key = conf::kubernetes(Role::Driver, conf::POD_TEMPLATE_FILE);
    match (context.conf.text(&key)?, &context.submission.driver_template) {
        (Some(file), None) => Err(missing(context, &key, &file)),
        (None, _) => of_role(context, Role::Driver, None),
        (Some(_), template) => of_role(context, Role::Driver, template.as_ref()),
    }
}

/// Returns a pod of `role` from `template`, without Spark's container, and Spark's container separately.
pub(super) fn of_role(
    context: &Context,
    role: Role,
    template: Option<&Value>,
) -> Result<(Value, Value), NotNative> {
    let key = conf::kubernetes(role, conf::POD_TEMPLATE_FILE);
    let wanted = context.conf.text(&conf::kubernetes(role, conf::POD_TEMPLATE_CONTAINER))?;
    let mut pod = match template {
        None => json!({"metadata": {}, "spec": {}}),
        Some(template) => read(template).map_err(|problem| NotNative::refused(&key, problem))?,
    };
    if !pod["spec"].is_object() {
        return Err(NotNative::refused(&key, "could not load pod from template file: it has no spec"));
    }
    let mut container = take_container(&mut pod, wanted.as_deref());
    if container["name"].as_str().is_none_or(str::is_empty) {
        container["name"] = role.container().into();
    }
    Ok((pod, container))
}

fn missing(context: &Context, key: &str, file: &str) -> NotNative {
    match submitter_file::read(context, key, file) {
        Err(missing) => missing,
        Ok(_) => {
            NotNative::fallback(Reason::SubmitterFile, key, format!("`{file}` was not read as a template"))
        }
    }
}

/// Removes Spark's container from the pod and returns it: the container called `wanted` if there is exactly one of that
/// name, otherwise the first container, or a new one if there are no containers.
fn take_container(pod: &mut Value, wanted: Option<&str>) -> Value {
    let containers = list(&mut pod["spec"], "containers");
    let mut called =
        (0..containers.len()).filter(|i| wanted.is_some_and(|name| containers[*i]["name"] == name));
    let position = match (called.next(), called.next()) {
        (Some(only), None) => only,
        _ => 0,
    };
    if containers.is_empty() { json!({}) } else { containers.remove(position) }
}

/// Returns the template after it was parsed into the types of a pod. The error contains the path of the value that does
/// not fit.
fn read(template: &Value) -> Result<Value, String> {
    let mut read = template.clone();
    if read.is_object() {
        // The library ignores the value of `apiVersion`; our types accept only `v1`.
        read["apiVersion"] = "v1".into();
    }
    let (mut repaired, mut kept) = (Vec::new(), Vec::new());
    let pod = loop {
        let error = match serde_path_to_error::deserialize::<_, Pod>(&read) {
            Ok(pod) => break pod,
            Err(error) => error,
        };
        let pointer = pointer(error.path());
        let times = repaired.iter().filter(|repaired| **repaired == pointer).count();
        let is_hopeless = times == MOST_TRIES || repaired.len() == MOST_REPAIRS;
        let is_element = matches!(error.path().iter().next_back(), Some(Segment::Seq { .. }));
        let repair =
            read.pointer(&pointer).filter(|_| !is_hopeless).and_then(|value| coerced(value, is_element));
        let (Some(repair), Some(place)) = (repair, read.pointer_mut(&pointer)) else {
            let path = error.path().to_string();
            let place = if path == "." { "the template" } else { &path };
            return Err(format!("{place}: {}", error.inner()));
        };
        if place.is_null() && !is_element {
            kept.push(pointer.clone());
        }
        *place = repair;
        repaired.push(pointer);
    };
    for pointer in &kept {
        if let Some(place) = read.pointer_mut(pointer) {
            *place = Value::Null;
        }
    }
    let known = serde_json::to_value(pod).map_err(|error| error.to_string())?;
    prune(&mut read, &known, "", &kept);
    Ok(read)
}

/// Converts `value` to the other type that the user may have meant; `None` if there is no such type.
fn coerced(value: &Value, is_element: bool) -> Option<Value> {
    match value {
        Value::Null if is_element => Some(json!({})),
        // The value is in a map whose values are strings in our types.
        Value::Null => Some("".into()),
        Value::Number(number) => Some(number.to_string().into()),
        Value::Bool(flag) => Some(flag.to_string().into()),
        Value::String(text) => match text.as_str() {
            "true" | "True" | "TRUE" => Some(true.into()),
            "false" | "False" | "FALSE" => Some(false.into()),
            // Decimals are cut off.
            number => number.split('.').next()?.parse::<i64>().ok().map(Value::from),
        },
        Value::Array(_) | Value::Object(_) => None,
    }
}

fn pointer(path: &serde_path_to_error::Path) -> String {
    path.iter().fold(String::new(), |pointer, segment| match segment {
        Segment::Seq { index } => format!("{pointer}/{index}"),
        Segment::Map { key } => format!("{pointer}/{}", escaped(key)),
        Segment::Enum { .. } | Segment::Unknown => pointer,
    })
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Removes the values that the library does not send (nulls, empty lists and empty maps), except at the pointers in
/// `kept` and inside fields that are not `known`.
fn prune(value: &mut Value, known: &Value, at: &str, kept: &[String]) {
    match value {
        Value::Object(fields) => {
            fields.retain(|key, value| {
                let at = format!("{at}/{}", escaped(key));
                let Some(known) = known.get(key) else { return !value.is_null() };
                prune(value, known, &at, kept);
                if QUANTITIES.contains(&key.as_str()) {
                    numbers_to_strings(value);
                }
                match value {
                    Value::Null => kept.contains(&at),
                    Value::Array(list) => !list.is_empty(),
                    Value::Object(map) => !map.is_empty() || !MAPS.contains(&key.as_str()),
                    _ => true,
                }
            });
        }
        Value::Array(list) => {
            for (i, value) in list.iter_mut().enumerate() {
                prune(value, &known[i], &format!("{at}/{i}"), kept);
            }
        }
        _ => {}
    }
}

fn numbers_to_strings(value: &mut Value) {
    match value {
        Value::Number(number) => *value = number.to_string().into(),
        Value::Object(entries) => entries.values_mut().for_each(numbers_to_strings),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_parsed_as_a_pod_or_refused_with_the_path_of_the_problem() {
        let cases = include_str!("../../../tests/data/spark-client/templates.json");
        let cases: Value = serde_json::from_str(cases).unwrap();
        assert_eq!(read(&cases["read"]).as_ref(), Ok(&cases["as"]));
        for (place, template) in cases["refused"].as_object().unwrap() {
            let refused = read(template).unwrap_err();
            assert!(refused.starts_with(place), "{refused}");
        }
    }
}
