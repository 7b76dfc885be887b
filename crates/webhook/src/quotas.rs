//! Reads the ResourceQuotas of a namespace, against which applications and SparkConnects are checked if the admin has
//! enabled that (`--enable-resource-quota-enforcement`).

use super::PATIENCE;
use api::Lenient;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::{Api, Client, api::ListParams};
use plan::{Policy, quota};
use std::sync::Arc;
use submission::SubmissionEnvironment;
use tokio::time::timeout;

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
    /// Returns the quotas of a namespace, or the reason why changes are refused while the quotas are unknown.
    pub(super) async fn read(&self, namespace: &str) -> Result<Vec<ResourceQuota>, String> {
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
