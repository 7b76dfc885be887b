//! Tests the output of `sparkctl list`, `sparkctl diff` and `sparkctl render`.

use super::kubectl;
use crate::{apiserver::prelude::*, program::printed};

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn list_shows_applications_and_diff_shows_what_would_change() {
    let namespace = Namespace::new("sparkctl").await;
    let nothing = (String::new(), "No applications found in namespace sparkctl.\n".to_owned());
    assert_eq!(sparkctl(&["list", "--namespace", "sparkctl"]), nothing);
    assert_eq!(sparkctl(&["list", "-A"]).1, "No applications found in any namespace.\n");

    namespace.apply(&application("new"));
    namespace.apply(&application("pi"));
    let (table, complaints) = sparkctl(&["-n", "sparkctl", "list"]);
    assert_eq!(complaints, "");
    let [_, new, _] = rows(&table).try_into().unwrap();
    assert_eq!(new[..5], ["new", "NEW", "<none>", "<none>", "<none>"]);
    assert!(new[5].ends_with('s'), "{table}");

    let [mut edited, other] = ["pi", "other"].map(application);
    edited["spec"]["arguments"] = json!(["7"]);
    for (object, told) in [
        (edited, "spec.arguments   <none>   [\"7\"]"),
        (other, "other would be created"),
        (connect("notebook"), "SparkConnect notebook would be created"),
    ] {
        let output = run(sparkctl_program(), &["-n", "sparkctl", "diff", "-"], &object.to_string());
        let text = printed(output);
        assert!(text.contains(told), "{text}");
    }

    let (table, _) = sparkctl(&["list", "--all-namespaces"]);
    let [header, new, pi] = rows(&table).try_into().unwrap();
    assert_eq!(header[..2], ["NAMESPACE", "NAME"]);
    assert_eq!([new[..2].to_vec(), pi[..2].to_vec()], [["sparkctl", "new"], ["sparkctl", "pi"]]);
}

/// Includes strings that YAML readers misinterpret or refuse. Needs an operator, and a namespace called `rendered`.
pub(super) async fn rendered_objects_can_be_created_and_are_stored_unchanged(namespace: &Namespace) {
    the_rendered_examples_can_be_created();
    let hard = [
        "two\nlines\n", " blanks ", "\n\n", "tab\t", "cr\r\n", "\u{1}", "\u{85}\u{2028}\u{feff}", "Zoë 😀",
        "yes", "~", "0x1F", "1_000", "12:30:45", "2024-01-01", "<<", "=", "- a", "a: b", "# no",
        "it's \"so\"", "%YAML", "---", "",
    ];
    let mut application = application("pi");
    let spec = &mut application["spec"];
    spec["arguments"] = json!(hard);
    spec["driver"]["annotations"] = json!({"on": "off", "note": hard.concat()});
    spec["driver"]["env"] = json!([{"name": "HARD", "value": hard.concat()}]);
    spec["sparkConf"] = json!({"spark.hard": hard.concat()});

    for submitter in ["native", "spark-submit"] {
        let flags = ["render", "-f", "-", "--namespace", "rendered", "--submitter", submitter];
        let text = printed(run(sparkctl_program(), &flags, &application.to_string()));
        let dry =
            kubectl::kubectl_reads(&text, &["create", "--dry-run=server", "--validate=strict", "-f", "-"]);
        assert_eq!(dry.lines().count(), 4, "{dry}");
        if submitter == "spark-submit" {
            continue;
        }
        let made = kubectl::kubectl_reads(&text, &["apply", "-f", "-"]);
        assert!(made.lines().count() == 4 && made.lines().all(|line| line.ends_with(" created")), "{made}");

        let meant: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        let [_, template, configuration, pod] = &meant[..] else { panic!("{meant:?}") };
        for config_map in [configuration, template] {
            let name = config_map["metadata"]["name"].as_str().unwrap();
            assert_eq!(namespace.get::<ConfigMap>(name).await.unwrap()["data"], config_map["data"]);
        }
        let driver = namespace.pod("pi-driver").await.unwrap();
        let annotations = |pod: &Value| pod["metadata"]["annotations"]["note"].clone();
        let container = |pod: &Value| pod["spec"]["containers"][0].clone();
        assert_eq!(annotations(&driver), hard.concat());
        assert_eq!(driver["metadata"]["annotations"]["on"], "off");
        assert_eq!(container(&driver)["args"], container(pod)["args"]);
        assert!(container(pod)["args"].as_array().unwrap().ends_with(&hard.map(Value::from)));
        assert_eq!(container(&driver)["env"], container(pod)["env"]);
        namespace.kubectl(&["delete", "pods,configmaps,services", "--all"]);
    }
}

fn the_rendered_examples_can_be_created() {
    let examples = fs::read_dir("manifests/examples").unwrap();
    let examples: Vec<_> = examples.map(|example| example.unwrap().path()).collect();
    // gangs::computed_requests_equal_those_of_the_drivers_of_all_examples submits all examples natively.
    let mut text = String::new();
    // This API server is too old for Kubernetes' own gangs. With spark-submit, other groups are rendered as a comment.
    let (without, with): (Vec<_>, Vec<_>) =
        examples.iter().partition(|example| example.ends_with("spark-pi-gang.yaml"));
    for (has_groups, examples) in [(false, without), (true, with)] {
        let manifests = examples.iter().map(|example| fs::read_to_string(example).unwrap());
        let manifests = manifests.collect::<Vec<_>>().join("\n---\n");
        let flag = format!("--enable-batch-scheduler={has_groups}");
        let line = ["render", "-f", "-", "--submitter", "spark-submit", &flag];
        text += &printed(run(sparkctl_program(), &line, &manifests));
    }
    let dry = kubectl::kubectl_reads(&text, &["create", "--dry-run=server", "--validate=strict", "-f", "-"]);
    // One of the examples has a ConfigMap for its exporter.
    assert_eq!(dry.lines().count(), 4 * examples.len() + 1, "{dry}");
}

/// Returns standard output and standard error of `sparkctl`; panics if it fails.
fn sparkctl(arguments: &[&str]) -> (String, String) {
    let output = run(sparkctl_program(), arguments, "");
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "sparkctl {}: {stderr}", arguments.join(" "));
    (stdout, stderr)
}

fn rows(table: &str) -> Vec<Vec<&str>> {
    table.lines().map(|line| line.split_whitespace().collect()).collect()
}
