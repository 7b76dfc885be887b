//! Checks that this version of Spark accepts the version of Python.

use super::{Findings, Subject};
use api::names::conf;

/// Refuses Python `2` for Spark 3.1 and later, which accepts only `3`.
pub(super) fn version(subject: &Subject, findings: &mut Findings) {
    let spec = &subject.spec;
    let configured = spec.spark_conf.get(conf::PYTHON_VERSION);
    let stated = spec.python_version.as_ref().filter(|version| !version.is_empty());
    let (field, version) = match (configured, stated) {
        (Some(version), _) => (subject.conf(conf::PYTHON_VERSION), version),
        (None, Some(version)) => (subject.field("pythonVersion"), version),
        (None, None) => return,
    };
    // A version that is older than all that are known is submitted as the oldest of them.
    let mut numbers = spec.spark_version.split('.');
    let takes_2 = matches!((numbers.next(), numbers.next()), (Some("3"), Some("0") | None));
    if version == "2" && !takes_2 {
        findings.refuse(field, "Spark has refused `2` since 3.1: take it out, the image has its Python");
    }
}
