//! Determines the state of each executor, also of executors whose pods no longer exist.

use crate::{
    driver,
    events::{self, Event},
    extension::View,
};
use api::{ExecutorState, State};
use pods::PodSummary;
use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

/// The greatest number of executors in `status.executorState` unless the admin sets another one, as in Kubeflow's operator. A
/// status is always written completely and must fit into etcd.
pub const MOST_EXECUTORS: usize = 1000;
/// The greatest number of bytes that the names and states of executors take in a status. etcd accepts 1.5 MiB; 256 KiB
/// are enough for 4,000 executors with names of 50 bytes.
const MOST_BYTES: usize = 256 * 1024;

/// The states of executors, by the names of their pods.
type States = BTreeMap<String, ExecutorState>;

/// How long a new pending executor is left out of the status and the events. Most executors start within this time, and
/// then cause one status write and one event instead of two.
const STARTING: Duration = Duration::from_secs(5);

/// Returns how long a pod may still be pending before it appears in the status; `None` if the pod has started or has
/// been pending for [`STARTING`].
pub(super) fn time_to_start(pod: &PodSummary, now: jiff::Timestamp) -> Option<Duration> {
    pod.created.filter(|_| pod.state() == ExecutorState::Pending)?;
    STARTING.checked_sub(driver::age(pod, now)).filter(|rest| !rest.is_zero())
}

/// Returns the new `status.executorState` for the present `pods`, and an event for every kind of change.
///
/// An executor that had not ended and whose pod no longer exists counts as completed if the application completed, as
/// unknown while the application runs (the pod was replaced, or the cache is behind), and otherwise as failed. If there
/// are more executors than the admin allows, or than there is room for, the executors that have not ended are kept first,
/// and then those of the ended executors that were created last.
pub(super) fn executor_states(view: &View<'_>, recorded: &States, state: State) -> (States, Vec<Event>) {
    let (pods, now) = (&view.seen.executors, view.now);
    let mut states = recorded.clone();
    let seen: BTreeMap<&str, &PodSummary> = pods.iter().map(|pod| (pod.name.as_str(), pod)).collect();
    for pod in pods.iter().filter(|pod| time_to_start(pod, now).is_none()) {
        states.insert(pod.name.clone(), pod.state());
    }
    let missing = match state {
        State::Submitted | State::Running | State::Unknown => ExecutorState::Unknown,
        State::Succeeding | State::Completed => ExecutorState::Completed,
        _ => ExecutorState::Failed,
    };
    for (name, state) in &mut states {
        if !has_ended(*state) && !seen.contains_key(name.as_str()) {
            *state = missing;
        }
    }
    let states = within(states, view.policy.executor_limit);
    let changed = states.iter().filter(|(name, state)| recorded.get(*name) != Some(state));
    let changed = changed.filter_map(|(name, state)| Some((*seen.get(name.as_str())?, *state)));
    let mut reported: BTreeMap<(ExecutorState, Option<String>), Vec<&str>> = BTreeMap::new();
    for (pod, state) in changed {
        let why = match state {
            ExecutorState::Failed => Some(failure(pod)),
            ExecutorState::Pending => pod.waiting_for(),
            ExecutorState::Running | ExecutorState::Completed | ExecutorState::Unknown => None,
        };
        let mut what = (state, why);
        if !reported.contains_key(&what) && reported.len() >= DIFFERENT_EVENTS {
            what.1 = None;
        }
        reported.entry(what).or_default().push(&pod.name);
    }
    let events = reported.iter().map(|((state, why), pods)| events::executors(pods, *state, why.as_deref()));
    (states, events.collect())
}

/// How many different events are sent at once. There can be as many reasons as there are executors; beyond this number,
/// executors that have failed or wait are reported without their reasons.
const DIFFERENT_EVENTS: usize = 8;

/// Returns as many of `states` as may be recorded.
fn within(states: States, limit: usize) -> States {
    let most = most(&states, limit);
    if states.len() <= most {
        return states;
    }
    let mut states: Vec<_> = states.into_iter().collect();
    states.sort_by_key(|(name, state)| (has_ended(*state), Reverse(number(name))));
    states.into_iter().take(most).collect()
}

/// Returns how many of `states` may be recorded: `limit`, or fewer if [`MOST_BYTES`] has no room for `limit` entries
/// with the longest of the names. All states count as long as `COMPLETED`, so that the number does not change with
/// them.
fn most(states: &States, limit: usize) -> usize {
    let longest = states.keys().map(|name| name.len() + r#""":"COMPLETED","#.len()).max();
    longest.map_or(limit, |longest| limit.min(MOST_BYTES / longest))
}

/// Returns how many executors are in `state` in `after` and were not in `before`; both were recorded with this limit.
/// If `before` was full, an executor that is missing from it may have been dropped for lack of room. Spark numbers
/// executors in ascending order, so in that case only an executor with a higher number than all in `before` counts as
/// new.
pub fn newly(state: ExecutorState, before: &States, after: &States, limit: usize) -> u64 {
    let was_full = before.len() >= most(before, limit);
    let latest = before.keys().map(|name| number(name)).max().filter(|_| was_full);
    let is_new = |name: &str| match before.get(name) {
        Some(known) => *known != state,
        None => latest.is_none_or(|latest| number(name) > latest),
    };
    let found = after.iter().filter(|(name, now)| **now == state && is_new(name));
    u64::try_from(found.count()).unwrap_or(u64::MAX)
}

/// Returns the number at the end of an executor's name. Spark numbers executors in ascending order.
fn number(name: &str) -> u64 {
    name.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// Returns Spark's application id, as the labels of the executors contain it. The driver's own label is wrong if
/// `spark.app.id` was set (SPARK-25922).
pub fn spark_application_id(pods: &[PodSummary]) -> Option<String> {
    let known = pods.iter().filter(|pod| pod.spark_application_id.is_some());
    known.min_by_key(|pod| (pod.executor_id, &pod.name))?.spark_application_id.clone()
}

const fn has_ended(state: ExecutorState) -> bool {
    matches!(state, ExecutorState::Completed | ExecutorState::Failed)
}

/// Returns why an executor failed, in the words of Kubeflow's operator.
fn failure(pod: &PodSummary) -> String {
    let message = pod.message.as_deref().unwrap_or_default();
    let end = match &pod.ended {
        Some(ended) => driver::end(pod, ended),
        None => "ExitCode: -1, Reason: Unknown (Container not Found)".to_owned(),
    };
    format!("failed with {end}, Pod Message: {message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executor_that_was_dropped_for_lack_of_room_is_not_new_later() {
        let map = |states: &[(&str, ExecutorState)]| -> States {
            states.iter().map(|(name, state)| ((*name).to_owned(), *state)).collect()
        };
        let (failed, running) = (ExecutorState::Failed, ExecutorState::Running);
        let full = map(&[("a-2", running), ("a-3", running)]);
        let after = map(&[("a-1", failed), ("a-4", failed)]);
        assert_eq!(newly(failed, &full, &after, 2), 1, "a-4 alone is new");
        assert_eq!(newly(failed, &map(&[("a-2", running)]), &after, 2), 2, "not full: both are new");
    }
}
