//! Checks that a schedule is due when the wall clock of its zone shows one of its times, that cronsim, another
//! implementation, agrees but for listed differences, and that the latest and the next slot are consistent for any
//! instant, period and zone.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use jiff::{
    SignedDuration, Timestamp,
    civil::{DateTime, Time},
    tz::TimeZone,
};
use proptest::{
    collection::vec,
    prelude::{Just, Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest},
    sample::select,
    test_runner::{Config, RngSeed},
};
use serde_json::Value;
use spark_operator_cron::{Due, Rhythm, Schedule, Slots, Values, Zone};
use std::{
    collections::BTreeSet,
    iter::successors,
    process::{Command, Stdio},
};

/// The number of schedules that are compared with cronsim.
const COMPARED: usize = 12_000;

const ZONES: [&str; 8] = [
    "UTC", "Europe/Berlin", "America/Havana", "America/St_Johns", "Australia/Lord_Howe", "Africa/Casablanca",
    "Pacific/Apia", "Pacific/Chatham",
];

/// A line of the output of `reference.py`: a schedule, and the slots that the other implementation finds for it.
#[derive(Debug)]
struct Line {
    expression: String,
    zone: String,
    after: Timestamp,
    next: BTreeSet<Timestamp>,
}

/// The number of slots that `reference.py` prints for a schedule, if there are that many.
const NEXT: usize = 6;

/// The reason for which the other implementation finds other slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    /// The clock skips midnight. The other implementation begins such a day at the skipped midnight, the instant at
    /// which the clock shows the day's first time. So it finds the slots of midnight at that instant, and misses the
    /// slots of the first hour that the clock shows.
    MidnightSkipped,
    /// The UTC offset changes by a part of an hour. The other implementation still steps from hour to hour, and misses
    /// minutes until a day begins after the transition.
    PartOfAnHour,
}

#[test]
#[expect(clippy::print_stdout, reason = "what was compared is a result")]
fn slots_equal_those_of_cronsim_but_for_listed_differences() {
    let script = "tests/reference.py";
    let mut reference = Command::new(script);
    reference.args(["--count", &COMPARED.to_string()]).stderr(Stdio::inherit());
    let output = reference.output().expect("Python can be run");
    assert!(output.status.success(), "the script printed its error above");
    let lines: Vec<_> = String::from_utf8(output.stdout).unwrap().lines().map(Line::read).collect();
    assert_eq!(lines.len(), COMPARED);
    let slots: usize = lines.iter().map(|line| line.next.len()).sum();
    let differing: Vec<_> = lines.iter().map(Line::reasons).filter(|reasons| !reasons.is_empty()).collect();
    let of = |reason| differing.iter().filter(|reasons| reasons.contains(&reason)).count();
    let (midnight, part) = (of(Reason::MidnightSkipped), of(Reason::PartOfAnHour));
    println!(
        "slots: {COMPARED} expressions with {slots} slots compared, {} differ as listed ({midnight} where a clock skips \
         midnight, {part} where the UTC offset changes by a part of an hour)",
        differing.len()
    );
    assert!(slots > 5 * COMPARED, "the schedules are hardly ever due");
    // A reason that is listed but never occurs could be removed.
    assert!(midnight > 0 && part > 0);
}

impl Line {
    fn read(text: &str) -> Self {
        let line: Value = serde_json::from_str(text).unwrap();
        let text = |field: &str| line[field].as_str().unwrap().to_owned();
        let instant = |second: &Value| Timestamp::from_second(second.as_i64().unwrap()).unwrap();
        Self {
            expression: text("expression"),
            zone: text("zone"),
            after: instant(&line["after"]),
            next: line["next"].as_array().unwrap().iter().map(instant).collect(),
        }
    }

