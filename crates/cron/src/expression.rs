//! Parses schedules and time zones. An error contains what is wrong and the place of the mistake in the text.
//!
//! The syntax is that of robfig/cron v3, which Kubeflow's operator uses. Other Rust crates have another syntax. The
//! crate croner, for example, does not support `5/15` or `?` in every field, but supports `L`, `W`, `#` and 7 for
//! Sunday.

use crate::go_duration;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use std::time::Duration;

/// When applications are created: how often, and in which time zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// The zone that the schedule itself names (`CRON_TZ=…`). It takes precedence over `spec.timeZone`.
    pub zone: Option<Zone>,
    pub rhythm: Rhythm,
}

/// The time zone in which a schedule's times are meant.
#[derive(Clone, Debug, PartialEq)]
pub enum Zone {
    /// The zone of the operator's container.
    Local,
    Named(TimeZone),
}

/// How often a schedule is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rhythm {
    /// At this interval, which is at least a second.
    Every(Duration),
    /// Whenever the wall clock shows one of these times.
    At(Times),
}

/// The times that a cron expression matches: the values of each of its fields, as one bit for each value. As in cron, a
/// day must be in both `days_of_month` and `days_of_week` if one of the two fields contains all days (`*`); otherwise
/// it must be in at least one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    pub minutes: Values,
    pub hours: Values,
    pub days_of_month: Values,
    pub months: Values,
    pub days_of_week: Values,
}

/// The values of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    /// Bit n is set if the field matches the value n.
    pub bits: u64,
    /// Whether the field matches all values because it contains `*`, `?` or `*/1`.
    pub is_whole: bool,
}

/// A mistake in a schedule or a time zone, and its place in the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("`{0}` is not a time zone: write a name such as `Europe/Berlin`, `UTC`, or `Local`")]
    Zone(String),
    #[error("there is nothing after `{0}`: write the schedule, for instance `0 3 * * *`")]
    NothingButZone(String),
    #[error(
        "has {0} fields: write five (minute, hour, day of month, month, day of week), for instance `0 3 * * *`"
    )]
    Fields(usize),
    #[error(
        "`{0}` is not known: write @hourly, @daily, @weekly, @monthly, @yearly, or @every with a duration"
    )]
    Descriptor(String),
    #[error("`{0}` after @every is not a duration: write for instance `90m` or `1h30m`")]
    Duration(String),
    /// `number` is the number of the field, and `character` the position in the complete text. Both are counted from 1.
    #[error("field {number} ({name}), `{part}` at character {character}: {why}")]
    Field { number: usize, name: &'static str, part: String, character: usize, why: String },
}

impl Zone {
    /// Returns the time zone called `name`; the operator's own zone if `name` is empty or `Local`.
    ///
    /// # Errors
    ///
    /// When there is no such zone. The known zones are those of the IANA database that is compiled into this program.
    pub fn parse(name: &str) -> Result<Self, Error> {
        match name {
            "" | "Local" => Ok(Self::Local),
            name => TimeZoneDatabase::bundled()
                .get(name)
                .map(Self::Named)
                .map_err(|_| Error::Zone(name.to_owned())),
        }
    }
}

impl Schedule {
    /// Reads `spec.schedule`.
    ///
    /// # Errors
    ///
    /// When `text` is not a schedule. The error contains the place of the mistake.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let trimmed = text.trim();
        let zoned = ["CRON_TZ=", "TZ="].iter().find_map(|prefix| trimmed.strip_prefix(prefix));
        let Some(zoned) = zoned else {
            return Ok(Self { zone: None, rhythm: rhythm(trimmed, text)? });
        };
        let (name, rest) = zoned.split_once(' ').unwrap_or((zoned, ""));
        // An empty name means UTC, because Kubeflow's cron library passes the name of a zone in a schedule to Go, which
        // reads an empty name as UTC.
        let zone = if name.is_empty() { Zone::Named(TimeZone::UTC) } else { Zone::parse(name)? };
        if rest.trim().is_empty() {
            return Err(Error::NothingButZone(trimmed.to_owned()));
        }
        Ok(Self { zone: Some(zone), rhythm: rhythm(rest.trim(), text)? })
    }
}

/// The name of a field and the values that it may have.
struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    /// The names of the values, in ascending order. The first name is that of `least`.
    names: &'static [&'static str],
}

