//! Carries out the plan of a SparkConnect without any decision of its own. Each effect can be repeated.

use super::{
    super::{
        Error,
        calls::{self, only},
        execute,
        objects::{already_exists, in_words},
    },
    Context,
    index::POD,
};
use api::{ObjectKey, SparkConnect};
use connect::Action;
use jiff::Timestamp;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams, Preconditions},
    core::{Request, Status},
};
use plan::extension::Extensions;
use serde_json::Value;
use std::collections::BTreeMap;
use submission::digest;
use tracing::info;

/// An object as this process has applied it last.
#[derive(Clone, PartialEq)]
pub(super) struct Applied {
    fingerprint: String,
    /// The resourceVersion afterwards.
    version: String,
}

impl Context {
    /// Carries out one action.
    ///
    /// # Errors
    ///
    /// If the API server has not done it, for another reason than the pod itself.
    pub(super) async fn execute(&self, connect: &SparkConnect, action: Action) -> Result<(), Error> {
        let uid = connect.uid().unwrap_or_default();
        match action {
            Action::CreateServer(pod) => {
                let refusal = self.create(connect, &pod).await?;
                self.known(&uid, |known| known.refusal = refusal);
                Ok(())
            }
            Action::DeleteServer { name, uid, force } => {
                info!(pod = name, force, "server deleted");
                let parameters = DeleteParams { grace_period_seconds: force.then_some(0), ..only(Some(uid)) };
                self.delete(connect, &POD.named(name), &parameters).await
            }
            Action::Delete { key, uid: of_object } => {
                self.known(&uid, |known| known.applied.remove(&key));
                self.delete(connect, &key, &only(Some(of_object))).await
            }
            Action::DeleteConnect => {
                let namespace = connect.namespace().unwrap_or_default();
                let connects = Api::<SparkConnect>::namespaced(self.cluster.client.clone(), &namespace);
                let preconditions =
                    Preconditions { uid: Some(uid), resource_version: connect.resource_version() };
                execute::delete(&connects, &connect.name_any(), preconditions).await?;
                info!("deleted: nobody has connected");
                Ok(())
            }
        }
    }

    /// Creates the server's pod, unless there is one of the name. Returns why the API server refuses it, if it does.
    async fn create(&self, connect: &SparkConnect, pod: &Value) -> Result<Option<String>, Error> {
        let path = POD.path(&connect.namespace().unwrap_or_default());
        let body = serde_json::to_vec(pod).expect("a JSON value is JSON");
        let request = Request::new(path).create(&PostParams::default(), body);
        match calls::send(&self.cluster.client, request).await {
            Ok(_) => {
                info!("server created");
                Ok(None)
            }
            Err(error) if already_exists(&error) => Ok(None),
            Err(kube::Error::Api(status)) if is_refusal(&status) => Ok(Some(status.message.clone())),
            Err(error) => Err(Error::api("creation of a server")(error)),
        }
    }

    /// Deletes what belongs to a SparkConnect.
    ///
    /// # Errors
    ///
    /// If the API server does not delete it.
    pub(super) async fn delete(
        &self,
        connect: &SparkConnect,
        key: &ObjectKey,
        parameters: &DeleteParams,
    ) -> Result<(), Error> {
        let path = key.kind.path(&connect.namespace().unwrap_or_default());
        let request = Request::new(path).delete(&key.name, parameters);
        match calls::send(&self.cluster.client, request).await {
            // It is gone already, or another object has its name by now.
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
            deleted => deleted.map(drop).map_err(Error::api("DELETE of what belongs to a SparkConnect")),
        }
    }

    /// Applies those objects of `wanted` that differ from what this process has applied last, or that somebody has changed
    /// since: `versions` has the present versions.
    ///
    /// # Errors
    ///
    /// If one cannot be applied. If the API server refuses it, an event says why.
    pub(super) async fn apply(
        &self,
        connect: &SparkConnect,
        wanted: Vec<Value>,
        versions: &BTreeMap<ObjectKey, String>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let (namespace, uid) = (connect.namespace().unwrap_or_default(), connect.uid().unwrap_or_default());
        for object in wanted {
            let key = ObjectKey::of(&object).expect("it was built with kind and name");
            let fingerprint = digest::fingerprint(&[object.to_string().as_str()]);
            let is_same = |known: &Applied| {
                known.fingerprint == fingerprint && versions.get(&key) == Some(&known.version)
            };
            if self.known(&uid, |known| known.applied.get(&key).is_some_and(is_same)) {
                continue;
            }
            match calls::apply(&self.cluster.client, &namespace, &object).await {
                Ok(there) => {
                    let applied =
                        Applied { fingerprint, version: there.resource_version().unwrap_or_default() };
                    self.known(&uid, |known| known.applied.insert(key, applied));
                }
                Err(error) => {
                    if matches!(&error, kube::Error::Api(status) if is_refusal(status)) {
                        let why = in_words("apply", &key, &error, &Extensions::default());
                        let occasion = connect.metadata.generation.unwrap_or_default().to_string();
                        let event = connect::not_applied(&why);
                        self.cluster.events.send(connect, &occasion, &event, now).await;
                    }
                    return Err(Error::api("server-side apply of what belongs to a SparkConnect")(error));
                }
            }
        }
        Ok(())
    }
}

/// Whether the API server does not want an object, and not only cannot take it now.
fn is_refusal(status: &Status) -> bool {
    (400..500).contains(&status.code) && ![404, 408, 409, 429].contains(&status.code)
}
