//! The states of executors, and what became of executors that are gone.

use crate::{
    driver,
    events::{self, Event},
    pod_record::{Phase, PodRecord},
};
use api::{ExecutorState, State};
use jiff::Timestamp;
use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

/// How much `status.executorState` may hold: a status is written whole and must fit into etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutorLimits {
    /// How many executors.
    pub count: usize,
    /// How many bytes of names and states.
    pub bytes: usize,
}

impl Default for ExecutorLimits {
    /// KF's number of executors. Etcd takes 1.5 MiB; so much is 4,000 executors with names of 50 bytes.
    fn default() -> Self {
        Self { count: 1000, bytes: 256 * 1024 }
    }
}

/// How long an executor may take to start before it is news that it has not: most have started by then, and are
/// written and told of once.
const STARTING: Duration = Duration::from_secs(5);

/// How long until the first of `pods` that has just been made has had its time to start.
#[must_use]
pub fn starting(pods: &[PodRecord], now: Timestamp) -> Option<Duration> {
    pods.iter().filter_map(|pod| time_to_start(pod, now)).min()
}

/// How long a pod still has to start; none of one that has started, or has had its time.
fn time_to_start(pod: &PodRecord, now: Timestamp) -> Option<Duration> {
    pod.created.filter(|_| pod.phase == Phase::Pending)?;
    STARTING.checked_sub(driver::age(pod, now)).filter(|rest| !rest.is_zero())
}

/// What an entry takes beside name and state: quotes, colon, comma.
const PUNCTUATION: usize = 6;

/// `status.executorState` after `pods` were seen, with an event for every kind of change.
///
/// An executor that has not ended and is no longer there ended well if the application did, is unknown while
/// the application runs (its pod was replaced, or the cache is behind), and otherwise failed. Where there are more
/// than `limits` allow, those that live stay, and of the others the latest.
#[must_use]
pub fn executor_states(
    recorded: &BTreeMap<String, ExecutorState>,
    pods: &[PodRecord],
    application: State,
    now: Timestamp,
    limits: ExecutorLimits,
) -> (BTreeMap<String, ExecutorState>, Vec<Event>) {
    let mut states = recorded.clone();
    let seen: BTreeMap<&str, &PodRecord> = pods.iter().map(|pod| (pod.name.as_str(), pod)).collect();
    for pod in pods.iter().filter(|pod| time_to_start(pod, now).is_none()) {
        states.insert(pod.name.clone(), state(pod));
    }
    let missing = match application {
        State::Submitted | State::Running | State::Unknown => ExecutorState::Unknown,
        State::Succeeding | State::Completed => ExecutorState::Completed,
        _ => ExecutorState::Failed,
    };
    for (name, state) in &mut states {
        if !has_ended(*state) && !seen.contains_key(name.as_str()) {
            *state = missing;
        }
    }
    let states = within(states, limits);
    let changed = states
        .iter()
        .filter(|(name, state)| recorded.get(*name) != Some(state))
        .filter_map(|(name, state)| Some((*seen.get(name.as_str())?, *state)));
    let mut told: BTreeMap<(ExecutorState, Option<String>), Vec<&str>> = BTreeMap::new();
    for (pod, state) in changed {
        let mut what = (state, (state == ExecutorState::Failed).then(|| failure(pod)));
        if !told.contains_key(&what) && told.len() >= DIFFERENT_EVENTS {
            what.1 = None;
        }
        told.entry(what).or_default().push(&pod.name);
    }
    let events =
        told.iter().map(|((state, failure), pods)| events::executors(pods, *state, failure.as_deref()));
    (states, events.collect())
}

/// Executors fail for as many reasons as there are executors; a handful is told of at once.
const DIFFERENT_EVENTS: usize = 8;

/// As many of `states` as may be recorded.
fn within(
    states: BTreeMap<String, ExecutorState>,
    limits: ExecutorLimits,
) -> BTreeMap<String, ExecutorState> {
    if states.len() <= limits.count && states.keys().map(|name| size(name)).sum::<usize>() <= limits.bytes {
        return states;
    }
    let mut states: Vec<_> = states.into_iter().collect();
    states.sort_by_key(|(name, state)| (has_ended(*state), Reverse(number(name))));
    let mut bytes = 0;
    let fits = |(name, _): &(String, ExecutorState)| {
        bytes += size(name);
        bytes <= limits.bytes
    };
    states.into_iter().take(limits.count).take_while(fits).collect()
}

/// How many executors are in `state` in `after` that were not in `before`, both recorded within `limits`. Where
/// that was full, one that is not known may be one that had to leave: Spark counts them up, so a newer one is new.
#[must_use]
pub fn newly(
    state: ExecutorState,
    before: &BTreeMap<String, ExecutorState>,
    after: &BTreeMap<String, ExecutorState>,
    limits: ExecutorLimits,
) -> u64 {
    let bytes: usize = before.keys().map(|name| size(name)).sum();
    let longest = before.keys().map(|name| size(name)).max().unwrap_or_default();
    let was_full = before.len() >= limits.count || bytes + longest > limits.bytes;
    let latest = before.keys().map(|name| number(name)).max().filter(|_| was_full);
    let is_new = |name: &str| match before.get(name) {
        Some(known) => *known != state,
        None => latest.is_none_or(|latest| number(name) > latest),
    };
    let found = after.iter().filter(|(name, now)| **now == state && is_new(name));
    u64::try_from(found.count()).unwrap_or(u64::MAX)
}

/// How much of the limit an executor takes.
fn size(name: &str) -> usize {
    name.len() + "COMPLETED".len() + PUNCTUATION
}

/// The number at the end of an executor's name, which Spark counts up.
fn number(name: &str) -> u64 {
    name.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or_default()
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
#[must_use]
pub fn state(pod: &PodRecord) -> ExecutorState {
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

/// Why an executor failed, in KF's words.
fn failure(pod: &PodRecord) -> String {
    let message = pod.message.as_deref().unwrap_or_default();
    let (exit_code, reason) = match &pod.ended {
        Some(ended) => (ended.exit_code, ended.reason.as_str()),
        None => (-1, "Unknown (Container not Found)"),
    };
    format!("failed with ExitCode: {exit_code}, Reason: {reason}, Pod Message: {message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executor_that_had_to_leave_and_comes_back_has_not_ended_again() {
        let map = |states: &[(&str, ExecutorState)]| -> BTreeMap<String, ExecutorState> {
            states.iter().map(|(name, state)| ((*name).to_owned(), *state)).collect()
        };
        let (failed, running) = (ExecutorState::Failed, ExecutorState::Running);
        let limits = ExecutorLimits { count: 2, ..ExecutorLimits::default() };
        let full = map(&[("a-2", running), ("a-3", running)]);
        let after = map(&[("a-1", failed), ("a-4", failed)]);
        assert_eq!(newly(failed, &full, &after, limits), 1, "the fourth");
        assert_eq!(newly(failed, &map(&[("a-2", running)]), &after, limits), 2, "there was room for both");
    }
}
