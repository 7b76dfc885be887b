//! How fast is the operator? `make bench` prints a table and writes `bench-results.json`, whose keys are
//! `<what>.<measure>` or `<what>.<measure>.<applications>`. Times are of one run on one machine: compare them with
//! each other.

#![expect(clippy::print_stdout, reason = "the table is what somebody waits for")]

/// How long does a start take?
mod start;
/// How many reviews are answered?
mod webhook;

use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, path::Path, time::Duration};

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// What was measured, by key.
#[derive(Default)]
struct Results(BTreeMap<String, f64>);

impl Results {
    fn put(&mut self, key: &str, value: f64) {
        println!("bench: {key:<40} {value:>10.1}");
        self.0.insert(key.to_owned(), (value * 10.0).round() / 10.0);
    }

    /// Writes them to `bench-results.json` over those of the same keys.
    fn finish(self) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench-results.json");
        let mut all: BTreeMap<String, Value> = match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).unwrap(),
            Err(_) => BTreeMap::new(),
        };
        all.extend(self.0.into_iter().map(|(key, value)| (key, json!(value))));
        fs::write(path, serde_json::to_string_pretty(&all).unwrap() + "\n").unwrap();
    }
}
