//! Proves that a Python client works with a server of Spark Connect, whatever happens to the server, directly and
//! through the gateway.

use super::{
    DEPLOYMENT, Installed, install, install_alone, is_rolled_out,
    lifecycle::cordoned,
    make_job,
    native::{image, spark_version},
    sparkctl::{ended, sparkctl, spawn},
    until,
};
use crate::apiserver::prelude::*;

const CONNECT: &str = "/apis/sparkoperator.k8s.io/v1alpha1/namespaces/default/sparkconnects/notebook";
const SERVICE: &str = "/api/v1/namespaces/default/services/notebook-server";
const LABEL: &str = "--selector=sparkoperator.k8s.io/connect-name=notebook";
const PROGRAMS: &str = "tests/data/node/connect";
/// What `client.py` prints.
const RESULT: &str = "rows: 100 14\nexecutors: notebook-exec-1\nerror: True\n";

/// One test for all of it, because each server and each executor is a JVM.
#[test]
#[ignore = "needs a node: make test"]
fn a_client_works_with_a_server_that_is_killed_suspended_resumed_and_deleted() {
    let _shared = install();
    kubectl_with(&notebook(), &["apply", "-f", "-"]);
    let (mut opened, address) = spawn(&["connect", "open", "notebook", "--port", "0"]);
    assert!(address.starts_with("sc://localhost:"), "{address} {:?}", ended(&mut opened));
    is_ready_after(0);
    assert_eq!(client(&address), RESULT);
    // Also from a pod of the namespace without any rights, by the host that the documentation names.
    let (file, inside) = (format!("{PROGRAMS}/client.py"), ["sc://notebook-server:15002"]);
    assert_eq!(python_inside(&file, &inside, &[&packages()], "default"), RESULT);

    let row = sparkctl(&["connect", "list", "--output", "wide"], 0);
    let row = row.lines().find(|row| row.starts_with("notebook ")).expect(&row);
    assert!(row.contains("Ready") && row.contains("sc://notebook-server.default.svc:15002"), "{row}");
    assert!(sparkctl(&["connect", "log", "notebook"], 0).contains("SparkConnectServer"));
    assert!(sparkctl(&["connect", "log", "notebook", "--executor", "all"], 0).starts_with("[1] "));

    // The local port of `sparkctl connect open` leads to the next server as well.
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
    until("executors are deleted with their server", || {
        kubectl(&["get", "pods", LABEL, "--output=name"]).is_empty()
    });
    assert!(sparkctl(&["connect", "status", "notebook"], 0).starts_with("notebook is Suspended: "));
    sparkctl(&["connect", "open", "notebook"], 1);

    sparkctl(&["connect", "resume", "notebook"], 0);
    until("a server is created", || !kubectl(&["get", "pods", LABEL, "--output=name"]).is_empty());
    is_deleted();
}

/// Again one test for all of it, with three servers, the first created by Kubeflow's operator. It runs in
/// [`crate::soak`], since it takes minutes.
pub(crate) fn a_server_of_kubeflows_operator_continues_sleeps_wakes_and_is_drained() {
    let _alone = install_alone();
    let _gateway = with_gateway(json!({"args": ["connect-gateway", "--report-period=1s"]}));
    // The operator does not manage SparkConnects yet.
    runs_with(&["--enable-spark-connect=false"]);
    kubectl_with(&notebook(), &["apply", "-f", "-"]);
    for object in kubeflows(&calls::get(CONNECT).expect("notebook")) {
        kubectl_with(&object, &["create", "-f", "-"]);
    }
    kubectl(&["wait", "pod/notebook-server", "--for=condition=Ready", "--timeout=180s"]);
    let kubeflows = server();

    runs_with(&["--connect-gateway"]);
    is_ready_after(0);
    assert_eq!(client(&address()), RESULT);
    // The Service leads to the gateway from now on, and the server is not replaced.
    edits(&json!({"sleepAfterIdleSeconds": 3600}));
    leads_to_the_gateway();
    assert_eq!(client(&address()), RESULT);
    assert_eq!(server(), kubeflows);

    edits(&json!({"sleepAfterIdleSeconds": 60}));
    sleeps();
    until("executors are deleted with their server", || {
        kubectl(&["get", "pods", LABEL, "--output=name"]).is_empty()
    });
    // This client is held until there is a server again.
    assert_eq!(client(&address()), RESULT);
    assert_ne!(server(), kubeflows);

    edits(&json!({"sleepAfterIdleSeconds": 3600}));
    let drained = drained();
    until("the next server has no room", || waits_for("Unschedulable"));
    assert_eq!(
        (&status()["restarts"], &status()["lastFailure"]["reason"]),
        (&json!(1), &json!("ServerGone"))
    );
    let waiting = server();
    edits(&json!({"server": {"cores": 2}}));
    until("the edit replaces the pod that waits", || waits_for("Unschedulable") && server() != waiting);
    drop(drained);
    is_ready_after(0);
    assert_eq!(client(&address()), RESULT);
    is_deleted();
}

