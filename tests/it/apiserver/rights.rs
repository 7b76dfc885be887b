//! Proves that an operator needs, and uses, no rights but those that its flags require, that several installations can
//! run in one cluster, and that a user cannot expose a driver without the rights to do so.

use super::{
    installation::is_not_ready,
    kubectl::kubectl_reads,
    namespace::{call_locally, review_pods_only},
    operator::{BESIDE, METRICS},
};
use crate::apiserver::prelude::*;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_operator_of_listed_namespaces_needs_and_uses_no_rights_in_others() {
    let namespace = Namespace::new("rights").await;
    let (another, elsewhere) = (namespace.beside("rights-b").await, namespace.beside("rights-other").await);
    let _no_other = no_other_installation();
    let team = Installation::begin("team-a", "rights,rights-b", WEBHOOK_PORT);
    let proxy = Proxy::start().await;
    let operator = team.operator(&namespace).through(&proxy).start().await;
    for place in [&elsewhere, &another] {
        place.apply(&connect("notebook"));
        place.apply(&application("pi"));
    }
    namespace.apply(&application("pi"));
    for place in [&namespace, &another] {
        place.reaches("pi", "SUBMITTED").await;
    }
    another.there::<Pod>("notebook-server").await;
    assert_eq!(elsewhere.application("pi").await["status"], Value::Null);
    assert_eq!(elsewhere.list::<Pod>().await, Vec::<Value>::new());

    let ours = ["rights", "rights-b", "spark-operator"].map(|name| format!("/namespaces/{name}/"));
    let by_name = [
        "/customresourcedefinitions/", "webhookconfigurations/team-a-webhook",
        "metadata.name%3Dteam-a-webhook",
    ];
    // Every account may query its own rights and the version of Kubernetes.
    let open_to_all = ["/selfsubject", "/version"];
    let paths: BTreeSet<_> = proxy.requests().into_iter().map(|(_, uri)| uri.to_string()).collect();
    let others: Vec<_> = paths
        .iter()
        .filter(|path| !ours.iter().any(|ours| path.contains(ours)))
        .filter(|path| !by_name.iter().chain(&open_to_all).any(|part| path.contains(part)))
        .collect();
    assert!(others.is_empty(), "{others:#?}");
    assert!(paths.len() > 30, "the operator's requests go through the proxy: {paths:#?}");
    operator.stop().await;
}

/// A tenant may delete its namespace, and with it the operator's Role in this namespace.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_namespace_without_rights_delays_no_other_namespace() {
    let namespace = Namespace::new("rights").await;
    let another = namespace.beside("rights-b").await;
    let _no_other = no_other_installation();
    let team = Installation::begin("team-a", "rights,rights-b", WEBHOOK_PORT);
    let withdraw = ["delete", "rolebinding", "team-a-applications", "--namespace"];
    kubectl(&[&withdraw[..], &["rights-b"]].concat());
    let operator = team.operator(&namespace).start().await;
    namespace.apply(&application("pi"));
    namespace.reaches("pi", "SUBMITTED").await;
    operator.has_logged("no application is driven in a namespace without permissions").await;
    operator.has_logged("not watched until the namespace can be listed").await;

    // The operator begins to work in the namespace when it gets the rights, without a restart.
    another.apply(&application("tau"));
    team.apply(&["rbac"]);
    another.reaches("tau", "SUBMITTED").await;
    operator.stop().await;

    for place in ["rights", "rights-b"] {
        kubectl(&[&withdraw[..], &[place]].concat());
    }
    let operator = team.operator(&namespace).spawn();
    let helps = "run: spark-operator manifests rbac --installation=team-a --namespaces=rights,rights-b | kubectl apply";
    is_not_ready(&operator, "permissions", &["create pods in namespace rights-b", helps]).await;
}

