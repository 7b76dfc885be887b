//! Decides which ended applications of a schedule are kept.

use super::{Observed, Plan, events, run::Child, trigger};
use api::{ScheduledSparkApplication, State};
use std::cmp::Reverse;

/// How many completed and how many failed applications are kept if the schedule sets no limit: the default of
/// Kubeflow's operator.
const KEPT: i32 = 1;

/// Deletes the oldest ended applications of the schedule, by their creation time, and writes the names of the others to
/// the status.
pub(super) fn prune(schedule: &ScheduledSparkApplication, seen: &Observed, plan: &mut Plan) {
    // Returns the names of the applications in this state that are kept, newest first, and the applications that are to be
    // deleted.
    let kept = |state: State, limit: Option<i32>| -> (Vec<String>, Vec<&Child>) {
        let ended = seen.children.iter().filter(|child| child.state == state && !child.is_going);
        let mut ended: Vec<_> = ended.collect();
        ended.sort_by_key(|child| Reverse((child.created, &child.name)));
        let limit = usize::try_from(limit.unwrap_or(KEPT)).unwrap_or_default();
        let is_kept = |(place, child): &(usize, &Child)| *place < limit || !is_recorded(schedule, child);
        let (kept, pruned): (Vec<_>, Vec<_>) = ended.into_iter().enumerate().partition(is_kept);
        let names = kept.into_iter().map(|(_, child)| child.name.clone());
        (names.collect(), pruned.into_iter().map(|(_, child)| child).collect())
    };
    let (completed, pruned) = kept(State::Completed, schedule.spec.successful_run_history_limit);
    let (failed, more) = kept(State::Failed, schedule.spec.failed_run_history_limit);
    let pruned = [pruned, more].concat();
    plan.status.past_successful_run_names = completed;
    plan.status.past_failed_run_names = failed;
    if !pruned.is_empty() {
        plan.actions.extend(pruned.iter().map(|child| child.delete()));
        let names: Vec<_> = pruned.iter().map(|child| child.name.as_str()).collect();
        plan.events.push(events::pruned(names.join(", ")));
    }
}

/// Whether the status records that the application was created. Until then the application itself is the only record of
/// that, and is not deleted.
pub(super) fn is_recorded(schedule: &ScheduledSparkApplication, child: &Child) -> bool {
    let status = schedule.status.as_ref();
    let handled = status.and_then(|status| status.handled_until.as_ref());
    let by_slot = child.slot.is_none_or(|slot| handled.is_some_and(|until| slot <= until.0));
    let is_asked_for = child.trigger.is_some() && child.trigger.as_ref() == trigger(schedule);
    let by_trigger = !is_asked_for || status.is_some_and(|status| status.last_trigger == child.trigger);
    by_slot && by_trigger
}
