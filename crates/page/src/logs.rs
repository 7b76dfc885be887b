//! The log of a pod's Spark container: the end of it, searched by the server, and the lines that come.

use super::{Named, Query, Result, Session};
use api::{excerpt::end, spark_container_of};
use axum::{
    extract::Path,
    response::{IntoResponse, Response},
};
use futures::AsyncReadExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::LogParams};
use maud::html;
use spark_operator_client::{
    patience::{GRACE, in_time},
    printable::line,
};
use std::fmt::Write;

/// The most lines and bytes of a log that are shown at once.
const LINES: i64 = 1_000;
const BYTES: u64 = 1 << 20;
/// The lines and bytes that are shown beside a failure; as many lines as `sparkctl status` shows.
const WORDS: i64 = 15;
const BYTES_OF_WORDS: usize = 64 << 10;
/// The header with the moment of the last line, after which the next lines are asked for.
const AFTER: &str = "x-after";

pub(crate) async fn show(session: Session, Path((namespace, pod)): Named) -> Result<Response> {
    let query = &session.query;
    let is_previous = query.get("previous") == "true";
    let which = LogParams { tail_lines: Some(LINES), ..LogParams::default() };
    let log = read(&session, &namespace, &pod, query, which).await?;
    let path = log_of(&namespace, &pod);
    let tail = (!is_previous).then(|| query.with("previous", "").address(&format!("{path}/tail")));
    let content = html! {
        form action=(path) role="search" {
            label for="q" { "Lines with" } " "
            input #q name="q" value=(query.get("q"));
            @if is_previous { input type="hidden" name="previous" value="true"; }
            " " button { "Show" } " "
            @if is_previous {
                a href=(path) { "Log of the present container" }
            } @else {
                label { input #follow type="checkbox" checked; " Follow" } " "
                a href=(query.with("previous", "true").address(&path)) { "Log of the container before" }
            }
        }
        p { small { "The last " (LINES) " lines at most." } }
        pre #log tabindex="0" role="region" aria-label={ "Log of " (pod) } data-tail=[tail] data-after=(log.after) { (log.text) }
    };
    Ok(session.document(&pod, false, &content))
}

/// Returns the address of the log of a pod.
pub(crate) fn log_of(namespace: &str, pod: &str) -> String {
    format!("/logs/{namespace}/{pod}")
}

/// Returns the lines that have come after the moment in the query, and in a header the moment of the last one.
pub(crate) async fn tail(session: Session, Path((namespace, pod)): Named) -> Response {
    // Without a moment the log had no line yet.
    let since_time = session.query.get("after").parse::<Timestamp>().ok();
    let which = LogParams { since_time, ..LogParams::default() };
    match read(&session, &namespace, &pod, &session.query, which).await {
        Ok(log) => ([(AFTER, log.after)], log.text).into_response(),
        Err(refusal) => (refusal.status, refusal.words).into_response(),
    }
}

/// Returns the last lines of the log of a pod.
///
/// # Errors
///
/// If the pod or its log is gone, or may not be read.
pub(crate) async fn last_lines(session: &Session, namespace: &str, pod: &str) -> Result<String> {
    let which = LogParams { tail_lines: Some(WORDS), ..LogParams::default() };
    Ok(end(read(session, namespace, pod, &Query::default(), which).await?.text, BYTES_OF_WORDS))
}

/// Lines of a log.
#[derive(Debug, Default, PartialEq, Eq)]
struct Lines {
    text: String,
    /// The moment of the last line.
    after: String,
}

async fn read(
    session: &Session,
    namespace: &str,
    pod: &str,
    query: &Query,
    which: LogParams,
) -> Result<Lines> {
    let reader = &session.caller.reader;
    let (found, _) = reader.object::<Pod>(namespace, pod).await?;
    let container = spark_container_of(&found).map(|container| container.name.clone());
    let since = which.since_time;
    // kube rounds it to the nearest second, which may be later than lines that are new.
    let since_time = since.and_then(|since| Timestamp::from_second(since.as_second()).ok());
    let previous = query.get("previous") == "true";
    let parameters = LogParams { container, previous, since_time, timestamps: true, ..which };
    let pods = Api::<Pod>::namespaced(reader.client.clone(), namespace);
    let log = in_time(GRACE, pods.log_stream(pod, &parameters)).await.flatten()?;
    let mut bytes = Vec::new();
    in_time(GRACE, log.take(BYTES).read_to_end(&mut bytes)).await?.map_err(kube::Error::ReadEvents)?;
    Ok(lines(&String::from_utf8_lossy(&bytes), bytes.len() as u64 == BYTES, since, query.get("q")))
}

/// Returns the lines of `log` that are later than `since` and contain `wanted`. Each line of `log` begins with its moment,
/// of which the kubelet regards whole seconds only. If `log` `is_cut`, its last line is not complete, and comes with the next
/// lines.
fn lines(log: &str, is_cut: bool, since: Option<Timestamp>, wanted: &str) -> Lines {
    let log = if is_cut { log.rsplit_once('\n').map_or("", |(complete, _)| complete) } else { log };
    let mut found =
        Lines { after: since.map(|since| since.to_string()).unwrap_or_default(), ..Lines::default() };
    for stamped in log.lines() {
        let (stamp, rest) = stamped.split_once(' ').unwrap_or((stamped, ""));
        let moment = stamp.parse::<Timestamp>().ok();
        if moment.zip(since).is_some_and(|(moment, since)| moment <= since) {
            continue;
        }
        // Words of the kubelet itself have no moment.
        let text = if moment.is_some() { rest } else { stamped };
        found.after = moment.map_or(found.after, |moment| moment.to_string());
        if text.contains(wanted) {
            writeln!(found.text, "{}", line(text)).expect("writing to a String cannot fail");
        }
    }
    // More was written in this second than is read at once: without the rest of the second, the next ones can be read.
    if is_cut
        && let Some(since) = since.filter(|since| found.after == since.to_string())
        && let Ok(next) = Timestamp::from_second(since.as_second() + 1)
    {
        found.after = next.to_string();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_after_a_moment_come_once_and_control_nothing() {
        let log = "2026-11-21T12:00:00.1Z one\n2026-11-21T12:00:00.25Z \u{1b}[31mtwo\n2026-11-21T12:00:00.300000000Z three\n";
        let since = "2026-11-21T12:00:00.1Z".parse().unwrap();
        let found = lines(log, false, Some(since), "");
        assert_eq!(found.text, "\u{fffd}[31mtwo\nthree\n");
        assert_eq!(
            lines(log, false, Some(found.after.parse().unwrap()), ""),
            Lines { text: String::new(), ..found }
        );
        assert_eq!(lines(log, false, None, "thr").text, "three\n");
        assert_eq!(lines("", false, None, ""), Lines::default());
        let told = lines("unable to retrieve container logs", false, None, "");
        assert_eq!((&*told.text, &*told.after), ("unable to retrieve container logs\n", ""));
    }
    #[test]
    fn a_log_that_is_cut_goes_on_with_whole_lines_and_does_not_stand_still() {
        let log = "2026-11-21T12:00:00.1Z one\n2026-11-21T12:00:00.2Z two\n2026-11-21T12:00:00.3Z th";
        let after = |since: &str| lines(log, true, since.parse().ok(), "").after;
        assert_eq!(lines(log, true, None, "").text, "one\ntwo\n");
        assert_eq!(after("2026-11-21T12:00:00.1Z"), "2026-11-21T12:00:00.2Z");
        assert_eq!(after("2026-11-21T12:00:00.2Z"), "2026-11-21T12:00:01Z");
    }
}
