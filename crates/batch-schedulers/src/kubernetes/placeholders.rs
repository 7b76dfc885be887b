//! Reconciles the placeholders of a gang: those of previous runs are deleted, those that are lost are created again, and
//! the others are exchanged for executors.

use super::{is_gated, is_placeholder, placeholder_exchanges::Gang};
use crate::{group_of, wanted_placeholders};
use api::State;
use jiff::{SignedDuration, Timestamp};
use plan::{Action, Plan, extension::AT_ONCE};
use pods::{Phase, PodSummary};
use std::{collections::BTreeSet, time::Duration};

/// The maximum time for which a placeholder waits for its executor, from when its driver was placed. Spark creates the
/// first executors within seconds after the driver has started, unless it cannot.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_mins(10);
/// The time after which a missing placeholder counts as lost, from the creation of its driver. A watch that works
/// reports pods earlier than that.
const LOST: SignedDuration = SignedDuration::from_secs(30);
/// The pause before lost placeholders are created once more, if their creation has failed.
const RETRY: Duration = Duration::from_secs(30);
/// The pause before the remaining actions, if there are more than [`AT_ONCE`].
const NEXT_BATCH: Duration = Duration::from_secs(1);

impl Gang<'_> {
    /// Adds the next actions for the placeholders and the gated executors of the application, at most [`AT_ONCE`].
    pub(crate) fn amend(&self, plan: &mut Plan) {
        let most = plan.actions.len() + AT_ONCE;
        self.all_steps(plan);
        if plan.actions.len() > most {
            plan.actions.truncate(most);
            plan.wake = plan.wake.into_iter().chain([NEXT_BATCH]).min();
        }
    }

    /// Adds all of these actions, however many they are.
    fn all_steps(&self, plan: &mut Plan) {
        let state = plan.status.application_state.state;
        let has_gated = self.view.seen.executors.iter().any(is_gated);
        // A run whose placeholders are all lost has only a driver, which waits in a group.
        let is_grouped = self.view.driver().is_some_and(|driver| group_of(driver).is_some());
        if self.view.seen.others.is_empty() && !has_gated && !is_grouped {
            return;
        }
        let Some(run) = plan.status.submission_id.clone().filter(|_| state.is_followed()) else {
            // A submission may be creating placeholders of the next run in these states.
            let is_next =
                matches!(state, State::New | State::PendingRerun | State::Resuming | State::SubmissionFailed);
            let next = is_next.then(|| submission::run::Run::next(self.view.application).id.to_string());
            let others = self.placeholders().filter(|pod| next.is_none() || pod.submission_id != next);
            plan.actions.extend(others.filter_map(Action::delete));
            // An executor with the gate would never start, and never end. The plan may already delete some of them.
            let gated =
                self.view.seen.executors.iter().filter(|pod| is_gated(pod)).filter_map(Action::delete);
            let gated: Vec<_> = gated.filter(|action| !plan.actions.contains(action)).collect();
            plan.actions.extend(gated);
            return;
        };
        let is_of_run = |pod: &&PodSummary| pod.submission_id.as_ref() == Some(&run);
        plan.actions.extend(self.placeholders().filter(|pod| !is_of_run(pod)).filter_map(Action::delete));
        let placeholders: Vec<_> = self.placeholders().filter(is_of_run).collect();
        self.exchange(&placeholders, plan);
        self.give_up_waiting(&placeholders, plan);
        self.replace_lost(&run, plan);
    }

    /// Returns the application's placeholders, of all runs.
    fn placeholders(&self) -> impl Iterator<Item = &PodSummary> {
        let all = self.view.seen.others.iter().filter(|pod| is_placeholder(pod));
        all.filter(|pod| pod.is_controlled_by(self.view.uid()))
    }

    /// Deletes the placeholders whose executors have not been created in time.
    fn give_up_waiting(&self, placeholders: &[&PodSummary], plan: &mut Plan) {
        let created: BTreeSet<_> = self.gated().map(|(pod, _)| pod.executor_id).collect();
        let is_waiting = |pod: &&&PodSummary| !pod.terminating && !created.contains(&pod.executor_id);
        let waiting: Vec<_> = placeholders.iter().filter(is_waiting).collect();
        let placed = self.view.driver().and_then(|driver| driver.assigned);
        if waiting.is_empty() || placed.is_none() {
            return;
        }
        match self.rest(placed, LONGEST_WAIT) {
            None => plan.actions.extend(waiting.into_iter().filter_map(|pod| Action::delete(pod))),
            rest => plan.wake = plan.wake.into_iter().chain(rest).min(),
        }
    }

    /// Creates placeholders again that were deleted before the gang was placed: without them, it would never be placed.
    fn replace_lost(&self, run: &str, plan: &mut Plan) {
        let Some(driver) = self.view.driver() else { return };
        if driver.phase != Phase::Pending || driver.assigned.is_some() || driver.terminating {
            return;
        }
        let Some(copies) = wanted_placeholders(&self.view, run) else { return };
        let there: BTreeSet<_> = self.view.seen.others.iter().map(|pod| &*pod.name).collect();
        let mut numbers = copies.missing(|name| there.contains(name));
        numbers.truncate(AT_ONCE);
        if numbers.is_empty() {
            return;
        }
        let rest = self.rest(driver.created, LOST);
        if rest.is_none() {
            plan.actions.push(Action::MakeCopies { copies: Box::new(copies), numbers });
        }
        plan.wake = plan.wake.into_iter().chain(rest.or(Some(RETRY))).min();
    }

    /// Returns the time until `duration` has elapsed since `then`; `None` if it has, or if `then` is not known.
    pub(super) fn rest(&self, then: Option<Timestamp>, duration: SignedDuration) -> Option<Duration> {
        let rest = duration - self.view.now.duration_since(then?);
        Duration::try_from(rest).ok().filter(|rest| !rest.is_zero())
    }
}
