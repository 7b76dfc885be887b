//! Reads the ResourceQuotas of a namespace and checks an application or a SparkConnect against them, if the admin has
//! enabled that (`--enable-resource-quota-enforcement`).

use super::{
    PATIENCE,
    decision::{Change, Decision},
    lookups::Permit,
};
use api::{Lenient, SparkApplication, SparkConnect};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::{Api, Client, api::ListParams};
use plan::{Policy, quota};
use std::sync::Arc;
use submission::SubmissionEnvironment;
use tokio::time::timeout;
use validation::Invalid;

/// Reads the admin's settings for submissions as they are now, or returns why that is not possible.
pub type ReadSubmissionEnvironment =
    Arc<dyn Fn() -> BoxFuture<'static, Result<SubmissionEnvironment, String>> + Send + Sync>;

/// The client that reads quotas, and the settings by which applications are submitted: they decide which resources their
/// pods request.
pub struct Quotas {
    pub client: Client,
    pub policy: Policy,
    pub submission_environment: ReadSubmissionEnvironment,
}

impl Quotas {
    /// Checks an object against the quotas of its namespace: a SparkConnect, or else an application. Returns `decision`, or
    /// a refusal if a quota would be exceeded or the quotas cannot be read. The quotas are read only if `decision` allows
    /// the object and the change leads to new pods, once they are `permitted` to be. The refusal says how much they have
    /// left if `says_numbers`.
    pub(super) async fn decided(
        &self,
        decision: Decision,
        change: &Change<'_>,
        is_connect: bool,
        says_numbers: bool,
        permitted: impl Future<Output = Result<Permit, &'static str>>,
    ) -> Decision {
        let Decision::Allowed { warnings } = decision else { return decision };
        let needs_room = if is_connect {
            change.readable::<SparkConnect>().is_some_and(|(old, new)| connect::quota::needs_room(old, new))
        } else {
            change.readable::<SparkApplication>().is_some_and(|(old, new)| quota::needs_room(old, new))
        };
        if !needs_room {
            return Decision::Allowed { warnings };
        }
        match self.exceeded(change, is_connect, says_numbers, permitted).await {
            Ok(exceeded) => Decision::of(exceeded, warnings),
            Err(message) => {
                Decision::Refused { subjects: vec!["ResourceQuota".to_owned()], message, warnings }
            }
        }
    }

    /// Returns what the new version would exceed, or the reason why none is allowed while that is unknown.
    async fn exceeded(
        &self,
        change: &Change<'_>,
        is_connect: bool,
        says_numbers: bool,
        permitted: impl Future<Output = Result<Permit, &'static str>>,
    ) -> Result<Vec<Invalid>, String> {
        let _permit = permitted.await.map_err(|why| quota::unreadable(change.namespace, why, false))?;
        let quotas = self.read(change.namespace).await?;
        if quotas.is_empty() {
            return Ok(Vec::new());
        }
        let exceeded = if is_connect {
            let versions = change.readable::<SparkConnect>();
            versions.map(|(old, new)| connect::quota::exceeded(old, new, &quotas, says_numbers))
        } else {
            let environment = (self.submission_environment)().await;
            let environment = environment.map_err(|why| quota::unknown(change.namespace, &why))?;
            let (policy, versions) = (&self.policy, change.readable::<SparkApplication>());
            versions.map(|(old, new)| quota::exceeded(old, new, &quotas, &environment, policy, says_numbers))
        };
        Ok(exceeded.unwrap_or_default())
    }

    /// Returns the quotas of a namespace, or the reason why nothing is allowed while the quotas are unknown.
    async fn read(&self, namespace: &str) -> Result<Vec<ResourceQuota>, String> {
        let api = Api::<Lenient<ResourceQuota>>::namespaced(self.client.clone(), namespace);
        let (why, is_forbidden) = match timeout(PATIENCE, api.list(&ListParams::default())).await {
            Ok(Ok(list)) => match list.items.into_iter().map(|quota| quota.0).collect::<Result<_, _>>() {
                Ok(quotas) => return Ok(quotas),
                Err(invalid) => (invalid.error, false),
            },
            Ok(Err(kube::Error::Api(status))) => (status.message.clone(), status.is_forbidden()),
            Ok(Err(error)) => (error.to_string(), false),
            Err(_) => (format!("the API server has not answered for {} s", PATIENCE.as_secs()), false),
        };
        Err(quota::unreadable(namespace, &why, is_forbidden))
    }
}
