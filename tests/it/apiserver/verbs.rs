//! Tests what the verbs of `sparkctl` change in a cluster, and their errors.

use super::page::account;
use crate::apiserver::prelude::*;
use k8s_openapi::api::events::v1::Event;
use std::io::Read;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy_bidirectional},
    sync::mpsc::unbounded_channel,
};

/// Exit codes on which scripts rely.
const FAILED: i32 = 1;
const WRONG_FLAGS: i32 = 2;
const NOT_FOUND: i32 = 3;
const TIMED_OUT: i32 = 4;
const ENDED_OTHERWISE: i32 = 5;
const UNREAD: i32 = 141;

/// The verbs that need a running server are tested in `node/connect.rs`.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn spark_connects_have_the_verbs_of_applications() {
    let _namespace = Namespace::new("verbs").await;
    let connect = connect("notebook").to_string();
    assert_eq!(does(&["create", "-"], &connect), "SparkConnect \"notebook\" created\n");
    let reference = "sparkconnect.sparkoperator.k8s.io/notebook";
    assert_eq!(does(&["connect", "list", "-o", "name"], ""), format!("{reference}\n"));
    let list = does(&["connect", "list"], "");
    let row: Vec<_> = list.lines().nth(1).expect(&list).split_whitespace().collect();
    assert_eq!(row[..4], ["notebook", "New", "<none>", "<none>"], "{list}");
    assert_eq!(does(&["connect", "suspend", reference], ""), "SparkConnect \"notebook\" suspended\n");
    let status = does(&["connect", "status", "notebook"], "");
    assert!(status.starts_with("notebook is New\n\nWaits for:   the operator"), "{status}");
    for (verb, why) in
        [("open", "sparkctl: notebook is suspended"), ("log", "sparkctl: notebook has no server: it is New")]
    {
        let (code, complaint) = fails(&["connect", verb, "notebook"], "");
        assert!(code == FAILED && complaint.starts_with(why), "{complaint}");
    }
    assert_eq!(does(&["connect", "resume", "notebook"], ""), "SparkConnect \"notebook\" resumed\n");
    assert!(does(&["connect", "status", "notebook", "-o", "yaml"], "").contains("  suspend: false\n"));
    let previous = fails(&["connect", "log", "notebook", "--previous"], "");
    assert_eq!(previous, (NOT_FOUND, "sparkctl: no server of notebook has ended by itself\n".to_owned()));
    assert_eq!(does(&["connect", "delete", "notebook", "--wait"], ""), "SparkConnect \"notebook\" deleted\n");
    assert_eq!(fails(&["connect", "status", "notebook"], "").0, NOT_FOUND);
    assert_eq!(fails(&["connect", "status", "sparkapp/notebook"], "").0, WRONG_FLAGS);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn create_creates_all_objects_of_a_file_or_none() {
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
    refuses(
        &["create", "-"],
        &documents(&[application("fourth"), wrong]),
        FAILED,
        &["SparkApplication wrong", "spec.driver.memory"],
    );
    refuses(
        &["create", "-"],
        &documents(&[application("fourth"), first.clone()]),
        FAILED,
        &["\"first\" already exists"],
    );
    let twice = documents(&[application("fourth"), nightly(), application("fourth")]);
    refuses(&["create", "-"], &twice, FAILED, &["SparkApplication fourth is in the manifest twice"]);
    assert!(namespace.get::<SparkApplication>("fourth").await.is_none());

    refuses(&["create", "-"], &first.to_string(), FAILED, &["\"first\" already exists"]);
    let before = namespace.application("first").await["metadata"]["uid"].take();
    // Only the API server detects this error, and `sparkctl` asks the API server before it deletes anything.
    let mut odd = first.clone();
    odd["metadata"]["annotations"] = json!({"not a key": "x"});
    refuses(&["create", "--delete", "-"], &odd.to_string(), FAILED, &["metadata.annotations"]);
    assert_eq!(namespace.application("first").await["metadata"]["uid"], before);
    does(&["create", "--delete", "-"], &first.to_string());
    assert_ne!(namespace.application("first").await["metadata"]["uid"], before);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_invalid_name_never_reaches_the_cluster() {
    let namespace = Namespace::new("verbs").await;
    namespace.apply(&application("pi"));
    namespace.apply(&nightly());
    for verb in ["rerun", "status", "event", "log", "forward", "ui", "wait"] {
        assert_eq!(fails(&[verb, "scheduledsparkapp/nightly"], "").0, WRONG_FLAGS, "{verb}");
    }
    // Each verb reads a name by the same function: see crates/sparkctl/src/names.rs.
    let odd = ["?", "?x", "pi?x", "#", "/", "pi/", "", ".."].into_iter().map(|odd| ("delete", odd));
    let verbs = ["suspend", "resume", "rerun", "status", "event", "log", "forward", "ui", "wait", "trigger"];
    for (verb, odd) in odd.chain(verbs.map(|verb| (verb, "pi?x"))) {
        let (code, complaint) = fails(&[verb, odd], "");
        assert_eq!(code, WRONG_FLAGS, "{verb} {odd}: {complaint}");
    }
    assert_eq!(fails(&["delete", "--schedule", "pi?x"], "").0, WRONG_FLAGS);
    for odd in ["../x", "verbs/sparkapplications/pi?", "Verbs"] {
        let output = run(sparkctl_program(), &["--namespace", odd, "delete", "pi"], "");
        assert_eq!(output.status.code(), Some(WRONG_FLAGS), "{odd}");
    }
    assert!(namespace.get::<SparkApplication>("pi").await.is_some());
    assert!(namespace.get::<ScheduledSparkApplication>("nightly").await.is_some());

    let names =
        [&["list", "-o", "name"][..], &["list", "--schedule", "-o", "name"]].map(|list| does(list, ""));
    let names: Vec<_> = names.iter().map(|name| name.trim_end()).collect();
    // The flag names one kind and the argument another.
    assert_eq!(fails(&["delete", "--schedule", names[0]], "").0, FAILED);
    let deleted = "SparkApplication \"pi\" deleted\nScheduledSparkApplication \"nightly\" deleted\n";
    assert_eq!(does(&["delete", names[0], names[1]], ""), deleted);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_failure_for_one_object_does_not_stop_the_others() {
    let namespace = Namespace::new("verbs").await;
    for name in ["a", "b"] {
        namespace.apply(&application(name));
    }
    let (code, complaint) = fails(&["suspend", "a", "none", "b", "neither"], "");
    assert_eq!((code, complaint.lines().count()), (NOT_FOUND, 2), "{complaint}");
    for name in ["a", "b"] {
        assert_eq!(namespace.application(name).await["spec"]["suspend"], true);
    }
    let (code, complaint) = fails(&["delete", "--wait", "a", "none", "b"], "");
    assert_eq!((code, complaint.lines().count()), (NOT_FOUND, 1), "{complaint}");
    assert!(namespace.list::<SparkApplication>().await.is_empty());

    // All work is done although standard output is not read.
    for name in ["a", "b"] {
        namespace.apply(&application(name));
    }
    let mut unread = spawn(&["delete", "a", "b"]);
    drop(unread.stdout.take());
    unread.wait().unwrap();
    assert!(namespace.list::<SparkApplication>().await.is_empty());
    let mut misspelt = application("a");
    misspelt["spec"]["driver"]["memroy"] = json!("4g");
    refuses(&["create", "-"], &misspelt.to_string(), FAILED, &["unknown field \"spec.driver.memroy\""]);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_foreign_pod_is_not_taken_for_the_driver() {
    let namespace = Namespace::new("verbs").await;
    namespace.apply(&application("pi"));
    let pod = |labels: Value| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pi-driver", "labels": labels},
            "spec": {"containers": [{"name": "spark-kubernetes-driver", "image": "none"}]},
        })
    };
    namespace.create::<Pod>(&pod(json!({"sparkoperator.k8s.io/submission-id": "another"}))).await;
    kubelet::ends(&namespace, "pi-driver", 0).await;
    let status = json!({
        "applicationState": {"state": "FAILED", "errorMessage": "pod pi-driver is\u{1b}[31m somebody else's"},
        "driverInfo": {"podName": "pi-driver"}, "submissionID": "mine",
    });
    namespace.patch_status::<SparkApplication>("pi", &status).await;
    for verb in ["log", "forward", "ui"] {
        let (code, complaint) = fails(&[verb, "pi"], "");
        // Control characters that others have written are replaced before they reach a terminal.
        assert_eq!(
            (code, &*complaint),
            (
                FAILED,
                "sparkctl: pi has no driver: it is FAILED: pod pi-driver is\u{fffd}[31m somebody else's\n"
            ),
            "{verb}"
        );
    }
    let text = does(&["status", "pi"], "");
    assert!(!text.contains('\u{1b}') && !text.contains("last words"), "{text}");
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_application_created_from_a_schedule_is_not_counted_as_its_run() {
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
    refuses(&["create", "x", "--from", "none"], "", NOT_FOUND, &[]);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn verbs_set_the_fields_and_annotations_that_the_operator_reads() {
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
async fn the_exit_code_of_wait_reports_the_outcome_of_an_application() {
    let namespace = Namespace::new("verbs").await;
    let state = async |state: &str| {
        let status =
            json!({"applicationState": {"state": state, "errorMessage": "out of luck"}, "driverInfo": {}});
        namespace.patch_status::<SparkApplication>("pi", &status).await;
    };
    namespace.apply(&application("pi"));
    let (code, complaint) = fails(&["wait", "pi", "--timeout", "1s"], "");
    assert_eq!((code, &*complaint), (TIMED_OUT, "sparkctl: not completed within 1s: pi is NEW\n"));

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
    // The failed application is found whatever its place in the list, and however long the others take.
    namespace.apply(&application("tau"));
    assert_eq!(fails(&["wait", "tau", "pi"], "").0, ENDED_OTHERWISE);

    state("RUNNING").await;
    let proxy = Proxy::start().await;
    let file = proxy.kubeconfig(&namespace.folder);
    let call = Call { method: "GET", path: "/namespaces/verbs/sparkapplications" };
    let (looks, watches) = (proxy.hold(call, Moment::Before), proxy.hold(call, Moment::Before));
    let vanishes = spawn(&["--kubeconfig", &file, "wait", "pi"]);
    let mut follows = spawn(&["event", "pi", "--follow"]);
    // Both programs must know the application before it is deleted.
    looks.caught().await.release();
    watches.caught().await.release();
    follows.stdout.as_mut().unwrap().read_exact(b"AGE".to_vec().as_mut_slice()).unwrap();
    namespace.kubectl(&["delete", "sparkapp", "pi"]);
    for child in [vanishes, follows] {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(NOT_FOUND));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("SparkApplication pi was deleted"), "{said}");
    }
    assert!(deleted.wait_with_output().unwrap().status.success());
    let (code, complaint) = fails(&["wait", "pi", "tau", "--for=deleted", "--timeout=1s"], "");
    let told = "pi is deleted\nsparkctl: not deleted within 1s: tau is NEW\n";
    assert_eq!((code, &*complaint), (TIMED_OUT, told));
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn status_and_event_show_runs_executors_and_events() {
    let namespace = Namespace::new("verbs").await;
    namespace.apply(&application("pi"));
    assert_eq!(does(&["event", "pi"], ""), "No events.\n");
    let status = json!({
        "applicationState": {"state": "FAILED", "errorMessage": "driver container failed with ExitCode: 1"},
        "driverInfo": {"podName": "pi-driver"}, "executorState": {"e-1": "COMPLETED", "e-2": "FAILED"},
        "runs": [{"ordinal": 1, "cause": "Created", "state": "FAILED", "reason": "Error", "exitCode": 1}],
    });
    namespace.patch_status::<SparkApplication>("pi", &status).await;
    let pi = namespace.application("pi").await;
    let event = json!({
        "metadata": {"name": "pi.1", "namespace": "verbs"}, "eventTime": "2026-01-01T00:00:00.000000Z",
        "action": "Follow", "reason": "SparkApplicationFailed", "note": "it has failed", "type": "Warning",
        "reportingController": "test", "reportingInstance": "test",
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
async fn list_selects_by_labels_and_prints_machine_readable_output() {
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
    // The output can be passed to `kubectl` again.
    let list: Value = serde_saphyr::from_str(&does(&["list", "-o", "yaml"], "")).unwrap();
    assert_eq!((&list["kind"], &list["items"][0]["kind"]), (&json!("List"), &json!("SparkApplication")));
    let wide = does(&["list", "-o", "wide"], "");
    assert!(wide.lines().next().unwrap().ends_with(" SCHEDULER"), "{wide}");

    assert_eq!(does(&["list", "--schedule"], ""), "");
    namespace.apply(&nightly());
    let schedules = does(&["list", "--schedule"], "");
    assert!(
        schedules.lines().nth(1).unwrap().starts_with("nightly   @yearly    false       NEW "),
        "{schedules}"
    );
    let name = does(&["list", "--schedule", "-o", "name"], "");
    assert_eq!(name, "scheduledsparkapplication.sparkoperator.k8s.io/nightly\n");
    let list: Value = serde_json::from_str(&does(&["list", "--schedule", "-A", "-o", "json"], "")).unwrap();
    assert_eq!(list["items"][0]["kind"], "ScheduledSparkApplication");
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn each_failure_of_sparkctl_is_reported_in_one_line() {
    let namespace = Namespace::new("verbs").await;
    let variant = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut config = calls::kubeconfig();
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
    let token_of = |account: &'static str| {
        let object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}});
        calls::apply(&object, Some("verbs"));
        calls::token(account, "verbs")
    };
    let [token, token_of_powerless, token_of_reader] = ["nobody", "powerless", "reader"].map(token_of);
    calls::delete("/api/v1/namespaces/verbs/serviceaccounts/nobody");
    account("reader", "verbs", "verbs", &["get"]);
    let subject = json!({"kind": "ServiceAccount", "name": "reader", "namespace": "verbs"});
    let reads = &["get", "list", "watch"][..];
    calls::grant("reader-of-pods", Some("verbs"), &subject, &[("", &["pods"], reads)]);
    let reader = variant("reader", &|config| user(config, json!({"token": token_of_reader})));
    let gone = variant("gone", &|config| user(config, json!({"token": token})));
    let denied = variant("denied", &|config| user(config, json!({"token": token_of_powerless})));
    for (flags, complaint) in [
        (&["--kubeconfig", "/nonexistent", "list"][..], "the kubeconfig cannot be read: "),
        (&["--context", "none", "list"], "the kubeconfig has no context `none`: choose one of "),
        (&["--kubeconfig", &nowhere, "list"], "the API server cannot be reached: "),
        (&["--kubeconfig", &unknown, "list"], "the API server does not accept your credentials "),
        (&["--kubeconfig", &gone, "list"], "the API server does not accept your credentials "),
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
    let output = lists_with(&[("KUBECONFIG", "/nonexistent"), ("HOME", "/nonexistent")]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.starts_with("sparkctl: no cluster is configured: set KUBECONFIG, or give --kubeconfig ("),
        "{said}"
    );
    assert_eq!(fails(&["list", "--outputs"], "").0, 2);

    namespace.apply(&application("pi"));
    // A user with few permissions sees what these permit.
    let output = sparkctl(&["--kubeconfig", &reader, "status", "pi"], "");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("pi is NEW\n"), "{output:?}");
    let warning = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(warning.starts_with("Warning: the events are not shown: events is forbidden: "), "{warning}");
    // In an earlier version, this command waited for ever.
    let driver = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pi-driver"},
        "spec": {"containers": [{"name": "spark-kubernetes-driver", "image": "none"}]},
    });
    namespace.create::<Pod>(&driver).await;
    kubelet::runs(&namespace, "pi-driver").await;
    let status = json!({"applicationState": {"state": "RUNNING"}, "driverInfo": {"podName": "pi-driver"}});
    namespace.patch_status::<SparkApplication>("pi", &status).await;
    let (code, said) = fails(&["--kubeconfig", &reader, "ui", "pi"], "");
    assert!(code == FAILED && said.contains("cannot get resource \"pods/portforward\""), "{code} {said}");
    // Missing files are skipped; files that cannot be read are errors.
    let listed = format!("/nonexistent:{}", env::var("KUBECONFIG").unwrap());
    let broken = variant("broken", &|config| *config = json!("no kubeconfig"));
    let [host, port] = [("KUBERNETES_SERVICE_HOST", "127.0.0.1"), ("KUBERNETES_SERVICE_PORT", "9")];
    for (files, code) in [(&listed, Some(0)), (&broken, Some(FAILED))] {
        let output = lists_with(&[("KUBECONFIG", files), host, port]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), code, "{said}");
        assert!(code == Some(0) || said.starts_with("sparkctl: the kubeconfig cannot be read: "), "{said}");
    }
    let mut unread = spawn(&["list"]);
    drop(unread.stdout.take());
    let output = unread.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(UNREAD));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "sparkctl: nobody reads standard output any more\n");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs kube-apiserver: make test"]
