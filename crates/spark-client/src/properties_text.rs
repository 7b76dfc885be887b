//! Writes the text of `spark.properties`, the file from which the driver reads its properties.

use jiff::Timestamp;
use std::{collections::BTreeMap, fmt::Write};

/// Returns the text that `java.util.Properties.store` writes, in the order of the keys, with the two comments at the
/// beginning of Spark's file: the ConfigMap's name and the time.
pub(super) fn text(properties: &BTreeMap<String, String>, config_map: &str, now: Timestamp) -> String {
    let date = now.strftime("%a %b %d %H:%M:%S UTC %Y");
    let head =
        format!("#Java properties built from Kubernetes config map with name: {config_map}\n#{date}\n");
    properties.iter().fold(head, |mut text, (key, value)| {
        writeln!(text, "{}={}", escaped(key, true, &SYNTAX), escaped(value, false, &SYNTAX))
            .expect("writing to a String cannot fail");
        text
    })
}

/// The characters that end a key or begin a comment. Java's `store` also escapes them in values, where they have no
/// special meaning.
pub const SYNTAX: [char; 4] = ['=', ':', '#', '!'];

/// Escapes a key or a value for `java.util.Properties`. Only characters that would be lost and the characters in
/// `syntax` are escaped; in a value, a blank is escaped only if it is the first character. Everything else is written
/// as it is, in UTF-8.
pub fn escaped(text: &str, is_key: bool, syntax: &[char]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (i, c) in text.chars().enumerate() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            '\t' => escaped.push_str("\\t"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\x0c' => escaped.push_str("\\f"),
            ' ' if is_key || i == 0 => escaped.push_str("\\ "),
            c if syntax.contains(&c) => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::text;
    use std::collections::BTreeMap;

    #[test]
    fn the_text_is_what_java_would_write() {
        let properties = [
            ("spark.b k:e=y#!", "  two lead, one trails "),
            ("spark.a", "\\ \t\n\r\x0c = : # ! ü \u{1}\u{1F600} ${x}"),
            ("spark.c", ""),
        ];
        let properties: BTreeMap<_, _> =
            properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        assert_eq!(
            text(&properties, "map", "2026-11-05T02:37:44Z".parse().unwrap()),
            "#Java properties built from Kubernetes config map with name: map\n#Thu Nov 05 02:37:44 UTC 2026\n\
             spark.a=\\\\ \\t\\n\\r\\f \\= \\: \\# \\! ü \u{1}\u{1F600} ${x}\n\
             spark.b\\ k\\:e\\=y\\#\\!=\\  two lead, one trails \n\
             spark.c=\n"
        );
    }
}
