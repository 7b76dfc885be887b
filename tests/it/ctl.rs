//! Tests the output of the commands of `sparkctl` that need no cluster.

use crate::{choice::asking, native, prelude::*};
use spark_client::read_properties;
use submission::{DIRECTORY, Settings, SparkSubmit, spark_submit};

const EXAMPLES: &str = "manifests/examples";
const NO_UID: &str = "00000000-0000-0000-0000-000000000000";

#[test]
fn render_shows_what_is_created_by_each_submitter_and_how_that_differs() {
    let mut golden = Golden::default();
    for (flag, file) in [
        ("--submitter=auto", "native.yaml"),
        ("--submitter=spark-submit", "spark-submit.yaml"),
        ("--diff", "native.diff"),
    ] {
        let output = sparkctl(&["render", "-f", "manifests/examples/spark-pi-configmap.yaml", flag], "");
        assert!(output.status.success() && output.stderr.is_empty());
        golden.compare(&data(&format!("ctl/{file}")), &String::from_utf8(output.stdout).unwrap());
    }
    golden.finish();
}

/// This test runs offline. `apiserver/sparkctl.rs` checks that the API server accepts the objects.
#[test]
fn rendered_examples_have_names_and_namespaces_and_no_unknown_owners() {
    let examples: Vec<_> =
        entries(EXAMPLES).iter().map(|example| fs::read_to_string(example).unwrap()).collect();
    // Each has one application, perhaps beside other objects. One process renders all, since half of the work of
    // `sparkctl` is to build their schema.
    let manifest = examples.join("\n---\n");
    for submitter in ["native", "spark-submit"] {
        let output = sparkctl(&["render", "-f", "-", "--submitter", submitter], &manifest);
        let mut rendered: Vec<String> = Vec::new();
        for line in program::printed(output).lines() {
            if line.starts_with("# SparkApplication default/") || line.starts_with("# SparkConnect default/")
            {
                rendered.push(String::new());
            }
            let one = rendered.last_mut().unwrap();
            one.push_str(line);
            one.push('\n');
        }
        assert_eq!(rendered.len(), examples.len());
        for (example, rendered) in examples.iter().zip(&rendered) {
            assert_has_the_objects_of(example, rendered, submitter == "native");
        }
    }
}

/// Checks the objects that are created for an example: natively, or by `spark-submit`.
fn assert_has_the_objects_of(example: &str, rendered: &str, is_native: bool) {
    // With native submission, the group objects of a batch scheduler are created first, and placeholders before the
    // driver.
    let (group, placeholders): (&[&str], _) =
        match example.split_once("batchScheduler: ").and_then(|(_, after)| after.lines().next()) {
            _ if cfg!(not(feature = "batch-schedulers")) => (&[], 0),
            Some("volcano" | "kube-scheduler") => (&["PodGroup"], 0),
            Some("kubernetes") => (&["Workload", "PodGroup"], 2),
            _ => (&[], 0),
        };
    // An application with a JMX exporter has one more ConfigMap.
    let count = 4 + usize::from(example.contains("jmxExporterJar"));
    // The server of a SparkConnect needs no submission, and has a NetworkPolicy beside its ConfigMap and Service.
    let is_last = is_native || example.contains("kind: SparkConnect");
    let objects = documents(rendered);
    let mut kinds: Vec<_> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    if is_native {
        assert!(kinds.drain(..group.len()).eq(group.iter().copied()), "{rendered}");
        let placeholders = vec!["Pod"; placeholders];
        let before = count - 1..kinds.len() - 1;
        assert!(kinds.drain(before).eq(placeholders), "{rendered}");
    }
    let driver_is_at = if is_last { count - 1 } else { 0 };
    assert_eq!(kinds.iter().position(|kind| *kind == "Pod"), Some(driver_is_at), "{rendered}");
    assert_eq!(kinds.len(), count, "{rendered}");
    for object in objects {
        let metadata = object["metadata"].as_object().unwrap();
        assert_eq!(metadata["namespace"], "default");
        assert!(metadata["name"].is_string() && !metadata.contains_key("ownerReferences"));
        assert!(!object.to_string().contains(NO_UID), "{object}");
    }
}

