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
        let cases = include_str!("../../../tests/data/spark-client/doubles.json");
        for [number, written] in serde_json::from_str::<Vec<[&str; 2]>>(cases).unwrap() {
            assert_eq!(to_string(number.parse().unwrap()), written);
        }
    }
}
