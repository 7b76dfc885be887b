//! When is a `ScheduledSparkApplication` due? Its schedule and its time zone, as values.
//!
//! The syntax is that of robfig/cron v3, which KF uses (behaviour.md 9.1). The crate croner, for one, knows
//! another: no `5/15`, no `?` in every field, but `L`, `W`, `#` and 7 for Sunday.

use crate::plan::go_duration;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use std::time::Duration;

/// When applications are made: how often, and by which clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// The zone that the schedule itself names (`CRON_TZ=…`), which goes before `spec.timeZone`.
    pub zone: Option<Zone>,
    pub rhythm: Rhythm,
}

/// By which clock.
#[derive(Clone, Debug, PartialEq)]
pub enum Zone {
    /// The zone of the operator's container.
    Local,
    Named(TimeZone),
}

/// How often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rhythm {
    /// This long after one another, at least a second.
    Every(Duration),
    /// Whenever the clock shows one of these times.
    At(Times),
}

/// Times of the clock: for each field, the set of its values as bits. A day must be in both of its sets if
/// either is whole, otherwise in one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    pub minutes: Values,
    pub hours: Values,
    pub days_of_month: Values,
    pub months: Values,
    pub days_of_week: Values,
}

/// Values of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    /// Bit n stands for the value n.
    pub bits: u64,
    /// Whether all are meant: `*`, `?` or `*/1` is in it.
    pub is_whole: bool,
}

/// What is wrong with a schedule or a zone, and where in the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("`{0}` is not a time zone: write a name such as `Europe/Berlin`, `UTC`, or `Local`")]
    Zone(String),
    #[error("there is nothing behind `{0}`: write the schedule, for instance `0 3 * * *`")]
    NothingButZone(String),
    #[error(
        "has {0} fields: write five (minute, hour, day of month, month, day of week), for instance `0 3 * * *`"
    )]
    Fields(usize),
    #[error(
        "`{0}` is not known: write @hourly, @daily, @weekly, @monthly, @yearly, or @every with a duration"
    )]
    Descriptor(String),
    #[error("`{0}` behind @every is not a duration: write for instance `90m` or `1h30m`")]
    Duration(String),
    #[error("{field}, `{part}`: {why}")]
    Part { field: &'static str, part: String, why: String },
}

impl Zone {
    /// The zone that is called `name`; the operator's own if it is empty.
    ///
    /// # Errors
    ///
    /// When there is none. The zones are those of the IANA database in this binary.
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
    /// When it is not a schedule; the error says where.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        let zoned = ["CRON_TZ=", "TZ="].iter().find_map(|prefix| text.strip_prefix(prefix));
        let Some(zoned) = zoned else {
            return Ok(Self { zone: None, rhythm: rhythm(text)? });
        };
        let (name, rest) = zoned.split_once(' ').unwrap_or((zoned, ""));
        let zone = Zone::parse(name)?;
        if rest.trim().is_empty() {
            return Err(Error::NothingButZone(text.to_owned()));
        }
        Ok(Self { zone: Some(zone), rhythm: rhythm(rest.trim())? })
    }

    /// Whether there is a day at all on which this is due; not the 30th of February.
    #[must_use]
    pub fn is_ever_due(&self) -> bool {
        const LONGEST_MONTHS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let Rhythm::At(times) = &self.rhythm else { return true };
        let fields = [times.minutes, times.hours, times.days_of_month, times.months, times.days_of_week];
        if fields.iter().any(|values| values.bits == 0) {
            return false;
        }
        let either_day_will_do = !times.days_of_month.is_whole && !times.days_of_week.is_whole;
        let first = times.days_of_month.bits.trailing_zeros();
        let mut months = (1..).zip(LONGEST_MONTHS);
        either_day_will_do || months.any(|(month, days)| times.months.bits >> month & 1 == 1 && first <= days)
    }
}

/// What one field may hold.
struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    /// Names of values, the first one for `least`.
    names: &'static [&'static str],
}

