//! Reads and writes Kubernetes quantities, such as `1.5Gi` or `200m`.

/// The notation of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A suffix for a power of 1000, or no suffix.
    Decimal,
    /// A suffix for a power of 1024.
    Binary,
    /// An exponent of ten, such as `e3`.
    Exponent,
}

/// The suffixes for powers of 1000, from 10 to the power of -9 on.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// The suffixes for powers of 1024, from 1 on.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Returns the amount in thousandths of the unit (bytes or cores), so that `200m` and `0.2` are equal; `None` if `text`
/// is not a quantity.
///
/// Follows apimachinery's `resource.Quantity`: decimal digits with an optional fraction, then one of the suffixes n, u,
/// m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei, or a decimal exponent. Like apimachinery, rounds amounts below a
/// thousandth up.
pub fn amount(text: &str) -> Option<i128> {
    parts(text, 3).map(|(amount, _)| amount)
}

/// Returns the quantity in Kubernetes' canonical form: `1024Mi` becomes `1Gi`, `0.5` becomes `500m`; `None` if `text`
/// is not a quantity. Redundant signs and zeros are removed; Kubernetes keeps some of them.
pub fn canonical(text: &str) -> Option<String> {
    const DIGITS: i32 = 9;
    const ONE: i128 = 10_i128.pow(DIGITS.unsigned_abs());
    let (amount, form) = parts(text.trim(), DIGITS)?;
    if amount == 0 {
        return Some("0".to_owned());
    }
    // As in Kubernetes, a binary amount above `i64::MAX` is capped at `i64::MAX`; an amount below 1024 or with a
    // fraction has no binary suffix.
    let amount = if form == Form::Binary { amount.min(i128::from(i64::MAX) * ONE) } else { amount };
    if form == Form::Binary && amount % ONE == 0 && (amount / ONE).abs() >= 1024 {
        let (number, exponent) = divided(amount / ONE, 1024, BINARY.len() - 1);
        return Some(format!("{number}{}", BINARY[exponent]));
    }
    let (number, exponent) = divided(amount, 1000, DECIMAL.len() - 1);
    let suffix = DECIMAL[exponent];
    if form == Form::Exponent && !suffix.is_empty() {
        let exponent = 3 * i32::try_from(exponent).ok()? - DIGITS;
        return Some(format!("{number}e{exponent}"));
    }
    Some(format!("{number}{suffix}"))
}

/// Divides `number` by `base` as long as the result is whole, at most `most` times. Returns the result and the number
/// of divisions.
fn divided(mut number: i128, base: i128, most: usize) -> (i128, usize) {
    let mut times = 0;
    while times < most && number % base == 0 {
        number /= base;
        times += 1;
    }
    (number, times)
}

/// Returns the amount in units of 10 to the power of minus `digits`, rounded up, and the notation of `text`.
fn parts(text: &str, digits: i32) -> Option<(i128, Form)> {
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (mantissa, decimals) = mantissa(number)?;
    let place = |suffixes: &[&str]| suffixes.iter().position(|known| *known == suffix);
    let (numerator, exponent, form): (i128, i32, Form) = if let Some(place) = place(&DECIMAL) {
        (1, 3 * i32::try_from(place).ok()? - 9, Form::Decimal)
    } else if let Some(place) = place(&BINARY) {
        (1 << (10 * place), 0, Form::Binary)
    } else {
        (1, suffix.strip_prefix(['e', 'E'])?.parse().ok()?, Form::Exponent)
    };
    let exponent = exponent.checked_add(digits)?.checked_sub(decimals)?;
    let amount = mantissa.checked_mul(numerator)?;
    if exponent >= 0 {
        return Some((amount.checked_mul(10_i128.checked_pow(exponent.unsigned_abs())?)?, form));
    }
    let divisor = 10_i128.checked_pow(exponent.unsigned_abs())?;
    Some((amount.div_euclid(divisor) + i128::from(amount.rem_euclid(divisor) != 0), form))
}

