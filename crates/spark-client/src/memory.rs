//! Parses memory sizes in Java's notation, such as `512m` or `4g`, by the rules of Spark.

/// Java's units and the number of bytes of each.
const UNITS: [(&str, u64); 6] =
    [("b", 1), ("k", 1 << 10), ("m", 1 << 20), ("g", 1 << 30), ("t", 1 << 40), ("p", 1 << 50)];

/// The default minimum of a pod's memory overhead (non-heap memory), in MiB
/// (`ResourceProfile.MEMORY_OVERHEAD_MIN_MIB`).
pub const OVERHEAD_LEAST: u64 = 384;

/// Returns the number of bytes that `text` means in `spark.driver.memory` and similar properties, in which a number
/// without a unit means MiB; `None` if Spark refuses `text`.
///
/// Follows Spark's `JavaUtils.byteStringAs`: a whole number, then a unit out of b, k, m, g, t, p, in upper or lower
/// case, optionally followed by b, with blanks allowed around the text, and at most 2⁶³ − 1 bytes. Since Spark 4.2
/// (`with_i`), each unit but b may have an i, as in Kubernetes: `2Gi`.
pub fn bytes(text: &str, with_i: bool) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let (digits, unit) = split_number(&lower, |c| c.is_ascii_digit());
    let short =
        unit.strip_suffix('b').unwrap_or(unit).strip_suffix('i').filter(|unit| with_i && *unit != "b");
    let unit = if unit.is_empty() { 1 << 20 } else { unit_bytes(short.unwrap_or(unit))? };
    // The digits are split off first because `u64::from_str` would accept a sign.
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(unit).filter(|bytes| i64::try_from(*bytes).is_ok())
}

/// Parses a fraction of the heap by Java's rules for numbers; `None` if it is negative, infinite or not a number.
pub fn factor(text: &str) -> Option<f64> {
    let text = text.trim();
    let number = text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text);
    number.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor >= 0.0)
}

/// Returns the memory size that the user who wrote `text` probably meant: the same number, with the unit with which the
/// text after the number begins; `1g` if there is no such number or unit.
pub fn suggestion(text: &str) -> String {
    const ANYTHING: &str = "1g";
    let lower = text.trim().to_ascii_lowercase();
    let (number, rest) = split_number(&lower, |c| c.is_ascii_digit() || c == '.');
    let rest = rest.trim_start();
    let unit = UNITS.iter().rposition(|(name, _)| rest.starts_with(name));
    match (number.parse::<u64>(), number.parse::<f64>(), unit) {
        (Ok(number), _, Some(unit)) if number > 0 => format!("{number}{}", UNITS[unit].0),
        // A fraction is converted to the next smaller unit, in which it is rounded to a whole number.
        (Err(_), Ok(number), Some(unit)) if number > 0.0 && unit > 0 => {
            format!("{:.0}{}", number * 1024.0, UNITS[unit - 1].0)
        }
        _ => ANYTHING.to_owned(),
    }
}

fn split_number(text: &str, is_of_number: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !is_of_number(c)).unwrap_or(text.len()))
}

fn unit_bytes(name: &str) -> Option<u64> {
    let is_called = |short: &str| name == short || (short != "b" && name.strip_suffix('b') == Some(short));
    UNITS.iter().find(|(short, _)| is_called(short)).map(|(_, bytes)| *bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// The expected values are those of `JavaUtils.byteStringAsBytes` of Spark 4.0.1, except that a number without a
    /// unit means MiB here and bytes there; for factors, those of Java. The units with an i are known since 4.2
    /// (SPARK-55051).
    #[test]
    fn sizes_and_factors_are_parsed_as_in_spark() {
        let cases = include_str!("../../../tests/data/quantities/memory.json");
        let mut cases: Value = serde_json::from_str(cases).unwrap();
        for (kind, is_with_i) in [("bytes", false), ("withI", true)] {
            let sizes: Vec<(String, Option<u64>)> = serde_json::from_value(cases[kind].take()).unwrap();
            for (text, expected) in sizes {
                assert_eq!(bytes(&text, is_with_i), expected, "{text}");
            }
        }
        let factors: Vec<(String, Option<f64>)> = serde_json::from_value(cases["factors"].take()).unwrap();
        for (text, expected) in factors {
            assert_eq!(factor(&text), expected, "{text}");
        }
    }

    #[test]
    fn a_suggestion_is_the_size_that_was_probably_meant_and_is_valid() {
        let cases = include_str!("../../../tests/data/quantities/suggestions.json");
        for [text, meant] in serde_json::from_str::<Vec<[&str; 2]>>(cases).unwrap() {
            assert_eq!(suggestion(text), meant, "{text}");
            assert!(bytes(&suggestion(text), false).is_some_and(|bytes| bytes > 0), "{text}");
        }
    }
}
