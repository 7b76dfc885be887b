//! Finds the first value in a JSON text that is nested too deep. The text is not parsed into values, because the parser
//! has a limit for the nesting itself.

use api::excerpt;

/// How many levels of objects and lists a spec may have, including the spec itself.
///
/// Parsers stop at 127 levels (`serde_json`'s limit, against stack overflows), and a spec is part of larger objects: it
/// is at the fourth level of an AdmissionReview, and at the third level of a list (the fourth for a schedule's
/// template). `managedFields` repeats the nesting of the fields four levels deeper. Half of the limit leaves room for
/// all of that, and the deepest fields of a pod have a dozen levels.
pub const DEEPEST: usize = 64;

/// The most bytes of a path that are shown to a user: in all longer paths seen so far, the rest only repeats what came
/// before.
const LONGEST_PATH: usize = 160;

/// Returns the path of the first value in `json` that is nested deeper than `most` levels, or the beginning of that
/// path; none if there is no such value. The path begins with `root`. For a text that is not JSON, the result is any
/// path or none.
#[must_use]
pub fn path_beyond(json: &str, root: &str, most: usize) -> Option<String> {
    let bytes = json.as_bytes();
    let mut open: Vec<Level> = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let end = end_of_text(bytes, at);
                if let Some(Level::Object { field, expects_field }) = open.last_mut()
                    && *expects_field
                {
                    (*field, *expects_field) = (json.get(at + 1..end).unwrap_or_default(), false);
                }
                at = end;
            }
            b'{' | b'[' if open.len() == most => {
                return Some(excerpt::beginning(path(&open, root), LONGEST_PATH));
            }
            b'{' => open.push(Level::Object { field: "", expects_field: true }),
            b'[' => open.push(Level::List { position: 0 }),
            b'}' | b']' => drop(open.pop()),
            b',' => match open.last_mut() {
                Some(Level::Object { expects_field, .. }) => *expects_field = true,
                Some(Level::List { position }) => *position += 1,
                None => {}
            },
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the message for the user about a value that is nested deeper than [`DEEPEST`].
#[must_use]
pub fn too_deep() -> String {
    format!(
        "is nested more than {DEEPEST} levels deep, and readers of the object end soon after that: write it flatter"
    )
}

/// An object or a list whose end has not been reached, and the current position in it.
enum Level<'t> {
    Object { field: &'t str, expects_field: bool },
    List { position: usize },
}

/// Returns the position of the quotation mark that ends the text which begins at `begin`.
fn end_of_text(bytes: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => break,
            _ => at += 1,
        }
    }
    at
}

fn path(open: &[Level], root: &str) -> String {
    let mut path = root.to_owned();
    for level in open {
        match level {
            Level::Object { field, .. } => path.extend([".", field]),
            Level::List { position } => path += &format!("[{position}]"),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::path_beyond;
    use serde_json::{Value, json};

    #[test]
    fn the_path_of_what_is_too_deep_is_found() {
        let json = json!({"a": "}]{[\\\"", "b": [1, {"c,\"": {"d": {}}}], "e": []}).to_string();
        for (most, path) in [
            (0, Some("spec")),
            (1, Some("spec.b")),
            (2, Some("spec.b[1]")),
            (4, Some("spec.b[1].c,\\\".d")),
            (5, None),
        ] {
            assert_eq!(path_beyond(&json, "spec", most).as_deref(), path, "{most}");
        }
    }

    #[test]
    fn values_are_no_fields() {
        assert_eq!(path_beyond(r#"{"a": "x", "b": ["y", {}]}"#, "", 2).as_deref(), Some(".b[1]"));
    }

    #[test]
    fn any_depth_and_any_text_is_looked_through() {
        let deep = "[".repeat(1_000_000);
        assert_eq!(path_beyond(&deep, "", 3).as_deref(), Some("[0][0][0]"));
        for text in ["", "\"", "\"\\", "}", "ü{\"ü", "{\"a\\u00"] {
            assert_eq!(path_beyond(text, "", 10), None, "{text}");
        }
        let names = (0..60).fold(Value::Null, |inner, i| json!({format!("n{i}"): inner}));
        assert_eq!(path_beyond(&names.to_string(), "", 60), None);
    }
}
