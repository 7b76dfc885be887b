//! Kubernetes' own gangs, placed by its own scheduler: no driver starts without room for its executors.

use crate::{
    apiserver::{gangs::group_scheduler::has_ended, prelude::*},
    node::{Alone, Installed, install_alone, until},
};
use std::ops::RangeInclusive;

const APPLICATIONS: usize = 20;
const EXECUTORS: usize = 4;
/// The number of gangs for which the node has room.
pub(crate) const GANGS: usize = 3;
/// A resource of which each pod takes one. It alone limits the number of pods on the node.
const SLOT: &str = "example.com/slot";
const RBAC: [&str; 2] = ["manifests/rbac/batch-scheduler.yaml", "manifests/rbac/kubernetes-gangs.yaml"];
/// Maximum time for which a gang may be half placed.
const SOON: Duration = Duration::from_secs(10);
/// Maximum time for the twenty applications. The start of each Spark process takes several seconds of a core.
const PATIENCE: Duration = Duration::from_secs(1800);

#[test]
#[ignore = "needs a node of Kubernetes 1.36 or later: make soak"]
fn twenty_gangs_on_a_node_with_room_for_three_end_one_after_the_other() {
    let _cluster = with_room();
    let slots = (EXECUTORS + 1) * GANGS;

    // Without gangs: drivers take all the room, and none of them gets an executor.
    apply(1..=APPLICATIONS, None);
    until("drivers have taken all the room", || {
        pods().values().map(|app| app.drivers).sum::<usize>() == slots
    });
    thread::sleep(Duration::from_secs(60));
    let stuck = pods();
    assert_eq!(stuck.values().map(|app| app.executors).sum::<usize>(), 0, "{stuck:?}");
    assert_eq!(completed(), 0);
    println!("soak: without gangs {slots} drivers hold {slots} slots, and no executor runs after a minute");
    kubectl(&["delete", "sparkapplications", "--all"]);
    until("all pods are gone", || pods().is_empty());

    let begun = Instant::now();
    apply(1..=APPLICATIONS, Some("kubernetes"));
    let mut most = 0;
    let mut half_placed = BTreeMap::new();
    // Executors for which there was no room although a placeholder had held it.
    let mut refused = BTreeSet::new();
    while completed() < APPLICATIONS {
        assert!(
            begun.elapsed() < PATIENCE,
            "{}",
            kubectl(&["get", "sparkapplications,pods", "--output=wide"])
        );
        let now = pods();
        let running = now.values().filter(|app| app.drivers > 0);
        // The scheduler places the pods of a gang one after the other.
        half_placed.retain(|name, _| now.get(name).is_some_and(Placed::is_half));
        for (name, _) in now.iter().filter(|(_, app)| app.is_half()) {
            let since = half_placed.entry(name.clone()).or_insert_with(Instant::now);
            assert!(since.elapsed() < SOON, "{name} is half placed: {now:?}");
        }
        refused.extend(now.values().flat_map(|app| app.refused.iter().cloned()));
        most = most.max(running.count());
        thread::sleep(Duration::from_secs(1));
    }
    println!(
        "soak: {APPLICATIONS} applications of a driver and {EXECUTORS} executors ended in {} s on a node with room for {GANGS}, at most \
         {most} drivers at a time",
        begun.elapsed().as_secs(),
    );
    assert_eq!(refused, BTreeSet::new(), "a placeholder had held their room");
    let warnings = kubectl(&["events", "--types=Warning", "--no-headers"]);
    assert!(!warnings.contains("SparkExecutorTooLarge"), "placeholders as large as executors: {warnings}");
    // The cluster keeps a group until none of its pods is left.
    until("the groups are gone", || {
        kubectl(&["get", "podgroups.scheduling.k8s.io,workloads.scheduling.k8s.io", "--output=name"])
            .is_empty()
    });
    kubectl(&["delete", "sparkapplications", "--all"]);

    kubectl(&["apply", "-f", "manifests/examples/spark-pi-gang.yaml"]);
    until_it_has_ended_in_its_room();
    kubectl(&["delete", "sparkapplications", "--all"]);
}