    /// Returns the reasons for which the slots of the other implementation differ from ours; empty if they are the
    /// same.
    fn reasons(&self) -> BTreeSet<Reason> {
        let (schedule, zone) = parsed(&self.expression, &self.zone);
        let slots = Slots::new(&schedule, &Zone::Named(zone.clone()), &TimeZone::UTC, self.after);
        let ours: BTreeSet<_> = following(&slots, self.after).take(NEXT).collect();
        // Each list has at most `NEXT` slots. A list that lacks a slot has a later one instead, so slots are compared
        // only up to the end of the list that ends first.
        let ends =
            [&ours, &self.next].into_iter().filter(|slots| slots.len() == NEXT).filter_map(BTreeSet::last);
        let end = ends.min().copied().unwrap_or(Timestamp::MAX);
        let either = ours.symmetric_difference(&self.next).filter(|slot| **slot <= end);
        let reason = |slot: &Timestamp| {
            let clock = slot.to_zoned(zone.clone());
            assert_eq!(shows(&schedule, clock.datetime()), ours.contains(slot), "{self:?}: {clock}");
            Reason::of(&zone, *slot).unwrap_or_else(|| panic!("{self:?}: {clock} has no listed reason"))
        };
        either.map(reason).collect()
    }
}

impl Reason {
    /// Returns why the other implementation may be wrong about an instant; `None` if no listed reason applies.
    fn of(zone: &TimeZone, instant: Timestamp) -> Option<Self> {
        let change = zone.preceding(instant + SignedDuration::from_secs(1)).next()?;
        let hours = instant.duration_since(change.timestamp()).as_hours();
        let before = zone.to_offset(change.timestamp() - SignedDuration::from_secs(1));
        let seconds = change.offset().seconds() - before.seconds();
        let is_midnight = before.to_datetime(change.timestamp()).time() == Time::midnight();
        if seconds % 3600 != 0 && hours < 24 {
            Some(Self::PartOfAnHour)
        } else if is_midnight && seconds > 0 && hours < 1 {
            Some(Self::MidnightSkipped)
        } else {
            None
        }
    }
}

fn parsed(expression: &str, zone: &str) -> (Schedule, TimeZone) {
    let Ok(Zone::Named(zone)) = Zone::parse(zone) else { panic!("{zone} is a zone") };
    (Schedule::parse(expression).unwrap(), zone)
}

/// Returns all slots after an instant, one after another.
fn following(slots: &Slots, instant: Timestamp) -> impl Iterator<Item = Timestamp> {
    let next = |slot: &Timestamp| slots.after(*slot).inspect(|next| assert!(next > slot));
    successors(slots.after(instant), next)
}

/// Whether a wall clock that shows `clock` shows one of the times of `schedule`.
fn shows(schedule: &Schedule, clock: DateTime) -> bool {
    let Rhythm::At(times) = &schedule.rhythm else { panic!("{schedule:?} has no times") };
    let has = |values: Values, value: i8| values.bits & 1 << value != 0;
    let of_month = has(times.days_of_month, clock.day());
    let of_week = has(times.days_of_week, clock.weekday().to_sunday_zero_offset());
    let needs_both = times.days_of_month.is_whole || times.days_of_week.is_whole;
    let is_day = if needs_both { of_month && of_week } else { of_month || of_week };
    is_day
        && has(times.months, clock.month())
        && has(times.hours, clock.hour())
        && has(times.minutes, clock.minute())
}

