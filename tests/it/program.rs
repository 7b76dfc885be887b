//! Runs a program as a user does, in the checkout and with text on standard input.

use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

/// Runs `program` to its end. `input` is the text on its standard input.
pub fn run(program: &str, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    // A program that has not read all input has ended already, and its output contains the reason.
    child.stdin.take().unwrap().write_all(input.as_bytes()).ok();
    child.wait_with_output().unwrap()
}
