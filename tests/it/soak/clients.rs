//! Runs the code of other programs that submit applications and follow them, as published on PyPI: Airflow's provider
//! in a real Airflow, and Kubeflow's SDK. `docs/user/clients.md` has the results.

/// Argo CD's rules, which come from its Go module.
mod argo_cd;
/// Kueue, which comes from its Go modules.
mod kueue;

use crate::{
    apiserver::prelude::*,
    clients::{Conclusion, clients},
    node::{
        APPLICATIONS, application, apply,
        connect::{packages, python_inside},
        install_alone, kept,
        native::{image, python_job, spark_version},
        state_is, until,
    },
};
use std::fs::File;

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
        ("is-renewed", false, "first executor:", 0),
        ("is-deferred", true, "first executor:", 0),
        ("has-additions", true, "first executor:", 0),
        ("is-mortal", true, "first executor:", 1),
        ("is-by-spark-submit", true, "first executor:", 0),
        ("has-sidecar", true, "first executor:", 0),
        ("waits-for-success", true, "first executor:", 1),
        ("waits-for-failure", false, "Spark application failed with state: FAILED", 1),
        // The DAG of docs/user/airflow.md.
        ("spark_pi", true, "Pi is roughly 3.", 0),
        // Airflow takes a suspended application for a started one, and fails because it has no driver.
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
    assert_eq!(airflow.tries().lines().count(), 2, "a retry can have the name of the application before it");
    until("its time to live is over", || calls::get(&format!("{APPLICATIONS}/is-mortal")).is_none());
    kubectl(&["delete", "sparkapp", "--all"]);
}

#[test]
#[ignore = "needs a node and Airflow: make clients"]
fn a_whole_airflow_defers_tasks_and_reattaches_after_a_worker_is_killed() {
    let _alone = install_alone();
    let airflow = Airflow::start();
    let _parts = ["api-server", "dag-processor", "scheduler", "triggerer"].map(|name| airflow.part(name));
    let begins = |dag: &str| {
        let trigger = ["dags", "trigger", dag, "--run-id", RUN];
        until(&format!("Airflow knows {dag}"), || airflow.run(&trigger).status.success());
    };
    let succeeds = |dag: &str| until(&format!("{dag} succeeds"), || airflow.state_of(dag) == "success");
    begins("is-deferred");
    let drivers = ["get", "pods", "--selector=spark-role=driver,dag_id=is-deferred", "--output=name"];
    until("the task has a driver", || !kubectl(&drivers).is_empty());
    succeeds("is-deferred");

    let name = "is-reattached";
    begins(name);
    until("the application is there", || calls::get(&format!("{APPLICATIONS}/{name}")).is_some());
    state_is(name, "RUNNING");
    let log = ["logs", "is-reattached-driver", "--container=spark-kubernetes-driver"];
    until("the executor works", || kubectl(&log).contains("first executor:"));
    let tries = airflow.tries();
    let killed = Command::new("kill").arg("-KILL").args(tries.split_whitespace()).status().unwrap();
    assert!(killed.success(), "{tries}");
    until("another worker has the task", || airflow.tries().lines().count() == 2);
    kubectl(&["delete", "pod", "--selector=sparkoperator.k8s.io/app-name=is-reattached,spark-role=executor"]);
    succeeds(name);
    let status = application(name)["status"].take();
    assert_eq!(status["runOrdinal"], 1, "{status}");
    assert_eq!(status["applicationState"]["state"], "COMPLETED", "{status}");
    assert_eq!(kubectl(&["get", "sparkapp", "--output=name"]).lines().count(), 1);
    kubectl(&["delete", "sparkapp", "--all"]);
    println!("soak: clients: a whole Airflow: as it should be");
}

#[test]
#[ignore = "needs a node and Kubeflow's SDK: make clients"]
fn jobs_and_sessions_of_kubeflows_sdk_end_as_their_objects_do() {
    let _alone = install_alone();
    let table = clients().into_iter().find(|client| client.client == "Kubeflow SDK").unwrap().concludes;
    let names: Vec<&str> = table.keys().map(String::as_str).collect();
    let states: String =
        table.iter().map(|(state, it)| format!(" {state}={}", word_of_the_sdk(*it))).collect();
    let jobs = "function: Completed sum: 4950\nlisted: True\nfile that is missing: Failed\n";
    for (program, arguments, expected) in
        [(JOBS, &names[..], &*format!("states:{states}\n{jobs}")), (SESSION, &[], RESULT_OF_SESSION)]
    {
        let output = Command::new("timeout")
            .args(["600", "python3", program, &image(), &spark_version()])
            .args(arguments)
            // The client library has the server's version; the SDK leaves the choice to its user.
            .env("PYTHONPATH", format!("{}:{}", packages(), folder("KUBEFLOW_SDK")))
            .env_remove("SPARK_HOME")
            .output()
            .unwrap();
        let [said, why] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert_eq!(said, expected, "{program}: {why}");
    }
    assert_eq!(kubectl(&["get", "sparkapp,sparkconnect", "--output=name"]), "");
    println!("soak: clients: Kubeflow's SDK: as it should be");
}

