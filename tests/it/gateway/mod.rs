//! Tests connections through a gateway on loopback, between a client and a server that sends back what it receives. The
//! API server is simulated.

mod api_server;
mod rig;

use crate::prelude::*;
use api_server::object;
use connect_gateway::{Limit, Settings};
use rig::{EARLY, Rig, eventually, settings};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::Instant,
};

/// Returns the status of a SparkConnect without a server that answers; [`ready`] returns one with it.
fn asleep(port: u16) -> serde_json::Value {
    json!({"state": "NotReady", "server": {"podIp": "127.0.0.1"}, "gateway": {"port": port}})
}

fn ready(port: u16) -> serde_json::Value {
    json!({"state": "Ready", "server": {"podIp": "127.0.0.1"}, "gateway": {"port": port}})
}

/// Asserts that the server sends `text` back.
async fn echoes(client: &mut TcpStream, text: &str) {
    client.write_all(text.as_bytes()).await.unwrap();
    let mut answer = vec![0; text.len()];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, text.as_bytes());
}

/// Waits until the gateway has closed the connection.
async fn closed(client: &mut TcpStream) {
    assert!(matches!(client.read(&mut [0; 8]).await, Ok(0) | Err(_)), "nothing was sent");
}

#[tokio::test]
async fn bytes_pass_in_both_directions_and_each_side_closes_its_direction() {
    let rig = Rig::begin(settings()).await;
    rig.api.put(object("a", EARLY, &ready(20_000)));
    let client = rig.connect(20_000).await;
    let (mut from, mut to) = client.into_split();
    let sent: Vec<u8> = (0..3_000_000_u32).map(|number| number.to_le_bytes()[1]).collect();
    let writes = async {
        to.write_all(&sent).await.unwrap();
        to.shutdown().await.unwrap();
    };
    let mut received = Vec::new();
    let ((), read) = tokio::join!(writes, from.read_to_end(&mut received));
    read.unwrap();
    assert!(received == sent);
    drop((from, to));
    rig.shows("spark_operator_connect_gateway_bytes_total{to=\"server\"} 3000000").await;
    rig.shows("spark_operator_connect_gateway_bytes_total{to=\"client\"} 3000000").await;
    rig.shows("spark_operator_connect_gateway_connections 0").await;
    rig.shows("spark_operator_connect_gateway_wakes_total 0").await;
}

#[tokio::test]
async fn a_client_wakes_a_sleeping_server_and_is_held_until_the_server_answers() {
    let rig = Rig::begin(settings()).await;
    rig.api.put(object("a", EARLY, &asleep(20_000)));
    let mut client = rig.connect(20_000).await;
    client.write_all(b"first").await.unwrap();
    let (name, value, _) = eventually(|| rig.api.reports().first().cloned()).await;
    assert_eq!(name, "a");
    assert!(value.len() == "2026-11-28T08:00:00Z".len() && value.ends_with('Z'), "{value}");
    rig.shows("spark_operator_connect_gateway_held_connections 1").await;
    rig.shows("spark_operator_connect_gateway_wakes_total 1").await;
    // A pod that does not answer yet, at an address where nobody listens.
    let mut starting = ready(20_000);
    starting["server"]["podIp"] = json!("127.0.0.2");
    rig.api.put(object("a", EARLY, &starting));
    rig.api.put(object("a", EARLY, &ready(20_000)));
    let mut answer = [0; 5];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"first");
    echoes(&mut client, "second").await;
    rig.shows("spark_operator_connect_gateway_held_connections 0").await;
}

#[tokio::test]
async fn a_held_connection_is_closed_after_the_longest_wait() {
    let rig = Rig::begin(Settings { longest_wait: Duration::from_millis(200), ..settings() }).await;
    rig.api.put(object("a", EARLY, &asleep(20_000)));
    let begun = Instant::now();
    closed(&mut rig.connect(20_000).await).await;
    assert!(begun.elapsed() >= Duration::from_millis(200));
    let counted = "spark_operator_connect_gateway_refused_connections_total{reason=\"no answer\"} 1";
    rig.shows(counted).await;
}

