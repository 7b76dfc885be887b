//! Checks that a schedule starts each slot (a time at which it is due) once, whatever happens. Everything that can
//! happen to one schedule within bounds is explored, with a model of the API server, the operator's memory and the
//! schedule's user.
//!
//! The model leaves out requests that are in flight for longer than a new operator takes to start. It also allows that
//! an application is created again if a user deletes it before its start is recorded and while no operator knows of it.

mod model;
mod mutation;
mod operator;
mod oracle;
mod world;

use crate::{
    budget::named,
    explorer::{explore, explore_and_report, finds},
};
use model::{Config, Model};
use mutation::Mutation;
use serde_json::{Value, from_value};
use world::{Budget, Trouble};

#[test]
fn no_slot_is_started_twice_in_any_explored_state() {
    explore_all(&configs(0));
}

#[test]
#[ignore = "takes long: make explore"]
fn no_slot_is_started_twice_with_more_troubles() {
    explore_all(&configs(1));
}

fn explore_all(configs: &[Config]) {
    for config in configs {
        let Config { name, budget, .. } = config;
        explore_and_report(&format!("schedule, {name}"), budget, &mut Model::new(config, None));
    }
}

#[test]
fn seeded_bugs_of_schedules_are_found() {
    let configs = configs(0);
    finds(&Mutation::ALL, |mutation| {
        let config = configs.iter().find(|config| config.finds.contains(&mutation));
        let config =
            config.unwrap_or_else(|| panic!("{mutation:?} is not in the `finds` of any exploration"));
        explore(&mut Model::new(config, Some(mutation)))
    });
}

/// Returns the explorations in `tests/data/explorations-of-schedules.json`, with `more` troubles than there: these take
/// too long for CI.
fn configs(more: u8) -> Vec<Config> {
    let text = include_str!("../../data/explorations-of-schedules.json");
    let all: Vec<Value> = serde_json::from_str(text).unwrap();
    all.iter().map(|entry| config(entry, more)).collect()
}

fn config(entry: &Value, more: u8) -> Config {
    let number = |value: &Value| from_value::<u8>(value.clone()).unwrap();
    let troubles = entry["troubles"].as_object().unwrap().iter();
    let each: Vec<(Trouble, u8)> = troubles.map(|(name, count)| (named(name), number(count))).collect();
    let finds = entry["finds"].as_array().into_iter().flatten();
    Config {
        name: entry["name"].as_str().unwrap().to_owned(),
        spec: entry["spec"].clone(),
        moments: from_value(entry["moments"].clone()).unwrap(),
        has_failures: entry["hasFailures"] == true,
        budget: Budget::new(number(&entry["most"]) + more, &each),
        finds: finds.map(|name| named(name.as_str().unwrap())).collect(),
    }
}
