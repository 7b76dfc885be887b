//! Checks that `nodeSelector` is not given both in the spec and in the section of a role.

use super::{Findings, Subject};
use api::Role;

pub(super) fn node_selector(subject: &Subject, findings: &mut Findings) {
    if subject.spec.node_selector.is_empty() {
        return;
    }
    for role in Role::ALL {
        if !role.pod(&subject.spec).node_selector.is_empty() {
            let other = subject.field("nodeSelector");
            findings.refuse(
                subject.of_role(role, "nodeSelector"),
                format_args!("is given beside {other}: write all labels in one of the two"),
            );
        }
    }
}