#[test]
fn render_says_what_the_operator_creates_before_spark_submit() {
    let example = format!("{EXAMPLES}/spark-pi-prometheus.yaml");
    let output = sparkctl(&["render", "-f", &example, "--submitter=spark-submit"], "");
    let text = String::from_utf8(output.stdout).unwrap();
    let remark = "# Except ConfigMap spark-pi-prometheus-prom-conf, which the operator creates before.\n";
    assert_eq!(text.matches(remark).count(), 1, "{text}");
}

/// In YAML, in a shell and in Java's properties, the special characters in these values have different meanings.
#[test]
fn the_script_in_the_comments_runs_what_the_operator_runs() {
    let hard = "two\nlines, it's \t\u{1}\u{85}\u{2028}\u{feff}\\ \"$HOME\" # Zoë 😀\n\n end: ";
    let application = application(json!({
        "arguments": [hard, "", "--flag", "EOF"],
        "sparkConf": {"spark.hard": hard, "spark.blank": " x ", "spark.eof": "\nEOF\n"},
        "driver": {"annotations": {"hard": hard}},
        "executor": {"template": {"spec": {"containers": [{"name": "spark-kubernetes-executor", "args": [hard, "\n\n#$ \n"]}]}}},
    }));
    let expected = submitted(&application);

    let text = rendered(&application, &["--submitter=spark-submit"]);
    let folder = empty_folder("ctl-script");
    let folder = folder.to_str().unwrap();
    // The script is extracted as --help recommends, but writes its files into another folder than the operator does.
    let script = run("sed", &["-n", "s/^#[$] //p"], &text).stdout;
    let script = String::from_utf8(script).unwrap().replace("/tmp/spark-submission", folder);
    let program = format!("spark-submit() {{ printf '%s\\0' \"$@\" > {folder}/arguments; }}\n{script}");
    let output = run("bash", &["-eu"], &program);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}\n{program}");

    let arguments = fs::read_to_string(format!("{folder}/arguments")).unwrap();
    let arguments = arguments.replace(folder, DIRECTORY);
    assert_eq!(arguments.split_terminator('\0').collect::<Vec<_>>(), expected.arguments);
    for (file, content) in &expected.files {
        let written = fs::read_to_string(format!("{folder}/{file}")).unwrap().replace(folder, DIRECTORY);
        match serde_json::from_str::<Value>(content) {
            Ok(mut template) => {
                if file.starts_with("driver") {
                    let metadata = template["metadata"].as_object_mut().unwrap();
                    metadata.remove("ownerReferences").unwrap();
                    let annotations = metadata["annotations"].as_object_mut().unwrap();
                    annotations.remove("sparkoperator.k8s.io/owner-reference").unwrap();
                }
                assert_eq!(serde_saphyr::from_str::<Value>(&written).unwrap(), template);
            }
            Err(_) => assert_eq!(read_properties(&written), read_properties(content)),
        }
    }
}

#[test]
fn a_default_account_is_in_the_pods_of_both_submitters() {
    let default = "--default-service-account=spark";
    for submitter in ["--submitter=native", "--submitter=spark-submit"] {
        let objects = documents(&rendered(&application(json!({})), &[submitter, default]));
        let driver = objects.iter().find(|object| object["kind"] == "Pod").unwrap();
        assert_eq!(driver["spec"]["serviceAccountName"], "spark", "{submitter}");
    }
    let submission = rendered(&application(json!({})), &["--submitter=spark-submit", default]);
    assert!(submission.contains("serviceAccountName=spark"), "{submission}");
}

