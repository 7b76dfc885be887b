//! `sparkctl list`: lists applications or schedules, with their states.

use super::{
    cluster::{Cluster, Kind},
    failure::of_call,
    show::{
        NONE, Output, Style, batch_scheduler, columns, complain, executors, or_none, print, reference, short,
        ui, whole,
    },
};
use api::{Identity, Lenient, ScheduleState, ScheduledSparkApplication, SparkApplication};
use clap::Args;
use kube::{
    Api, ResourceExt,
    api::{ApiResource, ListParams, ObjectList},
};
use plan::takeover;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::fmt::Debug;

#[derive(Debug, Default, Args)]
#[command(after_help = "Example: sparkctl list -A -l team=search -o wide")]
pub(super) struct Flags {
    #[command(flatten)]
    which: Selection,

    /// Only applications whose driver another operator has submitted, and whose executors would lack customizations
    /// under this operator, because they need the other operator's webhook: let them end before you replace that
    /// operator
    #[arg(long, conflicts_with = "output")]
    needs_drain: bool,

    /// List schedules instead of applications
    #[arg(short, long, conflicts_with = "needs_drain")]
    schedule: bool,
}

/// Which objects are listed, and in which form.
#[derive(Debug, Default, Args)]
pub(super) struct Selection {
    /// Those of all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,

    /// Only those with these labels, `KEY=VALUE,…` as for kubectl
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,

    /// The form of the output [default: a table]
    #[arg(short, long, value_name = "FORM")]
    pub output: Option<Output>,
}

impl Selection {
    /// Returns a row of the table: the namespace with --all-namespaces, then `cells`, then `wide` with `-o wide`.
    pub(super) fn row<const N: usize, const WIDE: usize>(
        &self,
        namespace: &str,
        cells: [String; N],
        wide: [String; WIDE],
    ) -> Vec<String> {
        let namespace = self.all_namespaces.then(|| namespace.to_owned());
        let wide = wide.into_iter().filter(|_| self.output == Some(Output::Wide));
        namespace.into_iter().chain(cells).chain(wide).collect()
    }
}

/// The number of objects in one request: the same as kubectl's.
const PAGE: u32 = 500;

type Guarded = Lenient<SparkApplication>;

pub(super) async fn list(cluster: &Cluster, flags: &Flags) -> anyhow::Result<()> {
    let which = &flags.which;
    if flags.schedule {
        let table = |found: &[_], style| schedules(found, which, style);
        return listed::<ScheduledSparkApplication>(cluster, which, "schedules", table).await;
    }
    let what = if flags.needs_drain { "applications that need to be drained" } else { "applications" };
    listed::<SparkApplication>(cluster, which, what, |found, style| table(found, flags, style)).await
}

/// Prints the objects of a kind in the form that the flags select. `what` is the word for the objects in messages.
pub(super) async fn listed<K: Kind>(
    cluster: &Cluster,
    which: &Selection,
    what: &str,
    table: impl FnOnce(&[Lenient<K>], Style) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let Cluster { client, namespace, .. } = cluster;
    if let Some(output @ (Output::Json | Output::Yaml)) = which.output {
        let api = if which.all_namespaces {
            Api::all_with(client.clone(), &ApiResource::erase::<K>(&()))
        } else {
            cluster.whole::<K>()
        };
        let items = all(&api, which.selector.as_deref()).await?;
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        return print(&whole(&list, output == Output::Json)?);
    }
    let api: Api<Lenient<K>> = if which.all_namespaces { Api::all(client.clone()) } else { cluster.api() };
    let found = all(&api, which.selector.as_deref()).await?;
    if which.output == Some(Output::Name) {
        return print(&found.iter().map(reference::<K>).collect::<String>());
    }
    let text = table(&found, Style::of_stdout())?;
    if text.lines().count() > 1 {
        return print(&text);
    }
    let place = if which.all_namespaces { "any namespace" } else { &format!("namespace {namespace}") };
    complain(&format!("No {what} found in {place}."));
    Ok(())
}

/// Returns all objects, read page by page.
async fn all<K: Clone + DeserializeOwned + Debug>(
    api: &Api<K>,
    selector: Option<&str>,
) -> anyhow::Result<Vec<K>> {
    let mut page = ListParams::default().limit(PAGE);
    page.label_selector = selector.map(str::to_owned);
    let mut items = Vec::new();
    loop {
        let ObjectList { metadata, items: more, .. } = api.list(&page).await.map_err(of_call)?;
        items.extend(more);
        match metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(items),
        }
    }
}

/// Returns what the executors of an application would lack under this operator, see [`takeover::lacking`]. Empty if the
/// application cannot be read, because then it is not known.
fn lacking(guarded: &Guarded) -> Vec<String> {
    guarded.0.as_ref().map(takeover::lacking).unwrap_or_default()
}

