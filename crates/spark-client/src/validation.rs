//! Validates the command line of a submission: the checks that `spark-submit` makes first.

use super::{
    conf::{Conf, int},
    input::{Kind, NO_RESOURCE, Submission},
    line::Line,
    not_native::{NotNative, Reason},
    submit_conf, uri,
};
use api::{Role, names::conf};

/// The primary resources with which Spark's shells are submitted.
const SHELLS: [&str; 3] = ["spark-shell", "pyspark-shell", "sparkr-shell"];
/// The primary resource of Spark Connect's shell, and the first release line that knows it: older lines look for a file
/// of that name.
const CONNECT_SHELL: (&str, Line) = ("connect-shell", Line::V4_0);
/// The main classes of Spark's own servers and SQL shell, which `spark-submit` refuses in cluster mode.
const SERVERS: [&str; 3] = [
    "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2",
    "org.apache.spark.sql.hive.thriftserver.SparkSQLCLIDriver",
    "org.apache.spark.sql.connect.service.SparkConnectServer",
];
/// The oldest release line that no longer requires `3` in `spark.kubernetes.pyspark.pythonVersion`.
const ANY_PYTHON: Line = Line::V4_1;

/// Checks the arguments and properties of the command line.
pub(super) fn check(submission: &Submission, conf: &Conf) -> Result<(), NotNative> {
    java_options(conf)?;
    amounts(conf)?;
    if conf.has(submit_conf::REMOTE) {
        let problem = "Remote cannot be specified with master and/or deploy mode";
        return Err(NotNative::refused(submit_conf::REMOTE, problem));
    }
    if submission.proxy_user.is_some() && conf.has(submit_conf::PRINCIPAL) {
        let problem = "only one of --proxy-user and --principal can be provided";
        return Err(NotNative::refused(submit_conf::PRINCIPAL, problem));
    }
    program(submission)?;
    conf.boolean(conf::WAIT_APP_COMPLETION)?;
    if submission.kind() == Kind::Python && submission.line < ANY_PYTHON {
        conf.option(conf::PYTHON_VERSION, &["3"])?;
    }
    Ok(())
}

/// Refuses `-Xmx` in the driver's Java options. This is a rule of Spark's launcher: the heap has a property of its own.
fn java_options(conf: &Conf) -> Result<(), NotNative> {
    for suffix in [conf::EXTRA_JAVA_OPTIONS, submit_conf::DEFAULT_JAVA_OPTIONS] {
        let key = conf::spark(Role::Driver, suffix);
        let options = conf.raw(&key).unwrap_or_default();
        if options.split_whitespace().any(|option| option.trim_matches(['"', '\'']).starts_with("-Xmx")) {
            let memory = conf::spark(Role::Driver, conf::MEMORY);
            let problem = format!("is not allowed to set the heap with -Xmx (was {options}): use {memory}");
            return Err(NotNative::refused(&key, problem));
        }
    }
    Ok(())
}

/// Checks memory, cores and the number of executors. The values are checked as they are written, without replacing
/// `${…}`.
fn amounts(conf: &Conf) -> Result<(), NotNative> {
    let positive_memory = |text: &str| conf.1.bytes(text).is_some_and(|bytes| bytes > 0);
    let positive = |text: &str| int(text).is_some_and(|number| number > 0);
    let is_dynamic = conf.raw(conf::DYNAMIC_ALLOCATION).is_some_and(|text| text.eq_ignore_ascii_case("true"));
    let check = |key: &str, is_good: &dyn Fn(&str) -> bool| match conf.raw(key) {
        Some(text) if !is_good(text) => {
            Err(NotNative::refused(key, format_args!("must be a positive number, but is `{text}`")))
        }
        _ => Ok(()),
    };
    for role in Role::ALL {
        check(&conf::spark(role, conf::MEMORY), &positive_memory)?;
        check(&conf::spark(role, conf::CORES), &positive)?;
    }
    if is_dynamic { Ok(()) } else { check(conf::EXECUTOR_INSTANCES, &positive) }
}

fn program(submission: &Submission) -> Result<(), NotNative> {
    let (program, class) = (submission.primary_resource.as_str(), submission.main_class.as_deref());
    let refused = |what: &str, problem| Err(NotNative::refused(what, problem));
    let is_connect_shell = program == CONNECT_SHELL.0 && submission.line >= CONNECT_SHELL.1;
    if SHELLS.contains(&program) || is_connect_shell {
        return refused(program, "cluster deploy mode is not applicable to Spark shells");
    }
    if let Some(server) = class.filter(|class| SERVERS.contains(class)) {
        let problem = "cluster deploy mode is not applicable to it: name a class of your own that starts it";
        return refused(server, problem);
    }
    if submission.kind() != Kind::Java || class.is_some() {
        return Ok(());
    }
    if program == NO_RESOURCE || uri::parse(program).is_some_and(|uri| uri.scheme == "local") {
        let problem =
            "there is no main class: name one with --class (a file of Python ends in .py, one of R in .R)";
        return refused(program, problem);
    }
    Err(NotNative::fallback(Reason::MainClass, "--class", format!("has to be read from {program}")))
}
