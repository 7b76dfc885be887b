//! Tests the arguments and files with which the operator runs `spark-submit` for an application.

use crate::prelude::*;
use api::{Role, names::conf};
use spark_client::read_properties;
use submission::{DIRECTORY, Settings, SparkSubmit, run::Run, spark_submit};
use validation::{Refusal, validate};

/// The application of a case is in its `application.yaml`. If this file is missing, the case is about the example in
/// `manifests/examples` that has the same name as the case.
#[test]
fn an_application_is_submitted_as_its_case_says() {
    let mut golden = Golden::default();
    for case in cases("submission") {
        let application = application(&case);
        let SparkSubmit { arguments, files, .. } = submitted(&application).unwrap();
        let id = Run::next(&application).id.to_string();
        // The id depends on the spec, so a written id would have to change in every file after each edit of a case.
        let without_id = |text: &str| text.replace(&id, "SUBMISSION-ID");
        golden.compare(&case.join("driver.args"), &without_id(&(arguments.join("\n") + "\n")));
        for (name, text) in files {
            let text = without_id(&text);
            if name.ends_with(".yaml") {
                golden.compare_yaml(&case.join(name), &serde_json::from_str::<Value>(&text).unwrap());
            } else {
                golden.compare(&case.join(name), &text);
            }
        }
    }
    golden.finish();
}

#[test]
fn a_case_has_no_files_but_those_of_its_submission() {
    for case in cases("submission") {
        let written = submitted(&application(&case)).unwrap().files;
        let others =
            fs::read_dir(&case).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let others: Vec<_> = others.filter(|name| !written.contains_key(name.as_str())).collect();
        assert!(
            others.iter().all(|name| ["application.yaml", "driver.args"].contains(&name.as_str())),
            "{others:?}"
        );
    }
}

/// The operator finds pods by these labels, and the wait property would make spark-submit wait for the end of the job.
#[test]
fn users_cannot_set_properties_that_the_operator_relies_on() {
    let owned = [
        conf::WAIT_APP_COMPLETION.to_owned(),
        "spark.kubernetes.driver.label.sparkoperator.k8s.io/app-name".to_owned(),
        "spark.kubernetes.executor.label.sparkoperator.k8s.io/submission-id".to_owned(),
        conf::kubernetes(Role::Driver, conf::POD_TEMPLATE_FILE),
        conf::DRIVER_POD_NAME.to_owned(),
    ];
    let plain = properties(&submitted(&pi(json!({"driver": {"podName": "d"}}))).unwrap());
    let user: BTreeMap<_, _> = owned.iter().map(|key| (key.clone(), "mine".to_owned())).collect();
    let label = "sparkoperator.k8s.io/submission-id";
    let application = pi(json!({"sparkConf": user, "driver": {"podName": "d", "labels": {label: "mine"}}}));
    let submit = submitted(&application).unwrap();
    assert!(properties(&submit).values().all(|value| value != "mine"), "{:?}", properties(&submit));
    assert_eq!(properties(&submit).keys().collect::<Vec<_>>(), plain.keys().collect::<Vec<_>>());
}