/// Two operators may be configured for the same namespace. They start no run twice, and an event reports a run that one
/// of them continues and the other has submitted.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn two_installations_start_each_run_once_and_report_each_other() {
    let namespace = Namespace::new("rights").await;
    let another = namespace.beside("rights-b").await;
    let _no_other = no_other_installation();
    let a = Installation::begin("team-a", "rights", WEBHOOK_PORT);
    let first = a.operator(&namespace).elected().start().await;
    namespace.apply(&application("pi"));
    namespace.reaches("pi", "SUBMITTED").await;
    let b = Installation::begin("team-b", "rights,rights-b", WEBHOOK_PORT + BESIDE);
    let second = b.operator(&namespace).beside().elected().spawn();
    eventually("the second operator leads too, and is ready", async || {
        let leads = second.metric("leader_election_master_status{name=\"team-b-lock\"}").await?;
        let (status, why) = second.get(HEALTH, "/readyz").await?;
        seen(leads == 1.0 && status == 200, (leads, why))
    })
    .await;
    another.apply(&application("tau"));
    another.reaches("tau", "SUBMITTED").await;
    for i in 0..5 {
        namespace.apply(&application(&format!("pi-{i}")));
    }
    for i in 0..5 {
        namespace.reaches(&format!("pi-{i}"), "SUBMITTED").await;
    }
    // One installation is removed, and the other continues.
    drop(a);
    first.stop().await;
    another.apply(&application("ypsilon"));
    another.reaches("ypsilon", "SUBMITTED").await;
    let (status, body) = second.get(HEALTH, "/readyz").await.unwrap();
    assert_eq!(status, 200, "{body}");
    let running = namespace.runs("pi").await;
    assert_eq!(running["status"]["runs"][0]["operator"], "spark-operator/team-a");
    let says = "SparkApplication pi was submitted by the operator spark-operator/team-a, and spark-operator/team-b now follows it: ";
    let is_it = |event: &Value| event["note"].as_str().is_some_and(|note| note.starts_with(says));
    namespace.has_event("SubmittedByAnotherOperator", is_it).await;
    assert_eq!(namespace.drivers_ever().await.len(), 6);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_user_without_the_right_gets_no_ingress_through_an_application() {
    let namespace = Namespace::new("rights").await;
    let _reviewed = reviewed();
    let operator = Operator::start(&namespace).await;
    let alice = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"});
    let applications = &["sparkapplications", "scheduledsparkapplications"][..];
    let rights = [("sparkoperator.k8s.io", applications, &["*"][..])];
    calls::grant("alice-applications", Some(namespace.name), &alice, &rights);
    let create = ["create", "--namespace", namespace.name, "--as=alice", "-f", "-"];
    let exposed = |name: &str, field: &str, options: Value| {
        let mut application = application(name);
        application["spec"][field] = options;
        application
    };
    let inside = || exposed("inside", "sparkUIOptions", json!({"servicePort": 80}));
    let balanced = |name: &str| exposed(name, "sparkUIOptions", json!({"serviceType": "LoadBalancer"}));
    let at = |name: &str, host: &str| {
        let port = json!({"servicePort": 4040, "servicePortName": "ui", "ingressURLFormat": host});
        exposed(name, "driverIngressOptions", json!([port]))
    };
    eventually("alice may create applications", async || try_kubectl_with(&inside(), &create)).await;
    // An earlier run of this test may have given alice the right (see below).
    namespace.kubectl(&["delete", "rolebinding", "alice-ingresses", "--ignore-not-found"]);
    calls::until_may_create(false, "alice", "ingresses.networking.k8s.io", namespace.name).await;
    for (application, field, resource, kind) in [
        (
            at("outside", "login.example.com"),
            "driverIngressOptions[0].ingressURLFormat",
            "ingresses",
            "ingresses.networking.k8s.io",
        ),
        (balanced("outside"), "sparkUIOptions.serviceType", "services", "services"),
    ] {
        let refused = try_kubectl_with(&application, &create).unwrap_err();
        let why = format!(
            "spec.{field}: user `alice` may not create {resource} in namespace rights: leave the field out, have an admin grant \
             that right (kubectl create role create-{resource} --namespace=rights --verb=create --resource={kind}; kubectl create \
             rolebinding create-{resource}-alice --namespace=rights --role=create-{resource} --user=alice), or have the operator \
             warn only (--check-exposure-rights=warn)"
        );
        assert!(refused.trim_end().ends_with(&why), "{refused}");
    }
    let nightly = scheduled("nightly", "@every 1h", &at("x", "login.example.com"));
    let refused = try_kubectl_with(&nightly, &create).unwrap_err();
    assert!(
        refused.contains("spec.template.driverIngressOptions[0].ingressURLFormat: user `alice`"),
        "{refused}"
    );

    // An admin may expose the application, and alice may edit it as long as it stays exposed in the same way.
    namespace.apply(&at("outside", "login.example.com"));
    let edit = |patch: Value| {
        let patch = patch.to_string();
        let patch = ["patch", "sparkapplication", "outside", "--type=merge", "--as=alice", "--patch", &patch];
        try_kubectl_with(&Value::Null, &[&patch[..], &["--namespace", namespace.name]].concat())
    };
    edit(json!({"spec": {"arguments": ["10"]}})).unwrap();
    let other = &at("outside", "www.example.com")["spec"]["driverIngressOptions"];
    let refused = edit(json!({"spec": {"driverIngressOptions": other}})).unwrap_err();
    assert!(refused.contains("may not create ingresses"), "{refused}");

    let rights = [("networking.k8s.io", &["ingresses"][..], &["*"][..])];
    calls::grant("alice-ingresses", Some(namespace.name), &alice, &rights);
    eventually("alice may create Ingresses", async || {
        try_kubectl_with(&at("hers", "hers.example.com"), &create)
    })
    .await;
    operator.stop().await;

    let operator = Operator::with(&namespace).argument("--check-exposure-rights=warn").start().await;
    let created = run("kubectl", &create, &balanced("balanced").to_string());
    let said = String::from_utf8_lossy(&created.stderr);
    let warning =
        "Warning: spec.sparkUIOptions.serviceType: `alice` may not create services (--check-exposure-rights)";
    assert!(created.status.success() && said.lines().any(|line| line == warning), "{said}");
    operator.stop().await;
}

