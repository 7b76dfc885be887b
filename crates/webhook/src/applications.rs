//! Reviews applications and schedules: fills in defaults, and says what is checked of each.

use super::{
    checks::Checks,
    decision::{Change, Decision},
};
use api::{ScheduledSparkApplication, SparkApplication, State, defaults, fill_in};
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
        Some(Ok(())) => {
            Decision::Admitted { patch: json_patch::diff(&sent, &completed), warnings: Vec::new() }
        }
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
