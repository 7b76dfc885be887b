//! In which state is each executor, and what became of those that are no longer there?

use crate::{
    api::{ExecutorState, State},
    plan::{
        events::{self, Event},
        pod_record::{Phase, PodRecord},
    },
};
use std::collections::BTreeMap;

/// `status.executorState` after `pods` were seen, with an event for every change.
///
/// An executor that has not ended and is no longer there ended well if the application did, is unknown while
/// the application runs (its pod was replaced, or the cache is behind), and otherwise failed.
#[must_use]
pub fn executor_states(
    recorded: &BTreeMap<String, ExecutorState>,
    pods: &[PodRecord],
    application: State,
) -> (BTreeMap<String, ExecutorState>, Vec<Event>) {
    let mut states = recorded.clone();
    let mut events = Vec::new();
    for pod in pods {
        let state = state(pod);
        if states.insert(pod.name.clone(), state) != Some(state) {
            events.push(event(pod, state));
        }
    }
    let missing = match application {
        State::Submitted | State::Running | State::Unknown => ExecutorState::Unknown,
        State::Succeeding | State::Completed => ExecutorState::Completed,
        _ => ExecutorState::Failed,
    };
    for (name, state) in &mut states {
        if !has_ended(*state) && !pods.iter().any(|pod| pod.name == *name) {
            *state = missing;
        }
    }
    (states, events)
}

/// Spark's application id as the executors know it. The driver's own label is wrong where `spark.app.id` was
/// set (SPARK-25922).
#[must_use]
pub fn spark_application_id(pods: &[PodRecord]) -> Option<String> {
    let first = pods
        .iter()
        .filter(|pod| pod.spark_application_id.is_some())
        .min_by_key(|pod| (pod.executor_id, &pod.name));
    first.and_then(|pod| pod.spark_application_id.clone())
}

/// As of a driver: once Spark's container has ended, its exit code decides, whatever sidecars still do.
fn state(pod: &PodRecord) -> ExecutorState {
    match (pod.phase, &pod.ended) {
        (Phase::Pending, _) => ExecutorState::Pending,
        (Phase::Running, None) => ExecutorState::Running,
        (Phase::Running | Phase::Failed, Some(ended)) if ended.exit_code == 0 => ExecutorState::Completed,
        (Phase::Running, Some(_)) | (Phase::Failed, _) => ExecutorState::Failed,
        (Phase::Succeeded, _) => ExecutorState::Completed,
        (Phase::Unknown, _) => ExecutorState::Unknown,
    }
}

const fn has_ended(state: ExecutorState) -> bool {
    matches!(state, ExecutorState::Completed | ExecutorState::Failed)
}

fn event(pod: &PodRecord, state: ExecutorState) -> Event {
    match state {
        ExecutorState::Pending => events::executor_pending(&pod.name),
        ExecutorState::Running => events::executor_running(&pod.name),
        ExecutorState::Completed => events::executor_completed(&pod.name),
        ExecutorState::Unknown => events::executor_unknown(&pod.name),
        ExecutorState::Failed => {
            let message = pod.message.as_deref().unwrap_or_default();
            match &pod.ended {
                Some(ended) => events::executor_failed(&pod.name, ended.exit_code, &ended.reason, message),
                None => events::executor_failed(&pod.name, -1, "Unknown (Container not Found)", message),
            }
        }
    }
}
