//! Compares two specs of an application, and determines the effect of the difference on the application's present run.

use api::{SparkApplication, State, excerpt};
use serde_json::Value;
use std::collections::BTreeSet;
use submission::spec_hash::{AT_ONCE, canonical, has_elastic_run, has_partial_run, without_template};

api::words! {
    /// What an edit of a field does to a run, or to a server.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Effect {
        /// The operator acts on the new value at once, and no other run starts.
        Now = "takes effect now",
        /// The run continues, and executors that its driver creates from now on have the new value. Only for runs with a
        /// partial restart (see [`has_partial_run`]); other runs end.
        NextExecutor = "takes effect for the next executor",
        /// The run, if there is one, continues unchanged.
        NextRun = "takes effect with the next run",
        /// The run ends, and another one starts.
        EndsRun = "ends the run",
        /// The last run has ended, and another one starts.
        StartsRun = "starts another run",
        /// The server of a SparkConnect is replaced, and its sessions end.
        EndsSessions = "ends the sessions",
        /// A SparkConnect has no server at present.
        NextServer = "takes effect with the next server",
    }
}

/// A field that differs between two specs.
#[derive(Clone, Debug, PartialEq)]
pub struct Edit {
    /// The path of the field in the application, such as `spec.driver.cores`.
    pub field: String,
    /// The value before the edit; null if the field is absent.
    pub old: Value,
    /// The value after the edit; null if the field is absent.
    pub new: Value,
    pub effect: Effect,
}

/// The maximum length, in bytes, of a field's path in a warning. `kubectl` prints warnings of up to 160 bytes completely.
const LONGEST_FIELD: usize = 80;

/// Returns the fields in which the specs of `old` and `new` differ, each with its effect in the state of `old`. Equivalent
/// specs do not differ: defaults are filled in first, and the order of fields does not matter.
pub fn differences(old: &SparkApplication, new: &SparkApplication) -> Vec<Edit> {
    let is_recorded = old.status.as_ref().is_some_and(|status| status.submission_id.is_some());
    let of_run = match old.state() {
        state if !is_recorded || !state.has_a_run_to_edit() => Effect::NextRun,
        State::Completed | State::Failed => Effect::StartsRun,
        _ => Effect::EndsRun,
    };
    let of_partial_run = if old.state().is_followed() { Effect::NextExecutor } else { Effect::NextRun };
    let specs = [old, new].map(|application| canonical(&application.spec));
    let compared = |[before, after]: &[Value; 2]| edits_of("spec", before, after, &|_| Effect::EndsRun);
    let mut edits = compared(&specs);
    // A list of volumes may differ in volumes of the driver, or only in volumes of the executors' template.
    let fields = |edits: Vec<Edit>| edits.into_iter().map(|edit| edit.field).collect::<BTreeSet<_>>();
    let others = has_partial_run(old).then(|| fields(compared(&specs.map(without_template))));
    let is_of_template = |field: &str| others.as_ref().is_some_and(|others| !others.contains(field));
    for edit in &mut edits {
        let field = edit.field.strip_prefix("spec.").unwrap_or_default();
        edit.effect = match field {
            "executor.instances" if has_elastic_run(old) => Effect::NextRun,
            _ if AT_ONCE.contains(&field) => Effect::Now,
            _ if is_of_template(&edit.field) => of_partial_run,
            _ => of_run,
        };
    }
    edits
}

/// Returns the fields in which the values `old` and `new` of `field` differ, such as those of `spec`, each with the `effect` that
/// the path of the field has.
pub fn edits_of(field: &str, old: &Value, new: &Value, effect: &impl Fn(&str) -> Effect) -> Vec<Edit> {
    if old == new {
        return Vec::new();
    }
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        let effect = effect(field);
        let (field, old, new) = (field.to_owned(), old.clone(), new.clone());
        return vec![Edit { field, old, new, effect }];
    };
    let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let of_name = |name: &String| {
        // The keys of maps contain dots.
        let is_field = name.chars().all(char::is_alphanumeric);
        let path = if is_field { format!("{field}.{name}") } else { format!("{field}[{name}]") };
        edits_of(&path, &old[name], &new[name], effect)
    };
    names.into_iter().flat_map(of_name).collect()
}

/// Returns the warning about an update that ends the run of `old`, or that only changes its next executors; `None` for other
/// updates, and for one that suspends the application.
pub fn effect_on_run(old: &SparkApplication, new: &SparkApplication) -> Option<String> {
    if new.spec.suspend == Some(true) {
        return None;
    }
    let edits = differences(old, new);
    let warnings = [
        (Effect::EndsRun, "ends this run and starts another"),
        (Effect::NextExecutor, "is for the next executor, and this run continues"),
    ];
    warnings.into_iter().find_map(|(effect, what)| {
        let mut fields = edits.iter().filter(|edit| edit.effect == effect);
        let field = excerpt::beginning(fields.next()?.field.clone(), LONGEST_FIELD);
        let others = match fields.count() {
            0 => String::new(),
            count => format!(" (and {count} more)"),
        };
        Some(format!("an edit of {field}{others} {what}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    /// Returns an application in this state with the hash of its run.
    fn application(state: &str, hash: &str, spec: Value) -> SparkApplication {
        let status = json!({"applicationState": {"state": state}, "submissionID": "1", "specHash": hash});
        from_value(json!({"metadata": {"name": "pi"}, "spec": spec, "status": status})).unwrap()
    }

    #[test]
    fn differences_are_listed_by_field_without_equivalent_values() {
        let old = json!({"driver": {"cores": 2}, "sparkConf": {"spark.a": "1"}, "volumes": [{"name": "a"}]});
        let new = json!({
            "mode": "cluster", "arguments": [], "executor": {"instances": 1}, "driver": {"cores": 3},
            "sparkConf": {"spark.a": "2"}, "suspend": false,
        });
        let [old, new] = [old, new].map(|spec| application("RUNNING", "v1:1", spec));
        let edits = differences(&old, &new).into_iter().map(|edit| {
            let Edit { field, old, new, effect } = edit;
            format!("{field}: {old} {new} {effect}")
        });
        let expected = [
            "spec.driver.cores: 2 3 ends the run",
            "spec.sparkConf[spark.a]: \"1\" \"2\" ends the run",
            "spec.suspend: null false takes effect now",
            "spec.volumes: [{\"name\":\"a\"}] null ends the run",
        ];
        assert_eq!(edits.collect::<Vec<_>>(), expected);
    }

    /// A state, the hash of the run, the new spec (the old one has two executors), the warning, and each field with its effect.
    type Case = (String, String, Value, Option<String>, Vec<String>);

    #[test]
    fn the_effect_of_an_edit_on_a_run_is_predicted() {
        let cases = include_str!("../../../tests/data/edits.json");
        for (state, hash, spec, warning, effects) in serde_json::from_str::<Vec<Case>>(cases).unwrap() {
            let old = application(&state, &hash, json!({"executor": {"instances": 2}}));
            let new = application("", "", spec);
            assert_eq!(effect_on_run(&old, &new), warning, "{state} {hash}");
            let edits = differences(&old, &new);
            let found: Vec<_> = edits.iter().map(|edit| format!("{} {}", edit.field, edit.effect)).collect();
            assert_eq!(found, effects, "{state} {hash}");
        }
        let long =
            |value: &str| application("RUNNING", "v1:1", json!({"sparkConf": {"spark.".repeat(99): value}}));
        let warning = effect_on_run(&long("1"), &long("2")).unwrap();
        assert!(warning.len() <= 160 && warning.contains("… ends"), "{warning}");
    }
}
