//! The parts of the operator that run at the same time: the ports, and the periodic checks.

use crate::{admin::Readiness, api_server, definitions, installation};
use anyhow::{Context, anyhow};
use axum::Router;
use certificates::{Certificates, ServingCertificate, Trust};
use futures::StreamExt;
use jiff::Timestamp;
use kube::Client;
use std::{
    fmt::Display,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{net::TcpListener, sync::Notify, task::JoinSet, time::sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use watches::Watches;
use webhook::{Closing, Limits, Reviews, Tls};

/// The pause between two checks that certificates, caBundle and definitions are still in place. A removed certificate
/// or caBundle is restored within this time, and a missing definition is reported.
const CHECK_PERIOD: Duration = Duration::from_secs(60);
/// The pause between two checks that the operator has all its permissions. A check takes one request for each verb
/// (some 70), and between two checks a request without permission fails with the API server's own message.
const PERMISSION_CHECK_PERIOD: Duration = Duration::from_secs(10 * 60);
/// The pause between two handshakes with the operator's own webhook. A handshake is cheap, and nothing else reveals a
/// webhook that hangs.
const HANDSHAKE_PERIOD: Duration = Duration::from_secs(10);
/// The minimum pause between two checks, however often the checked objects change. Another program that writes the same
/// `caBundle`, such as a CA injector or another operator, and this one would otherwise overwrite each other without a
/// pause.
const BETWEEN_CHECKS: Duration = Duration::from_millis(200);
/// The first pause after a check that failed. It is short, because until then the operator is of little use.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// The time that the parts have to end once the webhook accepts no more connections. Kubernetes gives a pod 30 s in all.
/// The API server waits 30 s for a review at most, and 5 s for the reviews of this operator.
const DRAIN: Duration = Duration::from_secs(20);

// The names of the conditions of readiness, as `/readyz` shows them.
pub(crate) const CACHES: &str = "caches";
pub(crate) const CERTIFICATES: &str = "certificates";
pub(crate) const DEFINITIONS: &str = "definitions";
pub(crate) const PERMISSIONS: &str = "permissions";
pub(crate) const RUNNING: &str = "running";
pub(crate) const WEBHOOK: &str = "webhook";

/// A condition of readiness that is checked periodically.
struct Keep {
    condition: &'static str,
    readiness: Readiness,
    stop: CancellationToken,
    /// The maximum pause between two checks that fail for the same reason. The first pause is [`RETRY_PAUSE`], and each
    /// later one is twice as long.
    longest_pause: Duration,
    /// The conditions without which a check could only fail: the first check waits for them.
    before: &'static [&'static str],
}

impl Keep {
    /// Calls `check` periodically until the operator stops, and records in the readiness whether the condition is met,
    /// or why not. `check` repairs what it can, and returns the pause until the next call; a notification of `changed`
    /// ends any pause early, but not before [`BETWEEN_CHECKS`].
    async fn met<L, E>(self, check: impl Fn() -> L, changed: Arc<Notify>) -> io::Result<()>
    where
        L: Future<Output = Result<Duration, E>>,
        E: Display,
    {
        let keep = async {
            self.readiness.wait_for(self.before).await;
            let mut pause = RETRY_PAUSE;
            loop {
                let rest = match check().await {
                    Ok(rest) => {
                        self.readiness.met(self.condition);
                        rest
                    }
                    Err(why) => {
                        let is_new = self.readiness.unmet(self.condition, &why);
                        pause = if is_new { RETRY_PAUSE } else { (pause * 2).min(self.longest_pause) };
                        pause
                    }
                };
                let noticed = async {
                    sleep(BETWEEN_CHECKS).await;
                    changed.notified().await;
                };
                tokio::select! {
                    () = sleep(rest) => {}
                    () = noticed => {}
                }
            }
        };
        self.stop.run_until_cancelled(keep).await;
        Ok(())
    }
}

/// Returns the current time, for creating, renewing and checking certificates.
#[expect(clippy::disallowed_methods, reason = "the clock of the certificates")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// The parts of the process that run at the same time.
pub(crate) struct Parts {
    running: JoinSet<(&'static str, io::Result<()>)>,
    readiness: Readiness,
    stop: CancellationToken,
    /// The time that the parts have to end.
    drain: Duration,
}

impl Parts {
    /// Returns a process without parts. `delay` is how long the webhook accepts connections after the process was asked
    /// to stop.
    pub(crate) fn new(readiness: &Readiness, stop: &CancellationToken, delay: Duration) -> Self {
        let (readiness, stop) = (readiness.clone(), stop.clone());
        Self { running: JoinSet::new(), readiness, stop, drain: delay + DRAIN }
    }

    /// Starts a part; the error message names it by `name` when it fails.
    pub(crate) fn start(
        &mut self,
        name: &'static str,
        part: impl Future<Output = io::Result<()>> + Send + 'static,
    ) {
        self.running.spawn(async move { (name, part.await) });
    }

    /// Serves `metrics` until `served` is cancelled. With `tls`, over HTTPS: with the webhook's `certificate`, or, if this
    /// process does not serve the webhook, with a new certificate that no client can verify.
    pub(crate) fn serve_metrics(
        &mut self,
        tcp: TcpListener,
        metrics: Router,
        tls: Option<Tls>,
        certificate: &Arc<ServingCertificate>,
        serves_webhook: bool,
        served: &CancellationToken,
    ) -> anyhow::Result<()> {
        let (certificate, served) = (Arc::clone(certificate), served.clone());
        if tls.is_some() && !serves_webhook {
            let made = Certificates::generate(&["localhost".to_owned()], now());
            let made = made.context("cannot make a certificate for the metrics")?;
            certificate.set(&made.certificate, &made.key)?;
        }
        self.start("port of the metrics", async move {
            let tls = tls.as_ref().map(|tls| (certificate, tls));
            webhook::serve_routes(tcp, tls, metrics, Limits::ADMIN, Closing::default(), served).await
        });
        Ok(())
    }

    /// Serves `reviews` with `certificate` until the operator stops, and drops `served` after the last answer. Returns the
    /// address at which this process itself reaches the webhook.
    pub(crate) fn serve_webhook(
        &mut self,
        tcp: TcpListener,
        certificate: Arc<ServingCertificate>,
        tls: Tls,
        reviews: Reviews,
        closing: Closing,
        served: Option<DropGuard>,
    ) -> anyhow::Result<SocketAddr> {
        let address = tcp.local_addr().context("the webhook's socket has no address")?;
        let tcp = tcp.into_std().context("the webhook's socket cannot be handed on")?;
        let stop = self.stop.clone();
        self.start("webhook", async move {
            let _served = served;
            webhook::on_threads_of_their_own(async move {
                let tcp = TcpListener::from_std(tcp)?;
                let (tls, routes) = (Some((certificate, &tls)), webhook::router(reviews));
                webhook::serve_routes(tcp, tls, routes, Limits::REVIEWS, closing, stop).await
            })
            .await
        });
        Ok((Ipv4Addr::LOCALHOST, address.port()).into())
    }

    /// Starts the parts that maintain the certificates and the API server's trust in them, and that test the webhook.
    pub(crate) fn keep_trusted(&mut self, trust: &Arc<Trust>, watches: &Watches, webhook: SocketAddr) {
        let (stopped, changed) = (self.stop.clone().cancelled_owned(), Arc::new(Notify::new()));
        let changes = trust.changes(watches, api_server::WATCH_SECONDS).take_until(stopped);
        let notified = Arc::clone(&changed);
        self.start("watches of what the API server trusts", async move {
            changes.for_each(async |()| notified.notify_one()).await;
            Ok(())
        });
        let (keep, establishing) = (self.keep(CERTIFICATES), Arc::clone(trust));
        self.start("certificates", async move {
            let establish =
                || async { establishing.establish(now()).await.map(|rest| rest.min(CHECK_PERIOD)) };
            keep.met(establish, changed).await
        });
        let (knock, shaking) = (Keep { before: &[CERTIFICATES], ..self.keep(WEBHOOK) }, Arc::clone(trust));
        self.start("handshake with ourselves", async move {
            let handshake = || async { shaking.handshake(webhook).await.map(|()| HANDSHAKE_PERIOD) };
            knock.met(handshake, Arc::default()).await
        });
    }

    /// Starts the checks of the definitions and permissions, which an admin installs.
    pub(crate) fn keep_installed(&mut self, client: Client, needs: installation::Needs) {
        let (serves_webhook, asking) = (needs.settings.serves_webhook(), client.clone());
        let serves_connect = needs.settings.connect.enable_spark_connect;
        let keep = self.keep(DEFINITIONS);
        self.start("definitions", async move {
            let check = || async {
                definitions::check(&asking, serves_connect).await?;
                if serves_webhook {
                    installation::version(&asking).await?;
                }
                Ok::<_, anyhow::Error>(CHECK_PERIOD)
            };
            keep.met(check, Arc::default()).await
        });
        let keep = Keep { longest_pause: CHECK_PERIOD, ..self.keep(PERMISSIONS) };
        let readiness = self.readiness.clone();
        self.start("permissions", async move {
            let check = || async {
                match installation::permissions(&client, &needs).await {
                    // An API server that does not answer takes no permission away. The webhook, which needs this
                    // condition, would otherwise be unavailable for up to a minute after the API server answers again.
                    Err(error) if error.is::<kube::Error>() && readiness.is_met(PERMISSIONS) => {
                        Ok(CHECK_PERIOD)
                    }
                    checked => checked.map(|()| PERMISSION_CHECK_PERIOD),
                }
            };
            keep.met(check, Arc::default()).await
        });
    }

    fn keep(&self, condition: &'static str) -> Keep {
        let (readiness, stop) = (self.readiness.clone(), self.stop.clone());
        Keep { condition, readiness, stop, longest_pause: RETRY_PAUSE, before: &[] }
    }

    /// Waits until all parts have ended. If a part ends without having been asked to, all others are stopped. As soon as
    /// the process is asked to stop, it is not ready any more, and `served` is dropped.
    pub(crate) async fn all_ended(self, served: Option<DropGuard>) -> anyhow::Result<()> {
        let Self { mut running, readiness, stop, drain } = self;
        let end = async {
            let mut result = Ok(());
            while let Some(ended) = running.join_next().await {
                let failure = match ended {
                    Ok((name, Err(error))) => Some(anyhow!(error).context(format!("the {name} failed"))),
                    Ok((name, Ok(()))) if !stop.is_cancelled() => Some(anyhow!("the {name} has ended early")),
                    Ok((_, Ok(()))) => None,
                    Err(panic) => Some(anyhow!(panic).context("a part of the operator panicked")),
                };
                if let Some(failure) = failure {
                    stop.cancel();
                    result = result.and(Err(failure));
                }
            }
            result
        };
        let too_long = async {
            stop.cancelled().await;
            readiness.waits(RUNNING, "is asked to stop");
            drop(served);
            sleep(drain).await;
        };
        tokio::select! {
            result = end => result,
            () = too_long => Err(anyhow!("not all parts have ended within {} s of being asked to", drain.as_secs())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicU32, Ordering},
    };
    use tokio::time::Instant;

    /// In an earlier version, two operators with the same webhook configurations overwrote them in turn without a
    /// pause.
    #[tokio::test(start_paused = true)]
    async fn checks_pause_even_if_each_of_them_is_followed_by_a_change() {
        const CHECKS: u32 = 10;
        let (checks, changed) = (AtomicU32::new(0), Arc::new(Notify::new()));
        let (begun, stop) = (Instant::now(), CancellationToken::new());
        let check = || async {
            if checks.fetch_add(1, Ordering::Relaxed) + 1 < CHECKS {
                changed.notify_one();
            } else {
                stop.cancel();
            }
            Ok::<_, Infallible>(CHECK_PERIOD)
        };
        let keep = Keep {
            condition: CERTIFICATES,
            readiness: Readiness::waiting_for([]),
            stop: stop.clone(),
            longest_pause: RETRY_PAUSE,
            before: &[],
        };
        keep.met(check, Arc::clone(&changed)).await.unwrap();
        let paused = begun.elapsed();
        assert!(paused >= BETWEEN_CHECKS * (CHECKS - 1) && paused < CHECK_PERIOD, "{paused:?}");
    }
}
