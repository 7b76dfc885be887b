//! Checks that the driver runs in a pod of its own.

use super::{Findings, Subject};
use api::DeployMode;

pub(super) fn cluster(subject: &Subject, findings: &mut Findings) {
    if subject.spec.mode == DeployMode::Client {
        findings.refuse(
            subject.field("mode"),
            "`client` would run the driver where it is submitted, not in a pod of its own: write `cluster`",
        );
    }
}
