//! Tests which pod and ConfigMap the operator creates to run `spark-submit` (cases in `tests/data/submission_pod`), and
//! how much of the output of `spark-submit` the pod's script keeps.

use crate::prelude::*;
use spark_client::Environment;
use submission::{
    Settings,
    submission_pod::{objects, state},
};

const UID: &str = "6c1f0b5e-0000-4000-8000-000000000001";

#[test]
fn the_submission_pod_is_as_its_case_says_and_mounts_its_config_map() {
    let mut golden = Golden::default();
    for case in cases("submission_pod") {
        let application = application(&case);
        let file = |name: &str| (name.to_owned(), format!("# {name}\n"));
        let environment = Environment {
            spark_conf: [file("log4j2.properties"), file("spark-defaults.conf")].into(),
            hadoop_conf: Some([file("core-site.xml")].into()),
            ..Environment::default()
        };
        let submission_environment = SubmissionEnvironment {
            defaults: "spark.default 1".to_owned(),
            environment,
            ..Default::default()
        };
        let settings = Settings::new("k8s://https://10.96.0.1:443");
        let run = Run::next(&application);
        let Objects { pod, children } =
            objects(&validate(&application).unwrap(), &run, &settings, &submission_environment).unwrap();
        let [config_map] = &children[..] else { panic!("{children:?}") };
        assert_eq!(config_map["metadata"]["name"], pod["metadata"]["name"]);
        let mut keys: Vec<_> = config_map["data"].as_object().unwrap().keys().collect();
        keys.sort();
        let items = &pod["spec"]["volumes"].as_array().unwrap().iter();
        let items = items.clone().find(|volume| volume["name"] == "spark-submission").unwrap();
        let mut mounted: Vec<_> =
            items["configMap"]["items"].as_array().unwrap().iter().map(|item| &item["key"]).collect();
        mounted.sort_by_key(ToString::to_string);
        assert_eq!(json!(keys), json!(mounted));
        let properties = config_map["data"]["spark.properties"].as_str().unwrap();
        assert!(properties.starts_with("spark.default 1\n\n"), "{properties}");
        golden.compare_yaml(&case.join("pod.yaml"), &without_script(pod));
    }
    golden.finish();
}

fn application(case: &Path) -> SparkApplication {
    let mut application: SparkApplication = yaml(&case.join("application.yaml"));
    application.metadata.uid = Some(UID.to_owned());
    application
}

/// Removes the script, because it is the same in all cases.
fn without_script(mut pod: Value) -> Value {
    pod["spec"]["containers"][0]["args"][2] = "SCRIPT".into();
    pod
}

/// Runs the real script in a real bash.
#[test]
fn the_script_keeps_the_exception_and_its_causes_and_the_exit_code() {
    let application = application(&cases("submission_pod")[0]);
    let settings = Settings::new("k8s://https://10.96.0.1:443");
    let attempt = Run::next(&application);
    let validated = validate(&application).unwrap();
    let made = objects(&validated, &attempt, &settings, &SubmissionEnvironment::default()).unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut all: Vec<(String, String, i32, String)> = yaml(&data("submission_pod/programs.yaml"));
    let endless = "head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1".to_owned();
    all.push(("an endless line".to_owned(), endless, 1, "x".repeat(1300)));
    for (what, program, code, message) in all {
        let log = folder.join(format!("termination-log-{code}-{}", message.len()));
        let script = made.pod["spec"]["containers"][0]["args"][2].as_str().unwrap();
        let script = script.replace("/dev/termination-log", log.to_str().unwrap());
        let output = run("bash", &["-c", &script, "spark-submit", "bash", "-c", &program], "");
        assert_eq!(output.status.code(), Some(code), "{what}: {output:?}");
        assert_eq!(fs::read_to_string(&log).unwrap(), message, "{what}");
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(default)]
    status: Value,
    #[serde(default)]
    containers: BTreeMap<String, Value>,
    #[serde(default)]
    deleted: bool,
    /// As `Debug` writes it.
    state: String,
}

#[test]
fn the_state_is_that_of_the_container_and_a_deleted_pod_has_not_failed() {
    for Case { mut status, containers, deleted, state: expected } in
        yaml::<Vec<Case>>(&data("submission_pod/states.yaml"))
    {
        let of = |(name, state): (&String, &Value)| json!({"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state});
        if !containers.is_empty() {
            status["containerStatuses"] = containers.iter().map(of).collect();
        }
        let mut pod = json!({
            "metadata": {"name": "pi-1-submission", "labels": {"spark-role": "submission"}},
            "spec": {"containers": [{"name": "istio-proxy"}, {"name": "spark-submit"}]}, "status": status,
        });
        if deleted {
            pod["metadata"]["deletionTimestamp"] = "2026-11-23T08:00:00Z".into();
        }
        let found = state(&PodSummary::of(&serde_json::from_value(pod.clone()).unwrap()));
        assert_eq!(format!("{found:?}"), expected, "{pod}");
    }
}