proptest! {
    // The cases are the same in each run: a test that fails only now and then helps nobody.
    #![proptest_config(Config { cases: 200, failure_persistence: None, rng_seed: RngSeed::Fixed(8), ..Config::default() })]

    #[test]
    fn slots_are_the_minutes_at_which_the_wall_clock_shows_a_time(text in expression(), (zone, since) in near_a_transition()) {
        let (schedule, _) = parsed(&text, "UTC");
        let slots = Slots::new(&schedule, &Zone::Named(zone.clone()), &TimeZone::UTC, since);
        let until = since + SignedDuration::from_hours(72);
        let begin = since.as_second() / 60;
        let minutes = (1..).map(|minute| Timestamp::from_second((begin + minute) * 60).unwrap());
        let shown = minutes.take_while(|minute| *minute <= until).filter(|minute| shows(&schedule, zone.to_datetime(*minute)));
        prop_assert_eq!(following(&slots, since).take_while(|slot| *slot <= until).collect::<Vec<_>>(), shown.collect::<Vec<_>>());
    }

    #[test]
    fn due_returns_the_latest_slot_and_the_number_of_slots(
        text in any_schedule(), (zone, since) in near_a_transition(), seconds in -10_i64..864_000
    ) {
        let start = since - SignedDuration::from_hours(5);
        let slots = Slots::new(&Schedule::parse(&text).unwrap(), &Zone::Named(zone), &TimeZone::UTC, start);
        let until = since + SignedDuration::from_secs(seconds);
        let all: Vec<_> = following(&slots, since).take_while(|slot| *slot <= until).collect();
        let due = all.last().map(|latest| Due { latest: *latest, count: all.len() as u64 });
        prop_assert_eq!(slots.due(since, until), due);
    }

    #[test]
    fn next_and_due_slots_agree_at_any_instant_in_any_zone(
        text in any_schedule(), zone in odd_zone(), [start, instant] in [instant(), instant()], days in -1..3000_i64
    ) {
        let slots = Slots::new(&Schedule::parse(&text).unwrap(), &Zone::Local, &zone, start);
        let until = instant.saturating_add(SignedDuration::from_hours(24 * days)).unwrap();
        let next = slots.after(instant);
        prop_assert!(next.is_none_or(|next| next > instant));
        let due = slots.due(instant, until);
        prop_assert_eq!(due.is_some(), next.is_some_and(|next| next <= until), "{:?} {:?}", next, due);
        prop_assert!(due.is_none_or(|due| due.latest > instant && due.latest <= until));
    }
}

fn expression() -> impl Strategy<Value = String> {
    (field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6))
        .prop_map(|(minute, hour, day, month, weekday)| format!("{minute} {hour} {day} {month} {weekday}"))
}

fn field(least: u32, most: u32) -> impl Strategy<Value = String> {
    let value = least..=most;
    let list = |values: Vec<_>| values.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    prop_oneof![
        4 => Just("*".to_owned()),
        2 => (1..20_u32).prop_map(|step| format!("*/{step}")),
        2 => vec(value.clone(), 1..4).prop_map(list),
        2 => (value.clone(), value).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
    ]
}

fn any_schedule() -> impl Strategy<Value = String> {
    let every = prop_oneof![1000..400_000_i64, 1..i64::MAX / 1_000_000_000];
    prop_oneof![
        5 => expression(),
        1 => Just(", * * * *".to_owned()),
        3 => every.prop_map(|seconds| format!("@every {seconds}s")),
    ]
}

/// A zone, and an instant at most two days before a transition of its UTC offset, if it has any.
fn near_a_transition() -> impl Strategy<Value = (TimeZone, Timestamp)> {
    (select(&ZONES[..]), 1_000_000_000..2_200_000_000_i64, 0..172_800_000_i64).prop_map(
        |(name, second, before)| {
            let (_, zone) = parsed("@daily", name);
            let instant = Timestamp::from_second(second).unwrap();
            let change = zone.following(instant).next().map_or(instant, |change| change.timestamp());
            (zone, change - SignedDuration::from_millis(before))
        },
    )
}

/// A zone that a container may have as its local zone, also one with unusual rules.
fn odd_zone() -> impl Strategy<Value = TimeZone> {
    const POSIX: [&str; 4] = [
        "XXX24YYY-24,0/-167,365/167",
        "XXX00:00:01YYY-00:59:59,J60/00:00:01,J60/25",
        "XXX-1YYY-2,M3.5.0,M3.5.0/4",
        "EST5EDT,0/0,J365/25",
    ];
    let posix = select(&POSIX[..]).prop_map(|text| TimeZone::posix(text).unwrap());
    prop_oneof![posix, select(&ZONES[..]).prop_map(|name| parsed("@daily", name).1)]
}

/// Any instant, and instants near the first and the last one that jiff can represent.
fn instant() -> impl Strategy<Value = Timestamp> {
    let (least, most) = (Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
    let second = prop_oneof![
        least..=most,
        least..least + 200_000,
        most - 200_000..=most,
        -4_000_000_000..4_000_000_000_i64
    ];
    (second, -999_999_999..=999_999_999).prop_map(|(second, nanosecond)| {
        Timestamp::new(second, nanosecond).or_else(|_| Timestamp::from_second(second)).unwrap()
    })
}