/// The properties are in the order of Kubeflow's operator: sparkConf overrides the fields before it, and the fields
/// after it override sparkConf.
#[test]
fn fields_override_spark_conf_except_some_that_both_roles_share() {
    let fields = json!({
        "sparkVersion": "3.0.0", "imagePullPolicy": "Always", "pythonVersion": "2", "memoryOverheadFactor": "0.2",
        "driver": {"memory": "2g", "coreLimit": "2", "javaOptions": "-Da=field"}, "nodeSelector": {"a": "field"},
    });
    let conf = [
        (conf::IMAGE_PULL_POLICY.to_owned(), "Never"),
        (conf::PYTHON_VERSION.to_owned(), "3"),
        (conf::MEMORY_OVERHEAD_FACTOR.to_owned(), "0.3"),
        (conf::spark(Role::Driver, conf::MEMORY), "3g"),
        (conf::kubernetes(Role::Driver, conf::LIMIT_CORES), "3"),
        (conf::spark(Role::Driver, conf::EXTRA_JAVA_OPTIONS), "-Da=conf"),
        (format!("{}a", conf::NODE_SELECTOR_PREFIX), "conf"),
    ];
    let from_fields = properties(&submitted(&pi(fields.clone())).unwrap());
    assert!(conf.iter().all(|(key, value)| from_fields[key] != *value));
    let mut both = fields;
    both["sparkConf"] = conf.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    let from_both = properties(&submitted(&pi(both)).unwrap());
    let mut conf_wins: Vec<_> =
        conf.iter().filter(|(key, value)| from_both[key] == *value).map(|(key, _)| key.as_str()).collect();
    conf_wins.sort_unstable();
    assert_eq!(conf_wins, [conf::IMAGE_PULL_POLICY, conf::MEMORY_OVERHEAD_FACTOR, conf::PYTHON_VERSION]);
}

#[test]
fn the_files_are_those_that_arguments_and_properties_name() {
    for case in cases("submission") {
        let submit = submitted(&application(&case)).unwrap();
        let path = |name: &&str| format!("{DIRECTORY}/{name}");
        let named = |path: &String| {
            submit.arguments.contains(path) || properties(&submit).values().any(|value| value == path)
        };
        assert!(submit.files.keys().map(path).all(|path| named(&path)), "{}", case.display());
        let inside = format!("{DIRECTORY}/");
        for value in properties(&submit).values().filter_map(|value| value.strip_prefix(&inside)) {
            assert!(submit.files.contains_key(value), "{}: {value}", case.display());
        }
    }
}

/// Kubeflow's operator compares versions, and treats a text that is not a version as older than any version. In this
/// operator the version only decides whether Spark has pod templates.
#[test]
fn pod_templates_are_used_since_spark_3_in_any_form_of_the_version() {
    let cases: Vec<(String, bool)> = yaml(&data("spark-client/templates-since-3.yaml"));
    for (version, templates) in cases {
        let submit = submitted(&pi(json!({"sparkVersion": version}))).unwrap();
        assert_eq!(submit.files.len() == 3, templates, "{version}");
        assert_eq!(
            properties(&submit).contains_key(&conf::kubernetes(Role::Driver, conf::POD_TEMPLATE_FILE)),
            templates
        );
    }
}

pub fn submitted(application: &SparkApplication) -> Result<SparkSubmit, Refusal> {
    let settings = Settings::new("k8s://https://10.96.0.1:443");
    spark_submit(&validate(application)?, &Run::next(application), &settings, "")
}

/// Returns the application `pi` with this spec.
pub fn pi(spec: Value) -> SparkApplication {
    let uid = "6c1f0b5e-0000-4000-8000-000000000001";
    let metadata = json!({"name": "pi", "namespace": "default", "uid": uid});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// Returns the application of a case.
pub fn application(case: &Path) -> SparkApplication {
    let own = case.join("application.yaml");
    if own.exists() {
        return yaml(&own);
    }
    let name = case.file_name().unwrap().to_str().unwrap();
    let example = data("../../manifests/examples").join(format!("{name}.yaml"));
    let documents: Vec<Value> = serde_saphyr::from_multiple(&fs::read_to_string(example).unwrap()).unwrap();
    let of_ours = documents.into_iter().find(|document| document["kind"] == "SparkApplication").unwrap();
    let mut application: SparkApplication = serde_json::from_value(of_ours).unwrap();
    application.metadata.uid = Some("6c1f0b5e-0000-4000-8000-000000000001".into());
    application
}

/// Returns the properties as `java.util.Properties` reads them.
fn properties(submit: &SparkSubmit) -> BTreeMap<String, String> {
    read_properties(&submit.files["spark.properties"]).unwrap()
}
