//! Makes untrusted text safe to print: replaces control characters, which a terminal would interpret, and characters
//! that change the direction of writing.

/// Returns `text` with U+FFFD in place of each character that a YAML comment cannot contain, so that it stays one line.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_printable(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// Returns untrusted text as one printable line: tabs and line breaks become spaces.
pub fn line(text: &str) -> String {
    printable(&text.replace(['\t', '\n', '\r'], " "))
}

/// Returns untrusted text with its line breaks, each line as [`line()`] returns it.
pub fn lines(text: &str) -> String {
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Whether `c` is safe in a YAML comment and on a terminal. kubectl takes Unicode's line separators for line ends, and
/// characters that change the direction of writing would make the rest of a line look like other text.
pub fn is_printable(c: char) -> bool {
    let is_separator = matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}');
    let is_direction =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !c.is_control() && !is_separator && !is_direction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_any_script_are_kept_and_direction_controls_replaced() {
        assert_eq!(printable("ü שלום مرحبا"), "ü שלום مرحبا");
        assert_eq!(
            printable("a\u{202e}b\u{2066}c\u{1b}[2Jd\u{200f}"),
            "a\u{fffd}b\u{fffd}c\u{fffd}[2Jd\u{fffd}"
        );
    }
}
