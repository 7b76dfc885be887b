//! Releases of Kubeflow's chart are upgraded to this chart with all values that their users have published.

use crate::apiserver::switch::{each_takes_over, sets};

#[tokio::test]
#[ignore = "make soak"]
async fn an_application_continues_through_upgrades_with_all_public_values() {
    let sets = sets();
    each_takes_over(&sets.iter().map(String::as_str).collect::<Vec<_>>()).await;
    println!(
        "soak: applications ran on through upgrades from Kubeflow's chart with {} sets of values",
        sets.len()
    );
}
