//! Measures how long an operator takes until it is ready, in an empty cluster and in a full one.

use super::{Results, milliseconds};
use crate::apiserver::{fleet, operator::HEALTH, prelude::*};

#[tokio::test]
#[ignore = "measures: make bench"]
async fn start() {
    let namespace = Namespace::new("bench-start").await;
    let mut results = Results::default();
    for applications in [0, 2_000] {
        if applications > 0 {
            fleet::make(&namespace, applications).await;
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