const MINUTE: Field = Field { name: "minute", least: 0, most: 59, names: &[] };
const HOUR: Field = Field { name: "hour", least: 0, most: 23, names: &[] };
const DAY_OF_MONTH: Field = Field { name: "day of month", least: 1, most: 31, names: &[] };
const MONTH: Field = Field {
    name: "month",
    least: 1,
    most: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const DAY_OF_WEEK: Field = Field {
    name: "day of week",
    least: 0,
    most: 6,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

fn rhythm(text: &str) -> Result<Rhythm, Error> {
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
    Ok(Rhythm::At(Times {
        minutes: MINUTE.values(minute)?,
        hours: HOUR.values(hour)?,
        days_of_month: DAY_OF_MONTH.values(day_of_month)?,
        months: MONTH.values(month)?,
        days_of_week: DAY_OF_WEEK.values(day_of_week)?,
    }))
}

/// Parts of a second are cut off, and less than one second is one.
fn every(text: &str) -> Result<Rhythm, Error> {
    let nanoseconds = go_duration::nanoseconds(text).ok_or_else(|| Error::Duration(text.to_owned()))?;
    let seconds = u64::try_from(nanoseconds / 1_000_000_000).unwrap_or_default();
    Ok(Rhythm::Every(Duration::from_secs(seconds.max(1))))
}

impl Field {
    fn values(&self, text: &str) -> Result<Values, Error> {
        let mut values = Values { bits: 0, is_whole: false };
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let of_part = self.part(part).map_err(|why| Error::Part {
                field: self.name,
                part: part.to_owned(),
                why,
            })?;
            values.bits |= of_part.bits;
            values.is_whole |= of_part.is_whole;
        }
        Ok(values)
    }

    /// `*`, `5`, `1-5`, each with or without `/2` behind it; `5/15` is from 5 to the end.
    fn part(&self, part: &str) -> Result<Values, String> {
        let (range, step) = match part.split_once('/') {
            Some((_, step)) if step.contains('/') => return Err("has more than one `/`".to_owned()),
            Some((range, step)) => (range, Some(step)),
            None => (part, None),
        };
        let (first, last) = range.split_once('-').map_or((range, None), |(first, last)| (first, Some(last)));
        let is_star = matches!(first, "*" | "?");
        let (from, to) = match last {
            _ if is_star => (self.least, self.most),
            Some(last) if last.contains('-') => return Err("has more than one `-`".to_owned()),
            Some(last) => (self.value(first)?, self.value(last)?),
            None => {
                let from = self.value(first)?;
                (from, if step.is_some() { self.most } else { from })
            }
        };
        let Self { least, most, .. } = self;
        if from < *least || to > *most {
            let named = |name: Option<&&str>| name.map(|name| format!(" ({name})")).unwrap_or_default();
            let (first, last) = (named(self.names.first()), named(self.names.last()));
            return Err(format!("must be from {least}{first} to {most}{last}"));
        }
        if from > to {
            return Err(format!(
                "begins after its end: write `{first}-{most},{least}-{}`",
                last.unwrap_or_default()
            ));
        }
        let step = match step.map(str::parse::<u32>) {
            None => 1,
            Some(Ok(step)) if step > 0 => step,
            Some(_) => return Err("what stands behind `/` must be a number from 1".to_owned()),
        };
        let bits = (from..=to).step_by(step as usize).fold(0, |bits, value| bits | 1_u64 << value);
        Ok(Values { bits, is_whole: is_star && step == 1 })
    }

    fn value(&self, text: &str) -> Result<u32, String> {
        let named = self.names.iter().zip(self.least..).find(|(name, _)| text.eq_ignore_ascii_case(name));
        let value = named.map(|(_, value)| value).or_else(|| text.parse().ok());
        value.ok_or_else(|| match (self.names.first(), self.names.last()) {
            (Some(first), Some(last)) => format!("is neither a number nor a name from `{first}` to `{last}`"),
            _ => "is not a number".to_owned(),
        })
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
        ] {
            assert_eq!(times(&format!("{field} 0 1 1 0")).minutes.bits, minutes, "{field}");
        }
        let times = times("0 0 1 JAN-mar Mon,fri");
        assert_eq!((times.months.bits, times.days_of_week.bits), (bits([1, 2, 3]), bits([1, 5])));
    }

    #[test]
    fn a_field_with_a_star_is_whole_unless_it_is_stepped_over() {
        for (field, is_whole) in
            [("*", true), ("?", true), ("*/1", true), ("*/2", false), ("1-31", false), ("1,*", true)]
        {
            assert_eq!(times(&format!("0 0 {field} * 0")).days_of_month.is_whole, is_whole, "{field}");
        }
    }

    #[test]
    fn descriptors_stand_for_expressions() {
        assert_eq!(times("@weekly"), times("0 0 * * sun"));
        assert_eq!(times(" @midnight "), times("0 0 * * *"));
        assert_eq!(times("@annually"), times("0 0 1 jan *"));
    }

    #[test]
    fn an_interval_is_whole_seconds_and_at_least_one() {
        for (text, seconds) in [("90m", 5400), ("1500ms", 1), ("0", 1), ("-5m", 1)] {
            let every = Rhythm::Every(Duration::from_secs(seconds));
            assert_eq!(Schedule::parse(&format!("@every {text}")).unwrap().rhythm, every, "{text}");
        }
    }

    #[test]
    fn zones_are_found_without_any_file() {
        for name in
            ["Europe/Berlin", "UTC", "America/Argentina/Buenos_Aires", "US/Eastern", "Etc/GMT+5", "EST5EDT"]
        {
            assert!(matches!(Zone::parse(name), Ok(Zone::Named(_))), "{name}");
        }
        assert_eq!((Zone::parse(""), Zone::parse("Local")), (Ok(Zone::Local), Ok(Zone::Local)));
        let berlin = Schedule::parse("CRON_TZ=Europe/Berlin  0 3 * * *").unwrap();
        assert_eq!(berlin.zone, Some(Zone::parse("Europe/Berlin").unwrap()));
        assert_eq!(Schedule::parse("TZ=Local @daily").unwrap().zone, Some(Zone::Local));
    }

    #[test]
    fn an_error_says_where() {
        for (text, error) in [
            (
                "",
                "has 0 fields: write five (minute, hour, day of month, month, day of week), for instance `0 3 * * *`",
            ),
            ("61 * * * *", "minute, `61`: must be from 0 to 59"),
            ("0 0 * * 1,7", "day of week, `7`: must be from 0 (sun) to 6 (sat)"),
            ("0 22-2 * * *", "hour, `22-2`: begins after its end: write `22-23,0-2`"),
            ("0 0 L * *", "day of month, `L`: is not a number"),
            ("0 0 * janu *", "month, `janu`: is neither a number nor a name from `jan` to `dec`"),
            ("*/0 * * * *", "minute, `*/0`: what stands behind `/` must be a number from 1"),
            ("1-2-3 * * * *", "minute, `1-2-3`: has more than one `-`"),
            ("1/2/3 * * * *", "minute, `1/2/3`: has more than one `/`"),
            (
                "@hourly 5",
                "`@hourly 5` is not known: write @hourly, @daily, @weekly, @monthly, @yearly, or @every with a duration",
            ),
            ("TZ=UTC", "there is nothing behind `TZ=UTC`: write the schedule, for instance `0 3 * * *`"),
            (
                "TZ=Berlin 0 3 * * *",
                "`Berlin` is not a time zone: write a name such as `Europe/Berlin`, `UTC`, or `Local`",
            ),
            ("@every soon", "`soon` behind @every is not a duration: write for instance `90m` or `1h30m`"),
        ] {
            assert_eq!(
                Schedule::parse(text).map_err(|error| error.to_string()),
                Err(error.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn some_schedules_are_never_due() {
        for (text, is_ever_due) in [
            ("0 0 30 2 *", false),
            ("0 0 31 4,6,9,11 ?", false),
            (", * * * *", false),
            ("0 0 29 2 *", true),
            ("0 0 31 2 mon", true),
            ("0 0 31 4,5 *", true),
            ("@every 1h", true),
        ] {
            assert_eq!(Schedule::parse(text).unwrap().is_ever_due(), is_ever_due, "{text}");
        }
    }
}
