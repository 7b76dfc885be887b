//! Finds out whether the API server reaches the webhook yet. The webhook's Service gets a pod's address seconds after
//! the pod is ready, and the API server learns of a new caBundle a moment after it is written. A driver that is created
//! before both have happened is refused.

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
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use tokio::time::{Instant, sleep};
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
    /// When the first check in each namespace began.
    begun: Mutex<HashMap<String, Instant>>,
}

impl WebhookProbe {
    pub(super) fn new(client: Client) -> Self {
        Self { client, is_reached: AtomicBool::new(false), begun: Mutex::default() }
    }

    /// Waits until the API server reaches the webhook for a driver in any namespace, or until the first check in `namespace`
    /// began [`FOUND_WITHIN`] ago: after that, nobody waits for more than one answer. Once the webhook has been reached, no
    /// further check is made.
    pub(super) async fn reached(&self, namespace: &str) {
        while !self.is_reached.load(Ordering::Relaxed) {
            let begun = *self.begun.lock().entry(namespace.to_owned()).or_insert_with(Instant::now);
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
    use std::future::ready;

    #[tokio::test(start_paused = true)]
    async fn a_namespace_whose_own_webhook_is_down_keeps_no_other_waiting() {
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
            "{broken:?}, {other:?}: found in one, found"
        );

        let webhook_probe = WebhookProbe::new(webhook_probe.client);
        webhook_probe.reached("broken").await;
        assert!(begun.elapsed() >= FOUND_WITHIN, "alone it waits as long as ever");
        let begun = Instant::now();
        webhook_probe.reached("broken").await;
        assert!(begun.elapsed() < AGAIN, "and once");
    }
}
