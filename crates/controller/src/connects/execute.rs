//! Carries out the plan of a SparkConnect without any decision of its own. Each effect can be repeated.

use super::{
    super::{
        Error,
        calls::{self, Calls, only},
        execute,
        objects::already_exists,
    },
    Context,
    index::POD,
};
use api::{Identity, ObjectKey, ObjectKind, SparkConnect};
use connect::Action;
use jiff::Timestamp;
use kube::{
    ResourceExt,
    api::{DeleteParams, Preconditions},
    core::Status,
};
use serde_json::Value;
use std::collections::BTreeMap;
use submission::digest;
use tracing::{info, warn};

/// The outcome for the objects that were to be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Applied {
    All,
    /// All but an Ingress: no server waits for it.
    WithoutIngress,
    /// The API server has refused an object.
    Refused,
}

impl Context {
    /// Carries out one action.
    ///
    /// # Errors
    ///
    /// If a request fails. If the API server refuses the server's pod, the reason is remembered instead.
    pub(super) async fn execute(&self, connect: &SparkConnect, action: Action) -> Result<(), Error> {
        let (client, namespace) = (&self.source.cluster.client, connect.own_namespace());
        let (key, parameters) = match action {
            Action::CreateServer(pod) => {
                let refusal = match Calls::of_kind(client, &POD, namespace).create(pod.to_string()).await {
                    Err(kube::Error::Api(status)) if is_refusal(&status) => Some(status.message.clone()),
                    Err(error) if already_exists(&error) => None,
                    created => {
                        created.map_err(Error::api("creation of a server"))?;
                        info!("server created");
                        None
                    }
                };
                let uid = connect.own_uid();
                self.source.memory.with(uid, |note| note.refusal = refusal);
                return Ok(());
            }
            Action::DeleteServer { name, uid, force } => {
                info!(pod = name, force, "the server is about to be deleted");
                let grace_period_seconds = force.then_some(0);
                (POD.named(name), DeleteParams { grace_period_seconds, ..only(Some(uid)) })
            }
            Action::Delete { key, uid } => (key, only(Some(uid))),
            Action::DeleteConnect => {
                let resource_version = connect.resource_version();
                let preconditions = Preconditions { uid: connect.uid(), resource_version };
                let connects = Calls::of::<SparkConnect>(client, namespace);
                execute::delete(&connects, &connect.name_any(), preconditions).await?;
                info!("deleted: nobody has connected");
                return Ok(());
            }
        };
        let deleted = Calls::of_kind(client, &key.kind, namespace).delete(&key.name, &parameters).await;
        calls::done_or_gone(deleted).map_err(Error::api("DELETE of an object of a SparkConnect"))
    }

    /// Applies those objects of `wanted` that differ from what this process has applied last, or that somebody has
    /// changed since; `versions` has the present resourceVersions. If the API server refuses an object, an event
    /// reports why, and no object after it is applied; only an Ingress is skipped, which the admission webhook of an
    /// ingress controller may refuse.
    ///
    /// # Errors
    ///
    /// If an object other than an Ingress cannot be applied now.
    pub(super) async fn apply(
        &self,
        connect: &SparkConnect,
        wanted: Vec<Value>,
        versions: &BTreeMap<ObjectKey, String>,
        now: Timestamp,
    ) -> Result<Applied, Error> {
        let (namespace, uid) = (connect.own_namespace(), connect.own_uid());
        let mut all = Applied::All;
        for object in wanted {
            let key = ObjectKey::of(&object).expect("it was built with kind and name");
            // Nothing has changed since this process applied the object, if its content is the same and the watch
            // reports the version that the object had then.
            let fingerprint = digest::fingerprint(&[object.to_string().as_str()]);
            let present = versions.get(&key).map(|version| (fingerprint.clone(), version.clone()));
            if present.is_some()
                && self.source.memory.with(uid, |note| note.applied.get(&key).cloned()) == present
            {
                continue;
            }
            let applied = calls::apply(&self.source.cluster.client, namespace, &object).await;
            let is_ingress = key.kind == ObjectKind::INGRESS;
            if let Err(kube::Error::Api(status)) = &applied
                && is_refusal(status)
            {
                let why = format!("{key} is refused: {}", status.message);
                let occasion = connect.metadata.generation.unwrap_or_default().to_string();
                self.source.cluster.send_event(connect, &occasion, &connect::not_applied(&why), now).await;
                if !is_ingress {
                    self.source.memory.with(uid, |note| note.refused_object = Some(why));
                    return Ok(Applied::Refused);
                }
            }
            let there = match applied {
                Err(error) if is_ingress => {
                    warn!(%key, %error, "an Ingress was not applied");
                    all = Applied::WithoutIngress;
                    continue;
                }
                applied => applied.map_err(Error::api("server-side apply of an object of a SparkConnect"))?,
            };
            let version = there.resource_version().unwrap_or_default();
            self.source.memory.with(uid, |note| note.applied.insert(key, (fingerprint, version)));
        }
        self.source.memory.with(uid, |note| note.refused_object = None);
        Ok(all)
    }
}

/// Whether the API server refuses an object, instead of being unable to store it now.
fn is_refusal(status: &Status) -> bool {
    (400..500).contains(&status.code) && ![404, 408, 409, 429].contains(&status.code)
}
