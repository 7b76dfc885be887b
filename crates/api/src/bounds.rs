//! Limits the cost of parsing an object that any user may have written: scans its JSON text once before it is parsed.
//!
//! The memory that parsing takes depends on the number of values, not on the bytes of JSON: a map with one entry takes
//! 8 bytes of JSON and some 700 as a `Value`, and `{}` in a list of Kubernetes' volumes takes 3 bytes of JSON and more
//! than 1,000 as a `Volume`.

use super::excerpt;

/// The maximum number of levels of objects and lists in a spec, including the spec itself.
///
/// Parsers stop at 127 levels (`serde_json`'s limit, against stack overflows), and a spec is part of larger objects: it
/// is at the fourth level of an AdmissionReview, and at the third level of a list (the fourth for a schedule's
/// template). `managedFields` repeats the nesting of the fields four levels deeper. Half of the limit leaves room for
/// all of that, and the deepest fields of a pod have a dozen levels.
const LEVELS: usize = 64;
/// The maximum number of lists and maps in an object without `managedFields`. An application with three hundred
/// variables from Secrets for each role has 2,000.
const STRUCTURES: usize = 5_000;
/// The maximum number of values in an object without `managedFields`. The status of an application has one for each
/// executor that is tracked, by default 1,000 (`--max-tracked-executor-per-app`).
const VALUES: usize = 20_000;

/// The key by which `serde_json` recognises its own `RawValue`. If it is the first key of an object, `serde_json`
/// parses the text of that entry too, and a `Value` becomes the result: any number of values at any depth, which a scan
/// of the JSON around the text does not count. No label, annotation or field has this key.
const RESERVED: &str = "$serde_json::private::RawValue";

const OF_READERS: &str = "and parsers of the object accept little more: write it flatter";
const OF_OBJECTS: &str = "that an object may have: move what is so long into ConfigMaps or files";
const OF_KEYS: &str = "is a key that parsers of the object reserve: use another one";

/// The maximum length in bytes of a path in an error: in all longer paths seen so far, the rest only repeats the
/// beginning.
const LONGEST_PATH: usize = 160;

/// The bounds of a JSON text.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Lists and maps inside one another.
    levels: usize,
    /// Lists and maps, all together.
    structures: usize,
    /// Values, lists and maps included.
    values: usize,
}

/// The first value of a JSON text that is beyond a bound or has the key that `serde_json` reserves.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}")]
pub struct Excess {
    /// The path of the value, cut if it is very long.
    pub path: String,
    /// The mistake, as the end of a sentence that begins with the path.
    pub why: String,
}

impl Bounds {
    /// For an object that is parsed as a type: fields that the type does not have are skipped, however deep they are.
    pub const TYPED: Self = Self { levels: usize::MAX, structures: STRUCTURES, values: VALUES };
    /// For a spec.
    pub const SPEC: Self = Self { levels: LEVELS, ..Self::TYPED };
    /// For an object all of which is parsed.
    pub const OBJECT: Self = Self { levels: LEVELS + 1, ..Self::TYPED };

