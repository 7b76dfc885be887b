//! Plays the kubelet: writes the statuses of pods.

use crate::apiserver::prelude::*;
use k8s_openapi::api::core::v1::Event;
use kube::Error;
use serde::de::DeserializeOwned;

/// When the kubelet has accepted a pod, and its containers have started.
const START: &str = "2026-01-01T00:00:00Z";

/// Reports that the pod's containers run.
pub(crate) async fn runs(namespace: &Namespace, pod: &str) {
    report(namespace, pod, running).await;
}

/// Reports that the pod's containers have ended with this exit code.
pub(crate) async fn ends(namespace: &Namespace, pod: &str, exit_code: i32) {
    report(namespace, pod, |spec| ended(spec, exit_code)).await;
}

/// Merges `status` into the pod's status.
pub(crate) async fn says(namespace: &Namespace, pod: &str, status: &Value) {
    namespace.patch_status::<Pod>(pod, status).await;
}

/// Writes the status of the pod with this name and uid; returns false if the pod does not exist any more.
pub(crate) async fn reported<K: DeserializeOwned>(
    pods: &Api<K>,
    pod: &str,
    uid: &str,
    status: &Value,
) -> bool {
    let patch = Patch::Merge(json!({"metadata": {"uid": uid}, "status": status}));
    match pods.patch_status(pod, &PatchParams::default(), &patch).await {
        Ok(_) => true,
        // The API server answers Invalid if another pod has the name by now: a uid cannot be changed.
        Err(Error::Api(status)) if status.is_not_found() || status.is_conflict() || status.is_invalid() => {
            false
        }
        Err(error) => panic!("{pod}: {error}"),
    }
}

/// Makes the pod, which has no finalizers, slow to end: once deleted, it stays until [`is_done`] is called.
pub(crate) fn takes_its_time(namespace: &Namespace, pod: &str) {
    namespace.merge::<Pod>(pod, &json!({"metadata": {"finalizers": ["example.com/kubelet"]}}));
}

/// Ends the wait that [`takes_its_time`] has begun: removes the finalizer, so that the deleted pod disappears.
pub(crate) fn is_done(namespace: &Namespace, pod: &str) {
    namespace.merge::<Pod>(pod, &json!({"metadata": {"finalizers": null}}));
}

/// The message of the event that [`cannot_mount`] sends.
pub(crate) const CANNOT_MOUNT: &str =
    "MountVolume.SetUp failed for volume \"data\" : secret \"nowhere\" not found";

/// Reports that a volume of `pod` cannot be mounted; kubelets report this only by an event.
pub(crate) async fn cannot_mount(namespace: &Namespace, pod: &str) {
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("{pod}.1")},
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod", "name": pod, "namespace": namespace.name,
            "uid": namespace.pod(pod).await.unwrap()["metadata"]["uid"],
        },
        "reason": "FailedMount", "type": "Warning", "message": CANNOT_MOUNT,
        "lastTimestamp": "2026-01-01T00:00:00Z",
    });
    namespace.create::<Event>(&event).await;
}

async fn report(namespace: &Namespace, pod: &str, status: impl FnOnce(&Value) -> Value) {
    let spec = namespace.pod(pod).await.expect(pod)["spec"].take();
    namespace.patch_status::<Pod>(pod, &status(&spec)).await;
}

/// Returns the status of a pod with `spec` whose containers run.
pub(crate) fn running(spec: &Value) -> Value {
    status(spec, "Running", &json!({"running": {"startedAt": START}}))
}

/// Returns the status of a pod with `spec` whose containers have ended with this exit code.
pub(crate) fn ended(spec: &Value, exit_code: i32) -> Value {
    let (phase, reason) = if exit_code == 0 { ("Succeeded", "Completed") } else { ("Failed", "Error") };
    status(spec, phase, &json!({"terminated": {"exitCode": exit_code, "reason": reason}}))
}

fn status(spec: &Value, phase: &str, state: &Value) -> Value {
    let containers = spec["containers"].as_array().unwrap().iter();
    let statuses: Vec<_> = containers
        .map(|container| json!({"name": container["name"], "image": "", "imageID": "", "state": state}))
        .collect();
    json!({"phase": phase, "startTime": START, "containerStatuses": statuses})
}
