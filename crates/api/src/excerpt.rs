//! Shortens texts that are too long to be shown completely, and marks the cut with an ellipsis.

/// The greatest length in bytes of an explanation in a status or an event: the note of an event can have 1,024 bytes,
/// and the rest of the note names the object.
pub const LONGEST_EXPLANATION: usize = 800;

const ELLIPSIS: &str = "…";

/// Returns the first bytes of `text`, at most `limit` including the ellipsis, cut between two characters.
pub fn beginning(text: String, limit: usize) -> String {
    if text.len() <= limit {
        return text;
    }
    let end = text.floor_char_boundary(limit - ELLIPSIS.len());
    format!("{}{ELLIPSIS}", &text[..end])
}

/// Returns `text` as an explanation in a status or an event, cut to [`LONGEST_EXPLANATION`].
pub fn explanation(text: String) -> String {
    beginning(text, LONGEST_EXPLANATION)
}

/// Returns the last bytes of `text`, at most `limit` including the ellipsis, cut between two characters.
pub fn end(text: String, limit: usize) -> String {
    if text.len() <= limit {
        return text;
    }
    let begin = text.ceil_char_boundary(text.len() - limit.saturating_sub(ELLIPSIS.len()));
    format!("{ELLIPSIS}{}", &text[begin..])
}

/// Returns the first word of an explanation, such as `ImagePullBackOff: …`, if it can be the reason of a condition: the API
/// server refuses what is not a single word.
pub fn reason(text: &str) -> Option<&str> {
    let word = text.split(':').next().unwrap_or_default();
    let is_word = word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.len() <= 256
        && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_word.then_some(word)
}

#[cfg(test)]
mod tests {
    use super::{beginning, end};

    #[test]
    fn a_text_is_cut_between_two_characters() {
        assert_eq!(beginning("abcdef".to_owned(), 6), "abcdef");
        assert_eq!(beginning("üüüa".to_owned(), 6), "ü…");
        assert_eq!(end("abcdef".to_owned(), 6), "abcdef");
        assert_eq!(end("aüüü".to_owned(), 6), "…ü");
    }
}
