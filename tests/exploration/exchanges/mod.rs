//! Checks that each executor of a gang of Kubernetes' own scheduler gets the node capacity of its placeholder pod, and
//! that no other pod gets it. Everything that can happen within bounds while two applications exchange placeholders for
//! executors is explored, with a model of the API server, the scheduler, the operator's memory and a pod of another
//! owner that waits for capacity.
//!
//! The model begins when the placeholders of both gangs are scheduled. It leaves out requests of a killed operator that
//! arrive after a new operator has started.

mod model;
mod mutation;
mod oracle;
mod world;

use crate::explorer::{Model as _, explore, explore_and_report, finds, fingerprint};
use model::{Config, Model};
use mutation::Mutation;
use world::{
    Budget,
    Trouble::{Crash, Delay, Deletion, Eviction, Fault},
};

#[test]
fn each_executor_gets_the_capacity_of_its_placeholder_in_every_explored_state() {
    explore_all(&configs());
}

#[test]
#[ignore = "takes long: make explore"]
fn each_executor_gets_the_capacity_of_its_placeholder_with_more_troubles() {
    explore_all(&wide_configs());
}

fn explore_all(configs: &[Config]) {
    for config in configs {
        let Config { name, budget, .. } = config;
        explore_and_report(&format!("exchanges, {name}"), budget, &mut Model::new(config, None));
    }
}

/// A state with the fingerprint of another one would not be explored.
#[test]
fn states_that_differ_only_in_the_order_of_changes_have_different_fingerprints() {
    let [config] = configs();
    let mut world = Model::new(&config, None).beginning();
    let change = |place| Some((place, world.pair((0, 0))));
    let changes = [change((0, 0)), change((1, 0))];
    world.unheard[..2].copy_from_slice(&changes);
    let mut other = world;
    other.unheard.swap(0, 1);
    assert_ne!(fingerprint(&world), fingerprint(&other));
}

#[test]
fn seeded_bugs_of_exchanges_are_found() {
    let [config] = configs();
    finds(&Mutation::ALL, |mutation| explore(&mut Model::new(&config, Some(mutation))));
}

/// The nodes of the placeholders of both applications.
const ONE_NODE: [[u8; 2]; 2] = [[0, 0], [0, 0]];
const TWO_NODES: [[u8; 2]; 2] = [[0, 1], [1, 0]];

/// Returns the exploration for CI, in which all seeded bugs are found. The one in which a user deletes executors has
/// twice as many states.
fn configs() -> [Config; 1] {
    let fault = Budget::new(1, &[(Crash, 1), (Fault, 1)]);
    [Config { name: "one node", nodes: ONE_NODE, lag: 1, budget: fault }]
}

/// Returns the explorations with more troubles, or with a watch that is further behind.
fn wide_configs() -> Vec<Config> {
    let faults = |most| Budget::new(most, &[(Crash, 1), (Fault, 1)]);
    let delay = Budget::new(1, &[(Delay, 1)]);
    let user = Budget::new(1, &[(Deletion, 1), (Eviction, 1)]);
    // Crashes and faults on two nodes are in the exploration of late reports.
    let user_or_delay = Budget::new(1, &[(Deletion, 1), (Eviction, 1), (Delay, 1)]);
    vec![
        Config { name: "one node, its user and evictions", nodes: ONE_NODE, lag: 1, budget: user },
        Config { name: "one node, late reports", nodes: ONE_NODE, lag: 3, budget: faults(1) },
        Config { name: "one node, two faults", nodes: ONE_NODE, lag: 1, budget: faults(2) },
        Config { name: "two nodes, late reports", nodes: TWO_NODES, lag: 2, budget: faults(1) },
        Config { name: "one node, delays", nodes: ONE_NODE, lag: 1, budget: delay },
        Config { name: "two nodes, their user", nodes: TWO_NODES, lag: 1, budget: user_or_delay },
    ]
}
