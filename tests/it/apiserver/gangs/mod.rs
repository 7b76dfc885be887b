//! Proves that the PodGroup of a batch scheduler exists before the first pod of each run, has the right fields, and is
//! deleted with the run. Volcano and scheduler-plugins are not available here: `tests/data/gang/crds.yaml` has our own
//! versions of their CRDs.

pub(crate) mod group_scheduler;

use super::{operator::Setup, spark::make_executor};
use crate::apiserver::prelude::*;
use group_scheduler::{GroupScheduler, Reads, has_ended};
use plan::pod_requests::PodRequests;
use pods::PodClaim;

pub(crate) const ENABLED: &str = "--enable-batch-scheduler";
const NAMED: &str = "--kube-scheduler-names=coscheduler,kube-scheduler";
pub(crate) const VOLCANO_RBAC: &str = "manifests/rbac/batch-scheduler.yaml";
pub(crate) const KUBERNETES: &str = "--enable-kubernetes-gangs";
pub(crate) const KUBERNETES_RBAC: &str = "manifests/rbac/kubernetes-gangs.yaml";
const COSCHEDULING_RBAC: &str = "manifests/rbac/coscheduling.yaml";
const VOLCANO: &str = "podgroups.scheduling.volcano.sh";
const COSCHEDULING: &str = "podgroups.scheduling.x-k8s.io";

/// Installs the PodGroup CRDs of both schedulers until the returned value is dropped.
pub(crate) fn group_definitions() -> Finally {
    const FILE: &str = "tests/data/gang/crds.yaml";
    calls::apply_manifests(FILE);
    kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "-f", FILE]);
    Finally::new(|| calls::delete_manifests(FILE))
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn each_run_has_its_own_pod_group_which_is_restored_and_scheduled_whole() {
    let _rights = [granted(VOLCANO_RBAC), granted(COSCHEDULING_RBAC), granted(KUBERNETES_RBAC)];
    let volcano = Namespace::new("gang-whole").await;
    let _definitions = group_definitions();
    let directory = volcano.folder.join("conf");
    fs::create_dir(&directory).unwrap();
    let setup = with_gangs(&volcano).argument(KUBERNETES).argument("--default-batch-scheduler=volcano");
    let _operator = setup.env("SPARK_CONF_DIR", directory.to_str().unwrap()).start().await;
    let too_old = volcano.beside("gang-too-old").await;
    kubernetes_own_gangs_fail_with_the_required_kubernetes_version(&too_old).await;
    let scheduled = volcano.beside("gang-scheduled").await;
    a_scheduled_run_has_a_group_of_the_default_batch_scheduler(&scheduled).await;
    the_next_run_after_an_edit_has_a_group_of_its_own(&volcano.beside("gang-edited").await).await;
    two_of_three_applications_run_at_once_if_two_groups_fit(&volcano).await;
    the_group_of_a_run_is_restored_and_its_condition_is_reported(&volcano, &directory).await;
}

async fn the_next_run_after_an_edit_has_a_group_of_its_own(namespace: &Namespace) {
    namespace.apply(&of_scheduler("volcano"));
    namespace.reaches("pi", "SUBMITTED").await;
    let first = groups(namespace, VOLCANO).remove(0);
    assert_eq!(first["spec"]["queue"], "default", "the definition's own default");

    let mut edited = of_scheduler("volcano");
    edited["spec"]["batchSchedulerOptions"] = json!({"queue": "data"});
    edited["spec"]["executor"]["instances"] = json!(5);
    namespace.apply(&edited);
    eventually("the group is that of the next run", async || {
        let groups = groups(namespace, VOLCANO);
        let is_new =
            |group: &Value| group["spec"]["queue"] == "data" && group["spec"]["minResources"]["cpu"] == "6";
        seen(matches!(&groups[..], [group] if is_new(group)), groups)
    })
    .await;
    namespace.reaches("pi", "SUBMITTED").await;

    // Another scheduler has another group.
    edited["spec"]["batchScheduler"] = json!("coscheduler");
    namespace.apply(&edited);
    eventually("the group is that of the other scheduler", async || {
        let groups = [groups(namespace, VOLCANO), groups(namespace, COSCHEDULING)];
        seen(groups[0].is_empty() && groups[1].len() == 1, groups)
    })
    .await;
    namespace.reaches("pi", "SUBMITTED").await;
    edited["spec"]["suspend"] = json!(true);
    namespace.apply(&edited);
    namespace.reaches("pi", "SUSPENDED").await;
    assert_eq!(groups(namespace, COSCHEDULING), Vec::<Value>::new());
}

