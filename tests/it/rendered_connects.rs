//! Tests how `sparkctl render` treats a SparkConnect.

use crate::prelude::*;

#[test]
fn a_server_of_spark_connect_is_rendered() {
    let connect = json!({
        "apiVersion": "sparkoperator.k8s.io/v1alpha1", "kind": "SparkConnect", "metadata": {"name": "notebook"},
        "spec": {
            "sparkVersion": "4.0.1", "image": "spark", "server": {"serviceAccount": "spark"}, "executor": {},
            "suspend": true, "sleepAfterIdleSeconds": 600,
        },
    });
    let line = ["render", "-n", "team", "--default-service-account=other", "-"];
    let text = program::printed(program::run(sparkctl_program(), &line, &connect.to_string()));
    let comments: Vec<_> = text.lines().filter(|line| line.starts_with('#')).collect();
    let expected = fs::read_to_string(data("ctl/connect-comments.txt")).unwrap();
    assert_eq!(comments, expected.lines().collect::<Vec<_>>());
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let pod = documents.last().unwrap();
    assert_eq!(
        (&pod["metadata"]["namespace"], &pod["spec"]["serviceAccountName"]),
        (&json!("team"), &json!("spark"))
    );
}