/// The Pod Security level `restricted` admits the pods of the examples `spark-pi` and `spark-connect`. Needs an
/// operator. Submission pods are tested in `node::submission_pods`, and the operator's own namespace has this level.
pub(super) async fn restricted_pod_security_admits_all_pods_and_all_ports_are_open(namespace: &Namespace) {
    let level = "pod-security.kubernetes.io/enforce=restricted";
    kubectl(&["label", "namespace", namespace.name, level]);
    let privileged = plain_pod(&json!({"name": "any"}));
    let create = ["create", "--dry-run=server", "--namespace", namespace.name, "-f", "-"];
    let refused = try_kubectl_with(&privileged, &create).unwrap_err();
    assert!(refused.contains("violates PodSecurity"), "{refused}");

    every_port_is_open_for_both_families().await;
    let mut example = documents("manifests/examples/spark-pi.yaml")[0].clone();
    example["metadata"]["namespace"] = json!(namespace.name);
    namespace.apply(&example);
    namespace.reaches("spark-pi", "SUBMITTED").await;
    let template = namespace.list::<ConfigMap>().await.iter().find_map(|config_map| {
        let template = config_map["data"]["podspec-configmap-key"].as_str()?;
        serde_saphyr::from_str::<Value>(template).ok()
    });
    let mut executor = template.expect("there is a template for executors");
    executor["metadata"]["name"] = json!("executor");
    executor["metadata"]["namespace"] = json!(namespace.name);
    executor["metadata"]["labels"]["spark-role"] = json!("executor");
    executor["spec"]["containers"][0]["image"] = json!("none");
    kubectl_with(&executor, &create);

    let mut example = documents("manifests/examples/spark-connect.yaml")[0].clone();
    example["metadata"]["namespace"] = json!(namespace.name);
    namespace.apply(&example);
    namespace.there::<Pod>("spark-connect-server").await;
    let template = namespace.get::<ConfigMap>("spark-connect-conf").await.unwrap();
    let template = template["data"]["executor-pod-template.yaml"].as_str().unwrap();
    let mut executor: Value = serde_saphyr::from_str(template).unwrap();
    executor["metadata"]["name"] = json!("executor-of-server");
    executor["spec"]["containers"][0]["image"] = json!("none");
    kubectl_with(&executor, &create);
}

async fn every_port_is_open_for_both_families() {
    for port in [HEALTH, METRICS, WEBHOOK_PORT] {
        for host in ["127.0.0.1", "::1"] {
            let connected = tokio::net::TcpStream::connect((host, port)).await;
            assert!(connected.is_ok(), "{host} port {port}: {connected:?}");
        }
    }
}

/// Keeps the API server from calling the webhook of the other tests' installation, which covers all namespaces, while the
/// returned value exists.
pub(crate) fn no_other_installation() -> Finally {
    calls::delete(&webhooks("mutatingwebhookconfiguration", WEBHOOK));
    Finally::new(|| {
        calls::apply_manifests("manifests/webhook");
        call_locally("mutatingwebhookconfiguration", WEBHOOK, WEBHOOK_PORT, "/mutate");
        review_pods_only();
    })
}

/// An installation with a name, whose objects are deleted when this value is dropped.
struct Installation {
    name: &'static str,
    namespaces: &'static str,
}

impl Installation {
    /// Installs the manifests that the operator prints, and makes the API server call the webhook at `port` of
    /// localhost.
    fn begin(name: &'static str, namespaces: &'static str, port: u16) -> Self {
        let installation = Self { name, namespaces };
        installation.apply(&["rbac", "webhook"]);
        let webhook = format!("{name}-webhook");
        call_locally("mutatingwebhookconfiguration", &webhook, port, "/mutate");
        call_locally("validatingwebhookconfiguration", &webhook, port, "/validate");
        installation
    }

    fn apply(&self, parts: &[&str]) {
        kubectl_reads(&self.manifests(parts), &["apply", "-f", "-"]);
    }

    fn arguments(&self) -> [String; 2] {
        [format!("--installation={}", self.name), format!("--namespaces={}", self.namespaces)]
    }

    fn manifests(&self, parts: &[&str]) -> String {
        let flags = self.arguments();
        let arguments = [&["manifests"], parts, &flags.each_ref().map(String::as_str)].concat();
        program::printed(run(env!("CARGO_BIN_EXE_spark-operator"), &arguments, ""))
    }

    /// Returns the settings of an operator of this installation, with the rights of the installation's service account.
    fn operator<'a>(&self, namespace: &'a Namespace) -> Setup<'a> {
        let setup = Operator::with(namespace).account(self.name);
        self.arguments().iter().fold(setup, |setup, argument| setup.argument(argument))
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        // The namespace of the operator is not deleted, because other tests use it as well.
        let objects: Vec<Value> = serde_saphyr::from_multiple(&self.manifests(&["rbac", "webhook"])).unwrap();
        let own = objects.iter().filter(|object| object["kind"] != "Namespace");
        let list = json!({"apiVersion": "v1", "kind": "List", "items": own.collect::<Vec<_>>()});
        kubectl_with(&list, &["delete", "--ignore-not-found", "-f", "-"]);
    }
}