async fn a_scheduled_run_has_a_group_of_the_default_batch_scheduler(namespace: &Namespace) {
    let mut often = scheduled("often", "@every 2s", &application("pi"));
    often["spec"]["concurrencyPolicy"] = json!("Forbid");
    namespace.apply(&often);
    let run = eventually("a run is submitted", async || {
        let runs = namespace.list::<SparkApplication>().await;
        let submitted = |run: &&Value| run["status"]["applicationState"]["state"] == "SUBMITTED";
        runs.iter().find(submitted).cloned().ok_or_else(|| json!(runs).to_string())
    })
    .await;
    let group = groups(namespace, VOLCANO).remove(0);
    assert_eq!(group["metadata"]["name"], format!("spark-{}-pg", run["metadata"]["name"].as_str().unwrap()));
    assert_eq!(group["metadata"]["ownerReferences"], owned_by(&run));
    let driver = namespace.pod(run["status"]["driverInfo"]["podName"].as_str().unwrap()).await.unwrap();
    assert_eq!(driver["metadata"]["annotations"]["scheduling.k8s.io/group-name"], group["metadata"]["name"]);
    assert_eq!(driver["spec"]["schedulerName"], "volcano");
}

/// `directory` is the operator's SPARK_CONF_DIR.
async fn the_group_of_a_run_is_restored_and_its_condition_is_reported(beside: &Namespace, directory: &Path) {
    let volcano = beside.beside("gang-kept").await;
    let coscheduling = beside.beside("gang-kept-coscheduling").await;
    let defaults = directory.join("spark-defaults.conf");
    for (namespace, kind, scheduler, name) in
        [(&volcano, VOLCANO, "volcano", "spark-pi-pg"), (&coscheduling, COSCHEDULING, "coscheduler", "pi-pg")]
    {
        fs::write(&defaults, "spark.executor.memoryOverhead 1g\n").unwrap();
        namespace.apply(&of_scheduler(scheduler));
        namespace.reaches("pi", "SUBMITTED").await;
        let made = groups(namespace, kind).remove(0);
        let of_driver_and_two = json!({"cpu": "3", "memory": "5504Mi"});
        assert_eq!(made["spec"]["minResources"], of_driver_and_two, "the admin's defaults count");

        let status = json!({"status": {"phase": "Pending", "conditions": [{
            "type": "Unschedulable", "status": "True", "reason": "NotEnoughResources",
            "message": "3/5 tasks in gang unschedulable: queue data is full",
        }]}});
        let group = format!("{}/{name}", path(namespace, kind));
        calls::merge(&format!("{group}/status"), &status);
        let expected = format!(
            "PodGroup {name}: Pending since {}: NotEnoughResources: 3/5 tasks in gang unschedulable: queue data is full",
            made["metadata"]["creationTimestamp"].as_str().unwrap()
        );
        namespace.status_has("pi", &json!({"applicationState": {"errorMessage": expected}})).await;

        calls::merge(&group, &json!({"spec": {"minMember": 9}}));
        eventually("the edit is undone", async || {
            let groups = groups(namespace, kind);
            seen(groups[0]["spec"] == made["spec"], groups)
        })
        .await;
        calls::delete(&group);
        eventually("the group is recreated", async || {
            let groups = groups(namespace, kind);
            let is_new = |group: &Value| {
                group["spec"] == made["spec"] && group["metadata"]["uid"] != made["metadata"]["uid"]
            };
            seen(matches!(&groups[..], [group] if is_new(group)), groups)
        })
        .await;

        // A run continues although the file can no longer be read.
        fs::remove_file(&defaults).unwrap();
        fs::create_dir(&defaults).unwrap();
        namespace.runs("pi").await;
        namespace.completes("pi").await;
        eventually("the group is deleted", async || {
            let groups = groups(namespace, kind);
            seen(groups.is_empty(), groups)
        })
        .await;
        fs::remove_dir(&defaults).unwrap();
    }
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_run_without_its_group_fails_with_the_remedy() {
    let _rights = [granted(VOLCANO_RBAC), granted(COSCHEDULING_RBAC)];
    let namespace = Namespace::new("gang-refused").await;
    let reviewed = reviewed();
    let _operator = with_gangs(&namespace).start().await;
    an_unknown_batch_scheduler_is_refused_at_once(&namespace);
    drop(reviewed);
    for (scheduler, kind, help) in [
        ("volcano", "PodGroup.scheduling.volcano.sh", "install Volcano, or take batchScheduler out"),
        (
            "coscheduler",
            "PodGroup.scheduling.x-k8s.io",
            "install the definitions of scheduler-plugins, or take",
        ),
    ] {
        namespace.apply(&of_scheduler(scheduler));
        let why = namespace.failure("pi").await;
        assert!(why.starts_with(&format!("failed to create {kind} ")) && why.contains(help), "{why}");
        namespace.delete::<SparkApplication>("pi").await;
    }

    // Once the missing CRD is installed, the next attempt finds it.
    let mut waiting = of_scheduler("volcano");
    waiting["spec"]["restartPolicy"] = json!({
        "type": "OnFailure", "onSubmissionFailureRetries": 100, "onSubmissionFailureRetryInterval": 1,
    });
    namespace.apply(&waiting);
    namespace.reaches("pi", "SUBMISSION_FAILED").await;
    let definitions = group_definitions();
    namespace.reaches("pi", "SUBMITTED").await;
    assert_eq!(groups(&namespace, VOLCANO).len(), 1);
    namespace.delete::<SparkApplication>("pi").await;

    // The group that a deleted application has left is replaced: there is no garbage collector in this cluster, and
    // elsewhere the garbage collector may be slow.
    assert_eq!(groups(&namespace, VOLCANO).len(), 1);
    namespace.apply(&of_scheduler("volcano"));
    namespace.reaches("pi", "SUBMITTED").await;
    let owner = &groups(&namespace, VOLCANO)[0]["metadata"]["ownerReferences"][0]["uid"];
    assert_eq!(*owner, namespace.application("pi").await["metadata"]["uid"]);
    namespace.delete::<SparkApplication>("pi").await;

    // A group of another owner, here of another application, is left alone.
    let mut other = of_scheduler("volcano");
    other["metadata"]["name"] = json!("other");
    other["spec"]["suspend"] = json!(true);
    namespace.apply(&other);
    let owner = json!({
        "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication", "name": "other",
        "uid": namespace.application("other").await["metadata"]["uid"],
    });
    let foreign = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "spark-pi-pg", "ownerReferences": [owner]}, "spec": {"minMember": 7},
    });
    eventually("the group of the deleted application can be replaced", async || {
        // There is no garbage collector in this cluster.
        namespace.kubectl(&["delete", VOLCANO, "--all"]);
        try_kubectl_with(&foreign, &["create", "--namespace", namespace.name, "-f", "-"]).map(drop)
    })
    .await;
    namespace.apply(&of_scheduler("volcano"));
    let why = namespace.failure("pi").await;
    let taken =
        "PodGroup.scheduling.volcano.sh spark-pi-pg already exists and is not this application's: delete it";
    assert_eq!(why, taken);
    assert_eq!(groups(&namespace, VOLCANO)[0]["spec"]["minMember"], 7);
    drop(definitions);
}

