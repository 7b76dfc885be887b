//! Which bugs must the exploration find? Each is made on purpose, in what the core is told, in what it says, or in how
//! that is carried out.

use api::ScheduledSparkApplication;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::schedule::{Action, Observed, Plan};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// An application is called after the moment at which it is made, and whether it was made is not asked for.
    NamedByNow,
    /// A stale copy of the schedule is believed when something is started.
    NotCheckedLive,
    /// Applications are pruned whose start is not recorded yet.
    UnrecordedPruned,
    /// What this process has made and is gone is not remembered.
    DepartedForgotten,
    StatusBeforeActions,
    /// Pods of applications that are gone are not waited for.
    PodsIgnored,
    /// What is being deleted is taken for gone.
    GoingTakenForGone,
    /// An edited schedule is counted from now, whatever the clock showed before.
    EditedFromNow,
    /// That it was suspended is not written down.
    SuspensionForgotten,
    /// What is not ours is taken for ours.
    ForeignTakenForOurs,
    /// Which trigger was acted on is not written down.
    TriggerNotNoted,
    /// What is to be replaced is deleted though its own start is not recorded.
    UnrecordedReplaced,
    /// Slots that were dealt with are not recorded.
    HandledNotRecorded,
    /// Whether something was made, whose answer was lost, is not asked for.
    LostAnswerForgotten,
}

impl Mutation {
    pub const ALL: [Self; 14] = [
        Self::NamedByNow,
        Self::NotCheckedLive,
        Self::UnrecordedPruned,
        Self::DepartedForgotten,
        Self::StatusBeforeActions,
        Self::PodsIgnored,
        Self::GoingTakenForGone,
        Self::EditedFromNow,
        Self::SuspensionForgotten,
        Self::ForeignTakenForOurs,
        Self::TriggerNotNoted,
        Self::UnrecordedReplaced,
        Self::HandledNotRecorded,
        Self::LostAnswerForgotten,
    ];

    /// The exploration that finds it.
    pub const fn shows_in(self) -> &'static str {
        match self {
            Self::NamedByNow | Self::StatusBeforeActions | Self::ForeignTakenForOurs => "Allow",
            Self::SuspensionForgotten | Self::HandledNotRecorded => "its user",
            Self::UnrecordedPruned | Self::DepartedForgotten | Self::NotCheckedLive => "nothing kept",
            Self::LostAnswerForgotten => "Forbid",
            Self::PodsIgnored | Self::GoingTakenForGone => "Replace",
            Self::UnrecordedReplaced | Self::TriggerNotNoted => "triggered and replaced",
            Self::EditedFromNow => "clock put back",
        }
    }

    /// In what the core is told.
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

    /// In what the core says.
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
            Self::TriggerNotNoted => plan.status.last_trigger = before.last_trigger,
            Self::HandledNotRecorded if before.handled_until.is_some() => {
                plan.status.handled_until = before.handled_until;
            }
            _ => {}
        }
    }
}
