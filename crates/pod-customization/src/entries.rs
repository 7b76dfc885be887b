//! Adds entries to the lists of a pod, except those that the pod already has.
//!
//! Entries are compared in the form in which the API server returns them after its defaulting: the API server drops
//! empty values, fills in defaults and rewrites quantities (`1024Mi` is returned as `1Gi`). If they were compared as
//! written, a second call of the webhook for the same pod would change the pod again, or deny it.

use super::{Problem, pod::Fields};
use api::names::volume::is_scratch;
use serde_json::{Map, Value};
use std::{borrow::Cow, collections::BTreeMap};

/// What to do with an entry whose key is used by a different entry of the list.
#[derive(Clone, Copy, Debug)]
pub(super) enum OnClash {
    /// Refuse: Kubernetes does not accept two volumes of one name, or two mounts at one path.
    Deny,
    /// Add nothing: Kubernetes accepts only one entry, and the existing entry may be from an earlier call of this
    /// webhook and have been changed by other webhooks since.
    Keep,
    /// Add the entry: Kubernetes accepts both.
    Append,
    /// Add the entry: Kubernetes accepts both, and the later entry takes effect.
    Override,
}

/// Adds each of `entries` to the list at `field` of `parent`, unless the list already has the entry.
///
/// An entry is identified by its `key` fields (with their defaults), of which only the first one must be there, or by
/// the whole entry if `key` is empty. If two of `entries` have the same key, only the last one is added.
///
/// # Errors
///
/// If the first key field is absent or empty in an entry, if an entry clashes under [`OnClash::Deny`], or if `field`
/// contains anything but a list.
pub(super) fn add(
    parent: &mut Fields,
    field: &'static str,
    mut entries: Vec<Value>,
    key: &[&str],
    on_clash: OnClash,
) -> Result<(), Problem> {
    let made = |(i, entry)| key_of(entry, key, i);
    let keys = entries.iter().enumerate().map(made).collect::<Result<Vec<_>, _>>()?;
    let last: BTreeMap<&str, usize> = keys.iter().enumerate().map(|(i, key)| (&**key, i)).collect();
    let mut there: BTreeMap<Cow<str>, Vec<&Value>> = BTreeMap::new();
    for entry in parent.list(field)? {
        if let Ok(key) = key_of(entry, key, 0)
            && last.contains_key(&*key)
        {
            there.entry(key).or_default().push(entry);
        }
    }
    let mut is_missing = vec![false; entries.len()];
    for (i, entry) in entries.iter().enumerate() {
        if last[&*keys[i]] != i {
            continue;
        }
        let same_key = there.get(&keys[i]).map_or(&[][..], Vec::as_slice);
        let is_there = match on_clash {
            OnClash::Override | OnClash::Deny => same_key.last().is_some_and(|there| states(there, entry)),
            OnClash::Keep => !same_key.is_empty(),
            // An earlier call may have appended the entry, and other webhooks further entries with this key after it.
            OnClash::Append => same_key.iter().any(|there| states(there, entry)),
        };
        if is_there {
            continue;
        }
        if let (Some(there), OnClash::Deny) = (same_key.last(), on_clash) {
            return Err(Problem::new(format!("[{i}]"), taken(key, entry, there)));
        }
        is_missing[i] = true;
    }
    let mut is_missing = is_missing.into_iter();
    entries.retain(|_| is_missing.next() == Some(true));
    parent.append(field, entries);
    Ok(())
}

/// Returns the message that the pod already has the entry `there`, with the same values of the fields in `key` as
/// `entry`.
pub(super) fn taken(key: &[&str], entry: &Value, there: &Value) -> String {
    let shown: Vec<_> = key.iter().map(|field| format!("{field} {}", entry[*field])).collect();
    let why = if is_scratch(there) {
        ", the scratch space that Spark mounts where spark.local.dir says"
    } else {
        ""
    };
    format!("{} is already taken in the pod by {there}{why}: choose another", shown.join(", "))
}

/// Replaces the whole value at `field` of `parent` by `value`, unless the existing value is the form in which the API
/// server stores `value`. Never fails: it returns a `Result` only because every step does.
pub(super) fn replace(parent: &mut Fields, field: &'static str, value: Value) -> Result<(), Problem> {
    if !parent.get(field).is_some_and(|there| is_stored_form(there, &value)) {
        parent.set(field, value);
    }
    Ok(())
}

