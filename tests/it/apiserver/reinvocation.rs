//! Proves that a second call of our webhook, after another webhook has changed a pod, changes nothing more.

use super::{admission::pod, neighbour::Neighbour};
use crate::apiserver::prelude::*;

pub(super) async fn a_second_call_after_a_sidecar_was_injected_and_images_were_mirrored_changes_nothing(
    namespace: &Namespace,
    operator: &Operator,
) {
    let mut alone = namespace.create::<Pod>(&pod("driver-pod")).await;
    namespace.delete::<Pod>("pi-driver").await;

    let _again = called_again();
    let neighbour = Neighbour::changing(namespace, inject_and_mirror).await;
    let (before, asked) = (reviews(operator).await, neighbour.asked());
    let both = namespace.create::<Pod>(&pod("driver-pod")).await;
    let after = reviews(operator).await;
    assert_eq!(neighbour.asked(), asked + 1);
    assert_eq!(
        (after.patched - before.patched, after.allowed - before.allowed, after.denied - before.denied),
        (1.0, 1.0, 0.0),
        "one review that changes the pod, and one more that does not"
    );
    inject_and_mirror(&mut alone);
    assert_eq!(both["spec"], alone["spec"]);
    assert_eq!(both["metadata"]["ownerReferences"], alone["metadata"]["ownerReferences"]);
}

/// Changes a pod as a service mesh and a mirror of images do: adds a container, and a variable to the existing
/// containers; replaces the registry of each image.
fn inject_and_mirror(pod: &mut Value) {
    let containers = pod["spec"]["containers"].as_array_mut().unwrap();
    for container in &mut *containers {
        let env = container.as_object_mut().unwrap().entry("env").or_insert_with(|| json!([]));
        env.as_array_mut().unwrap().push(json!({"name": "MESH", "value": "on"}));
    }
    containers.push(json!({
        "name": "mesh", "image": "example.com/mesh:1", "imagePullPolicy": "IfNotPresent", "resources": {},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    }));
    for container in containers {
        let image = container["image"].as_str().unwrap().rsplit('/').next().unwrap();
        container["image"] = json!(format!("mirror.internal/{image}"));
    }
}

/// The number of answers of our webhook so far, by result.
struct Reviews {
    patched: f64,
    allowed: f64,
    denied: f64,
}

async fn reviews(operator: &Operator) -> Reviews {
    let count = async |result: &str| {
        let labels = format!("{{path=\"/mutate\",kind=\"Pod\",operation=\"CREATE\",result=\"{result}\"}}");
        // A result that has not occurred yet has no line.
        operator.metric(&format!("spark_operator_webhook_reviews_total{labels}")).await.unwrap_or_default()
    };
    Reviews {
        patched: count("patched").await,
        allowed: count("allowed").await,
        denied: count("denied").await,
    }
}

/// Makes the API server call our webhook again if another webhook has changed the pod, while the returned value exists.
fn called_again() -> Finally {
    reinvocation_policy("IfNeeded");
    Finally::new(|| reinvocation_policy("Never"))
}

fn reinvocation_policy(policy: &str) {
    let patch = json!([{"op": "add", "path": "/webhooks/0/reinvocationPolicy", "value": policy}]);
    calls::patch(&webhooks("mutatingwebhookconfiguration", WEBHOOK), &patch);
}