/// Writes an amount of a resource, in thousandths as [`amount`] returns it: bytes in the largest unit in which they are a whole
/// number, such as `1408Mi` of `memory`, and others as `2` or `1500m` of `cpu`.
/// `resource` may also be the key of a quota: `requests.memory`.
pub fn of_resource(resource: &str, amount: i128) -> String {
    let name =
        ["requests.", "limits."].iter().find_map(|prefix| resource.strip_prefix(prefix)).unwrap_or(resource);
    let is_of_bytes = ["memory", "ephemeral-storage"].contains(&name) || name.starts_with("hugepages-");
    let is_whole = amount % 1000 == 0;
    if is_of_bytes && is_whole && amount != 0 {
        let (number, exponent) = divided(amount / 1000, 1024, BINARY.len() - 1);
        return format!("{number}{}", BINARY[exponent]);
    }
    if is_whole { (amount / 1000).to_string() } else { format!("{amount}m") }
}

/// Converts a memory size in Java's notation to a quantity: `2g` becomes `2Gi`, `100m` becomes `100Mi`. A
/// text without one of Java's suffixes is returned unchanged.
pub fn from_java(memory: &str) -> String {
    let memory = memory.trim();
    let lower = memory.to_ascii_lowercase();
    let short = lower.strip_suffix('b').unwrap_or(&lower);
    match short.strip_suffix(['k', 'm', 'g', 't', 'p']) {
        Some(number) => format!("{number}{}i", short[number.len()..].to_ascii_uppercase()),
        None => memory.to_owned(),
    }
}

/// Splits a number into its digits without the point and its count of decimals: `1.50` becomes (150, 2).
fn mantissa(digits: &str) -> Option<(i128, i32)> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if fraction.contains(['+', '-']) || !digits.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let decimals = i32::try_from(fraction.len()).ok()?;
    Some((format!("{whole}{fraction}").parse().ok()?, decimals))
}

#[cfg(test)]
mod tests {
    use super::{amount, canonical, from_java, of_resource};

    #[test]
    fn amounts_are_equal_in_every_notation() {
        let cases = include_str!("../../../tests/data/quantities/equal.json");
        for [one, other] in serde_json::from_str::<Vec<[&str; 2]>>(cases).unwrap() {
            assert!(amount(one).is_some(), "{one}");
            assert_eq!(amount(one), amount(other), "{one} and {other}");
        }
        assert_ne!(amount("1G"), amount("1Gi"));
    }

    #[test]
    fn a_text_that_is_not_a_quantity_has_no_amount() {
        for text in ["", "Gi", "1g", "1 Gi", "1.2.3", "1e", "1e3m", "--1", "1-2", ".", "1E999999999"] {
            assert_eq!(amount(text), None, "{text}");
        }
    }

    /// The expected texts are what Kubernetes' Go type `Quantity` writes.
    #[test]
    fn a_quantity_is_written_as_kubernetes_does() {
        let cases = include_str!("../../../tests/data/quantities/quantities.json");
        for (text, expected) in serde_json::from_str::<Vec<(String, String)>>(cases).unwrap() {
            assert_eq!(canonical(&text), Some(expected), "{text}");
        }
        assert_eq!(canonical("1g"), None);
    }

    #[test]
    fn bytes_are_written_in_the_largest_whole_unit_and_others_as_numbers() {
        let cases = include_str!("../../../tests/data/quantities/for-people.json");
        for [resource, text, written] in serde_json::from_str::<Vec<[&str; 3]>>(cases).unwrap() {
            assert_eq!(of_resource(resource, amount(text).unwrap()), written);
        }
    }
    #[test]
    fn a_size_in_javas_notation_becomes_a_quantity() {
        let cases = include_str!("../../../tests/data/quantities/memory.json");
        let mut cases: serde_json::Value = serde_json::from_str(cases).unwrap();
        let quantities: Vec<[String; 2]> = serde_json::from_value(cases["quantities"].take()).unwrap();
        for [java, kubernetes] in quantities {
            assert_eq!(from_java(&java), kubernetes);
        }
    }
}
