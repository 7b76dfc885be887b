//! Formats the table of servers of Spark Connect, and the status of one.

use crate::{
    cluster::Cluster,
    events,
    list::Selection,
    show::{self, Output, Style, columns, or_none, print},
    status::for_programs,
    yaml::line,
};
use api::{
    ConnectFailure, Identity, Lenient, SparkConnect,
    names::connect_condition::{EXECUTORS_REFUSED, GATEWAY_MISSING, INGRESS_MISSING},
};
use connect::names::address;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use spark_operator_client::{
    connect_summary::{condition, executors, state, why},
    summary::{Tone, awaited_operator},
};

pub(super) fn table(
    connects: &[Lenient<SparkConnect>],
    which: &Selection,
    style: Style,
) -> anyhow::Result<String> {
    let mut rows = vec![which.row(
        "NAMESPACE",
        ["NAME", "STATE", "EXECUTORS", "RESTARTS", "AGE"].map(str::to_owned),
        ["SERVER", "ADDRESS", "LAST CONNECTION"].map(str::to_owned),
    )];
    rows.extend(connects.iter().map(|guarded| {
        let connect = guarded.0.as_ref().ok();
        let status = connect.and_then(|connect| connect.status.as_ref());
        which.row(
            guarded.own_namespace(),
            [
                guarded.name_any(),
                connect.map_or_else(|| "UNREADABLE".to_owned(), |connect| coloured(connect, style)),
                or_none(connect.and_then(executors).as_ref()),
                or_none(status.map(|status| status.restarts).as_ref()),
                style.age(guarded.creation_timestamp().as_ref()),
            ],
            [
                or_none(status.and_then(|status| status.server.pod_name.as_ref())),
                or_none(connect.and_then(address).as_ref()),
                style.age(connect.and_then(SparkConnect::last_connection).as_ref()),
            ],
        )
    }));
    columns(&rows)
}

/// Returns the state in its colour.
fn coloured(connect: &SparkConnect, style: Style) -> String {
    style.coloured(Tone::of_connect(connect.state()), state(connect))
}

pub(super) async fn status(cluster: &Cluster, name: &str, output: Option<Output>) -> anyhow::Result<()> {
    if let Some(text) = for_programs::<SparkConnect>(cluster, name, output).await? {
        return print(&text);
    }
    let connect: SparkConnect = cluster.read(name).await?;
    let style = Style::of_stdout();
    let events = events::latest(cluster, &connect, style).await?;
    print(&(text(&connect, style)? + &events))
}

/// Formats the status without the events.
fn text(connect: &SparkConnect, style: Style) -> anyhow::Result<String> {
    let status = connect.status.clone().unwrap_or_default();
    let ago = |time: Option<&Time>| time.map(|time| format!("{} ago", style.age(Some(time))));
    let is_seen = status.observed_generation == connect.metadata.generation;
    let facts = [
        ("Waits for", (!is_seen).then(|| awaited_operator("its spec"))),
        ("Namespace", connect.namespace()),
        ("Created", ago(connect.creation_timestamp().as_ref())),
        ("Address", Some(or_none(address(connect).as_ref()))),
        ("Server", Some(or_none(status.server.pod_name.as_ref()))),
        ("Server created", ago(status.last_restart_time.as_ref())),
        ("Executors", Some(or_none(executors(connect).as_ref()))),
        ("Restarts", Some(status.restarts.to_string())),
        ("Last failure", status.last_failure.as_ref().map(|failure| failure_text(failure, style))),
        ("Last connection", ago(connect.last_connection().as_ref())),
        ("No executors", condition(connect, EXECUTORS_REFUSED).map(|refused| line(&refused.message))),
        ("No gateway", condition(connect, GATEWAY_MISSING).map(|missing| line(&missing.message))),
        ("No Ingress", condition(connect, INGRESS_MISSING).map(|missing| line(&missing.message))),
    ];
    show::status(&connect.name_any(), &coloured(connect, style), why(connect), facts)
}

/// Returns when and why a server ended: `3m ago, OOMKilled, exit code 137`. `sparkctl connect log --previous` prints
/// the end of its log.
fn failure_text(failure: &ConnectFailure, style: Style) -> String {
    let parts = [
        failure.time.as_ref().map(|time| format!("{} ago", style.age(Some(time)))),
        failure.reason.as_deref().map(line),
        failure.exit_code.map(|code| format!("exit code {code}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const STYLE: Style = Style { now: jiff::Timestamp::constant(1_795_262_400, 0), colours: false };

    fn notebook(spec: &Value) -> Value {
        let mut notebook: Value =
            serde_saphyr::from_str(include_str!("../../../../tests/data/ctl/connect.yaml")).unwrap();
        notebook["spec"] = spec.clone();
        notebook
    }

    #[test]
    fn the_status_of_a_server_begins_with_the_reason_of_its_state() {
        let spec = json!({"sparkVersion": "4.0.1", "server": {}, "executor": {}});
        let connect = serde_json::from_value(notebook(&spec)).unwrap();
        let expected = include_str!("../../../../tests/data/ctl/connect.txt");
        assert_eq!(text(&connect, STYLE).unwrap(), expected);
    }

    #[test]
    fn the_status_of_a_server_that_no_operator_has_seen_says_what_to_do() {
        let spec = json!({"sparkVersion": "4.0.1", "server": {}, "executor": {}});
        let mut unseen = notebook(&spec);
        unseen["metadata"]["generation"] = json!(3);
        let text = text(&serde_json::from_value(unseen).unwrap(), STYLE).unwrap();
        assert!(text.contains("not reconciled its spec yet (if this lasts, ask the admin whether"), "{text}");
    }

    #[test]
    fn a_spark_connect_that_cannot_be_parsed_is_listed_too() {
        let spec = json!({"sparkVersion": "4.0.1", "server": {}, "executor": {}});
        let found = [&spec, &json!({"server": 1})]
            .map(|spec| serde_json::from_str(&notebook(spec).to_string()).unwrap());
        let which = Selection { output: Some(Output::Wide), ..Selection::default() };
        let table = table(&found, &which, STYLE).unwrap();
        let rows: Vec<_> =
            table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let read =
            "notebook Failed 1 pending, 2 running 1 2h notebook-server sc://notebook.team-a.svc:15002 3m";
        assert_eq!(rows[1..], [read, "notebook UNREADABLE <none> <none> 2h <none> <none> <none>"]);
    }
}
