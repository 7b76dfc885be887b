//! Fuzz target: the bytes become the text of properties files.

#![no_main]

#[path = "../it/fuzzed.rs"]
#[allow(dead_code)]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::properties(bytes));
