//! Checks that the user's labels do not override the labels by which the operator finds its pods.

use super::{Findings, Subject};
use api::{Role, names::label};
use std::collections::BTreeMap;

/// Refuses user labels that set another application's name or another value of `launched-by-spark-operator`, and warns
/// of a submission id. In Kubeflow's operator such labels hide the pods from the operator. This operator would keep its
/// own values, which is not what the user asked for either.
pub(super) fn operators(subject: &Subject, findings: &mut Findings) {
    let of_application = subject.application.metadata.labels.iter();
    let of_roles = Role::ALL.map(|role| (subject.of_role(role, "labels"), &role.pod(&subject.spec).labels));
    let all = of_application.map(|labels| ("metadata.labels".to_owned(), labels)).chain(of_roles);
    for (field, labels) in all {
        differ(&field, labels, label::APP_NAME, subject.name(), findings);
        differ(&field, labels, label::LAUNCHED_BY, "true", findings);
        if labels.contains_key(label::SUBMISSION_ID) {
            findings.warn(field, format_args!("`{}` is ignored: the operator sets it", label::SUBMISSION_ID));
        }
    }
}

fn differ(field: &str, labels: &BTreeMap<String, String>, key: &str, value: &str, findings: &mut Findings) {
    if labels.get(key).is_some_and(|given| given != value) {
        findings
            .refuse(field, format_args!("`{key}` is the operator's, who finds its pods by it: take it out"));
    }
}
