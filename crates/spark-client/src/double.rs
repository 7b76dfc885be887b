//! Writes a number as Java does.

/// Returns what Java's `Double.toString` returns for a number that is not negative: at least one decimal, and an
/// exponent for small numbers (below 0.001) and large ones (10,000,000 or more).
pub(super) fn to_string(number: f64) -> String {
    if number.is_infinite() {
        return "Infinity".to_owned();
    }
    if number == 0.0 || (1e-3..1e7).contains(&number) {
        return format!("{number:?}");
    }
    let scientific = format!("{number:E}");
    match scientific.split_once('E') {
        Some((mantissa, exponent)) if !mantissa.contains('.') => format!("{mantissa}.0E{exponent}"),
        _ => scientific,
    }
}

#[cfg(test)]
mod tests {
    use super::to_string;

    #[test]
    fn numbers_are_written_as_java_writes_them() {
        for (number, written) in [
            (0.0, "0.0"),
            (0.1, "0.1"),
            (0.20, "0.2"),
            (1.0, "1.0"),
            (1e-3, "0.001"),
            (1e-4, "1.0E-4"),
            (1.5e-5, "1.5E-5"),
            (9_999_999.5, "9999999.5"),
            (1e7, "1.0E7"),
            (1.25e21, "1.25E21"),
        ] {
            assert_eq!(to_string(number), written);
        }
    }
}