#[tokio::test]
async fn a_held_client_that_disconnects_makes_room_for_another() {
    let held = Limit { in_all: 8, of_one: 1 };
    let rig = Rig::begin(Settings { held, ..settings() }).await;
    rig.api.put(object("a", EARLY, &asleep(20_000)));
    let mut patient = rig.connect(20_000).await;
    patient.write_all(b"nobody reads this").await.unwrap();
    rig.shows("spark_operator_connect_gateway_held_connections 1").await;
    closed(&mut rig.connect(20_000).await).await;
    let counted = "refused_connections_total{reason=\"too many held connections\"} 1";
    rig.shows(counted).await;
    drop(patient);
    rig.shows("spark_operator_connect_gateway_held_connections 0").await;
    let mut next = rig.connect(20_000).await;
    rig.shows("spark_operator_connect_gateway_held_connections 1").await;
    rig.api.put(object("a", EARLY, &ready(20_000)));
    echoes(&mut next, "next").await;
}

#[tokio::test]
async fn the_port_and_the_held_clients_of_a_deleted_spark_connect_are_closed() {
    let rig = Rig::begin(settings()).await;
    for (name, status) in [("a", ready(20_000)), ("b", asleep(20_001)), ("c", ready(20_002))] {
        rig.api.put(object(name, EARLY, &status));
    }
    let (mut session, mut waiting) = (rig.connect(20_000).await, rig.connect(20_001).await);
    echoes(&mut session, "a").await;
    rig.shows("spark_operator_connect_gateway_held_connections 1").await;
    rig.api.delete("a");
    rig.api.delete("b");
    closed(&mut waiting).await;
    rig.is_closed(20_000).await;
    rig.is_closed(20_001).await;
    echoes(&mut session, "goes on for as long as its server").await;
    echoes(&mut rig.connect(20_002).await, "c").await;
}

#[tokio::test]
async fn a_port_belongs_to_the_oldest_spark_connect_that_has_it_in_its_status() {
    let rig = Rig::begin(settings()).await;
    rig.api.put(object("b", "2026-11-28T09:00:00Z", &asleep(20_000)));
    eventually(|| rig.opened(20_000)).await;
    rig.api.put(object("a", EARLY, &ready(20_000)));
    // The port has passed to the older one.
    eventually(|| rig.opened(20_000).filter(|(_, times)| *times == 2)).await;
    echoes(&mut rig.connect(20_000).await, "a").await;
    rig.api.put(object("a", EARLY, &ready(20_001)));
    echoes(&mut rig.connect(20_001).await, "a").await;
    eventually(|| rig.opened(20_000).filter(|(_, times)| *times == 3)).await;
    let _waiting = rig.connect(20_000).await;
    rig.shows("spark_operator_connect_gateway_held_connections 1").await;
}

#[tokio::test]
async fn use_is_reported_once_a_period_and_once_more_after_the_last_connection() {
    let report_period = Duration::from_millis(300);
    let rig = Rig::begin(Settings { report_period, ..settings() }).await;
    rig.api.put(object("a", EARLY, &ready(20_000)));
    let clients = [rig.connect(20_000).await, rig.connect(20_000).await];
    let reports = eventually(|| Some(rig.api.reports()).filter(|reports| reports.len() == 3)).await;
    for pair in reports.windows(2) {
        let pause = pair[1].2 - pair[0].2;
        // The times are those of arrival, which may vary a little.
        assert!(pause + Duration::from_millis(50) >= report_period, "{pause:?}");
    }
    drop(clients);
    eventually(|| (rig.api.reports().len() == 4).then_some(())).await;
    tokio::time::sleep(2 * report_period).await;
    assert_eq!(rig.api.reports().len(), 4);
}

