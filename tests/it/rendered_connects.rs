//! Tests how `sparkctl validate` and `sparkctl render` treat a SparkConnect.

use crate::{prelude::*, program::run};

#[test]
fn a_server_of_spark_connect_is_validated_and_rendered() {
    let connect = |server: Value| {
        json!({
            "apiVersion": "sparkoperator.k8s.io/v1alpha1", "kind": "SparkConnect", "metadata": {"name": "notebook"},
            "spec": {
                "sparkVersion": "4.0.1", "image": "spark", "server": server, "executor": {}, "suspend": true,
                "sleepAfterIdleSeconds": 600,
            },
        })
        .to_string()
    };
    let said = |line: &[&str], input: &str| {
        let output = run(sparkctl_program(), line, input);
        let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (output.status.code(), stdout, stderr)
    };
    let good = connect(json!({"serviceAccount": "spark"}));
    let (code, text, _) = said(&["render", "-n", "team", "--default-service-account=other", "-"], &good);
    assert_eq!(code, Some(0));
    let comments: Vec<_> = text.lines().filter(|line| line.starts_with('#')).collect();
    let expected = fs::read_to_string(data("ctl/connect-comments.txt")).unwrap();
    assert_eq!(comments, expected.lines().collect::<Vec<_>>());
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let pod = documents.last().unwrap();
    assert_eq!(
        (&pod["metadata"]["namespace"], &pod["spec"]["serviceAccountName"]),
        (&json!("team"), &json!("spark"))
    );

    let (code, _, complaint) =
        said(&["validate", "-"], &connect(json!({"token": {"name": "a", "key": "b"}, "core": 1})));
    assert_eq!(code, Some(1));
    assert!(
        complaint.contains("spec.server.token: needs Spark 4.1")
            && complaint
                .contains("spec.server.core: there is no such field: did you mean spec.server.cores?"),
        "{complaint}"
    );
    let other = good.replace("v1alpha1", "v1beta2");
    let (_, _, complaint) = said(&["validate", "-"], &other);
    assert!(
        complaint
            .contains("`sparkoperator.k8s.io/v1beta2` is not known: write `sparkoperator.k8s.io/v1alpha1`")
    );
}
