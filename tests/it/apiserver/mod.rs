//! Does it work against a real API server? Definitions, permissions, webhook and Spark's own `spark-submit`
//! are real; the test plays kubelet, node and driver.
//!
//! ```text
//! tests/cluster/cluster up --level api
//! tests/cluster/cluster exec -- cargo test --test it -- --ignored apiserver::
//! ```

/// Pods on their way in.
mod admission;
/// Nobody answers the webhook, and an operator is to start.
mod bootstrap;
/// The webhook's certificates.
mod certificates;
/// Strings that are hard to carry.
mod characters;
/// Some namespaces only.
mod chosen;
/// The client library.
pub(crate) mod client;
/// The operator is killed at bad moments.
mod crash;
/// What users write is stored, or refused with a reason.
mod definitions;
/// What can go wrong with an application.
mod failures;
/// Every call goes wrong, in every way.
pub(crate) mod faults;
/// An operator that starts among thousands of applications.
pub(crate) mod fleet;
/// Certificates of others.
mod foreign;
/// The API server sees every certificate.
pub(crate) mod handshakes;
/// Objects that are hard to read.
mod hostile;
/// A cluster that is not set up for the operator.
mod installation;
/// An object that cannot be read.
mod invalid;
/// Several replicas.
mod leadership;
/// An application from its submission to its end.
mod life;
/// Retries, edits, suspension, deletion and whatever else may happen to an application.
mod lifecycle;
/// Many applications of ten tenants.
pub(crate) mod load;
/// The numbers of a long day.
mod metrics;
/// Drivers that are made without `spark-submit`.
mod native;
/// Logs and metrics.
mod observed;
/// The API server goes away.
pub(crate) mod outage;
/// A bug that is met at one object.
mod panics;
/// The API server's JSON patch.
mod patches;
/// What `spark-submit` really creates.
mod predicted;
/// Applications for which there is no room.
mod quota;
/// What the API server sends.
mod recordings;
/// Applications that can never work.
mod refusals;
/// Other webhooks that change pods after ours.
mod reinvocation;
/// Replicas that are restarted.
mod restarts;
/// Certificates are replaced.
pub(crate) mod rotation;
/// Applications that are made at set times.
pub(crate) mod schedules;
/// `sparkctl` at a terminal.
mod screen;
/// SIGTERM.
mod signals;
/// What `spark-submit` reads.
mod spark_files;
/// `sparkctl`.
mod sparkctl;
/// What happens to submission pods, and to their applications.
mod submission;
/// Ways by which tenants would get the operator's rights.
mod tenants;
/// More to do than can be done.
mod turns;
/// Files of the machine on which an application is created.
mod uploads;
/// The verbs of `sparkctl`.
mod verbs;

/// Applications for tests.
pub(crate) mod applications;
/// Pods that are never refused.
pub(crate) mod arrivals;
/// What chooses among replicas.
mod balancer;
/// The cost of an application's life.
mod budget;
/// Calls of a test to the API server.
mod calls;
/// `kubectl`.
pub(crate) mod kubectl;
/// A kubelet, as far as the API server sees one.
pub(crate) mod kubelet;
/// Where a test lives.
pub(crate) mod namespace;
/// Other admission webhooks.
mod neighbour;
/// The operator's process.
pub(crate) mod operator;
/// A cluster's policy that refuses pods.
mod policy;
/// The processes of this machine.
mod processes;
/// An API server that cannot be reached at bad moments.
pub(crate) mod proxy;
/// How the API server finds the webhook.
pub(crate) mod route;
/// A Spark driver, as far as the API server sees one.
mod spark;
/// A node that runs submission pods.
pub(crate) mod submission_node;

use std::time::{Duration, Instant};

/// Ten times what the slowest of them takes here, a `spark-submit` that shares two cores with another.
const DEADLINE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(100);

/// Looks until `look` gives `Ok`, and gives that. An `Err` is what was seen instead, for the message if the
/// deadline passes.
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

/// `Ok` if `condition` holds, otherwise what is there instead.
pub(crate) fn seen(condition: bool, instead: impl std::fmt::Debug) -> Result<(), String> {
    if condition { Ok(()) } else { Err(format!("{instead:?}")) }
}
