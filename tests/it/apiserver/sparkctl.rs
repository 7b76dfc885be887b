//! What does `sparkctl` show?

use super::{applications::application, namespace::Namespace};
use crate::program::run;
use serde_json::json;
use spark_operator::api::SparkApplication;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn list_shows_state_and_ages() {
    let namespace = Namespace::new("sparkctl").await;
    let nothing = (String::new(), "No applications found in namespace sparkctl.\n".to_owned());
    assert_eq!(sparkctl(&["list", "--namespace", "sparkctl"]), nothing);
    assert_eq!(sparkctl(&["list", "-A"]).1, "No applications found in any namespace.\n");

    namespace.apply(&application("new"));
    namespace.apply(&application("pi"));
    let created = namespace.application("pi").await["metadata"]["creationTimestamp"].take();
    let status = json!({
        "applicationState": {"state": "RUNNING"},
        "driverInfo": {},
        "lastSubmissionAttemptTime": created,
    });
    namespace.patch_status::<SparkApplication>("pi", &status).await;
    let (table, complaints) = sparkctl(&["-n", "sparkctl", "list"]);
    assert_eq!(complaints, "");
    let [header, new, pi] = rows(&table).try_into().unwrap();
    assert_eq!(header, ["NAME", "STATE", "SUBMITTED", "ENDED", "AGE"]);
    assert_eq!(new[..4], ["new", "NEW", "<none>", "<none>"]);
    assert_eq!(pi, ["pi", "RUNNING", pi[4], "<none>", pi[4]]);
    assert!(pi[4].ends_with('s'), "{table}");

    let (table, _) = sparkctl(&["list", "--all-namespaces"]);
    let [header, new, pi] = rows(&table).try_into().unwrap();
    assert_eq!(header[..2], ["NAMESPACE", "NAME"]);
    assert_eq!([new[..2].to_vec(), pi[..2].to_vec()], [["sparkctl", "new"], ["sparkctl", "pi"]]);
}

/// What it prints, and what it complains of; it has to succeed.
fn sparkctl(arguments: &[&str]) -> (String, String) {
    let output = run(env!("CARGO_BIN_EXE_sparkctl"), arguments, "");
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "sparkctl {}: {stderr}", arguments.join(" "));
    (stdout, stderr)
}

fn rows(table: &str) -> Vec<Vec<&str>> {
    table.lines().map(|line| line.split_whitespace().collect()).collect()
}
