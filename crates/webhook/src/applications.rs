//! Reviews applications and schedules: fills in defaults, and refuses objects that cannot be run.

use super::decision::{Change, Decision, Versions};
use api::{State, defaults, fill_in};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use validation::{self, Files, Findings};

/// Fills defaults into an application that has not been submitted yet (state New), or whose previous run is about to be
/// deleted (state Invalidating). In a later state, the added fields would look like an edit by the user. Kubeflow's
/// operator has the same rule.
///
/// An application in which what defaults depend on cannot be read stays unchanged: the API server checks the object next
/// and names every field that does not match the CRD, which is more than this webhook could report.
pub(super) fn completed(change: &Change) -> Decision {
    // The state is read from the stored object, because the API server drops the status of a new object.
    let state = change.old["status"]["applicationState"]["state"].as_str().unwrap_or_default();
    if !matches!(state.parse(), Ok(State::New | State::Invalidating)) {
        return Decision::ALLOWED;
    }
    let sent = json!({"spec": defaulted(&change.object["spec"])});
    let mut completed = sent.clone();
    match completed["spec"].as_object_mut().map(fill_in) {
        Some(Ok(())) => Decision::Changed(json_patch::diff(&sent, &completed)),
        Some(Err(_)) | None => Decision::ALLOWED,
    }
}

/// Returns the part of a spec in which there are defaults, or on which they depend: the rest, which may be large, is not
/// copied.
fn defaulted(spec: &Value) -> Value {
    const FIELDS: [&str; 4] = ["dynamicAllocation", "mode", "restartPolicy", "type"];
    const OF_ROLES: [&str; 3] = ["cores", "instances", "memory"];
    let part = |of: &Value, fields: &[&str]| match of {
        Value::Object(of) => {
            let there =
                fields.iter().filter_map(|field| Some(((*field).to_owned(), of.get(*field)?.clone())));
            Value::Object(there.collect())
        }
        other => other.clone(),
    };
    let mut found = part(spec, &FIELDS);
    let properties = defaults::properties();
    let properties: Vec<_> = properties.iter().map(String::as_str).collect();
    for (field, fields) in [("sparkConf", &properties[..]), ("driver", &OF_ROLES), ("executor", &OF_ROLES)] {
        if let (Some(of), Some(found)) = (spec.get(field), found.as_object_mut()) {
            found.insert(field.to_owned(), part(of, fields));
        }
    }
    found
}

pub(super) fn validated(change: &Change) -> Decision {
    let examine = |application: &_| validation::examine(application, Files::Stay);
    decided(change, examine, validation::is_same_run, validation::effect_on_run)
}

pub(super) fn validated_schedule(change: &Change) -> Decision {
    let (precision, shortest_period) = (Some(change.precision), change.shortest_period);
    let examine =
        |schedule: &_| validation::examine_schedule(schedule, precision, shortest_period, Files::Stay);
    decided(change, examine, validation::is_same_schedule, |_, _| None)
}

/// Validates the new object. Never refuses an object that is being deleted, nor an update that does not change what runs
/// (`is_same`): if an invalid object was stored before this webhook was installed, users must still be able to
/// remove its finalizers, to label it and to suspend it. `warning` is what the user is told of an update beside that.
pub(super) fn decided<K: DeserializeOwned + Send + Sync + 'static>(
    change: &Change,
    examine: impl Fn(&K) -> Findings,
    is_same: fn(&K, &K) -> bool,
    warning: fn(&K, &K) -> Option<String>,
) -> Decision {
    let Change { object, old, .. } = change;
    let is_kept = !old.is_null() && object["spec"] == old["spec"];
    if is_kept || !object["metadata"]["deletionTimestamp"].is_null() {
        return Decision::ALLOWED;
    }
    let Versions { new, old } = change.versions::<K>();
    let new = match new {
        Ok(new) => new,
        Err(error) => return Decision::Unreadable(error.clone()),
    };
    let old = old.as_ref();
    if old.is_some_and(|old| is_same(old, new)) {
        return Decision::ALLOWED;
    }
    let Findings { invalid, mut warnings, .. } = examine(new);
    // It is the first one, because the API server drops the last warnings if all together exceed 4 KiB.
    warnings.splice(..0, old.and_then(|old| warning(old, new)));
    Decision::of(invalid, warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_of_a_part_are_those_of_the_whole() {
        let cases = include_str!("../../../tests/data/defaults/parts.json");
        for spec in serde_json::from_str::<Vec<Value>>(cases).unwrap() {
            let filled = |part: Value| {
                let sent = json!({"spec": part});
                let mut completed = sent.clone();
                fill_in(completed["spec"].as_object_mut().unwrap()).unwrap();
                json_patch::diff(&sent, &completed)
            };
            assert_eq!(filled(defaulted(&spec)), filled(spec.clone()), "{spec}");
        }
        assert_eq!(defaulted(&json!("none")), "none");
    }
}
