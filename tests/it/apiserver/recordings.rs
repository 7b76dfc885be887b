//! Proves that the reviews in `tests/data/reviews` are what an API server sends. `UPDATE_GOLDEN=1` records them again.

use super::{neighbour::Neighbour, spark::make_executor};
use crate::apiserver::prelude::*;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn the_recorded_reviews_are_what_the_api_server_sends() {
    let namespace = Namespace::new("recordings").await;
    let _reviewed = reviewed();
    // The driver and the submission pod mount this ConfigMap.
    namespace.kubectl(&["create", "configmap", "settings"]);
    // `spark-submit` runs on this node, so the driver pod is recorded as Spark itself creates it.
    let _node = SubmissionNode::of(&namespace, spark_home()).start().await;
    let _operator = Operator::with(&namespace).by_spark_submit().start().await;
    let neighbour = Neighbour::listening(&namespace).await;

    let [typical, dry]: [Value; 2] = documents(data("apiserver/typical.yaml")).try_into().unwrap();
    let mut pi = application("pi");
    json_patch::merge(&mut pi["spec"], &typical);
    pi["spec"]["suspend"] = json!(true);
    // Applies with `kubectl`, as users do.
    let apply = |object: &Value| {
        kubectl_with(object, &["apply", "--validate=strict", "--namespace", namespace.name, "-f", "-"]);
    };
    apply(&pi);
    pi["spec"]["suspend"] = json!(false);
    apply(&pi);
    namespace.reaches("pi", "SUBMITTED").await;
    let driver = namespace.pod("pi-driver").await.unwrap();
    make_executor(&namespace, &driver, 1).await;
    kubectl_with(&dry, &["create", "--dry-run=server", "--namespace", namespace.name, "-f", "-"]);
    let mut nightly = scheduled("nightly", "CRON_TZ=Europe/Berlin 30 2 * * *", &pi);
    nightly["spec"]["concurrencyPolicy"] = json!("Forbid");
    apply(&nightly);

    let mut golden = Golden::default();
    let received = neighbour.received();
    for (file, path, kind, operation, name) in [
        ("driver-pod", "mutate", "Pod", "CREATE", "pi-driver"),
        ("executor-pod", "mutate", "Pod", "CREATE", "pi-exec-1"),
        ("dry-run-pod", "mutate", "Pod", "CREATE", "dry"),
        ("application-create", "mutate", "SparkApplication", "CREATE", "pi"),
        ("application-create", "validate", "SparkApplication", "CREATE", "pi"),
        ("application-update", "mutate", "SparkApplication", "UPDATE", "pi"),
        ("application-update", "validate", "SparkApplication", "UPDATE", "pi"),
        ("schedule-create", "validate", "ScheduledSparkApplication", "CREATE", "nightly"),
    ] {
        let is_meant = |(at, review): &&(String, Value)| {
            let request = &review["request"];
            at == path
                && request["kind"]["kind"] == kind
                && request["operation"] == operation
                && request["name"] == name
        };
        let (_, review) = received.iter().find(is_meant).unwrap_or_else(|| panic!("no {file} at {path}"));
        golden.compare(&data(&format!("reviews/{file}.{path}.json")), &settled(review));
    }
    golden.finish();
}

/// Removes the status: how far the operator has come with the application differs between recordings.
fn without_status(application: &mut Value) {
    let Some(application) = application.as_object_mut() else { return };
    application.remove("status");
    let fields = application.get_mut("metadata").and_then(|metadata| metadata.get_mut("managedFields"));
    if let Some(fields) = fields.and_then(Value::as_array_mut) {
        fields.retain(|entry| entry["subresource"] != "status");
    }
}

/// Returns `review` as text, in which random parts, times and the user that runs the test are the same in each
/// recording.
fn settled(review: &Value) -> String {
    let mut review = review.clone();
    for object in ["object", "oldObject"] {
        if let Some(version) = review.pointer_mut(&format!("/request/{object}/metadata/resourceVersion")) {
            *version = json!("1");
        }
    }
    if review["request"]["kind"]["kind"] == "SparkApplication" {
        for object in ["object", "oldObject"] {
            without_status(&mut review["request"][object]);
        }
    }
    let env = review.pointer_mut("/request/object/spec/containers/0/env").and_then(Value::as_array_mut);
    for variable in env.into_iter().flatten().filter(|variable| variable["name"] == "SPARK_USER") {
        variable["value"] = json!("root");
    }
    let text = serde_json::to_string_pretty(&review).unwrap() + "\n";
    let (mut settled, mut numbers) = (String::new(), BTreeMap::new());
    // Random parts contain no blanks and no quotes.
    let ends = |c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == ':');
    for word in text.split_inclusive(ends) {
        let (word, end) = word.split_at(word.trim_end_matches(ends).len());
        settled += &settled_word(word, &mut numbers);
        settled += end;
    }
    settled
}

/// Returns `word` with each UUID and each long hexadecimal number replaced by a consecutive number, and a time by a
/// fixed one.
fn settled_word(word: &str, numbers: &mut BTreeMap<String, usize>) -> String {
    let is_time = word.len() == 20
        && word.ends_with('Z')
        && word.starts_with("20")
        && word.matches([':', '-', 'T']).count() == 5;
    if is_time {
        return "2026-11-21T12:00:00Z".to_owned();
    }
    let mut number = |drawn: &str| {
        let next = numbers.len() + 1;
        *numbers.entry(drawn.to_owned()).or_insert(next)
    };
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let parts: Vec<_> = word.split('-').collect();
    let mut settled = Vec::new();
    let mut i = 0;
    while i < parts.len() {
        let lengths: Vec<_> = parts[i..].iter().take(5).map(|part| part.len()).collect();
        if lengths == [8, 4, 4, 4, 12] && parts[i..i + 5].iter().all(|part| is_hex(part)) {
            settled.push(format!("00000000-0000-4000-8000-{:012}", number(&parts[i..i + 5].join("-"))));
            i += 5;
        } else {
            let part = parts[i];
            let drawn = part.len() >= 16 && is_hex(part);
            settled.push(if drawn {
                format!("{:0len$}", number(part), len = part.len())
            } else {
                part.to_owned()
            });
            i += 1;
        }
    }
    settled.join("-")
}
