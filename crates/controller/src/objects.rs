//! Creates the objects of a submission: first the objects that belong to the pod, last the pod itself, so that no pod
//! waits for an object that does not exist. Each creation can be repeated, because the names are derived from the run.

use super::calls::{Calls, Metadata, only};
use api::{Lenient, ObjectKey, ObjectKind, SparkApplication, names::label};
use backon::{ExponentialBuilder, Retryable};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Client, Resource, ResourceExt, core::Status};
use plan::extension::{Extensions, Obstacle};
use serde_json::Value;
use std::time::Duration;
use submission::content;
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};
use tracing::{debug, warn};

/// How long conflicts (409) and internal errors (500), caused by the API server itself or by the webhook of another
/// party, are retried before the submission fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause after the first failure; each further pause is twice as long as the pause before.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How many times the creation of an object is attempted while an older object with the same name is being deleted.
const TRIES: usize = 50;

/// The maximum number of objects of an application that are deleted at once.
const DELETIONS: usize = 16;
/// If there are more objects than this, several are deleted at once. Only PersistentVolumeClaims on demand are so many.
const MANY: usize = 16;

/// Why a submission has failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("a pod with the driver's name exists already")]
    DriverExists,
    #[error("{0}")]
    Failed(String),
}

/// An object to be created, encoded as it is sent: a parsed object takes up to ten times the memory.
#[derive(Debug)]
pub(super) struct Encoded {
    child: ObjectKey,
    /// The submission id in its label.
    run: Option<String>,
    body: Vec<u8>,
}

impl Encoded {
    pub(super) fn of(object: &Value) -> Self {
        Self {
            child: ObjectKey::of(object).unwrap_or_default(),
            run: object["metadata"]["labels"][label::SUBMISSION_ID].as_str().map(str::to_owned),
            body: serde_json::to_vec(object).expect("a JSON value is JSON"),
        }
    }

    /// Returns the size of the object as it is sent, in bytes.
    pub(super) const fn len(&self) -> usize {
        self.body.len()
    }
}

/// A lock that is held while a request to create an object has no answer yet. To cancel a submission, the caller waits
/// for the lock, and no further request is sent: a request that has been sent cannot be taken back, and its object
/// would be created after everything else was deleted.
pub(super) type InFlight = Mutex<()>;

/// Creates the objects of one application.
pub(super) struct Maker<'a> {
    pub client: &'a Client,
    pub namespace: &'a str,
    /// The uid of the application.
    pub owner: &'a str,
    /// The extensions, one of which may add advice to the error if an object cannot be created.
    pub extensions: &'a Extensions,
    /// The pod that needs the objects; `None` if it exists already, so that its objects are left as they are.
    pub pod: Option<&'a Encoded>,
    pub in_flight: &'a InFlight,
}

