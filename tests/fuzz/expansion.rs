//! Fuzz target: the bytes become properties that refer to one another (`${…}`).

#![no_main]

#[path = "../it/fuzzed.rs"]
#[allow(dead_code)]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::expansion(bytes));
