//! Checks that executors of Kubernetes' own gangs take the room of their placeholders, and nobody else does. Everything
//! that can happen within some bounds while two applications exchange executors is explored, with a model of the API
//! server, the scheduler, the operator's memory and a pod that waits for room.
//!
//! The model begins once both gangs are placed. It leaves out requests that arrive after a new operator has begun.

mod model;
mod mutation;
mod oracle;
mod world;

use crate::{
    explorer::{explore, explore_and_report},
    say,
};
use model::{Config, Model};
use mutation::Mutation;
use world::{
    Budget,
    Trouble::{Crash, Delay, Deletion, Eviction, Fault},
};

#[test]
fn each_executor_takes_the_room_of_its_placeholder_in_any_world_within_reach() {
    explore_all(&configs(0));
}

#[test]
#[ignore = "takes long: make explore"]
fn each_executor_takes_the_room_of_its_placeholder_in_any_world_within_wider_reach() {
    explore_all(&configs(1));
}

fn explore_all(configs: &[Config]) {
    for config in configs {
        let Config { name, budget, .. } = config;
        explore_and_report(&format!("exchanges, {name}"), budget, &mut Model::new(config, None));
    }
}

#[test]
fn a_bug_of_exchanges_that_is_made_on_purpose_is_found() {
    let configs = configs(0);
    let is_missed = |mutation: &Mutation| {
        let found =
            configs.iter().find_map(|config| explore(&mut Model::new(config, Some(*mutation))).broken);
        if let Some(broken) = &found {
            say(&format!("found: {mutation:?}: {}", broken.why));
        }
        found.is_none()
    };
    assert_eq!(Mutation::ALL.into_iter().filter(is_missed).collect::<Vec<_>>(), []);
}

/// Returns all explorations. `more` is the number of additional troubles and unreported changes, for which CI has no
/// time.
fn configs(more: u8) -> Vec<Config> {
    let faults = || Budget::new(1 + more, &[(Crash, 1), (Fault, 1)]);
    let others = Budget::new(1, &[(Deletion, 1), (Eviction, 1), (Delay, more)]);
    let any = Budget::new(more, &[(Deletion, 1), (Eviction, 1), (Delay, 1), (Crash, 1), (Fault, 1)]);
    let more_lag = usize::from(more);
    let (one_node, two_nodes) = ([[0, 0], [0, 0]], [[0, 1], [1, 0]]);
    vec![
        Config { name: "one node", nodes: one_node, lag: 2 + more_lag, budget: faults() },
        Config { name: "two nodes", nodes: two_nodes, lag: 1 + more_lag, budget: faults() },
        Config { name: "one node, its user", nodes: one_node, lag: 1, budget: others },
        Config { name: "two nodes, their user", nodes: two_nodes, lag: 1, budget: any },
    ]
}
