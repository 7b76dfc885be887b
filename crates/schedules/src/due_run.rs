//! Decides whether a due run of a schedule starts now, waits, or is skipped.

use super::{Action, Child, Observed, Occasion, Outcome, Pass, Plan, SOON, Skip, events, history};
use api::ConcurrencyPolicy;
use cron::Due;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::between;
use std::{collections::BTreeMap, fmt::Display, time::Duration};

/// The maximum number of applications of a schedule that have not ended: with one run a minute, each run may take 50
/// minutes. Without this limit, a schedule whose runs start faster than they end would create more and more
/// applications.
const MOST_UNFINISHED: usize = 50;
/// The maximum pause before the pods of a deleted application are looked up again. Each look-up lists the pods of the
/// namespace, and the pods of a lost node stay until somebody deletes the node.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl Pass<'_> {
    /// Whether at most one application of the schedule may run at a time.
    pub(super) fn runs_alone(&self) -> bool {
        self.is_replacing() || self.schedule.spec.concurrency_policy == Some(ConcurrencyPolicy::Forbid)
    }

    pub(super) fn is_replacing(&self) -> bool {
        self.schedule.spec.concurrency_policy == Some(ConcurrencyPolicy::Replace)
    }

    /// Starts the run of `occasion`, lets it wait, or counts it as skipped or missed. Returns whether it is handled. Under
    /// `Forbid`, a slot waits for the end of other applications, while a run that the user has triggered is skipped.
    pub(super) fn admit(&self, occasion: &Occasion, seen: &Observed, plan: &mut Plan) -> bool {
        let running: Vec<_> = seen.children.iter().filter(|child| !child.is_over()).collect();
        let has_started = plan.actions.iter().any(|action| matches!(action, Action::Start(_)));
        let name = self.name(occasion);
        if let Some(child) = seen.children.iter().chain(&seen.departed).find(|child| child.is_for(occasion)) {
            plan.started(occasion, &child.name, child.created);
        } else if let Occasion::Slot(slot) = occasion
            && self.deadline().is_some_and(|deadline| self.now.duration_since(*slot) > deadline)
        {
            plan.events.push(events::too_late(slot));
            plan.outcomes.push(Outcome::Missed(1));
        } else if seen.taken.contains(&name) {
            let why = format!(
                "SparkApplication {name} exists, and this schedule has not created it; delete it if nobody needs it"
            );
            plan.skip(occasion, Skip::NameTaken, why);
        } else if self.runs_alone() && (has_started || seen.has_pods || !running.is_empty()) {
            let is_replacing = self.is_replacing();
            match occasion {
                Occasion::Trigger(_) if !is_replacing && !has_started => {
                    let awaited = events::awaited(&running);
                    let why = format!("concurrencyPolicy is Forbid, and it would have to wait for {awaited}");
                    plan.skip(occasion, Skip::Forbid, why);
                    return true;
                }
                Occasion::Slot(slot) if !is_replacing && self.waiting() != Some(*slot) => {
                    plan.events.push(events::waiting(slot, events::awaited(&running)));
                }
                _ if is_replacing => self.replace(&running, plan),
                _ => {}
            }
            if let Occasion::Slot(slot) = occasion {
                plan.status.pending_run = Some(Time(*slot));
            }
            // If no application has to end first, the run waits for pods of a deleted application, or for a run that
            // this plan starts.
            if is_replacing || running.is_empty() {
                let waited = match occasion {
                    Occasion::Slot(slot) => between(*slot, self.now),
                    Occasion::Trigger(_) => Duration::ZERO,
                };
                plan.wake = Some((waited / 8).clamp(SOON, LONGEST_PAUSE));
            }
            return false;
        } else if running.len() >= MOST_UNFINISHED {
            let why = format!("{MOST_UNFINISHED} applications of the schedule have not ended");
            plan.skip(occasion, Skip::TooMany, why);
        } else {
            plan.actions.push(Action::Start(Box::new(self.application(occasion))));
            plan.started(occasion, &name, self.now);
        }
        true
    }

    /// Counts the due slots before the latest one as skipped or missed: if several slots are due, only the latest one
    /// still gets an application. Slots whose applications were created, but not recorded at that time, are recorded
    /// now, and count neither as missed nor as skipped.
    pub(super) fn count_earlier_slots(&self, due: Due, seen: &Observed, plan: &mut Plan) {
        let is_passed = |slot: Timestamp| slot > self.handled_until && slot < due.latest;
        // The user may have edited the times of the schedule since the application was created, so its slot may not be
        // a slot any more.
        let is_slot = |slot: Timestamp| self.slots.after(slot - SignedDuration::from_nanos(1)) == Some(slot);
        let children = seen.children.iter().chain(&seen.departed);
        let of_slots = children.filter_map(|child| Some((child.slot?, child)));
        let made: BTreeMap<_, _> = of_slots.filter(|(slot, _)| is_passed(*slot) && is_slot(*slot)).collect();
        for (slot, child) in &made {
            plan.started(&Occasion::Slot(*slot), &child.name, child.created);
        }
        let waited = self.waiting().filter(|slot| is_passed(*slot) && !made.contains_key(slot));
        if let Some(slot) = waited {
            let (why, said) = if self.is_replacing() {
                (Skip::Replace, "the run to be replaced had not ended when the next was due")
            } else {
                (Skip::Forbid, "another run lasted until the next was due, and concurrencyPolicy is Forbid")
            };
            plan.skip(&Occasion::Slot(slot), why, said);
        }
        let missed = due.count.saturating_sub(1 + made.len() as u64 + u64::from(waited.is_some()));
        if missed > 0 {
            let runs = if missed == 1 { "1 run was".to_owned() } else { format!("{missed} runs were") };
            plan.events.push(events::missed(runs, due.latest));
            plan.outcomes.push(Outcome::Missed(missed));
        }
        let just_before = due.latest.checked_sub(SignedDuration::from_secs(1)).unwrap_or(due.latest);
        plan.status.handled_until = Some(Time(just_before.max(self.handled_until)));
    }

    /// Deletes the running applications that are not being deleted yet. An application that is not recorded yet is
    /// recorded first, and deleted in the next reconcile.
    fn replace(&self, running: &[&Child], plan: &mut Plan) {
        let is_to_go = |child: &Child| !child.is_going && history::is_recorded(self.schedule, child);
        for child in running.iter().filter(|child| is_to_go(child)) {
            let delete = child.delete();
            if !plan.actions.contains(&delete) {
                plan.events.push(events::replaced(&child.name));
                plan.actions.push(delete);
            }
        }
    }
}

impl Plan {
    /// Records that the application `name` was created at the time `made`.
    fn started(&mut self, occasion: &Occasion, name: &str, made: Timestamp) {
        self.status.last_run = Some(Time(super::whole_seconds(made)));
        self.status.last_run_name = Some(name.to_owned());
        self.events.push(events::started(occasion, name));
        let late = match occasion {
            Occasion::Slot(slot) => between(*slot, made),
            Occasion::Trigger(_) => Duration::ZERO,
        };
        self.outcomes.push(Outcome::Started(late));
    }

    /// Records that no application is created for the occasion: `said` is the reason, in words for the user.
    pub(super) fn skip(&mut self, occasion: &Occasion, why: Skip, said: impl Display) {
        self.events.push(events::skipped(occasion, said));
        self.outcomes.push(Outcome::Skipped(why));
    }
}
