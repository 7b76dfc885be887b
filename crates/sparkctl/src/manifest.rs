//! Reads the applications, schedules and SparkConnects of a manifest, and checks them without a cluster.

use super::{
    cluster::{Kind, NAMESPACE},
    failure::together,
    names::STDIN,
    schema::{self, Faults},
    show::complain,
    yaml,
};
use anyhow::{Context, anyhow, bail};
use api::{ScheduledSparkApplication, SparkApplication, SparkConnect, names::annotation};
use clap::{Args, ValueHint};
use kube::{
    Resource, ResourceExt,
    api::{DynamicObject, ObjectMeta},
};
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::{Error as YamlError, options::DuplicateKeyPolicy};
use std::{
    borrow::Cow,
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::Duration,
};
use validation::{self, Files, Findings, Invalid, Refusal};

/// A placeholder for the suffix that Kubernetes adds to a `generateName`, of the same length.
const RANDOM: &str = "xxxxx";
/// A placeholder for the uid that only the cluster assigns: an owner needs a uid.
const NO_UID: &str = "00000000-0000-0000-0000-000000000000";

/// The flags that name the manifest; either of them is required.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct Manifest {
    /// The file with applications, schedules and SparkConnects, or - for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,

    /// The same, as a flag like that of kubectl
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    filename: Option<PathBuf>,
}

impl Manifest {
    pub(super) fn file(&self) -> &Path {
        self.file.as_ref().or(self.filename.as_ref()).map_or(Path::new(STDIN), PathBuf::as_path)
    }
}

/// An object of a manifest.
pub(super) struct Found {
    /// The object as it is written.
    pub object: Value,
    pub subject: Subject,
    /// The kind and the name of the object in the manifest.
    pub title: String,
    /// The heading of the rendered text: the subject's kind, namespace and name.
    pub heading: String,
    /// The subject's namespace.
    pub namespace: String,
    /// Whether the subject has a uid from the cluster.
    pub has_uid: bool,
    /// A remark on the part of the subject's name that only the cluster knows.
    pub remark: Option<&'static str>,
    findings: Findings,
}

/// The object for which the operator creates other objects, with a name and a namespace.
pub(super) enum Subject {
    /// The application, or one that the schedule creates.
    Application(Box<SparkApplication>),
    Connect(Box<SparkConnect>),
}

impl Subject {
    /// Returns the metadata and the kind.
    fn metadata(&mut self) -> (&mut ObjectMeta, Cow<'static, str>) {
        match self {
            Self::Application(application) => (&mut application.metadata, SparkApplication::kind(&())),
            Self::Connect(connect) => (&mut connect.metadata, SparkConnect::kind(&())),
        }
    }
}

/// Which checks are made of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checks {
    /// All checks of the API server and of admission.
    All,
    /// All these checks, except which fields exist: the API server checks that itself, against its own definition.
    BeforeCreation,
    /// All these checks, but unknown fields are warnings, since the API server drops them, and apiVersion may be
    /// missing: for an object of the cluster, or one that is treated as such.
    AsStored,
}

/// Returns the objects of the operator's kinds in `file`, or on standard input for `-`.
///
/// # Errors
///
/// When the text is not YAML or contains no such object; for each object, when it cannot be read.
pub(super) fn of_file(
    file: &Path,
    namespace: Option<&str>,
    checks: Checks,
) -> anyhow::Result<Vec<anyhow::Result<Found>>> {
    let shown = || file.display().to_string();
    let found = of_text(&contents(file)?, namespace, checks).with_context(shown)?;
    Ok(found.into_iter().map(|found| found.with_context(shown)).collect())
}

/// Returns the values of all results.
///
/// # Errors
///
/// If there are any errors: all of them, one line each.
pub(super) fn all<T>(results: impl Iterator<Item = anyhow::Result<T>>) -> anyhow::Result<Vec<T>> {
    let mut good = Vec::new();
    together(results.map(|result| result.map(|result| good.push(result))).collect()).map(|()| good)
}

