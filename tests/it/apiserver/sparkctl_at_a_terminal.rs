//! Tests what `sparkctl` shows at a terminal.

use crate::{apiserver::prelude::*, tmux::Terminal};
use std::os::unix::fs::symlink;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn top_follows_the_changes_of_applications() {
    let namespace = Namespace::new("screen").await;
    let state = async |name: &str, state: &str, executors: &[&str]| {
        let executors: serde_json::Map<_, _> =
            (1..).zip(executors).map(|(number, state)| (format!("e-{number}"), json!(state))).collect();
        let status = json!({
            "applicationState": {"state": state}, "driverInfo": {}, "executionAttempts": 2, "executorState": executors,
        });
        namespace.patch_status::<SparkApplication>(name, &status).await;
    };
    for number in 1..=30 {
        namespace.apply(&application(&format!("etl-{number:02}")));
    }
    state("etl-30", "RUNNING", &["RUNNING", "RUNNING", "PENDING"]).await;

    let terminal = Terminal::new(100, 20);
    terminal.types("sparkctl -n screen top");
    let screen = terminal.until(|screen| screen.contains("1 RUNNING"));
    let lines: Vec<_> = screen.lines().collect();
    assert!(lines[0].starts_with("30 applications in namespace screen: "), "{screen}");
    assert!(
        lines[2].starts_with("NAME") && lines[2].contains("EXECUTORS") && lines[2].contains("RESTARTS"),
        "{screen}"
    );
    assert!(lines[19].starts_with("q end") && lines[19].ends_with("1-16 of 30, by state"), "{screen}");
    assert!(screen.contains("2 running, 1 pending"), "{screen}");
    assert!(terminal.coloured().contains("\u{1b}[36mRUNNING"), "{}", terminal.coloured());
    terminal.keeps("sparkctl-top.txt");

    state("etl-30", "COMPLETED", &["COMPLETED"]).await;
    state("etl-29", "FAILED", &["FAILED"]).await;
    terminal.until(|screen| screen.contains("1 FAILED") && screen.contains("1 COMPLETED"));
    namespace.kubectl(&["delete", "sparkapp", "etl-01"]);
    terminal.until(|screen| screen.starts_with("29 applications"));
    terminal.presses("s");
    terminal.until(|screen| screen.contains("by age"));
    terminal.presses("s");
    terminal
        .until(|screen| screen.contains("by name") && screen.lines().nth(3).unwrap().starts_with("etl-02"));
    terminal.presses("NPage");
    terminal.until(|screen| screen.lines().nth(3).unwrap().starts_with("etl-15"));
    terminal.resizes(60, 10);
    terminal.until(|screen| screen.lines().nth(9).is_some_and(|line| line.starts_with("q end")));
    // Lines that are wider than the screen would wrap.
    let screen = terminal.screen();
    assert!(screen.lines().skip(3).take(6).all(|line| line.starts_with("etl-")), "{screen}");

    // `sparkctl top` has to restore the terminal when it ends.
    terminal.presses("q");
    let screen = terminal.until(|screen| screen.trim_end().ends_with('$'));
    assert!(screen.starts_with("$ sparkctl -n screen top\n"), "{screen}");
    terminal.types("echo still here");
    terminal.until(|screen| screen.contains("\nstill here\n"));
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_shell_completes_the_names_of_objects_in_the_cluster() {
    let namespace = Namespace::new("screen").await;
    for name in ["nightly-import", "nightly-report", "pi"] {
        namespace.apply(&application(name));
    }
    namespace.apply(&connect("notebook"));
    let terminal = Terminal::new(100, 20);
    terminal.types("source <(sparkctl completion bash); clear");
    terminal.until(|screen| screen.trim_end() == "$");
    for (begun, whole) in [
        ("sparkctl sus", "sparkctl suspend"),
        ("sparkctl --namesp", "sparkctl --namespace"),
        ("sparkctl -n scre", "sparkctl -n screen"),
        ("sparkctl -n screen status nightly-r", "sparkctl -n screen status nightly-report"),
        ("sparkctl log --namespace=screen pi", "sparkctl log --namespace=screen pi"),
        ("sparkctl wait pi --for comp", "sparkctl wait pi --for completed"),
        ("sparkctl -n screen connect open n", "sparkctl -n screen connect open notebook"),
    ] {
        terminal.until(|screen| screen.trim_end() == "$");
        terminal.begins(begun);
        terminal.presses("Tab");
        terminal.until(|screen| screen.trim_end() == format!("$ {whole}"));
        for key in ["C-u", "C-l"] {
            terminal.presses(key);
        }
    }
    terminal.begins("sparkctl -n screen delete n");
    terminal.presses("Tab");
    terminal.until(|screen| screen.trim_end().ends_with(" nightly-"));
    terminal.presses("Tab");
    terminal.presses("Tab");
    terminal.until(|screen| screen.contains("nightly-import  nightly-report"));
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn kubectl_runs_and_completes_sparkctl_as_a_plugin() {
    let namespace = Namespace::new("screen").await;
    for name in ["nightly-import", "nightly-report"] {
        namespace.apply(&application(name));
    }
    for name in ["kubectl-spark", "kubectl_complete-spark"] {
        symlink(sparkctl_program(), namespace.folder.join(name)).unwrap();
    }
    let path = format!("{}:{}", namespace.folder.display(), env::var("PATH").unwrap());
    let kubectl = |arguments: &[&str]| {
        program::printed(Command::new("kubectl").args(arguments).env("PATH", &path).output().unwrap())
    };
    let names = kubectl(&["spark", "-n", "screen", "list", "-o", "name"]);
    assert!(names.ends_with("/nightly-report\n"), "{names}");
    assert!(kubectl(&["spark", "log", "--help"]).contains("Usage: kubectl spark log [OPTIONS] <NAME>"));
    let told = kubectl(&["__complete", "spark", "-n", "screen", "status", "nightly-r"]);
    assert_eq!(told, "nightly-report\n:4\n");
    let verbs = kubectl(&["__complete", "spark", "re"]);
    let verbs: Vec<_> = verbs.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(verbs, ["resume", "rerun", "render", ":4"]);
}
