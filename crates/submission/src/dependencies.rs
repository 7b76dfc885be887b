//! Lists the jars, files, archives, Python files and packages that an application needs.

use api::{Dependencies, names::submit_conf};

/// Returns the flags of `spark-submit` for dependencies, as far as the application has any: for each flag, the property that the
/// flag sets, the path of the field in the spec, and the list of values, which have to be joined with commas.
pub(super) fn lists(
    deps: &Dependencies,
) -> impl Iterator<Item = (&'static str, &'static str, &'static str, &[String])> {
    let lists: [(_, _, _, &[String]); 7] = [
        ("--jars", submit_conf::JARS, "deps.jars", &deps.jars),
        ("--packages", submit_conf::PACKAGES, "deps.packages", &deps.packages),
        (
            "--exclude-packages",
            submit_conf::EXCLUDED_PACKAGES,
            "deps.excludePackages",
            &deps.exclude_packages,
        ),
        ("--repositories", submit_conf::REPOSITORIES, "deps.repositories", &deps.repositories),
        ("--py-files", submit_conf::PY_FILES, "deps.pyFiles", &deps.py_files),
        ("--files", submit_conf::FILES, "deps.files", &deps.files),
        ("--archives", submit_conf::ARCHIVES, "deps.archives", &deps.archives),
    ];
    lists.into_iter().filter(|(.., list)| !list.is_empty())
}
