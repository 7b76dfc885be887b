//! Reads the explorations from `tests/data/explorations.json`: for each, an application, the operator's settings, the
//! troubles that may happen, and the seeded bugs that it must find. Fields whose names end in `Later` are for `make
//! explore`: they take too long for CI.

use super::{mutation::Mutation, oracle::Setting, world::*};
use crate::budget::named;
use api::RestartPolicyType;
use batch_schedulers::BatchSchedulers;
use plan::{Policy, extension::only, submission_plan::Submitter};
use serde_json::{Value, from_value, json};

/// One exploration.
#[derive(Clone, Debug)]
pub struct Config {
    pub name: String,
    pub setting: Setting,
    pub restart: RestartPolicyType,
    pub budget: Budget,
    /// The number of runs that are explored.
    pub runs: u8,
    /// Whether a pod of another owner has the driver's name.
    pub is_taken: bool,
    /// The seeded bugs that this exploration must find.
    pub finds: Vec<Mutation>,
}

/// Returns all explorations: for CI, or the wider ones for `make explore`.
pub fn configs(are_wide: bool) -> Vec<Config> {
    let all: Vec<Value> = serde_json::from_str(include_str!("../../data/explorations.json")).unwrap();
    let all = all.iter().filter(|entry| are_wide || !is(entry, "later"));
    all.map(|entry| config(entry, are_wide)).collect()
}

/// Whether the list `is` of an exploration contains this text.
fn is(entry: &Value, what: &str) -> bool {
    entry["is"].as_array().into_iter().flatten().any(|said| said == what)
}

fn config(entry: &Value, is_wide: bool) -> Config {
    let is = |what: &str| is(entry, what);
    let later =
        |field: &str| Some(&entry[format!("{field}Later")]).filter(|value| is_wide && !value.is_null());
    let field = |field: &str| later(field).unwrap_or(&entry[field]).clone();
    let number = |name: &str| field(name).as_u64().map(|number| u8::try_from(number).unwrap());
    let troubles =
        [Some(&entry["troubles"]), later("troubles")].into_iter().flatten().filter_map(Value::as_object);
    let each = troubles
        .flatten()
        .map(|(name, count)| (named::<Trouble>(name), from_value::<u8>(count.clone()).unwrap()));
    let budget = Budget::new(number("most").unwrap(), &each.collect::<Vec<_>>());
    let finds = entry["finds"].as_array().into_iter().flatten();

    let restart = field("restart");
    let mut spec = json!({"restartPolicy": {"type": restart}});
    if restart == "OnFailure" {
        spec["restartPolicy"] = json!({
            "type": "OnFailure", "onFailureRetries": 1, "onFailureRetryInterval": 10,
            "onSubmissionFailureRetries": 1, "onSubmissionFailureRetryInterval": 10,
        });
    }
    json_patch::merge(&mut spec, &json!(entry["spec"].as_object().cloned().unwrap_or_default()));
    let submitter = if is("by spark-submit") { Submitter::SparkSubmit } else { Submitter::Native };
    let mut policy = Policy {
        submitter,
        partial_restart: is("partial"),
        protects_driver_outcome: is("protected"),
        has_driver_pdb: is("with a budget"),
        ..Policy::new("k8s://https://10.96.0.1:443")
    };
    if is("grouped") {
        policy.extensions = only(BatchSchedulers::default());
    }
    let setting = Setting {
        spec,
        names: if is("renamed") { [0, 1, 0] } else { [0; SPECS] },
        policy,
        is_queued: is("queued"),
        has_sidecar: is("with a sidecar"),
        has_messages: is("with a sidecar"),
        has_foreign_submission_pod: is("taken by a submission pod"),
    };
    Config {
        name: entry["name"].as_str().unwrap().to_owned(),
        setting,
        restart: from_value(restart).unwrap(),
        budget,
        runs: number("runs").unwrap_or(3),
        is_taken: is("taken"),
        finds: finds.map(|name| named(name.as_str().unwrap())).collect(),
    }
}
