//! When is an entry that is to be added to a list of the pod there already?
//!
//! "There" means as the API server shows it, after its defaulting: it drops empty values, fills in defaults and rewrites quantities
//! (`1024Mi` comes back as `1Gi`). Otherwise a second call of the webhook for the same pod would change it again, or deny it.

use super::Problem;
use serde_json::{Map, Value};

/// What to do with an entry whose key is taken by a different one.
#[derive(Clone, Copy, Debug)]
pub(super) enum OnClash {
    /// Two volumes of one name, or two mounts at one path, cannot both be had.
    Deny,
    /// Kubernetes accepts both; the later one counts.
    Append,
}

/// Adds `entries` to the list at `field` of `parent`, each unless it is there.
///
/// An entry is identified by its `key` fields (with their defaults), or by all of itself if there are none. Of two entries with one
/// key in `entries`, the last counts.
///
/// # Errors
///
/// When an entry lacks a key field that has no default, or clashes under [`OnClash::Deny`].
pub(super) fn add(
    parent: &mut Map<String, Value>,
    field: &str,
    entries: &[Value],
    key: &[KeyField],
    on_clash: OnClash,
) -> Result<(), Problem> {
    let keys =
        entries.iter().enumerate().map(|(i, entry)| key_of(entry, key, i)).collect::<Result<Vec<_>, _>>()?;
    for (i, entry) in entries.iter().enumerate() {
        if keys[i + 1..].contains(&keys[i]) {
            continue;
        }
        let list = list(parent, field);
        // The last entry of a key is the one that counts, for environment variables at least; of other keys there is only one.
        let there = list.iter().rfind(|there| key_of(there, key, 0).is_ok_and(|found| found == keys[i]));
        match (there, on_clash) {
            (Some(there), _) if states(there, entry) => {}
            (Some(there), OnClash::Deny) => {
                let shown: Vec<_> =
                    key.iter().map(|field| format!("{} {}", field.name, entry[field.name])).collect();
                return Err(Problem::new(
                    format!("[{i}]"),
                    format!("{} is already taken in the pod by {there}: choose another", shown.join(", ")),
                ));
            }
            (Some(_), OnClash::Append) | (None, _) => list.push(entry.clone()),
        }
    }
    Ok(())
}

/// Puts `value` in place of what stands at `field` of `parent`, unless that states it already.
pub(super) fn replace(parent: &mut Map<String, Value>, field: &str, value: Value) {
    if !parent.get(field).is_some_and(|there| states(there, &value)) {
        parent.insert(field.to_owned(), value);
    }
}

/// A field by which the entries of a list are told apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyField {
    name: &'static str,
    /// What the API server fills in, where it does.
    default: Option<&'static str>,
}

impl KeyField {
    pub(super) const fn required(name: &'static str) -> Self {
        Self { name, default: None }
    }

    pub(super) const fn defaulted(name: &'static str, default: &'static str) -> Self {
        Self { name, default: Some(default) }
    }
}

fn key_of(entry: &Value, key: &[KeyField], index: usize) -> Result<Value, Problem> {
    if key.is_empty() {
        return Ok(without_empties(entry));
    }
    let field = |field: &KeyField| match (&entry[field.name], field.default) {
        (Value::Null, Some(default)) => Ok(Value::from(default)),
        (Value::Null, None) => Err(Problem::new(format!("[{index}].{}", field.name), "is required")),
        (Value::String(text), None) if text.is_empty() => {
            Err(Problem::new(format!("[{index}].{}", field.name), "must not be empty"))
        }
        (value, _) => Ok(value.clone()),
    };
    key.iter().map(field).collect::<Result<Vec<_>, _>>().map(Value::from)
}

fn list<'p>(parent: &'p mut Map<String, Value>, field: &str) -> &'p mut Vec<Value> {
    let value = parent.entry(field).or_insert_with(|| Value::Array(Vec::new()));
    if value.is_null() {
        *value = Value::Array(Vec::new());
    }
    value.as_array_mut().expect("the API server has decoded the pod, so a list field is a list")
}

/// Whether every field that `wanted` states has that value in `there`; `there` may have more, which the API server filled in.
pub(super) fn states(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => wanted.iter().all(|(name, value)| {
            there.get(name).map_or_else(
                || is_empty(value),
                |there| {
                    states(there, value)
                        || (QUANTITIES.contains(&name.as_str()) && is_same_quantity(there, value))
                },
            )
        }),
        (Value::Array(there), Value::Array(wanted)) => {
            there.len() == wanted.len()
                && there.iter().zip(wanted).all(|(there, wanted)| states(there, wanted))
        }
        (there, wanted) => there == wanted || (is_empty(there) && is_empty(wanted)),
    }
}

/// The fields of volumes that hold a quantity, which the API server rewrites in its canonical form.
const QUANTITIES: [&str; 3] = ["sizeLimit", "storage", "divisor"];

fn is_same_quantity(one: &Value, other: &Value) -> bool {
    let amount = |value: &Value| match value {
        Value::String(text) => crate::plan::quantity::amount(text),
        Value::Number(number) => crate::plan::quantity::amount(&number.to_string()),
        _ => None,
    };
    amount(one).is_some_and(|one| amount(other) == Some(one))
}

/// What the API server leaves out when it writes an object.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.values().all(is_empty),
        Value::Bool(true) => false,
    }
}

fn without_empties(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(_, value)| !is_empty(value))
            .map(|(name, value)| (name.clone(), without_empties(value)))
            .collect::<Map<_, _>>()
            .into(),
        value => value.clone(),
    }
}
