//! Tests the operator against a real API server. The CRDs, the permissions, the webhook and, where a test uses it,
//! Spark's own `spark-submit` are real; the test plays the kubelet, the node and the driver.
//!
//! ```text
//! tests/tools/cluster/cluster build --level api --tests
//! tests/tools/cluster/cluster up --level api
//! tests/tools/cluster/cluster exec -- cargo test --workspace --test it -- --ignored apiserver::
//! ```

/// Spark pods that pass the webhook.
mod admission;
/// An operator is installed and started while no webhook answers.
mod bootstrap;
/// The webhook's certificates.
mod certificates;
/// Any characters reach the pods unchanged.
mod characters;
mod chart;
/// The client library.
pub(crate) mod client;
/// Requests by which other programs create applications.
mod client_requests;
/// Servers of Spark Connect.
mod connects;
/// The operator is killed in the middle of a submission.
mod crash;
/// The API server stores the objects that users write, or refuses them with a reason.
mod definitions;
/// Manifests that are applied repeatedly.
mod edits;
/// Each request of the operator and of `spark-submit` to the API server fails, in every way.
pub(crate) mod faults;
/// An operator that starts in a cluster with many applications.
pub(crate) mod fleet;
/// Certificates that others manage, such as cert-manager.
mod foreign_certificates;
/// PodGroups for batch schedulers.
pub(crate) mod gangs;
/// The API server does a TLS handshake with every new certificate of the webhook.
pub(crate) mod handshakes;
/// Objects that are hard to parse.
mod hostile;
/// A cluster that is not set up for the operator.
mod installation;
/// One of several replicas leads, and another takes over.
mod leadership;
/// An application from its submission to its end.
mod life;
/// Deletion, conflicts, finalizers and other effects on an application.
mod lifecycle;
/// The requests that many applications of ten tenants cost.
pub(crate) mod load;
/// The contents of logs and metrics.
mod logs_and_metrics;
/// The metrics of a day with applications of all outcomes.
mod metrics;
/// Drivers that the operator creates itself, without `spark-submit`.
mod native;
/// The API server is unreachable for a while.
pub(crate) mod outage;
/// The page, with the rights of each caller.
pub(crate) mod page;
/// A bug of the operator affects only the objects that trigger it.
mod panics;
/// The webhook's patches, applied by the API server's JSON patch library.
mod patches;
/// `spark-submit` creates the objects that `sparkctl render` predicts.
mod predicted;
/// Applications that exceed a ResourceQuota of their namespace.
mod quota;
/// The recorded reviews are what the API server sends.
mod recordings;
/// Applications that can never work.
mod refusals;
/// Replicas that are restarted.
pub(crate) mod restarts;
mod rights;
/// Certificates are replaced.
pub(crate) mod rotation;
/// Applications that are created at the times of a schedule.
pub(crate) mod schedules;
/// Applications in selected namespaces only.
mod selected_namespaces;
/// The operator stops on SIGTERM.
mod shutdown;
/// The admin's configuration files of Spark and Hadoop.
mod spark_files;
/// The output of `sparkctl list` and `sparkctl render`.
mod sparkctl;
/// The output of `sparkctl` at a terminal.
mod sparkctl_at_a_terminal;
/// Everything that can happen to submission pods, and the effect on their applications.
mod submission;
/// A release of Kubeflow's chart is upgraded to this chart.
pub(crate) mod switch;
/// Ways in which tenants could get the operator's rights.
mod tenants;
/// Uploads of local files by `sparkctl create`.
mod uploads;
/// Validation refuses exactly what the API server refuses.
mod validation_agreement;
/// The effects and errors of the verbs of `sparkctl`.
mod verbs;

/// Applications for tests.
pub(crate) mod applications;
/// Spark pods that are created continuously, none of which may be refused.
pub(crate) mod arrivals;
/// A load balancer for several replicas.
pub(crate) mod balancer;
/// The requests, bytes and memory that an application costs.
mod budget;
/// Requests of a test to the API server.
pub(crate) mod calls;
/// Runs Helm.
pub(crate) mod helm;
/// Runs `kubectl`.
pub(crate) mod kubectl;
/// Plays the kubelet.
pub(crate) mod kubelet;
/// The namespace of a test.
pub(crate) mod namespace;
/// Other admission webhooks.
pub(crate) mod neighbour;
/// The operator's process.
pub(crate) mod operator;
/// Admission policies of the API server.
pub(crate) mod policy;
/// The names that most of these tests use.
pub(crate) mod prelude;
/// The processes of this machine.
mod processes;
/// A proxy that holds requests to the API server and ends connections when a test asks for it.
pub(crate) mod proxy;
/// How the API server reaches the webhook.
pub(crate) mod route;
/// Plays the Spark driver.
pub(crate) mod spark;
/// Plays a node that runs submission pods.
pub(crate) mod submission_node;

use std::time::{Duration, Instant};

/// The maximum time that a test waits for something: ten times the longest measured wait, which was for a
/// `spark-submit` that shares two cores with another.
const DEADLINE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(100);
/// How long a test waits before it asserts that something has not happened, such as the creation of a second driver.
pub(crate) const A_WHILE: Duration = Duration::from_secs(1);

/// Calls `look` until `look` returns `Ok`, and returns the value. Panics after [`DEADLINE`], with the last `Err`, which
/// describes the state that was seen instead.
pub(crate) async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => {
                assert!(
                    Instant::now() < deadline,
                    "after {DEADLINE:?} still not true: {what}\nlast seen: {seen}"
                );
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[expect(clippy::disallowed_methods, reason = "the API server checks from when on a certificate is valid")]
pub(crate) fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Returns `Ok` if `condition` holds, otherwise `instead` as text: the state that was seen instead.
pub(crate) fn seen(condition: bool, instead: impl std::fmt::Debug) -> Result<(), String> {
    if condition { Ok(()) } else { Err(format!("{instead:?}")) }
}
