//! Simulates the troubles of a schedule that do not come from requests: changes by its user, restarts of the operator,
//! jumps of its clock, and objects of other owners.

use super::{
    Application, INVALID, World, extent, is_ours,
    timetable::{DAY, HOUR, Timetable, moment},
};
use api::{ConcurrencyPolicy, State, names::annotation};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube_core::ResourceExt;
use schedules::Questions;
use std::rc::Rc;

impl World {
    pub(super) fn trouble(&mut self) {
        if !self.has_troubles {
            return;
        }
        match self.dice.number(0, 19) {
            0..=3 => {
                if self.operator.is_some() {
                    self.operator_ends();
                }
                return;
            }
            4 | 5 => return self.set_clock(),
            6 | 7 => return self.delete_one(),
            8 => return self.take_name(),
            9 | 10 => self.edit(),
            11 => self.settings(),
            12 | 13 => {
                let suspend = self.schedule.object.spec.suspend != Some(true);
                self.tell(format_args!("suspend: {suspend}"));
                self.schedule.object.spec.suspend = Some(suspend);
            }
            14 => {
                self.tell(format_args!("it becomes invalid"));
                INVALID.clone_into(&mut self.schedule.object.spec.schedule);
                self.schedule.table = None;
            }
            15..=17 => {
                self.triggers += 1;
                let value = self.triggers.to_string();
                self.tell(format_args!("it is triggered: {value}"));
                self.schedule.object.annotations_mut().insert(annotation::TRIGGER.to_owned(), value);
            }
            _ => self.tell(format_args!("it is touched")),
        }
        // A schedule that is suspended or invalid for long tests little.
        let is_dull = self.schedule.table.is_none() || self.schedule.object.spec.suspend == Some(true);
        if is_dull && self.dice.once_in(2) {
            self.schedule.object.spec.suspend = None;
            self.edit();
        }
        self.schedule.version += 1;
        self.poke();
    }

    /// Edits the schedule: to another text and zone, or to the first ones again.
    fn edit(&mut self) {
        self.ledger.tally.edits += 1;
        let table = if self.dice.once_in(2) { self.first.clone() } else { self.other() };
        self.tell(format_args!("it is edited: {} {:?}", table.text, table.zone));
        let spec = &mut self.schedule.object.spec;
        spec.schedule.clone_from(&table.text);
        spec.time_zone.clone_from(&table.zone);
        self.schedule.table = Some(Rc::new(table));
    }

    /// Draws another timetable that is due about as often: a year of a timetable that is due every second is too long.
    fn other(&mut self) -> Timetable {
        for _ in 0..8 {
            let other = Timetable::random(&mut self.dice, self.local);
            let spacing = extent(&other, self.now / 1000).0 * 1000;
            if spacing < 30 * self.spacing && self.spacing < 30 * spacing {
                return other;
            }
        }
        self.first.clone()
    }

    /// Draws all settings other than the schedule itself.
    pub(super) fn settings(&mut self) {
        let policy = match self.dice.number(0, 7) {
            0 => None,
            1 => Some(ConcurrencyPolicy::Other(String::new())),
            2 => Some(ConcurrencyPolicy::Other("Perhaps".to_owned())),
            3 => Some(ConcurrencyPolicy::Allow),
            4 | 5 => Some(ConcurrencyPolicy::Forbid),
            _ => Some(ConcurrencyPolicy::Replace),
        };
        self.tell(format_args!("concurrencyPolicy is {policy:?}"));
        let deadline = self.dice.once_in(4).then(|| self.dice.size(self.spacing / 500));
        let mut limit = || match self.dice.number(-1, 4) {
            4 => None,
            limit => Some(i32::try_from(limit).unwrap()),
        };
        let (completed, failed) = (limit(), limit());
        let spec = &mut self.schedule.object.spec;
        spec.concurrency_policy = policy;
        spec.starting_deadline_seconds = deadline;
        (spec.successful_run_history_limit, spec.failed_run_history_limit) = (completed, failed);
    }

    fn set_clock(&mut self) {
        self.ledger.tally.jumps += 1;
        self.ledger.is_excused = true;
        let most = if self.dice.once_in(20) { 5 * DAY } else { HOUR };
        let far = self.dice.size((most * 1000).min(1000 * self.spacing));
        self.ahead += if self.dice.once_in(2) { far } else { -far };
        // No clock is assumed to be wrong by more than five days.
        self.ahead = self.ahead.clamp(-5 * DAY * 1000, 5 * DAY * 1000);
        self.tell(format_args!("so late is it now"));
        let noticed = self.now + self.dice.number(1, 600_000);
        if let Some(operator) = &mut self.operator {
            operator.wake = operator.wake.min(noticed);
        }
    }

    /// Deletes an application, as a user does. An application whose start is not recorded is spared, because another
    /// operator may make it again.
    fn delete_one(&mut self) {
        let status = self.schedule.object.status.clone().unwrap_or_default();
        let until = status.handled_until.map(|until| until.0);
        let is_recorded = |one: &&Application| {
            let child = super::child(one);
            let by_slot = child.slot.is_none_or(|slot| until.is_some_and(|until| slot <= until));
            by_slot && (child.trigger.is_none() || child.trigger == status.last_trigger)
        };
        let all: Vec<_> = self
            .applications
            .values()
            .filter(|one| is_ours(one))
            .filter(is_recorded)
            .map(super::name)
            .collect();
        if !all.is_empty() {
            let name = self.dice.pick(&all).clone();
            self.remove(&name);
        }
    }

    /// Creates an application of another owner with the name of the next run.
    fn take_name(&mut self) {
        let status = self.schedule.object.status.clone().unwrap_or_default();
        let Some(slot) = status.next_run.map(|next| next.0) else { return };
        let schedule = self.schedule.object.clone();
        let checked = self.check(&schedule);
        let Questions { names, .. } = schedules::questions(&schedule, &checked, &[], slot, &self.policy);
        let Some(name) = names.into_iter().next().filter(|name| !self.applications.contains_key(name)) else {
            return;
        };
        self.tell(format_args!("somebody else makes {name}"));
        let metadata = ObjectMeta {
            name: Some(name.clone()),
            uid: Some("somebody else's".to_owned()),
            creation_timestamp: Some(Time(moment(self.now / 1000))),
            ..ObjectMeta::default()
        };
        let foreign = Application { metadata, state: State::Completed, ends: 0 };
        self.applications.insert(name, foreign);
    }
}
