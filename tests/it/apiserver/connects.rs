//! Tests the operator's effects on SparkConnects at an API server; the test plays the kubelet. The decisions are tested
//! in `tests/it/connect.rs`.

use crate::apiserver::prelude::*;
use k8s_openapi::api::{discovery::v1::EndpointSlice, networking::v1::NetworkPolicy};

/// The maximum number of write requests until a server is ready: three objects, a pod, three statuses and two events,
/// and two more, because a watch may report changes late.
const MOST_CHANGES: usize = 11;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn connect_servers_are_created_recreated_and_taken_over_from_kubeflow() {
    let namespace = Namespace::new("connect").await;
    let kubeflow = namespace.beside("connect-kubeflow").await;
    let kubeflows = kubeflow_has_created_a_server(&kubeflow).await;
    let proxy = Proxy::start().await;
    let operator = Operator::with(&namespace).through(&proxy).start().await;
    a_server_becomes_ready_with_few_writes_and_is_recreated_after_an_edit(&namespace, &proxy).await;
    a_server_of_kubeflows_operator_is_kept_until_its_spec_is_edited(&kubeflow, &kubeflows).await;
    let deleted = namespace.beside("connect-deleted").await;
    objects_of_a_deleted_server_do_not_block_the_next_one(&deleted).await;
    let killed = namespace.beside("connect-killed").await;
    a_killed_server_is_recreated(&killed, operator).await;
}

async fn a_server_becomes_ready_with_few_writes_and_is_recreated_after_an_edit(
    namespace: &Namespace,
    proxy: &Proxy,
) {
    namespace.apply(&notebook(json!({})));
    let first = uid(&namespace.there::<Pod>("notebook-server").await);
    let connect = namespace.get::<SparkConnect>("notebook").await.unwrap();
    is_owned::<Pod>(namespace, "notebook-server", &connect).await;
    is_owned::<ConfigMap>(namespace, "notebook-conf", &connect).await;
    is_owned::<NetworkPolicy>(namespace, "notebook-server", &connect).await;
    let service = is_owned::<Service>(namespace, "notebook-server", &connect).await;
    assert_eq!(service["spec"]["selector"][label::CONNECT_NAME], "notebook");
    let ports: Vec<_> =
        service["spec"]["ports"].as_array().unwrap().iter().map(|port| &port["port"]).collect();
    assert_eq!(ports, [7078, 7079, 4040, 15002].map(|port| json!(port)).iter().collect::<Vec<_>>());

    is_ready(namespace, "10.0.0.7").await;
    let status = becomes(namespace, "Ready").await;
    assert_eq!(
        status["server"],
        json!({"podName": "notebook-server", "podIp": "10.0.0.7", "serviceName": "notebook-server"})
    );
    // If something were written twice, it would have been by now.
    sleep(2 * A_WHILE).await;
    let made = proxy.writes_in(namespace.name);
    assert!(made.len() <= MOST_CHANGES, "{made:?}");

    // Objects that somebody deletes or edits are restored.
    namespace.delete::<Service>("notebook-server").await;
    namespace.there::<Service>("notebook-server").await;
    namespace.merge::<ConfigMap>("notebook-conf", &json!({"data": {"executor-pod-template.yaml": "none"}}));
    let is_restored =
        |there: &Value| there.is_object() && there["data"]["executor-pod-template.yaml"] != "none";
    namespace.until::<ConfigMap>("notebook-conf", "is restored", is_restored).await;

    namespace.merge::<SparkConnect>("notebook", &json!({"spec": {"server": {"cores": 2}}}));
    let second = another(namespace, &first).await;
    assert_eq!(second["metadata"]["ownerReferences"][0]["uid"], connect["metadata"]["uid"]);
    namespace.merge::<SparkConnect>("notebook", &json!({"spec": {"server": {"access": "Cluster"}}}));
    namespace.is_gone::<NetworkPolicy>("notebook-server").await;
    assert_eq!(
        uid(&namespace.pod("notebook-server").await.unwrap()),
        uid(&second),
        "a change of the access needs no new pod"
    );
    for reason in ["SparkConnectProvisioning", "SparkConnectReady", "SparkConnectEdited"] {
        namespace.has_event(reason, |_| true).await;
    }
}

