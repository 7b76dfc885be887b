//! What does an admin hear of a cluster that is not set up for the operator?

use super::{
    applications::hopeless,
    eventually,
    kubectl::{kubectl, try_kubectl_with},
    namespace::Namespace,
    operator::{HEALTH, NAMESPACE, Operator, USER},
    seen,
};
use serde_json::{Value, json};

const APPLICATIONS: &str = "sparkapplications.sparkoperator.k8s.io";
const SCHEDULES: &str = "scheduledsparkapplications.sparkoperator.k8s.io";

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn every_verb_that_the_operators_account_lacks_is_named_by_readiness_and_log() {
    let namespace = Namespace::new("forbidden").await;
    let _restored = Restored("manifests/rbac");
    let role = |kind: &str, scope: &[&str]| -> Value {
        let get = [&["get", kind, "spark-operator", "--output=json"], scope].concat();
        serde_json::from_str(&kubectl(&get)).unwrap()
    };
    let patch = |kind: &str, scope: &[&str], rules: &[Value]| {
        // A rule without verbs is none.
        let rules: Vec<_> = rules.iter().filter(|rule| rule["verbs"] != json!([])).collect();
        let rules = json!({"rules": rules}).to_string();
        kubectl(&[&["patch", kind, "spark-operator", "--type=merge", "--patch", &rules], scope].concat());
    };
    // One verb is missing all the time: what is complete is looked at once a minute only.
    let (cluster, own) = (("clusterrole", &[][..]), ("role", &["--namespace", NAMESPACE][..]));
    let full = role(cluster.0, cluster.1);
    let (events, rest): (Vec<_>, Vec<_>) = full["rules"]
        .as_array()
        .unwrap()
        .iter()
        .cloned()
        .partition(|rule| rule["apiGroups"] == json!(["events.k8s.io"]));
    assert_eq!(events.len(), 1);
    patch(cluster.0, cluster.1, &rest);
    eventually("the API server has heard of it", async || {
        let question = ["auth", "can-i", "create", "events.events.k8s.io", "--as", USER];
        try_kubectl_with(&Value::Null, &question).err().map_or_else(|| Err("it may".to_owned()), |_| Ok(()))
    })
    .await;
    let operator = Operator::with(&namespace).candidate(4).spawn();
    let said = "the operator's account may not create events of API group events.k8s.io";
    is_not_ready(&operator, "permissions", &[said]).await;

    let mut missing = 1;
    for ((kind, scope), rules) in
        [(cluster, rest), (own, role(own.0, own.1)["rules"].as_array().unwrap().clone())]
    {
        for (i, rule) in rules.iter().enumerate() {
            for (j, verb) in rule["verbs"].as_array().unwrap().iter().enumerate() {
                let mut fewer = rules.clone();
                fewer[i]["verbs"].as_array_mut().unwrap().remove(j);
                patch(kind, scope, &fewer);
                for resource in rule["resources"].as_array().unwrap() {
                    let lacks = format!("{} {}", verb.as_str().unwrap(), resource.as_str().unwrap());
                    is_not_ready(&operator, "permissions", &["the operator's account may not ", &lacks])
                        .await;
                    let told = |line: &str| line.contains("not ready") && line.contains(&lacks);
                    assert!(operator.log().lines().any(told), "{lacks}");
                    missing += 1;
                }
            }
        }
        patch(kind, scope, &rules);
    }
    patch(cluster.0, cluster.1, full["rules"].as_array().unwrap());
    is_ready(&operator).await;
    assert_eq!(missing, 63);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn definitions_that_would_lose_what_is_written_are_told_with_the_command_that_helps() {
    let namespace = Namespace::new("other-definitions").await;
    let _restored = Restored("manifests/crds");
    let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
    let remove = json!([{"op": "remove", "path": format!("{status}/runOrdinal")}]).to_string();
    kubectl(&["patch", "crd", APPLICATIONS, "--type=json", "--patch", &remove]);

    let operator = Operator::with(&namespace).spawn();
    let command = "spark-operator crds | kubectl apply --server-side --force-conflicts --filename -";
    let said = [APPLICATIONS, "would drop status.runOrdinal; run: ", command];
    is_not_ready(&operator, "definitions", &said).await;
    namespace.apply(&hopeless("early"));
    // What it would write of a run would be lost, so it has not begun to look.
    is_not_ready(&operator, "caches", &["not yet"]).await;

    kubectl(&["delete", "crd", SCHEDULES]);
    kubectl(&[
        "apply",
        "--server-side",
        "--force-conflicts",
        "--filename",
        "manifests/crds/sparkoperator.k8s.io_sparkapplications.yaml",
    ]);
    is_not_ready(&operator, "definitions", &[SCHEDULES, "is not installed; run: ", command]).await;
    kubectl(&["apply", "--server-side", "--force-conflicts", "--filename", "manifests/crds"]);
    is_ready(&operator).await;
    let failed = namespace.reaches("early", "FAILED").await;
    assert_eq!(failed["status"]["runOrdinal"], 1);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_webhook_that_is_not_installed_is_told_with_its_name() {
    let namespace = Namespace::new("no-webhook").await;
    let operator = Operator::with(&namespace).argument("--mutating-webhook-name=elsewhere").spawn();
    let said = ["MutatingWebhookConfiguration elsewhere"];
    is_not_ready(&operator, "certificates", &said).await;
    is_not_ready(&operator, "webhook", &["not yet"]).await;
}

/// Waits until `/readyz` says all of `said` of the condition.
pub(crate) async fn is_not_ready(operator: &Operator, condition: &str, said: &[&str]) {
    eventually(&format!("{condition} says {said:?}"), async || {
        let (status, body) = operator.get(HEALTH, "/readyz").await?;
        let line = body.lines().find_map(|line| line.strip_prefix(condition)?.strip_prefix(": "));
        let says = line.is_some_and(|line| said.iter().all(|words| line.contains(words)));
        seen(status == 503 && says, body)
    })
    .await;
}

pub(crate) async fn is_ready(operator: &Operator) {
    eventually("the operator is ready", async || {
        let (status, body) = operator.get(HEALTH, "/readyz").await?;
        seen(status == 200, body)
    })
    .await;
}

/// Some of our manifests, which are applied again with the end of this.
pub(crate) struct Restored(pub(crate) &'static str);

impl Drop for Restored {
    fn drop(&mut self) {
        let apply = ["apply", "--server-side", "--force-conflicts", "--filename", self.0];
        if let Err(error) = try_kubectl_with(&Value::Null, &apply) {
            eprintln!("{} is not restored: {error}", self.0);
        }
    }
}
