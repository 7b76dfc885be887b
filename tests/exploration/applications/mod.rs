//! Checks that the decision core keeps its invariants whatever happens. Everything that can happen to one application
//! within some bounds is explored, with a model of the API server, the cluster, the operator's memory and its user.
//!
//! The model leaves out:
//! - requests that are on their way for longer than a driver lives or a new operator takes to submit,
//! - containers of drivers and executors that live on after their pod was removed by force, and
//! - watches that report events in an order in which they have not happened.
//!
//! A `spark-submit` that lives on after its pod was removed is in the model, with two limits: a driver never ends
//! before every other `spark-submit` of its run has checked whether the driver exists; and the watch reports a
//! submission pod within the time that the operator waits for a half-made driver.

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
fn every_world_within_reach_is_as_it_should_be() {
    explore_all(&configs(false));
}

#[test]
#[ignore = "takes long: make explore"]
fn every_world_within_wider_reach_is_as_it_should_be() {
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
    assert_eq!(transitions.difference(&documented).collect::<Vec<_>>(), none, "not documented");
    assert_eq!(documented.difference(&transitions).collect::<Vec<_>>(), none, "never seen");
}

#[test]
fn a_bug_that_is_made_on_purpose_is_found() {
    let configs = configs(false);
    finds(&Mutation::ALL, |mutation| {
        let config = configs.iter().find(|config| config.finds.contains(&mutation));
        let config = config.unwrap_or_else(|| panic!("no exploration is to find {mutation:?}"));
        explore(&mut Model::new(config, Some(mutation)))
    });
}
