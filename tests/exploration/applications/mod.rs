//! Checks that the decision core keeps its invariants whatever happens. Everything that can happen to one application
//! within bounds is explored, with a model of the API server, the cluster, the operator's memory and the application's
//! user.
//!
//! The model leaves out:
//! - requests that are in flight for longer than a driver runs or a new operator takes to submit,
//! - containers of drivers and executors that still run after their pod was deleted by force, and
//! - watches that report events in another order than that in which they happened.
//!
//! A `spark-submit` that still runs after its pod was deleted is in the model, with two limits: a driver does not end
//! before every other `spark-submit` of its run has checked whether the driver exists; and the watch reports a
//! submission pod within the time that the operator waits for an incomplete driver.

mod cluster;
mod configs;
mod model;
mod mutation;
mod operator;
mod oracle;
mod records;
mod submission_pods;
mod transitions;
mod world;

use crate::explorer::{explore, explore_and_report, finds, on_all_processors};
use api::State;
use configs::{Config, configs};
use model::Model;
use mutation::Mutation;
use std::collections::BTreeSet;
use transitions::documented;

#[test]
fn every_explored_state_keeps_the_invariants() {
    explore_all(&configs(false));
}

#[test]
#[ignore = "takes long: make explore"]
fn every_state_with_more_troubles_keeps_the_invariants() {
    explore_all(&configs(true));
}

fn explore_all(configs: &[Config]) {
    let seen = on_all_processors(configs, |config| {
        let mut model = Model::new(config, None);
        let Config { name, runs, budget, .. } = config;
        explore_and_report(name, &format!("{runs} runs, {budget}"), &mut model);
        model.seen.take()
    });
    let transitions: BTreeSet<(State, State)> = seen.into_iter().flatten().collect();
    let documented = documented();
    let none = Vec::<&(State, State)>::new();
    assert_eq!(
        transitions.difference(&documented).collect::<Vec<_>>(),
        none,
        "transitions that docs/user/applications.md does not have"
    );
    assert_eq!(
        documented.difference(&transitions).collect::<Vec<_>>(),
        none,
        "documented transitions that never happen"
    );
}

#[test]
fn seeded_bugs_of_applications_are_found() {
    let configs = configs(false);
    finds(&Mutation::ALL, |mutation| {
        let config = configs.iter().find(|config| config.finds.contains(&mutation));
        let config =
            config.unwrap_or_else(|| panic!("{mutation:?} is not in the `finds` of any exploration"));
        explore(&mut Model::new(config, Some(mutation)))
    });
}
