//! What becomes of the files that `spark-submit` reads: Spark's own configuration and those that we write?

use super::{
    applications::application,
    namespace::Namespace,
    operator::{Operator, spark_home},
};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use std::fs;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn the_admins_spark_configuration_is_below_the_applications_for_both_submitters() {
    for submitter in ["native", "spark-submit"] {
        is_below(submitter).await;
    }
}

async fn is_below(submitter: &str) {
    let namespace = Namespace::new("spark-conf-dir").await;
    let directory = namespace.folder.join("conf");
    fs::create_dir(&directory).unwrap();
    // Blanks separate as well as `=`, and the last line says that it goes on.
    let defaults = "# ours\nspark.kubernetes.driver.label.team data\nspark.driver.memory 3g\n\
                    spark.kubernetes.driver.pod.name=evil\nspark.some.default\t=\\\n  2g\\";
    fs::write(directory.join("spark-defaults.conf"), defaults).unwrap();
    fs::write(directory.join("log4j2.properties"), "rootLogger.level = warn\n").unwrap();
    let setup = Operator::with(&namespace).env("SPARK_OPERATOR_SUBMITTER", submitter);
    let operator = setup.env("SPARK_CONF_DIR", directory.to_str().unwrap()).start().await;
    let mut pi = application("pi");
    pi["spec"]["driver"]["memory"] = json!("512m");
    namespace.apply(&pi);
    namespace.reaches("pi", "SUBMITTED").await;

    let driver = namespace.pod("pi-driver").await.unwrap();
    assert_eq!(driver["metadata"]["labels"]["team"], "data");
    assert_eq!(
        driver["spec"]["containers"][0]["resources"]["requests"]["memory"], "896Mi",
        "512m and Spark's overhead"
    );
    let config_maps = namespace.list::<ConfigMap>().await;
    let found = config_maps.iter().find(|found| !found["data"]["spark.properties"].is_null()).unwrap();
    assert_eq!(found["data"]["log4j2.properties"], "rootLogger.level = warn\n");
    let properties = found["data"]["spark.properties"].as_str().unwrap();
    assert!(properties.contains("spark.some.default=2g\n"), "{properties}");
    assert!(!operator.log().contains("evil"));
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_full_disk_fails_the_submission_with_the_file_and_leaves_nothing_behind() {
    let namespace = Namespace::new("full-disk").await;
    // Room for the two templates and a page more.
    let tiny = "mkdir -p /tmp/spark && mount -t tmpfs -o size=12k none /tmp/spark && exec \"$@\"";
    let operator = Operator::with(&namespace)
        .spark_home(spark_home())
        .under(&["unshare", "--mount", "sh", "-c", tiny, "sh"])
        .start()
        .await;
    let mut pi = application("pi");
    pi["spec"]["sparkConf"] = json!({"spark.long": "x".repeat(10_000)});
    namespace.apply(&pi);
    let failed = namespace.reaches("pi", "FAILED").await;
    let status = &failed["status"];
    let id = status["submissionID"].as_str().unwrap();
    assert_eq!(
        status["applicationState"]["errorMessage"],
        format!(
            "failed to run spark-submit: cannot write /tmp/spark/{id}/spark.properties: No space left on device (os error 28)"
        )
    );
    assert_eq!(namespace.states_ever("pi").await, ["", "SUBMISSION_FAILED", "FAILED"]);
    let beside = format!("/proc/{}/root/tmp/spark", operator.id());
    assert_eq!(fs::read_dir(beside).unwrap().count(), 0);
    assert_eq!(namespace.drivers_ever().await, Vec::<String>::new());
}
