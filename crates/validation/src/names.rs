//! Checks that the names of objects, ports and driver pods are valid.

use super::{Findings, Subject};
pub use api::is_object_name;
use api::{LONGEST_LABEL, LONGEST_NAME, conf, is_segment};

/// Checks that the name of an object of this kind is a DNS-1035 label, as Kubernetes requires for the Services that are named
/// after it, and has at most `possible` characters.
pub fn check_name(kind: &str, metadata: &kube_core::ObjectMeta, possible: usize, findings: &mut Findings) {
    let name = metadata.name.as_deref().unwrap_or_default();
    if name.is_empty() && metadata.generate_name.is_some() {
        // The API server generates the name.
        return;
    }
    let mut refuse = |why: String| {
        // Up to `why`, the message is that of Kubeflow's operator.
        findings.refuse("metadata.name", format_args!("invalid {kind} name \"{name}\": {why}"));
    };
    if name.len() > possible {
        refuse(format!("has {} characters, at most {possible} are possible", name.len()));
    }
    if !is_label(name) {
        let like = label_like(name).map(|like| format!(" (try `{like}`)")).unwrap_or_default();
        refuse(format!("write lower-case letters, digits and `-`, a letter first and no `-` last{like}"));
    }
}

/// Checks a name that the user gave to the driver's pod. A default name is derived from the application's name, which
/// has been checked already.
pub(super) fn driver_pod(subject: &Subject) {
    let name = submission::driver_pod_name(subject.application);
    let is_given = subject.spec.driver.pod_name.as_ref() == Some(&name);
    let given = is_given.then(|| "driver.podName".to_owned());
    let configured = subject.configured(conf::DRIVER_POD_NAME).filter(|(_, text)| *text == name);
    let field = given.or(configured.map(|(path, _)| path));
    if let Some(field) = field.filter(|_| !is_object_name(&name)) {
        let like = format_args!("write lower-case letters, digits, `-` and `.`, at most {LONGEST_NAME}");
        subject.refuse(field, format_args!("`{name}` cannot be the name of a pod: {like}"));
    }
}

/// Whether `name` can be the name of a Service's port.
pub(super) fn is_port_name(name: &str) -> bool {
    name.len() <= LONGEST_LABEL && is_segment(name)
}

/// Whether `name` has the form of a DNS-1035 label, which begins with a letter. The length is not checked.
pub fn is_label(name: &str) -> bool {
    is_segment(name) && name.starts_with(|c: char| c.is_ascii_lowercase())
}

/// Whether Kubernetes accepts `text` as the value of a label.
pub fn is_label_value(text: &str) -> bool {
    let is_alphanumeric = |c: char| c.is_ascii_alphanumeric();
    text.len() <= LONGEST_LABEL
        && text.starts_with(is_alphanumeric)
        && text.ends_with(is_alphanumeric)
        && text.chars().all(|c| is_alphanumeric(c) || "-_.".contains(c))
}

/// Whether Kubernetes accepts `text` as the key of a label or an annotation.
pub fn is_label_key(text: &str) -> bool {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_object_name) && is_label_value(name)
}

/// Returns a valid label that is similar to `name`; `None` if there is none.
fn label_like(name: &str) -> Option<String> {
    let dashed: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    let like = dashed.trim_start_matches(|c: char| !c.is_ascii_lowercase()).trim_end_matches('-');
    (!like.is_empty()).then(|| like.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_begins_with_a_letter_and_ends_with_a_letter_or_digit() {
        for name in ["a", "pi", "a-1", "a--b", "x9"] {
            assert!(is_label(name), "{name}");
        }
        let cases = include_str!("../../../tests/data/label-suggestions.json");
        for (name, like) in serde_json::from_str::<Vec<(&str, Option<&str>)>>(cases).unwrap() {
            assert!(!is_label(name), "{name}");
            assert_eq!(label_like(name).as_deref(), like, "{name}");
            assert!(like.is_none_or(is_label), "{name}");
        }
    }
}
