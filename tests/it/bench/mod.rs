//! Measures how fast the operator is. `make bench` prints a table and writes `bench-results.json`, whose keys are
//! `<what>.<measure>` or `<what>.<measure>.<applications>`. The times are those of one run on one machine: compare them
//! only with each other.

#![expect(clippy::print_stdout, reason = "the table is the result")]

/// How long applications take that are gangs and wait for room.
mod gangs;
/// How late the lease is renewed.
mod lease;
/// How late schedules start their applications.
mod schedules;
/// How long the start of an operator takes.
mod start;
/// How many applications are submitted per minute.
mod submission;
/// How many reviews the webhook answers per second.
mod webhook;

use crate::prelude::*;
use procfs::process::{Process, Stat};

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// The measured values, by key.
#[derive(Default)]
struct Results(BTreeMap<String, f64>);

impl Results {
    fn put(&mut self, key: &str, value: f64) {
        // With one digit, values far below 1 would be rounded to 0.
        let digits = if value.abs() < 1.0 { 4 } else { 1 };
        println!("bench: {key:<55} {value:>10.digits$}");
        let scale = 10_f64.powi(digits as i32);
        self.0.insert(key.to_owned(), (value * scale).round() / scale);
    }

    /// Writes the results to `bench-results.json`; a result replaces an older one with the same key.
    fn finish(self) {
        let path = "bench-results.json";
        let mut all: BTreeMap<String, Value> = match fs::read_to_string(path) {
            Ok(text) => serde_json::from_str(&text).unwrap(),
            Err(_) => BTreeMap::new(),
        };
        all.extend(self.0.into_iter().map(|(key, value)| (key, json!(value))));
        fs::write(path, serde_json::to_string_pretty(&all).unwrap() + "\n").unwrap();
    }
}

/// The resources that a process uses.
struct Usage(Process);

impl Usage {
    fn of(process: u32) -> Self {
        Self(Process::new(i32::try_from(process).unwrap()).unwrap())
    }

    /// CPU time, including that of child processes that have ended.
    fn cpu(&self) -> Duration {
        let Stat { utime, stime, cutime, cstime, .. } = self.0.stat().unwrap();
        let ticks = utime + stime + u64::try_from(cutime + cstime).unwrap();
        Duration::from_secs_f64(ticks as f64 / procfs::ticks_per_second() as f64)
    }

    /// The largest resident memory that the process has ever had.
    fn rss_mib(&self) -> f64 {
        self.0.status().unwrap().vmhwm.unwrap() as f64 / 1024.0
    }
}
