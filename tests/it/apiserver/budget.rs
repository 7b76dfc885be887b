//! Counts what the lives of a hundred natively submitted applications cost: requests, writes, events and bytes for
//! each application, and the operator's memory. The numbers are compared with `tests/data/budget.json`.

use super::load::call;
use crate::{
    apiserver::prelude::*,
    budget::{Measured, TOLERANCE, keep},
};
use api::{Lenient, State};
use futures::{TryStreamExt, future::join};
use kube::runtime::{WatchStreamExt, watcher};
use std::sync::mpsc::{self, RecvTimeoutError};

const APPLICATIONS: usize = 100;
/// The number of drivers that have been on a node without a container for longer than 15 s, so that the operator looks up
/// what they wait for. There once was a request for each such driver.
const WAITING: usize = 20;
/// How long these drivers still wait. The operator looks as soon as it sees them.
const WAIT: Duration = Duration::from_secs(3);
/// The time limit for all applications together. No machine needs so long.
const PATIENCE: Duration = Duration::from_secs(400);

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn the_life_of_an_application_costs_no_more_than_it_did() {
    let namespace = Namespace::new("budget").await;
    let client = Client::try_default().await.unwrap();
    let proxy = Proxy::start().await;
    let calls = Arc::new(Mutex::new(BTreeMap::<String, usize>::new()));
    let counted = Arc::clone(&calls);
    proxy.guarded_by(Box::new(move |request| {
        *counted.lock().unwrap().entry(call(request).0).or_default() += 1;
        Vec::new()
    }));
    let operator = Operator::with(&namespace).through(&proxy).start().await;
    let memory = Memory::of(operator.id());
    calls.lock().unwrap().clear();
    let (sent, received) = proxy.bytes();
    let cluster = Cluster { client, namespace: namespace.name };

    let submitted = stream::iter(0..APPLICATIONS).for_each_concurrent(8, |i| cluster.submit(i));
    let ended = timeout(PATIENCE, join(cluster.run(), submitted)).await;
    ended.expect("all applications are COMPLETED");
    operator.has_looked_at(APPLICATIONS).await;

    let each = |count: f64| count / APPLICATIONS as f64;
    let calls = std::mem::take(&mut *calls.lock().unwrap());
    let writes = calls
        .iter()
        .filter(|(call, _)| ["POST", "PUT", "PATCH", "DELETE"].iter().any(|verb| call.starts_with(verb)));
    let writes: usize = writes.map(|(_, count)| count).sum();
    let (sent_now, received_now) = proxy.bytes();
    let mut measured: Measured =
        calls.iter().map(|(call, count)| (call.clone(), each(*count as f64))).collect();
    measured.insert("writes".to_owned(), each(writes as f64));
    measured.insert("bytes sent".to_owned(), each((sent_now - sent) as f64));
    measured.insert("bytes received".to_owned(), each((received_now - received) as f64));
    measured.insert(MEMORY.to_owned(), memory.peak());
    cluster.delete().await;
    operator.stop().await;
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

/// The API server, and the kubelet that the test plays.
#[derive(Clone)]
struct Cluster {
    client: Client,
    namespace: &'static str,
}

impl Cluster {
    async fn submit(&self, i: usize) {
        let mut application = application(&format!("app-{i}"));
        application["spec"]["restartPolicy"] = json!({"type": "Never"});
        let application = serde_json::from_value(application).unwrap();
        self.applications().create(&PostParams::default(), &application).await.unwrap();
    }

    /// Runs each driver: its container starts once the application is SUBMITTED, and ends once the application is
    /// RUNNING, so that the operator sees every state of every application. Returns when all are COMPLETED.
    async fn run(&self) {
        let applications = Api::<Lenient<SparkApplication>>::namespaced(self.client.clone(), self.namespace);
        let changes = watcher(applications, watcher::Config::default()).default_backoff().applied_objects();
        let (mut changes, mut begun, mut completed) = (pin!(changes), BTreeSet::new(), BTreeSet::new());
        while completed.len() < APPLICATIONS {
            let application = changes.try_next().await.unwrap().expect("a watch goes on for ever");
            let (name, state) = (application.name_any(), application.0.unwrap().state());
            match state {
                State::Submitted if begun.insert((name.clone(), state)) => {
                    let this = self.clone();
                    tokio::spawn(async move { this.start(&name).await });
                }
                State::Running if begun.insert((name.clone(), state)) => {
                    self.driver_is(&name, |spec| kubelet::ended(spec, 0)).await;
                }
                State::Completed => {
                    completed.insert(name);
                }
                _ => {}
            }
        }
    }

    async fn start(&self, name: &str) {
        if name.trim_start_matches("app-").parse::<usize>().unwrap() < WAITING {
            let drivers = Api::<Pod>::namespaced(self.client.clone(), self.namespace);
            let driver = format!("{name}-driver");
            let to = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": driver}, "target": {"kind": "Node", "name": "node"},
            });
            drivers
                .create_subresource::<Value, Value>("binding", &driver, &PostParams::default(), &to)
                .await
                .unwrap();
            let long_ago = json!([{
                "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]);
            let patch = Patch::Merge(json!({"status": {"conditions": long_ago}}));
            drivers.patch_status(&driver, &PatchParams::default(), &patch).await.unwrap();
            sleep(WAIT).await;
        }
        self.driver_is(name, kubelet::running).await;
    }

    async fn driver_is(&self, application: &str, status: impl Fn(&Value) -> Value) {
        let drivers = Api::<Pod>::namespaced(self.client.clone(), self.namespace);
        let name = format!("{application}-driver");
        let spec = json!(drivers.get(&name).await.unwrap().spec);
        let patch = Patch::Merge(json!({"status": status(&spec)}));
        drivers.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn delete(&self) {
        let all = ListParams::default();
        self.applications().delete_collection(&DeleteParams::default(), &all).await.unwrap();
        let pods = Api::<Pod>::namespaced(self.client.clone(), self.namespace);
        pods.delete_collection(&DeleteParams::default().grace_period(0), &all).await.unwrap();
    }

    fn applications(&self) -> Api<SparkApplication> {
        Api::namespaced(self.client.clone(), self.namespace)
    }
}

/// Samples the anonymous memory of a process, which is its heap and its stacks. The rest of its resident memory is
/// pages of the executable, and how many of them the kernel maps differs from run to run.
struct Memory {
    ended: mpsc::Sender<()>,
    samples: thread::JoinHandle<f64>,
}

impl Memory {
    fn of(process: u32) -> Self {
        let (ended, is_ended) = mpsc::channel();
        let samples = thread::spawn(move || {
            let mut peak = 0.0_f64;
            while is_ended.recv_timeout(Duration::from_millis(50)) == Err(RecvTimeoutError::Timeout) {
                peak = peak.max(anonymous_memory(process));
            }
            peak
        });
        Self { ended, samples }
    }

    /// Returns the largest sample, in MiB.
    fn peak(self) -> f64 {
        drop(self.ended);
        self.samples.join().unwrap()
    }
}

fn anonymous_memory(process: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    memory.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
}
