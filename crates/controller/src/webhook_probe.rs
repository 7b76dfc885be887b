//! Checks whether the API server reaches the webhook yet. The webhook's Service gets the IP address of a pod seconds
//! after the pod is ready, and the API server uses a new caBundle a moment after it is written. A driver that is
//! created before both have happened is refused.

use super::calls::Calls;
use api::{
    Role,
    names::{annotation, label},
};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::OnceCell,
    time::{Instant, sleep},
};
use tracing::warn;

/// How long to wait for the API server to reach the webhook. After that time drivers are created anyway, so that the
/// application shows the user why they are refused. Usually a few seconds are enough: the kubelet probes the operator
/// every two seconds, and a node learns of the result within another second.
const FOUND_WITHIN: Duration = Duration::from_secs(30);
/// The pause between two attempts to reach the webhook.
const AGAIN: Duration = Duration::from_millis(250);

/// The check whether the API server reaches the webhook.
pub(super) struct WebhookProbe {
    client: Client,
    /// Whether the webhook was reached for a driver in any namespace. In a namespace with a broken webhook of its own, the
    /// API server never gets as far as the operator's webhook.
    is_reached: AtomicBool,
    /// The check in each namespace, which is made once.
    checks: Mutex<HashMap<String, Arc<OnceCell<()>>>>,
}

impl WebhookProbe {
    pub(super) fn new(client: Client) -> Self {
        Self { client, is_reached: AtomicBool::new(false), checks: Mutex::default() }
    }

    /// Waits until the API server reaches the webhook for a driver in any namespace, or until it has not been reached in
    /// `namespace` within [`FOUND_WITHIN`]. All submissions in a namespace wait for the same check.
    pub(super) async fn reached(&self, namespace: &str) {
        if self.is_reached.load(Ordering::Relaxed) {
            return;
        }
        let check = self.checks.lock().entry(namespace.to_owned()).or_default().clone();
        check.get_or_init(|| self.check(namespace)).await;
    }

    async fn check(&self, namespace: &str) {
        let begun = Instant::now();
        while !self.is_reached.load(Ordering::Relaxed) {
            match self.finds(namespace).await {
                Ok(()) => self.is_reached.store(true, Ordering::Relaxed),
                Err(_) if begun.elapsed() < FOUND_WITHIN => sleep(AGAIN).await,
                Err(error) => {
                    return warn!(%error, "the API server does not find the webhook: drivers are likely to be refused");
                }
            }
        }
    }

    /// Creates a driver pod as a dry run: the pod is not stored, but the API server has to call the webhook for it.
    /// Other checks of the pod's content come after the webhook, so their refusals also show that the webhook is
    /// reached.
    async fn finds(&self, namespace: &str) -> Result<(), kube::Error> {
        match Calls::of::<Pod>(&self.client, namespace).dry_run(driver().to_string()).await {
            // The API server reports a webhook that it cannot call as an internal error (500).
            Err(kube::Error::Api(status)) if status.code != 500 => Ok(()),
            result => result,
        }
    }
}

/// Returns a driver pod that requests no changes from the webhook.
fn driver() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "spark-operator-webhook-probe",
            "labels": {label::SPARK_ROLE: Role::Driver.as_str()},
            "annotations": {annotation::ENV: "[]"},
        },
        "spec": {"containers": [{"name": Role::Driver.container(), "image": "none"}]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::api_server;
    use futures::future::join_all;
    use std::{future::ready, sync::atomic::AtomicU32};

    #[tokio::test(start_paused = true)]
    async fn a_namespace_whose_own_webhook_is_down_delays_no_other() {
        let webhook_probe = WebhookProbe::new(api_server(|request| {
            let is_broken = request.uri().path().contains("/broken/");
            ready(if is_broken { (500, json!({"kind": "Status", "code": 500})) } else { (201, driver()) })
        }));
        let begun = Instant::now();
        let broken = async {
            webhook_probe.reached("broken").await;
            begun.elapsed()
        };
        let other = async {
            sleep(AGAIN * 2).await;
            webhook_probe.reached("other").await;
            begun.elapsed()
        };
        let (broken, other) = tokio::join!(broken, other);
        assert!(
            other < FOUND_WITHIN / 2 && broken < FOUND_WITHIN / 2,
            "{broken:?}, {other:?}: reached in one namespace, reached in all"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn all_submissions_of_a_namespace_wait_for_one_check() {
        let asked = Arc::new(AtomicU32::new(0));
        let counted = asked.clone();
        let webhook_probe = WebhookProbe::new(api_server(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            ready((500, json!({"kind": "Status", "code": 500})))
        }));
        let begun = Instant::now();
        let many = || join_all((0..100).map(|_| webhook_probe.reached("broken")));
        many().await;
        assert!(begun.elapsed() >= FOUND_WITHIN, "no other namespace has reached it");
        let (begun, requests) = (Instant::now(), asked.load(Ordering::Relaxed));
        assert!(requests <= FOUND_WITHIN.div_duration_f64(AGAIN) as u32 + 1, "{requests}");
        many().await;
        assert!(begun.elapsed() < AGAIN && asked.load(Ordering::Relaxed) == requests, "no second check");
    }
}
