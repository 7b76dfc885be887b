//! What does `sparkctl` do to a cluster, and how does it fail?

use super::{applications::application, kubectl::kubectl, namespace::Namespace};
use crate::program::run;
use k8s_openapi::api::events::v1::Event;
use serde_json::{Value, json};
use spark_operator::api::{ScheduledSparkApplication, SparkApplication};
use std::{
    fs,
    process::{Child, Command, Output, Stdio},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::mpsc::unbounded_channel,
};

/// Exit codes that scripts know.
const FAILED: i32 = 1;
const NOT_FOUND: i32 = 3;
const TIMED_OUT: i32 = 4;
const ENDED_OTHERWISE: i32 = 5;
const UNREAD: i32 = 141;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn create_makes_all_that_is_in_a_file_or_nothing() {
    let namespace = Namespace::new("verbs").await;
    let documents =
        |objects: &[Value]| objects.iter().map(|object| format!("---\n{object}\n")).collect::<String>();
    let first = application("first");
    let said = does(&["create", "-"], &documents(&[first.clone(), nightly(), application("third")]));
    assert_eq!(
        said,
        "SparkApplication \"first\" created\nScheduledSparkApplication \"nightly\" created\nSparkApplication \"third\" created\n"
    );
    assert_eq!(namespace.list::<SparkApplication>().await.len(), 2);

    let mut wrong = application("wrong");
    wrong["spec"]["driver"]["memory"] = json!("lots");
    let (code, complaint) = fails(&["create", "-"], &documents(&[application("fourth"), wrong]));
    assert_eq!(code, FAILED);
    assert!(
        complaint.contains("SparkApplication wrong") && complaint.contains("spec.driver.memory"),
        "{complaint}"
    );
    assert!(namespace.get::<SparkApplication>("fourth").await.is_none());

    let (code, complaint) = fails(&["create", "-"], &first.to_string());
    assert_eq!(code, FAILED);
    assert!(complaint.contains("\"first\" already exists"), "{complaint}");
    let before = namespace.application("first").await["metadata"]["uid"].take();
    does(&["create", "--delete", "-"], &first.to_string());
    assert_ne!(namespace.application("first").await["metadata"]["uid"], before);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn create_makes_an_application_from_a_schedule_that_the_schedule_does_not_count() {
    let namespace = Namespace::new("verbs").await;
    namespace.apply(&nightly());
    let schedule = namespace.get::<ScheduledSparkApplication>("nightly").await.unwrap();
    assert_eq!(
        does(&["create", "by-hand", "--from", "nightly"], ""),
        "SparkApplication \"by-hand\" created\n"
    );
    let made = namespace.application("by-hand").await;
    assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], schedule["metadata"]["uid"]);
    assert_eq!(made["metadata"]["ownerReferences"][0]["controller"], Value::Null);
    assert_eq!(made["metadata"]["labels"], Value::Null);
    assert_eq!(made["spec"]["mainClass"], application("x")["spec"]["mainClass"]);
    let (code, complaint) = fails(&["create", "x", "--from", "none"], "");
    assert_eq!(code, NOT_FOUND, "{complaint}");
    namespace.clear::<ScheduledSparkApplication>().await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn verbs_write_the_word_that_the_operator_reads() {
    let namespace = Namespace::new("verbs").await;
    namespace.apply(&application("pi"));
    namespace.apply(&nightly());
    assert_eq!(does(&["suspend", "pi"], ""), "SparkApplication \"pi\" suspended\n");
    assert_eq!(namespace.application("pi").await["spec"]["suspend"], true);
    assert_eq!(does(&["resume", "pi"], ""), "SparkApplication \"pi\" resumed\n");
    assert_eq!(namespace.application("pi").await["spec"]["suspend"], false);
    let annotation = |object: &Value, name: &str| {
        object["metadata"]["annotations"][format!("sparkoperator.k8s.io/{name}")].clone()
    };
    assert_eq!(does(&["rerun", "pi"], ""), "SparkApplication \"pi\" is to run again\n");
    let first = annotation(&namespace.application("pi").await, "rerun");
    does(&["rerun", "pi"], "");
    let second = annotation(&namespace.application("pi").await, "rerun");
    assert!(first.is_string() && second.is_string() && first != second);

    let schedule = async || namespace.get::<ScheduledSparkApplication>("nightly").await.unwrap();
    does(&["suspend", "--schedule", "nightly"], "");
    assert_eq!(schedule().await["spec"]["suspend"], true);
    does(&["resume", "--schedule", "nightly"], "");
    assert_eq!(schedule().await["spec"]["suspend"], false);
    assert_eq!(does(&["trigger", "nightly"], ""), "ScheduledSparkApplication \"nightly\" triggered\n");
    assert!(annotation(&schedule().await, "trigger").is_string());

    assert_eq!(does(&["delete", "pi", "--wait"], ""), "SparkApplication \"pi\" deleted\n");
    assert!(namespace.get::<SparkApplication>("pi").await.is_none());
    does(&["delete", "--schedule", "nightly"], "");
    for verb in ["suspend", "resume", "rerun", "delete", "status", "event", "log", "wait"] {
        let (code, complaint) = fails(&[verb, "pi"], "");
        assert!(code == NOT_FOUND && complaint.contains("pi"), "{verb}: {code} {complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
    }
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn wait_tells_by_its_exit_code_what_became_of_an_application() {
    let namespace = Namespace::new("verbs").await;
    let state = async |state: &str| {
        let status =
            json!({"applicationState": {"state": state, "errorMessage": "out of luck"}, "driverInfo": {}});
        namespace.patch_status::<SparkApplication>("pi", &status).await;
    };
    namespace.apply(&application("pi"));
    let (code, complaint) = fails(&["wait", "pi", "--timeout", "1s"], "");
    assert_eq!((code, &*complaint), (TIMED_OUT, "sparkctl: pi: not completed within 1 s\n"));

    let waits = spawn(&["wait", "pi", "--for=running"]);
    state("RUNNING").await;
    assert!(waits.wait_with_output().unwrap().status.success());

    let [completed, failed, deleted] =
        ["completed", "failed", "deleted"].map(|aim| spawn(&["wait", "pi", &format!("--for={aim}")]));
    state("FAILED").await;
    let output = completed.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(ENDED_OTHERWISE));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "sparkctl: SparkApplication pi is FAILED: out of luck\n"
    );
    assert!(failed.wait_with_output().unwrap().status.success());

    state("RUNNING").await;
    let [vanishes, follows] = [&["wait", "pi"][..], &["event", "pi", "--follow"]].map(spawn);
    // Both have to know it before it goes.
    std::thread::sleep(std::time::Duration::from_secs(2));
    namespace.kubectl(&["delete", "sparkapp", "pi"]);
    for child in [vanishes, follows] {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(NOT_FOUND));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("SparkApplication pi was deleted"), "{said}");
    }
    assert!(deleted.wait_with_output().unwrap().status.success());
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn status_and_event_tell_what_has_happened() {
    let namespace = Namespace::new("verbs").await;
    namespace.apply(&application("pi"));
    assert_eq!(does(&["event", "pi"], ""), "No events.\n");
    let status = json!({
        "applicationState": {"state": "FAILED", "errorMessage": "driver container failed with ExitCode: 1"},
        "driverInfo": {"podName": "pi-driver"},
        "executorState": {"e-1": "COMPLETED", "e-2": "FAILED"},
        "runs": [{"ordinal": 1, "cause": "Created", "state": "FAILED", "reason": "Error", "exitCode": 1}],
    });
    namespace.patch_status::<SparkApplication>("pi", &status).await;
    let pi = namespace.application("pi").await;
    let event = json!({
        "metadata": {"name": "pi.1", "namespace": "verbs"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "action": "Follow",
        "reason": "SparkApplicationFailed",
        "note": "it has failed",
        "type": "Warning",
        "reportingController": "test",
        "reportingInstance": "test",
        "regarding": {
            "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication",
            "name": "pi", "namespace": "verbs", "uid": pi["metadata"]["uid"],
        },
    });
    namespace.create::<Event>(&event).await;
    let text = does(&["status", "pi"], "");
    assert!(text.starts_with("pi is FAILED: driver container failed with ExitCode: 1\n"), "{text}");
    for part in ["1 completed, 1 failed", "Error, exit code 1", "SparkApplicationFailed   it has failed"] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    let events = does(&["event", "pi"], "");
    assert!(
        events.starts_with("AGE") && events.contains("Warning   SparkApplicationFailed   it has failed"),
        "{events}"
    );
    let whole: Value = serde_json::from_str(&does(&["status", "pi", "-o", "json"], "")).unwrap();
    assert_eq!(whole["status"], pi["status"]);
    let whole: Value = serde_saphyr::from_str(&does(&["status", "pi", "-o", "yaml"], "")).unwrap();
    assert_eq!(whole["spec"], pi["spec"]);
    assert_eq!(does(&["status", "pi", "-o", "name"], ""), "sparkapplication.sparkoperator.k8s.io/pi\n");
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn list_chooses_by_labels_and_prints_what_other_programs_read() {
    let namespace = Namespace::new("verbs").await;
    for (name, team) in [("pi", "search"), ("tau", "maps")] {
        let mut application = application(name);
        application["metadata"]["labels"] = json!({"team": team});
        namespace.apply(&application);
    }
    let names = does(&["list", "-o", "name"], "");
    assert_eq!(
        names,
        ["pi", "tau"].map(|name| format!("sparkapplication.sparkoperator.k8s.io/{name}\n")).concat()
    );
    assert_eq!(does(&["list", "-l", "team=maps", "-o", "name"], "").lines().count(), 1);
    let list: Value = serde_json::from_str(&does(&["list", "-o", "json"], "")).unwrap();
    assert_eq!(list["items"][1]["metadata"]["name"], "tau");
    // kubectl takes it back.
    let list: Value = serde_saphyr::from_str(&does(&["list", "-o", "yaml"], "")).unwrap();
    assert_eq!((&list["kind"], &list["items"][0]["kind"]), (&json!("List"), &json!("SparkApplication")));
    assert!(does(&["list", "-o", "wide"], "").lines().next().unwrap().ends_with("UI"));
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn what_keeps_it_from_its_work_is_told_in_one_sentence() {
    let namespace = Namespace::new("verbs").await;
    let kubeconfig = fs::read_to_string(std::env::var("KUBECONFIG").unwrap()).unwrap();
    let variant = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut config: Value = serde_saphyr::from_str(&kubeconfig).unwrap();
        change(&mut config);
        let file = namespace.folder.join(name);
        fs::write(&file, config.to_string()).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let user = |config: &mut Value, user: Value| config["users"][0]["user"] = user;
    let nowhere = variant("nowhere", &|config| {
        config["clusters"][0]["cluster"]["server"] = json!("https://127.0.0.1:9")
    });
    let unknown = variant("unknown", &|config| user(config, json!({"token": "expired"})));
    kubectl(&["-n", "verbs", "create", "serviceaccount", "nobody"]);
    let token = kubectl(&["-n", "verbs", "create", "token", "nobody"]);
    kubectl(&["-n", "verbs", "delete", "serviceaccount", "nobody"]);
    let powerless = kubectl(&["-n", "verbs", "create", "serviceaccount", "powerless"]);
    assert!(powerless.contains("created"));
    let token_of_powerless = kubectl(&["-n", "verbs", "create", "token", "powerless"]);
    let gone = variant("gone", &|config| user(config, json!({"token": token.trim()})));
    let denied = variant("denied", &|config| user(config, json!({"token": token_of_powerless.trim()})));
    for (flags, complaint) in [
        (&["--kubeconfig", "/nonexistent", "list"][..], "the kubeconfig cannot be read: "),
        (&["--context", "none", "list"], "the kubeconfig has no context `none`: choose one of "),
        (&["--kubeconfig", &nowhere, "list"], "the API server cannot be reached: "),
        (&["--kubeconfig", &unknown, "list"], "the API server does not accept who you say you are "),
        (&["--kubeconfig", &gone, "list"], "the API server does not accept who you say you are "),
        (&["--kubeconfig", &denied, "list"], "sparkapplications.sparkoperator.k8s.io is forbidden: User "),
        (
            &["--kubeconfig", &denied, "rerun", "pi"],
            "sparkapplications.sparkoperator.k8s.io \"pi\" is forbidden: User ",
        ),
    ] {
        let (code, said) = fails(flags, "");
        assert_eq!((code, said.lines().count()), (FAILED, 1), "{flags:?}: {said}");
        assert!(said.starts_with(&format!("sparkctl: {complaint}")), "{flags:?}: {said}");
    }
    kubectl(&["-n", "verbs", "delete", "serviceaccount", "powerless"]);
    let output = Command::new(env!("CARGO_BIN_EXE_sparkctl"))
        .arg("list")
        .envs([("KUBECONFIG", "/nonexistent"), ("HOME", "/nonexistent")])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.starts_with("sparkctl: no cluster is configured: set KUBECONFIG, or give --kubeconfig ("),
        "{said}"
    );
    assert_eq!(fails(&["list", "--outputs"], "").0, 2);

    namespace.apply(&application("pi"));
    let mut unread = spawn(&["list"]);
    drop(unread.stdout.take());
    let output = unread.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(UNREAD));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "sparkctl: nobody reads standard output any more\n");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs kube-apiserver: make test"]
async fn a_cluster_is_reached_by_the_proxy_that_its_kubeconfig_names_and_without_where_no_proxy_has_it() {
    let namespace = Namespace::new("verbs").await;
    namespace.apply(&application("pi"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (asked_for, mut targets) = unbounded_channel();
    tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut asked = BufReader::new(&mut client).lines();
        let first = asked.next_line().await.unwrap().unwrap();
        while asked.next_line().await.unwrap().is_some_and(|line| !line.is_empty()) {}
        let target = first.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()).expect(&first);
        asked_for.send(target.to_owned()).unwrap();
        let mut server = TcpStream::connect(target).await.unwrap();
        client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await.unwrap();
        copy_bidirectional(&mut client, &mut server).await.ok();
    });
    let kubeconfig = fs::read_to_string(std::env::var("KUBECONFIG").unwrap()).unwrap();
    let mut config: Value = serde_saphyr::from_str(&kubeconfig).unwrap();
    config["clusters"][0]["cluster"]["proxy-url"] = json!(format!("http://{address}"));
    let file = namespace.folder.join("by-proxy");
    fs::write(&file, config.to_string()).unwrap();
    let said = does(&["--kubeconfig", file.to_str().unwrap(), "list", "-o", "name"], "");
    assert_eq!(said, "sparkapplication.sparkoperator.k8s.io/pi\n");
    let server = targets.recv().await.unwrap();

    let host = server.rsplit_once(':').unwrap().0;
    let output = Command::new(env!("CARGO_BIN_EXE_sparkctl"))
        .args(["-n", "verbs", "list", "-o", "name"])
        .envs([("HTTPS_PROXY", "http://127.0.0.1:9"), ("NO_PROXY", host)])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn nightly() -> Value {
    json!({
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "ScheduledSparkApplication",
        "metadata": {"name": "nightly", "namespace": "verbs"},
        "spec": {"schedule": "@yearly", "template": application("x")["spec"]},
    })
}

/// What `sparkctl` prints, in the namespace `verbs`; it has to succeed.
fn does(arguments: &[&str], input: &str) -> String {
    let output = sparkctl(arguments, input);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "sparkctl {}: {stderr}", arguments.join(" "));
    String::from_utf8(output.stdout).unwrap()
}

/// With which exit code it fails, and what it complains of.
fn fails(arguments: &[&str], input: &str) -> (i32, String) {
    let output = sparkctl(arguments, input);
    assert!(!output.status.success(), "sparkctl {} succeeded", arguments.join(" "));
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn sparkctl(arguments: &[&str], input: &str) -> Output {
    run(env!("CARGO_BIN_EXE_sparkctl"), &[&["--namespace", "verbs"], arguments].concat(), input)
}

/// Starts it, without waiting for its end.
fn spawn(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_sparkctl"))
        .args(["--namespace", "verbs"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}
