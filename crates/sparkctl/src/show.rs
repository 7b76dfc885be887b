//! Formats and prints the output: columns and ages as in kubectl, colours for states only, and on a terminal only.

use super::{
    cluster::Kind,
    failure::of_output,
    yaml::{self, line},
};
use api::{DriverInfo, State};
use clap::ValueEnum;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use serde_json::Value;
use spark_operator_client::summary::Tone;
pub(super) use spark_operator_client::summary::{
    batch_scheduler, executors, short, state_and_why, state_name as name,
};
use std::{
    env,
    io::{self, IsTerminal, Write},
};
use tabwriter::TabWriter;

/// What a column without a value shows, as in kubectl.
pub(super) const NONE: &str = "<none>";

/// In which form objects are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// The table or text for people, a table with more columns
    Wide,
    /// All fields, as the cluster stores them
    Json,
    Yaml,
    /// KIND/NAME on one line each, as kubectl accepts it
    Name,
}

/// How text is formatted, and the time from which ages count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub now: Timestamp,
    /// Whether states have colours.
    pub colours: bool,
}

impl Style {
    /// Returns the style for standard output, at the present time.
    pub(super) fn of_stdout() -> Self {
        // https://no-color.org
        let is_wanted = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { now: now(), colours: is_wanted && io::stdout().is_terminal() }
    }

    /// Returns the time that has passed since `time`, in the largest unit that is not zero, as Kubeflow's sparkctl
    /// writes it.
    pub(super) fn age(self, time: Option<&Time>) -> String {
        time.map_or_else(|| NONE.to_owned(), |time| short(self.now.duration_since(time.0).as_secs()))
    }

    pub(super) fn state(self, state: State) -> String {
        self.coloured(Tone::of(state), name(state))
    }

    /// Returns `text` in the colour of this tone, if states have colours.
    pub(super) fn coloured(self, tone: Tone, text: &str) -> String {
        let colour = match tone {
            Tone::Good => "32",
            Tone::Busy => "36",
            Tone::Bad => "31",
            Tone::Wait => "33",
        };
        if self.colours { format!("\u{1b}[{colour}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// Returns the beginning of the output of a status command: the state `is` of the object `name`, the reason `why`, and
/// those `facts` that have a value.
pub(super) fn status(
    name: &str,
    is: &str,
    why: Option<String>,
    facts: impl IntoIterator<Item = (&'static str, Option<String>)>,
) -> anyhow::Result<String> {
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    let known = facts.into_iter().filter_map(|(what, is)| Some(vec![format!("{what}:"), is?]));
    Ok(format!("{name} is {is}{why}\n\n{}", columns(&known.collect::<Vec<_>>())?))
}

/// Formats rows of cells as text in columns.
pub(super) fn columns(rows: &[Vec<String>]) -> anyhow::Result<String> {
    let mut table = TabWriter::new(Vec::new()).minwidth(0).padding(3).ansi(true);
    for row in rows {
        // A cell has to be one line, so tabs and line breaks in it become spaces.
        let cells: Vec<_> = row.iter().map(|cell| cell.replace(['\t', '\n', '\r'], " ")).collect();
        writeln!(table, "{}", cells.join("\t"))?;
    }
    let bytes = table.into_inner().map_err(|error| anyhow::anyhow!(error.to_string()))?;
    Ok(String::from_utf8(bytes)?)
}

/// Returns the address of an application's web UI: that of its Ingress if it has one, else that inside the cluster.
pub(super) fn ui(driver: &DriverInfo) -> String {
    let address = driver.web_ui_ingress_address.as_ref().or(driver.web_ui_address.as_ref());
    or_none(address)
}

/// Returns untrusted text as one line, or `<none>` for `None`.
pub(super) fn or_none(text: Option<&impl ToString>) -> String {
    text.map_or_else(|| NONE.to_owned(), |text| line(&text.to_string()))
}

/// Returns an object's kind and name in the form that kubectl accepts.
pub(super) fn reference<K: Kind>(object: &impl ResourceExt) -> String {
    format!("{}.{}/{}\n", K::kind(&()).to_lowercase(), K::group(&()), object.name_any())
}

/// Formats an object as JSON or YAML.
pub(super) fn whole(object: &Value, is_json: bool) -> anyhow::Result<String> {
    if is_json { Ok(format!("{}\n", serde_json::to_string_pretty(object)?)) } else { yaml::document(object) }
}

/// Prints `text`.
///
/// # Errors
///
/// [`super::Failure::Unread`] if the reader of standard output has closed it.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    print_bytes(text.as_bytes())
}

/// Prints bytes that need not be text.
///
/// # Errors
///
/// As [`print`].
pub(super) fn print_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    of_output(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

/// Writes a message to standard error. If stderr is closed, the message has no reader, so the failure to write it is
/// ignored.
pub(super) fn complain(text: &str) {
    writeln!(io::stderr(), "{text}").ok();
}

#[expect(clippy::disallowed_methods, reason = "ages are counted up to the time at which the command runs")]
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_do_not_move_columns() {
        let style = Style { now: Timestamp::UNIX_EPOCH, colours: true };
        let row = |state| vec![style.state(state), "x".to_owned()];
        let text = columns(&[row(State::Running), row(State::Completed)]).unwrap();
        assert_eq!(text, "\u{1b}[36mRUNNING\u{1b}[0m     x\n\u{1b}[32mCOMPLETED\u{1b}[0m   x\n");
    }
}
