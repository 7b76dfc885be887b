//! Does `sparkctl` show what drivers and executors say?

use super::{install, native::python_job, state_is};
use crate::{
    apiserver::kubectl::{kubectl, kubectl_with},
    program::run,
};

#[test]
#[ignore = "needs a node: make test"]
fn create_follows_the_driver_and_fails_if_the_application_does() {
    install();
    kubectl(&["apply", "-f", "manifests/examples/spark-pi.yaml"]);
    let said = sparkctl(&["create", "--delete", "--logs", "manifests/examples/spark-pi.yaml"], 0);
    let made = "SparkApplication \"spark-pi\" deleted\nSparkApplication \"spark-pi\" created\n";
    assert!(said.starts_with(made), "{said}");
    assert!(said.contains("Pi is roughly 3."), "{said}");
    assert_eq!(sparkctl(&["log", "spark-pi", "--tail", "2"], 0).lines().count(), 2);
    assert!(sparkctl(&["status", "spark-pi"], 0).starts_with("spark-pi is COMPLETED\n"));
    sparkctl(&["create", "--delete", "--logs", "tests/data/node/exit-3.yaml"], 5);
    kubectl(&["delete", "sparkapp", "spark-pi", "exit-3"]);
}

#[test]
#[ignore = "needs a node: make test"]
fn each_line_of_all_executors_says_whose_it_is() {
    install();
    kubectl_with(&python_job("logged", "native-job", "tests/data/node/native/job.py"), &["apply", "-f", "-"]);
    state_is("logged", "RUNNING");
    let said = sparkctl(&["log", "logged", "--executor", "all", "--follow"], 0);
    assert!(said.lines().count() > 10 && said.lines().all(|line| line.starts_with("[1] ")), "{said}");
    sparkctl(&["wait", "logged", "--for=completed", "--timeout=2m"], 0);
    kubectl(&["delete", "sparkapp", "logged"]);
}

/// What `sparkctl` prints; it has to exit with this code.
fn sparkctl(arguments: &[&str], code: i32) -> String {
    let output = run(env!("CARGO_BIN_EXE_sparkctl"), arguments, "");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "sparkctl {}: {stderr}", arguments.join(" "));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
