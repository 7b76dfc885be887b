//! Runs the code of other programs that submit applications and follow them, as PyPI has it: Airflow's provider in a real
//! Airflow, and Kubeflow's SDK. `docs/user/clients.md` has what came of it.

/// Kueue, which comes from its Go modules.
mod kueue;

use crate::{
    apiserver::kubectl::kubectl,
    node::{
        install_alone, kept,
        native::{image, python_job, spark_version},
    },
};
use std::{
    env, fs,
    path::PathBuf,
    process::{Command, Output},
};

#[test]
#[ignore = "needs a node and Airflow: make clients"]
fn a_task_of_airflow_ends_as_its_application_does() {
    let _alone = install_alone();
    let airflow = Airflow::start();
    // The DAG, whether it succeeds, a word of its log, and how many applications it leaves.
    for (dag, succeeds, said, left) in [
        ("succeeds", true, "first executor:", 0),
        ("is-kept", true, "first executor:", 1),
        ("fails", false, "IndexError", 1),
        ("is-retried", false, "IndexError", 2),
        ("is-deferred", true, "first executor:", 0),
        ("has-additions", true, "first executor:", 0),
        ("waits-for-success", true, "first executor:", 1),
        ("waits-for-failure", false, "Spark application failed with state: FAILED", 1),
        // The DAG of docs/user/airflow.md.
        ("spark_pi", true, "Pi is roughly 3.", 0),
        // Airflow takes a suspended application for one that has begun, and misses its driver.
        ("is-suspended", false, "404", 1),
    ] {
        let output = airflow.run(&["dags", "test", dag]);
        let log =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert_eq!((output.status.success(), log.contains(said)), (succeeds, true), "{dag}:\n{log}");
        let there = kubectl(&["get", "sparkapp", "--output=name"]);
        let watched = match dag {
            "waits-for-success" => "is-kept",
            "waits-for-failure" => "fails",
            "spark_pi" => "spark-pi",
            dag => dag,
        };
        let own = there.lines().filter(|name| name.contains(&format!("/{watched}")));
        assert_eq!(own.count(), left, "{dag}: {there}");
        println!("soak: clients: Airflow, {dag}: as it should be");
    }
    let drivers = kubectl(&["get", "pods", "--selector=spark-role=driver", "--output=name"]);
    assert!(!drivers.contains("is-suspended"), "{drivers}");
    kubectl(&["delete", "sparkapp", "--all"]);
}

#[test]
#[ignore = "needs a node and Kubeflow's SDK: make clients"]
fn a_job_of_kubeflows_sdk_ends_as_its_application_does() {
    let _alone = install_alone();
    let output = Command::new("timeout")
        .args(["600", "python3", "tests/tools/clients/kubeflow_sdk.py", &image(), &spark_version()])
        .env("PYTHONPATH", folder("KUBEFLOW_SDK"))
        .env_remove("SPARK_HOME")
        .output()
        .unwrap();
    let [said, why] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert_eq!(said, "function: Completed sum: 4950\nlisted: True\nfile that is missing: Failed\n", "{why}");
    assert_eq!(kubectl(&["get", "sparkapp", "--output=name"]), "");
    println!("soak: clients: Kubeflow's SDK: as it should be");
}

/// An Airflow without a web server: a command runs a DAG, its tasks and its triggers in one process.
struct Airflow {
    home: PathBuf,
    /// The application from which the DAGs start, as JSON.
    application: String,
}

impl Airflow {
    fn start() -> Self {
        let home = kept("airflow");
        fs::remove_dir_all(&home).ok();
        let dags = home.join("dags");
        fs::create_dir_all(&dags).unwrap();
        fs::copy("tests/tools/clients/airflow_dags.py", dags.join("applications.py")).unwrap();
        fs::copy("manifests/examples/spark-pi.yaml", dags.join("spark-pi.yaml")).unwrap();
        let page = fs::read_to_string("docs/user/airflow.md").unwrap();
        let (_, example) = page.split_once("```python\n").unwrap();
        fs::write(dags.join("example.py"), example.split_once("```").unwrap().0).unwrap();
        let application = python_job("of-airflow", "lifecycle-job", "tests/data/node/lifecycle/job.py");
        let airflow = Self { home, application: application.to_string() };
        let output = airflow.run(&["db", "migrate"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        airflow
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let kubeconfig = env::var("KUBECONFIG").expect("`tests/tools/cluster/cluster exec` sets it");
        let connection =
            format!(r#"{{"conn_type": "kubernetes", "extra": {{"kube_config_path": "{kubeconfig}"}}}}"#);
        Command::new("timeout")
            .args(["600", "python3", "-m", "airflow"])
            .args(arguments)
            .env("PYTHONPATH", folder("AIRFLOW"))
            .env("AIRFLOW_HOME", &self.home)
            .env("AIRFLOW__CORE__DAGS_FOLDER", self.home.join("dags"))
            .env("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
            .env("AIRFLOW__USAGE_DATA_COLLECTION__ENABLED", "False")
            .env("AIRFLOW_CONN_KUBERNETES_DEFAULT", connection)
            .env("APPLICATION", &self.application)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env_remove("SPARK_HOME")
            .output()
            .unwrap()
    }
}

/// Returns the folder with a program of PyPI that this variable names.
fn folder(variable: &str) -> String {
    env::var(variable).unwrap_or_else(|_| panic!("`make clients` sets {variable}"))
}
