//! Checks that this version of Spark accepts the version of Python.

use super::Subject;
use api::{names::conf, stated};

/// Refuses Python `2` for Spark 3.1 and later, which accepts only `3`.
pub(super) fn version(subject: &Subject) {
    let spec = &subject.spec;
    let stated = || Some(("pythonVersion".to_owned(), stated(&spec.python_version)?.into()));
    let Some((field, version)) = subject.configured(conf::PYTHON_VERSION).or_else(stated) else { return };
    // A version that is older than all that are known is submitted as the oldest of them.
    let mut numbers = spec.spark_version.split('.');
    let takes_2 = matches!((numbers.next(), numbers.next()), (Some("3"), Some("0") | None));
    if version == "2" && !takes_2 {
        subject.refuse(field, "Spark has refused `2` since 3.1: take it out, the image has its Python");
    }
}