#[test]
fn flag_then_annotation_then_capability_decide_on_the_submitter() {
    let by = |application: &SparkApplication, flags: &[&str]| {
        let text = rendered(application, flags);
        let heading = text.lines().next().unwrap().to_owned();
        heading.strip_prefix("# SparkApplication team/pi: ").unwrap().to_owned()
    };
    let native = "the operator creates this itself, without spark-submit.";
    let other = "spark-submit runs in a pod of the application's own:";
    let plain = application(json!({}));
    assert_eq!(by(&plain, &[]), native);
    let asking = asking(plain, Some("spark-submit"));
    assert_eq!(by(&asking, &[]), other);
    assert_eq!(by(&asking, &["--submitter=native"]), native);
    assert!(rendered(&asking, &["--diff"]).contains("\n+++ native/order-of-creation\n"));

    let upload = application(json!({
        "deps": {"jars": ["/home/me/a.jar"]}, "sparkConf": {"spark.kubernetes.file.upload.path": "s3a://bucket/"},
    }));
    assert_eq!(by(&upload, &[]), other);
    let text = rendered(&upload, &[]);
    assert_eq!(documents(&text), Vec::<Value>::new());
    let remarks: Vec<_> = text.lines().filter(|line| line.starts_with("# ")).skip(1).collect();
    let [_pod, unknown, note] = remarks[..] else { panic!("{remarks:?}") };
    assert!(
        unknown.starts_with("# What it creates is not known without running it: spark.jars: "),
        "{unknown}"
    );
    assert!(note.starts_with(
        "# Note: submitted by spark-submit in a pod, since only that can do this: spec.deps.jars: "
    ));
    for (flag, what) in [("--submitter=native", "submitted"), ("--diff", "compared")] {
        let complaint = refused(&upload, &[flag]);
        let beginning = format!("sparkctl: SparkApplication pi cannot be {what}: spec.deps.jars: ");
        assert!(complaint.starts_with(&beginning), "{complaint}");
    }
}

#[test]
fn an_application_with_a_uid_is_rendered_with_its_owner_and_next_run() {
    const UID: &str = "6c1f0b5e-0000-4000-8000-000000000001";
    let mut application = application(json!({}));
    application.metadata.uid = Some(UID.to_owned());
    let text = rendered(&application, &[]);
    assert!(!text.contains("no uid"), "{text}");
    let id = Run::next(&application).id.to_string();
    for object in documents(&text) {
        let metadata = &object["metadata"];
        assert_eq!(metadata["ownerReferences"][0]["uid"], UID);
        assert_eq!(metadata["labels"]["sparkoperator.k8s.io/submission-id"], id);
    }
    // The driver does not exist yet, so its uid is unknown, and the objects that belong to the driver have no owner.
    let text = rendered(&application, &["--submitter=spark-submit"]);
    let owned = |object: &Value| object["metadata"].get("ownerReferences").is_some();
    assert_eq!(documents(&text).iter().map(owned).collect::<Vec<_>>(), [true, false, false, false]);
}

#[test]
fn without_the_webhook_the_template_has_the_executors_customizations() {
    let application = application(json!({
        "driver": {"tolerations": [{"key": "spot"}]}, "executor": {"tolerations": [{"key": "spot"}]},
    }));
    let is_in_template = |flags: &[&str]| {
        let objects = documents(&rendered(&application, flags));
        let mut templates =
            objects.iter().filter_map(|object| object["data"]["podspec-configmap-key"].as_str());
        let template: Value = serde_json::from_str(templates.next().unwrap()).unwrap();
        template["spec"]["tolerations"][0]["key"] == "spot"
    };
    assert!(!is_in_template(&[]));
    assert!(is_in_template(&["--webhook=false"]));
    // Without the webhook, the driver that `spark-submit` creates has its tolerations from the pod template, as the
    // native driver has.
    let differs = |flags: &[&str]| rendered(&application, flags).contains("\n+  tolerations:\n");
    assert!(differs(&["--diff"]));
    assert!(!differs(&["--diff", "--webhook=false"]));
}

