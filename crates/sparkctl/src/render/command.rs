//! Writes what runs in a submission pod as a shell script for people: `spark-submit`'s command line and files.

use super::manifest::{Found, without_unknown_owners};
use crate::yaml;
use api::{
    Role,
    names::{annotation, conf},
};
use serde_json::Value;
use std::fmt::Write;
use submission::{DIRECTORY, SparkSubmit};

/// The folder into which the script writes the files. In a submission pod the files are in [`DIRECTORY`], which not
/// every user of a machine may write to.
const FOLDER: &str = "/tmp/spark-submission";

/// Returns the script, which writes the files and runs the command line. The script has no characters that a YAML
/// comment cannot contain.
pub(super) fn script(found: &Found, command: &SparkSubmit) -> anyhow::Result<String> {
    let SparkSubmit { arguments, files, .. } = command;
    let mut script = format!("umask 077\nmkdir -p {FOLDER}\n");
    for (file, content) in files {
        // A pod template is JSON. It is shown as YAML with line breaks, for people to read: JSON is YAML too, so Spark
        // reads both.
        let content = match serde_json::from_str::<Value>(content) {
            Ok(template) => yaml::document(&without_unknown_owners(found.known(&template)))?,
            Err(_) => escaped(&known(found, content)),
        };
        let content = content.replace(DIRECTORY, FOLDER);
        write!(script, "cat > {FOLDER}/{file} <<'EOF'\n{content}EOF\n")?;
    }
    script.push_str("spark-submit");
    let arguments = arguments.iter().map(|argument| quoted(&argument.replace(DIRECTORY, FOLDER)));
    let mut arguments = arguments.peekable();
    // Flags come first, each on a line with its value; then the application and its own arguments.
    while let Some(flag) = arguments.next_if(|argument| argument.starts_with("--")) {
        write!(script, " \\\n  {flag} {}", arguments.next().unwrap_or_default())?;
    }
    writeln!(script, " \\\n  {}", arguments.collect::<Vec<_>>().join(" "))?;
    Ok(script)
}

/// Returns `properties` without the annotation that names the owner, if the owner's uid is not known. Before Spark 3.0
/// this annotation is among the properties.
fn known(found: &Found, properties: &str) -> String {
    let owner = conf::kubernetes(Role::Driver, conf::ANNOTATION_PREFIX) + annotation::OWNER_REFERENCE;
    let lines = properties.split_inclusive('\n');
    lines.filter(|line| found.has_uid || !line.starts_with(&owner)).collect()
}

/// Returns Java properties with every unprintable character in Java's notation (`\u0001`).
fn escaped(properties: &str) -> String {
    properties.chars().fold(String::with_capacity(properties.len()), |mut text, c| {
        if c == '\n' || yaml::is_printable(c) {
            text.push(c);
        } else {
            write!(text, "\\u{:04x}", u32::from(c)).expect("writing to a String cannot fail");
        }
        text
    })
}

/// Returns `argument` quoted as one word for a shell: in POSIX notation, or as `$'…'` if it contains unprintable
/// characters.
fn quoted(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        return argument.to_owned();
    }
    if argument.chars().all(yaml::is_printable) {
        return format!("'{}'", argument.replace('\'', r"'\''"));
    }
    let word = argument.chars().fold(String::new(), |mut word, c| {
        match c {
            '\\' | '\'' => word.extend(['\\', c]),
            '\n' => word.push_str("\\n"),
            c if yaml::is_printable(c) => word.push(c),
            c => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    write!(word, "\\{byte:03o}").expect("writing to a String cannot fail");
                }
            }
        }
        word
    });
    format!("$'{word}'")
}

#[cfg(test)]
mod tests {
    use super::{escaped, quoted};

    #[test]
    fn arguments_can_be_pasted_into_a_shell() {
        assert_eq!(quoted("local:///opt/spark/pi.jar"), "local:///opt/spark/pi.jar");
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(quoted("ü \\"), "'ü \\'");
        assert_eq!(quoted("two\nlines, it's \t\u{2028}\\"), r"$'two\nlines, it\'s \011\342\200\250\\'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn unprintable_characters_of_properties_are_escaped() {
        assert_eq!(escaped("a=ü\u{1}\u{85}\u{2028}😀\n"), "a=ü\\u0001\\u0085\\u2028😀\n");
    }
}