/// Whether `there` equals `wanted`, except for values that the API server leaves out or fills in. Unlike in [`states`],
/// zero, false and an empty object are different from an absent field: they can mean user 0, no privilege escalation
/// and a selector that matches everything.
fn is_stored_form(there: &Value, wanted: &Value) -> bool {
    const FILLED_IN: [(&str, &str); 2] = [("path", "/"), ("scheme", "HTTP")];
    let is_left_out = |value: &Value| {
        value.is_null() || value.as_str() == Some("") || value.as_array().is_some_and(Vec::is_empty)
    };
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => {
            let is_stated = |(name, value): (&String, &Value)| {
                there.get(name).map_or_else(|| is_left_out(value), |there| is_stored_form(there, value))
            };
            wanted.iter().all(is_stated)
                && there.iter().all(|(name, value)| {
                    let is_filled_in = FILLED_IN.iter().any(|(field, is)| *field == name && value == is);
                    wanted.contains_key(name) || is_left_out(value) || is_filled_in
                })
        }
        (Value::Array(there), Value::Array(wanted)) => {
            there.len() == wanted.len()
                && there.iter().zip(wanted).all(|(there, wanted)| is_stored_form(there, wanted))
        }
        (there, wanted) => there == wanted || (is_left_out(there) && is_left_out(wanted)),
    }
}

/// Returns the key that identifies an entry as a text, for look-ups in a map: lists can be long, and comparing each
/// entry with every other entry would take too long.
fn key_of<'e>(entry: &'e Value, key: &[&str], index: usize) -> Result<Cow<'e, str>, Problem> {
    let problem = |field: &str, text| Err(Problem::new(format!("[{index}].{field}"), text));
    let text = |(place, field): (usize, &&str)| match &entry[*field] {
        // The only key field that the API server fills in if it is absent.
        Value::Null if *field == "protocol" => Ok(Cow::Borrowed("TCP")),
        value if place > 0 && is_empty(value) => Ok(Cow::Borrowed("")),
        Value::Null => problem(field, "is required"),
        Value::String(text) if text.is_empty() => problem(field, "must not be empty"),
        Value::String(text) => Ok(Cow::Borrowed(text.as_str())),
        value => Ok(Cow::Owned(value.to_string())),
    };
    match key {
        [] => Ok(Cow::Owned(without_empties(entry).to_string())),
        [only] => text((0, only)),
        several => {
            Ok(Cow::Owned(several.iter().enumerate().map(text).collect::<Result<Vec<_>, _>>()?.join("/")))
        }
    }
}

/// Whether every field of `wanted` has the same value in `there`; `there` may have more fields, which the API server
/// filled in.
pub(super) fn states(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => wanted.iter().all(|(name, value)| {
            there.get(name).map_or_else(
                || is_empty(value) && (!value.is_object() || MAPS.contains(&name.as_str())),
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

/// The fields that the API server leaves out if they contain an empty object: their values are maps. An empty object in
/// any other field has a meaning, such as `emptyDir: {}`.
const MAPS: [&str; 7] =
    ["annotations", "labels", "limits", "matchLabels", "options", "requests", "volumeAttributes"];

/// The fields of volumes that hold a quantity, which the API server rewrites in its canonical form.
const QUANTITIES: [&str; 3] = ["sizeLimit", "storage", "divisor"];

fn is_same_quantity(one: &Value, other: &Value) -> bool {
    let amount = |value: &Value| match value {
        Value::String(text) => api::quantity::amount(text),
        Value::Number(number) => api::quantity::amount(&number.to_string()),
        _ => None,
    };
    amount(one).is_some_and(|one| amount(other) == Some(one))
}

/// Whether the API server leaves out `value` when it writes an object.
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
            // Numbers stay, because the number in a toleration is a pointer in Go: 0 differs from an absent number. A
            // toleration for 0 seconds differs from a toleration for ever.
            .filter(|(_, value)| !is_empty(value) || value.is_number())
            .map(|(name, value)| (name.clone(), without_empties(value)))
            .collect::<Map<_, _>>()
            .into(),
        value => value.clone(),
    }
}
