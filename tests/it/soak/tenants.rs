//! Runs a thousand applications of ten tenants, one of which has a broken admission webhook.

use crate::apiserver::load;

#[tokio::test]
#[ignore = "takes long: make soak"]
async fn a_thousand_applications_of_ten_tenants_cost_few_requests_each() {
    let requests = load::of_applications(100).await.unwrap_or_else(|why| panic!("{why}"));
    println!(
        "soak: 1,000 applications of 10 tenants, one of them broken: {requests:.1} requests a run, no LIST"
    );
}