/// Needs an operator that reviews applications. Other refusals are in `tests/data/gang`.
fn an_unknown_batch_scheduler_is_refused_at_once(namespace: &Namespace) {
    let tried = |object: &Value| calls::tried_in(namespace.name, object);
    let refused = tried(&of_scheduler("volcno")).unwrap_err();
    let why = "spec.batchScheduler: the operator knows no batch scheduler `volcno`: write one of volcano, yunikorn, coscheduler, kube-scheduler, or have \
               the administrator add the name to --kube-scheduler-names";
    assert!(refused.contains(why), "{refused}");
    tried(&of_scheduler("coscheduler")).unwrap();
    let refused = tried(&scheduled("pi", "@daily", &of_scheduler("volcno"))).unwrap_err();
    assert!(refused.contains(&why.replace("spec.", "spec.template.")), "{refused}");
}

/// This cluster is too old for Kubernetes' own gangs; `soak::placeholders` tests them with a newer one.
async fn kubernetes_own_gangs_fail_with_the_required_kubernetes_version(namespace: &Namespace) {
    namespace.apply(&of_scheduler("kubernetes"));
    let why = namespace.failure("pi").await;
    let needed = "spec.batchScheduler: kubernetes: the cluster has no PodGroups of scheduling.k8s.io: it needs Kubernetes 1.36 or later";
    assert!(why.starts_with(needed), "{why}");
    assert_eq!(namespace.list::<Pod>().await, Vec::<Value>::new());
}

/// Needs an operator that reviews applications.
pub(super) async fn computed_requests_equal_those_of_the_drivers_of_all_examples(namespace: &Namespace) {
    let mut compared = 0;
    for entry in fs::read_dir("manifests/examples").unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for mut example in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
            if example["kind"] != "SparkApplication" {
                continue;
            }
            example["metadata"]["namespace"] = json!(namespace.name);
            let name = example["metadata"]["name"].as_str().unwrap().to_owned();
            namespace.apply(&example);
            let submitted = namespace.reaches(&name, "SUBMITTED").await;
            let typed = serde_json::from_value(submitted.clone()).unwrap();
            let expected = PodRequests::of(&validate(&typed).unwrap(), "", "sums").unwrap();
            let driver = submitted["status"]["driverInfo"]["podName"].as_str().unwrap();
            let driver = namespace.pod(driver).await.expect(&name);
            let driver = PodClaim::of(serde_json::from_value(driver).unwrap());
            assert_eq!(driver.requests(), expected.driver.claim.requests(), "{name}");
            compared += 1;
        }
    }
    assert!(compared > 10, "{compared}");
}