/// Installs the operator with gangs, in a cluster whose node has room for [`GANGS`] of them.
pub(crate) fn with_room() -> (Installed, Alone) {
    let alone = install_alone();
    for rbac in RBAC {
        kubectl(&["apply", "-f", rbac]);
    }
    let installed = Installed::with(&["--enable-batch-scheduler", "--enable-kubernetes-gangs"]);
    let slots = ((EXECUTORS + 1) * GANGS).to_string();
    let node = kubectl(&["get", "nodes", "--output=name"]);
    let status = json!({"status": {"capacity": {SLOT: slots}, "allocatable": {SLOT: slots}}});
    kubectl(&["patch", node.trim(), "--subresource=status", "--type=merge", "--patch", &status.to_string()]);
    (installed, alone)
}

/// The pods of an application on the node.
#[derive(Debug, Default)]
struct Placed {
    drivers: usize,
    executors: usize,
    /// Placeholders that are not placed yet.
    unplaced: usize,
    /// Executors without a gate for which the scheduler has found no room.
    refused: Vec<String>,
}

impl Placed {
    /// Whether the driver is placed and a part of its gang is not.
    const fn is_half(&self) -> bool {
        self.drivers > 0 && self.unplaced > 0
    }
}

/// Returns the pods that have not ended, by application.
fn pods() -> BTreeMap<String, Placed> {
    let list: Value = serde_json::from_str(&kubectl(&["get", "pods", "--output=json"])).unwrap();
    let mut placed = BTreeMap::<_, Placed>::new();
    for pod in list["items"].as_array().unwrap() {
        let labels = &pod["metadata"]["labels"];
        let Some(name) = labels["sparkoperator.k8s.io/app-name"].as_str() else { continue };
        if has_ended(pod) {
            continue;
        }
        let of_app = placed.entry(name.to_owned()).or_default();
        match (labels["spark-role"].as_str(), pod["spec"]["nodeName"].is_string()) {
            (Some("driver"), true) => of_app.drivers += 1,
            (Some("executor"), true) => of_app.executors += 1,
            (Some("executor"), false) => {
                let conditions = pod["status"]["conditions"].as_array();
                let is_refused = |condition: &Value| condition["reason"] == "Unschedulable";
                if conditions.is_some_and(|all| all.iter().any(is_refused)) {
                    of_app.refused.push(pod["metadata"]["name"].as_str().unwrap().to_owned());
                }
            }
            (Some("placeholder"), false) => of_app.unplaced += 1,
            _ => {}
        }
    }
    placed
}

/// Returns the number of applications that have completed.
pub(crate) fn completed() -> usize {
    let states =
        kubectl(&["get", "sparkapplications", "--output=jsonpath={.items[*].status.applicationState.state}"]);
    states.split_whitespace().filter(|state| *state == "COMPLETED").count()
}

/// Applies the applications with these numbers at once.
pub(crate) fn apply(numbers: RangeInclusive<usize>, batch_scheduler: Option<&str>) {
    let applications = numbers.map(|number| application(&format!("gang-{number}"), batch_scheduler));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": applications.collect::<Vec<_>>()});
    kubectl_with(&list, &["apply", "-f", "-"]);
}

/// Returns SparkPi with [`EXECUTORS`], each of whose pods takes a [`SLOT`].
fn application(name: &str, batch_scheduler: Option<&str>) -> Value {
    let mut pi: Value = yaml(&data("../../manifests/examples/spark-pi.yaml"));
    pi["metadata"]["name"] = json!(name);
    let spec = &mut pi["spec"];
    spec["arguments"] = json!(["4"]);
    spec["batchScheduler"] = json!(batch_scheduler);
    spec["executor"]["instances"] = json!(EXECUTORS);
    for role in ["driver", "executor"] {
        let pod = &mut spec[role];
        pod["coreRequest"] = json!("20m");
        pod["gpu"] = json!({"name": SLOT, "quantity": 1});
    }
    pi
}

/// Waits until the only application in the cluster has completed. None of its executors may lack room meanwhile: their
/// placeholders have held it, and nothing else is on the node.
fn until_it_has_ended_in_its_room() {
    until("the application has completed", || {
        let refused: Vec<_> = pods().into_values().flat_map(|app| app.refused).collect();
        assert_eq!(refused, Vec::<String>::new(), "a placeholder had held their room");
        completed() == 1
    });
}
