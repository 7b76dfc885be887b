//! Measures how late a leader renews its lease while its webhook reviews applications that are crafted to take long.

use super::{Results, webhook::hostile_load};
use crate::{
    apiserver::{operator::WEBHOOK_PORT, prelude::*},
    webhook::trusting,
};
use k8s_openapi::api::{admissionregistration::v1::MutatingWebhookConfiguration, coordination::v1::Lease};

/// How long renewals of the lease are watched: the time of ten renewals.
const MEASURED: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures: make bench"]
async fn renewals() {
    let namespace = Namespace::new("bench-lease").await;
    let mut results = Results::default();
    let operator = Operator::with(&namespace).elected().start().await;
    let client = Client::try_default().await.unwrap();
    let leases = Api::<Lease>::namespaced(client.clone(), NAMESPACE);
    results.put("lease.renewal_s.quiet", longest_pause(&leases).await);

    let configurations = Api::<MutatingWebhookConfiguration>::all(client);
    let webhooks = configurations.get(WEBHOOK).await.unwrap().webhooks.unwrap();
    let ca = webhooks[0].client_config.ca_bundle.as_ref().unwrap();
    let ca = str::from_utf8(&ca.0).unwrap();
    let hostile = hostile_load(&trusting(ca), ("127.0.0.1", WEBHOOK_PORT), MEASURED);
    results.put("lease.renewal_s.hostile", longest_pause(&leases).await);
    results.put("lease.hostile_answered", hostile.await as f64);
    operator.stop().await;
    results.finish();
}

/// Returns the longest time between two renewals of the lease, in seconds.
async fn longest_pause(leases: &Api<Lease>) -> f64 {
    let begin = Instant::now();
    let mut renewed = Vec::new();
    while begin.elapsed() < MEASURED {
        let lease = leases.get("spark-operator-lock").await.unwrap();
        renewed.extend(lease.spec.unwrap().renew_time.map(|time| time.0));
        sleep(Duration::from_millis(100)).await;
    }
    renewed.dedup();
    let pauses = renewed.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_secs_f64());
    pauses.reduce(f64::max).expect("the lease is renewed")
}
