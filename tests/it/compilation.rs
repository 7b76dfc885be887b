//! Compares the crates that the operator is compiled from with a budget, and those of the demo with those of the tests.

use crate::{
    architecture::cargo,
    budget::{Measured, keep},
};
use std::{collections::BTreeSet, path::Path};

/// Returns the crates that `cargo tree` lists, each with its version and features, for the packages and kinds of
/// dependencies that `arguments` select.
fn compiled(arguments: &[&str]) -> BTreeSet<String> {
    let text = cargo(&[&["tree", "--prefix", "none", "--format", "{p} [{f}]"], arguments].concat());
    text.lines().map(|line| line.trim_end_matches(" (*)").replace(" (proc-macro)", "")).collect()
}

/// Without a budget, the operator once took 31 minutes to compile on a machine with an empty cache.
#[test]
fn the_operator_is_compiled_from_no_more_crates_than_its_budget() {
    let crates = compiled(&["--package", "spark-operator", "--edges", "normal,build"]);
    let names: BTreeSet<_> = crates.iter().map(|line| line.split(" [").next().unwrap()).collect();
    #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
    let measured = Measured::from([("crates".to_owned(), names.len() as f64)]);
    keep(Path::new("tests/data/budget.json"), "operator", &measured, |_| 0.0);
}

/// `make demo` builds the operator alone, `make test` the operator and tests: cargo compiles a crate twice if the two
/// need different features of it.
#[test]
fn tests_compile_no_crate_of_the_demo_a_second_time() {
    let for_demo = compiled(&["--workspace", "--edges", "normal,build"]);
    let for_tests = compiled(&["--workspace", "--edges", "normal,build,dev"]);
    let name = |line: &String| line.split(" [").next().unwrap().to_owned();
    let names: BTreeSet<_> = for_demo.iter().map(name).collect();
    let compiled_again: Vec<_> =
        for_tests.difference(&for_demo).filter(|line| names.contains(&name(line))).collect();
    assert!(
        compiled_again.is_empty(),
        "tests need other features of these crates: add them to tests/tools/features/Cargo.toml: {compiled_again:#?}"
    );
}
