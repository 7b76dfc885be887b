//! Proves that listing and showing thousands of applications costs little CPU and few requests.

use crate::{
    apiserver::{fleet, prelude::*},
    tmux::Terminal,
};

const MANY: usize = 5_000;
/// The limit in seconds of CPU time. A program that lists everything in one request would stay below this limit too,
/// but would burden the API server.
const SECONDS: f64 = 1.0;
const PAGE: usize = 500;

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn five_thousand_applications_are_listed_in_pages_within_a_second_of_cpu() {
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
    let seconds = looked_at();
    println!("soak: sparkctl top: {MANY} applications on a screen, {seconds:.2} s of CPU");
    assert!(seconds < SECONDS, "top, on a screen");
    namespace.clear::<SparkApplication>().await;
}

/// Returns the output of the released `sparkctl`, and the seconds of CPU that it took.
fn timed(arguments: &[&str]) -> (String, f64) {
    let output = Command::new("bash")
        .args(["-c", &format!("{TIMED} \"$@\""), "bash", &sparkctl()])
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    (String::from_utf8(output.stdout).unwrap(), seconds(&said))
}

/// Returns the seconds of CPU that the live screen took while it was sorted by each column and scrolled to both ends.
fn looked_at() -> f64 {
    let terminal = Terminal::new(120, 40);
    terminal.types(&format!("{TIMED} {} -n soak-screen top", sparkctl()));
    terminal.until(|screen| screen.starts_with(&format!("{MANY} applications")));
    for column in ["age", "name", "executors", "restarts", "state"] {
        terminal.presses("s");
        terminal.until(|screen| screen.contains(&format!(", by {column}")));
    }
    for (key, rows) in [("End", format!("-{MANY} of {MANY}")), ("Home", format!(" 1-36 of {MANY}"))] {
        terminal.presses(key);
        terminal.until(|screen| screen.contains(&rows));
    }
    terminal.presses("q");
    let screen = terminal.until(|screen| screen.trim_end().ends_with("\n$"));
    seconds(&screen)
}

/// Makes bash print the CPU time of the command that follows, on standard error.
const TIMED: &str = "TIMEFORMAT='CPU %U %S'; time";

fn seconds(said: &str) -> f64 {
    let told = said.lines().find_map(|line| line.strip_prefix("CPU ")).expect(said);
    told.split_whitespace().map(|part| part.parse::<f64>().expect(said)).sum()
}

fn sparkctl() -> String {
    env::var("SPARKCTL").expect("SPARKCTL is the released sparkctl: make soak")
}

/// Returns how many LIST requests for applications the API server has answered.
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
