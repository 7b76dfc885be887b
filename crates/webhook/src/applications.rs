//! Reviews applications and schedules: fills in defaults, and refuses objects that cannot be run.

use super::decision::{Change, Decision};
use api::{State, fill_in};
use plan::validation::{self, Files, Findings, Refusal};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Fills defaults into an application that has not been submitted yet (state New), or whose previous run is about to be
/// deleted (state Invalidating). In a later state, the added fields would look like an edit by the user. Kubeflow's
/// operator has the same rule.
///
/// An application that cannot be read stays unchanged: the API server checks the object next and names every field
/// that does not match the CRD, which is more than this webhook could report.
pub(super) fn completed(change: &Change) -> Decision {
    // The state is read from the stored object, because the API server drops the status of a new object.
    let state = change.old["status"]["applicationState"]["state"].as_str().unwrap_or_default();
    if !matches!(state.parse(), Ok(State::New | State::Invalidating)) {
        return Decision::ALLOWED;
    }
    let sent = Value::from(change.object);
    let mut completed = sent.clone();
    match completed["spec"].as_object_mut().map(fill_in) {
        Some(Ok(())) => Decision::Changed(json_patch::diff(&sent, &completed)),
        Some(Err(_)) | None => Decision::ALLOWED,
    }
}

pub(super) fn validated(change: &Change) -> Decision {
    decided(change, |application| validation::examine(application, Files::Stay), validation::is_same_run)
}

pub(super) fn validated_schedule(change: &Change) -> Decision {
    let (precision, shortest_period) = (Some(change.precision), change.shortest_period);
    let examine =
        |schedule: &_| validation::examine_schedule(schedule, precision, shortest_period, Files::Stay);
    decided(change, examine, validation::is_same_schedule)
}

/// Validates the new object. Never refuses an object that is being deleted, nor an update that does not change the run
/// or the schedule: if an invalid object was stored before this webhook was installed, users must still be able to
/// remove its finalizers, to label it and to suspend it.
fn decided<K: DeserializeOwned>(
    change: &Change,
    examine: impl Fn(&K) -> Findings,
    is_same: fn(&K, &K) -> bool,
) -> Decision {
    let Change { object, old, .. } = change;
    let is_kept = !old.is_null() && Value::from(&object["spec"]) == Value::from(&old["spec"]);
    if is_kept || !object["metadata"]["deletionTimestamp"].is_null() {
        return Decision::ALLOWED;
    }
    let new: K = match read(change) {
        Ok(new) => new,
        Err(error) => return Decision::Unreadable(error.to_string()),
    };
    // A stored object that cannot be read counts as different from the new one.
    if serde_json::from_value::<K>((*old).into()).is_ok_and(|old| is_same(&old, &new)) {
        return Decision::ALLOWED;
    }
    let Findings { invalid, warnings, .. } = examine(&new);
    if invalid.is_empty() {
        return Decision::Allowed { warnings };
    }
    let subjects = invalid.iter().map(|invalid| invalid.field.clone()).collect();
    Decision::Refused { subjects, message: Refusal(invalid).to_string(), warnings }
}

/// Reads the object under review. If its metadata names no namespace, the object gets the namespace of the request.
pub(super) fn read<K: DeserializeOwned>(change: &Change) -> serde_json::Result<K> {
    let mut placed = Value::from(change.object);
    if let Some(metadata) = placed["metadata"].as_object_mut() {
        metadata.entry("namespace").or_insert_with(|| change.namespace.into());
    }
    serde_json::from_value(placed)
}
