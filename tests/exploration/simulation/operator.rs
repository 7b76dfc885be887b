//! Simulates the operator in the four steps of `controller::schedules`: observe, decide, act, record. Any request may
//! fail.

use super::{
    Operator, World, child, is_ours, is_over,
    ledger::Look,
    timetable::{MINUTE, Rule},
};
use api::{ConcurrencyPolicy, SparkApplication, names::annotation};
use jiff::Timestamp;
use kube_core::ResourceExt;
use schedules::{Action, Observed, Plan, Precision, next, questions};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The same as `schedules::LONGEST_SLEEP`.
const LONGEST_SLEEP: Duration = Duration::from_secs(600);

/// The largest number of passes of one reconcile (`controller::schedules::PASSES`).
const PASSES: usize = 4;

/// The outcome of a pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passed {
    /// There was nothing to do.
    Idle,
    /// Something was done, or could not be done.
    Busy,
    /// A status was written.
    Recorded,
}

/// The outcome of a request of the operator to the API server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Answered,
    /// The request did not reach the API server.
    Failed,
    /// The API server carried out the request, but the response was lost.
    Unheard,
    /// The operator is killed: after the request is carried out if true, before the request is sent if false.
    Killed(bool),
}

impl World {
    /// Reconciles the schedule. Returns whether there was anything to do.
    pub(super) fn reconcile(&mut self) -> bool {
        let is_late = self.has_troubles && self.dice.once_in(10);
        if !is_late {
            self.hear();
        }
        let mut passed = self.pass();
        let is_done = passed != Passed::Idle;
        let mut passes = 1;
        // The operator's own write does not wake it, so it decides again at once.
        while passed == Passed::Recorded {
            passes += 1;
            assert!(passes <= PASSES, "it does not come to rest");
            passed = self.pass();
        }
        if is_late {
            self.poke();
        }
        is_done
    }

    fn pass(&mut self) -> Passed {
        self.ledger.tally.passes += 1;
        let now = Timestamp::from_millisecond(self.now + self.ahead).unwrap();
        let schedule = self.operator.as_ref().unwrap().schedule.clone();
        let checked = self.check(&schedule.object);
        let operator = self.operator.as_ref().unwrap();
        let children: Vec<_> = operator.children.values().cloned().collect();
        let asked = questions(&schedule.object, &checked, &children, now, &self.policy);
        let lives =
            |pod: &(String, i64)| pod.1 > self.now && children.iter().all(|child| child.name != pod.0);
        let has_pods = asked.pods && self.pods.iter().any(lives);
        let is_foreign = |name: &String| self.applications.get(name).is_some_and(|one| !is_ours(one));
        let taken: Vec<_> = asked.names.into_iter().filter(is_foreign).collect();
        let seen = Observed { children, departed: operator.departed(), taken, has_pods };
        let plan = next(&schedule.object, &checked, &seen, now, &self.policy);
        let look = Look {
            schedule: &schedule.object,
            table: schedule.table.as_ref(),
            now,
            is_taken: !seen.taken.is_empty(),
        };
        self.tell(format_args!(
            "pass: {:?}, until {:?}, pending {:?}, next {:?}, wake {:?}",
            plan.outcomes,
            plan.status.handled_until.as_ref().map(|time| time.0),
            plan.status.pending_run.as_ref().map(|time| time.0),
            plan.status.next_run.as_ref().map(|time| time.0),
            plan.wake
        ));
        let starts = plan.actions.iter().any(|action| matches!(action, Action::Start(_)));
        if starts && schedule.version != self.schedule.version {
            self.again();
            return Passed::Busy;
        }
        for action in &plan.actions {
            let call = self.call();
            if self.goes_wrong(call, |world| world.execute(action, &look)) {
                return Passed::Busy;
            }
            if let Action::Delete { name, uid, .. } = action {
                self.operator.as_mut().unwrap().has_deleted(name, uid);
            }
        }
        let writes = schedule.object.status.clone().unwrap_or_default() != plan.status;
        if writes {
            let call = self.call();
            let is_current = schedule.version == self.schedule.version;
            let ended = self.goes_wrong(call, |world| {
                if is_current {
                    world.ledger.close(&look, &plan);
                    world.schedule.object.status = Some(plan.status.clone());
                    world.schedule.version += 1;
                }
                is_current
            });
            if ended {
                return Passed::Busy;
            }
            self.operator.as_mut().unwrap().schedule = self.schedule.clone();
            return Passed::Recorded;
        }
        self.ledger.close(&look, &plan);
        self.sleep(&plan, schedule.object.spec.starting_deadline_seconds);
        if plan.actions.is_empty() { Passed::Idle } else { Passed::Busy }
    }

    /// Sets the time at which the operator reconciles again. The decision core limits every sleep to [`LONGEST_SLEEP`].
    /// The simulation leaves out the reconciles after these limited sleeps, because they would find nothing to do: only
    /// the first one after the clock was set matters.
    fn sleep(&mut self, plan: &Plan, deadline: Option<i64>) {
        let until = |moment: Timestamp| moment.as_millisecond() + 1 - self.ahead;
        let wake = match plan.wake {
            None => i64::MAX,
            Some(LONGEST_SLEEP) => {
                let next = plan.status.next_run.as_ref().map(|next| until(next.0));
                let waits = plan.status.pending_run.as_ref().zip(deadline);
                let given_up = waits.map(|(slot, deadline)| until(slot.0) + deadline * 1000);
                let wake = next.into_iter().chain(given_up).min().unwrap_or(i64::MAX);
                assert!(wake >= self.now + LONGEST_SLEEP.as_millis() as i64, "it sleeps too short");
                wake
            }
            Some(wake) => {
                assert!(wake < LONGEST_SLEEP, "it sleeps too long");
                self.now + i64::try_from(wake.as_millis()).unwrap().max(1)
            }
        };
        self.operator.as_mut().unwrap().wake = wake;
    }

