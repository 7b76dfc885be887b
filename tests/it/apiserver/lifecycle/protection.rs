//! Proves that a driver is kept until its outcome is recorded, if the admin enables that, and not longer.

use super::{application, deletion, edit_spec, running, runs};
use crate::apiserver::{operator::Setup, prelude::*};

const FINALIZER: &str = "sparkoperator.k8s.io/driver-outcome";

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_driver_is_kept_until_its_outcome_is_recorded_and_not_longer() {
    let namespace = Namespace::new("protected").await;
    let operator = protecting(&namespace).start().await;
    deletion::orphan_deletion_keeps_the_pods(&namespace.beside("orphaned").await, &operator).await;
    for name in ["succeeds", "fails", "alone", "watched", "suspended", "edited", "completed", "kept"] {
        namespace.apply(&application(name, &json!({})));
        running(&namespace, name, 1).await;
        is_protected(&namespace, name).await;
    }
    // However a run ends, its driver loses the finalizer.
    edit_spec(&namespace, "suspended", &json!({"suspend": true}));
    namespace.reaches("suspended", "SUSPENDED").await;
    assert_eq!(namespace.pod("suspended-driver").await, None);
    edit_spec(&namespace, "edited", &json!({"arguments": ["edited"]}));
    running(&namespace, "edited", 2).await;
    namespace.completes("completed").await;
    is_free(&namespace, "completed").await;
    namespace.delete::<SparkApplication>("watched").await;
    namespace.is_gone::<Pod>("watched-driver").await;

    // While no operator runs, two drivers end and are deleted, and an application is deleted.
    operator.stop().await;
    for (name, exit_code) in [("succeeds", 0), ("fails", 7)] {
        kubelet::ends(&namespace, &format!("{name}-driver"), exit_code).await;
        request_deletion(&namespace, &format!("{name}-driver")).await;
    }
    namespace.delete::<SparkApplication>("alone").await;
    // The test plays the garbage collector, which this cluster does not have.
    request_deletion(&namespace, "alone-driver").await;
    let driver = namespace.pod("alone-driver").await.unwrap();
    assert_eq!(driver["metadata"]["finalizers"], json!([FINALIZER]));
    let operator = protecting(&namespace).start().await;
    namespace.is_gone::<Pod>("alone-driver").await;
    for (name, state, reason, exit_code) in
        [("succeeds", "COMPLETED", "Completed", 0), ("fails", "FAILED", "Error", 7)]
    {
        let ended = namespace.reaches(name, state).await;
        assert_eq!(runs(&ended), [json!([1, "Created", state, reason, exit_code])]);
        namespace.is_gone::<Pod>(&format!("{name}-driver")).await;
    }

    // The admin disables the protection again; finalizers of others stay.
    let keep = json!({"metadata": {"finalizers": ["example.com/other", FINALIZER]}});
    namespace.merge::<Pod>("kept-driver", &keep);
    operator.stop().await;
    let _operator = Operator::with(&namespace).start().await;
    is_free(&namespace, "kept").await;
    is_free(&namespace, "edited").await;
    let kept = namespace.pod("kept-driver").await.unwrap();
    assert_eq!(kept["metadata"]["finalizers"], json!(["example.com/other"]));
    namespace.reaches("kept", "RUNNING").await;
    kubelet::is_done(&namespace, "kept-driver");
}

async fn request_deletion(namespace: &Namespace, pod: &str) {
    namespace.api::<Pod>().delete(pod, &DeleteParams::default()).await.unwrap();
}

fn protecting(namespace: &Namespace) -> Setup<'_> {
    Operator::with(namespace).argument("--protect-driver-outcome")
}

async fn is_protected(namespace: &Namespace, name: &str) {
    has_finalizer(namespace, name, true).await;
}

async fn is_free(namespace: &Namespace, name: &str) {
    has_finalizer(namespace, name, false).await;
}

async fn has_finalizer(namespace: &Namespace, name: &str, expected: bool) {
    let is_it = |pod: &Value| {
        let finalizers = pod["metadata"]["finalizers"].as_array();
        pod.is_object() && finalizers.is_some_and(|all| all.contains(&Value::from(FINALIZER))) == expected
    };
    namespace.until::<Pod>(&format!("{name}-driver"), &format!("has our finalizer: {expected}"), is_it).await;
}
