//! What does a user see? The output of `kubectl`, which is on the PATH of `cluster exec`.

use crate::program;
use serde_json::Value;

/// What `kubectl` prints; it has to succeed.
pub(crate) fn kubectl(arguments: &[&str]) -> String {
    run(arguments, "").unwrap_or_else(|stderr| panic!("kubectl {}: {stderr}", arguments.join(" ")))
}

/// What `kubectl` prints with `object` as its input (`-f -`); it has to succeed.
pub(crate) fn kubectl_with(object: &Value, arguments: &[&str]) -> String {
    try_kubectl_with(object, arguments)
        .unwrap_or_else(|stderr| panic!("kubectl {}: {stderr}", arguments.join(" ")))
}

/// What `kubectl` prints with `text` as its input (`-f -`); it has to succeed.
pub(crate) fn kubectl_reads(text: &str, arguments: &[&str]) -> String {
    run(arguments, text).unwrap_or_else(|stderr| panic!("kubectl {}: {stderr}", arguments.join(" ")))
}

/// What `kubectl` complains of, with `object` as its input; it has to fail.
pub(crate) fn kubectl_refuses(object: &Value, arguments: &[&str]) -> String {
    match try_kubectl_with(object, arguments) {
        Ok(stdout) => panic!("kubectl {} succeeded: {stdout}", arguments.join(" ")),
        Err(stderr) => stderr,
    }
}

/// What `kubectl` prints with `object` as its input, or what it complains of.
pub(crate) fn try_kubectl_with(object: &Value, arguments: &[&str]) -> Result<String, String> {
    run(arguments, &object.to_string())
}

fn run(arguments: &[&str], input: &str) -> Result<String, String> {
    // On the PATH of `tests/cluster/cluster exec`.
    let output = program::run("kubectl", arguments, input);
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}
