//! Parses a duration in Go's notation, such as `1h30m`.

/// Returns the nanoseconds of a duration by the rules of Go's `time.ParseDuration`: `1h30m`, `1.5h`, `0`; `None` if Go
/// refuses the text. (jiff accepts some texts that Go refuses, and the reverse.)
pub fn nanoseconds(text: &str) -> Option<i128> {
    const UNITS: [(&str, i128); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (number, behind) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit() && c != '.')?);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_number = !number.trim_matches('.').is_empty() && !fraction.contains('.');
        let end = behind.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(behind.len());
        let (unit, next) = behind.split_at(end);
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit).filter(|_| is_number)?;
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        // Digits after the 15th are less than a nanosecond in any unit.
        let fraction = &fraction[..fraction.len().min(15)];
        let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
        let fraction: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
        total = total.checked_add(whole.checked_mul(*unit)?)?.checked_add(fraction * unit / scale)?;
        rest = next;
    }
    Some(sign * total).filter(|total| i64::try_from(*total).is_ok())
}

#[cfg(test)]
mod tests {
    use super::nanoseconds;

    #[test]
    fn durations_are_parsed_as_go_parses_them() {
        let cases = include_str!("../../../tests/data/cron/durations.json");
        for (text, expected) in serde_json::from_str::<Vec<(String, Option<i64>)>>(cases).unwrap() {
            assert_eq!(nanoseconds(&text), expected.map(i128::from), "{text}");
        }
    }
}
