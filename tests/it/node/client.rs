//! Proves that the client library's example submits an application, and sees its end.

use super::{delete, install, log};
use crate::{prelude::*, program::run};

#[test]
#[ignore = "needs a node: make test"]
fn the_example_submits_an_application_and_sees_its_end() {
    let _shared = install();
    let example = Path::new(sparkctl_program()).with_file_name("examples").join("submit_and_wait");
    // The example waits for as long as the application takes; a run that takes longer than this counts as never ending.
    let submit = || run("timeout", &["240", example.to_str().unwrap(), "by-a-program"], "");
    let said = program::printed(submit());
    let end = "by-a-program is Running\nby-a-program is Succeeding\nby-a-program is Completed\n\
               the result is in the log of by-a-program-driver\n";
    assert!(said.ends_with(end), "{said}");
    assert!(log("by-a-program-driver").contains("Pi is roughly 3."));

    let output = submit();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success()
            && said.starts_with("there is a SparkApplication by-a-program in default already"),
        "{said}"
    );
    delete("by-a-program");
}
