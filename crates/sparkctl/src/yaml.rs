//! Writes objects and comments as YAML in such a way that kubectl reads exactly what is meant.

use serde_json::Value;
use serde_saphyr::ser_options;

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

/// Returns `text` with a replacement character for each character that a comment cannot contain, so that it stays one
/// line.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if is_printable(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// Whether a comment can contain `c`; kubectl takes Unicode's line separators for line ends.
pub(super) fn is_printable(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}
