//! Makes one printable line of text of any origin, so that it acts on no terminal and turns no words around.

/// Returns `text` with a replacement character for each character that a comment cannot contain, so that it stays one
/// line.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_printable(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// Returns text of any origin as one line, without control characters that would act on a terminal.
pub fn line(text: &str) -> String {
    printable(&text.replace(['\t', '\n', '\r'], " "))
}

/// Returns text of any origin with its line breaks, but without other control characters.
pub fn lines(text: &str) -> String {
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Whether a comment or a line of a terminal can contain `c`. kubectl takes Unicode's line separators for line ends, and
/// what changes the direction of writing would show the rest of a line as other words than it has.
pub fn is_printable(c: char) -> bool {
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