async fn a_killed_server_is_recreated(namespace: &Namespace, operator: Operator) {
    namespace.apply(&notebook(json!({})));
    let first = uid(&namespace.there::<Pod>("notebook-server").await);
    let scheduled =
        json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    kubelet::cannot_mount(namespace, "notebook-server").await;
    kubelet::says(namespace, "notebook-server", &json!({"conditions": scheduled})).await;
    let says = |there: &Value| {
        let status = &there["status"];
        status["conditions"][0]["reason"] == "FailedMount" && status["state"] == "Provisioning"
    };
    namespace.until::<SparkConnect>("notebook", "says why volumes are not mounted", says).await;
    is_ready(namespace, "10.0.0.7").await;
    becomes(namespace, "Ready").await;
    kubelet::ends(namespace, "notebook-server", 137).await;
    let status = becomes(namespace, "NotReady").await;
    assert_eq!((&status["restarts"], &status["lastFailure"]["exitCode"]), (&json!(1), &json!(137)));
    namespace.has_event("SparkConnectFailed", |_| true).await;
    // The next operator restarts the server after the operator has crashed.
    operator.kill();
    let _operator = Operator::start(namespace).await;
    another(namespace, &first).await;
    becomes(namespace, "Provisioning").await;
    namespace.has_event("SparkConnectRestarted", |_| true).await;
}

/// Creates a SparkConnect and the objects of Kubeflow's operator for it. Returns the uid of the server's pod.
async fn kubeflow_has_created_a_server(namespace: &Namespace) -> String {
    namespace.apply(&notebook(json!({})));
    let connect = namespace.get::<SparkConnect>("notebook").await.unwrap();
    let text = fs::read_to_string(data("apiserver/kubeflows-server.yaml")).unwrap();
    for object in serde_saphyr::from_multiple::<Value>(&text.replace("{uid}", &uid(&connect))).unwrap() {
        namespace.apply(&object);
    }
    is_ready(namespace, "10.0.0.7").await;
    namespace.patch_status::<SparkConnect>("notebook", &json!({"state": "Ready"})).await;
    uid(&namespace.pod("notebook-server").await.unwrap())
}

async fn a_server_of_kubeflows_operator_is_kept_until_its_spec_is_edited(
    namespace: &Namespace,
    kubeflows: &str,
) {
    let of_every_version =
        json!({"spec": {"selector": {"spark-version": null, "spark-role": "connect-server"}}});
    namespace.has::<Service>("notebook-server", &of_every_version).await;
    let recorded = json!({"status": {"server": {"podIp": "10.0.0.7"}, "state": "Ready"}});
    namespace.has::<SparkConnect>("notebook", &recorded).await;
    sleep(A_WHILE).await;
    assert_eq!(uid(&namespace.pod("notebook-server").await.unwrap()), kubeflows);
    namespace.merge::<SparkConnect>("notebook", &json!({"spec": {"sparkConf": {"spark.a": "b"}}}));
    another(namespace, kubeflows).await;
}

