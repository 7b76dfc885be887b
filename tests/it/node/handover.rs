//! Proves that the commands of the admin documentation move a cluster from Kubeflow's operator to this one, move it
//! back, and uninstall this one.

use super::{Installed, application, apply, install_alone, is_installed_again, native::python_job, state_is};
use crate::apiserver::{
    helm::{STAND_IN, helm},
    prelude::*,
    route::{SERVICE, delete_service},
};

const UPGRADE: &str = "docs/admin/upgrade-from-kubeflow.md";
const CONFIGURATIONS: [&str; 2] = ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"];

#[test]
#[ignore = "needs a node: make test"]
fn the_documented_commands_take_over_roll_back_and_uninstall_alone() {
    let _alone = install_alone();
    let _installed = Installed;
    let _service = kubeflows_objects();
    let mut job = python_job("handed-over", "native-job", "tests/data/node/native/job.py");
    // The job's output is not checked, so that the driver only sleeps.
    let asleep = json!({"name": "spark-kubernetes-driver", "command": ["sh", "-c", "sleep infinity", "sh"]});
    job["spec"]["driver"]["template"] = json!({"spec": {"containers": [asleep]}});
    job["spec"]["driver"]["terminationGracePeriodSeconds"] = json!(1);
    let kubeflows = || ["controller", "webhook"].map(|what| replicas(&format!("spark-operator-{what}")));

    run_documented(UPGRADE, "Taking over from Kubeflow's operator");
    assert_eq!(kubeflows(), ["0", "0"]);
    is_installed_again();
    for kind in CONFIGURATIONS {
        let names = "--output=jsonpath={.webhooks[*].name}";
        let webhooks = kubectl(&["get", kind, "spark-operator-webhook", names]);
        assert!(webhooks.split(' ').all(|name| name.ends_with(".sparkoperator.k8s.io")), "{webhooks}");
    }
    let selector = webhook_service(&["--output=jsonpath={.spec.selector}"]);
    assert_eq!(selector, r#"{"app.kubernetes.io/name":"spark-operator"}"#);
    apply(&job);
    state_is("handed-over", "RUNNING");

    run_documented(UPGRADE, "Rolling back to it");
    assert_eq!((kubeflows(), replicas("spark-operator")), (["1".to_owned(), "1".to_owned()], String::new()));
    for kind in CONFIGURATIONS {
        assert_eq!(kubectl(&["get", kind, "--output=name"]), "");
    }
    // Kubeflow's chart can create its own Service again.
    assert_eq!(webhook_service(&["--ignore-not-found", "--output=name"]), "");
    assert_eq!(application("handed-over")["status"]["applicationState"]["state"], "RUNNING");

    run_documented("docs/admin/install.md", "Uninstalling");
    let left = kubectl(&["get", "clusterroles,crds,namespaces", "--output=name"]);
    assert!(!left.contains("spark"), "{left}");
}

/// Uninstalls the operator as documented, and deletes the account of drivers, which that keeps: Helm adopts no object
/// that it has not created.
pub(crate) fn uninstall() {
    run_documented("docs/admin/install.md", "Uninstalling");
    let account = ["delete", "serviceaccount", "spark-operator-spark", "--namespace=default"];
    kubectl(&[&account[..], &["--ignore-not-found"]].concat());
}

/// Runs the commands that `page` contains under `heading`, in the checkout, with the programs of this build.
fn run_documented(page: &str, heading: &str) {
    let page = fs::read_to_string(page).unwrap();
    let section = page.split_once(&format!("## {heading}\n")).unwrap().1.split("\n## ").next().unwrap();
    let commands: Vec<_> = section.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    assert!(!commands.is_empty(), "{heading}");
    let programs = Path::new(env!("CARGO_BIN_EXE_spark-operator")).parent().unwrap().display();
    for command in commands {
        let line = format!("set -o pipefail; PATH={programs}:$PATH; {command}");
        let said = program::said(program::run("bash", &["-c", &line], ""));
        said.unwrap_or_else(|complaint| panic!("{command}: {complaint}"));
    }
}

/// Returns the desired number of replicas; empty if there is no such Deployment.
fn replicas(deployment: &str) -> String {
    let spec = "--output=jsonpath={.spec.replicas}";
    kubectl(&["-n", "spark-operator", "get", "deployment", deployment, "--ignore-not-found", spec])
}

/// Creates the Deployments of Kubeflow's chart, and its Service in place of the existing one. That Service lacks the
/// annotation of `kubectl apply`, so that `kubectl apply -k manifests` cannot turn it into ours: it is deleted when the
/// returned value is dropped.
fn kubeflows_objects() -> Finally {
    delete_service();
    let chart = helm(&["template", "spark-operator", STAND_IN]);
    let objects: Vec<Value> = serde_saphyr::from_multiple(&chart).unwrap();
    let kinds = [json!("Deployment"), json!("Service")];
    objects.iter().filter(|object| kinds.contains(&object["kind"])).for_each(apply);
    Finally::new(delete_service)
}

/// Returns what `kubectl get` prints of the webhook's Service.
fn webhook_service(arguments: &[&str]) -> String {
    kubectl(&[&["--namespace=spark-operator", "get", "service", SERVICE], arguments].concat())
}
