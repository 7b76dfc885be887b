//! What if thousands connect and do nothing? They cost little, delay nobody, and are forgotten.

#![expect(
    clippy::print_stdout,
    reason = "how much memory it takes is to be known, not only to be below a limit"
)]

use super::process::Operator;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::time::Duration;
use tokio::{net::TcpStream, time::sleep};

const CROWD: usize = 5000;
/// As many connections as the webhook keeps,
const KEPT: usize = 4096;
/// what else an operator has open at most,
const OTHER_FILES: usize = 100;
/// and what a connection may cost at most. They cost 9 KiB when they are silent, and 13 KiB when they are idle; more
/// where the machine is so busy that those that have to go are still there when the next ones come.
const EACH_KIB: u64 = 32;

#[tokio::test(flavor = "multi_thread")]
async fn thousands_that_say_nothing_cost_little_and_delay_nobody() {
    let operator = ready("silent").await;
    crowds(&operator, "silent", async |_| TcpStream::connect(operator.address).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_that_are_idle_cost_little_and_delay_nobody() {
    let operator = ready("idle").await;
    let shaken = async |i| operator.handshake(["h2", "http/1.1"][i % 2]).await.unwrap();
    crowds(&operator, "idle", shaken).await;
}

/// Two crowds, one after the other, in which `connect` makes each connection.
async fn crowds<T>(operator: &Operator, who: &str, connect: impl AsyncFn(usize) -> T) {
    let (mut grown, mut peaks) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let before = operator.memory_kib();
        let mut crowd = Vec::new();
        for i in 0..CROWD {
            crowd.push(connect(i).await);
            if i % 500 == 0 {
                operator.answers().await;
            }
        }
        operator.answers().await;
        let at = operator.memory_kib();
        let files = operator.open_files();
        assert!(files <= KEPT + OTHER_FILES, "{files}");
        drop(crowd);
        while operator.open_files() > OTHER_FILES {
            sleep(Duration::from_millis(20)).await;
        }
        operator.answers().await;
        let after = operator.memory_kib();
        println!(
            "{CROWD} {who} connections: {before} KiB before, {at} KiB with them, {after} KiB after, {files} open files"
        );
        grown.push(at.saturating_sub(before));
        peaks.push(at);
    }
    assert!(grown[0] < EACH_KIB * KEPT as u64, "{grown:?}");
    // How much of what it was given the allocator keeps is its own affair. What tells is that with the second crowd there
    // is next to nothing more than with the first: what the first has left behind would be.
    assert!(peaks[1].saturating_sub(peaks[0]) < grown[0] / 2, "{peaks:?}, grown by {grown:?}");
    // It is said that there are too many of them, and of each nothing.
    let lines = operator.logged_of_clients();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines.iter().all(|line| line.contains("too many connections")), "{lines:?}");
}

/// An operator that has answered before, and a limit of open files that lets us be many.
async fn ready(name: &str) -> Operator {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let operator = Operator::start(name).await;
    for _ in 0..20 {
        operator.answers().await;
    }
    operator
}
