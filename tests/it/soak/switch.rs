//! Releases of Kubeflow's chart become releases of this chart with all values that their users publish.

use crate::apiserver::switch::{each_takes_over, sets};

#[tokio::test]
#[ignore = "make soak"]
async fn an_application_runs_on_while_its_operator_is_replaced_with_each_public_set_of_values() {
    let sets = sets();
    each_takes_over(&sets.iter().map(String::as_str).collect::<Vec<_>>()).await;
    println!(
        "soak: applications ran on through upgrades from Kubeflow's chart with {} sets of values",
        sets.len()
    );
}
