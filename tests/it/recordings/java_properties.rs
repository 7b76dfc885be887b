//! What does Java read from a properties file? As `java.util.Properties.load`, and what Spark does with that.

use std::collections::BTreeMap;

/// Keys and values; blanks around the values are cut off as Spark does.
pub fn load(text: &str) -> BTreeMap<String, String> {
    logical_lines(text).iter().map(|line| entry(line)).collect()
}

/// Lines without comments; one that ends in an odd number of backslashes goes on in the next.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in text.split(['\n', '\r']) {
        let line = line.trim_start_matches([' ', '\t', '\x0c']);
        if !goes_on && (line.is_empty() || line.starts_with(['#', '!'])) {
            continue;
        }
        let backslashes = line.len() - line.trim_end_matches('\\').len();
        let will_go_on = backslashes % 2 == 1;
        let part = &line[..line.len() - usize::from(will_go_on)];
        match lines.last_mut() {
            Some(last) if goes_on => last.push_str(part),
            _ => lines.push(part.to_owned()),
        }
        goes_on = will_go_on;
    }
    lines
}

fn entry(line: &str) -> (String, String) {
    let is_blank = |c: char| matches!(c, ' ' | '\t' | '\x0c');
    let mut escaped = false;
    let end = line.find(|c: char| {
        let ends = !escaped && (is_blank(c) || matches!(c, '=' | ':'));
        escaped = c == '\\' && !escaped;
        ends
    });
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start_matches(is_blank);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start_matches(is_blank);
    let value = unescaped(rest);
    (unescaped(key), value.trim_matches(|c: char| c <= ' ' && !matches!(c, '\n' | '\r')).to_owned())
}

/// In UTF-16, as Java has it: two escapes can be one character.
fn unescaped(text: &str) -> String {
    let mut units = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let c = if c == '\\' {
            chars.next().unwrap_or('\\')
        } else {
            units.extend(encoded(c));
            continue;
        };
        match c {
            't' => units.push(9),
            'n' => units.push(10),
            'r' => units.push(13),
            'f' => units.push(12),
            'u' => {
                let digits: String = chars.by_ref().take(4).collect();
                units.push(u16::from_str_radix(&digits, 16).unwrap());
            }
            c => units.extend(encoded(c)),
        }
    }
    String::from_utf16_lossy(&units)
}

fn encoded(c: char) -> Vec<u16> {
    c.encode_utf16(&mut [0; 2]).to_vec()
}
