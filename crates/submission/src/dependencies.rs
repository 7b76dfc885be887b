//! Lists the jars, files, archives, Python files and packages that an application needs.

use api::{Dependencies, names::submit_conf};

/// Returns the flags of `spark-submit` for dependencies: for each flag, the property that the flag sets, and the list
/// of values, which have to be joined with commas.
pub(super) fn lists(deps: &Dependencies) -> [(&'static str, &'static str, &[String]); 7] {
    [
        ("--jars", submit_conf::JARS, &deps.jars),
        ("--packages", submit_conf::PACKAGES, &deps.packages),
        ("--exclude-packages", submit_conf::EXCLUDED_PACKAGES, &deps.exclude_packages),
        ("--repositories", submit_conf::REPOSITORIES, &deps.repositories),
        ("--py-files", submit_conf::PY_FILES, &deps.py_files),
        ("--files", submit_conf::FILES, &deps.files),
        ("--archives", submit_conf::ARCHIVES, &deps.archives),
    ]
}
