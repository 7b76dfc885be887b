//! Computes in a second way when a schedule is due: walks along the clock, and checks every minute.

use cron::Zone;
use jiff::{Timestamp, tz::TimeZone};
use std::{cell::RefCell, collections::HashMap};

pub const MINUTE: i64 = 60;
pub const HOUR: i64 = 3600;
pub const DAY: i64 = 24 * HOUR;
/// 2024-01-01T00:00:00Z; no moment of a simulation is earlier.
pub const EARLIEST: i64 = 1_704_067_200;
/// The clocks of the zones in [`ZONES`] change only at multiples of a quarter of an hour.
const QUARTER: i64 = 15 * MINUTE;

/// The time zones that are drawn at random. Some change their clocks at midnight, by half an hour, in the seasons of
/// the southern hemisphere, or also for Ramadan.
pub const ZONES: [&str; 12] = [
    "UTC",
    "Europe/Berlin",
    "Europe/Dublin",
    "America/New_York",
    "America/St_Johns",
    "America/Santiago",
    "Australia/Lord_Howe",
    "Pacific/Chatham",
    "Africa/Casablanca",
    "Africa/Cairo",
    "Asia/Kolkata",
    "Asia/Beirut",
];

/// A source of pseudo-random numbers, which are the same for the same seed (splitmix64).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from `least` to `most`.
    pub fn number(&mut self, least: i64, most: i64) -> i64 {
        let range = u64::try_from(most - least).unwrap() + 1;
        least + i64::try_from(self.next() % range).unwrap()
    }

    /// Returns a number from 1 to `most` whose order of magnitude is random, so that small numbers are as likely as
    /// large ones.
    pub fn size(&mut self, most: i64) -> i64 {
        let bits = 63 - i64::from(most.max(1).leading_zeros());
        let most_bits = self.number(0, bits);
        self.number(1, (2 << most_bits).min(most.max(1)))
    }

    /// Returns true once in `times` times on average.
    pub fn once_in(&mut self, times: i64) -> bool {
        self.number(1, times) == 1
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[usize::try_from(self.number(0, i64::try_from(from.len()).unwrap() - 1)).unwrap()]
    }
}

/// A schedule's text and zone, and its meaning.
#[derive(Clone, Debug)]
pub struct Timetable {
    pub text: String,
    pub zone: Option<String>,
    pub rule: Rule,
}

#[derive(Clone, Debug)]
pub enum Rule {
    /// A slot every so many seconds.
    Every(i64),
    /// Slots at the moments whose minute, hour, day of the month, month and day of the week are in these sets, with one
    /// bit per value. `either` is whether it is enough that a day is in one of the two sets of days.
    At { minutes: u64, hours: u64, days: u64, months: u64, weekdays: u64, either: bool, zone: String },
}

impl Timetable {
    /// Draws a timetable for an operator whose own zone is `local`.
    pub fn random(dice: &mut Dice, local: &str) -> Self {
        let zone = (!dice.once_in(3)).then(|| (*dice.pick(&ZONES)).to_owned());
        let prefix = dice.once_in(6).then(|| *dice.pick(&ZONES));
        let own = prefix.or(zone.as_deref()).unwrap_or(local).to_owned();
        let (text, rule) = match dice.number(0, 9) {
            0 | 1 => every(dice),
            2 => descriptor(dice, own),
            _ => fields(dice, own),
        };
        let text = match prefix {
            Some(prefix) => format!("{}={prefix} {text}", dice.pick(&["CRON_TZ", "TZ"])),
            None => text,
        };
        Self { text, zone, rule }
    }

    /// Adds the slots after `from` until `until` to `slots`, in seconds. `@every` counts from `since`.
    pub fn walk(&self, since: i64, from: i64, until: i64, slots: &mut Vec<i64>) {
        match &self.rule {
            Rule::Every(period) => {
                let mut slot = since + period * ((from - since).div_euclid(*period)).max(0);
                while slot <= until {
                    if slot > from && slot > since {
                        slots.push(slot);
                    }
                    slot += period;
                }
            }
            Rule::At { minutes, hours, days, months, weekdays, either, zone } => {
                let has = |set: u64, value: i64| set >> value & 1 == 1;
                let mut quarter = from.div_euclid(QUARTER) * QUARTER;
                let mut known_day = (i64::MIN, false);
                while quarter <= until {
                    let shown = quarter + offset(zone, quarter);
                    let day = shown.div_euclid(DAY);
                    if known_day.0 != day {
                        let (month, day_of_month) = civil(day);
                        let (of_month, of_week) =
                            (has(*days, day_of_month), has(*weekdays, (day + 4).rem_euclid(7)));
                        let is_day = if *either { of_month || of_week } else { of_month && of_week };
                        known_day = (day, is_day && has(*months, month));
                    }
                    let second = shown.rem_euclid(DAY);
                    if known_day.1 && has(*hours, second / HOUR) {
                        let first = second % HOUR / MINUTE;
                        let of_quarter = (0..QUARTER / MINUTE).filter(|minute| has(*minutes, first + minute));
                        let moments = of_quarter.map(|minute| quarter + minute * MINUTE);
                        slots.extend(moments.filter(|slot| *slot > from && *slot <= until));
                    }
                    quarter += QUARTER;
                }
            }
        }
    }
}

/// Returns the month and the day of the month of a day since 1970 (Howard Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms").
fn civil(day: i64) -> (i64, i64) {
    let shifted = day + 719_468;
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    (if month < 10 { month + 3 } else { month - 9 }, of_year - (153 * month + 2) / 5 + 1)
}

