//! How much is a Kubernetes quantity, such as `1.5Gi` or `200m`?

/// The amount in thousandths of the unit (bytes or cores), so that `200m` and `0.2` are equal; none if `text`
/// is not a quantity.
///
/// Follows apimachinery's `resource.Quantity`: decimal digits with an optional fraction, then one of the
/// suffixes n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei, or a decimal exponent. Amounts below a
/// thousandth are rounded up, as there.
#[must_use]
pub fn amount(text: &str) -> Option<i128> {
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let (mantissa, decimals) = mantissa(digits)?;
    let (numerator, exponent): (i128, i32) = match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        _ => (1, suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    };
    let thousandths = exponent.checked_add(3)?.checked_sub(decimals)?;
    let amount = mantissa.checked_mul(numerator)?;
    if thousandths >= 0 {
        return amount.checked_mul(10_i128.checked_pow(thousandths.unsigned_abs())?);
    }
    let divisor = 10_i128.checked_pow(thousandths.unsigned_abs())?;
    Some(amount.div_euclid(divisor) + i128::from(amount.rem_euclid(divisor) != 0))
}

/// An amount of cores, pods and the like, as [`amount`] gives it: `2`, `1500m`.
#[must_use]
pub fn decimal(amount: i128) -> String {
    if amount % 1000 == 0 { (amount / 1000).to_string() } else { format!("{amount}m") }
}

/// An amount of bytes, as [`amount`] gives it, in the largest unit of which it is a whole number: `1408Mi`.
#[must_use]
pub fn binary(amount: i128) -> String {
    let units = [("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
    let unit = units.into_iter().map(|(unit, exponent)| (unit, 1000 * (1_i128 << exponent)));
    let unit = unit.into_iter().find(|(_, size)| amount != 0 && amount % size == 0);
    unit.map_or_else(|| decimal(amount), |(unit, size)| format!("{}{unit}", amount / size))
}

/// `1.50` as (150, 2).
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
    use super::{amount, binary, decimal};

    #[test]
    fn equal_amounts_are_equal_however_they_are_written() {
        for (one, other) in [
            ("1024Mi", "1Gi"),
            ("200m", "0.2"),
            ("1e3", "1k"),
            ("1.5Gi", "1536Mi"),
            ("+5E1", "50"),
            ("1n", "1m"),
        ] {
            assert!(amount(one).is_some(), "{one}");
            assert_eq!(amount(one), amount(other), "{one} and {other}");
        }
        assert_ne!(amount("1G"), amount("1Gi"));
    }

    #[test]
    fn what_is_not_a_quantity_has_no_amount() {
        for text in ["", "Gi", "1g", "1 Gi", "1.2.3", "1e", "1e3m", "--1", "1-2", ".", "1E999999999"] {
            assert_eq!(amount(text), None, "{text}");
        }
    }

    #[test]
    fn an_amount_is_written_as_a_person_would() {
        for (text, written) in
            [("1408Mi", "1408Mi"), ("2048Mi", "2Gi"), ("1000", "1000"), ("0", "0"), ("16Ei", "16Ei")]
        {
            assert_eq!(binary(amount(text).unwrap()), written);
        }
        for (text, written) in [("2", "2"), ("1.5", "1500m"), ("200m", "200m"), ("-1", "-1")] {
            assert_eq!(decimal(amount(text).unwrap()), written);
        }
    }
}
