//! Defines bugs that the exploration must find. Each bug is made on purpose: in the input of the decision core, in its
//! plan, or in how the plan is carried out.

use crate::budget::listed;
use api::ScheduledSparkApplication;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schedules::{Action, Observed, Plan};

listed! {
    pub enum Mutation {
        /// An application is named after the moment at which it is created instead of its slot, and the operator does not
        /// check whether the application of the slot was created already.
        NamedByNow,
        /// An application is started without a check that the operator's copy of the schedule is current.
        NotCheckedLive,
        /// Applications whose start is not recorded yet are pruned.
        UnrecordedPruned,
        /// The operator forgets the applications that it has created and that are gone.
        DepartedForgotten,
        StatusBeforeActions,
        /// The operator does not wait for pods of applications that are gone.
        PodsIgnored,
        /// An application that is being deleted counts as gone.
        GoingTakenForGone,
        /// After an edit the slots are counted from now, even if a later moment is recorded because the clock was ahead.
        EditedFromNow,
        /// That the schedule was suspended is not recorded.
        SuspensionForgotten,
        /// An application of another owner is taken for the schedule's own.
        ForeignTakenForOurs,
        /// The trigger that was acted on is not recorded.
        TriggerNotNoted,
        /// An application that is to be replaced is deleted although its own start is not recorded.
        UnrecordedReplaced,
        /// Slots that were dealt with are not recorded.
        HandledNotRecorded,
        /// After a lost response, the operator does not check whether the application was created.
        LostAnswerForgotten,
        /// What becomes of a slot or a trigger is not counted.
        NotCounted,
    }
}

impl Mutation {
    /// Applies the bug to the input of the decision core.
    pub fn of_question(self, schedule: &mut ScheduledSparkApplication, seen: &mut Observed) {
        match self {
            Self::DepartedForgotten => seen.departed.clear(),
            Self::PodsIgnored => seen.has_pods = false,
            Self::GoingTakenForGone => {
                seen.children.retain(|child| !child.is_going);
            }
            Self::SuspensionForgotten => {
                if let Some(status) = &mut schedule.status {
                    status.suspended = false;
                }
            }
            _ => {}
        }
    }

    /// Applies the bug to the plan of the decision core.
    pub fn of_plan(
        self,
        schedule: &ScheduledSparkApplication,
        seen: &Observed,
        now: Timestamp,
        plan: &mut Plan,
    ) {
        let before = schedule.status.clone().unwrap_or_default();
        let mut delete = |is_to_go: fn(bool) -> bool| {
            for child in seen.children.iter().filter(|child| is_to_go(child.is_over()) && !child.is_going) {
                let action = Action::Delete {
                    name: child.name.clone(),
                    uid: child.uid.clone(),
                    resource_version: child.resource_version.clone(),
                };
                if !plan.actions.contains(&action) {
                    plan.actions.push(action);
                }
            }
        };
        match self {
            Self::UnrecordedPruned => delete(|is_over| is_over),
            Self::UnrecordedReplaced if plan.status.last_run_name != before.last_run_name => {
                delete(|is_over| !is_over);
            }
            Self::EditedFromNow if plan.status.observed_schedule != before.observed_schedule => {
                plan.status.handled_until = Some(Time(now));
            }
            Self::NotCounted => plan.outcomes.clear(),
            Self::TriggerNotNoted => plan.status.last_trigger = before.last_trigger,
            Self::HandledNotRecorded if before.handled_until.is_some() => {
                plan.status.handled_until = before.handled_until;
            }
            _ => {}
        }
    }
}