const fn word_of_the_sdk(conclusion: Conclusion) -> &'static str {
    match conclusion {
        Conclusion::Waits => "Created",
        Conclusion::Works | Conclusion::Well => "Running",
        Conclusion::Succeeded => "Completed",
        Conclusion::Failed => "Failed",
    }
}

#[test]
#[ignore = "needs a node and Kubeflow's SDK: make clients"]
fn a_session_of_kubeflows_sdk_works_in_a_pod_whose_account_may_edit() {
    const ACCOUNT: &str = "notebook";
    let _alone = install_alone();
    let metadata = json!({"name": ACCOUNT, "namespace": "default"});
    let edit = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"});
    let subject = json!({"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "default"});
    for object in [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
            "roleRef": edit, "subjects": [subject],
        }),
    ] {
        apply(&object);
    }
    let folders = [packages(), folder("KUBEFLOW_SDK")];
    let folders = folders.each_ref().map(String::as_str);
    let said = python_inside(SESSION, &[&image(), &spark_version()], &folders, ACCOUNT);
    assert_eq!(said, RESULT_OF_SESSION);
    assert_eq!(kubectl(&["get", "sparkconnect", "--output=name"]), "");
    kubectl(&["delete", "serviceaccount,rolebinding", ACCOUNT]);
    println!("soak: clients: Kubeflow's SDK in a pod: as it should be");
}

/// The programs that use Kubeflow's SDK, and what the one with a session prints.
const JOBS: &str = "tests/tools/clients/kubeflow_sdk.py";
const SESSION: &str = "tests/tools/clients/kubeflow_sdk_session.py";
const RESULT_OF_SESSION: &str = "session: 100\nits server: Ready True\n";

/// The run of each DAG in a whole Airflow.
const RUN: &str = "once";

/// An Airflow. The command `dags test` runs a DAG, its tasks and its triggers in one process; in a whole Airflow each has a process
/// of its own.
struct Airflow {
    home: PathBuf,
    /// The application that the DAGs submit, each with its changes, as JSON.
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
        self.command(arguments).output().unwrap()
    }

    /// Starts a component of a whole Airflow: a process that ends with its children when the returned value is dropped,
    /// since `timeout` passes the signal on.
    fn part(&self, name: &str) -> Finally {
        let log = File::create(self.home.join(format!("{name}.log"))).unwrap();
        let mut part = self.command(&[name]).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        Finally::new(move || {
            Command::new("kill").arg(part.id().to_string()).status().ok();
            part.wait().ok();
        })
    }

    /// Returns the state of the run of this DAG in a whole Airflow.
    fn state_of(&self, dag: &str) -> String {
        let output = self.run(&["dags", "state", dag, RUN]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        said.lines().last().unwrap_or_default().to_owned()
    }

    /// Returns a line for each attempt of the tasks that record their attempts.
    fn tries(&self) -> String {
        fs::read_to_string(self.home.join("tries")).unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let kubeconfig = env::var("KUBECONFIG").expect("`tests/tools/cluster/cluster exec` sets it");
        let connection =
            format!(r#"{{"conn_type": "kubernetes", "extra": {{"kube_config_path": "{kubeconfig}"}}}}"#);
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=20", "900", "python3", "-m", "airflow"])
            .args(arguments)
            .env("PYTHONPATH", folder("AIRFLOW"))
            .env("AIRFLOW_HOME", &self.home)
            .env("AIRFLOW__CORE__DAGS_FOLDER", self.home.join("dags"))
            .env("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
            .env("AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION", "False")
            .env("AIRFLOW__CORE__PARALLELISM", "4")
            .env("AIRFLOW__API_AUTH__JWT_SECRET", "all parts of this Airflow have the same words")
            // A worker without a heartbeat for this number of seconds counts as dead.
            .env("AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT", "20")
            .env("AIRFLOW__USAGE_DATA_COLLECTION__ENABLED", "False")
            .env("AIRFLOW_CONN_KUBERNETES_DEFAULT", connection)
            .env("APPLICATION", &self.application)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env_remove("SPARK_HOME");
        command
    }
}

/// Returns the folder with Python packages that this variable names.
fn folder(variable: &str) -> String {
    env::var(variable).unwrap_or_else(|_| panic!("`make clients` sets {variable}"))
}
