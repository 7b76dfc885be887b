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

/// Returns text of any origin as one line, without control characters that would act on a terminal.
pub(super) fn line(text: &str) -> String {
    printable(&text.replace(['\t', '\n', '\r'], " "))
}

/// Whether a comment or a line of a terminal can contain `c`. kubectl takes Unicode's line separators for line ends, and
/// what changes the direction of writing would show the rest of a line as other words than it has.
pub(super) fn is_printable(c: char) -> bool {
    let is_separator = matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}');
    let turns =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !c.is_control() && !is_separator && !turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_any_language_are_kept_and_what_turns_them_around_is_not() {
        assert_eq!(printable("ü שלום مرحبا"), "ü שלום مرحبا");
        assert_eq!(
            printable("a\u{202e}b\u{2066}c\u{1b}[2Jd\u{200f}"),
            "a\u{fffd}b\u{fffd}c\u{fffd}[2Jd\u{fffd}"
        );
    }
}
