//! Reviews applications and schedules: fills in defaults, and refuses what cannot be run.

use super::review::{Change, Decision};
use crate::{
    api::{State, fill_in},
    plan::validation::{self, Findings, Refusal},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// With defaults filled in while nothing has been submitted of it, or what was is about to be deleted; later
/// an edit of the object would look like one of the user's (KF's rule).
///
/// What cannot be read stays as it is: the API server looks at it next, and names every field that is not as
/// the CRD has it, which is more than we could say.
pub(super) fn completed(change: &Change) -> Decision {
    // What stands in a new object's status is about to be dropped.
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
    decided(change, validation::examine, validation::is_same_run)
}

pub(super) fn validated_schedule(change: &Change) -> Decision {
    let examine = |schedule: &_| validation::examine_schedule(schedule, Some(change.precision));
    decided(change, examine, validation::is_same_schedule)
}

/// Nothing is refused of what is being deleted, or stays what it was: it must be possible to take finalizers
/// from an object that was stored before there was this webhook, to label and to suspend it.
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
    // What is stored and cannot be read is nothing that the new one could be the same as.
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

/// The object, which is where the request is if it does not say so itself.
pub(super) fn read<K: DeserializeOwned>(change: &Change) -> serde_json::Result<K> {
    let mut placed = Value::from(change.object);
    if let Some(metadata) = placed["metadata"].as_object_mut() {
        metadata.entry("namespace").or_insert_with(|| change.namespace.into());
    }
    serde_json::from_value(placed)
}
