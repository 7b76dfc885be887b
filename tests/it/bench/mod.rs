//! How fast is the operator? `make bench` prints a table and writes `bench-results.json`, whose keys are
//! `<what>.<measure>` or `<what>.<measure>.<applications>`. Times are of one run on one machine: compare them with
//! each other.

#![expect(clippy::print_stdout, reason = "the table is what somebody waits for")]

/// How late is the lease renewed?
mod lease;
/// How late do schedules start?
mod schedules;
/// How long does a start take?
mod start;
/// How many applications are submitted?
mod submission;
/// How many reviews are answered?
mod webhook;

use procfs::process::{Process, Stat};
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
        // What is far below 1 would be rounded to nothing.
        let digits = if value.abs() < 1.0 { 4 } else { 1 };
        println!("bench: {key:<55} {value:>10.digits$}");
        let scale = 10_f64.powi(digits as i32);
        self.0.insert(key.to_owned(), (value * scale).round() / scale);
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

/// What a process uses.
struct Usage(Process);

impl Usage {
    fn of(process: u32) -> Self {
        Self(Process::new(i32::try_from(process).unwrap()).unwrap())
    }

    /// With that of its children that have ended.
    fn cpu(&self) -> Duration {
        let Stat { utime, stime, cutime, cstime, .. } = self.0.stat().unwrap();
        let ticks = utime + stime + u64::try_from(cutime + cstime).unwrap();
        Duration::from_secs_f64(ticks as f64 / procfs::ticks_per_second() as f64)
    }

    /// The most that it ever had.
    fn rss_mib(&self) -> f64 {
        self.0.status().unwrap().vmhwm.unwrap() as f64 / 1024.0
    }
}
