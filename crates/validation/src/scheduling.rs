//! Checks that `nodeSelector` is not given both in the spec and in the section of a role.

use super::Subject;

pub(super) fn node_selector(subject: &Subject) {
    let other = subject.field("nodeSelector");
    for (role, pod) in subject.pods() {
        if !subject.spec.node_selector.is_empty() && !pod.node_selector.is_empty() {
            let why = format_args!("is given beside {other}: write all labels in one of the two");
            subject.refuse(format_args!("{role}.nodeSelector"), why);
        }
    }
}
