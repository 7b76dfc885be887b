//! Bytes that become an item of a list.

#![no_main]

#[path = "../it/fuzzed.rs"]
#[allow(dead_code)]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::items(bytes));