const MINUTE: Field = Field { name: "minute", least: 0, most: 59, names: &[] };
const HOUR: Field = Field { name: "hour", least: 0, most: 23, names: &[] };
const DAY_OF_MONTH: Field = Field { name: "day of month", least: 1, most: 31, names: &[] };
const MONTH: Field = Field { name: "month", least: 1, most: 12, names: &MONTHS };
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAY_OF_WEEK: Field = Field { name: "day of week", least: 0, most: 6, names: &DAYS };
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The slice of the text that contains a mistake, and what is wrong with it.
type Mistake<'a> = (&'a str, String);

/// Parses a schedule without its time zone. `text` is a slice of `whole`, the complete schedule.
fn rhythm(text: &str, whole: &str) -> Result<Rhythm, Error> {
    let cron = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => match (text.strip_prefix("@every "), text.starts_with('@')) {
            (Some(duration), _) => return every(duration),
            (None, true) => return Err(Error::Descriptor(text.to_owned())),
            (None, false) => text,
        },
    };
    let fields: Vec<_> = cron.split_whitespace().collect();
    let [minute, hour, day_of_month, month, day_of_week] = fields[..] else {
        return Err(Error::Fields(fields.len()));
    };
    let values = |number: usize, field: Field, text| {
        field.values(text).map_err(|(part, why)| {
            let (name, character) = (field.name, character(part, whole));
            Error::Field { number, name, part: part.to_owned(), character, why }
        })
    };
    Ok(Rhythm::At(Times {
        minutes: values(1, MINUTE, minute)?,
        hours: values(2, HOUR, hour)?,
        days_of_month: values(3, DAY_OF_MONTH, day_of_month)?,
        months: values(4, MONTH, month)?,
        days_of_week: values(5, DAY_OF_WEEK, day_of_week)?,
    }))
}

/// Returns the position in `whole`, in characters from 1, at which `slice` begins. `slice` must be a slice of `whole`.
fn character(slice: &str, whole: &str) -> usize {
    let begin = slice.as_ptr().addr() - whole.as_ptr().addr();
    whole[..begin].chars().count() + 1
}

/// Parses the duration after `@every`. Fractions of a second are cut off, and less than one second counts as one
/// second.
fn every(text: &str) -> Result<Rhythm, Error> {
    let nanoseconds = go_duration::nanoseconds(text).ok_or_else(|| Error::Duration(text.to_owned()))?;
    let seconds = u64::try_from(nanoseconds / 1_000_000_000).unwrap_or_default();
    Ok(Rhythm::Every(Duration::from_secs(seconds.max(1))))
}

