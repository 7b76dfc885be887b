//! Proves that an application that has ended is deleted when its time to live is over, and not before.

use super::{Namespace, application, complaints, edit_spec, ended, running};
use crate::apiserver::{
    eventually,
    operator::Operator,
    proxy::{Call, Moment, Proxy},
    seen,
};
use api::SparkApplication;
use serde_json::json;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn its_own_time_to_live_goes_before_the_admins() {
    let namespace = Namespace::new("expired").await;
    let setup = Operator::with(&namespace).argument("--default-time-to-live-seconds=1");
    let operator = setup.start().await;
    namespace.apply(&application("own", &json!({"timeToLiveSeconds": 3600})));
    namespace.apply(&application("admins", &json!({})));
    namespace.apply(&application("running", &json!({"timeToLiveSeconds": 1})));
    running(&namespace, "running", 1).await;
    ended(&namespace, "own", 1, 0).await;
    ended(&namespace, "admins", 1, 1).await;
    is_gone(&namespace, "admins").await;
    namespace.reaches("own", "COMPLETED").await;
    namespace.reaches("running", "RUNNING").await;
    eventually("its driver goes with it", async || {
        let driver = namespace.pod("admins-driver").await;
        seen(driver.is_none(), driver)
    })
    .await;

    edit_spec(&namespace, "own", &json!({"timeToLiveSeconds": 1}));
    is_gone(&namespace, "own").await;
    assert_eq!(complaints(&operator.log()), Vec::<&str>::new());
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_edit_that_crosses_the_deletion_is_not_lost() {
    let namespace = Namespace::new("expired-too-soon").await;
    let proxy = Proxy::start().await;
    let operator = Operator::with(&namespace).through(&proxy).start().await;
    let trap = proxy.hold(Call { method: "DELETE", path: "/sparkapplications/pi" }, Moment::Before);
    namespace.apply(&application("pi", &json!({"timeToLiveSeconds": 1})));
    ended(&namespace, "pi", 1, 0).await;
    let held = trap.caught().await;
    edit_spec(&namespace, "pi", &json!({"arguments": ["edited"]}));
    held.release();
    running(&namespace, "pi", 2).await;
    assert_eq!(complaints(&operator.log()), Vec::<&str>::new());
}

async fn is_gone(namespace: &Namespace, name: &str) {
    eventually(&format!("{name} is gone"), async || {
        let there = namespace.get::<SparkApplication>(name).await;
        seen(there.is_none(), there)
    })
    .await;
}
