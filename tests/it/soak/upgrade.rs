//! An operator of an earlier commit is replaced by this one, and this one by the earlier one.

use crate::{
    apiserver::{
        balancer::Balancer,
        helm::{CHART, helm},
        operator::BESIDE,
        prelude::*,
        restarts::admits,
        route::Route,
    },
    node::{Installed, handover::uninstall, install_alone, is_installed_again, native::python_job, state_is},
};

const APPLICATIONS: usize = 200;

/// Returns the folder that `tests/tools/previous` has printed.
fn previous() -> String {
    env::var("PREVIOUS").expect("make soak sets PREVIOUS to the folder of an earlier commit")
}

#[tokio::test]
#[ignore = "make soak"]
async fn replicas_of_an_earlier_commit_are_upgraded_and_rolled_back_unnoticed() {
    let namespace = Namespace::new("upgrade").await;
    let replica = |program: &str| {
        let setup = Operator::with(&namespace).candidate(4).program(program);
        setup.env("SPARK_OPERATOR_WEBHOOK_SHUTDOWN_DELAY", "5s")
    };
    let (old, new) = (format!("{}/spark-operator", previous()), env!("CARGO_BIN_EXE_spark-operator"));
    let mut first = replica(&old).beside().spawn();
    let mut second = replica(&old).start().await;
    let balancer = Balancer::start(&[0, BESIDE]).await;
    balancer.knows_all().await;
    let _route = Route::url(balancer.port);
    admits(&namespace, &balancer).await;
    for i in 0..APPLICATIONS {
        namespace.create::<SparkApplication>(&application(&format!("app-{i}"))).await;
    }
    for i in 0..APPLICATIONS {
        namespace.reaches(&format!("app-{i}"), "SUBMITTED").await;
        kubelet::runs(&namespace, &format!("app-{i}-driver")).await;
    }
    for i in 0..APPLICATIONS {
        namespace.reaches(&format!("app-{i}"), "RUNNING").await;
    }
    let before = runs(&namespace).await;
    assert_eq!(before.len(), APPLICATIONS);

    let arrivals = Arrivals::of_steady_pods(namespace.name, 50);
    for program in [new, &old] {
        // One after the other, as a Deployment replaces its pods.
        second.stop().await;
        second = replica(program).spawn();
        balancer.knows_all().await;
        first.stop().await;
        first = replica(program).beside().spawn();
        balancer.knows_all().await;
        let name = format!("after-{}", if program == new { "new" } else { "old" });
        namespace.create::<SparkApplication>(&application(&name)).await;
        namespace.reaches(&name, "SUBMITTED").await;
        namespace.kubectl(&["delete", "sparkapp", &name]);
        assert!(runs(&namespace).await == before, "{program}: something was run again");
    }
    let arrived = arrivals.end();
    assert_eq!(arrived.failures, Vec::<String>::new());
    println!(
        "soak: {APPLICATIONS} applications ran through an upgrade and back, {} pods were admitted meanwhile",
        arrived.pods
    );
    namespace.clear::<SparkApplication>().await;
    namespace.clear::<Pod>().await;
}

/// Returns the state, the submission id and the uid of the driver of each application, by name.
async fn runs(namespace: &Namespace) -> BTreeMap<String, [Value; 3]> {
    let drivers = namespace.list::<Pod>().await;
    let uid = |name: &str| {
        let driver = drivers.iter().find(|pod| pod["metadata"]["name"] == format!("{name}-driver"));
        driver.map_or(Value::Null, |driver| driver["metadata"]["uid"].clone())
    };
    let applications = namespace.list::<SparkApplication>().await.into_iter();
    applications
        .filter(|application| application["metadata"]["name"].as_str().unwrap().starts_with("app-"))
        .map(|application| {
            let name = application["metadata"]["name"].as_str().unwrap().to_owned();
            let status = &application["status"];
            let run =
                [status["applicationState"]["state"].clone(), status["submissionID"].clone(), uid(&name)];
            (name, run)
        })
        .collect()
}

/// The image of the earlier commit, which `make soak` has loaded.
const IMAGE: &str = "localhost/spark-operator:previous";
/// The image of this commit.
const OURS: &str = "localhost/spark-operator:dev";

#[test]
#[ignore = "make soak"]
fn on_a_node_an_application_continues_through_upgrades_and_rollbacks() {
    let _alone = install_alone();
    let _installed = Installed;
    let folder = previous();
    // By kustomize: the manifests of each commit.
    let apply = |folder: &str, image: &str| {
        kubectl(&["apply", "-k", &format!("{folder}/manifests")]);
        let set = format!("spark-operator={image}");
        kubectl(&["-n", "spark-operator", "set", "image", "deployment/spark-operator", &set]);
        is_installed_again();
    };
    apply(&folder, IMAGE);
    let run = begun("upgraded", "spark");
    for (folder, image) in [(".", OURS), (&folder, IMAGE), (".", OURS)] {
        apply(folder, image);
        assert_eq!(run_of("upgraded"), run, "{folder}");
    }
    ends("upgraded");

    // By Helm: the chart of this commit with the image of each.
    uninstall();
    kubectl(&["delete", "namespace", "spark-operator", "--ignore-not-found"]);
    let tag = |image: &str| format!("--set=image.tag={}", image.rsplit_once(':').unwrap().1);
    let wait = ["--wait", "--timeout=120s"];
    helm(&[&["install", "spark-operator", CHART, "--create-namespace", &tag(IMAGE)], &wait[..]].concat());
    let run = begun("upgraded", "spark-operator-spark");
    helm(&[&["upgrade", "spark-operator", CHART, &tag(OURS)], &wait[..]].concat());
    assert_eq!(run_of("upgraded"), run);
    helm(&[&["rollback", "spark-operator", "1"], &wait[..]].concat());
    assert_eq!(run_of("upgraded"), run);
    helm(&[&["upgrade", "spark-operator", CHART, &tag(OURS)], &wait[..]].concat());
    assert_eq!(run_of("upgraded"), run);
    ends("upgraded");
    helm(&["uninstall", "spark-operator", "--wait"]);
    println!(
        "soak: an application went on from an earlier commit to this one, back and again, by kustomize and by Helm"
    );
}

/// Starts an application that waits until [`ends`] lets it end; returns its run once it is running.
fn begun(name: &str, account: &str) -> String {
    let mut job = python_job(name, "waiting-job", "tests/data/node/waiting/job.py");
    job["spec"]["driver"]["serviceAccount"] = json!(account);
    kubectl_with(&job, &["apply", "-f", "-"]);
    state_is(name, "RUNNING");
    run_of(name)
}

/// Returns state, submission id and number of attempts of the application, and the uid of its driver.
fn run_of(name: &str) -> String {
    let fields = "--output=jsonpath={.status.applicationState.state} {.status.submissionID} {.status.executionAttempts}";
    let driver = ["get", "pod", &format!("{name}-driver"), "--output=jsonpath={.metadata.uid}"];
    format!("{} {}", kubectl(&["get", "sparkapp", name, fields]), kubectl(&driver))
}

/// Lets the application end; waits until it is COMPLETED, and deletes it.
fn ends(name: &str) {
    let driver = format!("{name}-driver");
    kubectl(&["exec", &driver, "-c", "spark-kubernetes-driver", "--", "touch", "/tmp/enough"]);
    state_is(name, "COMPLETED");
    kubectl(&["delete", "sparkapp", name]);
}