/// The operator passes a value with blanks at its ends as an argument of `spark-submit`. Arguments lose carriage
/// returns, and letters outside ASCII cannot be passed in them.
#[test]
fn values_that_a_command_line_changes_are_shown_as_differences() {
    let application = application(json!({
        "arguments": ["a\rb"], "sparkConf": {"spark.ascii": " a ", "spark.letters": " ü "},
    }));
    let difference = rendered(&application, &["--diff"]);
    let changed: Vec<_> = difference
        .lines()
        .filter(|line| line.contains("spark.letters") || line.contains("spark.ascii"))
        .collect();
    assert_eq!(changed, ["-    spark.letters=ü", "+    spark.letters=\\ ü "]);
    assert!(difference.contains("\n-    - ab\n+    - \"a\\rb\"\n"), "{difference}");
}

#[test]
fn render_reads_standard_input_and_every_application_and_schedule_in_it() {
    let input = fs::read_to_string(data("ctl/several.yaml")).unwrap();
    let headings = |flags: &[&str]| {
        let text = program::printed(sparkctl(&[&["render", "-f", "-"], flags].concat(), &input));
        let headings = text.lines().filter_map(|line| line.strip_prefix("# SparkApplication "));
        let names: Vec<_> = headings.map(|heading| heading.split(':').next().unwrap().to_owned()).collect();
        (names, text)
    };
    let (names, text) = headings(&["--namespace", "team"]);
    assert_eq!(names, ["team/one", "team/two", "team/three-xxxxx", "team/four-00000000"]);
    assert_eq!(documents(&text).len(), 4 * 4);
    assert!(
        text.contains(
            "\n# The schedule creates this application; the time replaces the zeros in its name.\n"
        )
    );
    assert!(text.contains("\n# The cluster replaces the xxxxx in its name.\n"));
    assert_eq!(headings(&[]).0[0], "default/one");
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    line: Vec<String>,
    input: String,
    #[serde(default)]
    output: String,
    error: String,
    #[serde(default)]
    fails: bool,
}

