//! What if the API server goes away for a minute?

use crate::apiserver::{outage::goes_on_after, proxy::Line};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn an_operator_whose_api_server_was_down_goes_on() {
    goes_on(Line::Refused, "refused").await;
}

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn an_operator_that_was_cut_off_goes_on() {
    goes_on(Line::Silent, "silent").await;
}

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn an_operator_whose_connections_are_lost_goes_on() {
    goes_on(Line::Lost, "silent, connections lost").await;
}

async fn goes_on(line: Line, how: &str) {
    let drivers = goes_on_after(line, LONG).await;
    println!(
        "soak: API server away for {} s ({how}): resumed, {drivers} applications, {drivers} drivers",
        LONG.as_secs()
    );
}
