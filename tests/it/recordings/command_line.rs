//! Determines the submission that a recorded command line describes. Reimplements Spark's launcher and
//! `SparkSubmitArguments` as far as they turn flags, files and environment variables into properties.

use super::case::Case;
use crate::prelude::*;
use spark_client::{Environment, Files, Ids, Line, NotNative, Submission, flag_list, read_properties};
use std::sync::LazyLock;

/// Why a command line cannot be turned into a submission.
pub enum Unreadable {
    /// Spark's launcher refuses the command line.
    Syntax(String),
    /// `spark-env.sh` does more than set variables.
    Shell,
    /// The value of a flag is refused by the code of native submission.
    Refused(NotNative),
}

const LISTS: [&str; 4] = ["--jars", "--files", "--archives", "--py-files"];
/// Flags with a value that is not a property.
const OTHERS: [&str; 9] = [
    "--class", "--conf", "-c", "--properties-file", "--extra-properties-file", "--proxy-user",
    "--total-executor-cores", "--queue", "--remote",
];
/// Flags that older Spark lines do not know.
const NEWER: [(&str, Line); 3] = [
    ("--load-spark-defaults", Line::V4_0),
    ("--driver-default-class-path", Line::V4_0),
    ("--extra-properties-file", Line::V4_2),
];
const SWITCHES: [&str; 4] = ["--verbose", "-v", "--supervise", "--load-spark-defaults"];

type Properties = BTreeMap<String, String>;

/// The property of each flag and variable.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Tables {
    like_conf: Properties,
    flags: Properties,
    variables: Properties,
}

static TABLES: LazyLock<Tables> =
    LazyLock::new(|| crate::golden::yaml(&data("recordings/command-line.yaml")));

/// The tokens of a command line, sorted by their meaning.
#[derive(Default)]
struct CommandLine {
    conf: Properties,
    flags: Properties,
    main_class: Option<String>,
    proxy_user: Option<String>,
    properties_file: Option<String>,
    extra_files: Vec<String>,
    load_defaults: bool,
    primary: String,
    arguments: Vec<String>,
}

pub fn submission(case: &Case, ids: Ids) -> Result<Submission, Unreadable> {
    let (line, _) = Line::nearest(&case.spark_version);
    let command = read(case, line)?;
    let mut variables = case.env.clone();
    variables.extend(spark_env(case)?);
    let properties = properties(case, &command, &variables);
    let template = |key: &str| properties.get(key).and_then(|path| case.file(path));
    let driver_template = template("spark.kubernetes.driver.podTemplateFile").map(|text| yaml(text, line));
    let executor_template = template("spark.kubernetes.executor.podTemplateFile").map(str::to_owned);
    Ok(Submission {
        line,
        spark_version: case.spark_version.clone(),
        main_class: command.main_class,
        primary_resource: command.primary,
        arguments: command.arguments,
        proxy_user: command.proxy_user,
        driver_template,
        executor_template,
        environment: environment(case, &variables),
        ids,
        now: jiff::Timestamp::from_millisecond(case.submit_time()).unwrap(),
        properties,
    })
}

fn read(case: &Case, line: Line) -> Result<CommandLine, Unreadable> {
    // The shell script `spark-submit` deletes carriage returns.
    let mut tokens = case.command.iter().skip(1).map(|token| token.replace('\r', ""));
    let mut command = CommandLine::default();
    let mut has_program = false;
    while let Some(token) = tokens.next() {
        let (flag, mut value) = match token.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") && !value.is_empty() => {
                (flag, Some(value.to_owned()))
            }
            _ => (token.as_str(), None),
        };
        let is_known = NEWER.iter().all(|(name, since)| *name != flag || line >= *since);
        if is_known && SWITCHES.contains(&flag) {
            command.load_defaults |= flag == "--load-spark-defaults";
            continue;
        }
        let is_property = TABLES.flags.contains_key(flag) || TABLES.like_conf.contains_key(flag);
        if !(is_known && (OTHERS.contains(&flag) || is_property)) {
            if flag.starts_with('-') {
                return Err(Unreadable::Syntax(format!("Unrecognized option: {token}")));
            }
            command.primary = token;
            command.arguments = tokens.collect();
            has_program = true;
            break;
        }
        value = value.or_else(|| tokens.next());
        let Some(value) = value else {
            return Err(Unreadable::Syntax(format!("Missing argument for option '{flag}'")));
        };
        take(&mut command, flag, value)?;
    }
    if has_program {
        Ok(command)
    } else {
        Err(Unreadable::Syntax("Missing application resource.".to_owned()))
    }
}