/// Returns how many seconds the clock of a zone is ahead of UTC during the quarter of an hour that begins at `quarter`.
fn offset(zone: &str, quarter: i64) -> i64 {
    type Known = HashMap<String, (TimeZone, Vec<Option<i32>>)>;
    thread_local! {
        static KNOWN: RefCell<Known> = RefCell::default();
    }
    KNOWN.with_borrow_mut(|known| {
        if !known.contains_key(zone) {
            known.insert(zone.to_owned(), (time_zone(zone), Vec::new()));
        }
        let (zone, offsets) = known.get_mut(zone).unwrap();
        let place = usize::try_from((quarter - EARLIEST) / QUARTER).unwrap();
        if place >= offsets.len() {
            offsets.resize(place + 1, None);
        }
        (*offsets[place].get_or_insert_with(|| zone.to_offset(moment(quarter)).seconds())).into()
    })
}

pub fn time_zone(name: &str) -> TimeZone {
    match Zone::parse(name).unwrap() {
        Zone::Named(zone) => zone,
        Zone::Local => unreachable!("{name} is the name of a zone"),
    }
}

pub fn moment(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn every(dice: &mut Dice) -> (String, Rule) {
    let seconds = match dice.number(0, 4) {
        0 => dice.number(1, 59),
        1 => MINUTE * dice.number(1, 59),
        2 => HOUR * dice.number(1, 100),
        _ => dice.number(60, 100_000),
    };
    let text = match dice.number(0, 2) {
        0 => format!("{seconds}s"),
        1 => format!("{}h{}m{}s", seconds / HOUR, seconds % HOUR / MINUTE, seconds % MINUTE),
        _ => format!("{seconds}.75s"),
    };
    (format!("@every {text}"), Rule::Every(seconds))
}

fn descriptor(dice: &mut Dice, zone: String) -> (String, Rule) {
    let (name, [days, months, weekdays]) = *dice.pick(&[
        ("@hourly", [ALL, ALL, ALL]),
        ("@daily", [ALL, ALL, ALL]),
        ("@midnight", [ALL, ALL, ALL]),
        ("@weekly", [ALL, ALL, 1]),
        ("@monthly", [2, ALL, ALL]),
        ("@yearly", [2, 2, ALL]),
        ("@annually", [2, 2, ALL]),
    ]);
    let hours = if name == "@hourly" { ALL } else { 1 };
    (name.to_owned(), Rule::At { minutes: 1, hours, days, months, weekdays, either: false, zone })
}

const ALL: u64 = u64::MAX;
const MONTHS: [&str; 12] =
    ["jan", "FEB", "mar", "Apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "DEC"];
const WEEKDAYS: [&str; 7] = ["sun", "Mon", "tue", "WED", "thu", "fri", "sat"];

fn fields(dice: &mut Dice, zone: String) -> (String, Rule) {
    // Half of the timetables are due often, and half at few times of a day.
    let stars = if dice.once_in(2) { [1, 1] } else { [12, 3] };
    let (minute, minutes, _) = field(dice, (0, 59), &[], stars[0]);
    let (hour, hours, _) = field(dice, (0, 23), &[], stars[1]);
    // Every month has a 28th.
    let (day, days, is_any_day) = field(dice, (1, 28), &[], 1);
    let (month, months, _) = field(dice, (1, 12), &MONTHS, 1);
    let (weekday, weekdays, is_any_weekday) = field(dice, (0, 6), &WEEKDAYS, 1);
    let either = !is_any_day && !is_any_weekday;
    let text = format!("{minute} {hour} {day} {month} {weekday}");
    (text, Rule::At { minutes, hours, days, months, weekdays, either, zone })
}

/// Draws a field, which may be a star only if `no_star_in` is 1. Returns its text, its values as bits, and whether
/// these are all values.
fn field(dice: &mut Dice, (least, most): (i64, i64), names: &[&str], no_star_in: i64) -> (String, u64, bool) {
    if no_star_in == 1 && !dice.once_in(3) {
        return ((*dice.pick(&["*", "?", "*/1"])).to_owned(), ALL, true);
    }
    let (mut text, mut values) = (Vec::new(), 0);
    for _ in 0..dice.size(3) {
        let written = |dice: &mut Dice, value: i64| match names.get(usize::try_from(value - least).unwrap()) {
            Some(name) if dice.once_in(2) => (*name).to_owned(),
            _ => value.to_string(),
        };
        let first = dice.number(least, most);
        let last = dice.number(first, most);
        let step = dice.number(2, 9);
        let (part, from, to, step) = match dice.number(0, 5) {
            0 => (format!("*/{step}"), least, most, step),
            1 => (format!("{}/{step}", written(dice, first)), first, most, step),
            2 => (format!("{}-{}/{step}", written(dice, first), written(dice, last)), first, last, step),
            3 => (format!("{}-{}", written(dice, first), written(dice, last)), first, last, 1),
            _ => (written(dice, first), first, first, 1),
        };
        text.push(part);
        // A range of days of the month without an end ends at the 31st, not at the 28th.
        let to = if most == 28 && to == most && part_is_open(&text[text.len() - 1]) { 31 } else { to };
        let mut value = from;
        while value <= to {
            values |= 1 << value;
            value += step;
        }
    }
    (text.join(","), values, false)
}

fn part_is_open(part: &str) -> bool {
    part.contains('/') && !part.contains('-')
}
