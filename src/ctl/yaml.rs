//! Writes objects and comments as YAML that kubectl reads as it is meant.

use serde_json::Value;
use serde_saphyr::ser_options;

/// `object` as a YAML document of its own. Long lines stay lines: folded, they would say the same and compare
/// badly.
pub(super) fn document(object: &Value) -> anyhow::Result<String> {
    let options = ser_options! { folded_wrap_chars: usize::MAX };
    Ok(serde_saphyr::to_string_with_options(object, options)?)
}

/// `text` as comment lines that begin with `mark`.
pub(super) fn comment(mark: &str, text: &str) -> String {
    text.lines().map(|line| format!("{mark}{line}\n")).collect()
}

/// `text` as one line, without what a comment cannot hold.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if is_printable(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// Whether a comment can hold `c`; kubectl takes Unicode's line ends for such.
pub(super) fn is_printable(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}