impl Maker<'_> {
    /// Creates the driver, the last object of a submission.
    ///
    /// # Errors
    ///
    /// If the API server refuses the driver, or a pod with its name exists.
    pub(super) async fn make_driver(&self, driver: &Encoded) -> Result<(), Error> {
        match self.post(driver).await {
            Err(error) if already_exists(&error) => Err(Error::DriverExists),
            made => made.map_err(|error| self.failed("create", &driver.child, &error)),
        }
    }

    /// Creates a child, unless an earlier attempt has created it.
    ///
    /// # Errors
    ///
    /// If the API server refuses the object, or an object with the name belongs to another owner.
    pub(super) async fn make(&self, object: &Encoded) -> Result<(), Error> {
        for _ in 0..TRIES {
            match self.post(object).await {
                Err(error) if already_exists(&error) => {}
                made => return made.map_err(|error| self.failed("create", &object.child, &error)),
            }
            if self.exists_for_run(object).await? {
                return Ok(());
            }
            sleep(PAUSE).await;
        }
        Err(Error::Failed(still_terminating(&object.child)))
    }

    /// Creates one object. Retries if the API server could not carry out the request: without a time limit while the API
    /// server does not answer at all, so that no application fails for that reason.
    async fn post(&self, Encoded { child, body, .. }: &Encoded) -> Result<(), kube::Error> {
        let calls = &Calls::of_kind(self.client, &child.kind, self.namespace);
        let create = || async move {
            let _sent = self.in_flight.lock().await;
            calls.create(body.clone()).await.map(drop)
        };
        with_retries(&calls.request.url_path, create).await
    }

    /// Whether the object with the child's name is from an earlier attempt of the same run and has the wanted content,
    /// or is in use by the pod of the run. An object of another owner is an error. This function deletes any other
    /// object, and the caller has to create the child again: such an object is of another run, which was never
    /// recorded, or of a deleted application of the same name, or it has other content, because another version of the
    /// operator or somebody else has created it. A PersistentVolumeClaim may belong to any owner but a deleted
    /// application of the same name, and is used as it is, unless Kubernetes is about to delete it: no pod with such a
    /// claim is ever scheduled.
    async fn exists_for_run(&self, object: &Encoded) -> Result<bool, Error> {
        let Encoded { child, run, .. } = object;
        let calls = Calls::of_kind(self.client, &child.kind, self.namespace);
        let there = with_retries(&child.name, || calls.metadata(&child.name)).await;
        let Some(there) = there.map_err(|error| self.failed("read", child, &error))? else {
            return Ok(false);
        };
        let is_own = is_owned(&there, self.owner);
        if child.kind == ObjectKind::PERSISTENT_VOLUME_CLAIM {
            if is_own || !self.is_of_predecessor(&there).await? {
                return Ok(there.meta().deletion_timestamp.is_none() && !self.is_of_earlier_driver(&there));
            }
        } else if is_own {
            let is_of_run = there.labels().get(label::SUBMISSION_ID) == run.as_ref();
            if is_of_run && (self.has_content(&calls, object).await? || self.has_pod().await?) {
                return Ok(true);
            }
        } else if !self.is_of_predecessor(&there).await? {
            return Err(Error::Failed(name_taken(child)));
        }
        match with_retries(&child.name, || delete_that(&calls, child, &there)).await {
            // Another object has the name by now.
            Err(kube::Error::Api(status)) if status.is_conflict() => Ok(false),
            deleted => deleted.map(|()| false).map_err(|error| self.failed("delete", child, &error)),
        }
    }

    /// Whether the object with the child's name has the wanted content. An object of a kind that is not compared always
    /// has it.
    async fn has_content(&self, calls: &Calls<'_>, object: &Encoded) -> Result<bool, Error> {
        let Encoded { child, body, .. } = object;
        if !content::is_compared(&child.kind.kind) {
            return Ok(true);
        }
        match with_retries(&child.name, || calls.get::<Lenient<Value>>(&child.name)).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(false),
            Err(error) => Err(self.failed("read", child, &error)),
            Ok(Lenient(there)) => {
                let wanted: Value = serde_json::from_slice(body).expect("it was JSON before");
                // An object that exceeds the bounds of `Lenient` is hardly the operator's own. If it is, it is created
                // again.
                let is_same = there.is_ok_and(|there| content::is_same(&there, &wanted));
                if !is_same {
                    warn!(kind = %child.kind, name = child.name, "an object of the run has other content");
                }
                Ok(is_same)
            }
        }
    }

    /// Whether an earlier attempt of the same run has created the pod, which may already run with the objects as they
    /// are.
    async fn has_pod(&self) -> Result<bool, Error> {
        let Some(Encoded { child, run, .. }) = self.pod else { return Ok(true) };
        let calls = Calls::of_kind(self.client, &child.kind, self.namespace);
        let there = with_retries(&child.name, || calls.metadata(&child.name)).await;
        let there = there.map_err(|error| self.failed("read", child, &error))?;
        Ok(there.is_some_and(|there| {
            is_owned(&there, self.owner) && there.labels().get(label::SUBMISSION_ID) == run.as_ref()
        }))
    }

    /// Whether the owner of an object is an earlier pod with the driver's name, as for the objects that `spark-submit`
    /// creates. Kubernetes is about to delete such objects, because no submission begins while that pod exists.
    fn is_of_earlier_driver(&self, there: &Metadata) -> bool {
        let is_driver = |reference: &OwnerReference| {
            reference.kind == "Pod" && self.pod.is_some_and(|pod| pod.child.name == reference.name)
        };
        there.owner_references().iter().any(is_driver)
    }

    /// Whether an object belongs to an application that was deleted, and whose name this application has now. Kubernetes
    /// deletes such objects a moment after their application.
    async fn is_of_predecessor(&self, there: &Metadata) -> Result<bool, Error> {
        let is_application = |reference: &&OwnerReference| {
            reference.kind == SparkApplication::kind(&())
                && reference.api_version.split('/').next() == Some(&*SparkApplication::group(&()))
        };
        let Some(reference) = there.owner_references().iter().find(is_application) else { return Ok(false) };
        let calls = Calls::of::<SparkApplication>(self.client, self.namespace);
        let present = with_retries(&reference.name, || calls.metadata(&reference.name)).await;
        let present = present.map_err(|error| {
            Error::Failed(format!("failed to read SparkApplication {}: {error}", reference.name))
        })?;
        Ok(present.is_some_and(|present| present.uid().as_deref() == Some(self.owner)))
    }

    /// Describes a failure for the user: the object that was to be created, and the API server's own message.
    fn failed(&self, what: &str, child: &ObjectKey, error: &kube::Error) -> Error {
        Error::Failed(in_words(what, child, error, self.extensions))
    }
}