    /// Returns the first value in `json` that is beyond a bound or has the key that `serde_json` reserves; `None` if
    /// there is no such value. The path of the value begins with `root`. For a text that is not JSON, the result is
    /// arbitrary.
    pub fn excess(&self, json: &str, root: &str) -> Option<Excess> {
        let (bytes, least) = (json.as_bytes(), self.levels.min(self.structures).min(self.values));
        // Each list or map takes at least two bytes, one of which is counted here; so does each further value with its
        // comma. Counting without a branch takes a tenth of the time of the scan below, which few objects need.
        let is_sign = |byte: &&u8| (**byte == b'{') | (**byte == b'[') | (**byte == b',');
        let has_few = json.len() / 2 < least || bytes.iter().filter(is_sign).count() <= least;
        if has_few && !may_have_reserved_key(json) {
            return None;
        }
        let mut open: Vec<Level> = Vec::new();
        let (mut structures, mut values) = (0, 0);
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            let is_structure = matches!(byte, b'{' | b'[');
            structures += usize::from(is_structure);
            values += usize::from(is_structure || *byte == b',');
            let (is_deep, has_many) =
                (is_structure && open.len() == self.levels, structures > self.structures);
            if is_deep || has_many || values > self.values {
                let why = match (is_deep, has_many) {
                    (true, _) => format!("is nested more than {LEVELS} levels deep, {OF_READERS}"),
                    (_, true) => format!("is beyond the {STRUCTURES} lists and maps {OF_OBJECTS}"),
                    _ => format!("is beyond the {VALUES} values {OF_OBJECTS}"),
                };
                return Some(Excess::at(&open, root, why));
            }
            match byte {
                b'"' => {
                    let end = end_of_text(bytes, at);
                    if let Some(Level::Object { field, expects_field }) = open.last_mut()
                        && *expects_field
                    {
                        let key = json.get(at + 1..end).unwrap_or_default();
                        (*field, *expects_field) = (key, false);
                        if is_reserved(key) {
                            return Some(Excess::at(&open, root, OF_KEYS.to_owned()));
                        }
                    }
                    at = end;
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
}

impl Excess {
    fn at(open: &[Level], root: &str, why: String) -> Self {
        Self { path: excerpt::beginning(path(open, root), LONGEST_PATH), why }
    }
}

/// Whether one of the keys in `json` may be [`RESERVED`]. Faster than a scan of all keys: a key without escapes
/// contains `RawValue`.
fn may_have_reserved_key(json: &str) -> bool {
    json.contains("RawValue") || json.contains("\\u")
}

/// Whether `key`, as it is written in JSON, is [`RESERVED`].
fn is_reserved(key: &str) -> bool {
    let unescaped = || serde_json::from_str::<String>(&format!("\"{key}\""));
    key == RESERVED || key.contains('\\') && unescaped().is_ok_and(|key| key == RESERVED)
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
            Level::Object { field, .. } if path.is_empty() => path += field,
            Level::Object { field, .. } => path.extend([".", field]),
            Level::List { position } => path += &format!("[{position}]"),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn beyond_levels(json: &str, root: &str, levels: usize) -> Option<String> {
        Bounds { levels, ..Bounds::TYPED }.excess(json, root).map(|excess| excess.path)
    }

    #[test]
    fn a_value_that_is_too_deep_is_found_with_its_path() {
        let json = json!({"a": "}]{[\\\"", "b": [1, {"c,\"": {"d": {}}}], "e": []}).to_string();
        for (most, path) in [
            (0, Some("spec")),
            (1, Some("spec.b")),
            (2, Some("spec.b[1]")),
            (4, Some("spec.b[1].c,\\\".d")),
            (5, None),
        ] {
            assert_eq!(beyond_levels(&json, "spec", most).as_deref(), path, "{most}");
        }
    }

    #[test]
    fn a_text_value_is_not_taken_for_a_field_name() {
        assert_eq!(beyond_levels(r#"{"a": "x", "b": ["y", {}]}"#, "", 2).as_deref(), Some("b[1]"));
    }

    #[test]
    fn json_of_any_depth_and_texts_that_are_not_json_are_scanned() {
        let deep = "[".repeat(1_000_000);
        assert_eq!(beyond_levels(&deep, "", 3).as_deref(), Some("[0][0][0]"));
        for text in ["", "\"", "\"\\", "}", "ü{\"ü", "{\"a\\u00"] {
            assert_eq!(beyond_levels(text, "", 10), None, "{text}");
        }
        let names = (0..60).fold(Value::Null, |inner, i| json!({format!("n{i}"): inner}));
        assert_eq!(beyond_levels(&names.to_string(), "", 60), None);
    }

    #[test]
    fn lists_maps_and_values_are_counted_but_not_inside_texts() {
        let bounds = Bounds { levels: 9, structures: 4, values: 9 };
        let found = |json: &str| bounds.excess(json, "spec").map(|excess| (excess.path, excess.why));
        let many_structures = format!("is beyond the {STRUCTURES} lists and maps {OF_OBJECTS}");
        let many_values = format!("is beyond the {VALUES} values {OF_OBJECTS}");
        assert_eq!(found(r#"{"a":[{},{}],"b":"{[{[{[,,,,,,,,,,","c":1}"#), None);
        assert_eq!(found(r#"{"a":[{},{},{}]}"#), Some(("spec.a[2]".to_owned(), many_structures)));
        assert_eq!(found("[0,0,0,0,0,0,0,0,0,0]"), Some(("spec[8]".to_owned(), many_values)));
    }

    /// A single text below this key, such as the value of an annotation, could otherwise take more memory than a whole
    /// object.
    #[test]
    fn the_key_that_serde_json_reserves_is_found_however_it_is_escaped() {
        for key in
            [RESERVED, r"\u0024serde_json::private::RawValue", r"$serde_json::private::R\u0061w\u0056alue"]
        {
            let parsed: Value = serde_json::from_str(&format!(r#"{{"{key}":"[1]"}}"#)).unwrap();
            assert_eq!(parsed, json!([1]), "serde_json has no such key any more: {key}");
            let json = format!(r#"{{"a":[{{"b":1,"{key}":"[1]"}}]}}"#);
            let expected = Excess { path: format!("spec.a[0].{key}"), why: OF_KEYS.to_owned() };
            for bounds in [Bounds::TYPED, Bounds::OBJECT] {
                assert_eq!(bounds.excess(&json, "spec"), Some(expected.clone()));
            }
        }
        for json in [
            format!(r#"{{"a":"{RESERVED}","{RESERVED} ":"\u0024"}}"#),
            format!(r#"["{RESERVED}",{{"\\u0024serde_json::private::RawValue":1}}]"#),
        ] {
            assert!(may_have_reserved_key(&json) && Bounds::OBJECT.excess(&json, "").is_none(), "{json}");
        }
    }
}
