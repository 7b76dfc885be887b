//! Proves that native submission has the same input as `spark-submit`, and can submit the applications of all cases in
//! `tests/data/submission`.

use crate::{
    prelude::*,
    recordings::{case::Case, command_line},
    submission::{application, pi},
};
use api::SparkApplicationStatus;
use spark_client::{Environment, Files, NotNative, Submission, objects, trimmed};
use submission::{DIRECTORY, Settings, SparkSubmit, native, spark_submit};

const MASTER: &str = "k8s://https://10.0.0.1:443";

/// A submission read back from `spark-submit`'s command line and files is the same as the native one.
#[test]
fn both_submitters_get_the_same_submission() {
    for case in cases("submission") {
        let application = application(&case);
        let run = Run::next(&application);
        let submit = spark_submit(&validate(&application).unwrap(), &run, &settings(), "").unwrap();
        let mut submission = submitted(&application, "").unwrap();
        // Files are not compared: the submission of the test's command line has all files, the native one only those
        // that the operator writes itself.
        submission.environment.files = Files::All(BTreeMap::new());
        let mut read = read(&submit, &application);
        read.environment.files = Files::All(BTreeMap::new());
        // Some blanks at the ends of values cannot be passed to spark-submit.
        for (key, value) in &mut submission.properties {
            if read.properties.get(key).is_some_and(|read| read == trimmed(value)) {
                *value = trimmed(value).to_owned();
            }
        }
        assert_eq!(submission, read, "{}", case.display());
    }
}

#[test]
fn native_submission_can_submit_the_applications_of_all_cases() {
    for case in cases("submission") {
        let mut application = application(&case);
        // Native submission needs an image and a main class, and a case sets only the fields that it is about.
        let image = application.spec.image.filter(|image| !image.is_empty());
        application.spec.image = image.or_else(|| Some("spark".to_owned()));
        application.spec.main_class.get_or_insert_with(|| "Main".to_owned());
        let submission = submitted(&application, "").unwrap();
        let Objects { pod, children } =
            objects(&submission).unwrap_or_else(|error| panic!("{}: {error}", case.display()));
        let kinds: Vec<_> = children.iter().map(|child| child["kind"].as_str().unwrap()).collect();
        assert!(kinds.ends_with(&["ConfigMap"]) && kinds.contains(&"Service"), "{kinds:?}");
        let id = Run::next(&application).id.to_string();
        assert_eq!(pod["metadata"]["labels"]["sparkoperator.k8s.io/submission-id"], id);
    }
}

#[test]
fn a_repeated_submission_has_the_same_objects_and_a_new_run_has_others() {
    let mut application = program(json!({}));
    let first = objects(&submitted(&application, "").unwrap()).unwrap();
    assert_eq!(first, objects(&submitted(&application, "").unwrap()).unwrap());
    let names = |objects: &Objects| -> Vec<Value> {
        objects.children.iter().map(|child| child["metadata"]["name"].clone()).collect()
    };
    // The first submission was not recorded, so the names stay the same after an edit. By these names the operator
    // finds the objects that the first submission has created.
    application.spec.arguments.push("again".to_owned());
    let edited = objects(&submitted(&application, "").unwrap()).unwrap();
    assert_eq!(names(&first), names(&edited));
    let selector = "/metadata/labels/spark-app-selector";
    assert_ne!(first.pod.pointer(selector), edited.pod.pointer(selector));

    application.status =
        Some(SparkApplicationStatus { run_ordinal: Some(1), ..SparkApplicationStatus::default() });
    let second = objects(&submitted(&application, "").unwrap()).unwrap();
    assert!(names(&first).iter().all(|name| !names(&second).contains(name)), "{:?}", names(&second));
}

#[test]
fn properties_of_the_application_override_spark_defaults() {
    let application = program(json!({"sparkConf": {"spark.a": "application"}}));
    let submission = submitted(&application, "spark.a defaults\nspark.b  defaults\nother 1\n").unwrap();
    assert_eq!(submission.properties["spark.a"], "application");
    assert_eq!(submission.properties["spark.b"], "defaults");
    assert!(!submission.properties.contains_key("other"));
    assert!(
        matches!(submitted(&application, "spark.a=\\uXY"), Err(NotNative::Refused { why, .. }) if why.contains("spark.a"))
    );
}

/// Spark does not trim the blanks in the values of flags such as `--jars`.
#[test]
fn a_blank_in_a_list_is_refused_with_the_property() {
    let application = program(json!({"deps": {"jars": ["local:///a.jar", " local:///b.jar"]}}));
    let refusal = submitted(&application, "").unwrap_err().to_string();
    assert!(refusal.starts_with("spark.jars: ` local:///b.jar`"), "{refusal}");
}

fn submitted(application: &SparkApplication, defaults: &str) -> Result<Submission, NotNative> {
    let environment = Environment { os_user: "root".to_owned(), ..Environment::default() };
    let validated = validate(application).map_err(|refusal| NotNative::refused("spec", refusal.brief()))?;
    native(
        &validated,
        &Run::next(application),
        &settings(),
        defaults,
        environment,
        jiff::Timestamp::UNIX_EPOCH,
    )
}

/// Returns the submission that `spark-submit` would read.
fn read(submit: &SparkSubmit, application: &SparkApplication) -> Submission {
    let command = ["spark-submit".to_owned()].into_iter().chain(submit.arguments.clone()).collect();
    let files = submit.files.iter().map(|(name, text)| (format!("{DIRECTORY}/{name}"), text.clone()));
    let spark_version = application.spec.spark_version.clone();
    let case = Case { spark_version, command, files: files.collect(), ..Case::default() };
    let ids = Run::next(application).ids();
    command_line::submission(&case, ids).unwrap_or_else(|_| panic!("{:?}", submit.arguments))
}

fn settings() -> Settings {
    Settings::new(MASTER)
}

/// Returns an application whose program is in the image, with `changes` to its spec.
pub fn program(changes: Value) -> SparkApplication {
    let mut spec = json!({
        "type": "Java", "mode": "cluster", "sparkVersion": "4.0.1", "image": "spark",
        "mainClass": "Main", "mainApplicationFile": "local:///main.jar", "driver": {}, "executor": {},
    });
    spec.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    pi(spec)
}
