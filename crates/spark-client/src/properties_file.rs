//! Parses properties files, such as `spark-defaults.conf`, by Spark's rules.

use std::collections::BTreeMap;

/// Returns the keys and values of a properties file by the rules of `java.util.Properties.load`. The blanks around the
/// values are removed, as in Spark.
///
/// # Errors
///
/// When a `\u` is not followed by four hexadecimal digits. The message contains the line.
pub fn read_properties(text: &str) -> Result<BTreeMap<String, String>, String> {
    let lines = logical_lines(text);
    lines
        .iter()
        .map(|line| entry(line).ok_or_else(|| format!("malformed \\uxxxx encoding: `{line}`")))
        .collect()
}

/// Returns the keys that are not followed by a separator, for which Spark reads an empty value: such a line is probably
/// a mistake of the user.
pub fn keys_alone(text: &str) -> Vec<String> {
    let mut lines = logical_lines(text);
    lines.retain(|line| key_end(line.trim_end()).is_none());
    lines
}

/// Returns a value without the blanks around it, which Spark removes when it reads a value from a file.
pub fn trimmed(value: &str) -> &str {
    value.trim_matches(|c: char| c <= ' ' && !matches!(c, '\n' | '\r'))
}

/// Returns the logical lines of the file, without comments and empty lines. A line that ends in an odd number of
/// backslashes continues on the next line.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut is_continuation = false;
    // A carriage return and a line feed end one line. Otherwise, a continuation would end between the two.
    for line in text.replace("\r\n", "\n").split(['\n', '\r']) {
        let line = line.trim_start_matches([' ', '\t', '\x0c']);
        if !is_continuation && (line.is_empty() || line.starts_with(['#', '!'])) {
            continue;
        }
        let backslashes = line.len() - line.trim_end_matches('\\').len();
        let continues = backslashes % 2 == 1;
        let part = &line[..line.len() - usize::from(continues)];
        match lines.last_mut() {
            Some(last) if is_continuation => last.push_str(part),
            _ => lines.push(part.to_owned()),
        }
        is_continuation = continues;
    }
    lines
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\x0c')
}

/// Returns the index at which the key ends; `None` if the key ends with the line.
fn key_end(line: &str) -> Option<usize> {
    let mut escaped = false;
    line.find(|c: char| {
        let ends = !escaped && (is_blank(c) || matches!(c, '=' | ':'));
        escaped = c == '\\' && !escaped;
        ends
    })
}

fn entry(line: &str) -> Option<(String, String)> {
    let (key, rest) = line.split_at(key_end(line).unwrap_or(line.len()));
    let rest = rest.trim_start_matches(is_blank);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start_matches(is_blank);
    let value = unescaped(rest)?;
    Some((unescaped(key)?, trimmed(&value).to_owned()))
}

/// Replaces the escapes in `text` by their characters; `None` if an escape is invalid. The characters are collected in
/// UTF-16, as in Java, because two escapes can form one character.
fn unescaped(text: &str) -> Option<String> {
    let mut units = Vec::with_capacity(text.len());
    let push = |units: &mut Vec<u16>, c: char| units.extend_from_slice(c.encode_utf16(&mut [0; 2]));
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            push(&mut units, c);
            continue;
        }
        let Some(c) = chars.next() else { break };
        match c {
            't' => units.push(9),
            'n' => units.push(10),
            'r' => units.push(13),
            'f' => units.push(12),
            'u' => {
                let digits: String = chars.by_ref().take(4).collect();
                let is_whole = digits.len() == 4;
                units.push(u16::from_str_radix(&digits, 16).ok().filter(|_| is_whole)?);
            }
            c => push(&mut units, c),
        }
    }
    Some(String::from_utf16_lossy(&units))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_properties_file_is_parsed_as_in_java() {
        let case = include_str!("../../../tests/data/spark-client/properties.json");
        let (text, expected): (String, BTreeMap<String, String>) = serde_json::from_str(case).unwrap();
        assert_eq!(read_properties(&text), Ok(expected));
        assert!(read_properties("spark.a=\\u12").unwrap_err().contains("spark.a=\\u12"));
    }
}
