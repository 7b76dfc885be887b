//! Computes merge patches.

use serde_json::{Map, Value};

/// Returns the JSON Merge Patch (RFC 7386) that turns `before` into `after`.
pub fn merge_patch(before: &Value, after: &Value) -> Value {
    let (Value::Object(before), Value::Object(after)) = (before, after) else { return after.clone() };
    let removed = before.keys().filter(|key| !after.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let changed = after.iter().filter(|(key, value)| before.get(*key) != Some(value)).map(|(key, value)| {
        let value = before.get(key).map_or_else(|| value.clone(), |before| merge_patch(before, value));
        (key.clone(), value)
    });
    removed.chain(changed).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_patch_has_what_differs_and_nothing_else() {
        let before = json!({"a": 1, "b": {"c": 2, "d": 3}, "e": [1], "gone": {"x": 1}});
        let after = json!({"a": 1, "b": {"c": 2, "d": 4}, "e": [1, 2], "new": {}});
        assert_eq!(
            merge_patch(&before, &after),
            json!({"b": {"d": 4}, "e": [1, 2], "gone": null, "new": {}})
        );
        assert_eq!(merge_patch(&Value::Null, &after), after);
    }
}