/// It runs in [`crate::soak`], since Spark has tokens only since 4.1.
pub(crate) fn a_server_with_a_token_serves_only_clients_that_send_it() {
    const TOKEN: &str = "0123456789abcdef";
    let _alone = install_alone();
    let metadata = json!({"name": "notebook", "namespace": "default"});
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"token": TOKEN}});
    kubectl_with(&secret, &["apply", "-f", "-"]);
    let mut connect = notebook();
    connect["spec"]["server"]["token"] = json!({"name": "notebook", "key": "token"});
    kubectl_with(&connect, &["apply", "-f", "-"]);
    let (_opened, address) = spawn(&["connect", "open", "notebook", "--port", "0"]);
    is_ready_after(0);
    for token in ["", "/;token=another"] {
        let output = try_python("client.py", &[&format!("{address}{token}")]);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && complaint.contains("UNAUTHENTICATED"), "{token}: {complaint}");
    }
    assert_eq!(client(&format!("{address}/;token={TOKEN}")), RESULT);
    is_deleted();
    kubectl(&["delete", "secret", "notebook"]);
}

/// Starts one replica of the gateway of the manifests, whose container has these fields instead of its own. When the
/// returned value is dropped, the gateway is deleted and the installation restored.
pub(crate) fn with_gateway(mut container: Value) -> (Finally, Installed) {
    const FILES: [&str; 3] = [
        "manifests/rbac/connect-gateway.yaml",
        "manifests/rbac/connect-ports.yaml",
        "manifests/deployment/connect-gateway.yaml",
    ];
    for file in FILES {
        kubectl(&["apply", "-f", file]);
    }
    container["name"] = json!("spark-operator");
    let spec =
        json!({"spec": {"replicas": 1, "template": {"spec": {"containers": [container]}}}}).to_string();
    let gateway = "deployment/spark-operator-connect-gateway";
    kubectl(&["-n", "spark-operator", "patch", gateway, "--patch", &spec]);
    kubectl(&["-n", "spark-operator", "rollout", "status", gateway, "--timeout=120s"]);
    let goes = || {
        for file in FILES {
            kubectl(&["delete", "--ignore-not-found", "-f", file]);
        }
    };
    (Finally::new(goes), Installed)
}

/// Restarts the operator with these flags and no others, until the value that [`with_gateway`] has returned is dropped.
pub(crate) fn runs_with(flags: &[&str]) {
    let flags = [&["run"], flags].concat();
    let place = "/spec/template/spec/containers/0/args";
    calls::patch(DEPLOYMENT, &json!([{"op": "replace", "path": place, "value": flags}]));
    is_rolled_out();
}

/// Drains the server and its executors from their node, which is cordoned until the returned value is dropped.
fn drained() -> Finally {
    let node = kubectl(&["get", "nodes", "--output=jsonpath={.items[0].metadata.name}"]);
    let selector = "--pod-selector=sparkoperator.k8s.io/connect-name=notebook";
    let cordoned = cordoned(&node);
    kubectl(&["drain", &node, selector, "--delete-emptydir-data", "--timeout=120s"]);
    cordoned
}

/// Returns the example with one executor, and with the image and version of the node's Spark.
pub(crate) fn notebook() -> Value {
    let mut connect: Value = yaml(Path::new("manifests/examples/spark-connect.yaml"));
    connect["metadata"]["name"] = json!("notebook");
    connect["spec"]["image"] = json!(image());
    connect["spec"]["sparkVersion"] = json!(spark_version());
    connect["spec"]["executor"]["instances"] = json!(1);
    connect
}

/// Returns the ConfigMap, the Service and the server's pod that Kubeflow's operator creates for `connect`, which is
/// [`notebook`].
fn kubeflows(connect: &Value) -> [Value; 3] {
    let spec = &connect["spec"];
    let mut text = fs::read_to_string(data("node/connect/kubeflows.yaml")).unwrap();
    for (place, value) in [
        ("{uid}", &connect["metadata"]["uid"]),
        ("{version}", &spec["sparkVersion"]),
        ("{image}", &spec["image"]),
        ("{account}", &spec["server"]["serviceAccount"]),
        ("{server memory}", &spec["server"]["memory"]),
        ("{executor memory}", &spec["executor"]["memory"]),
    ] {
        text = text.replace(place, value.as_str().expect("the example has it"));
    }
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let [mut config_map, service, mut pod]: [Value; 3] = objects.try_into().unwrap();
    config_map["data"] = json!({"executor-pod-template.yaml": spec["executor"]["template"].to_string()});
    let mut made = spec["server"]["template"]["spec"].clone();
    json_patch::merge(&mut made["containers"][0], &pod["spec"]["containers"][0]);
    pod["spec"]["containers"] = made["containers"].take();
    json_patch::merge(&mut made, &pod["spec"]);
    pod["spec"] = made;
    [config_map, service, pod]
}

/// Changes the spec of the SparkConnect.
pub(crate) fn edits(spec: &Value) {
    calls::merge(CONNECT, &json!({"spec": spec}));
}

pub(crate) fn status() -> Value {
    calls::get(CONNECT).expect("notebook")["status"].take()
}

