//! Fuzz target: the bytes become annotations of a driver.

#![no_main]

#[path = "../it/fuzzed.rs"]
#[allow(dead_code)]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::annotations(bytes));