fn take(command: &mut CommandLine, flag: &str, value: String) -> Result<(), Unreadable> {
    match flag {
        "--conf" | "-c" => {
            let Some((key, value)) = value.split_once('=') else {
                return Err(Unreadable::Syntax(format!("Invalid argument to --conf: {value}")));
            };
            command.conf.insert(key.to_owned(), value.to_owned());
        }
        "--class" => command.main_class = Some(value),
        "--proxy-user" => command.proxy_user = Some(value),
        "--properties-file" => command.properties_file = Some(value),
        "--extra-properties-file" => command.extra_files.push(value),
        "--remote" => drop(command.flags.insert("spark.remote".to_owned(), value)),
        // The flag is for other cluster managers, but `spark-submit` checks its value.
        "--total-executor-cores" if value.parse::<i32>().is_ok_and(|cores| cores <= 0) => {
            return Err(Unreadable::Syntax("Total executor cores must be a positive number".to_owned()));
        }
        "--total-executor-cores" | "--queue" => {}
        _ => {
            if let Some(key) = TABLES.like_conf.get(flag) {
                command.conf.insert(key.clone(), value);
            } else if let Some(key) = TABLES.flags.get(flag) {
                let value = match LISTS.contains(&flag) {
                    true => flag_list(key, &value).map_err(Unreadable::Refused)?,
                    false => value,
                };
                command.flags.insert(key.clone(), value);
            }
        }
    }
    Ok(())
}

fn properties(case: &Case, command: &CommandLine, variables: &Properties) -> Properties {
    let mut properties = Properties::new();
    for (name, key) in &TABLES.variables {
        if let Some(value) = variables.get(name) {
            properties.insert(key.clone(), value.clone());
        }
    }
    let file = |path: &str| case.file(path).map(|text| read_properties(text).unwrap()).unwrap_or_default();
    if command.properties_file.is_none() || command.load_defaults {
        properties.extend(file(&format!("{}/spark-defaults.conf", case.conf_dir())));
    }
    properties.extend(command.properties_file.as_deref().map(file).unwrap_or_default());
    properties.extend(command.extra_files.iter().flat_map(|path| file(path)));
    properties.extend(command.conf.clone());
    properties.extend(command.flags.clone());
    properties.retain(|key, _| key.starts_with("spark."));
    properties
}

/// Returns the variables that `spark-env.sh` sets, if the script does nothing else.
fn spark_env(case: &Case) -> Result<Properties, Unreadable> {
    let script = case.file(&format!("{}/spark-env.sh", case.conf_dir())).unwrap_or_default();
    let lines = script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.strip_prefix("export ").unwrap_or(line).split_once('=')?;
            let value = value.trim_matches('"').trim_matches('\'');
            let is_plain = !value.contains(['$', '`', '\\', ';', '&', '|', '(', ' ']) && !name.contains(' ');
            is_plain.then(|| (name.to_owned(), value.to_owned()))
        })
        .collect::<Option<_>>()
        .ok_or(Unreadable::Shell)
}

fn environment(case: &Case, variables: &Properties) -> Environment {
    let variable = |name: &str| variables.get(name).cloned();
    Environment {
        spark_user: variable("SPARK_USER"),
        hadoop_user_name: variable("HADOOP_USER_NAME"),
        // The user that the recorder ran as.
        os_user: "root".to_owned(),
        pyspark_python: variable("PYSPARK_PYTHON"),
        pyspark_driver_python: variable("PYSPARK_DRIVER_PYTHON"),
        spark_local_dirs: variable("SPARK_LOCAL_DIRS"),
        spark_submit_opts: variable("SPARK_SUBMIT_OPTS"),
        hadoop_token_file: variable("HADOOP_TOKEN_FILE_LOCATION"),
        hadoop_conf: variable("HADOOP_CONF_DIR").map(|directory| case.files_in(&directory)),
        spark_conf: case.files_in(&case.conf_dir()),
        files: Files::All(
            case.files.iter().map(|(path, text)| (path.clone(), text.clone().into_bytes())).collect(),
        ),
    }
}

/// Returns a template as the API server would pass it to the operator. A number with leading zeros is octal since Spark
/// 4; before, it was decimal.
fn yaml(text: &str, line: Line) -> Value {
    let is_octal = line >= Line::V4_0;
    let options = serde_saphyr::options! { legacy_octal_numbers: is_octal, strict_booleans: true };
    let text = if is_octal { text.to_owned() } else { without_zeros(text) };
    serde_saphyr::from_str_with_options(&text, options).unwrap_or(Value::Null)
}

/// Returns `text` without leading zeros in values.
fn without_zeros(text: &str) -> String {
    let mut pieces = text.split(": 0");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| {
        let zero = if piece.starts_with(|c: char| c.is_ascii_digit()) { "" } else { "0" };
        format!("{text}: {zero}{piece}")
    })
}
