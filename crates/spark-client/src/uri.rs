//! Parses and escapes URIs as Java does.

/// The parts of a URI, as `java.net.URI` reads them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Uri<'a> {
    /// The scheme; empty for a plain path, which has none.
    pub scheme: &'a str,
    /// Everything between scheme and fragment.
    pub specific_part: &'a str,
    pub fragment: Option<&'a str>,
}

/// Parses `text` as a URI; returns `None` where Java throws a `URISyntaxException`.
pub(super) fn parse(text: &str) -> Option<Uri<'_>> {
    let parts = text.split_once('#');
    let (rest, fragment) = parts.map_or((text, None), |(rest, fragment)| (rest, Some(fragment)));
    let (scheme, specific_part) = match rest.find([':', '/', '?']) {
        Some(at) if rest[at..].starts_with(':') => (&rest[..at], &rest[at + 1..]),
        _ => ("", rest),
    };
    let has_scheme = scheme.len() < rest.len() && rest[scheme.len()..].starts_with(':');
    if has_scheme && (!is_scheme(scheme) || specific_part.is_empty()) {
        return None;
    }
    // The position at which the authority ends. `//` alone, as in `local://`, has neither authority nor path;
    // `is_valid` excludes it.
    let hierarchy = specific_part.strip_prefix("//").map(|rest| rest.find(['/', '?']).unwrap_or(rest.len()));
    let is_opaque = has_scheme && !specific_part.starts_with('/');
    let (path, query) = specific_part.split_once('?').unwrap_or((specific_part, ""));
    // Brackets are allowed only in IPv6 addresses, queries and fragments.
    let brackets = |part: &str| part.contains(['[', ']']);
    let behind_authority = hierarchy.map_or(path, |end| path.get(2 + end..).unwrap_or(""));
    let is_valid = specific_part != "//"
        && is_legal(specific_part)
        && is_legal(query)
        && fragment.is_none_or(is_legal)
        && (is_opaque || !brackets(behind_authority));
    is_valid.then_some(Uri { scheme, specific_part, fragment })
}

impl Uri<'_> {
    /// Returns the text that Spark creates from a URI when it splits off the fragment: `new URI(scheme, specificPart,
    /// null)`, followed by the fragment. Unnecessary escapes are undone, and in the fragment all escapes. So the result
    /// may no longer be a URI.
    pub(super) fn rebuilt(&self) -> String {
        let fragment = self.fragment.map(|fragment| format!("#{}", unescaped(fragment))).unwrap_or_default();
        format!("{}:{}{fragment}", self.scheme, quoted(&unescaped(self.specific_part)))
    }
}

/// Whether `text` can be the scheme of a URI, which is the text before the first colon of the URI.
pub fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// Whether `part` contains only characters that a URI may have, and `%` only before two hexadecimal digits.
fn is_legal(part: &str) -> bool {
    let mut pieces = part.split('%');
    let first = pieces.next().unwrap_or_default();
    first.chars().all(is_legal_char)
        && pieces.all(|piece| {
            piece.chars().take(2).filter(char::is_ascii_hexdigit).count() == 2
                && piece.chars().all(is_legal_char)
        })
}

fn is_legal_char(c: char) -> bool {
    // Java accepts letters of all languages, though RFC 2396 does not.
    c.is_ascii_alphanumeric()
        || "-_.!~*'();/?:@&=+$,[]".contains(c)
        || (!c.is_ascii() && !c.is_control() && !c.is_whitespace())
}

fn unescaped(part: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(part.len()), part.as_bytes());
    while let [first, after @ ..] = rest {
        let escape = (*first == b'%').then(|| after.get(..2)).flatten();
        let byte = escape.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Escapes every character in `part`, a file's path or a part of a URI, that a URI may not contain.
pub(super) fn quoted(part: &str) -> String {
    part.chars().fold(String::with_capacity(part.len()), |mut quoted, c| {
        if is_legal_char(c) {
            quoted.push(c);
        } else {
            let mut buffer = [0; 4];
            for byte in c.encode_utf8(&mut buffer).bytes() {
                quoted.push_str(&format!("%{byte:02X}"));
            }
        }
        quoted
    })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn uris_are_accepted_and_refused_as_in_java() {
        let cases = include_str!("../../../tests/data/spark-client/uris.json");
        for (text, scheme) in serde_json::from_str::<Vec<(String, Option<String>)>>(cases).unwrap() {
            assert_eq!(parse(&text).map(|uri| uri.scheme), scheme.as_deref(), "{text}");
        }
    }

    #[test]
    fn a_rebuilt_uri_keeps_only_necessary_escapes_before_its_fragment() {
        for (text, rebuilt) in [
            ("local:///opt/a%20b.jar", "local:///opt/a%20b.jar"),
            ("local:///opt/c.jar?x=1#y", "local:///opt/c.jar?x=1#y"),
            ("http://h/%25", "http://h/%25"),
            ("http://h/%61%C3%BC#%20", "http://h/aü# "),
        ] {
            assert_eq!(parse(text).unwrap().rebuilt(), rebuilt);
        }
    }
}