pub(super) fn still_terminating(child: &ObjectKey) -> String {
    format!("{child} of an earlier run is still being deleted")
}

pub(super) fn name_taken(child: &ObjectKey) -> String {
    format!("{child} already exists and is not this application's: delete it")
}

/// Deletes those of `children` that belong to the application with the uid `owner`. A child that is gone counts as
/// deleted. A child that the operator is not allowed to touch is skipped, because the operator cannot have created it.
/// So is a child that a webhook (400) or a policy (422) protects: otherwise the run would never end, and Kubernetes
/// deletes the child with the application.
pub(super) async fn delete(
    client: &Client,
    namespace: &str,
    owner: &str,
    children: &[ObjectKey],
) -> Result<(), kube::Error> {
    let delete = async |child: &ObjectKey| match delete_owned(client, namespace, owner, child).await {
        Err(kube::Error::Api(status)) if is_refused(&status) => {
            warn!(kind = %child.kind, name = child.name, %status, "not deleted");
            Ok(())
        }
        deleted => deleted,
    };
    // One after the other, unless they are so many that this would occupy the worker for long.
    let at_once = if children.len() > MANY { DELETIONS } else { 1 };
    stream::iter(children).map(delete).buffer_unordered(at_once).try_collect().await
}

/// Deletes a child if it exists and belongs to the application with the uid `owner`; see [`delete_that`] for conflicts.
pub(super) async fn delete_owned(
    client: &Client,
    namespace: &str,
    owner: &str,
    child: &ObjectKey,
) -> Result<(), kube::Error> {
    let calls = Calls::of_kind(client, &child.kind, namespace);
    match calls.metadata(&child.name).await? {
        Some(there) if is_owned(&there, owner) => delete_that(&calls, child, &there).await,
        _ => Ok(()),
    }
}

/// Sends a request by `call`, and repeats the request if the API server could not carry it out. `what` names the object
/// in the log.
async fn with_retries<T, F>(what: &str, call: impl Fn() -> F) -> Result<T, kube::Error>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    let begun = Instant::now();
    let is_worth_a_try = |error: &kube::Error| match error {
        kube::Error::Api(status) => match status.code {
            429 | 502..=504 => true,
            // The API server reports a quota that is being changed as a conflict (409), and a webhook that cannot be
            // called as an internal error (500).
            409 | 500 => !already_exists(error) && begun.elapsed() < PATIENCE,
            _ => false,
        },
        kube::Error::Service(_) | kube::Error::HyperError(_) | kube::Error::ReadEvents(_) => true,
        _ => false,
    };
    let pauses =
        ExponentialBuilder::new().with_min_delay(PAUSE).with_max_delay(LONGEST_PAUSE).without_max_times();
    call.retry(pauses).when(is_worth_a_try).notify(|error, _| warn!(%error, what, "request is retried")).await
}

