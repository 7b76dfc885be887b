//! Proves that the operator and the client library continue after the API server has been unreachable for a minute.

use crate::apiserver::{
    client::goes_on_after_a_quiet_minute_and_a_lost_connection, outage::goes_on_after, proxy::Line,
};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
/// The longest time that the operator may take afterwards to do all the work that has been left undone.
const RESUMED_WITHIN: Duration = Duration::from_secs(10);

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
async fn an_operator_whose_packets_were_dropped_goes_on() {
    goes_on(Line::Dropped, "packets dropped").await;
}

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn an_operator_whose_connections_are_lost_goes_on() {
    goes_on(Line::Lost, "silent, connections lost").await;
}

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn a_program_that_waits_goes_on() {
    goes_on_after_a_quiet_minute_and_a_lost_connection().await;
    println!("soak: a program that waits goes on after a quiet minute and after a lost connection");
}

async fn goes_on(line: Line, how: &str) {
    let (drivers, resumed) = goes_on_after(line, LONG).await;
    println!(
        "soak: API server away for {} s ({how}): resumed after {:.1} s, {drivers} applications, {drivers} drivers",
        LONG.as_secs(),
        resumed.as_secs_f64()
    );
    assert!(resumed <= RESUMED_WITHIN, "it took {resumed:?} to resume");
}
