//! The list of servers of Spark Connect, and the page of one.

use super::{
    Connect, Named, Result, Session, UNREADABLE, ago, buttons, conditions, log_of, pods_and_events, scope,
    spec, word,
};
use api::{SparkConnect, names::label};
use axum::{extract::Path, response::Response};
use futures::future::join;
use maud::{Markup, html};
use spark_operator_client::{connect_summary, summary::Tone};

pub(crate) async fn list(session: Session) -> Response {
    let titles = ["State", "Executors", "Restarts", "Last connection"];
    scope::table::<Connect>(&session, "/connects", "Spark Connect", &titles, cells).await
}

fn cells(row: &Connect) -> Markup {
    html! {
        td { (word(row.state.unwrap_or(UNREADABLE))) @if !row.why.is_empty() { br; small { (row.why) } } }
        td { (row.executors) }
        td.number { (row.restarts) }
        td.number { (ago(row.last_connection)) }
    }
}

pub(crate) async fn show(session: Session, Path((namespace, name)): Named) -> Result<Response> {
    let (connect, text) = session.caller.reader.object::<SparkConnect>(&namespace, &name).await?;
    let ((_, pods_and_events), buttons) = join(
        pods_and_events(&session, &connect.metadata, label::CONNECT_NAME),
        buttons(&session, &connect, connect.spec.suspend, None),
    )
    .await;
    let (status, tone) = (connect.status.clone().unwrap_or_default(), Tone::of_connect(connect.state()));
    let content = html! {
        p class={ "sentence " (tone.as_str()) } {
            (name) " is " (word((tone, connect_summary::state(&connect))))
            @if let Some(why) = connect_summary::why(&connect) { ": " (why) }
        }
        @if let Some(server) = &status.server.pod_name {
            p.links {
                a href=(log_of(&namespace, server)) { "Log of the server" }
                a href={ "/connects/" (namespace) "/" (name) "/ui/" } { "Spark UI" }
            }
        }
        (buttons)
        dl {
            dt { "Namespace" } dd { (namespace) }
            dt { "Address" } dd { code { (connect::names::address(&connect).unwrap_or_default()) } }
            @if let Some(executors) = connect_summary::executors(&connect) { dt { "Executors" } dd { (executors) } }
            dt { "Restarts" } dd { (status.restarts) }
            dt { "Last connection" } dd { (ago(connect.last_connection().map(|time| time.0))) }
        }
        (conditions(&status.conditions))
        (pods_and_events)
        (spec(&text))
    };
    Ok(session.document(&name, true, &content))
}
