//! Tests what the operator reports to the admin of a cluster that is not set up for the operator.

use super::operator::USER;
use crate::apiserver::prelude::*;

const APPLICATIONS: &str = "sparkapplications.sparkoperator.k8s.io";
const SCHEDULES: &str = "scheduledsparkapplications.sparkoperator.k8s.io";
const CONNECTS: &str = "sparkconnects.sparkoperator.k8s.io";

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn readiness_and_log_name_every_verb_that_the_account_lacks() {
    let namespace = Namespace::new("forbidden").await;
    let _restored = restored("manifests/rbac");
    let rules =
        |role: &str| -> Vec<Value> { calls::get(role).expect(role)["rules"].as_array().unwrap().clone() };
    let patch = |role: &str, rules: &[Value]| calls::merge(role, &json!({"rules": rules}));
    let cluster_role =
        |name: &str| format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/spark-operator{name}");
    let roles = [
        cluster_role("-applications"),
        cluster_role(""),
        cluster_role("-exposure"),
        format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles/spark-operator"),
    ];
    let all = roles.map(|role| {
        let rules = rules(&role);
        (role, rules)
    });
    // Some verb is missing until the end, because the operator rarely checks its permissions once they are complete.
    let (events, rest): (Vec<_>, Vec<_>) =
        all[0].1.clone().into_iter().partition(|rule| rule["apiGroups"] == json!(["events.k8s.io"]));
    assert_eq!(events.len(), 1);
    patch(&all[0].0, &rest);
    calls::until_may_create(false, USER, "events.events.k8s.io", "default").await;
    let operator = Operator::with(&namespace).candidate(4).spawn();
    let said = "the operator's account may not create events of API group events.k8s.io";
    is_not_ready(&operator, "permissions", &[said]).await;
    let (_, body) = operator.get(HEALTH, "/readyz").await.unwrap();
    assert_eq!(named(&body), granted_by(&events), "only the removed verbs are reported");

    let removed: BTreeSet<_> = all.iter().flat_map(|(_, rules)| granted_by(rules)).collect();
    // The role for SparkConnects is kept, and contains one of the removed rights.
    let lacking = &removed - &granted_by(&rules(&cluster_role("-connects")));
    assert_eq!(lacking.len(), 59);
    for (role, _) in &all {
        patch(role, &[]);
    }
    eventually("readiness and log name exactly the missing verbs", async || {
        let (status, body) = operator.get(HEALTH, "/readyz").await?;
        let is_told = operator.log().lines().any(|line| line.contains("not ready") && named(line) == lacking);
        seen(status == 503 && named(&body) == lacking && is_told, format!("{lacking:?}, but {body}"))
    })
    .await;
    for (role, rules) in &all {
        patch(role, rules);
    }
    is_ready(&operator).await;
}

/// Returns verb and resource of each right in these rules.
fn granted_by(rules: &[Value]) -> BTreeSet<String> {
    let strings = |list: &Value| -> Vec<String> { serde_json::from_value(list.clone()).unwrap() };
    let mut rights = BTreeSet::new();
    for rule in rules {
        for resource in strings(&rule["resources"]) {
            rights.extend(strings(&rule["verbs"]).iter().map(|verb| format!("{verb} {resource}")));
        }
    }
    rights
}

/// Returns verb and resource of each permission that the operator's account lacks according to `text`.
fn named(text: &str) -> BTreeSet<String> {
    let said =
        text.split_once("the operator's account may not ").and_then(|(_, rest)| rest.split_once("; run: "));
    let each = said.map_or("", |(verbs, _)| verbs).split(", ");
    each.map(|words| words.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect()
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn crds_that_would_drop_fields_are_reported_with_the_remedy() {
    let namespace = Namespace::new("other-definitions").await;
    let _restored = restored("manifests/crds");
    let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
    let definition = |name: &str| format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    let applications = definition(APPLICATIONS);
    calls::patch(&applications, &json!([{"op": "remove", "path": format!("{status}/runOrdinal")}]));

    let operator = Operator::with(&namespace).spawn();
    let command = "spark-operator crds | kubectl apply --server-side --force-conflicts --filename -";
    let said = [APPLICATIONS, "would drop status.runOrdinal; run: ", command];
    is_not_ready(&operator, "definitions", &said).await;
    namespace.apply(&hopeless("early"));
    // The operator does not list applications yet: with these CRDs the API server would drop fields of the status.
    is_not_ready(&operator, "caches", &["not yet"]).await;

    calls::delete(&definition(SCHEDULES));
    let file = "manifests/crds/sparkoperator.k8s.io_sparkapplications.yaml";
    kubectl(&["apply", "--server-side", "--force-conflicts", "--filename", file]);
    is_not_ready(&operator, "definitions", &[SCHEDULES, "is not installed; run: ", command]).await;
    // `crds --apply` removes a field of another operator's CRD, and keeps a label of the admin's.
    let foreign = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/foreign";
    let add = json!([{"op": "add", "path": foreign, "value": {"type": "string"}}]);
    calls::patch(&applications, &add);
    let label = |team: Value| calls::merge(&applications, &json!({"metadata": {"labels": {"team": team}}}));
    label(json!("data"));
    let applied = program::printed(run(env!("CARGO_BIN_EXE_spark-operator"), &["crds", "--apply"], ""));
    let lines =
        [APPLICATIONS, SCHEDULES, CONNECTS].map(|name| format!("customresourcedefinition/{name} applied\n"));
    assert_eq!(applied, lines.concat());
    let kept = calls::get(&applications).expect(APPLICATIONS);
    assert_eq!((kept.pointer(foreign), &kept["metadata"]["labels"]["team"]), (None, &json!("data")));
    label(Value::Null);
    // The CRD of a later version is left alone, because an operator of that version needs it.
    let version = |version: Value| {
        let annotations = json!({"sparkoperator.k8s.io/definition-version": version});
        calls::merge(&applications, &json!({"metadata": {"annotations": annotations}}));
    };
    version(json!("99.0.0"));
    calls::patch(&applications, &add);
    let said = program::printed(run(env!("CARGO_BIN_EXE_spark-operator"), &["crds", "--apply"], ""));
    let left = format!("{APPLICATIONS} left alone: a later version has written it\n");
    assert!(said.contains(&left) && said.contains(&lines[1]), "{said}");
    let kept = calls::get(&applications).expect(APPLICATIONS);
    assert_eq!(kept.pointer(foreign), Some(&json!({"type": "string"})));
    version(Value::Null);
    is_ready(&operator).await;
    let failed = namespace.reaches("early", "FAILED").await;
    assert_eq!(failed["status"]["runOrdinal"], 1);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_missing_webhook_configuration_is_reported_by_name() {
    let namespace = Namespace::new("no-webhook").await;
    let operator = Operator::with(&namespace).argument("--mutating-webhook-name=elsewhere").spawn();
    let said = ["MutatingWebhookConfiguration elsewhere"];
    is_not_ready(&operator, "certificates", &said).await;
    is_not_ready(&operator, "webhook", &["not yet"]).await;
}

/// Waits until `/readyz` says that the operator is not ready because of `condition`, in a message that contains every
/// text in `said`.
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

/// Applies a folder of our manifests again when the returned value is dropped.
pub(crate) fn restored(folder: &'static str) -> Finally {
    Finally::new(move || {
        let apply = ["apply", "--server-side", "--force-conflicts", "--filename", folder];
        if let Err(error) = try_kubectl_with(&Value::Null, &apply) {
            eprintln!("{folder} is not restored: {error}");
        }
    })
}
