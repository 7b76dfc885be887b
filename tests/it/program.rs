//! How is a program run as a user runs it, from the checkout and with something to read?

use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

/// Runs `program` to its end; `input` is what it reads from standard input.
pub fn run(program: &str, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    // One that has not read it all has ended already, and says why.
    child.stdin.take().unwrap().write_all(input.as_bytes()).ok();
    child.wait_with_output().unwrap()
}
