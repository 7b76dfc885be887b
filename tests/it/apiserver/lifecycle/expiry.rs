//! Proves that an application that has ended is deleted when its time to live is over, unless it was edited meanwhile.

use super::{application, edit_spec, ended};
use crate::apiserver::prelude::*;

/// Needs an operator behind this proxy with --default-time-to-live-seconds, and a namespace called `expired-too-soon`.
pub(super) async fn an_edit_during_the_ttl_deletion_is_not_lost(namespace: &Namespace, proxy: &Proxy) {
    let deletion = Call { method: "DELETE", path: "/expired-too-soon/sparkapplications/pi" };
    let trap = proxy.hold(deletion, Moment::Before);
    namespace.apply(&application("pi", &json!({})));
    ended(namespace, "pi", 1, 0).await;
    let held = trap.caught().await;
    edit_spec(namespace, "pi", &json!({"arguments": ["edited"]}));
    held.release();
    ended(namespace, "pi", 2, 0).await;
    eventually("the application and its driver are deleted", async || {
        let there = (namespace.get::<SparkApplication>("pi").await, namespace.pod("pi-driver").await);
        seen(there == (None, None), there)
    })
    .await;
}
