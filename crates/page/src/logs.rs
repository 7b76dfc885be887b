//! The log of a pod's Spark container: its last lines, filtered by the server, and new lines as they are written.

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

/// The maximum numbers of lines and bytes of a log that are read at once.
const LINES: i64 = 1_000;
const BYTES: u64 = 1 << 20;
/// The maximum numbers of lines and bytes that are shown with a failure; as many lines as `sparkctl status` shows.
const WORDS: i64 = 15;
const BYTES_OF_WORDS: usize = 64 << 10;
/// The response header with the timestamp of the last line. The script requests the lines after that.
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
                a href=(path) { "Log of the current container" }
            } @else {
                label { input #follow type="checkbox" checked; " Follow" } " "
                a href=(query.with("previous", "true").address(&path)) { "Log of the previous container" }
            }
        }
        p { small { "The last " (LINES) " lines at most." } }
        pre #log tabindex="0" role="region" aria-label={ "Log of " (pod) } data-tail=[tail] data-after=(log.after) { (log.text) }
    };
    Ok(session.document(&pod, false, &content))
}

/// Returns the path of the log of a pod.
pub(crate) fn log_of(namespace: &str, pod: &str) -> String {
    format!("/logs/{namespace}/{pod}")
}

/// Returns the lines after the timestamp in the query, and the timestamp of the last one in the header [`AFTER`].
pub(crate) async fn tail(session: Session, Path((namespace, pod)): Named) -> Response {
    // Without a timestamp, the log had no line yet.
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
/// If the pod or its log no longer exists, or may not be read.
pub(crate) async fn last_lines(session: &Session, namespace: &str, pod: &str) -> Result<String> {
    let which = LogParams { tail_lines: Some(WORDS), ..LogParams::default() };
    Ok(end(read(session, namespace, pod, &Query::default(), which).await?.text, BYTES_OF_WORDS))
}

/// Lines of a log.
#[derive(Debug, Default, PartialEq, Eq)]
struct Lines {
    text: String,
    /// The timestamp of the last line.
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
    // kube rounds `sinceTime` to the nearest second, which may be after new lines: the second is rounded down here.
    let since_time = since.and_then(|since| Timestamp::from_second(since.as_second()).ok());
    let previous = query.get("previous") == "true";
    let parameters = LogParams { container, previous, since_time, timestamps: true, ..which };
    let pods = Api::<Pod>::namespaced(reader.client.clone(), namespace);
    let log = in_time(GRACE, pods.log_stream(pod, &parameters)).await.flatten()?;
    let mut bytes = Vec::new();
    in_time(GRACE, log.take(BYTES).read_to_end(&mut bytes)).await?.map_err(kube::Error::ReadEvents)?;
    Ok(lines(&String::from_utf8_lossy(&bytes), bytes.len() as u64 == BYTES, since, query.get("q")))
}

/// Returns the lines of `log` that are later than `since` and contain `wanted`. Each line of `log` begins with a
/// timestamp. The kubelet selects by whole seconds only, so `log` may begin with earlier lines. If `log` is truncated
/// (`is_cut`), its last line may be incomplete, and is left for the next request.
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
        // Messages of the kubelet itself have no timestamp.
        let text = if moment.is_some() { rest } else { stamped };
        found.after = moment.map_or(found.after, |moment| moment.to_string());
        if text.contains(wanted) {
            writeln!(found.text, "{}", line(text)).expect("writing to a String cannot fail");
        }
    }
    // This second has more lines than are read at once. The rest of it is skipped; otherwise the same lines would be
    // read again and again.
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
    fn lines_after_a_time_come_once_and_without_control_characters() {
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
    fn a_truncated_log_continues_with_whole_lines_and_always_advances() {
        let log = "2026-11-21T12:00:00.1Z one\n2026-11-21T12:00:00.2Z two\n2026-11-21T12:00:00.3Z th";
        let after = |since: &str| lines(log, true, since.parse().ok(), "").after;
        assert_eq!(lines(log, true, None, "").text, "one\ntwo\n");
        assert_eq!(after("2026-11-21T12:00:00.1Z"), "2026-11-21T12:00:00.2Z");
        assert_eq!(after("2026-11-21T12:00:00.2Z"), "2026-11-21T12:00:01Z");
    }
}
