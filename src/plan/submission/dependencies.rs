//! Which jars, files, archives, Python files and packages does an application need?

use crate::api::Dependencies;

/// `spark-submit`'s flags for them, each with the list that it takes, comma-joined.
pub(super) fn lists(deps: &Dependencies) -> [(&'static str, &[String]); 7] {
    [
        ("--jars", &deps.jars),
        ("--packages", &deps.packages),
        ("--exclude-packages", &deps.exclude_packages),
        ("--repositories", &deps.repositories),
        ("--py-files", &deps.py_files),
        ("--files", &deps.files),
        ("--archives", &deps.archives),
    ]
}
