//! Reports to the operator that a SparkConnect is used, by the annotation with the time at which a connection was last
//! open. For a server that sleeps, the report wakes it.

use super::{
    gateway::Gateway,
    server::{Server, Times},
    spark_connect,
};
use api::names::annotation::LAST_CONNECTION;
use jiff::Timestamp;
use kube::{
    Resource,
    api::{Patch, PatchParams},
    core::{DynamicObject, Request},
};
use serde_json::json;
use std::{
    future::pending,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{info, warn};

/// The backoff after a report that failed: the first pause, which doubles, and the maximum. The maximum is short:
/// without reports, the operator puts a server to sleep that is in use.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// The present use of a SparkConnect.
#[derive(Clone, Copy, Debug)]
struct Use {
    is_open: bool,
    /// Whether a connection waits for the server.
    is_held: bool,
    times: Times,
}

impl Use {
    /// Returns when the next report is due, if the last one began at `sent`. `None` if there is nothing to report. The
    /// first use is reported immediately. Afterwards, open connections and use since the last report are reported once
    /// in a period, and immediately if a connection is held and the server's address has changed since the last report.
    fn due(&self, sent: Option<Instant>, period: Duration) -> Option<Instant> {
        match (sent, self.times.used?) {
            (None, used) => Some(used),
            (Some(sent), _) if self.is_held && sent < self.times.moved => Some(self.times.moved),
            (Some(sent), used) if self.is_open || sent < used => Some(sent + period),
            (Some(_), _) => None,
        }
    }
}

/// Reports the use of `server` until it is gone, or until all connections have been closed at the end of the process.
pub(crate) async fn report(gateway: Arc<Gateway>, server: Arc<Server>) {
    // Up to a quarter is added to the period, so that replicas that started together do not always write together.
    let part = u32::try_from(RandomState::new().hash_one(&server.uid) % 256).unwrap_or_default();
    let period = gateway.setup.settings.report_period;
    let period = period + period * part / 1024;
    let (mut sent, mut pause) = (None, PAUSE);
    let mut is_last = false;
    while !is_last {
        let now = || Use {
            is_open: gateway.connections.has_any(&server.uid),
            is_held: gateway.held.has_any(&server.uid),
            times: *server.times.lock(),
        };
        let mut present = now();
        let due = present.due(sent, period);
        tokio::select! {
            () = async { if let Some(due) = due { sleep_until(due).await } else { pending().await } } => {}
            () = server.changed.notified() => continue,
            () = server.gone.cancelled() => return,
            () = gateway.closing.cancelled() => {
                gateway.open.wait().await;
                present = now();
                is_last = true;
                if present.due(sent, period).is_none() {
                    return;
                }
            }
        }
        let begun = Instant::now();
        match write(&gateway, &server).await {
            Ok(()) => {
                (sent, pause) = (Some(begun), PAUSE);
                if present.is_held {
                    gateway.setup.metrics.wakes.inc();
                    info!("a client waits for the server");
                }
            }
            Err(error) => {
                warn!(%error, "the last connection could not be reported");
                gateway.closing.run_until_cancelled(sleep(pause)).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// Writes the annotation. Its value is the time of the write, which is up to a period after the last use.
async fn write(gateway: &Gateway, server: &Server) -> kube::Result<()> {
    let _turn = gateway.reports.turn(None, &server.namespace).await;
    let patch = json!({"metadata": {"annotations": {LAST_CONNECTION: format!("{:.0}", now())}}});
    let path = DynamicObject::url_path(&spark_connect::resource(), Some(&server.namespace));
    let request =
        Request::new(path).patch_metadata(&server.name, &PatchParams::default(), &Patch::Merge(patch));
    gateway.setup.client.request_text(request.map_err(kube::Error::BuildRequest)?).await.map(drop)
}

#[expect(clippy::disallowed_methods, reason = "the annotation has the present time")]
fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Case = (Option<u64>, bool, bool, Option<u64>, u64, Option<u64>, String);

    #[test]
    fn a_report_is_due_once_a_period_and_at_once_for_a_client_that_waits() {
        let begin = Instant::now();
        let at = |time: u64| begin + Duration::from_secs(time);
        let cases = include_str!("../../../tests/data/reports.json");
        for case in serde_json::from_str::<Vec<Case>>(cases).unwrap() {
            let (sent, is_open, is_held, used, moved, expected, why) = case;
            let now = Use { is_open, is_held, times: Times { used: used.map(at), moved: at(moved) } };
            let due = now.due(sent.map(at), Duration::from_secs(30));
            assert_eq!(due.map(|due| (due - begin).as_secs()), expected, "{why}");
        }
    }
}
