//! Fuzz target: the bytes become an item of a Kubernetes list.

#![no_main]

#[path = "../it/fuzzed.rs"]
#[allow(dead_code)]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::items(bytes));
