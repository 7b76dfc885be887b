//! Proves that all properties that are passed to `spark-submit` arrive at the driver, in each Spark line. The real
//! `spark-submit` is run with every golden case, against an API server that stores what it receives.

use crate::{
    apiserver::operator::unpacked,
    java_properties::{Entries, Java},
    prelude::*,
    submission::{application, submitted},
};
use axum::{extract::State, routing::any};
use spark_client::failure;
use submission::{DIRECTORY, SparkSubmit};

const LINES: [&str; 5] = ["3.5.6", "4.0.1", "4.1.4", "4.2.1", "4.3.0"];

/// Cases whose dependencies `spark-submit` itself would fetch, from hosts that do not exist.
const FETCHED: [&str; 1] = ["dependencies"];

/// Properties that Spark overwrites or formats differently: the path of the pod template in the driver, and numbers in
/// Java's format.
const SPARKS_OWN: [&str; 2] =
    ["spark.kubernetes.executor.podTemplateFile", "spark.kubernetes.memoryOverheadFactor"];

/// Flags of `spark-submit`, each with the property over which the flag takes precedence.
const FLAGS: [(&str, &str); 6] = [
    ("--name", "spark.app.name"),
    ("--deploy-mode", "spark.submit.deployMode"),
    ("--jars", "spark.jars"),
    ("--files", "spark.files"),
    ("--archives", "spark.archives"),
    ("--py-files", "spark.submit.pyFiles"),
];

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn each_property_arrives_at_the_driver() {
    let server = ApiServer::start().await;
    let mut java = Java::start();
    for line in LINES {
        let home = unpacked(&["--spark", line]);
        let (mut submissions, mut arrived) = (0, 0);
        for case in cases("submission") {
            let name = case.file_name().unwrap().to_str().unwrap();
            if !FETCHED.contains(&name) {
                let (submit, folder) = written(&case);
                let what = format!("{line}, {name}");
                let objects = server.objects_of(&what, &home, &submit, &folder).await;
                let expected = expected(&mut java, &submit);
                arrived += expected.len();
                submissions += 1;
                check(&what, &expected, &objects, &mut java);
                fs::remove_dir_all(folder).unwrap();
            }
        }
        println!("soak: Spark {line}: {arrived} properties of {submissions} submissions have arrived");
    }
}

/// Returns the properties that the driver must receive: the file as Spark reads it, overridden by the arguments.
fn expected(java: &mut Java, submit: &SparkSubmit) -> Entries {
    let is_cut = |c: char| c <= ' ' && !matches!(c, '\r' | '\n');
    let file = java.read(&submit.files["spark.properties"]);
    let file = file.into_iter().map(|(key, value)| (key, value.trim_matches(is_cut).to_owned()));
    let mut expected: Entries = file.collect();
    let mut arguments = submit.arguments.iter();
    while let Some(flag) = arguments.next().filter(|argument| argument.starts_with("--")) {
        let value = arguments.next().unwrap();
        if flag == "--conf" {
            let (key, value) = value.split_once('=').unwrap();
            expected.insert(key.to_owned(), value.to_owned());
        }
        if let Some((_, key)) = FLAGS.iter().find(|(name, _)| name == flag) {
            expected.insert((*key).to_owned(), value.clone());
        }
    }
    expected.retain(|key, _| key.starts_with("spark.") && !SPARKS_OWN.contains(&key.as_str()));
    expected
}

