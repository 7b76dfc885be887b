//! Defines seeded bugs, which the exploration must find. Each changes the input of the decision core, its plan, or how
//! the model carries out the plan.

use crate::budget::listed;
use api::ScheduledSparkApplication;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schedules::{Action, Observed, Plan};

listed! {
    pub enum Mutation {
        /// The name of an application does not depend on its slot but on the time of its creation, and the operator
        /// does not check whether the application of the slot was created already.
        NamedByNow,
        /// An application is started without a check that the operator's copy of the schedule is current.
        NotCheckedLive,
        /// The history limit also deletes applications whose start is not recorded yet.
        UnrecordedPruned,
        /// The operator forgets applications that it has created as soon as they no longer exist.
        DepartedForgotten,
        /// The status is written before the actions are carried out.
        StatusBeforeActions,
        /// The operator does not wait for pods of applications that no longer exist.
        PodsIgnored,
        /// An application that is being deleted counts as deleted.
        GoingTakenForGone,
        /// After an edit, `handledUntil` is set to the present time, even if it was later because the clock was ahead.
        EditedFromNow,
        /// The decision core does not see that the schedule was suspended before.
        SuspensionForgotten,
        /// An application of another owner counts as the schedule's own.
        ForeignTakenForOurs,
        /// A trigger that was handled is not recorded.
        TriggerNotNoted,
        /// An application that is to be replaced is deleted although its own start is not recorded yet.
        UnrecordedReplaced,
        /// `handledUntil` does not advance after slots were handled.
        HandledNotRecorded,
        /// After a lost response, the operator does not check whether the application was created.
        LostAnswerForgotten,
        /// The outcomes of slots and triggers are not counted.
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