    /// Simulates a request with the outcome `call`; `does` carries out the request. Returns whether the pass ends with
    /// this request.
    fn goes_wrong(&mut self, call: Call, does: impl FnOnce(&mut Self) -> bool) -> bool {
        let done = !matches!(call, Call::Failed | Call::Killed(false)) && does(self);
        match call {
            Call::Answered if done => return false,
            Call::Answered | Call::Failed | Call::Unheard => self.again(),
            Call::Killed(_) => self.operator_ends(),
        }
        self.ledger.tally.lost += usize::from(call != Call::Answered);
        true
    }

    fn call(&mut self) -> Call {
        if !self.has_troubles {
            return Call::Answered;
        }
        match self.dice.number(0, 60) {
            0 => Call::Failed,
            1 => Call::Unheard,
            2 => Call::Killed(self.dice.once_in(2)),
            _ => Call::Answered,
        }
    }

    /// Records that the pass has failed, and retries it after a pause.
    fn again(&mut self) {
        self.tell(format_args!("a pass fails"));
        self.ledger.is_excused = true;
        let pause = 100 * self.dice.size(100);
        self.operator.as_mut().unwrap().wake = self.now + pause;
    }

    /// Carries out one action. Returns false if the pass ends with this action.
    fn execute(&mut self, action: &Action, look: &Look) -> bool {
        match action {
            Action::Start(application) => {
                let made = application.name_any();
                if let Some(there) = self.applications.get(&made) {
                    let child = is_ours(there).then(|| child(there));
                    self.tell(format_args!("{made} is there already"));
                    let Some(child) = child else { return false };
                    self.operator.as_mut().unwrap().insert(child);
                    return true;
                }
                self.check_start(application, look);
                self.make(application);
            }
            Action::Delete { name, uid, resource_version } => {
                let Some(there) =
                    self.applications.get(name).filter(|one| one.metadata.uid.as_ref() == Some(uid))
                else {
                    return true;
                };
                if there.metadata.resource_version != *resource_version {
                    return false;
                }
                assert!(is_ours(there), "somebody else's application is deleted");
                let is_replaced = !is_over(there.state);
                assert!(
                    !is_replaced || look.schedule.spec.concurrency_policy == Some(ConcurrencyPolicy::Replace)
                );
                self.ledger.tally.replaced += usize::from(is_replaced);
                self.ledger.tally.pruned += usize::from(!is_replaced);
                self.remove(name);
            }
        }
        true
    }

    /// Checks that the application may be made now, under this name.
    fn check_start(&mut self, application: &SparkApplication, look: &Look) {
        let made = application.name_any();
        let running = self.applications.values().find(|one| is_ours(one) && !is_over(one.state));
        let alone = look.schedule.spec.concurrency_policy.clone();
        if matches!(alone, Some(ConcurrencyPolicy::Forbid | ConcurrencyPolicy::Replace)) {
            assert!(running.is_none(), "two run at once under {alone:?}");
            assert!(!self.pods.iter().any(|pod| pod.1 > self.now), "pods of another still live");
        }
        let annotations = application.annotations();
        if let Some(trigger) = annotations.get(annotation::TRIGGER) {
            assert_eq!(Some(trigger), self.schedule.object.annotations().get(annotation::TRIGGER));
            self.ledger.make_triggered(trigger, &made);
            return;
        }
        let slot: Timestamp = annotations[annotation::SCHEDULED_TIME].parse().unwrap();
        let second = slot.as_second();
        let is_dense = matches!(look.table.unwrap().rule, Rule::Every(..MINUTE));
        let time = match self.policy.precision {
            Precision::Nanos => format!("{second}000000000"),
            Precision::Micros => format!("{second}000000"),
            Precision::Millis => format!("{second}000"),
            Precision::Minutes if !is_dense => (second / MINUTE).to_string(),
            Precision::Minutes | Precision::Seconds => second.to_string(),
        };
        assert_eq!(made, format!("nightly-{time}"));
        self.ledger.make(look, slot, &made);
    }

    /// Updates the operator's memory with everything that its watches report.
    fn hear(&mut self) {
        let Some(operator) = &mut self.operator else { return };
        operator.schedule = self.schedule.clone();
        let mut ours: Vec<_> = self.applications.values().filter(|one| is_ours(one)).map(child).collect();
        ours.sort_by_key(|child| child.created);
        operator.children.retain(|name, _| self.applications.contains_key(name));
        for child in ours {
            operator.insert(child);
        }
    }

    /// Wakes the operator within a second, because a watch has something to report.
    pub(super) fn poke(&mut self) {
        let late = self.dice.size(1000);
        if let Some(operator) = &mut self.operator {
            operator.wake = operator.wake.min(self.now + late);
        }
    }

    pub(super) fn operator_starts(&mut self) {
        self.tell(format_args!("an operator starts"));
        self.operator = Some(Operator {
            schedule: self.schedule.clone(),
            children: BTreeMap::new(),
            latest: None,
            triggered: None,
            deleted: BTreeSet::new(),
            wake: self.now,
        });
        self.hear();
    }

    pub(super) fn operator_ends(&mut self) {
        self.tell(format_args!("the operator is killed"));
        self.ledger.tally.restarts += 1;
        self.ledger.is_excused = true;
        self.operator = None;
        let most = if self.dice.once_in(3) { 20 * self.spacing } else { 30_000 };
        self.back = self.now + self.dice.size(most);
    }
}
