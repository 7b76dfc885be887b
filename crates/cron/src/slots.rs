//! Computes when a schedule is due: its slots. A slot is an instant at which the wall clock of the schedule's time zone
//! shows one of the schedule's times.
//!
//! So a time that the clock skips (02:30 in the night in which daylight saving time begins) is no slot, and a time that
//! the clock shows twice (in the night in which it ends) is two slots. Between two transitions of the zone's UTC
//! offset, slots follow from arithmetic alone. robfig/cron, which Kubeflow's operator uses, follows the wall clock too,
//! but makes mistakes at a transition that skips midnight or is not of one hour: it leaves the day out, or is due on
//! another day.

use super::{Rhythm, Schedule, Times, Values, Zone};
use jiff::{SignedDuration, Timestamp, civil::Date, tz::TimeZone};
use std::{iter, ops::Range, time::Duration};

// In this file, an instant is a number of seconds since 1970, and a time of day is a number of minutes since midnight.
const NANOSECOND: SignedDuration = SignedDuration::from_nanos(1);
const MINUTE: i64 = 60;
const DAY: i64 = 24 * 60 * MINUTE;

/// How far into the future a slot is searched for, in seconds: five years.
const HORIZON: i64 = 5 * 366 * DAY;

/// The slots of a schedule in a zone.
#[derive(Clone, Debug)]
pub struct Slots {
    rhythm: Rhythm,
    zone: TimeZone,
    /// The instant from which `@every` counts its intervals.
    start: i64,
}

/// The slots that have become due in a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    pub latest: Timestamp,
    /// The number of slots, including the latest.
    pub count: u64,
}

/// A day, or the part of a day before or after a transition of the UTC offset.
struct Day {
    date: Date,
    /// The instant that is midnight at the UTC offset of this day or part of the day.
    midnight: i64,
    /// The minutes since midnight that begin in this day or part of the day.
    minutes: Range<i64>,
}

impl Slots {
    /// Returns the slots of `schedule`. `zone` is `spec.timeZone` of the schedule's object; a zone in the schedule text
    /// takes precedence. `local` is the operator's own zone. `start` is the time at which the schedule was written:
    /// `@every 1h` is due for the first time one hour after it.
    pub fn new(schedule: &Schedule, zone: &Zone, local: &TimeZone, start: Timestamp) -> Self {
        let zone = match schedule.zone.as_ref().unwrap_or(zone) {
            Zone::Local => local.clone(),
            Zone::Named(zone) => zone.clone(),
        };
        Self { rhythm: schedule.rhythm.clone(), zone, start: second(start) }
    }

    /// Returns the first slot after `instant`; `None` if there is none within five years.
    pub fn after(&self, instant: Timestamp) -> Option<Timestamp> {
        let times = match &self.rhythm {
            Rhythm::Every(period) => return self.nth(period, self.passed(period, instant) + 1),
            Rhythm::At(times) => times,
        };
        let begin = second(instant) + 1;
        self.days(times, begin..begin + HORIZON).find_map(|mut day| {
            let minute = day.minutes.find(|minute| times.has_minute(*minute))?;
            Timestamp::from_second(day.midnight + minute * MINUTE).ok()
        })
    }

    /// Returns the slots after `since` that are not after `until`; `None` if there are none. The running time depends
    /// on the number of days in the span, not on the number of slots.
    pub fn due(&self, since: Timestamp, until: Timestamp) -> Option<Due> {
        let times = match &self.rhythm {
            Rhythm::Every(period) => {
                let passed = self.passed(period, until);
                let count =
                    u64::try_from(passed - self.passed(period, since)).ok().filter(|count| *count > 0)?;
                return Some(Due { latest: self.nth(period, passed)?, count });
            }
            Rhythm::At(times) => times,
        };
        let (mut count, mut last) = (0, None);
        for day in self.days(times, second(since) + 1..second(until) + 1) {
            let of_day = times.minutes_before(day.minutes.end) - times.minutes_before(day.minutes.start);
            if of_day > 0 {
                count += of_day;
                last = Some(day);
            }
        }
        let Day { midnight, minutes, .. } = last?;
        let minute = minutes.rev().find(|minute| times.has_minute(*minute))?;
        Some(Due { latest: Timestamp::from_second(midnight + minute * MINUTE).ok()?, count })
    }

    /// Returns how many complete periods lie between the start and `instant`.
    fn passed(&self, period: &Duration, instant: Timestamp) -> i64 {
        (second(instant) - self.start).max(0) / seconds(period)
    }

    /// Returns the instant at which the nth period after the start ends; `None` if that is later than any instant that
    /// can be represented.
    fn nth(&self, period: &Duration, n: i64) -> Option<Timestamp> {
        let instant = seconds(period).checked_mul(n)?.checked_add(self.start)?;
        Timestamp::from_second(instant).ok()
    }

    /// Returns the days of a span on which a schedule is due. A day with a transition of the UTC offset is returned in
    /// parts. If a transition sets the clock back over midnight, a part of the previous day is returned again.
    fn days(&self, times: &Times, span: Range<i64>) -> impl Iterator<Item = Day> {
        self.constant_offset_spans(span)
            .flat_map(|(span, offset)| days(span, offset))
            .filter(|day| times.has_day(day.date))
    }