fn contents(file: &Path) -> anyhow::Result<String> {
    if file == Path::new(STDIN) {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(text);
    }
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// Returns the objects of the operator's kinds in `text`; other objects are skipped.
///
/// # Errors
///
/// When the text is not YAML or contains no such object; for each object, when it cannot be read.
fn of_text(
    text: &str,
    namespace: Option<&str>,
    checks: Checks,
) -> anyhow::Result<Vec<anyhow::Result<Found>>> {
    // YAML is read as kubectl does: 0644 is an octal number, such as a file mode.
    let parsed = |text: &str, duplicate_keys| {
        let options = serde_saphyr::options! { legacy_octal_numbers: true, with_snippet: false, duplicate_keys: duplicate_keys };
        serde_saphyr::from_multiple_with_options(text, options)
    };
    let (mut quoted, mut keys_are_unique) = (text.to_owned(), true);
    let documents: Vec<Value> = loop {
        let policy = if keys_are_unique { DuplicateKeyPolicy::Error } else { DuplicateKeyPolicy::LastWins };
        match parsed(&quoted, policy) {
            Err(YamlError::DuplicateMappingKey { key: Some(key), location }) if keys_are_unique => {
                complain(&format!("Warning: {}", duplicate_key(text, &key, location.line())));
                keys_are_unique = false;
            }
            Err(error) => match with_quotes(&quoted, &error) {
                Some(text) => quoted = text,
                None => bail!("not YAML: {error}"),
            },
            Ok(documents) => break documents,
        }
    };
    let objects: Vec<_> = documents.iter().flat_map(items).filter(|object| !object.is_null()).collect();
    let read: Vec<_> = objects.iter().map(|object| of_item(object, namespace, checks)).collect();
    let others: Vec<_> = objects
        .iter()
        .zip(&read)
        .filter(|(_, read)| read.is_none())
        .map(|(object, _)| named(object))
        .collect();
    if others.len() == read.len() {
        let found = if others.is_empty() { String::new() } else { format!(", but {}", others.join(", ")) };
        bail!("no SparkApplication in it{found}");
    }
    if checks == Checks::BeforeCreation && !others.is_empty() {
        complain(&format!(
            "Warning: objects of other kinds than the operator's are not created: {}",
            others.join(", ")
        ));
    }
    Ok(read.into_iter().flatten().collect())
}

/// Whether the mistake `invalid` only follows from a mistake that the schema check has found in the field `fault`: it
/// is of the same field, of a list or an object that contains the field, or of a volume mount whose volume could not be
/// read. The sections of a spec (`is_section`) contain other fields, so their mistakes are their own.
fn is_echo(fault: &str, invalid: &Invalid) -> bool {
    let Invalid { field, why } = invalid;
    let is_section =
        ["spec", "template", "driver", "executor", "server"].iter().any(|name| field.ends_with(name));
    let is_unread = why.contains("which is not in");
    match fault.strip_prefix(field.as_str()) {
        Some("") => true,
        Some(rest) => rest.starts_with(['.', '[']) && !is_section,
        None => fault.contains(".volumes[") && field.contains(".volumeMounts") && is_unread,
    }
}

/// Returns the text with quotation marks around the number that caused `error`, if it is too large for a number:
/// kubectl takes it for a string, and an abbreviated commit hash may have this form (`12e4567`).
fn with_quotes(text: &str, error: &YamlError) -> Option<String> {
    let YamlError::NonFiniteFloat { value, location } = error else { return None };
    let [line, column] = [location.line(), location.column()].map(|number| usize::try_from(number).ok());
    let begin: usize = text.split_inclusive('\n').take(line?.checked_sub(1)?).map(str::len).sum();
    let (offset, _) = text.get(begin..)?.char_indices().nth(column?.checked_sub(1)?)?;
    let (before, after) = text.split_at(begin + offset);
    let rest =
        after.strip_prefix(value.as_str()).filter(|_| value.starts_with(|c: char| c.is_ascii_digit()))?;
    Some([before, "\"", value, "\"", rest].concat())
}

/// Returns a warning about a key that a mapping has for the second time in `line`.
fn duplicate_key(text: &str, key: &str, line: u64) -> String {
    let lines: Vec<_> = text.lines().take(usize::try_from(line).unwrap_or(usize::MAX)).collect();
    // The column in which a line's key begins, after the dashes of lists, and the key.
    let read = |line: &str| {
        let rest = line.trim_start_matches(['-', ' ']);
        let key = rest.split(':').next().unwrap_or_default().trim_matches(['"', '\'', ' ']);
        (line.len() - rest.len(), key.to_owned())
    };
    let (mut column, _) = read(lines.last().copied().unwrap_or_default());
    let mut path = vec![key.to_owned()];
    let mut first = None;
    let above = lines.iter().enumerate().rev().skip(1);
    for (i, line) in above.take_while(|(_, line)| !line.starts_with("---")) {
        let (at, name) = read(line);
        if name.is_empty() || name.starts_with('#') {
            continue;
        }
        if path.len() == 1 && at == column && name == key {
            first.get_or_insert(i + 1);
        }
        if at < column {
            path.push(name);
        }
        if at <= column {
            // The key of a list may have the same indentation as its dashes.
            let indentation = line.len() - line.trim_start().len();
            column = if indentation < at { indentation + 1 } else { at };
        }
    }
    path.reverse();
    let first = first.map_or_else(String::new, |first| format!(" in line {first} and"));
    format!("{} is given twice,{first} in line {line}: the last one counts, as for kubectl", path.join("."))
}

/// Returns the kind and name of an object of another kind, for messages.
fn named(object: &Value) -> String {
    let text = |value: &Value| value.as_str().map(yaml::line);
    let kind = text(&object["kind"]).unwrap_or_else(|| "an object without a kind".to_owned());
    text(&object["metadata"]["name"]).map_or_else(|| kind.clone(), |name| format!("{kind} {name}"))
}

/// Reads an application that is not from a file.
///
/// # Errors
///
/// When the application cannot be read.
pub(super) fn of_object(object: &Value) -> anyhow::Result<Found> {
    of_item(object, None, Checks::AsStored).context("no SparkApplication")?
}

fn of_item(object: &Value, namespace: Option<&str>, checks: Checks) -> Option<anyhow::Result<Found>> {
    let kind = object["kind"].as_str()?;
    let kinds = [
        reader::<SparkApplication>(of_application),
        reader::<ScheduledSparkApplication>(of_schedule),
        reader::<SparkConnect>(of_connect),
    ];
    let Some(reader) = kinds.iter().find(|known| known.kind == kind) else {
        let is_ours = kinds.iter().any(|known| object["apiVersion"] == *known.version);
        let all: Vec<_> = kinds.iter().map(|known| &*known.kind).collect();
        let refused = anyhow!("{}: kind: is not known: write one of {}", named(object), all.join(", "));
        return is_ours.then_some(Err(refused));
    };
    let name = |field: &str| object["metadata"][field].as_str();
    let title = format!("{kind} {}", name("name").or(name("generateName")).unwrap_or("without a name"));
    Some(found(object, &title, namespace, checks, reader).context(title))
}

/// How the objects of a kind are read.
struct Reader {
    kind: Cow<'static, str>,
    version: Cow<'static, str>,
    read: fn(&Value, Files) -> anyhow::Result<Read>,
}

fn reader<K: Kind>(read: fn(&Value, Files) -> anyhow::Result<Read>) -> Reader {
    Reader { kind: K::kind(&()), version: K::api_version(&()), read }
}

/// Returns an object's kind and name for messages.
pub(super) fn title(object: &DynamicObject) -> String {
    format!("{} {}", kind(object), object.name_any())
}

pub(super) fn kind(object: &DynamicObject) -> &str {
    object.types.as_ref().map_or("", |types| &types.kind)
}

/// Returns where an application or a schedule contains the spec of an application: as text for messages, and as a JSON
/// pointer.
pub(super) fn place_of_spec(object: &DynamicObject) -> (&'static str, &'static str) {
    let is_schedule = kind(object) == ScheduledSparkApplication::kind(&());
    if is_schedule { ("spec.template", "/spec/template") } else { ("spec", "/spec") }
}

/// Returns the objects in a document: `kubectl get` prints several objects as one List.
fn items(document: &Value) -> Vec<&Value> {
    let items = document["items"].as_array();
    let is_list = document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    items.filter(|_| is_list).map_or_else(|| vec![document], |items| items.iter().collect())
}

/// The result of reading one object of a manifest: its subject, the errors and warnings found in it, and a sentence for the
/// user if only the cluster can complete its name (`generateName`, the name of a schedule's run).
type Read = (Subject, Findings, Option<&'static str>);

fn of_application(object: &Value, files: Files) -> anyhow::Result<Read> {
    let mut application = SparkApplication::deserialize(object)?;
    let findings = validation::examine(&application, files);
    let remark = complete(&mut application.metadata);
    Ok((Subject::Application(application.into()), findings, remark))
}

fn of_connect(object: &Value, _: Files) -> anyhow::Result<Read> {
    let mut connect = SparkConnect::deserialize(object)?;
    let findings = connect::examine(&connect);
    let remark = complete(&mut connect.metadata);
    Ok((Subject::Connect(connect.into()), findings, remark))
}

/// Completes a name that the API server would complete. Returns a remark on it.
fn complete(metadata: &mut ObjectMeta) -> Option<&'static str> {
    let ObjectMeta { name, generate_name, .. } = metadata;
    let begin = generate_name.as_ref().filter(|_| name.as_deref().is_none_or(str::is_empty))?;
    *name = Some(format!("{begin}{RANDOM}"));
    Some("The cluster replaces the xxxxx in its name.")
}

fn of_schedule(object: &Value, files: Files) -> anyhow::Result<Read> {
    let schedule = ScheduledSparkApplication::deserialize(object)?;
    let findings = validation::examine_schedule(&schedule, None, Duration::ZERO, files);
    let remark = "The schedule creates this application; the time replaces the zeros in its name.";
    let run = validation::shortest_named_run(&schedule);
    Ok((Subject::Application(run.into()), findings, Some(remark)))
}

fn found(
    object: &Value,
    title: &str,
    namespace: Option<&str>,
    checks: Checks,
    Reader { version, read, .. }: &Reader,
) -> anyhow::Result<Found> {
    if let Some(other) = object["apiVersion"].as_str().filter(|found| found != version) {
        bail!("apiVersion: `{other}` is not known: write `{version}`");
    }
    let Faults { wrong: mut faults, mut unknown } = schema::faults(object);
    match checks {
        Checks::All => faults.append(&mut unknown),
        Checks::BeforeCreation => unknown.clear(),
        Checks::AsStored => {}
    }
    if checks != Checks::AsStored && object["apiVersion"].is_null() {
        bail!("apiVersion: is missing: write `{version}`");
    }
    // `create` uploads files, or says why it does not.
    let files = if checks == Checks::BeforeCreation { Files::AreUploaded } else { Files::Stay };
    let read = read(object, files).map_err(|error| match &*faults {
        [] => error,
        faults => Refusal(faults.to_owned()).into(),
    });
    let (mut subject, mut findings, remark) = read?;
    // A mistake that both the schema and the operator's own checks find in a field is reported once.
    findings.invalid.retain(|invalid| !faults.iter().any(|fault| is_echo(&fault.field, invalid)));
    findings.invalid.splice(..0, faults);
    findings.warnings.extend(unknown.iter().map(ToString::to_string));
    let (ObjectMeta { name, namespace: given, uid, .. }, subjects_kind) = subject.metadata();
    if uid.as_deref().is_none_or(str::is_empty) {
        *uid = Some(NO_UID.to_owned());
    }
    match (given.as_deref().filter(|given| !given.is_empty()), namespace) {
        (Some(given), Some(other)) if given != other => {
            bail!("metadata.namespace: is `{given}`, and --namespace is `{other}`: leave one of them out");
        }
        (Some(_), _) => {}
        (None, other) => *given = Some(other.unwrap_or(NAMESPACE).to_owned()),
    }
    let has_uid = uid.as_deref().is_some_and(is_known);
    let (name, namespace) = (name.clone().unwrap_or_default(), given.clone().unwrap_or_default());
    let heading = yaml::printable(&format!("{subjects_kind} {namespace}/{name}"));
    let (object, title) = (object.clone(), title.to_owned());
    Ok(Found { object, subject, title, heading, namespace, has_uid, remark, findings })
}

impl Found {
    /// Checks that the object has no mistakes. Warnings are written to stderr, as kubectl does.
    ///
    /// # Errors
    ///
    /// All mistakes in the object.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let Findings { invalid, warnings, .. } = &self.findings;
        for warning in warnings {
            complain(&format!("Warning: {}: {warning}", self.title));
        }
        if invalid.is_empty() {
            return Ok(());
        }
        let what = match self.subject {
            Subject::Application(_) => "submitted",
            Subject::Connect(_) => "served",
        };
        Err(Refusal(invalid.clone())).with_context(|| format!("{} cannot be {what}", self.title))
    }

    /// Returns a copy of `object`, one of the objects that are created for the subject. If the subject has no uid yet,
    /// the copy lacks the annotation from which the webhook would create the owner reference.
    pub(super) fn known(&self, object: &Value) -> Value {
        let mut object = object.clone();
        let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
        if let Some(annotations) = annotations.filter(|_| !self.has_uid) {
            annotations.remove(annotation::OWNER_REFERENCE);
        }
        object
    }
}

/// Whether `uid` is a real uid and not [`NO_UID`].
fn is_known(uid: &str) -> bool {
    uid != NO_UID
}

/// Returns `object` without references to owners whose uid is not known: the API server refuses such an object, or
/// deletes it.
pub(super) fn without_unknown_owners(mut object: Value) -> Value {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return object };
    if let Some(owners) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) {
        owners.retain(|owner| owner["uid"].as_str().is_some_and(is_known));
        if owners.is_empty() {
            metadata.remove("ownerReferences");
        }
    }
    object
}
