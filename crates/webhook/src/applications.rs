//! Reviews applications and schedules: fills in defaults, and lists the checks of each kind.

use super::{
    checks::Checks,
    decision::{Change, Decision},
};
use api::{ScheduledSparkApplication, SparkApplication, State, fill_in};
use json_patch::PatchOperation;
use plan::quota;
use serde_json::{Value, json};
use submission::exposure::exposure_rights;
use validation::{self, Files};

pub(super) static APPLICATION: Checks<SparkApplication> = Checks {
    of_extensions: Some("spec"),
    is_same: validation::is_same_run,
    examine: |application, _| validation::examine(application, Files::Stay),
    effect: validation::effect_on_run,
    exposure_rights: |old, new| exposure_rights(old.map(|old| &old.spec), &new.spec, "spec"),
    needs_room: quota::needs_room,
    exceeded: |old, new, room| {
        let environment = room.environment.as_ref().map_err(Clone::clone)?;
        Ok(quota::exceeded(old, new, room.quotas, environment, room.policy, room.says_numbers))
    },
};

pub(super) static SCHEDULE: Checks<ScheduledSparkApplication> = Checks {
    of_extensions: Some("spec.template"),
    is_same: validation::is_same_schedule,
    examine: |schedule, reviews| {
        validation::examine_schedule(schedule, Some(reviews.precision), reviews.shortest_period, Files::Stay)
    },
    effect: |_, _| None,
    exposure_rights: |old, new| {
        exposure_rights(old.map(|old| &old.spec.template), &new.spec.template, "spec.template")
    },
    // A schedule has no pods of its own.
    needs_room: |_, _| false,
    exceeded: |_, _, _| Ok(Vec::new()),
};

/// Fills defaults into an application that has not been submitted yet (state New), or whose previous run is about to be
/// deleted (state Invalidating). In a later state, the added fields would look like an edit by the user. Kubeflow's
/// operator has the same rule.
///
/// An application stays unchanged if a field on which defaults depend cannot be read: the API server checks the object
/// next and names every field that does not match the CRD, which is more than this webhook could report.
pub(super) fn completed(change: &Change) -> Decision {
    // The state is read from the stored object, because the API server drops the status of a new object.
    let state = change.old["status"]["applicationState"]["state"].as_str().unwrap_or_default();
    if !matches!(state.parse(), Ok(State::New | State::Invalidating)) {
        return Decision::ALLOWED;
    }
    let sent = json!({"spec": shallow(&change.object["spec"], 1)});
    let mut completed = sent.clone();
    let Some(Ok(())) = completed["spec"].as_object_mut().map(fill_in) else { return Decision::ALLOWED };
    let patch = json_patch::diff(&sent, &completed);
    // A default would replace a value that the user wrote and that was not copied. Such a value has the wrong type for its
    // field, which the API server reports next.
    let mut added = patch.0.iter().filter(|operation| matches!(operation, PatchOperation::Add(_)));
    if added.any(|added| change.object.pointer(added.path().as_str()).is_some()) {
        return Decision::ALLOWED;
    }
    Decision::Admitted { patch, warnings: Vec::new() }
}

/// Returns `value` without lists and without objects that are nested by more than `levels`. These parts of a spec contain no
/// defaults, and no default depends on them; they may be large and are not copied.
fn shallow(value: &Value, levels: usize) -> Value {
    let Value::Object(fields) = value else { return value.clone() };
    let is_kept = |field: &Value| !field.is_array() && (levels > 0 || !field.is_object());
    let kept = fields.iter().filter(|(_, field)| is_kept(field));
    kept.map(|(name, field)| (name.clone(), shallow(field, levels.saturating_sub(1)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shallow_copy_of_a_spec_gets_the_defaults_of_the_whole_spec() {
        let cases = include_str!("../../../tests/data/defaults/parts.json");
        for spec in serde_json::from_str::<Vec<Value>>(cases).unwrap() {
            let filled = |part: Value| {
                let sent = json!({"spec": part});
                let mut completed = sent.clone();
                fill_in(completed["spec"].as_object_mut().unwrap()).unwrap();
                json_patch::diff(&sent, &completed)
            };
            assert_eq!(filled(shallow(&spec, 1)), filled(spec.clone()), "{spec}");
        }
        assert_eq!(shallow(&json!("none"), 1), "none");
    }
}
