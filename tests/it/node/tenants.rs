//! Proves that a tenant's application reaches only what the tenant's own pods can reach: its code never runs in the
//! operator's container, and it reads no file of the operator.

use super::{
    apply, delete, install, install_alone, is_rolled_out, native::python_job, node_address, operator_pods,
    pod, pods, submission_pods::JOB, until, web_hdfs::WebHdfs,
};
use crate::apiserver::prelude::*;

/// The path at which each container has the token of its pod's service account.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
const TENANT: &str = "system:serviceaccount:default:spark";

#[test]
#[ignore = "needs a node: make test"]
fn code_and_files_of_a_submission_have_only_the_rights_of_the_tenant() {
    let _shared = install();
    let store = WebHdfs::start(&node_address());
    let name = "takes-part";
    let mut job = python_job(name, "submission-job", JOB);
    job["spec"]["sparkConf"] = json!({
        "spark.kubernetes.driver.pod.featureSteps": "org.apache.spark.examples.NotesSubmitter",
        "spark.kubernetes.kerberos.krb5.path": TOKEN, "spark.files": format!("file://{TOKEN}"),
        "spark.kubernetes.file.upload.path": format!("{}/loot", store.url),
    });
    job["spec"]["driver"]["env"] =
        json!([{"name": "SPARK_DIST_CLASSPATH", "value": "/opt/spark/examples/jars/spark-examples.jar"}]);
    apply(&job);
    until("the file is uploaded", || store.files().contains_key("token"));
    assert_eq!(subjects_in(&store.files()["token"]), [TENANT]);
    let mut subjects = Vec::new();
    until("the file is in a ConfigMap", || {
        subjects = subjects_in(&kubectl(&["get", "configmaps", "--output=json"]));
        !subjects.is_empty()
    });
    assert!(subjects.iter().all(|subject| subject == TENANT), "{subjects:?}");

    until("the driver is there", || !pods(name, "driver").is_empty());
    let driver = pod(name, "driver");
    let noted = |key: &str| driver["metadata"]["annotations"][key].as_str().unwrap_or_default();
    let claims: Value = serde_json::from_str(noted("submitted-with")).unwrap();
    assert_eq!(claims["sub"], TENANT);
    assert_eq!(claims["kubernetes.io"]["pod"]["name"], noted("submitted-in"), "{claims:#}");
    assert!(noted("submitted-in").starts_with(&format!("{name}-")), "{claims:#}");
    assert!(noted("submitted-in").ends_with("-submission"), "{claims:#}");
    delete(name);
}

#[test]
#[ignore = "needs a node: make test"]
fn the_operators_image_has_no_java_no_spark_and_no_shell_alone() {
    let _alone = install_alone();
    is_rolled_out();
    let in_operators = |arguments: &[&str]| kubectl(&[&["-n", "spark-operator"], arguments].concat());
    let pod = &operator_pods()[0];
    // A container beside the operator's sees the operator's files through /proc, if it runs as root, which the
    // manifests forbid in this namespace.
    let level_is = |level: &str| {
        let label = format!("pod-security.kubernetes.io/enforce={level}");
        kubectl(&["label", "--overwrite", "namespace", "spark-operator", &label]);
    };
    level_is("privileged");
    let beside =
        ["debug", pod, "--image=docker.io/library/busybox:stable", "--image-pull-policy=IfNotPresent"];
    let looks =
        ["--target=spark-operator", "--container=looks", "--profile=sysadmin", "--custom=/dev/stdin", "--"];
    let root = json!({"securityContext": {"privileged": true, "runAsNonRoot": false, "runAsUser": 0}});
    let find = ["find", "/proc/1/root/", "-xdev", "-type", "f"];
    kubectl_with(&root, &[&["-n", "spark-operator"], &beside[..], &looks, &find].concat());
    let ended = "--output=jsonpath={.status.ephemeralContainerStatuses[0].state.terminated.exitCode}";
    until("all files are listed", || !in_operators(&["get", "pod", pod, ended]).is_empty());
    let listed = in_operators(&["logs", pod, "--container=looks"]);
    let files: Vec<_> = listed.lines().filter_map(|line| line.strip_prefix("/proc/1/root")).collect();
    assert!(files.contains(&"/usr/bin/spark-operator"), "{listed}");
    let programs: Vec<_> =
        files.iter().filter(|path| path.starts_with("/usr/bin/") || path.starts_with("/bin/")).collect();
    assert_eq!(programs, [&"/usr/bin/spark-operator"]);
    let is_unwanted =
        |path: &str| ["java", "jvm", ".jar", "spark-submit"].iter().any(|word| path.contains(word));
    assert_eq!(files.iter().find(|path| is_unwanted(path)), None);
    level_is("restricted");
    in_operators(&["delete", "pod", pod]);
    is_rolled_out();
}

/// Returns the subjects of all service account tokens in this text.
fn subjects_in(text: &str) -> Vec<String> {
    let is_of_token = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let words = text.split(|c| !is_of_token(c)).filter(|word| word.starts_with("eyJ"));
    words.filter_map(|word| claims(word.split('.').nth(1)?)).collect()
}

/// Returns the subject in the middle part of a token.
fn claims(encoded: &str) -> Option<String> {
    let mut encoded = encoded.replace('-', "+").replace('_', "/");
    while !encoded.len().is_multiple_of(4) {
        encoded.push('=');
    }
    let ByteString(claims) = serde_json::from_value(json!(encoded)).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    Some(claims["sub"].as_str()?.to_owned())
}
