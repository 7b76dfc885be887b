//! Checks the program, how it is started, and that `spark-submit` does not take `mainApplicationFile` or an argument for one
//! of its own options.
//!
//! `spark-submit` reads options up to the first word that is not an option; this word is `mainApplicationFile`. If an
//! option is given twice, the last one is used. If `mainApplicationFile` were `--master`, the arguments could therefore
//! replace the operator's own options. For a few main classes, Spark's launcher also reads options after
//! `mainApplicationFile` (`SparkSubmitCommandBuilder.specialClasses`, as of Spark 4.0).

use super::Subject;
use api::{DeployMode, Role, SparkPodSpec, conf, stated};
use spark_client::memory;
use submission::RoleField;

/// The main classes for which options of `spark-submit` may follow among the arguments of the program.
const MIXED: [&str; 5] = [
    "org.apache.spark.repl.Main",
    "org.apache.spark.sql.application.ConnectRepl",
    "org.apache.spark.sql.connect.service.SparkConnectServer",
    "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2",
    "org.apache.spark.sql.hive.thriftserver.SparkSQLCLIDriver",
];

/// All options of `spark-submit` (`SparkSubmitOptionParser`), one in each line; the short forms come first.
const OPTIONS: &str = include_str!("options.txt");

/// Refuses a driver that has no pod of its own, and a program that `spark-submit` takes for an option. Warns of a main class that
/// no JVM finds by its name.
pub(super) fn entry_point(subject: &Subject) {
    if subject.spec.mode == DeployMode::Client {
        let why =
            "`client` would run the driver where it is submitted, not in a pod of its own: write `cluster`";
        subject.refuse("mode", why);
    }
    let file = &subject.spec.main_application_file;
    if file.trim_start().starts_with('-') {
        let why = "begins with `-`, so spark-submit would take it for an option: write the URI of a file, such as \
                   local:///opt/app.jar";
        subject.refuse("mainApplicationFile", format_args!("`{file}` {why}"));
    }
    let class = subject.spec.main_class.as_deref().unwrap_or_default();
    if class.contains(|c: char| c == '/' || c.is_whitespace()) {
        let name = class.trim().replace('/', ".");
        subject.warn("mainClass", format_args!("`{class}` is no name of a class: write `{name}`"));
    }
}

/// Refuses Python `2` for Spark 3.1 and later, which accepts only `3`.
pub(super) fn python(subject: &Subject) {
    let spec = &subject.spec;
    let stated = || Some(("pythonVersion".to_owned(), stated(&spec.python_version)?.into()));
    let Some((field, version)) = subject.configured(conf::PYTHON_VERSION).or_else(stated) else { return };
    // A version that is older than all known versions is submitted as the oldest known version.
    let mut numbers = spec.spark_version.split('.');
    let takes_2 = matches!((numbers.next(), numbers.next()), (Some("3"), Some("0") | None));
    if version == "2" && !takes_2 {
        subject.refuse(field, "Spark has refused `2` since 3.1: take it out, the image has its Python");
    }
}

/// Warns of `local://` URIs in which the first folder is at the place of a host.
pub(super) fn local_files(subject: &Subject) {
    let deps = &subject.spec.deps;
    let main = [("mainApplicationFile", &subject.spec.main_application_file)];
    let lists = [("deps.jars", &deps.jars), ("deps.files", &deps.files), ("deps.pyFiles", &deps.py_files)];
    let listed = lists.into_iter().flat_map(|(field, list)| list.iter().map(move |file| (field, file)));
    for (field, file) in main.into_iter().chain(listed) {
        let path = file.strip_prefix("local://").unwrap_or_default();
        if !path.is_empty() && !path.starts_with('/') && !path.starts_with("localhost/") {
            let what = format_args!("has its first folder where a host would be: write `local:///{path}`");
            subject.warn(field, format_args!("`{file}` {what}"));
        }
    }
}

/// Refuses Java options with which Spark's launcher starts no driver, or the driver ends at once
/// (`SparkConf.validateSettings`), and warns of words that are no options.
pub(super) fn java_options(subject: &Subject, role: Role, _: &SparkPodSpec) {
    let Some((field, options)) = subject.given(role, RoleField::JavaOptions) else { return };
    if role == Role::Executor && options.contains("-Dspark") {
        subject.refuse(&field, "Spark allows no `-Dspark…` here: write the setting into sparkConf");
    }
    let memory = subject.field(format_args!("{role}.memory"));
    if options.contains("-Xmx") {
        subject.refuse(&field, format_args!("Spark allows no `-Xmx` here: write {memory}"));
    }
    let heap = subject.given(role, RoleField::Memory).map_or("1g".into(), |(_, heap)| heap);
    let (least, most) = (least_heap(&options), memory::bytes(&heap, false));
    // Spark's image sets the heap of executors after their options, so that it counts.
    if role == Role::Driver && least.zip(most).is_some_and(|(least, most)| least > most) {
        let why = format!("no JVM starts with a heap of `-Xms` that is more than {memory}, `{heap}`");
        subject.refuse(&field, why);
    }
    if let Some(word) = no_option(&options) {
        let what = "is no option, and the JVM takes it for a class: options begin with `-`";
        subject.warn(&field, format_args!("`{word}` {what}"));
    }
}

/// Whether quotes, references or files may hide what the options of a JVM are.
fn is_hidden(options: &str) -> bool {
    options.contains(['"', '\'', '\\', '{', '$', '@'])
}

/// Returns the initial heap in the options of a JVM, in bytes, if it is known for certain.
fn least_heap(options: &str) -> Option<u64> {
    if is_hidden(options) || options.contains("MaxHeapSize") {
        return None;
    }
    let size = options.split_whitespace().filter_map(|word| word.strip_prefix("-Xms")).next_back()?;
    let is_plain = size.bytes().all(|c| c.is_ascii_digit());
    if is_plain { size.parse().ok() } else { memory::bytes(size, false) }
}

/// Returns the first word among the options of a JVM that is certainly no option.
fn no_option(options: &str) -> Option<&str> {
    /// The options of `java` whose value may be the next word, besides those that begin with `--`.
    const WITH_VALUE: [&str; 3] = ["-classpath", "-cp", "-p"];
    if is_hidden(options) {
        return None;
    }
    let mut before = "";
    options.split_ascii_whitespace().find(|word| {
        let before = std::mem::replace(&mut before, word);
        let is_value = WITH_VALUE.contains(&before) || before.starts_with("--") && !before.contains('=');
        !word.starts_with('-') && !is_value
    })
}

pub(super) fn arguments(subject: &Subject) {
    let class = subject.spec.main_class.as_deref().unwrap_or_default();
    for (i, argument) in subject.spec.arguments.iter().enumerate().filter(|_| MIXED.contains(&class)) {
        let name = argument.split_once('=').map_or(argument.as_str(), |(name, _)| name);
        if OPTIONS.lines().any(|option| option == name) {
            let why = format_args!(
                "`{name}` would be taken for an option of spark-submit, which also reads options after \
                 mainApplicationFile if the main class is {class}: write it as a field or into sparkConf"
            );
            subject.refuse(format_args!("arguments[{i}]"), why);
        }
    }
}
