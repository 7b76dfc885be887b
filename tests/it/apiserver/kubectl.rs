//! Runs `kubectl`, which is on the PATH of `cluster exec`, so that tests see what a user sees.

use crate::{prelude::*, program};

/// Returns what `kubectl` prints; panics if it fails.
pub(crate) fn kubectl(arguments: &[&str]) -> String {
    kubectl_reads("", arguments)
}

/// Returns what `kubectl` prints with `object` as its input (`-f -`); panics if it fails.
pub(crate) fn kubectl_with(object: &Value, arguments: &[&str]) -> String {
    kubectl_reads(&object.to_string(), arguments)
}

/// Returns what `kubectl` prints with `text` as its input (`-f -`); panics if it fails.
pub(crate) fn kubectl_reads(text: &str, arguments: &[&str]) -> String {
    run(arguments, text).unwrap_or_else(|stderr| panic!("kubectl {}: {stderr}", arguments.join(" ")))
}

/// Returns what `kubectl` prints with `object` as its input, or its error.
pub(crate) fn try_kubectl_with(object: &Value, arguments: &[&str]) -> Result<String, String> {
    run(arguments, &object.to_string())
}

fn run(arguments: &[&str], input: &str) -> Result<String, String> {
    let said = program::said(program::run("kubectl", arguments, input));
    said.map_err(|complaint| complaint.trim().to_owned())
}
