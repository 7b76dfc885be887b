//! What does `sparkctl` print where it needs no cluster?

use crate::{
    golden::{Golden, data},
    program::run,
};
use std::process::Output;

#[test]
fn render_shows_what_would_be_submitted() {
    let output = sparkctl(&["render", "-f", "manifests/examples/spark-pi-configmap.yaml"], "");
    let mut golden = Golden::default();
    golden.compare(&data("ctl/render.txt"), &String::from_utf8(output.stdout).unwrap());
    golden.finish();
    assert!(output.status.success() && output.stderr.is_empty());
}

#[test]
fn render_reads_standard_input_and_every_application_in_it() {
    let application = |name: &str| {
        format!(
            "apiVersion: sparkoperator.k8s.io/v1beta2\nkind: SparkApplication\nmetadata: {{name: {name}}}\n\
             spec: {{type: Java, sparkVersion: 4.0.1, mainApplicationFile: local:///a.jar, driver: {{}}, executor: {{}}}}\n"
        )
    };
    let input = format!("{}---\nkind: ConfigMap\n---\n{}", application("one"), application("two"));
    let output = sparkctl(&["render", "-f", "-"], &input);
    let printed = String::from_utf8(output.stdout).unwrap();
    let named: Vec<_> = printed.lines().filter_map(|line| line.strip_prefix("# SparkApplication ")).collect();
    assert_eq!(named, ["one", "two"]);
}

#[test]
fn render_says_what_is_wrong_with_a_file_and_exits_with_1() {
    let odd = "kind: SparkApplication\nmetadata: {name: odd}\nspec: {type: Ruby}\n";
    for (input, complaint) in [
        ("kind: ConfigMap\n", "sparkctl: -: no SparkApplication in it\n"),
        (
            odd,
            "sparkctl: -: SparkApplication odd: spec.type: unknown variant `Ruby`, expected one of `Java`, `Python`, `Scala`, `R`\n",
        ),
        (
            "kind: SparkApplication\nmetadata: {name: client}\nspec: {type: Java, mode: client}\n",
            "sparkctl: SparkApplication client cannot be submitted: spec.mode: `client` would run the driver inside the operator, \
             with the operator's rights: write `cluster`\n",
        ),
    ] {
        let output = sparkctl(&["render", "-f", "-"], input);
        assert_eq!(String::from_utf8(output.stderr).unwrap(), complaint);
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
    }
    let missing = sparkctl(&["render", "-f", "no-such-file.yaml"], "");
    assert!(
        String::from_utf8_lossy(&missing.stderr).starts_with("sparkctl: cannot read no-such-file.yaml: ")
    );
}

fn sparkctl(arguments: &[&str], input: &str) -> Output {
    run(env!("CARGO_BIN_EXE_sparkctl"), arguments, input)
}
