//! Proves that the admin's own configuration files of Spark and Hadoop are used with both submitters.

use crate::apiserver::prelude::*;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn applications_override_the_admins_spark_configuration_for_both_submitters() {
    let natively = Namespace::new("spark-conf-dir").await;
    let by_pod = natively.beside("spark-conf-dir-pods").await;
    let directory = natively.folder.join("conf");
    fs::create_dir(&directory).unwrap();
    // Blanks separate key and value as well as `=` does, and the last line ends in a continuation.
    let defaults = "# ours\nspark.kubernetes.driver.label.team data\nspark.driver.memory 3g\n\
                    spark.kubernetes.driver.pod.name=evil\nspark.some.default\t=\\\n  2g\\";
    fs::write(directory.join("spark-defaults.conf"), defaults).unwrap();
    fs::write(directory.join("log4j2.properties"), "rootLogger.level = warn\n").unwrap();
    let hadoop = natively.folder.join("hadoop");
    fs::create_dir(&hadoop).unwrap();
    fs::write(hadoop.join("core-site.xml"), "<configuration/>\n").unwrap();
    let _node = SubmissionNode::of(&by_pod, spark_home()).start().await;
    let setup = Operator::with(&natively).env("SPARK_CONF_DIR", directory.to_str().unwrap());
    let operator = setup.env("HADOOP_CONF_DIR", hadoop.to_str().unwrap()).start().await;
    for (namespace, submitter) in [(&natively, "native"), (&by_pod, "spark-submit")] {
        is_overridden(namespace, submitter).await;
    }
    assert!(!operator.log().contains("evil"));
}

async fn is_overridden(namespace: &Namespace, submitter: &str) {
    let mut pi = application("pi");
    pi["metadata"]["annotations"]["sparkoperator.k8s.io/submitter"] = json!(submitter);
    pi["spec"]["driver"]["memory"] = json!("512m");
    namespace.apply(&pi);
    namespace.reaches("pi", "SUBMITTED").await;

    let driver = namespace.pod("pi-driver").await.unwrap();
    assert_eq!(driver["metadata"]["labels"]["team"], "data");
    assert_eq!(
        driver["spec"]["containers"][0]["resources"]["requests"]["memory"], "896Mi",
        "512m and Spark's overhead"
    );
    namespace.has_no_submission().await;
    let config_maps = namespace.list::<ConfigMap>().await;
    assert!(
        config_maps.iter().any(|found| found["data"]["core-site.xml"] == "<configuration/>\n"),
        "{config_maps:?}"
    );
    let found = config_maps.iter().find(|found| !found["data"]["spark.properties"].is_null()).unwrap();
    assert_eq!(found["data"]["log4j2.properties"], "rootLogger.level = warn\n");
    let properties = found["data"]["spark.properties"].as_str().unwrap();
    assert!(properties.contains("spark.some.default=2g\n"), "{properties}");
}