/// This cluster has no garbage collector, so the objects of a deleted SparkConnect remain. The next SparkConnect of the
/// same name must not become Failed: a program that waits for it, such as Kubeflow's SDK, would give up.
async fn objects_of_a_deleted_server_do_not_block_the_next_one(namespace: &Namespace) {
    namespace.apply(&notebook(json!({})));
    let first = uid(&namespace.there::<Pod>("notebook-server").await);
    namespace.delete::<SparkConnect>("notebook").await;
    namespace.merge::<Pod>("notebook-server", &json!({"metadata": {"labels": {"a": "b"}}}));
    sleep(A_WHILE).await;
    assert_eq!(
        uid(&namespace.pod("notebook-server").await.unwrap()),
        first,
        "only the garbage collector deletes the pod"
    );

    namespace.apply(&notebook(json!({})));
    let connect = namespace.get::<SparkConnect>("notebook").await.unwrap();
    sleep(A_WHILE).await;
    namespace.delete::<Pod>("notebook-server").await;
    namespace.delete::<Service>("notebook-server").await;
    namespace.delete::<NetworkPolicy>("notebook-server").await;
    namespace.delete::<ConfigMap>("notebook-conf").await;
    another(namespace, &first).await;
    is_owned::<Service>(namespace, "notebook-server", &connect).await;
    is_owned::<Pod>(namespace, "notebook-server", &connect).await;
    let told = namespace.events().await;
    assert!(!told.iter().any(|[_, reason, ..]| reason == "SparkConnectFailed"), "{told:?}");
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn clients_of_a_server_that_may_sleep_are_routed_to_the_gateway() {
    const POLICY: &str =
        "/apis/networking.k8s.io/v1/namespaces/spark-operator/networkpolicies/spark-operator-connect-ports";
    const GATEWAY: &str = "/api/v1/namespaces/spark-operator/pods/gateway";
    let namespace = Namespace::new("connect-gateway").await;
    let _granted = granted("manifests/rbac/connect-ports.yaml");
    calls::delete(POLICY);
    calls::delete(GATEWAY);
    calls::apply(&yaml(&data("apiserver/gateway.yaml")), Some(NAMESPACE));
    calls::merge(&format!("{GATEWAY}/status"), &json!({"status": ready("10.0.0.8")}));
    let operator = Operator::with(&namespace).argument("--connect-gateway");
    let _operator = operator.argument("--connect-gateway-port-range=20000-20001").start().await;
    namespace.apply(&notebook(json!({"sleepAfterIdleSeconds": 3600})));
    namespace.there::<Pod>("notebook-server").await;
    is_ready(&namespace, "10.0.0.7").await;
    let status = becomes(&namespace, "Ready").await;
    assert_eq!(status["gateway"]["port"], 20_000);
    assert_eq!(namespace.get::<Service>("notebook-server").await.unwrap()["spec"]["selector"], Value::Null);
    for (name, address, port) in
        [("notebook-server-gateway", "10.0.0.8", 20_000), ("notebook-server-direct", "10.0.0.7", 7078)]
    {
        let slice = namespace.there::<EndpointSlice>(name).await;
        assert_eq!(slice["endpoints"][0]["addresses"], json!([address]), "{name}");
        assert_eq!(slice["ports"][0]["port"], port, "{name}");
    }
    eventually("the NetworkPolicy lets clients connect to the port", async || {
        let policy = calls::get(POLICY).ok_or_else(|| "there is none".to_owned())?;
        let rule = &policy["spec"]["ingress"][0];
        let from = &rule["from"][0]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"];
        seen(rule["ports"][0]["port"] == 20_000 && *from == "connect-gateway", &policy)
    })
    .await;

    let awake = json!({"spec": {"sleepAfterIdleSeconds": null, "ttlSecondsAfterIdle": null}});
    namespace.merge::<SparkConnect>("notebook", &awake);
    namespace.is_gone::<EndpointSlice>("notebook-server-gateway").await;
    let to_the_server = json!({"spec": {"selector": {"spark-role": "connect-server"}}});
    namespace.has::<Service>("notebook-server", &to_the_server).await;

    // Nobody has connected for years.
    let long_ago = "2020-01-01T00:00:00Z";
    namespace.merge::<SparkConnect>("notebook", &json!({"spec": {"ttlSecondsAfterIdle": 3600}}));
    let is_seen =
        |connect: &Value| connect["status"]["observedGeneration"] == connect["metadata"]["generation"];
    let mut connect = namespace.until::<SparkConnect>("notebook", "is reconciled", is_seen).await;
    let mut conditions = connect["status"]["conditions"].take();
    for condition in conditions.as_array_mut().unwrap() {
        condition["lastTransitionTime"] = json!(long_ago);
    }
    let idle = json!({"startTime": long_ago, "lastRestartTime": long_ago, "conditions": conditions});
    namespace.patch_status::<SparkConnect>("notebook", &idle).await;
    namespace.is_gone::<SparkConnect>("notebook").await;
    namespace.has_event("SparkConnectDeleted", |_| true).await;
    calls::delete(GATEWAY);
}

/// Returns the smallest SparkConnect, with these fields in its spec.
fn notebook(spec: Value) -> Value {
    let mut notebook = connect("notebook");
    json_patch::merge(&mut notebook["spec"], &spec);
    notebook
}

/// Returns the status of a ready pod.
fn ready(address: &str) -> Value {
    json!({
        "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": "True"}],
    })
}

async fn is_ready(namespace: &Namespace, address: &str) {
    kubelet::says(namespace, "notebook-server", &ready(address)).await;
}

/// Waits until the SparkConnect is in this state, and returns its status.
async fn becomes(namespace: &Namespace, state: &str) -> Value {
    namespace.has::<SparkConnect>("notebook", &json!({"status": {"state": state}})).await["status"].take()
}

/// Waits for a server's pod that is not the one with this uid, and returns it.
async fn another(namespace: &Namespace, before: &str) -> Value {
    let is_another = |pod: &Value| pod.is_object() && pod["metadata"]["uid"] != before;
    namespace.until::<Pod>("notebook-server", "is another server", is_another).await
}

/// Waits until there is an object that `connect` controls, and returns it.
async fn is_owned<K: Ours>(namespace: &Namespace, name: &str, connect: &Value) -> Value {
    let is_owned = |there: &Value| {
        let owner = &there["metadata"]["ownerReferences"][0];
        owner["uid"] == connect["metadata"]["uid"] && owner["controller"] == true
    };
    namespace.until::<K>(name, "belongs to the SparkConnect", is_owned).await
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}
