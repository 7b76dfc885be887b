//! Measures what a hundred natively submitted applications cost from creation to completion: requests, writes, events
//! and bytes for each application, and the operator's memory. The numbers are compared with `tests/data/budget.json`.

use super::{gangs::group_scheduler::bind, load::call};
use crate::{
    apiserver::prelude::*,
    budget::{Measured, TOLERANCE, keep},
};
use futures::{TryStreamExt, future::join, stream::FuturesUnordered};
use kube::runtime::{WatchStreamExt, watcher};
use procfs::process::Process;
use std::{cell::Cell, convert::Infallible};

const APPLICATIONS: usize = 100;
/// The number of drivers that were scheduled more than 15 s ago and have no container yet, so that the operator looks
/// up the events that say why. An earlier version sent a request for each such driver.
const WAITING: usize = 20;
/// How long these drivers stay without a container. The operator looks up the events as soon as it sees the drivers.
const WAIT: Duration = Duration::from_secs(3);
/// The time limit for all applications together. No machine needs so long.
const PATIENCE: Duration = Duration::from_secs(250);
/// The number of bytes that a request and its answer have at least.
const LEAST: usize = 512;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_application_costs_no_more_than_its_budget() {
    let namespace = Namespace::new("budget").await;
    let proxy = Proxy::start().await;
    let operator = Operator::with(&namespace).through(&proxy).start().await;
    let peak = Cell::new(0);
    let begun = proxy.requests().len();
    let (sent, received) = proxy.bytes();

    let submitted = stream::iter(0..APPLICATIONS).for_each_concurrent(8, |i| submit(&namespace, i));
    let whole = async {
        timeout(PATIENCE, join(run(&namespace), submitted)).await.expect("all applications are COMPLETED");
        operator.has_looked_at(APPLICATIONS).await;
    };
    tokio::select! {
        () = whole => {}
        never = measure(operator.id(), &peak) => match never {},
    }

    // What is sent last has been answered by then.
    sleep(A_WHILE).await;
    operator.stop().await;
    let each = |count: usize| count as f64 / APPLICATIONS as f64;
    let requests = proxy.requests().split_off(begun);
    let (sent_now, received_now) = proxy.bytes();
    let mut calls = BTreeMap::<_, usize>::new();
    for (method, uri) in &requests {
        *calls.entry(call(method, uri).0).or_default() += 1;
    }
    let writes = requests.iter().filter(|(method, _)| *method != Method::GET);
    calls.insert("writes".to_owned(), writes.count());
    // While the API server stands still, the operator gives up requests. It repeats each, and sends an event that says so.
    let extra = 2 * proxy.given_up();
    let calls = calls.into_iter().map(|(name, count)| (name, each(count.saturating_sub(extra))));
    let mut measured = calls.collect::<Measured>();
    measured.insert("bytes sent".to_owned(), each(sent_now - sent - extra * LEAST));
    measured.insert("bytes received".to_owned(), each(received_now - received - extra * LEAST));
    measured.insert(MEMORY.to_owned(), peak.get() as f64 / 1024.0);
    keep(&data("budget.json"), "life of an application", &measured, tolerance);
}

const MEMORY: &str = "peak memory of the operator, MiB";

fn tolerance(name: &str) -> f64 {
    match name {
        // The allocator's threads and the timing of a burst also influence the peak.
        MEMORY => 0.25,
        // The operator may write two changes in quick succession by one request.
        _ => 2.0 * TOLERANCE,
    }
}

async fn submit(namespace: &Namespace, i: usize) {
    let mut application = application(&format!("app-{i}"));
    application["spec"]["restartPolicy"] = json!({"type": "Never"});
    namespace.create::<SparkApplication>(&application).await;
}

/// Runs each driver: its container starts once the application is SUBMITTED, and ends once the application is
/// RUNNING, so that the operator sees every state of every application. Returns when all are COMPLETED.
async fn run(namespace: &Namespace) {
    let applications = namespace.api::<SparkApplication>();
    let changes = watcher(applications, watcher::Config::default()).default_backoff().applied_objects();
    let (mut changes, mut starts) = (pin!(changes), FuturesUnordered::new());
    let (mut begun, mut completed) = (BTreeSet::new(), BTreeSet::new());
    while completed.len() < APPLICATIONS {
        let application = tokio::select! {
            change = changes.try_next() => change.unwrap().expect("a watch never ends"),
            Some(()) = starts.next() => continue,
        };
        let name = application.name_any();
        match application.data["status"]["applicationState"]["state"].as_str() {
            Some("SUBMITTED") if begun.insert((name.clone(), "SUBMITTED")) => {
                starts.push(start(namespace, name));
            }
            Some("RUNNING") if begun.insert((name.clone(), "RUNNING")) => {
                kubelet::ends(namespace, &format!("{name}-driver"), 0).await;
            }
            Some("COMPLETED") => {
                completed.insert(name);
            }
            _ => {}
        }
    }
}

async fn start(namespace: &Namespace, name: String) {
    let driver = format!("{name}-driver");
    if name.trim_start_matches("app-").parse::<usize>().unwrap() < WAITING {
        bind(namespace, &namespace.pod(&driver).await.unwrap(), "node").await;
        let long_ago =
            json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        kubelet::says(namespace, &driver, &json!({"conditions": long_ago})).await;
        sleep(WAIT).await;
    }
    kubelet::runs(namespace, &driver).await;
}

/// Samples the anonymous memory of a process, which is its heap and its stacks, and keeps the largest sample in `peak`, in
/// KiB. The rest of its resident memory is pages of the executable, and how many of them the kernel maps differs from run
/// to run.
async fn measure(process: u32, peak: &Cell<u64>) -> Infallible {
    let process = Process::new(i32::try_from(process).unwrap()).unwrap();
    loop {
        peak.set(peak.get().max(process.status().unwrap().rssanon.unwrap()));
        sleep(Duration::from_millis(50)).await;
    }
}
