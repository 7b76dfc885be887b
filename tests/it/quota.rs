//! Tests how much of the ResourceQuotas of its namespace an application needs, and the messages if a quota has no room.
//! The cases are in `tests/data/quota`.

use crate::prelude::*;
use plan::quota::{exceeded, needs_room, present_sum};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Size {
    case: String,
    spec: Map<String, Value>,
    /// The amounts that the application needs, by the resource names of quotas.
    asked: BTreeMap<String, String>,
    /// The advice in the message about how to need less.
    advice: Option<String>,
}

#[test]
fn the_needs_of_an_application_are_the_requests_and_limits_of_its_pods() {
    for Size { case, spec, asked, advice } in yaml::<Vec<Size>>(&data("quota/sizes.yaml")) {
        let hard: BTreeMap<_, _> = asked.keys().map(|key| (key.clone(), "0".to_owned())).collect();
        let quota = quota(&json!({"name": "nothing", "hard": hard}));
        let said = said(None, &application(&spec, &Value::Null), &[quota]);
        assert_eq!(said.len(), asked.len(), "{case}: {said:#?}");
        for (key, amount) in &asked {
            let expected = format!("ResourceQuota nothing: {key}: the application requests {amount}; of 0, ");
            assert!(
                said.iter().any(|said| said.starts_with(&expected)),
                "{case}: no `{expected}` in {said:#?}"
            );
        }
        let advice = advice.unwrap_or("lower spec.executor.instances".to_owned());
        assert!(said.iter().all(|said| said.contains(&advice)), "{case}: no `{advice}` in {said:#?}");
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Case {
    case: String,
    spec: Map<String, Value>,
    /// The text of the admin's `spark-defaults.conf`.
    defaults: String,
    quotas: Vec<Value>,
    /// Whether the client has not proved to be an API server: it may be anybody, and must not learn how much is left.
    is_anybody: bool,
    exceeded: Vec<String>,
}

#[test]
fn every_exceeded_resource_of_every_quota_is_reported_with_advice() {
    for Case { case, spec, defaults, quotas, is_anybody, exceeded } in
        yaml::<Vec<Case>>(&data("quota/quotas.yaml"))
    {
        let quotas: Vec<_> = quotas.iter().map(quota).collect();
        let environment = SubmissionEnvironment { defaults, ..SubmissionEnvironment::default() };
        let new = two_executors(&spec, &Value::Null);
        assert_eq!(said_with(None, &new, &quotas, &environment, !is_anybody), exceeded, "{case}");
    }
}

/// A quota's `used` includes the pods of the current run, which are gone before the next run begins after the edit.
#[test]
fn quota_that_the_current_run_uses_is_free_for_the_run_after_an_edit() {
    let executors = json!({
        "pi-exec-1": "RUNNING", "pi-exec-2": "PENDING", "pi-exec-3": "COMPLETED", "pi-exec-4": "FAILED", "pi-exec-5": "UNKNOWN",
    });
    let run = |state: &str| json!({"applicationState": {"state": state}, "executorState": executors});
    let full = quota(&json!({"name": "team", "hard": {"pods": "5"}, "used": {"pods": "5"}}));
    let edited = two_executors(&Map::new(), &Value::Null);
    let said = |state: &str| {
        said(Some(&two_executors(&Map::new(), &run(state))), &edited, std::slice::from_ref(&full))
    };
    for state in ["SUBMITTED", "RUNNING", "UNKNOWN", "INVALIDATING", "SUSPENDING"] {
        assert_eq!(said(state), Vec::<String>::new(), "{state}");
    }
    // The driver has ended, but executors still exist.
    let expected = "ResourceQuota team: pods: the application requests 3 (driver 1, 2 executors 1 each); of 5, 3 are used by others and 2 \
                    left: lower spec.executor.instances, or wait until others have ended";
    assert_eq!(said("FAILED"), [expected]);
    // An older version may have stored an application that is not valid today.
    let mut broken = two_executors(&Map::new(), &run("RUNNING"));
    broken.spec.driver.pod.memory = Some("lots".to_owned());
    assert_eq!(super::quota::said(Some(&broken), &edited, &[full]).len(), 1);
}

#[test]
fn the_present_sum_is_that_of_the_requests_of_the_existing_pods() {
    let sum = |state: &str| {
        let executors = json!({"pi-exec-1": "RUNNING", "pi-exec-2": "PENDING", "pi-exec-3": "COMPLETED"});
        let run = json!({"applicationState": {"state": state}, "executorState": executors});
        let sum = present_sum(&two_executors(&Map::new(), &run))?;
        Some(["cpu", "memory"].map(|name| api::quantity::of_resource(name, sum[name])))
    };
    assert_eq!(sum("RUNNING"), Some(["3", "4224Mi"].map(str::to_owned)));
    assert_eq!(sum("COMPLETED"), None);
}

#[test]
fn a_change_that_creates_no_pods_needs_no_quota() {
    let with = |spec: Value| two_executors(spec.as_object().unwrap(), &Value::Null);
    for (what, old, new, needs) in yaml::<Vec<(String, Option<Value>, Value, bool)>>(&data("quota/room.yaml"))
    {
        assert_eq!(needs_room(old.map(with).as_ref(), &with(new)), needs, "{what}");
    }
    let mut deleted = with(json!({}));
    deleted.metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("2026-11-21T12:00:00Z")).unwrap());
    assert!(!needs_room(None, &deleted));
}

/// Returns the messages about the quotas that `new` would exceed.
fn said(old: Option<&SparkApplication>, new: &SparkApplication, quotas: &[ResourceQuota]) -> Vec<String> {
    said_with(old, new, quotas, &SubmissionEnvironment::default(), true)
}

fn said_with(
    old: Option<&SparkApplication>,
    new: &SparkApplication,
    quotas: &[ResourceQuota],
    environment: &SubmissionEnvironment,
    says_what_is_left: bool,
) -> Vec<String> {
    let policy = Policy::new("k8s://https://10.96.0.1:443");
    let found = exceeded(old, new, quotas, environment, &policy, says_what_is_left);
    found.iter().map(ToString::to_string).collect()
}

fn two_executors(spec: &Map<String, Value>, status: &Value) -> SparkApplication {
    let mut two = json!({"executor": {"instances": 2}});
    json_patch::merge(&mut two, &json!(spec));
    application(two.as_object().unwrap(), status)
}

fn application(spec: &Map<String, Value>, status: &Value) -> SparkApplication {
    let mut object = json!({
        "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication",
        "metadata": {"name": "pi", "namespace": "default"},
        "spec": {"type": "Scala", "sparkVersion": "4.0.1", "mainApplicationFile": "local:///app.jar"},
    });
    json_patch::merge(&mut object["spec"], &json!(spec));
    if !status.is_null() {
        object["status"] = status.clone();
    }
    serde_json::from_value(object).unwrap()
}

/// Returns a quota with the `name`, `hard`, `used`, `scopes` and `selector` of `case`.
fn quota(case: &Value) -> ResourceQuota {
    let mut quota = json!({"metadata": {"name": case["name"]}, "spec": {"hard": case["hard"]}});
    for (field, path) in [("scopes", "scopes"), ("selector", "scopeSelector")] {
        if !case[field].is_null() {
            quota["spec"][path] = case[field].clone();
        }
    }
    if let Some(selector) = quota["spec"].get_mut("scopeSelector") {
        *selector = json!({"matchExpressions": selector});
    }
    if !case["used"].is_null() {
        quota["status"] = json!({"hard": case["hard"], "used": case["used"]});
    }
    serde_json::from_value(quota).unwrap()
}
