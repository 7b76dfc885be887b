//! Proves that a client in Python works with a server of Spark Connect, through whatever happens to the server.

use super::{
    install,
    native::{image, spark_version},
    sparkctl::{ended, sparkctl, spawn},
    until,
};
use crate::{
    apiserver::{
        calls,
        kubectl::{kubectl, kubectl_with},
    },
    golden::yaml,
};
use serde_json::{Value, json};
use std::{env, path::Path, process::Command};

const CONNECT: &str = "/apis/sparkoperator.k8s.io/v1alpha1/namespaces/default/sparkconnects/notebook";
const LABEL: &str = "--selector=sparkoperator.k8s.io/connect-name=notebook";

/// One story, because each server and each executor is a JVM.
#[test]
#[ignore = "needs a node: make test"]
fn a_client_works_with_a_server_that_is_killed_suspended_resumed_and_deleted() {
    let _shared = install();
    let mut connect: Value = yaml(Path::new("manifests/examples/spark-connect.yaml"));
    connect["metadata"]["name"] = json!("notebook");
    connect["spec"]["image"] = json!(image());
    connect["spec"]["sparkVersion"] = json!(spark_version());
    connect["spec"]["executor"]["instances"] = json!(1);
    kubectl_with(&connect, &["apply", "-f", "-"]);
    let (mut opened, address) = spawn(&["connect", "open", "notebook", "--port", "0"]);
    assert!(address.starts_with("sc://localhost:"), "{address} {:?}", ended(&mut opened));
    is_ready_after(0);
    assert_eq!(client(&address), "rows: 100 14\nexecutors: notebook-exec-1\nerror: True\n");

    let row = sparkctl(&["connect", "list", "--output", "wide"], 0);
    let row = row.lines().find(|row| row.starts_with("notebook ")).expect(&row);
    assert!(row.contains("Ready") && row.contains("sc://notebook-server.default.svc:15002"), "{row}");
    assert!(sparkctl(&["connect", "log", "notebook"], 0).contains("SparkConnectServer"));
    assert!(sparkctl(&["connect", "log", "notebook", "--executor", "all"], 0).starts_with("[1] "));

    // The same port of this machine leads to the next server.
    kubectl(&["delete", "pod", "notebook-server", "--grace-period=1"]);
    is_ready_after(1);
    assert!(client(&address).starts_with("rows: 100 14\n"));
    let status = sparkctl(&["connect", "status", "notebook"], 0);
    assert!(
        status.starts_with("notebook is Ready\n") && status.contains(" SparkConnectRestarted "),
        "{status}"
    );

    sparkctl(&["connect", "suspend", "notebook"], 0);
    let (code, said) = ended(&mut opened);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.ends_with("the server of notebook has ended\n"), "{said}");
    until("executors go with their server", || kubectl(&["get", "pods", LABEL, "--output=name"]).is_empty());
    assert!(sparkctl(&["connect", "status", "notebook"], 0).starts_with("notebook is Suspended: "));
    sparkctl(&["connect", "open", "notebook"], 1);

    sparkctl(&["connect", "resume", "notebook"], 0);
    until("a server is made", || !kubectl(&["get", "pods", LABEL, "--output=name"]).is_empty());
    sparkctl(&["connect", "delete", "notebook", "--wait"], 0);
    let kinds = "pods,services,endpointslices,configmaps,networkpolicies";
    until("nothing is left", || kubectl(&["get", kinds, LABEL, "--output=name"]).is_empty());
}

/// Waits until the server is ready, after so many that have ended by themselves.
fn is_ready_after(restarts: i64) {
    until(&format!("notebook is ready after {restarts} that have ended"), || {
        let status = &calls::get(CONNECT).expect("notebook")["status"];
        status["state"] == "Ready" && status["restarts"].as_i64().unwrap_or_default() == restarts
    });
}

/// Returns what the client prints.
fn client(address: &str) -> String {
    let packages = env::var("CONNECT_CLIENT").expect("`make test-node` sets CONNECT_CLIENT");
    let output = Command::new("timeout")
        .args(["180", "python3", "tests/data/node/connect/client.py", address])
        .env("PYTHONPATH", packages)
        .env_remove("SPARK_HOME")
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}\n{}", kubectl(&["logs", "notebook-server", "--tail=60"]));
    String::from_utf8(output.stdout).unwrap()
}
