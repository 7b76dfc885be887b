//! Describes in English when a schedule is due: `at 02:30 on Monday to Friday`.

use cron::{Rhythm, Times, Values};
use jiff::fmt::friendly::{Spacing, SpanPrinter};

const DAYS: &str = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday";
const MONTHS: &str = "January February March April May June July August September October November December";
/// The maximum number of times of a day that are listed one by one.
const MOST_TIMES: u32 = 6;

/// Returns the description of a rhythm: `at 02:30 on Monday to Friday`, `every 1h30m`.
pub(crate) fn in_words(rhythm: &Rhythm) -> String {
    let printer = SpanPrinter::new().spacing(Spacing::None);
    match rhythm {
        Rhythm::Every(interval) => format!("every {}", printer.unsigned_duration_to_string(interval)),
        Rhythm::At(times) => time_of_day(times) + &days(times),
    }
}

fn time_of_day(Times { minutes, hours, .. }: &Times) -> String {
    if minutes.bits.count_ones() * hours.bits.count_ones() <= MOST_TIMES {
        let times = numbers(*hours)
            .flat_map(|hour| numbers(*minutes).map(move |minute| format!("{hour:02}:{minute:02}")));
        return format!("at {}", listed(times.collect()));
    }
    let told = |values: &Values, count: u32, all: &str, some: &str| match values.bits.count_ones() == count {
        true => all.to_owned(),
        false => format!("{some} {}", ranges(*values, |value| value.to_string())),
    };
    let of_minutes = told(minutes, 60, "every minute", "at minute");
    format!("{of_minutes} of {}", told(hours, 24, "every hour", "the hours"))
}

/// Returns the days and months, or an empty string for all of them. As in cron, if both day fields are restricted, a
/// day that matches either is due.
fn days(times: &Times) -> String {
    let Times { days_of_month, months, days_of_week, .. } = times;
    let named = |values: &Values, prefix: &str, word: &dyn Fn(u32) -> String| {
        (!values.is_whole).then(|| format!("{prefix}{}", ranges(*values, word)))
    };
    let of_month = named(days_of_month, " on day ", &|day| day.to_string());
    let of_week = named(days_of_week, " on ", &|day| name(DAYS, day));
    let days = [of_month, of_week].into_iter().flatten().collect::<Vec<_>>().join(" or");
    let months = named(months, " in ", &|month| name(MONTHS, month - 1));
    days + &months.unwrap_or_default()
}

fn name(names: &str, place: u32) -> String {
    names.split(' ').nth(place as usize).unwrap_or_default().to_owned()
}

fn numbers(values: Values) -> impl Iterator<Item = u32> {
    (0..u64::BITS).filter(move |value| values.bits >> value & 1 == 1)
}

/// Returns the values as text, three or more consecutive ones as a range: `1, 3 to 5 and 9`.
fn ranges(values: Values, word: impl Fn(u32) -> String) -> String {
    let numbers: Vec<_> = numbers(values).collect();
    let in_a_row = numbers.chunk_by(|one, next| one + 1 == *next);
    let words = in_a_row.flat_map(|row| match row {
        [first, _, .., last] => vec![format!("{} to {}", word(*first), word(*last))],
        few => few.iter().map(|value| word(*value)).collect(),
    });
    listed(words.collect())
}

fn listed(mut words: Vec<String>) -> String {
    let last = words.pop().unwrap_or_else(|| "no time".to_owned());
    if words.is_empty() { last } else { format!("{} and {last}", words.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::in_words;
    use cron::Schedule;

    #[test]
    fn schedules_are_described_in_english() {
        let cases = include_str!("../../../tests/data/cron/words.json");
        for [schedule, words] in serde_json::from_str::<Vec<[&str; 2]>>(cases).unwrap() {
            assert_eq!(in_words(&Schedule::parse(schedule).unwrap().rhythm), words, "{schedule}");
        }
    }
}
