//! Proves that thousands of connections that do nothing cost little memory, delay no other client and leave nothing
//! behind.

#![expect(clippy::print_stdout, reason = "the memory itself is a result, not only that it is below a limit")]

use super::{Client, head, process::Operator, review, spark_pod};
use crate::apiserver::{operator::get, prelude::*};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The number of connections of each crowd: three alike, by which a leak would show, and one that is larger than what
/// the webhook keeps.
const CROWDS: [usize; 4] = [1000, 1000, 1000, 4500];
/// The number of connections that the webhook keeps open.
const KEPT: usize = 4096;
/// The largest number of other files that an operator has open.
const OTHER_FILES: usize = 100;
/// Maximum memory that a connection may cost. A silent connection costs 9 KiB and an idle one 13 KiB; more on a machine
/// that is so busy that connections which must be closed are still open when the next ones arrive.
const EACH_KIB: u64 = 32;

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_silent_connections_cost_little_and_delay_no_client() {
    let operator = ready("silent").await;
    crowds(&operator, "silent", async |_| TcpStream::connect(operator.address).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_idle_connections_cost_little_and_delay_no_client() {
    let operator = ready("idle").await;
    let shaken = async |i| operator.handshake(["h2", "http/1.1"][i % 2]).await.unwrap();
    crowds(&operator, "idle", shaken).await;
}

/// Without a limit, 2,600 connections with heads of 400 KiB took 1 GiB.
#[tokio::test(flavor = "multi_thread")]
async fn endless_heads_cost_little_at_the_ports_of_probes_and_metrics() {
    let metrics = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let operator = ready_with("heads", &[&format!("--metrics-bind-address={metrics}")]).await;
    for (port, path) in [(operator.probes, "/healthz"), (metrics, "/metrics")] {
        for (lines, connections) in [(1, 2600), (49, 500)] {
            let before = operator.memory_kib();
            let head =
                format!("GET {path} HTTP/1.1\r\n{}", format!("X: {}\r\n", "x".repeat(8000)).repeat(lines));
            let mut crowd = Vec::new();
            for _ in 0..connections {
                let mut stream = TcpStream::connect(port).await.unwrap();
                // A head that is too long is refused before all of it is sent.
                stream.write_all(head.as_bytes()).await.ok();
                crowd.push(stream);
            }
            assert_eq!(get(port.port(), path).await.unwrap().0, 200);
            let at = operator.memory_kib();
            println!(
                "{connections} heads of {} KiB at {path}: {before} KiB before, {at} KiB with them",
                head.len() >> 10
            );
            assert!(at < before + (16 << 10), "{before} KiB, {at} KiB");
            // The clients do not close the connections: the operator does.
            closed_to(&operator, OTHER_FILES).await;
        }
    }
}

/// In an earlier version, 300 answers of 4 MiB took 1.3 GiB. The largest answer is now that for a driver with the
/// largest annotations; a unit test of `webhook::bodies` proves how many of them wait at most.
#[tokio::test(flavor = "multi_thread")]
async fn unread_answers_cost_little_and_delay_no_client() {
    const ANSWERS: u64 = 60;
    const TEXT: usize = 240 << 10;
    let operator = ready("unread").await;
    let before = operator.memory_kib();
    let driver = spark_pod(json!({"env": json!([{"name": "TEXT", "value": "x".repeat(TEXT)}]).to_string()}));
    let review = review(&driver);
    let answer = Client::http1(operator.handshake("http/1.1").await.unwrap()).await.review(&review).await;
    let patch = answer["response"]["patch"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(patch.len() > TEXT, "{}", patch.len());
    let review = review.to_string();
    let head = head(review.len());
    let mut crowd = Vec::new();
    for _ in 0..ANSWERS {
        let mut stream = operator.handshake("http/1.1").await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(review.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        // The answer has begun.
        stream.read_exact(&mut [0; 12]).await.unwrap();
        crowd.push(stream);
    }
    operator.answers().await;
    let at = operator.memory_kib();
    let all = answer.to_string().len() as u64 * ANSWERS;
    println!("{ANSWERS} unread answers, {} MiB: {before} KiB before, {at} KiB with them", all >> 20);
    assert!(at < before + all / 1024 * 2, "{before} KiB, {at} KiB");
    // The clients do not close the connections: the operator does.
    closed_to(&operator, OTHER_FILES).await;
}

/// Opens [`CROWDS`] of connections, one after the other; `connect` opens each connection.
async fn crowds<T>(operator: &Operator, who: &str, connect: impl AsyncFn(usize) -> T) {
    let (mut grown, mut peaks) = (Vec::new(), Vec::new());
    for size in CROWDS {
        let before = operator.memory_kib();
        let mut crowd = Vec::new();
        for i in 0..size {
            crowd.push(connect(i).await);
            if i % 500 == 0 {
                operator.answers().await;
            }
        }
        operator.answers().await;
        let at = operator.memory_kib();
        let files = closed_to(operator, KEPT + OTHER_FILES).await;
        drop(crowd);
        closed_to(operator, OTHER_FILES).await;
        operator.answers().await;
        let after = operator.memory_kib();
        println!(
            "{size} {who} connections: {before} KiB before, {at} KiB with them, {after} KiB after, {files} open files"
        );
        grown.push(at.saturating_sub(before));
        peaks.push(at);
    }
    let is_little = |(size, grown): (usize, &u64)| *grown < EACH_KIB * size.min(KEPT) as u64;
    assert!(CROWDS.into_iter().zip(&grown).all(is_little), "{grown:?}");
    // How much freed memory the allocator keeps is not checked. Leaked memory would add up with each crowd; on a busy
    // machine one of them may need more than the one before.
    let more = peaks[..3].windows(2).map(|pair| pair[1].saturating_sub(pair[0])).min();
    assert!(more < Some(grown[0] / 2), "{peaks:?}, grown by {grown:?}");
    // The log reports that there are too many connections, but nothing about single connections.
    let lines = operator.logged_of_clients();
    assert!(matches!(&lines[..], [line] if line.contains("too many connections")), "{lines:?}");
}

/// Waits until the operator has at most `bound` open files, and returns their number. A connection that makes room for
/// another one closes while the other one is already served.
async fn closed_to(operator: &Operator, bound: usize) -> usize {
    eventually(&format!("at most {bound} files are open"), async || {
        let files = operator.open_files();
        seen(files <= bound, files).map(|()| files)
    })
    .await
}

/// Starts an operator that has already answered reviews, and raises the limit of open files of this process.
pub(super) async fn ready(name: &str) -> Operator {
    ready_with(name, &["--metrics-bind-address=0"]).await
}

async fn ready_with(name: &str, arguments: &[&str]) -> Operator {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let operator = Operator::with(name, arguments).await;
    for _ in 0..20 {
        operator.answers().await;
    }
    operator
}