fn check(what: &str, expected: &Entries, objects: &[Value], java: &mut Java) {
    let of_kind = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    let mut files =
        of_kind("ConfigMap").filter_map(|config_map| config_map["data"]["spark.properties"].as_str());
    let told = java.read(files.next().unwrap_or_else(|| panic!("{what}: no properties in {objects:#?}")));
    let pod = of_kind("Pod").next().unwrap();
    let mut lost: Vec<String> = Vec::new();
    for (key, value) in expected {
        // `spark-submit` appends the `mainApplicationFile` of a Java or Scala application to `spark.jars`.
        let is_told = told
            .get(key)
            .is_some_and(|told| told == value || (key == "spark.jars" && told.starts_with(value.as_str())));
        if !is_told {
            lost.push(format!("{key}: {:?} became {:?}", value, told.get(key)));
        }
        // Some properties must also appear in the driver's pod itself.
        let found = if let Some(name) = key.strip_prefix("spark.kubernetes.driverEnv.") {
            let variables =
                pod["spec"]["containers"].as_array().unwrap().last().unwrap()["env"].as_array().unwrap();
            variables.iter().find(|variable| variable["name"] == name).map(|variable| &variable["value"])
        } else if let Some(name) = key.strip_prefix("spark.kubernetes.driver.annotation.") {
            Some(&pod["metadata"]["annotations"][name])
        } else if let Some(name) = key.strip_prefix("spark.kubernetes.driver.label.") {
            Some(&pod["metadata"]["labels"][name])
        } else {
            continue;
        };
        if found.is_none_or(|found| found != value) {
            lost.push(format!("{key}: {value:?} is {found:?} in the pod"));
        }
    }
    assert!(lost.is_empty(), "{what}:\n{}", lost.join("\n"));
}

/// Returns the submission of a case, with its files in a folder of its own. A golden case contains only the fields that
/// it tests; the image and the main class are added where they are missing, because `spark-submit` requires them.
fn written(case: &Path) -> (SparkSubmit, PathBuf) {
    let mut application = application(case);
    let spec = &mut application.spec;
    spec.image = spec.image.take().filter(|image| !image.is_empty()).or(Some("spark".to_owned()));
    spec.main_class.get_or_insert("org.example.Main".to_owned());
    let mut submit = submitted(&application).unwrap();
    let folder = std::env::temp_dir().join(format!("spark-lines-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let moved = |text: &str| text.replace(DIRECTORY, folder.to_str().unwrap());
    submit.arguments = submit.arguments.iter().map(|argument| moved(argument)).collect();
    submit.files = submit.files.iter().map(|(name, text)| (*name, moved(text))).collect();
    for (name, text) in &submit.files {
        fs::write(folder.join(name), text).unwrap();
    }
    (submit, folder)
}

/// An API server that accepts every object.
struct ApiServer {
    address: String,
    objects: Arc<Mutex<Vec<Value>>>,
}

impl ApiServer {
    async fn start() -> Self {
        let objects = Arc::<Mutex<Vec<Value>>>::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let keep = async |State(objects): State<Arc<Mutex<Vec<Value>>>>, body: Bytes| {
            // The body of an apply is JSON too, although its content type is not.
            let mut object: Value = serde_json::from_slice(&body).unwrap();
            objects.lock().unwrap().push(object.clone());
            object["metadata"]["uid"] = json!("6c1f0b5e-0000-4000-8000-000000000002");
            object["metadata"]["resourceVersion"] = json!("1");
            Json(object)
        };
        let router = Router::new().fallback(any(keep)).with_state(Arc::clone(&objects));
        tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        Self { address, objects }
    }

    /// Returns the objects that the `spark-submit` in `home` creates for the submission.
    async fn objects_of(&self, what: &str, home: &Path, submit: &SparkSubmit, folder: &Path) -> Vec<Value> {
        let mut arguments = submit.arguments.clone();
        arguments[1] = format!("k8s://http://{}", self.address);
        let run = tokio::process::Command::new(home.join("bin/spark-submit"))
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("SPARK_HOME", home)
            .env("HOME", folder)
            .env("KUBECONFIG", "/dev/null")
            .kill_on_drop(true)
            .output();
        let output = run.await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{what}: {:?}\n{said}", failure::cause(&said));
        std::mem::take(&mut *self.objects.lock().unwrap())
    }
}
