//! Proves that a server of Spark 3.5, whose image lacks Spark Connect, reports that, and starts with a jar that its
//! SparkConnect names. The jar is a stand-in that serves no client: the real one is in a repository that these tests
//! cannot reach.

use crate::{
    apiserver::prelude::*,
    node::{
        connect::{is_deleted, is_ready_after, notebook, status},
        install_alone, until,
    },
};

#[test]
#[ignore = "needs Spark 3.5: make soak"]
fn a_server_of_spark_3_reports_the_missing_class_and_starts_with_its_jar() {
    let _alone = install_alone();
    let mut connect = notebook();
    kubectl_with(&connect, &["apply", "-f", "-"]);
    until("the server has ended", || status()["lastFailure"]["message"].is_string());
    let why = status()["lastFailure"]["message"].to_string();
    assert!(why.contains("org.apache.spark.sql.connect.service.SparkConnectServer"), "{why}");

    connect["spec"]["sparkConf"]["spark.jars"] = json!("local:///opt/spark/examples/jars/spark-examples.jar");
    kubectl_with(&connect, &["apply", "-f", "-"]);
    is_ready_after(0);
    until("its job has run", || kubectl(&["logs", "notebook-server"]).contains("rows: 100"));
    until("the status has its executor", || status()["executors"] == json!({"running": 1}));
    is_deleted();
    println!(
        "soak: a server of Spark 3.5 has started with a jar that it names, and its executor has run a job"
    );
}