/// The scheduler binds whole groups only. At the end it also schedules the example of each batch scheduler.
async fn two_of_three_applications_run_at_once_if_two_groups_fit(volcano: &Namespace) {
    const CORES_OF_A_GROUP: i128 = 3;
    let yunikorn = volcano.beside("gang-whole-yunikorn").await;
    let coscheduling = volcano.beside("gang-whole-coscheduling").await;
    for (namespace, name, reads) in [
        (volcano, "volcano", Reads::Volcano),
        (&yunikorn, "yunikorn", Reads::YuniKorn),
        (&coscheduling, "kube-scheduler", Reads::Coscheduling),
    ] {
        // One core remains, which is too little for a third group.
        let mut scheduler = GroupScheduler::new(namespace, name, reads, 2 * CORES_OF_A_GROUP + 1);
        for number in 1..=3 {
            let mut application = of_scheduler(name);
            application["metadata"]["name"] = json!(format!("pi-{number}"));
            namespace.apply(&application);
        }
        let mut most = 0;
        eventually(&format!("all applications of {name} are COMPLETED"), async || {
            scheduler.schedule().await;
            most = most.max(play_bound_pods(namespace).await);
            all_are_completed(namespace).await
        })
        .await;
        assert_eq!(most, 2, "{name}");

        let mut example: Value = yaml(Path::new(&format!("manifests/examples/spark-pi-{name}.yaml")));
        example["metadata"]["namespace"] = json!(namespace.name);
        namespace.apply(&example);
        eventually(&format!("the example of {name} is COMPLETED"), async || {
            scheduler.schedule().await;
            play_bound_pods(namespace).await;
            all_are_completed(namespace).await
        })
        .await;
    }
}

async fn all_are_completed(namespace: &Namespace) -> Result<(), String> {
    let applications = namespace.list::<SparkApplication>().await;
    let states = applications.iter().map(|application| &application["status"]["applicationState"]["state"]);
    seen(states.clone().all(|state| state == "COMPLETED"), states.collect::<Vec<_>>())
}

/// Plays kubelet and Spark for all bound pods: a driver creates its two executors, and ends once both are bound.
/// Returns the number of bound drivers that have not ended.
async fn play_bound_pods(namespace: &Namespace) -> usize {
    let mut pods = namespace.list::<Pod>().await;
    pods.retain(|pod| pod["spec"]["nodeName"].is_string() && !has_ended(pod));
    let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
    let (drivers, executors): (Vec<_>, Vec<_>) =
        pods.into_iter().partition(|pod| pod["metadata"]["labels"]["spark-role"] == "driver");
    for driver in &drivers {
        if driver["status"]["phase"] == "Pending" {
            kubelet::runs(namespace, &name(driver)).await;
            for id in 1..=2 {
                make_executor(namespace, driver, id).await;
            }
        }
        let is_its = |pod: &&Value| pod["metadata"]["ownerReferences"][0]["uid"] == driver["metadata"]["uid"];
        let its: Vec<_> = executors.iter().filter(is_its).collect();
        if its.len() == 2 {
            for pod in its.into_iter().chain([driver]) {
                kubelet::ends(namespace, &name(pod), 0).await;
            }
        }
    }
    drivers.len()
}

/// Returns an application with two executors.
pub(crate) fn of_scheduler(scheduler: &str) -> Value {
    let mut pi = application("pi");
    pi["spec"]["batchScheduler"] = json!(scheduler);
    pi["spec"]["executor"] = json!({"instances": 2});
    pi
}

fn with_gangs(namespace: &Namespace) -> Setup<'_> {
    Operator::with(namespace).argument(ENABLED).argument(NAMED)
}

/// Returns the objects of a kind that is given as kubectl takes it: `podgroups.scheduling.volcano.sh`.
pub(crate) fn groups(namespace: &Namespace, kind: &str) -> Vec<Value> {
    calls::get(&path(namespace, kind)).expect(kind)["items"].as_array().unwrap().clone()
}

fn path(namespace: &Namespace, kind: &str) -> String {
    let (resource, group) = kind.split_once('.').unwrap();
    let group = calls::get(&format!("/apis/{group}")).expect(group);
    let mut versions =
        group["versions"].as_array().unwrap().iter().map(|version| version["groupVersion"].as_str().unwrap());
    // The group's preferred version may lack the resource: `scheduling.k8s.io/v1` has only priority classes.
    let has_resource = |version: &&str| {
        let resources = calls::get(&format!("/apis/{version}")).expect(version);
        resources["resources"].as_array().unwrap().iter().any(|it| it["name"] == resource)
    };
    let version = versions.find(has_resource).expect(kind);
    format!("/apis/{version}/namespaces/{}/{resource}", namespace.name)
}
