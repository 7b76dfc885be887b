//! Checks that a schedule starts each slot (a moment at which it is due) once, whatever happens. Everything that can
//! happen to one schedule within some bounds is explored, with a model of the API server, the operator's memory and the
//! schedule's user.
//!
//! The model leaves out requests that are on their way for longer than a new operator takes to start, and an
//! application that a user deletes before its start is recorded and while no operator knows of it: such an application
//! is created again.

mod model;
mod mutation;
mod operator;
mod oracle;
mod world;

use crate::explorer::{explore, explore_and_report, finds};
use model::{Config, Model};
use mutation::Mutation;
use serde_json::{Value, json};
use world::{
    Budget,
    Trouble::{self, Crash, Deletion, Edit, Fault, Foreign, PutBack, Suspend, Trigger},
};

#[test]
fn no_slot_is_started_twice_in_any_world_within_reach() {
    explore_all(&configs(0));
}

#[test]
#[ignore = "takes long: make explore"]
fn no_slot_is_started_twice_in_any_world_within_wider_reach() {
    explore_all(&configs(1));
}

fn explore_all(configs: &[Config]) {
    for config in configs {
        let Config { name, budget, .. } = config;
        explore_and_report(&format!("schedule, {name}"), budget, &mut Model::new(config, None));
    }
}

#[test]
fn a_bug_of_schedules_that_is_made_on_purpose_is_found() {
    let configs = configs(0);
    finds(&Mutation::ALL, |mutation| {
        let config = configs.iter().find(|config| config.name == mutation.shows_in()).unwrap();
        explore(&mut Model::new(config, Some(mutation)))
    });
}

const FAULTS: [(Trouble, u8); 4] = [(Crash, 1), (Fault, 1), (Deletion, 1), (Foreign, 1)];
const BY_USER: [(Trouble, u8); 3] = [(Edit, 1), (Suspend, 2), (Trigger, 1)];
/// Troubles after which an application must be replaced before its start is recorded.
const TRIGGERED: [(Trouble, u8); 2] = [(Trigger, 1), (Crash, 1)];
const PUT_BACK: [(Trouble, u8); 4] = [(PutBack, 1), (Edit, 1), (Crash, 1), (Suspend, 1)];

/// Returns all explorations. `more` is the number of additional troubles, for which CI has no time.
fn configs(more: u8) -> Vec<Config> {
    let everything = [&FAULTS[..], &BY_USER[..]].concat();
    let faults = || Budget::new(2 + more, &FAULTS);
    let one = || Budget::new(1 + more, &everything);
    let by_user = Budget::new(2 + more, &[(Edit, 1), (Suspend, 2)]);
    let put_back = Budget::new(2 + more, &PUT_BACK);
    let policy = |policy: &str| json!({"concurrencyPolicy": policy});
    let nothing_kept = json!({
        "concurrencyPolicy": "Allow", "successfulRunHistoryLimit": 0, "failedRunHistoryLimit": 0,
    });
    let with_deadline = |policy: &str| json!({"concurrencyPolicy": policy, "startingDeadlineSeconds": 200});
    let three = || vec![1, 601, 1201, 1801];
    // Includes a moment between two slots at which the deadline of the run that waits has passed.
    let late = || vec![1, 601, 901, 1201];
    vec![
        config("Allow", policy("Allow"), faults()),
        Config { moments: three(), ..config("Forbid", policy("Forbid"), faults()) },
        config("Replace", policy("Replace"), faults()),
        config("triggered and replaced", policy("Replace"), Budget::new(2 + more, &TRIGGERED)),
        config("user and faults, Forbid", policy("Forbid"), one()),
        config("user and faults, Replace", policy("Replace"), one()),
        Config { has_failures: true, ..config("nothing kept", nothing_kept.clone(), faults()) },
        config("clock put back", nothing_kept, put_back),
        config("its user", policy("Allow"), by_user),
        Config { moments: late(), ..config("deadline, Forbid", with_deadline("Forbid"), one()) },
        Config { moments: late(), ..config("deadline, Replace", with_deadline("Replace"), one()) },
    ]
}

fn config(name: &'static str, spec: Value, budget: Budget) -> Config {
    let moments = vec![1, 601, 1201];
    Config { name, spec, moments, has_failures: false, budget }
}
