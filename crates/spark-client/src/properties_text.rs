//! Writes properties in the format of `java.util.Properties`: as `spark.properties` for the driver, and as the
//! `--properties-file` of `spark-submit`. Values that `spark-submit` would read differently from that file are passed
//! as arguments instead.

use super::{properties_file::trimmed, submit_conf::SUBMIT_TIME};
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

/// Returns the text of the driver's `spark.properties` without the time of the submission, which differs between two
/// attempts to submit a run: without the date in the second comment, and without the value of `spark.app.submitTime`.
/// Each is left out only if it consists of letters, digits, blanks and colons: other texts could contain further
/// properties.
pub fn without_times(text: &str) -> String {
    let is_time = |rest: &str| rest.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, ' ' | ':'));
    // A comment never continues on the next line, so the second line of such a text is a line of its own.
    let has_date = text.starts_with('#');
    let without_time = |(number, line): (usize, &str)| {
        let (begin, rest) = match line.split_once('=') {
            Some((key, value)) if key == SUBMIT_TIME => (key, value),
            _ if number == 1 && has_date && line.starts_with('#') => line.split_at(1),
            _ => return line.to_owned(),
        };
        if is_time(rest) { begin.to_owned() } else { line.to_owned() }
    };
    text.split('\n').enumerate().map(without_time).collect::<Vec<_>>().join("\n")
}

/// Returns the text of a `--properties-file`, in UTF-8, the encoding in which Spark reads it.
///
/// Spark removes blanks from both ends of a value when it reads the file: see [`properties_beside_file`].
pub fn file_text(properties: &BTreeMap<String, String>) -> String {
    let line = |(key, value): (&String, &String)| {
        format!("{}={}\n", escaped(key, true, &SYNTAX), escaped(value, false, &[]))
    };
    properties.iter().map(line).collect()
}

/// The maximum number of bytes of all properties that are passed as arguments: half of 128 KiB, Linux's limit for a
/// single argument.
const ROOM_IN_ARGUMENTS: usize = 64 * 1024;

/// Returns the properties whose values Spark would change when it reads [`file_text`], as `key=value` for `--conf`,
/// which takes precedence over the file. These are values with leading or trailing blanks, which environment variables
/// and annotations may have.
///
/// The result does not contain properties that would not arrive unchanged as arguments either (`spark-submit` splits an
/// argument at its first `=` and ignores keys without `spark.`, the script `spark-class` deletes carriage returns, a
/// JVM in the POSIX locale knows only ASCII, Linux allows no NUL in arguments), nor properties that would exceed the
/// limit for arguments.
pub fn properties_beside_file(properties: &BTreeMap<String, String>) -> Vec<String> {
    let mut room = ROOM_IN_ARGUMENTS;
    let cut = properties.iter().filter(|(_, value)| trimmed(value) != *value);
    cut.filter(|(key, _)| key.starts_with(api::conf::PREFIX) && !key.contains('='))
        .map(|(key, value)| format!("{key}={value}"))
        .filter(|argument| argument.is_ascii() && !argument.contains(['\r', '\0']))
        .filter(|argument| {
            let rest = room.checked_sub(argument.len());
            room = rest.unwrap_or(room);
            rest.is_some()
        })
        .collect()
}

/// The characters that end a key or begin a comment. Java's `store` also escapes them in values, where they have no
/// special meaning.
const SYNTAX: [char; 4] = ['=', ':', '#', '!'];

/// Escapes a key or a value for `java.util.Properties`. Only characters that would be lost and the characters in
/// `syntax` are escaped; in a value, a blank is escaped only if it is the first character. Everything else is written
/// as it is, in UTF-8.
fn escaped(text: &str, is_key: bool, syntax: &[char]) -> String {
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
    use super::{properties_beside_file, text, without_times};
    use std::collections::BTreeMap;

    /// Linux does not start a program with an argument of more than 128 KiB (Kubeflow issue 433).
    #[test]
    fn a_value_with_outer_blanks_is_an_argument_unless_it_is_too_large() {
        let cases = include_str!("../../../tests/data/spark-client/blanks.json");
        let mut properties: BTreeMap<String, String> =
            serde_json::from_str::<Vec<(String, String)>>(cases).unwrap().into_iter().collect();
        properties.insert("spark.large".to_owned(), format!(" {}", "x".repeat(200_000)));
        let arguments = ["spark.after=x\t", "spark.before= a=b", "spark.only= "];
        assert_eq!(properties_beside_file(&properties), arguments);
    }

    #[test]
    fn properties_are_written_as_java_writes_them() {
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

    /// Otherwise somebody could hide further properties in the time.
    #[test]
    fn only_times_are_left_out_of_properties() {
        let of = |date: &str, time: &str| format!("#of a\n#{date}\nspark.app.submitTime={time}\nspark.a=b\n");
        let first = without_times(&of("Thu Nov 05 02:37:44 UTC 2026", "1793846264000"));
        assert_eq!(first, without_times(&of("Fri Nov 06 00:00:00 UTC 2026", "1793923200000")));
        for (date, time) in [
            ("Thu\rspark.b=c", "1"),
            ("Thu\nspark.b=c", "1"),
            ("Thu", "1\rspark.b=c"),
            ("Thu", "1\nspark.b=c"),
            ("Thu", "1\\"),
        ] {
            assert_ne!(first, without_times(&of(date, time)), "{date} {time}");
        }
        assert_eq!(without_times("spark.a=\\\n#1\n"), "spark.a=\\\n#1\n", "the second line is no comment");
    }
}
