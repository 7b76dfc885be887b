//! Checks that the driver runs in a pod of its own.

use super::Subject;
use api::DeployMode;

pub(super) fn cluster(subject: &Subject) {
    if subject.spec.mode == DeployMode::Client {
        let why =
            "`client` would run the driver where it is submitted, not in a pod of its own: write `cluster`";
        subject.refuse("mode", why);
    }
}
