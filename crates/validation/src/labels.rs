//! Checks that the user's labels do not override the labels by which the operator finds its pods, and that the labels of nodes
//! are given in one place.

use super::Subject;
use api::{Role, SparkPodSpec, label};

/// Refuses user labels that set another application's name or another value of `launched-by-spark-operator`, and warns
/// of a submission id. In Kubeflow's operator such labels hide the pods from the operator. This operator would keep its
/// own values, which is not what the user wrote either.
pub(super) fn operators(subject: &Subject) {
    let of_application = subject.application.metadata.labels.iter();
    let of_roles =
        subject.pods().map(|(role, pod)| (subject.field(format_args!("{role}.labels")), &pod.labels));
    let all = of_application.map(|labels| ("metadata.labels".to_owned(), labels)).chain(of_roles);
    let mut findings = subject.findings.borrow_mut();
    for (field, labels) in all {
        for (key, value) in [(label::APP_NAME, subject.name()), (label::LAUNCHED_BY, "true")] {
            if labels.get(key).is_some_and(|given| given != value) {
                let why = format_args!("`{key}` is the operator's, who finds its pods by it: take it out");
                findings.refuse(&field, why);
            }
        }
        if labels.contains_key(label::SUBMISSION_ID) {
            findings.warn(field, format_args!("`{}` is ignored: the operator sets it", label::SUBMISSION_ID));
        }
    }
}

/// Refuses a `nodeSelector` both in the spec and in the section of a role.
pub(super) fn node_selector(subject: &Subject, role: Role, pod: &SparkPodSpec) {
    let other = subject.field("nodeSelector");
    if !subject.spec.node_selector.is_empty() && !pod.node_selector.is_empty() {
        let why = format_args!("is given beside {other}: write all labels in one of the two");
        subject.refuse(format_args!("{role}.nodeSelector"), why);
    }
}
