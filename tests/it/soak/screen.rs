//! What does it cost to look at thousands of applications?

use crate::apiserver::{fleet, kubectl::kubectl, namespace::Namespace};
use spark_operator::api::SparkApplication;
use std::process::Command;

const MANY: usize = 5_000;
/// Of CPU time; a program that asks for all at once would not take it, but the API server would suffer.
const SECONDS: f64 = 1.0;
const PAGE: usize = 500;

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn five_thousand_applications_are_listed_page_by_page_in_less_than_a_second_of_cpu() {
    let namespace = Namespace::new("soak-screen").await;
    fleet::make(&namespace, MANY).await;
    for command in [&["list"][..], &["list", "-o", "wide"], &["top", "--once"]] {
        let asked = lists();
        let (output, seconds) = timed(&[&["-n", "soak-screen"], command].concat());
        let pages = lists() - asked;
        let command = command.join(" ");
        println!("soak: sparkctl {command}: {MANY} applications in {seconds:.2} s of CPU, {pages} pages");
        assert!(output.lines().count() > MANY, "{output}");
        assert_eq!(pages, MANY.div_ceil(PAGE), "{command}");
        assert!(seconds < SECONDS, "{command}");
    }
    namespace.clear::<SparkApplication>().await;
}

/// What the released `sparkctl` prints, and how many seconds of CPU that took.
fn timed(arguments: &[&str]) -> (String, f64) {
    let sparkctl = std::env::var("SPARKCTL").expect("SPARKCTL is the released sparkctl: make soak");
    let output = Command::new("bash")
        .args(["-c", "TIMEFORMAT='%U %S'; time \"$@\"", "bash", &sparkctl])
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let seconds = said.split_whitespace().map(|part| part.parse::<f64>().expect(&said)).sum();
    (String::from_utf8(output.stdout).unwrap(), seconds)
}

/// How many LISTs of applications the API server has answered.
fn lists() -> usize {
    let metrics = kubectl(&["get", "--raw", "/metrics"]);
    let of_lists = |line: &&str| {
        line.starts_with("apiserver_request_total{")
            && line.contains("resource=\"sparkapplications\"")
            && line.contains("verb=\"LIST\"")
    };
    let counts = metrics.lines().filter(of_lists).filter_map(|line| line.rsplit(' ').next());
    counts.map(|count| count.parse::<usize>().unwrap()).sum()
}