/// Whether a request was refused because the operator lacks the right (403), or by a webhook (400) or a policy (422) of
/// the cluster.
pub(super) fn is_refused(status: &Status) -> bool {
    [400, 403, 422].contains(&status.code)
}

fn is_owned(there: &Metadata, owner: &str) -> bool {
    there.owner_references().iter().any(|reference| reference.uid == owner)
}

/// Deletes an object. An object that is gone counts as deleted. A conflict means that another object has the name by
/// now, or that the API server did not delete the object for another reason.
async fn delete_that(calls: &Calls<'_>, child: &ObjectKey, there: &Metadata) -> Result<(), kube::Error> {
    match calls.delete(&child.name, &only(there.uid())).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        deleted => deleted.map(|()| debug!(kind = %child.kind, name = child.name, "deleted")),
    }
}

pub(super) fn already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_already_exists())
}

/// Describes a failure for the user: `what` was to be done with the object, and the API server's own message.
pub(super) fn in_words(
    what: &str,
    child: &ObjectKey,
    error: &kube::Error,
    extensions: &Extensions,
) -> String {
    let why = match error {
        kube::Error::Api(status) => {
            // For a kind that does not exist, the API server answers without the name of the object.
            let has_name = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
            let obstacle = match status.code {
                403 => Some(Obstacle::NoPermission),
                404 if !has_name => Some(Obstacle::NoKind),
                _ => None,
            };
            let advice = obstacle.and_then(|obstacle| {
                extensions.iter().find_map(|extension| extension.advice(&child.kind, obstacle))
            });
            let advice = advice.unwrap_or_default();
            format!("{}{advice}", status.message.trim_end())
        }
        error => error.to_string(),
    };
    format!("failed to {what} {child}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::api_server;
    use parking_lot::Mutex;
    use serde_json::json;
    use std::sync::Arc;

    /// Returns an object of the application `pi` and its run `a`.
    fn object(kind: &str, mut fields: Value) -> Value {
        fields["apiVersion"] = "v1".into();
        fields["kind"] = kind.into();
        fields["metadata"] = json!({
            "name": "pi", "uid": "1", "labels": {label::SUBMISSION_ID: "a"},
            "ownerReferences": [{
                "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication", "name": "pi", "uid": "of-pi",
            }],
        });
        fields
    }

    /// Returns the ConfigMap of a driver with this jar, submitted at this second.
    fn config_map(jar: &str, second: u8) -> Value {
        let properties = format!(
            "#Java properties\n#Thu Nov 05 02:37:{second} UTC 2026\nspark.app.submitTime=17938462640{second}\nspark.jars={jar}\n"
        );
        object("ConfigMap", json!({"immutable": true, "data": {"spark.properties": properties}}))
    }

    /// Creates `wanted` in a namespace with the object `there`, and with the pod of the run if `has_pod`. If
    /// `is_fought`, a deleted object exists again at once. Returns whether `wanted` was created, or the error if
    /// neither object was used, and the number of requests.
    async fn is_created(
        wanted: &Value,
        there: &Value,
        has_pod: bool,
        is_fought: bool,
    ) -> (Result<bool, String>, usize) {
        let pod = object("Pod", json!({}));
        let state = Arc::new(Mutex::new((Some(there.clone()), 0)));
        let (shared, present_pod) = (Arc::clone(&state), has_pod.then(|| pod.clone()));
        let client = api_server(move |request| {
            let (shared, pod) = (Arc::clone(&shared), present_pod.clone());
            async move {
                let (method, path) = (request.method().clone(), request.uri().path().to_owned());
                let body = request.into_body().collect_bytes().await.unwrap();
                let refused = |code: u16, reason: &str| {
                    (code, json!({"kind": "Status", "status": "Failure", "reason": reason, "code": code}))
                };
                let (stored, requests) = &mut *shared.lock();
                *requests += 1;
                match (method.as_str(), stored.is_some()) {
                    ("POST", true) => return refused(409, "AlreadyExists"),
                    ("POST", false) => *stored = Some(serde_json::from_slice(&body).unwrap()),
                    ("DELETE", _) if !is_fought => *stored = None,
                    _ => {}
                }
                let found = match path.split('/').nth_back(1) {
                    Some("pods") => pod,
                    Some("sparkapplications") => Some(json!({"metadata": {"name": "pi", "uid": "of-pi"}})),
                    _ => stored.clone(),
                };
                found.map_or_else(|| refused(404, "NotFound"), |found| (200, found))
            }
        });
        let (extensions, in_flight, pod) = (Extensions::default(), InFlight::default(), Encoded::of(&pod));
        let maker = Maker {
            client: &client,
            namespace: "ours",
            owner: "of-pi",
            extensions: &extensions,
            pod: Some(&pod),
            in_flight: &in_flight,
        };
        let made = maker.make(&Encoded::of(wanted)).await.map_err(|error| error.to_string());
        let (stored, requests) = &*state.lock();
        (made.map(|()| stored.as_ref() != Some(there)), *requests)
    }

    /// In an earlier version, whoever could create ConfigMaps could have code of their own run by a driver: the names, the
    /// owner and the submission id of the next run can be computed from the application.
    #[tokio::test(start_paused = true)]
    async fn an_object_that_was_created_in_advance_is_used_only_if_it_has_the_wanted_content() {
        let service = |spec: Value| object("Service", json!({"spec": spec}));
        let wanted = service(json!({"clusterIP": "None", "selector": {"spark-app-selector": "a"}}));
        let stored = |selected: &str| {
            service(json!({
                "clusterIP": "None", "clusterIPs": ["None"], "type": "ClusterIP", "sessionAffinity": "None",
                "internalTrafficPolicy": "Cluster", "selector": {"spark-app-selector": selected},
            }))
        };
        let (ours, forged) = (config_map("ours.jar", 44), config_map("forged.jar", 44));
        for (wanted, there, has_pod, is_replaced) in [
            (&ours, &config_map("ours.jar", 11), false, false),
            (&ours, &forged, false, true),
            // The pod of the run was created after its objects.
            (&ours, &forged, true, false),
            (&wanted, &stored("a"), false, false),
            (&wanted, &stored("b"), false, true),
        ] {
            let (made, _) = is_created(wanted, there, has_pod, false).await;
            assert_eq!(made, Ok(is_replaced), "{there}");
        }
    }

    /// In an earlier version, such a claim was used, and its driver waited for ever: Spark deletes the claims of a driver
    /// when the driver stops, and Kubernetes those of a deleted application.
    #[tokio::test(start_paused = true)]
    async fn a_claim_that_is_about_to_be_deleted_is_not_used() {
        let claim = |owner: &str, deleted: Value| {
            let mut claim = object("PersistentVolumeClaim", json!({}));
            claim["metadata"]["ownerReferences"][0]["uid"] = owner.into();
            claim["metadata"]["deletionTimestamp"] = deleted;
            claim
        };
        let mut of_user = claim("", Value::Null);
        of_user["metadata"]["ownerReferences"] = json!([]);
        let mut of_driver = claim("of-old-driver", Value::Null);
        of_driver["metadata"]["ownerReferences"][0]["kind"] = "Pod".into();
        let wanted = claim("of-pi", Value::Null);
        let going = || Err("PersistentVolumeClaim pi of an earlier run is still being deleted".to_owned());
        for (there, expected) in [
            (&wanted, Ok(false)),
            (&of_user, Ok(false)),
            (&claim("of-pi", json!("2026-11-05T02:37:44Z")), going()),
            // The owner is a deleted application that had the same name. The garbage collector may take minutes.
            (&claim("of-old-pi", Value::Null), Ok(true)),
            // `spark-submit` has created it, and the driver of that run is gone.
            (&of_driver, going()),
        ] {
            let (made, _) = is_created(&wanted, there, false, false).await;
            assert_eq!(made, expected, "{there}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_is_forged_again_and_again_fails_the_submission() {
        let (made, requests) =
            is_created(&config_map("ours.jar", 44), &config_map("forged.jar", 44), false, true).await;
        assert_eq!(made, Err("ConfigMap pi of an earlier run is still being deleted".to_owned()));
        // Each attempt creates, reads the metadata, the object and the pod, and deletes.
        assert_eq!(requests, 5 * TRIES);
    }
}