async fn the_proxy_of_the_kubeconfig_is_used_and_no_proxy_excludes_a_host() {
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
    let mut config = calls::kubeconfig();
    config["clusters"][0]["cluster"]["proxy-url"] = json!(format!("http://{address}"));
    let file = namespace.folder.join("by-proxy");
    fs::write(&file, config.to_string()).unwrap();
    let said = does(&["--kubeconfig", file.to_str().unwrap(), "list", "-o", "name"], "");
    assert_eq!(said, "sparkapplication.sparkoperator.k8s.io/pi\n");
    let server = targets.recv().await.unwrap();

    let host = server.rsplit_once(':').unwrap().0;
    program::printed(lists_with(&[("HTTPS_PROXY", "http://127.0.0.1:9"), ("NO_PROXY", host)]));
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_creation_that_may_have_succeeded_is_not_retried() {
    let namespace = Namespace::new("verbs").await;
    let proxy = Proxy::start().await;
    proxy.guarded_by(Box::new(|request| {
        let is_busy = request.method() == "POST";
        if is_busy { vec![Fault::Refused(StatusCode::SERVICE_UNAVAILABLE)] } else { Vec::new() }
    }));
    let mut application = application("x");
    application["metadata"] = json!({"generateName": "pi-"});
    let file = proxy.kubeconfig(&namespace.folder);
    assert_eq!(fails(&["--kubeconfig", &file, "create", "-"], &application.to_string()).0, FAILED);
    assert_eq!(proxy.writes_in("verbs").len(), 1);
}

fn nightly() -> Value {
    let mut nightly = scheduled("nightly", "@yearly", &application("x"));
    nightly["metadata"]["namespace"] = json!("verbs");
    nightly
}

/// Runs `sparkctl` in the namespace `verbs`; returns what it prints, and panics if it fails.
fn does(arguments: &[&str], input: &str) -> String {
    let said = program::said(sparkctl(arguments, input));
    said.unwrap_or_else(|complaint| panic!("sparkctl {}: {complaint}", arguments.join(" ")))
}

/// Runs `sparkctl`, which must fail; returns the exit code and standard error.
fn fails(arguments: &[&str], input: &str) -> (i32, String) {
    let output = sparkctl(arguments, input);
    assert!(!output.status.success(), "sparkctl {} succeeded", arguments.join(" "));
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// Runs `sparkctl`, which must fail with this exit code, and with each of `words` on standard error.
fn refuses(arguments: &[&str], input: &str, expected: i32, words: &[&str]) {
    let (code, said) = fails(arguments, input);
    assert!(code == expected && words.iter().all(|word| said.contains(word)), "{arguments:?}: {code} {said}");
}

fn sparkctl(arguments: &[&str], input: &str) -> Output {
    run(sparkctl_program(), &[&["--namespace", "verbs"], arguments].concat(), input)
}

/// Starts `sparkctl` without waiting for its end.
fn spawn(arguments: &[&str]) -> Child {
    program::begin(Command::new(sparkctl_program()).args(["--namespace", "verbs"]).args(arguments), "")
}

/// Runs `sparkctl list` in the namespace `verbs` with these variables.
fn lists_with(variables: &[(&str, &str)]) -> Output {
    let mut list = Command::new(sparkctl_program());
    list.args(["-n", "verbs", "list", "-o", "name"]).envs(variables.iter().copied()).output().unwrap()
}