impl Field {
    fn values<'a>(&self, text: &'a str) -> Result<Values, Mistake<'a>> {
        let mut values = Values { bits: 0, is_whole: false };
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let of_part = self.part(part)?;
            values.bits |= of_part.bits;
            values.is_whole |= of_part.is_whole;
        }
        Ok(values)
    }

    /// Parses a part of a field: `*`, `5` or `1-5`, each optionally followed by a step such as `/2`. `5/15` means every
    /// 15th value from 5 to the greatest value of the field.
    fn part<'a>(&self, part: &'a str) -> Result<Values, Mistake<'a>> {
        let mistake = |why: &str| (part, why.to_owned());
        let (range, step) = match part.split_once('/') {
            Some((_, step)) if step.contains('/') => return Err(mistake("has more than one `/`")),
            Some((range, step)) => (range, Some(step)),
            None => (part, None),
        };
        let (first, last) = range.split_once('-').map_or((range, None), |(first, last)| (first, Some(last)));
        let is_star = matches!(first, "*" | "?");
        let (from, to) = match last {
            _ if is_star => (self.least, self.most),
            _ if first.is_empty() || last == Some("") => return Err(mistake("lacks a number")),
            Some(last) if last.contains('-') => return Err(mistake("has more than one `-`")),
            Some(last) => (self.value(first)?, self.value(last)?),
            None => {
                let from = self.value(first)?;
                (from, if step.is_some() { self.most } else { from })
            }
        };
        if from > to {
            let (last, Self { least, most, .. }) = (last.unwrap_or_default(), self);
            return Err(mistake(&format!("begins after its end: write `{first}-{most},{least}-{last}`")));
        }
        let step = match step.map(str::parse::<u32>) {
            None => 1,
            Some(Ok(step)) if step > 0 => step,
            Some(_) => return Err(mistake("the step after `/` must be a number from 1")),
        };
        let bits = (from..=to).step_by(step as usize).fold(0, |bits, value| bits | 1_u64 << value);
        Ok(Values { bits, is_whole: is_star && step == 1 })
    }

    fn value<'a>(&self, text: &'a str) -> Result<u32, Mistake<'a>> {
        let Self { least, most, names, .. } = self;
        let named = names.iter().zip(*least..).find(|(name, _)| text.eq_ignore_ascii_case(name));
        let value = named.map(|(_, value)| value).or_else(|| text.parse().ok());
        let Some(value) = value else {
            let why = match names {
                [first, .., last] => format!("is neither a number nor a name from `{first}` to `{last}`"),
                _ => "is not a number".to_owned(),
            };
            return Err((text, why));
        };
        if (*least..=*most).contains(&value) {
            return Ok(value);
        }
        let why = match names {
            [first, .., last] => format!("must be from {least} ({first}) to {most} ({last})"),
            _ => format!("must be from {least} to {most}"),
        };
        Err((text, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(text: &str) -> Times {
        match Schedule::parse(text).unwrap().rhythm {
            Rhythm::At(times) => times,
            every => panic!("{text} is {every:?}"),
        }
    }

    fn bits(values: impl IntoIterator<Item = u32>) -> u64 {
        values.into_iter().fold(0, |bits, value| bits | 1 << value)
    }

    #[test]
    fn a_field_is_a_set_of_values() {
        for (field, minutes) in [
            ("*", bits(0..60)),
            ("?", bits(0..60)),
            ("5", bits([5])),
            ("05,7,,9", bits([5, 7, 9])),
            ("5-8", bits(5..9)),
            ("5/20", bits([5, 25, 45])),
            ("5-30/20", bits([5, 25])),
            ("*/90", bits([0])),
            ("*-5", bits(0..60)),
            ("*-", bits(0..60)),
        ] {
            assert_eq!(times(&format!("{field} 0 1 1 0")).minutes.bits, minutes, "{field}");
        }
        let times = times("0 0 1 JAN-mar Mon,fri");
        assert_eq!((times.months.bits, times.days_of_week.bits), (bits([1, 2, 3]), bits([1, 5])));
    }

    #[test]
    fn a_star_without_a_step_matches_the_whole_field() {
        for (field, is_whole) in
            [("*", true), ("?", true), ("*/1", true), ("*/2", false), ("1-31", false), ("1,*", true)]
        {
            assert_eq!(times(&format!("0 0 {field} * 0")).days_of_month.is_whole, is_whole, "{field}");
        }
    }

    #[test]
    fn descriptors_are_short_for_expressions() {
        assert_eq!(times("@weekly"), times("0 0 * * sun"));
        assert_eq!(times(" @midnight "), times("0 0 * * *"));
        assert_eq!(times("@annually"), times("0 0 1 jan *"));
    }

    #[test]
    fn an_interval_is_at_least_one_second_without_fractions() {
        for (text, seconds) in [("90m", 5400), ("1500ms", 1), ("0", 1), ("-5m", 1)] {
            let every = Rhythm::Every(Duration::from_secs(seconds));
            assert_eq!(Schedule::parse(&format!("@every {text}")).unwrap().rhythm, every, "{text}");
        }
    }

    #[test]
    fn zones_are_found_without_zone_files() {
        for name in
            ["Europe/Berlin", "UTC", "America/Argentina/Buenos_Aires", "US/Eastern", "Etc/GMT+5", "EST5EDT"]
        {
            assert!(matches!(Zone::parse(name), Ok(Zone::Named(_))), "{name}");
        }
        assert_eq!((Zone::parse(""), Zone::parse("Local")), (Ok(Zone::Local), Ok(Zone::Local)));
        let berlin = Schedule::parse("CRON_TZ=Europe/Berlin  0 3 * * *").unwrap();
        assert_eq!(berlin.zone, Some(Zone::parse("Europe/Berlin").unwrap()));
        assert_eq!(Schedule::parse("TZ=Local @daily").unwrap().zone, Some(Zone::Local));
        assert_eq!(Schedule::parse("TZ= @daily").unwrap().zone, Some(Zone::Named(TimeZone::UTC)));
    }

    #[test]
    fn an_error_names_its_position() {
        let cases = include_str!("../../../tests/data/cron/errors.json");
        for (text, error) in serde_json::from_str::<Vec<(String, String)>>(cases).unwrap() {
            let found = Schedule::parse(&text).map_err(|error| error.to_string());
            assert_eq!(found, Err(error), "{text}");
        }
    }
}
