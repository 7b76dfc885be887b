//! How fast is the operator? `make bench` prints a table and writes `bench-results.json`, whose keys are
//! `<what>.<measure>.<applications>`. Times are of one run on one machine: compare them with each other.

#![expect(clippy::print_stdout, reason = "the table is what somebody waits for")]

use crate::apiserver::{
    fleet,
    namespace::Namespace,
    operator::{HEALTH, Operator},
};
use serde_json::{Value, json};
use spark_operator::api::SparkApplication;
use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    time::{Duration, Instant},
};
use tokio::time::sleep;

#[tokio::test]
#[ignore = "measures: make bench"]
async fn start() {
    let namespace = Namespace::new("bench-start").await;
    let mut results = Results::default();
    for applications in [0, fleet::FLEET] {
        if applications > 0 {
            fleet::make(&namespace).await;
        }
        let begin = Instant::now();
        let listed = namespace.list::<SparkApplication>().await.len();
        assert_eq!(listed, applications);
        let bare = milliseconds(begin.elapsed());
        results.put(&format!("start.bare_list_ms.{applications}"), bare);

        let operator = Operator::with(&namespace).spawn();
        while !matches!(operator.get(HEALTH, "/readyz").await, Ok((200, _))) {
            sleep(Duration::from_millis(2)).await;
        }
        results.put(&format!("start.ready_ms.{applications}"), milliseconds(operator.age()));
        operator.has_looked_at(applications).await;
        let all = milliseconds(operator.age());
        results.put(&format!("start.all_looked_at_ms.{applications}"), all);
        results.put(&format!("start.all_looked_at_over_bare_list.{applications}"), all / bare);
        let rss = operator.metric("process_resident_memory_bytes").await.unwrap();
        results.put(&format!("start.rss_mib.{applications}"), rss / f64::from(1 << 20));
        operator.stop().await;
    }
    namespace.clear::<SparkApplication>().await;
    results.finish();
}

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