/// In an earlier version, a server slept although it was in use, after somebody had removed its idle time and set it
/// again.
#[tokio::test]
async fn a_connection_through_a_port_that_is_closed_by_now_is_still_reported() {
    let rig = Rig::begin(settings()).await;
    rig.api.put(object("a", EARLY, &ready(20_000)));
    let mut session = rig.connect(20_000).await;
    echoes(&mut session, "a").await;
    eventually(|| (rig.api.reports().len() == 1).then_some(())).await;
    rig.api.put(object("a", EARLY, &json!({"state": "Ready"})));
    rig.is_closed(20_000).await;
    rig.api.put(object("a", EARLY, &ready(20_001)));
    eventually(|| (rig.api.reports().len() == 2).then_some(())).await;
    echoes(&mut session, "still open").await;
}

#[tokio::test]
async fn a_failed_report_is_retried() {
    let rig = Rig::begin(settings()).await;
    rig.api.stored().failures = 1;
    rig.api.put(object("a", EARLY, &asleep(20_000)));
    let _client = rig.connect(20_000).await;
    eventually(|| rig.api.reports().first().cloned()).await;
}

#[tokio::test]
async fn reports_of_many_spark_connects_are_not_sent_all_at_once() {
    let rig = Rig::begin(settings()).await;
    rig.api.stored().delay = Duration::from_millis(100);
    let mut clients = Vec::new();
    for port in 20_000..20_040 {
        rig.api.put(object(&port.to_string(), EARLY, &ready(port)));
        clients.push(rig.connect(port).await);
    }
    eventually(|| (rig.api.reports().len() == clients.len()).then_some(())).await;
    let busiest = rig.api.stored().busiest;
    assert!((2..=32).contains(&busiest), "{busiest}");
}

#[tokio::test]
async fn a_crowd_at_one_spark_connect_shuts_out_no_client_of_another() {
    let connections = Limit { in_all: 8, of_one: 2 };
    let rig = Rig::begin(Settings { connections, ..settings() }).await;
    rig.api.put(object("a", EARLY, &ready(20_000)));
    rig.api.put(object("b", EARLY, &ready(20_001)));
    let mut crowd = [rig.connect(20_000).await, rig.connect(20_000).await];
    for client in &mut crowd {
        echoes(client, "one of two").await;
    }
    closed(&mut rig.connect(20_000).await).await;
    rig.shows("refused_connections_total{reason=\"too many connections\"} 1").await;
    echoes(&mut rig.connect(20_001).await, "b").await;
    drop(crowd);
    rig.shows("spark_operator_connect_gateway_connections 0").await;
    echoes(&mut rig.connect(20_000).await, "there is room again").await;
}

#[tokio::test]
async fn sessions_continue_during_the_termination_grace_of_the_gateway() {
    let termination_grace = Duration::from_secs(2);
    let rig = Rig::begin(Settings { termination_grace, ..settings() }).await;
    rig.api.put(object("a", EARLY, &asleep(20_000)));
    let (mut session, mut short) = (rig.connect(20_000).await, rig.connect(20_000).await);
    eventually(|| rig.api.reports().first().cloned()).await;
    rig.shows("spark_operator_connect_gateway_held_connections 2").await;
    let asked = Instant::now();
    rig.stop.cancel();
    rig.is_closed(20_000).await;
    // Held clients are still served.
    rig.api.put(object("a", EARLY, &ready(20_000)));
    echoes(&mut session, "during the grace").await;
    echoes(&mut short, "too").await;
    drop(short);
    closed(&mut session).await;
    let reports = rig.ended().await;
    let last = reports.last().unwrap().2;
    assert!(
        last >= asked + termination_grace,
        "the last report says when the session was closed: {reports:?}"
    );
}

#[tokio::test]
async fn a_gateway_without_connections_ends_at_once() {
    let rig = Rig::begin(settings()).await;
    rig.api.put(object("a", EARLY, &ready(20_000)));
    drop(rig.connect(20_000).await);
    rig.shows("spark_operator_connect_gateway_connections 0").await;
    rig.stop.cancel();
    rig.ended().await;
}
