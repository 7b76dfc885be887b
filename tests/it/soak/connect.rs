//! Tests a server behind the gateway from takeover to drained node, and measures the gateway between a real client and
//! a real server: what it costs compared with a direct connection.

use crate::{
    apiserver::prelude::*,
    node::{
        connect::{
            self, address, edits, is_deleted, is_ready_after, leads_to_the_gateway, notebook, python,
            runs_with, sleeps, status, with_gateway,
        },
        install_alone, until,
    },
};
use std::net::TcpStream;

/// The number of rows. With eight bytes each, they are 104 MB of Arrow data.
const ROWS: &str = "13000000";
const IDLE: u32 = 500;
/// Maximum memory that an idle connection takes in the gateway, in KiB. A buffer for each direction would be 128.
const KIB: f64 = 64.0;

/// The amount, time and CPU time of a transfer, as the client measures them.
#[derive(Default)]
struct Transfer {
    bytes: f64,
    seconds: f64,
    /// The client's CPU time in seconds.
    cpu: f64,
}

#[test]
#[ignore = "takes minutes: make soak"]
fn a_server_continues_sleeps_wakes_and_is_drained() {
    connect::a_server_of_kubeflows_operator_continues_sleeps_wakes_and_is_drained();
    println!("soak: a server of Kubeflow's operator went on, slept, woke and left a drained node");
}

#[test]
#[ignore = "takes minutes: make soak"]
fn the_gateway_costs_little_compared_with_the_transferred_data() {
    let _alone = install_alone();
    // This commit's released program, which `make soak` has loaded under this name: the operator beside it is a debug build.
    let _gateway = with_gateway(json!({
        "image": "localhost/spark-operator:previous",
        "args": ["connect-gateway", "--report-period=1s", &format!("--most-connections-per-server={}", 2 * IDLE)],
    }));
    runs_with(&["--connect-gateway"]);
    let mut connect = notebook();
    connect["spec"]["sleepAfterIdleSeconds"] = json!(3600);
    connect["spec"]["server"]["memory"] = json!("1g");
    kubectl_with(&connect, &["apply", "-f", "-"]);
    leads_to_the_gateway();
    // The first transfer waits for the server, and for what its JVM compiles.
    fetched(&address());
    is_ready_after(0);
    let direct = format!("sc://{}:15002", status()["server"]["podIp"].as_str().unwrap());

    let (mut without, mut through, mut of_gateway, mut passed) =
        (Transfer::default(), Transfer::default(), 0.0, 0.0);
    for _ in 0..3 {
        without.add(fetched(&direct));
        let before = [metric(CPU), metric(BYTES)];
        through.add(fetched(&address()));
        of_gateway += metric(CPU) - before[0];
        passed += metric(BYTES) - before[1];
    }
    assert!(through.bytes > 3e8 && passed > through.bytes, "{passed} of {}", through.bytes);
    println!(
        "soak: connect: {:.0} MB of Arrow rows through the gateway, {:.2} times as fast as without it; the gateway took {:.2} s \
         of CPU for a GB, {:.2} times what the client took",
        through.bytes / 1e6,
        without.seconds / through.seconds,
        of_gateway / passed * 1e9,
        of_gateway / through.cpu,
    );

    let before = metric(MEMORY);
    let place = address().replace("sc://", "");
    let idle: Vec<_> = (0..IDLE).map(|_| TcpStream::connect(&place).unwrap()).collect();
    until("the connections are open", || metric(OPEN) >= f64::from(IDLE));
    let each = (metric(MEMORY) - before) / f64::from(IDLE) / 1024.0;
    drop(idle);
    println!("soak: connect: {IDLE} idle connections take {each:.1} KiB each of the gateway");
    assert!(each < KIB, "{each}");

    let awake = first_row();
    edits(&json!({"sleepAfterIdleSeconds": 60}));
    sleeps();
    let asleep = first_row();
    println!(
        "soak: connect: the first row comes after {awake:.1} s from a server that is awake, after {asleep:.1} s from one that sleeps"
    );
    is_deleted();
}

#[test]
#[ignore = "takes minutes: make soak"]
fn dynamic_allocation_creates_executors_for_a_job_and_removes_idle_ones() {
    let _alone = install_alone();
    let mut connect = notebook();
    let spec = &mut connect["spec"];
    spec["dynamicAllocation"] =
        json!({"enabled": true, "initialExecutors": 0, "minExecutors": 0, "maxExecutors": 2});
    // Longer than the second executor takes to start, so that both exist at the end of the job.
    spec["sparkConf"]["spark.dynamicAllocation.executorIdleTimeout"] = json!("30s");
    spec["executor"].as_object_mut().unwrap().remove("instances");
    kubectl_with(&connect, &["apply", "-f", "-"]);
    is_ready_after(0);
    assert_eq!(status()["executors"], Value::Null);
    assert_eq!(python("hosts.py", &[&address()]), "executors: notebook-exec-1 notebook-exec-2\n");
    until("the status has two executors", || status()["executors"] == json!({"running": 2}));
    until("the executors are gone", || status()["executors"].is_null());
    is_ready_after(0);
    println!("soak: connect: two executors came with a job, and went when they were idle");
    is_deleted();
}

impl Transfer {
    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.seconds += other.seconds;
        self.cpu += other.cpu;
    }
}

/// Returns the seconds until a client has its first row.
fn first_row() -> f64 {
    python("rows.py", &[&address(), "0"]).trim().parse().unwrap()
}

/// Fetches [`ROWS`].
fn fetched(address: &str) -> Transfer {
    let told = python("rows.py", &[address, ROWS]);
    let numbers: Vec<f64> = told.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [_, bytes, seconds, cpu] = numbers[..] else { panic!("{told}") };
    Transfer { bytes, seconds, cpu }
}

const CPU: &str = "process_cpu_seconds_total ";
const MEMORY: &str = "process_resident_memory_bytes ";
const OPEN: &str = "spark_operator_connect_gateway_connections ";
const BYTES: &str = "spark_operator_connect_gateway_bytes_total{to=\"client\"} ";

/// Returns the present value of a metric of the gateway.
fn metric(name: &str) -> f64 {
    let selector = "--selector=app.kubernetes.io/name=spark-operator-connect-gateway";
    let running = "--field-selector=status.phase=Running";
    let path = "--output=jsonpath={.items[0].metadata.name}";
    let pod = kubectl(&["-n", "spark-operator", "get", "pods", selector, running, path]);
    let text = calls::text_at(&format!("/api/v1/namespaces/spark-operator/pods/{pod}:8081/proxy/metrics"));
    let value = text.lines().find_map(|line| line.strip_prefix(name)).expect(name);
    value.parse().unwrap()
}
