//! Proves that decisions are pure, that other programs can use the client without the operator's dependencies, and that
//! code and names are in the right place. The Cargo.toml files of the crates say which crate may use which.

use crate::{
    golden::{data, files_below},
    program::printed,
};
use std::{collections::BTreeSet, env, fs, path::PathBuf, process::Command};

const WAITS: &str =
    "waiting is an effect: return a value that says what to do, and let controller/ or webhook/ do it";
const CALLS: &str = "calls are the controller's: it observes before and executes after";
const CLOCK: &str = "time is an argument: the controller reads the clock once, at the top of a reconcile";

/// Words that must not occur in the code of the decision crates ([`PURE`]), each with the reason or the place where such
/// code belongs. Clients, runtimes, logs and flags need no entry, because the crates that provide them are not among the
/// dependencies of the decision crates.
const IMPURE: [(&str, &str); 6] = [
    ("async", WAITS),
    ("await", WAITS),
    ("Instant", CLOCK),
    ("SystemTime", CLOCK),
    ("now()", CLOCK),
    ("new_v4", "randomness cannot be repeated: derive what is to be unique (crates/submission/src/run.rs)"),
];
/// Modules of the standard library that the decision crates must not use, each with the place where such code belongs.
const IMPURE_MODULES: [(&str, &str); 4] = [
    ("net", CALLS),
    ("env", "the environment is read into Settings, once, in settings.rs"),
    ("fs", "files are the controller's: put their contents into the plan"),
    ("process", "processes are the controller's: put the command into the plan"),
];
/// Paths of all code that only decides: the decision crates, and single modules of other crates.
const PURE: [&str; 14] = [
    "crates/api/src", "crates/application-metrics/src", "crates/batch-schedulers/src",
    "crates/certificates/src/renewal.rs", "crates/connect/src", "crates/cron/src",
    "crates/leader-election/src/lease.rs", "crates/plan/src", "crates/pod-customization/src",
    "crates/pods/src", "crates/schedules/src", "crates/spark-client/src", "crates/submission/src",
    "crates/validation/src",
];

/// Packages of decisions whose dependency trees together contain all other decision crates.
const DECISIONS: [&str; 4] = [
    "spark-operator-application-metrics", "spark-operator-batch-schedulers", "spark-operator-connect",
    "spark-operator-schedules",
];
/// Crates that must not be in the dependency trees of [`DECISIONS`], by their names in `cargo tree`.
const NOT_FOR_DECISIONS: [&str; 7] =
    ["clap", "hyper", "kube-client", "kube-runtime", "rustls", "tokio", "tracing"];
/// Maximum number of crates in the dependency tree of each of [`DECISIONS`], itself included; 77 in that of `plan` when
/// this was written.
const MOST_CRATES_OF_DECISIONS: usize = 81;

/// Prefixes of keys of labels, annotations and Spark's configuration, each after the quote that opens a string literal.
const KEYS: [&str; 4] =
    ["\"sparkoperator.k8s.io/", "\"spark.kubernetes.", "\"spark.driver.", "\"spark.executor."];
/// The modules whose files alone may contain the prefixes of [`KEYS`]: one for all crates, and one for the crate that
/// does the work of Spark's submission client.
const NAMES: [&str; 2] = ["crates/api/src/names", "crates/spark-client/src/submit_conf"];

/// The call that only the validation may make, and the folder of the validation.
const VOUCHED: (&str, &str) = ("Validated::vouched", "crates/validation/src");

/// Folders of the core, which mentions no extension by name: it calls all of them through the trait in
/// [`EXTENSION_TRAIT`].
const CORE: [&str; 7] = [
    "crates/application-metrics/src", "crates/controller/src", "crates/plan/src", "crates/pods/src",
    "crates/schedules/src", "crates/submission/src", "crates/validation/src",
];
const EXTENSION_TRAIT: &str = "crates/plan/src/extension.rs";
/// Words that only the code of extensions may contain: the names of their crates, and of what they are about.
const OF_EXTENSIONS: [&str; 8] =
    ["batch_schedulers", "gang", "Gang", "PodGroup", "placeholder", "Placeholder", "volcano", "yunikorn"];

