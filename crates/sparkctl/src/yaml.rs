//! Writes objects and comments as YAML in such a way that kubectl reads exactly what is meant.

use serde_json::Value;
use serde_saphyr::ser_options;
pub(super) use spark_operator_client::printable::{is_printable, line, printable};

/// Returns `object` as a YAML document. Long lines are not folded: folded lines would have the same meaning, but are
/// hard to compare.
pub(super) fn document(object: &Value) -> anyhow::Result<String> {
    let options = ser_options! { folded_wrap_chars: usize::MAX };
    Ok(serde_saphyr::to_string_with_options(object, options)?)
}

/// Returns `text` as comment lines that begin with `mark`.
pub(super) fn comment(mark: &str, text: &str) -> String {
    text.lines().map(|line| format!("{mark}{line}\n")).collect()
}