    /// Splits a span at the transitions of the zone's UTC offset. Yields each part with its UTC offset in seconds.
    fn constant_offset_spans(&self, span: Range<i64>) -> impl Iterator<Item = (Range<i64>, i64)> {
        let mut rest = span;
        iter::from_fn(move || {
            let begin = Timestamp::from_second(rest.start).ok().filter(|_| !rest.is_empty())?;
            // A transition may be between two seconds: if a rule's time is outside its year, jiff moves it to the last
            // nanosecond of the year. The transition then takes effect from the next second on.
            let next = self.zone.following(begin).next();
            let end = next.map_or(rest.end, |next| second(next.timestamp() - NANOSECOND) + 1);
            let part = rest.start..end.min(rest.end);
            rest.start = part.end;
            Some((part, i64::from(self.zone.to_offset(begin).seconds())))
        })
    }
}

/// Returns the days of a span in which the UTC offset is `offset` seconds.
fn days(span: Range<i64>, offset: i64) -> impl Iterator<Item = Day> {
    const EPOCH: Date = Date::constant(1970, 1, 1);
    let day = |instant: i64| (instant + offset).div_euclid(DAY);
    let numbers = day(span.start)..=day(span.end - 1);
    let first = EPOCH.checked_add(SignedDuration::from_secs(numbers.start() * DAY)).ok();
    iter::successors(first, |date| date.tomorrow().ok()).zip(numbers).map(move |(date, number)| {
        let midnight = number * DAY - offset;
        // The first minute of the day that begins at `from` or later.
        let minute = |from: i64| (from - midnight + MINUTE - 1).div_euclid(MINUTE).clamp(0, DAY / MINUTE);
        Day { date, midnight, minutes: minute(span.start)..minute(span.end) }
    })
}

impl Schedule {
    /// Whether the schedule is due on any day at all. A schedule for the 30th of February, for example, is never due.
    pub fn is_ever_due(&self) -> bool {
        // The five years from 1970 on contain every date of a calendar, also the 29th of February.
        let slots = Slots { rhythm: self.rhythm.clone(), zone: TimeZone::UTC, start: 0 };
        slots.after(Timestamp::UNIX_EPOCH).is_some()
    }
}

impl Times {
    fn has_day(&self, date: Date) -> bool {
        let of_month = self.days_of_month.has(date.day().into());
        let of_week = self.days_of_week.has(date.weekday().to_sunday_zero_offset().into());
        let is_day = if self.days_of_month.is_whole || self.days_of_week.is_whole {
            of_month && of_week
        } else {
            of_month || of_week
        };
        is_day && self.months.has(date.month().into()) && self.hours.bits > 0 && self.minutes.bits > 0
    }

    fn has_minute(&self, of_day: i64) -> bool {
        self.hours.has(of_day / 60) && self.minutes.has(of_day % 60)
    }

    /// Returns the number of matching minutes of a day before its minute `of_day`.
    fn minutes_before(&self, of_day: i64) -> u64 {
        let (hour, minute) = (of_day / 60, of_day % 60);
        let of_hour = if self.hours.has(hour) { self.minutes.before(minute) } else { 0 };
        self.hours.before(hour) * self.minutes.before(60) + of_hour
    }
}

impl Values {
    fn has(self, value: i64) -> bool {
        self.bits >> value & 1 == 1
    }

    /// Returns the number of values that are less than `value`.
    fn before(self, value: i64) -> u64 {
        (self.bits & ((1 << value) - 1)).count_ones().into()
    }
}

/// Returns the second that contains `instant`: schedules have a resolution of one second.
fn second(instant: Timestamp) -> i64 {
    instant.as_second() - i64::from(instant.subsec_nanosecond() < 0)
}

/// Returns the length of a period in seconds, at least one.
fn seconds(period: &Duration) -> i64 {
    i64::try_from(period.as_secs()).unwrap_or(i64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(text: &str) -> Slots {
        let schedule = Schedule::parse(text).unwrap();
        Slots::new(&schedule, &Zone::Local, &TimeZone::UTC, at("2026-01-01T00:00:00.9Z"))
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// `@every` counts from the second that contains the start.
    #[test]
    fn the_next_slot_is_later_than_the_given_instant() {
        let cases = include_str!("../../../tests/data/cron/next.json");
        for [text, instant, next] in serde_json::from_str::<Vec<[&str; 3]>>(cases).unwrap() {
            assert_eq!(slots(text).after(at(instant)), Some(at(next)), "{text} {instant}");
        }
        // The parser returns no such schedule.
        let endless = Schedule { zone: None, rhythm: Rhythm::Every(Duration::ZERO) };
        let slots = Slots::new(&endless, &Zone::Local, &TimeZone::UTC, at("2026-01-01T00:00Z"));
        assert_eq!(slots.after(at("2026-01-01T00:00Z")), Some(at("2026-01-01T00:00:01Z")));
    }

    #[test]
    fn some_schedules_are_never_due() {
        let cases = include_str!("../../../tests/data/cron/ever-due.json");
        for (text, is_ever_due) in serde_json::from_str::<Vec<(&str, bool)>>(cases).unwrap() {
            assert_eq!(Schedule::parse(text).unwrap().is_ever_due(), is_ever_due, "{text}");
        }
    }
}
