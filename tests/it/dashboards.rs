//! Proves that the dashboard and the alerts in `manifests/monitoring` are well-formed, and lists the metrics that they
//! use. `apiserver/metrics` checks that a running operator serves these metrics.

use crate::prelude::*;

/// Prefixes of the names of all metrics that the operator serves.
const OURS: [&str; 6] =
    ["controller_runtime_", "leader_election_", "process_", "rest_client_", "spark_", "workqueue_"];

/// Returns the name of the metric in a line of Prometheus' text format.
pub(crate) fn metric(series: &str) -> &str {
    series.split(['{', ' ']).next().unwrap()
}

/// Returns the metrics that the dashboard and the alerts use.
pub(crate) fn used() -> BTreeSet<String> {
    expressions().iter().flat_map(|expression| metrics_in(expression)).collect()
}

fn expressions() -> Vec<String> {
    let mut found = Vec::new();
    expressions_in(&dashboard(), &mut found);
    expressions_in(&rules(), &mut found);
    found
}

fn dashboard() -> Value {
    serde_json::from_str(&read("operator-dashboard.json")).unwrap()
}

fn rules() -> Value {
    serde_saphyr::from_str(&read("operator-rules.yaml")).unwrap()
}

fn read(name: &str) -> String {
    fs::read_to_string(format!("manifests/monitoring/{name}")).unwrap()
}

/// Collects all values of the key `expr` anywhere in `value`.
fn expressions_in(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                match value {
                    Value::String(expression) if key == "expr" => found.push(expression.clone()),
                    _ => expressions_in(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| expressions_in(value, found)),
        _ => {}
    }
}

/// Returns the operator's metrics in a PromQL expression. Names in the braces of selectors do not count.
fn metrics_in(expression: &str) -> BTreeSet<String> {
    let outside = expression.split('{').map(|part| part.rsplit('}').next().unwrap());
    let words =
        outside.flat_map(|part| part.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_'));
    words.filter(|word| OURS.iter().any(|ours| word.starts_with(ours))).map(str::to_owned).collect()
}

#[test]
fn names_of_metrics_are_found_in_expressions() {
    let found =
        metrics_in("sum by (le) (rate(spark_a_bucket{x=\"spark_no\"}[5m])) > 1 and workqueue_depth == 0");
    assert_eq!(found, ["spark_a_bucket", "workqueue_depth"].map(str::to_owned).into());
    assert!(used().len() > 20, "{:?}", used());
}

#[test]
fn every_alert_says_what_is_wrong_and_how_bad_it_is() {
    let rules = rules();
    let mut names = BTreeSet::new();
    for group in rules["groups"].as_array().unwrap() {
        for rule in group["rules"].as_array().unwrap() {
            assert!(names.insert(rule["alert"].as_str().unwrap()), "{rule}");
            for text in ["summary", "description"] {
                assert!(
                    rule["annotations"][text].as_str().is_some_and(|text| text.ends_with(['.', ')'])),
                    "{rule}"
                );
            }
            assert!(
                ["critical", "warning"].contains(&rule["labels"]["severity"].as_str().unwrap()),
                "{rule}"
            );
        }
    }
}

/// In an earlier version, the alert was silent while the webhook of the chart, or a gateway, was still scraped.
#[test]
fn the_alert_on_a_missing_operator_ignores_processes_that_drive_no_applications() {
    let rules = rules();
    let mut all =
        rules["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap());
    let down = all.find(|rule| rule["alert"] == "SparkOperatorDown").unwrap();
    let used = metrics_in(down["expr"].as_str().unwrap());
    assert_eq!(
        used,
        ["leader_election_master_status", "spark_operator_build_info"].map(str::to_owned).into()
    );
}

/// In an earlier version, the alert on a missing operator was silent while any operator in Go was scraped, and the one on
/// failed requests counted the requests of the whole cluster.
#[test]
fn metrics_that_other_programs_have_too_are_joined_with_one_of_the_operators_own() {
    for expression in expressions() {
        let used = metrics_in(&expression);
        let is_own = used.iter().all(|metric| metric.starts_with("spark_"));
        assert!(is_own || used.contains("spark_operator_build_info"), "{expression}");
    }
}

#[test]
fn panels_have_ids_of_their_own_and_do_not_overlap() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let number = |panel: &Value, key: &str| panel["gridPos"][key].as_u64().unwrap();
    let mut taken = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        assert!(!panel["title"].as_str().unwrap().is_empty());
        for x in 0..number(panel, "w") {
            for y in 0..number(panel, "h") {
                assert!(taken.insert((number(panel, "x") + x, number(panel, "y") + y)), "{panel}");
            }
        }
    }
}

#[test]
fn the_pods_that_are_scraped_are_those_of_the_deployment() {
    let monitor: Value = serde_saphyr::from_str(&read("operator-pod-monitor.yaml")).unwrap();
    let deployment: Value =
        serde_saphyr::from_str(&fs::read_to_string("manifests/deployment/operator.yaml").unwrap()).unwrap();
    let template = &deployment["spec"]["template"];
    assert_eq!(monitor["spec"]["selector"]["matchLabels"], template["metadata"]["labels"]);
    assert_eq!(monitor["metadata"]["namespace"], deployment["metadata"]["namespace"]);
    let port = &monitor["spec"]["podMetricsEndpoints"][0]["port"];
    let ports = template["spec"]["containers"][0]["ports"].as_array().unwrap();
    assert!(ports.iter().any(|open| open["name"] == *port), "{port}");
}
