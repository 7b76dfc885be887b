//! Reviews SparkConnects: refuses those that cannot run, warns of edits that restart a server, and lets the gateway's service
//! account change nothing but the annotation that it writes.

use super::{
    checks::Checks,
    decision::{Change, Decision},
};
use api::{SparkConnect, names::annotation};
use connect::server_hash;
use serde_json::Value;
use validation::Findings;

/// The warning for an edit of a server that runs.
const RESTARTS: &str = "spec: this edit restarts the server, which ends its sessions";

static CHECKS: Checks<SparkConnect> = Checks {
    of_extensions: None,
    // The specs differ at most in `suspend`: a server that cannot run can be suspended all the same.
    is_same: |old, new| {
        let mut spec = old.spec.clone();
        spec.suspend = new.spec.suspend;
        spec == new.spec
    },
    examine: |connect, _| connect::examine(connect),
    effect: |old, new| {
        let has_server = old.status.as_ref().is_some_and(|status| status.server.pod_name.is_some());
        (has_server && server_hash(&old.spec) != server_hash(&new.spec)).then(|| RESTARTS.to_owned())
    },
    exposure_rights: |old, new| connect::exposure_rights(old.map(|old| &old.spec), &new.spec),
    needs_room: connect::quota::needs_room,
    exceeded: |old, new, room| Ok(connect::quota::exceeded(old, new, room.quotas, room.says_numbers)),
};

pub(super) async fn decided(change: &Change<'_>) -> Decision {
    match beyond_rights(change) {
        Some(refused) => refused,
        None => CHECKS.decided(change).await,
    }
}

/// Returns a refusal if the user is the account of the gateway and the change concerns more than the time of the last
/// connection: Kubernetes cannot grant a permission for a single annotation.
fn beyond_rights(change: &Change) -> Option<Decision> {
    let gateway = change.reviews.gateway.as_ref()?;
    match change.user() {
        Ok(user) if user.username.as_ref() != Some(gateway) => None,
        Ok(_) if without_time(change.object.clone()) == without_time(change.old.clone()) => None,
        Ok(_) => {
            let mut found = Findings::default();
            let annotation = annotation::LAST_CONNECTION;
            found.refuse(
                "metadata",
                format_args!("the gateway's account may only write the annotation {annotation}"),
            );
            Some(Decision::of(found))
        }
        Err(unreadable) => Some(unreadable),
    }
}

/// Returns an object without the time of the last connection and without `resourceVersion`, which the API server sets.
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
