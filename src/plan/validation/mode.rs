//! Where is the driver to run?

use super::{Findings, Subject};
use crate::api::DeployMode;

pub(super) fn cluster(subject: &Subject, findings: &mut Findings) {
    if subject.spec.mode == DeployMode::Client {
        findings.refuse(
            subject.field("mode"),
            "`client` would run the driver inside the operator, with the operator's rights: write `cluster`",
        );
    }
}