fn table(applications: &[Guarded], flags: &Flags, style: Style) -> anyhow::Result<String> {
    let row = |namespace: &str, cells: [String; 6], wide: [String; 4], lack: String| {
        let mut row = flags.which.row(namespace, cells, wide);
        row.extend(flags.needs_drain.then_some(lack));
        row
    };
    let mut rows = vec![row(
        "NAMESPACE",
        ["NAME", "STATE", "EXECUTORS", "SUBMITTED", "ENDED", "AGE"].map(str::to_owned),
        ["RUN", "DRIVER", "UI", "SCHEDULER"].map(str::to_owned),
        "EXECUTORS LACK".to_owned(),
    )];
    let wanted = applications.iter().filter(|guarded| !flags.needs_drain || !lacking(guarded).is_empty());
    rows.extend(wanted.map(|guarded| {
        let application = guarded.0.as_ref().ok();
        let status = application.and_then(|application| application.status.as_ref());
        let driver = status.map(|status| &status.driver_info);
        row(
            guarded.own_namespace(),
            [
                guarded.name_any(),
                application
                    .map_or_else(|| "UNREADABLE".to_owned(), |application| style.state(application.state())),
                or_none(application.and_then(executors).as_ref()),
                style.age(status.and_then(|status| status.last_submission_attempt_time.as_ref())),
                style.age(status.and_then(|status| status.termination_time.as_ref())),
                style.age(guarded.creation_timestamp().as_ref()),
            ],
            [
                or_none(status.and_then(|status| status.run_ordinal.as_ref())),
                or_none(driver.and_then(|driver| driver.pod_name.as_ref())),
                driver.map_or_else(|| NONE.to_owned(), ui),
                or_none(application.and_then(batch_scheduler).as_ref()),
            ],
            lacking(guarded).join(", "),
        )
    }));
    columns(&rows)
}

fn schedules(
    schedules: &[Lenient<ScheduledSparkApplication>],
    which: &Selection,
    style: Style,
) -> anyhow::Result<String> {
    let mut rows = vec![which.row(
        "NAMESPACE",
        ["NAME", "SCHEDULE", "SUSPENDED", "STATE", "LAST", "NEXT", "AGE"].map(str::to_owned),
        ["TIME ZONE", "LAST NAME"].map(str::to_owned),
    )];
    rows.extend(schedules.iter().map(|guarded| {
        let spec = guarded.0.as_ref().ok().map(|schedule| &schedule.spec);
        let status = guarded.0.as_ref().ok().and_then(|schedule| schedule.status.as_ref());
        let state = spec.map(|_| status.map(|status| status.schedule_state).unwrap_or_default());
        let is_suspended = spec.map(|spec| spec.suspend == Some(true));
        let next = status.and_then(|status| status.next_run.as_ref()).filter(|_| is_suspended != Some(true));
        which.row(
            guarded.own_namespace(),
            [
                guarded.name_any(),
                or_none(spec.map(|spec| &spec.schedule)),
                or_none(is_suspended.as_ref()),
                state.map_or("UNREADABLE", schedule_state).to_owned(),
                style.age(status.and_then(|status| status.last_run.as_ref())),
                next.map_or_else(
                    || NONE.to_owned(),
                    |next| format!("in {}", short(next.0.duration_since(style.now).as_secs())),
                ),
                style.age(guarded.creation_timestamp().as_ref()),
            ],
            [
                or_none(spec.and_then(|spec| spec.time_zone.as_ref())),
                or_none(status.and_then(|status| status.last_run_name.as_ref())),
            ],
        )
    }));
    columns(&rows)
}

const fn schedule_state(state: ScheduleState) -> &'static str {
    match state {
        ScheduleState::New => "NEW",
        ScheduleState::Validating => "VALIDATING",
        ScheduleState::Scheduled => "SCHEDULED",
        ScheduleState::FailedValidation => "FAILED VALIDATION",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed<T: DeserializeOwned>(kind: &str) -> Vec<T> {
        let all = include_str!("../../../tests/data/ctl/list.json");
        let mut all: serde_json::Value = serde_json::from_str(all).unwrap();
        serde_json::from_value(all[kind].take()).unwrap()
    }

    #[test]
    fn schedules_have_a_last_and_a_next_time() {
        let found = listed("schedules");
        let style = Style { now: "2026-11-21T12:00:00Z".parse().unwrap(), colours: false };
        assert_eq!(
            schedules(&found, &Selection::default(), style).unwrap(),
            include_str!("../../../tests/data/ctl/schedules.txt")
        );
        let which = Selection { all_namespaces: true, output: Some(Output::Wide), selector: None };
        let wide = schedules(&found[..1], &which, style).unwrap();
        assert!(wide.lines().nth(1).unwrap().ends_with("   Europe/Berlin   nightly-1"), "{wide}");
    }

    #[test]
    fn an_application_that_cannot_be_read_is_listed_too() {
        let applications = listed("applications");
        let style = Style { now: "2026-11-21T12:00:00Z".parse().unwrap(), colours: false };
        assert_eq!(
            table(&applications, &Flags::default(), style).unwrap(),
            include_str!("../../../tests/data/ctl/applications.txt")
        );
        let which = Selection { all_namespaces: true, output: Some(Output::Wide), selector: None };
        let flags = Flags { which, ..Flags::default() };
        let wide = table(&applications[..1], &flags, style).unwrap();
        assert_eq!(
            wide.lines().nth(1).unwrap(),
            "default     pi     RUNNING   2 running, 1 failed   1m          <none>   2h    3     pi-driver   10.0.0.7:4040   volcano, queue data\u{fffd}[8m"
        );
    }
}