/// Crates that must not be in the dependency tree of `client`. Other large crates are not listed, because kube's client
/// consists of them.
const NOT_FOR_OTHER_PROGRAMS: [&str; 9] = [
    "axum", "clap", "kube-runtime", "mimalloc", "procfs", "prometheus-client", "rcgen", "tracing-subscriber",
    "uuid",
];
/// Maximum number of crates in the dependency tree of `client`, itself included. There were 128 when this was written,
/// less than half of the crates of both programs.
const MOST_CRATES_OF_CLIENT: usize = 135;

/// Maximum number of lines of a source file. A longer file usually contains two subjects.
const LONGEST_FILE: usize = 500;

#[test]
fn every_source_file_keeps_the_rules() {
    let files: Vec<_> = sources().into_iter().flat_map(|(_, files)| files).collect();
    assert!(files.len() > 50, "only {} files were checked", files.len());
    let of_file = |file: PathBuf| violations(file.to_str().unwrap(), &fs::read_to_string(&file).unwrap());
    let found: Vec<_> = files.into_iter().flat_map(of_file).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// If two constants had the same key, a correction could miss one of them.
#[test]
fn no_key_is_written_twice() {
    let mut keys = BTreeSet::new();
    for file in sources().into_iter().flat_map(|(_, files)| files) {
        if !NAMES.iter().any(|module| file.to_str().unwrap().starts_with(module)) {
            continue;
        }
        for (number, line) in code(&fs::read_to_string(&file).unwrap()) {
            let texts = line.split('"').skip(1).step_by(2);
            for key in texts.filter(|text| KEYS.iter().any(|prefix| text.starts_with(&prefix[1..]))) {
                assert!(keys.insert(key.to_owned()), "{}:{number}: `{key}` once more", file.display());
            }
        }
    }
    assert!(keys.len() > 50, "only {} keys", keys.len());
}

/// Returns the `src` folder of each crate, with all Rust files below it.
pub(crate) fn sources() -> Vec<(PathBuf, Vec<PathBuf>)> {
    let with_files = |source: PathBuf| {
        let mut files = files_below(&source);
        files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
        (source, files)
    };
    let crates = fs::read_dir("crates").unwrap().map(|entry| entry.unwrap().path().join("src"));
    crates.chain([PathBuf::from("src")]).map(with_files).collect()
}

#[test]
fn decisions_have_no_client_no_runtime_no_log_and_no_flags() {
    for package in DECISIONS {
        needs_few(package, &NOT_FOR_DECISIONS, MOST_CRATES_OF_DECISIONS);
    }
}

#[test]
fn other_programs_need_no_more_than_a_client() {
    needs_few("spark-operator-client", &NOT_FOR_OTHER_PROGRAMS, MOST_CRATES_OF_CLIENT);
}

/// Asserts that the dependency tree of `package` contains none of the crates `without`, and at most `most` crates.
fn needs_few(package: &str, without: &[&str], most: usize) {
    let crates = tree(&[&format!("--package={package}")]);
    for &name in without {
        let how = format!("cargo tree --package {package} --edges normal --invert {name}");
        assert!(!crates.contains(name), "{name} is in the tree of {package}: {how}");
    }
    assert!(crates.len() <= most, "{package} is {} crates", crates.len());
}

/// Returns the names of all crates that `cargo tree` lists with these arguments. Dependencies that only tests or build
/// scripts need are left out.
fn tree(arguments: &[&str]) -> BTreeSet<String> {
    let all = ["tree", "--edges=normal", "--prefix=none", "--no-dedupe", "--format={p}"];
    let lines = cargo(&[&all[..], arguments].concat());
    lines.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// Returns the output of cargo for this package, without use of the network.
pub(crate) fn cargo(arguments: &[&str]) -> String {
    let cargo = env::var_os("CARGO").expect("tests are run by cargo");
    printed(Command::new(cargo).args(arguments).args(["--locked", "--offline"]).output().unwrap())
}

#[test]
fn a_planted_violation_is_found_and_an_innocent_file_is_not() {
    let text = fs::read_to_string(data("violations.json")).unwrap();
    let mut planted: Vec<[String; 3]> = serde_json::from_str(&text).unwrap();
    planted.push(["src/a.rs".to_owned(), "\n".repeat(LONGEST_FILE), "src/a.rs:501: ".to_owned()]);
    for [file, code, expected] in planted {
        let found = violations(&file, &format!("//! A file.\n{code}"));
        assert!(found.len() == 1 && found[0].contains(&expected), "{code}: {found:?}");
    }
    assert!(violations("src/a.rs", "// No header.\n")[0].contains("src/a.rs:1: does not begin"));

    let innocent = "//! async in a header.\nuse api::{names::{conf, env}, Role};\nuse std::{fmt, time::Duration};\n\
        // std::fs\nlet asynchronous = known(now, \"env\");\n/// `\"spark.driver.memory\"`\nfn f<'a>() {}\n\
        #[cfg(test)]\nmod tests { const KEY: &str = \"spark.driver.memory\"; }\n";
    assert_eq!(violations("crates/plan/src/a.rs", innocent), Vec::<String>::new());
}

/// Returns a message for each violation of a rule in `text`, the content of the file `name`. The message has the line
/// (1 for a rule about the whole file), what is wrong, and the reason or the place where the code belongs.
fn violations(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut report = |line: usize, what: &str| found.push(format!("{name}:{line}: {what}"));
    if !text.starts_with("//!") {
        report(1, "does not begin with `//!`: say in one sentence what this file does");
    }
    if text.lines().count() > LONGEST_FILE {
        report(LONGEST_FILE + 1, "the file is too long: it usually hides two nouns, split it by them");
    }
    let code: Vec<_> = code(text).collect();
    for (number, line) in &code {
        if !NAMES.iter().any(|module| name.starts_with(module)) {
            for key in KEYS.iter().filter(|key| line.contains(*key)) {
                report(*number, &format!("`{key}…`: keys are written once, in {}.rs", NAMES.join(".rs or ")));
            }
        }
        if line.contains(VOUCHED.0) && !name.starts_with(VOUCHED.1) {
            report(
                *number,
                &format!("`{}`: only {} may call it, after it has found no mistake", VOUCHED.0, VOUCHED.1),
            );
        }
        if CORE.iter().any(|folder| name.starts_with(folder)) {
            for word in OF_EXTENSIONS.iter().filter(|word| says(line, word)) {
                report(
                    *number,
                    &format!(
                        "`{word}`: the core mentions no extension: it calls all through {EXTENSION_TRAIT}"
                    ),
                );
            }
        }
        if is_pure(name) {
            for (what, why) in IMPURE.iter().filter(|(what, _)| says(line, what)) {
                report(*number, &format!("`{what}`: {why}"));
            }
        }
    }
    if is_pure(name) {
        let code = code.iter().map(|(_, line)| *line).collect::<Vec<_>>().join("\n");
        for (module, why) in IMPURE_MODULES {
            // Also finds the module in an import of several items in braces.
            let mut imported = code.split("use std::").skip(1).filter_map(|rest| rest.split(';').next());
            if says(&code, &format!("std::{module}")) || imported.any(|items| says(items, module)) {
                report(1, &format!("`std::{module}`: {why}"));
            }
        }
    }
    found
}

/// Returns the lines of `text`, with their numbers, without unit tests and lines of comment.
pub(crate) fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let without_tests = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    (1..).zip(without_tests.lines()).filter(|(_, line)| !line.trim_start().starts_with("//"))
}

fn is_pure(name: &str) -> bool {
    PURE.iter().any(|folder| name.starts_with(folder))
}

/// Returns whether `code` contains `what` as a word of its own.
fn says(code: &str, what: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_whole =
        |at: usize| !code[..at].ends_with(is_word) && !code[at + what.len()..].starts_with(is_word);
    code.match_indices(what).any(|(at, _)| is_whole(at))
}