#[test]
fn mistakes_in_a_manifest_are_reported_with_the_right_exit_code() {
    for Said { line, input, output, error, fails } in yaml::<Vec<Said>>(&data("ctl/said.yaml")) {
        let line: Vec<_> = line.iter().map(String::as_str).collect();
        let found = sparkctl(&line, &input);
        let said = [found.stdout, found.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!((found.status.code(), said), (Some(i32::from(fails)), [output, error]), "{line:?}");
    }
}

/// Spark before 3.0 has no pod templates, so the annotation with the owner is one of the properties.
#[test]
fn an_unknown_owner_is_not_among_the_properties_of_the_script() {
    let old = application(json!({"sparkVersion": "2.4.8", "sparkConf": {"spark.uid": NO_UID}}));
    let lines = |application: &SparkApplication| {
        let text = rendered(application, &["--submitter=spark-submit"]);
        let lines = text.lines().filter(|line| line.starts_with("#$ ") && line.contains("-0000-"));
        lines.map(|line| line.split('=').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(lines(&old), ["#$ spark.uid"]);
    let mut known = old;
    known.metadata.uid = Some("6c1f0b5e-0000-4000-8000-000000000001".to_owned());
    let owner = "#$ spark.kubernetes.driver.annotation.sparkoperator.k8s.io/owner-reference";
    assert_eq!(lines(&known), [owner, "#$ spark.uid"]);
}

#[test]
fn a_manifest_is_given_as_an_argument_or_with_the_flag_of_kubectl() {
    let file = "manifests/examples/spark-pi.yaml";
    for verb in ["validate", "render"] {
        let [plain, by_flag, both, none] =
            [&[verb, file][..], &[verb, "-f", file], &[verb, file, "-f", file], &[verb]]
                .map(|line| sparkctl(line, ""));
        assert!(plain.status.success() && !plain.stdout.is_empty(), "{plain:?}");
        assert_eq!(plain, by_flag);
        assert_eq!((both.status.code(), none.status.code()), (Some(2), Some(2)), "{both:?} {none:?}");
    }
}

/// There is no cluster, but such objects are reported before the first request.
#[test]
fn objects_that_are_not_created_are_reported_at_once() {
    let nobody = program::kubeconfig(&empty_folder("ctl-nobody"), "http://127.0.0.1:1", "default");
    let mut application = json!(application(json!({})));
    application["metadata"] = json!({"name": "a"});
    let input = format!("{application}\n---\nkind: ConfigMap\nmetadata: {{name: b}}\n");
    let created = sparkctl(&["create", "--kubeconfig", nobody.to_str().unwrap(), "-"], &input);
    let told = String::from_utf8(created.stderr).unwrap();
    assert!(
        told.starts_with(
            "Warning: objects of other kinds than the operator's are not created: ConfigMap b\n"
        ),
        "{told}"
    );
}

/// kubectl reads a number beyond the range of floating point (`99e9999`) as a string.
#[test]
fn a_label_that_looks_like_a_huge_number_is_rendered_as_text() {
    let commit = sparkctl(
        &["render", "-f", "-"],
        "apiVersion: sparkoperator.k8s.io/v1beta2\nkind: SparkApplication\nmetadata: {name: a}\nspec:\n  type: Java\n  sparkVersion: 4.0.1\n  \
         mainClass: Main\n  image: spark\n  mainApplicationFile: local:///a.jar\n  driver: {labels: {w-12e4567: 99e9999, v: 12e4567, w: 12e4567}}\n  executor: {}\n",
    );
    let rendered = String::from_utf8_lossy(&commit.stdout);
    assert!(
        ["v: \"12e4567\"", "w: \"12e4567\"", "w-12e4567: \"99e9999\""]
            .iter()
            .all(|label| rendered.contains(label)),
        "{commit:?}"
    );
}

#[test]
fn a_field_without_effect_gives_a_warning_like_those_of_kubectl() {
    let application = application(json!({"failureRetries": 3}));
    let output = sparkctl(&["render", "-f", "-"], &json!(application).to_string());
    assert!(output.status.success());
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "Warning: SparkApplication pi: spec.failureRetries: has no effect: write spec.restartPolicy.onFailureRetries\n"
    );
    let mut misspelt = json!(application);
    misspelt["spec"]["driver"]["memroy"] = json!("1g");
    let output = sparkctl(&["render", "-f", "-"], &misspelt.to_string());
    assert!(output.status.success());
    let told = String::from_utf8(output.stderr).unwrap();
    let expected = "spec.driver.memroy: there is no such field: did you mean spec.driver.memory?\n";
    assert!(told.ends_with(expected), "{told}");
}

/// Returns an application whose program is in the image, with `changes` to its spec.
pub(crate) fn application(changes: Value) -> SparkApplication {
    let mut application = native::program(changes);
    application.metadata.namespace = Some("team".to_owned());
    application.metadata.uid = Some(NO_UID.to_owned());
    application
}

/// Returns the arguments and files with which the operator would run `spark-submit`.
fn submitted(application: &SparkApplication) -> SparkSubmit {
    let settings = Settings::new("k8s://https://kubernetes.default.svc:443");
    spark_submit(&validate(application).unwrap(), &Run::next(application), &settings, "").unwrap()
}

/// Returns the output of `sparkctl render` for `application`.
pub(crate) fn rendered(application: &SparkApplication, flags: &[&str]) -> String {
    let output = sparkctl(&[&["render", "-f", "-"], flags].concat(), &json!(application).to_string());
    let warnings = String::from_utf8_lossy(&output.stderr);
    let are_all = warnings.lines().all(|line| line.starts_with("Warning: "));
    assert!(output.status.success() && are_all, "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the error message of `sparkctl render`, which is to fail.
fn refused(application: &SparkApplication, flags: &[&str]) -> String {
    let output = sparkctl(&[&["render", "-f", "-"], flags].concat(), &json!(application).to_string());
    assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn documents(text: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    documents.into_iter().filter(|document| !document.is_null()).collect()
}

fn sparkctl(arguments: &[&str], input: &str) -> Output {
    run(sparkctl_program(), arguments, input)
}
