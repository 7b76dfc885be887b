//! Fuzz target: the bytes are sent to the webhook as an AdmissionReview.

#![no_main]

#[path = "../it/fuzzed.rs"]
#[allow(dead_code)]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::review(bytes));
