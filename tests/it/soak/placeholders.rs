//! Proves that executors of Kubernetes' own gangs take the room of their placeholders, whenever the operator is killed,
//! and that it uses all rights that it has for them. The test plays scheduler, kubelet and driver.

use crate::apiserver::{
    gangs::{
        ENABLED, KUBERNETES, KUBERNETES_RBAC, VOLCANO_RBAC,
        group_scheduler::{bind, has_ended},
        groups, of_scheduler,
    },
    prelude::*,
    spark::make_executor,
};
use crate::audit::{Right, granted_with};
use futures::FutureExt;
use hyper::http::Method;

const KINDS: [&str; 2] = ["podgroups.scheduling.k8s.io", "workloads.scheduling.k8s.io"];

#[tokio::test]
#[ignore = "needs Kubernetes 1.36 or later: make soak"]
async fn an_operator_killed_around_any_write_still_replaces_each_placeholder() {
    let _rights = [granted(VOLCANO_RBAC), granted(KUBERNETES_RBAC)];
    let mut used = BTreeSet::new();
    for (method, path, says) in [
        ("POST", "/workloads", ""),
        ("POST", "/podgroups", ""),
        ("POST", "/pods", "placeholder-2"),
        ("POST", "/pods", "spark-kubernetes-driver"),
        ("PATCH", "exec-1/status", "nominatedNodeName"),
        ("DELETE", "placeholder-1", ""),
        ("PATCH", "exec-1", "schedulingGates"),
        ("DELETE", "/podgroups", ""),
    ] {
        for moment in [Moment::Before, Moment::After] {
            let namespace = Namespace::new("gang-kubernetes").await;
            let proxy = Proxy::start().await;
            let operator = with_gangs(&namespace).through(&proxy).start().await;
            let call = Call { method, path };
            let trap = proxy.hold_saying(says, call, moment);
            namespace.apply(&of_scheduler("kubernetes"));
            let mut caught = pin!(trap.caught());
            let held = eventually("the call is made", async || {
                let state = lives_on(&namespace).await;
                caught.as_mut().now_or_never().ok_or(format!("{state:?}"))
            })
            .await;
            operator.kill();
            held.close();
            let _operator = with_gangs(&namespace).through(&proxy).start().await;
            eventually("the application has ended and nothing of its gang is left", async || {
                lives_on(&namespace).await
            })
            .await;
            assert_eq!(namespace.drivers_ever().await.len(), 1, "{call:?} {moment:?}");
            used.extend(proxy.requests().iter().filter_map(|(method, uri)| right(method, uri.path())));
        }
    }
    let granted = |flags: &[&str]| granted_with(&[&[ENABLED], flags].concat());
    let granted = granted(&[KUBERNETES]).difference(&granted(&[])).cloned().collect::<BTreeSet<_>>();
    let unused: Vec<_> = granted.difference(&used).cloned().collect();
    assert!(!granted.is_empty() && unused.is_empty(), "granted by {KUBERNETES}, and not used: {unused:?}");
}

/// Returns the right that a request about one object in a namespace needs.
fn right(method: &Method, path: &str) -> Option<Right> {
    let (api, object) = path.split_once("/namespaces/")?;
    let group = api.strip_prefix("/apis/").and_then(|api| api.split('/').next()).unwrap_or_default();
    let parts: Vec<_> = object.split('/').skip(1).collect();
    let (resource, is_named) = match *parts {
        [resource] => (resource.to_owned(), false),
        [resource, _] => (resource.to_owned(), true),
        [resource, _, subresource] => (format!("{resource}/{subresource}"), true),
        _ => return None,
    };
    let verb = match (method.as_str(), is_named) {
        ("GET", true) => "get",
        ("POST", false) => "create",
        ("PATCH", true) => "patch",
        ("DELETE", true) => "delete",
        _ => return None,
    };
    Some((group.to_owned(), resource, verb.to_owned()))
}

/// Plays the next events. Returns `Ok` once the application has ended and nothing of its gang is left.
async fn lives_on(namespace: &Namespace) -> Result<(), String> {
    let pods = namespace.list::<Pod>().await;
    if pods.len() >= 3 {
        play(namespace, &pods).await;
    }
    let left = pods.iter().find(|pod| role(pod) == "placeholder").map(name);
    // Only the controller-manager, which this cluster does not have, completes the deletion of a PodGroup.
    let is_kept = |group: &&Value| group["metadata"]["deletionTimestamp"].is_null();
    let groups: Vec<_> = KINDS.iter().flat_map(|kind| groups(namespace, kind)).collect();
    let kept: Vec<_> = groups.iter().filter(is_kept).map(name).collect();
    let state = namespace.application("pi").await["status"]["applicationState"]["state"].clone();
    seen(state == "COMPLETED" && left.is_none() && kept.is_empty(), (state, left, kept))
}

/// Plays scheduler, kubelet and driver for these pods. Executors are placed only on the node to which they are nominated.
async fn play(namespace: &Namespace, pods: &[Value]) {
    let of = |wanted: &'static str| pods.iter().filter(move |pod| role(pod) == wanted);
    let is_placed = |pod: &Value| pod["spec"]["nodeName"].is_string();
    let driver = of("driver").next();
    // The first three pods are the gang: it is placed as a whole.
    for (number, pod) in of("placeholder").chain(driver).enumerate().filter(|(_, pod)| !is_placed(pod)) {
        bind(namespace, pod, &format!("node-{number}")).await;
        if role(pod) == "placeholder" {
            kubelet::runs(namespace, &name(pod)).await;
        }
    }
    for gone in of("placeholder").filter(|pod| pod["metadata"]["deletionTimestamp"].is_string()) {
        // An earlier call may have completed its deletion already.
        namespace.api::<Pod>().delete(&name(gone), &DeleteParams::default().grace_period(0)).await.ok();
    }
    let Some(driver) = driver.filter(|driver| is_placed(driver) && !has_ended(driver)) else { return };
    if driver["status"]["phase"] == "Pending" {
        kubelet::runs(namespace, &name(driver)).await;
    }
    for (id, text) in [(1, "1"), (2, "2")] {
        let has_id = |pod: &Value| pod["metadata"]["labels"]["spark-exec-id"] == text;
        if !of("executor").any(has_id) {
            let executor = make_executor(namespace, driver, id).await;
            let gates = &namespace.pod(&executor).await.unwrap()["spec"]["schedulingGates"];
            assert_eq!(gates[0]["name"], "sparkoperator.k8s.io/gang");
        }
    }
    for executor in of("executor").filter(|pod| !is_placed(pod) && pod["spec"]["schedulingGates"].is_null()) {
        let nominated = executor["status"]["nominatedNodeName"]
            .as_str()
            .expect("an executor without a gate is nominated");
        let is_its = |pod: &&Value| {
            pod["metadata"]["labels"]["spark-exec-id"] == executor["metadata"]["labels"]["spark-exec-id"]
        };
        assert_eq!(of("placeholder").find(is_its), None, "its placeholder is gone");
        bind(namespace, executor, nominated).await;
        kubelet::runs(namespace, &name(executor)).await;
    }
    if of("executor").filter(|pod| is_placed(pod)).count() == 2 {
        kubelet::ends(namespace, &name(driver), 0).await;
    }
}

fn with_gangs(namespace: &Namespace) -> Setup<'_> {
    Operator::with(namespace).argument(ENABLED).argument(KUBERNETES)
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

fn role(pod: &Value) -> &str {
    pod["metadata"]["labels"]["spark-role"].as_str().unwrap_or_default()
}