/// Returns the uid of the server's pod; null if there is no pod.
fn server() -> Value {
    let pod = calls::get("/api/v1/namespaces/default/pods/notebook-server");
    pod.map_or(Value::Null, |mut pod| pod["metadata"]["uid"].take())
}

/// Returns the URL of the Service for clients that run outside of pods.
pub(crate) fn address() -> String {
    let service = calls::get(SERVICE).expect("notebook has a Service");
    format!("sc://{}:15002", service["spec"]["clusterIP"].as_str().unwrap())
}

/// Waits until the Service leads its clients to the gateway.
pub(crate) fn leads_to_the_gateway() {
    const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/notebook-server-gateway";
    until("the Service leads to the gateway", || {
        calls::get(SERVICE).is_some_and(|service| service["spec"]["selector"].is_null())
            && calls::get(SLICE).is_some()
    });
}

/// Whether the server's condition has this reason.
fn waits_for(reason: &str) -> bool {
    let status = status();
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "ServerPodReady" && condition["reason"] == reason)
}

/// Waits until the server sleeps.
pub(crate) fn sleeps() {
    until("the server sleeps", || waits_for("Sleeping"));
}

/// Deletes the SparkConnect, and waits until nothing of it is left.
pub(crate) fn is_deleted() {
    sparkctl(&["connect", "delete", "notebook", "--wait"], 0);
    let kinds = "pods,services,endpointslices,configmaps,networkpolicies";
    until("nothing is left", || kubectl(&["get", kinds, LABEL, "--output=name"]).is_empty());
}

/// Waits until the server is ready, after this number of servers that have failed or disappeared.
pub(crate) fn is_ready_after(restarts: i64) {
    until(&format!("notebook is ready after {restarts} restarts"), || {
        let status = status();
        status["state"] == "Ready" && status["restarts"].as_i64().unwrap_or_default() == restarts
    });
}

/// Returns what the client prints.
fn client(address: &str) -> String {
    python("client.py", &[address])
}

/// Returns what a program in [`PROGRAMS`] prints.
pub(crate) fn python(program: &str, arguments: &[&str]) -> String {
    let output = try_python(program, arguments);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}\n{}", kubectl(&["logs", "notebook-server", "--tail=60"]));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the exit status and the output of a program in [`PROGRAMS`].
pub(crate) fn try_python(program: &str, arguments: &[&str]) -> Output {
    Command::new("timeout")
        .args(["180", "python3", &format!("{PROGRAMS}/{program}")])
        .args(arguments)
        .env("PYTHONPATH", packages())
        .env_remove("SPARK_HOME")
        .output()
        .unwrap()
}

/// Returns the folder with the Python packages of a client.
pub(crate) fn packages() -> String {
    env::var("CONNECT_CLIENT").expect("the Makefile sets CONNECT_CLIENT")
}

/// Runs the Python program in `file` in a pod of the servers' namespace with the service account `account`, and returns
/// what it prints. The pod has Spark's own packages from its image, and those in `folders` of the machine.
pub(crate) fn python_inside(file: &str, arguments: &[&str], folders: &[&str], account: &str) -> String {
    const NAME: &str = "connect-client";
    make_job(NAME, file);
    let mut volumes = vec![json!({"name": "program", "configMap": {"name": NAME}})];
    let mut mounts = vec![json!({"name": "program", "mountPath": "/program"})];
    let mut packages = vec!["/opt/spark/python".to_owned()];
    for (place, folder) in folders.iter().enumerate() {
        let name = format!("packages-{place}");
        volumes.push(json!({"name": name, "hostPath": {"path": folder, "type": "Directory"}}));
        mounts.push(json!({"name": name, "mountPath": format!("/{name}"), "readOnly": true}));
        packages.push(format!("/{name}"));
    }
    let program = format!("/program/{}", Path::new(file).file_name().unwrap().to_str().unwrap());
    // The log has what the program prints, and the pod's status why it has failed.
    let run = r#"unset SPARK_HOME; exec timeout 300 python3 "$@" 2>/dev/termination-log"#;
    let command = [&["bash", "-c", run, NAME, &program], arguments].concat();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": NAME, "namespace": "default"},
        "spec": {
            "restartPolicy": "Never", "volumes": volumes, "serviceAccountName": account,
            "automountServiceAccountToken": account != "default",
            "containers": [{
                "name": NAME, "image": image(), "imagePullPolicy": "IfNotPresent", "volumeMounts": mounts,
                "command": command,
                "env": [{"name": "PYTHONPATH", "value": packages.join(":")}],
            }],
        },
    });
    kubectl_with(&pod, &["create", "-f", "-"]);
    let path = format!("/api/v1/namespaces/default/pods/{NAME}");
    let status = || calls::get(&path).expect(NAME)["status"].take();
    until("the client runs", || status()["phase"] != "Pending");
    let printed = kubectl(&["logs", "--follow", NAME]);
    until("the client has ended", || status()["phase"] != "Running");
    let status = status();
    assert_eq!(status["phase"], "Succeeded", "{printed}{:#}", status["containerStatuses"]);
    kubectl(&["delete", "pod,configmap", NAME]);
    printed
}
