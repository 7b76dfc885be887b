//! Proves that the Secret, the caBundle and the webhook's certificate stay consistent.

use super::DEADLINE;
use crate::apiserver::prelude::*;

pub(crate) const SECRET: &str = "spark-operator-webhook-certs";
/// The path of the Secret in the API.
pub(crate) const PATH: &str = "/api/v1/namespaces/spark-operator/secrets/spark-operator-webhook-certs";
const MUTATING: &str = "mutatingwebhookconfiguration";
const VALIDATING: &str = "validatingwebhookconfiguration";

// `Operator::start` returns once the API server trusts the webhook, so these tests do not check that again.

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn changed_certificates_and_ca_bundles_are_restored_and_a_valid_ca_is_kept() {
    let namespace = Namespace::new("changed-certificates").await;
    let configurations = reviewed();
    let operator = Operator::start(&namespace).await;
    let old = bundle();
    assert_eq!(ca(), old);
    overwritten_ca_bundles_are_restored_at_once().await;
    operator.stop().await;

    let damage = |file: &str| {
        calls::merge(PATH, &json!({"data": {file: "bm9uc2Vuc2U="}}));
    };
    damage("server-cert.pem");
    // The configurations are recreated without the bundle.
    drop(configurations);
    let _configurations = reviewed();
    assert_eq!(bundle(), "");
    Operator::start(&namespace).await.stop().await;
    assert_eq!((ca(), bundle()), (old.clone(), old.clone()));
    damage("ca-cert.pem");
    let _operator = Operator::start(&namespace).await;
    assert_ne!(bundle(), old);
    assert_eq!(ca(), bundle());
}

/// Overwrites caBundle in both configurations. The operator's periodic check happens only once before the deadline, so
/// that only a watch can restore all of them in time.
async fn overwritten_ca_bundles_are_restored_at_once() {
    let bundles = || {
        let all = [MUTATING, VALIDATING].map(|kind| calls::get(&webhooks(kind, WEBHOOK)).expect(WEBHOOK));
        let webhooks = all.iter().flat_map(|configuration| configuration["webhooks"].as_array().unwrap());
        webhooks.map(|webhook| webhook["clientConfig"]["caBundle"].clone()).collect::<Vec<_>>()
    };
    let right = bundles();
    assert_eq!(right, vec![json!(bundle()); 5]);
    let put_back = async {
        for (kind, webhook, other) in [
            (MUTATING, 0, "bm9uc2Vuc2U="),
            (MUTATING, 1, ""),
            (VALIDATING, 0, "bm9uc2Vuc2U="),
            (VALIDATING, 1, "bm9uc2Vuc2U="),
            (VALIDATING, 1, ""),
            (VALIDATING, 2, "bm9uc2Vuc2U="),
        ] {
            let path = format!("/webhooks/{webhook}/clientConfig/caBundle");
            let overwrite = json!([{"op": "add", "path": path, "value": other}]);
            calls::patch(&webhooks(kind, WEBHOOK), &overwrite);
            eventually("the bundle is restored", async || seen(bundles() == right, bundles())).await;
        }
    };
    timeout(DEADLINE, put_back).await.expect("the operator does not wait for its periodic check");
}

pub(crate) fn secret() -> String {
    calls::get(PATH).expect(SECRET)["data"].to_string()
}

/// Returns the CA in the Secret, encoded as in caBundle.
pub(crate) fn ca() -> String {
    calls::get(PATH).expect(SECRET)["data"]["ca-cert.pem"].as_str().unwrap_or_default().to_owned()
}

pub(crate) fn bundle() -> String {
    let configuration = calls::get(&webhooks(MUTATING, WEBHOOK)).expect(WEBHOOK);
    configuration["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap_or_default().to_owned()
}
