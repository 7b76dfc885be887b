//! Decides when an executor of a server is tried, and builds it, like [`plan::executor_trial`] for a run: while a
//! server is ready and has no executor, one like its own is sent to the API server as a dry run. Otherwise only the
//! server's log would say that a quota, a LimitRange, Pod Security or a policy refuses them.

use crate::{Observed, ServerPod, application::as_application, options::image};
use api::{
    Role, SparkConnect,
    names::{conf, connect_condition::SERVER_POD_READY, label, role},
};
use jiff::Timestamp;
use kube_core::ResourceExt;
use plan::{between, pod_requests::PodRequests};
use serde_json::{Value, json};
use std::time::Duration;
use validation::validate;

/// The time for which a server has to be ready before the first trial: Spark requests its executors when it starts, and
/// they usually exist by then.
const FIRST: Duration = Duration::from_secs(30);
/// The minimum and maximum pause between two trials for one server.
const PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Whether a trial is due: the server is ready, has no executor, and the pause is over. `tried` is the time of the last
/// trial.
pub fn is_trial_due(
    connect: &SparkConnect,
    seen: &Observed,
    tried: Option<Timestamp>,
    now: Timestamp,
) -> bool {
    let status = connect.status.as_ref();
    let ready = status.and_then(|status| status.true_condition(SERVER_POD_READY));
    let Some(since) = ready.map(|ready| ready.last_transition_time.0) else { return false };
    let works = seen.server.as_ref().is_some_and(|server| server.is_ready && !server.summary.terminating);
    let pause = tried.map_or(FIRST, |tried| pause(since, tried));
    works && seen.executors.is_empty() && between(tried.unwrap_or(since), now) >= pause
}

/// Returns the pause after a trial at the time `tried`, for a server that is ready since the time `since`: as long as
/// it has been ready, within [`PAUSE`] and [`LONGEST_PAUSE`].
pub(super) fn pause(since: Timestamp, tried: Timestamp) -> Duration {
    between(since, tried).clamp(PAUSE, LONGEST_PAUSE)
}

/// Returns a pod like the executors that `server` requests (with dynamic allocation: for its next job), before webhooks
/// change it. `None` if it requests none, if its pod allocator does not create pods directly, or if they cannot be
/// predicted.
pub fn executor(connect: &SparkConnect, server: &ServerPod) -> Option<Value> {
    let requests = PodRequests::of(&validate(&as_application(connect)).ok()?, "", "trials").ok()?;
    let has_none = !requests.is_dynamic && connect.spec.executor.instances == Some(0);
    if has_none || requests.greatest == 0 || requests.allocator != conf::DIRECT {
        return None;
    }
    let (mut planned, name) = (requests.executor, connect.name_any());
    let own =
        [(label::LAUNCHED_BY, "true"), (label::CONNECT_NAME, &*name), (label::SPARK_ROLE, role::EXECUTOR)];
    planned.labels.extend(own.map(|(key, value)| (key.to_owned(), value.to_owned())));
    planned.spec["restartPolicy"] = "Never".into();
    let image = image(connect.spec.executor.template.as_ref(), Role::Executor, connect.spec.image.as_ref())?;
    planned.spec["containers"][planned.sparks_container]["image"] = image.into();
    let ServerPod { summary, .. } = server;
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": summary.name, "uid": summary.uid, "controller": true});
    Some(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("{name}-exec-1"),
            "labels": planned.labels,
            "annotations": planned.annotations,
            "ownerReferences": [owner],
        },
        "spec": planned.spec,
    }))
}
