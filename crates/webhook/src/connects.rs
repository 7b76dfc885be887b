//! Reviews SparkConnects: refuses those that cannot run, says which edits restart a server, and keeps the gateway's account
//! to the annotation that it writes.

use super::{
    applications,
    decision::{Change, Decision},
};
use api::{SparkConnect, names::annotation};
use connect::server_hash;
use k8s_openapi::api::authentication::v1::UserInfo;
use serde_json::Value;
use submission::exposure::ExposureRight;
use validation::Invalid;

/// The warning for an edit of a server that runs.
const RESTARTS: &str = "spec: this edit restarts the server, which ends its sessions";

pub(super) fn validated(change: &Change) -> Decision {
    applications::decided(change, connect::examine, is_same, restart)
}

/// Returns the warning that an update restarts the server; none if it does not.
fn restart(old: &SparkConnect, new: &SparkConnect) -> Option<String> {
    let has_server = old.status.as_ref().is_some_and(|status| status.server.pod_name.is_some());
    (has_server && server_hash(&old.spec) != server_hash(&new.spec)).then(|| RESTARTS.to_owned())
}

/// Whether two versions differ at most in whether the server is to rest: one that cannot run can be stopped all the same.
fn is_same(old: &SparkConnect, new: &SparkConnect) -> bool {
    let mut spec = old.spec.clone();
    spec.suspend = new.spec.suspend;
    spec == new.spec
}

/// Returns the rights that a change needs.
pub(super) fn exposure_rights(change: &Change) -> Vec<ExposureRight> {
    let Some((old, new)) = change.readable::<SparkConnect>() else { return Vec::new() };
    connect::exposure_rights(old.map(|old| &old.spec), &new.spec)
}

/// Returns `decision`, or a refusal if `user` is the account `gateway` and the change is about more than the time of the last
/// connection: Kubernetes has no right on an annotation alone.
pub(super) fn within_rights(
    decision: Decision,
    change: &Change,
    gateway: Option<&str>,
    user: impl FnOnce() -> serde_json::Result<UserInfo>,
) -> Decision {
    let Some(gateway) = gateway else { return decision };
    match user() {
        Ok(user) if user.username.as_deref() != Some(gateway) => decision,
        Ok(_) if without_time(change.object.clone()) == without_time(change.old.clone()) => decision,
        Ok(_) => {
            let why = format!(
                "the gateway's account may only write the annotation {}",
                annotation::LAST_CONNECTION
            );
            Decision::of(vec![Invalid { field: "metadata".to_owned(), why }], Vec::new())
        }
        Err(error) => Decision::Unreadable(format!("userInfo: {error}")),
    }
}

/// Returns an object without the time of the last connection, and without what the API server counts and notes itself.
fn without_time(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
        let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
        let is_empty = annotations.is_none_or(|annotations| {
            annotations.remove(annotation::LAST_CONNECTION);
            annotations.is_empty()
        });
        if is_empty {
            metadata.remove("annotations");
        }
    }
    object
}
