//! Proves that `spark-submit` creates the objects that `sparkctl render` predicts.

use crate::apiserver::prelude::*;
use spark_client::{Environment, read_properties};
use sparkctl::predicted;
use std::iter;

/// Needs an operator that submits by `spark-submit`.
pub(super) async fn spark_submit_creates_what_was_predicted(namespace: &Namespace) {
    let node = SubmissionNode::of(namespace, spark_home()).env("SPARK_USER", "spark").start().await;
    let mut application = application("pi");
    application["metadata"]["annotations"]["sparkoperator.k8s.io/submitter"] = json!("spark-submit");
    let spec = &mut application["spec"];
    spec["arguments"] = json!(["a\rb", " c ", "Zoë"]);
    spec["sparkConf"] = json!({"spark.ascii": " a ", "spark.letters": " ü ", "spark.lines": "\n\n"});
    spec["driver"]["annotations"] = json!({"ascii": " a ", "letters": " ü "});
    namespace.apply(&application);
    namespace.reaches("pi", "SUBMITTED").await;

    let mut stored = namespace.application("pi").await;
    let id = stored["status"].take()["submissionID"].clone();
    let application: SparkApplication = serde_json::from_value(stored).unwrap();
    let run = Run::next(&application);
    assert_eq!(json!(run.id), id);

    let driver = namespace.pod("pi-driver").await.unwrap();
    namespace.has_no_submission().await;
    let mut made = [namespace.list::<ConfigMap>().await, namespace.driver_services().await].concat();
    for object in &mut made {
        if let Some(text) = object["data"]["spark.properties"].as_str() {
            object["data"]["spark.properties"] = json!(node.as_in_the_container(text));
        }
    }
    let properties = made.iter().find_map(|object| object["data"]["spark.properties"].as_str()).unwrap();
    let properties = read_properties(properties).unwrap();
    let environment = Environment { os_user: "spark".to_owned(), ..Environment::default() };
    let submission_environment = SubmissionEnvironment { environment, ..SubmissionEnvironment::default() };
    let policy = Policy::new(&properties["spark.master"]);
    let time = jiff::Timestamp::UNIX_EPOCH;
    let expected =
        predicted(&validate(&application).unwrap(), &run, &policy, &submission_environment, time).unwrap();

    assert_eq!(made.len(), expected.children.len());
    let made: Vec<_> = iter::once(&driver).chain(&made).map(comparable).collect();
    for object in iter::once(&expected.pod).chain(&expected.children) {
        let object = comparable(object);
        let name = &object["metadata"]["name"];
        let made = made.iter().find(|made| made["metadata"]["name"] == *name);
        let made = made.unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(missing(&object, made, String::new()), Vec::<String>::new());
    }
}

/// Returns `object` without random parts, without parts that depend on the time, and without its kind, which lists
/// omit.
fn comparable(object: &Value) -> Value {
    let mut object = object.clone();
    object.as_object_mut().unwrap().retain(|field, _| !["apiVersion", "kind"].contains(&field.as_str()));
    if let Some(text) = object["data"]["spark.properties"].as_str() {
        let mut properties = read_properties(text).unwrap();
        properties.remove("spark.app.submitTime");
        object["data"]["spark.properties"] = json!(properties);
    }
    let mut text = object.to_string();
    let environment = object["spec"]["containers"][0]["env"].as_array().into_iter().flatten();
    for directory in environment.filter(|variable| variable["name"] == "SPARK_LOCAL_DIRS") {
        text = text.replace(directory["value"].as_str().unwrap(), "LOCAL-DIR");
    }
    let (mut anonymous, mut run) = (String::new(), String::new());
    for c in text.chars().chain(iter::once('\n')) {
        if c.is_ascii_digit() || ('a'..='f').contains(&c) {
            run.push(c);
            continue;
        }
        anonymous += if run.len() < 16 { &run } else { "RANDOM" };
        anonymous.push(c);
        run.clear();
    }
    serde_json::from_str(&anonymous).unwrap()
}

/// Returns the paths at which `actual` differs from `expected`; additional fields in `actual` do not count, because
/// they are defaults.
fn missing(expected: &Value, actual: &Value, path: String) -> Vec<String> {
    match (expected, actual) {
        (Value::Object(fields), Value::Object(_)) => {
            let fields = fields.iter();
            fields
                .flat_map(|(field, value)| missing(value, &actual[field], format!("{path}.{field}")))
                .collect()
        }
        (Value::Array(items), Value::Array(_)) => {
            let items = items.iter().enumerate();
            items.flat_map(|(i, value)| missing(value, &actual[i], format!("{path}[{i}]"))).collect()
        }
        _ if expected == actual => Vec::new(),
        _ => vec![format!("{path}: {expected} and not {actual}")],
    }
}
