//! Compares two specs of a SparkConnect, and says how each difference affects its server.

use api::SparkConnect;
use validation::{Edit, Effect, edits_of};

/// The fields whose edit does not replace the server: those that [`crate::server_hash`] leaves out.
const BESIDE: [&str; 5] = [
    "spec.suspend", "spec.ttlSecondsAfterIdle", "spec.sleepAfterIdleSeconds", "spec.server.service",
    "spec.server.access",
];

/// Returns the fields in which the specs of `old` and `new` differ, with their effects on the server that `old` has.
pub fn differences(old: &SparkConnect, new: &SparkConnect) -> Vec<Edit> {
    let has_server = old.status.as_ref().is_some_and(|status| status.server.pod_name.is_some());
    let of_server = if has_server { Effect::EndsSessions } else { Effect::NextServer };
    let [before, after] =
        [old, new].map(|connect| serde_json::to_value(&connect.spec).expect("a spec is JSON"));
    let is_in = |field: &str, beside: &str| {
        field.strip_prefix(beside).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    edits_of("spec", &before, &after, &|field| {
        if BESIDE.iter().any(|beside| is_in(field, beside)) { Effect::Now } else { of_server }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_hash;
    use serde_json::{Value, from_value, json};

    #[test]
    fn an_edit_ends_the_sessions_if_the_field_is_part_of_the_server_hash() {
        let connect = |spec: Value, status: Value| -> SparkConnect {
            from_value(json!({"metadata": {"name": "notebook"}, "spec": spec, "status": status})).unwrap()
        };
        let old = json!({"sparkVersion": "4.0.1", "server": {}, "executor": {}});
        let cases = include_str!("../../../tests/data/connect-edits.json");
        for (edit, field, ends) in serde_json::from_str::<Vec<(Value, String, bool)>>(cases).unwrap() {
            let mut new = old.clone();
            new.as_object_mut().unwrap().extend(edit.as_object().unwrap().clone());
            for (status, of_server) in [
                (json!({"server": {"podName": "notebook-server"}}), Effect::EndsSessions),
                (Value::Null, Effect::NextServer),
            ] {
                let [old, new] = [&old, &new].map(|spec| connect(spec.clone(), status.clone()));
                let expected = if ends { of_server } else { Effect::Now };
                let edits = differences(&old, &new);
                assert!(
                    matches!(&edits[..], [edit] if edit.field == field && edit.effect == expected),
                    "{edits:?}"
                );
                assert_eq!(server_hash(&old.spec) != server_hash(&new.spec), ends, "{field}");
                assert_eq!(differences(&new, &new), []);
            }
        }
    }
}
