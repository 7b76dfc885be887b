//! Proves that `sparkctl` shows the output of drivers and executors.

use super::{apply, delete, install, kept, message, native::python_job, state_is, until, until_event};
use crate::{apiserver::prelude::*, program::begin, tmux::Terminal};
use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
};

/// Follows the logs of all executors of an application that has one until it completes; asserts that each line begins
/// with the executor's id.
pub(super) fn each_line_of_all_executors_says_whose_it_is(name: &str) {
    state_is(name, "RUNNING");
    let said = sparkctl(&["log", name, "--executor", "all", "--follow"], 0);
    assert!(said.lines().count() > 10 && said.lines().all(|line| line.starts_with("[1] ")), "{said}");
    sparkctl(&["wait", name, "--for=completed", "--timeout=2m"], 0);
}

#[test]
#[ignore = "needs a node: make test"]
fn create_and_log_follow_successive_drivers_without_output_of_sidecars() {
    let _shared = install();
    let mut job: Value = yaml(&data("node/exit-3.yaml"));
    job["metadata"]["name"] = json!("retried");
    job["spec"]["restartPolicy"] =
        json!({"type": "OnFailure", "onFailureRetries": 1, "onFailureRetryInterval": 1});
    let chatter = ["sh", "-c", "echo chatter"];
    job["spec"]["driver"]["sidecars"] =
        json!([{"name": "chatter", "image": job["spec"]["image"], "command": chatter}]);
    let file = kept("retried.json");
    fs::write(&file, job.to_string()).unwrap();

    let terminal = Terminal::new(110, 30);
    terminal.types(&format!("sparkctl create --delete --logs {}; echo \"code $?\"", file.display()));
    // The line about the wait is shown first, and disappears later.
    terminal.until(|screen| screen.contains(" waiting for the driver of retried: "));
    let said = sparkctl(&["log", "retried", "--follow"], 0);
    assert_eq!(said.lines().filter(|line| *line == "exiting with 3").count(), 2, "{said}");
    assert!(!said.contains("chatter"), "{said}");
    let screen = terminal.until(|screen| screen.contains("\ncode 5\n"));
    assert!(
        !screen.contains("waiting for")
            && screen.contains("exiting with 3\n")
            && screen.contains("SparkApplication retried is FAILED: "),
        "{screen}"
    );
    terminal.keeps("sparkctl-create.txt");
    assert_eq!(message("retried"), "driver container failed with ExitCode: 3, Reason: Error");
    until_event("sparkapplication/retried", &["Warning", "SparkApplicationFailed", "ExitCode: 3"]);

    let status = sparkctl(&["status", "retried"], 0);
    assert!(status.starts_with("retried is FAILED: driver container failed with ExitCode: 3"), "{status}");
    let (_, words) = status.split_once("\nThe driver's last words:\n  ").expect(&status);
    assert!(words.contains("\n  exiting with 3\n"), "{status}");
    let whole = sparkctl(&["log", "retried"], 0);
    assert!(whole.lines().count() > 5 && said.ends_with(&whole), "{whole}");
    assert_eq!(sparkctl(&["log", "retried", "--since", "1h"], 0), whole);
    thread::sleep(Duration::from_secs(2));
    assert_eq!(sparkctl(&["log", "retried", "--since", "1s"], 0), "");
    // The pod of the previous run does not exist any more.
    let before = sparkctl(&["log", "retried", "--previous"], 0);
    assert_eq!(before, "driver container failed with ExitCode: 3, Reason: Error\n");
    delete("retried");
}

#[tokio::test]
#[ignore = "needs a node: make test"]
async fn each_line_of_a_followed_log_is_printed_once_despite_lost_connections() {
    let _shared = install();
    let proxy = Proxy::start().await;
    let kubeconfig = proxy.kubeconfig(Path::new(env!("CARGO_TARGET_TMPDIR")));

    apply(&python_job("counting", "counting-job", "tests/data/node/verbs/job.py"));
    let follow = |more: &[&str], to: &str| {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(to);
        let child = Command::new(sparkctl_program())
            .args([&["--kubeconfig", &*kubeconfig, "log", "counting", "--follow"], more].concat())
            .stdout(File::create(&file).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        (EndedOnDrop(child), file)
    };
    let numbers = |file: &Path| {
        let said = fs::read_to_string(file).unwrap();
        let numbers = said.lines().filter_map(|line| line.strip_prefix("number ")?.parse::<u32>().ok());
        let mut numbers: Vec<_> = numbers.collect();
        numbers.sort_unstable();
        numbers
    };
    let (mut whole, told) = follow(&[], "counting-whole.txt");
    let comes_to =
        |number: u32| until(&format!("the log has number {number}"), || numbers(&told).contains(&number));
    for number in [5, 25, 45] {
        comes_to(number);
        proxy.line_is(Line::Refused);
        thread::sleep(Duration::from_secs(1));
        proxy.line_is(Line::Up);
    }
    // The job pauses after 69, so that this second `sparkctl log` finds no new lines at first.
    comes_to(69);
    let (mut late, told_late) = follow(&["--tail=0"], "counting-late.txt");
    for child in [&mut whole, &mut late] {
        assert!(child.0.wait().unwrap().success());
    }
    assert_eq!(numbers(&told), Vec::from_iter(0..=100));
    assert_eq!(numbers(&told_late), Vec::from_iter(70..=100));
    delete("counting");
}

/// Waits for the end of a `sparkctl`. Returns the exit code and standard error.
pub(super) fn ended(process: &mut EndedOnDrop) -> (Option<i32>, String) {
    let mut complaint = String::new();
    process.0.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    (process.0.wait().unwrap().code(), complaint)
}

/// Starts `sparkctl`. Returns the process and the first line that it prints.
pub(crate) fn spawn(arguments: &[&str]) -> (EndedOnDrop, String) {
    let mut child = begin(Command::new(sparkctl_program()).args(arguments), "");
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    // The rest of the output must be read, or the process would block.
    thread::spawn(move || io::copy(&mut lines, &mut io::sink()));
    (EndedOnDrop(child), line.trim_end().to_owned())
}

/// Returns what `sparkctl` prints; asserts that it exits with this code.
pub(super) fn sparkctl(arguments: &[&str], code: i32) -> String {
    let output = run(sparkctl_program(), arguments, "");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "sparkctl {}: {stderr}", arguments.join(" "));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
