//! Proves that an application that has ended is deleted when its time to live is over, unless it was edited meanwhile.

use super::{application, complaints, edit_spec, ended};
use crate::apiserver::prelude::*;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_edit_that_crosses_the_deletion_is_not_lost() {
    let namespace = Namespace::new("expired-too-soon").await;
    let proxy = Proxy::start().await;
    let setup = Operator::with(&namespace).through(&proxy);
    let operator = setup.argument("--default-time-to-live-seconds=1").start().await;
    let trap = proxy.hold(Call { method: "DELETE", path: "/sparkapplications/pi" }, Moment::Before);
    namespace.apply(&application("pi", &json!({})));
    ended(&namespace, "pi", 1, 0).await;
    let held = trap.caught().await;
    edit_spec(&namespace, "pi", &json!({"arguments": ["edited"]}));
    held.release();
    ended(&namespace, "pi", 2, 0).await;
    eventually("it is gone, and its driver with it", async || {
        let there = (namespace.get::<SparkApplication>("pi").await, namespace.pod("pi-driver").await);
        seen(there == (None, None), there)
    })
    .await;
    assert_eq!(complaints(&operator.log()), Vec::<&str>::new());
}
