//! Asks the API server what a caller may do, and says which right is missing.

use super::refusal::Refusal;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{Api, Client, api::PostParams};
use spark_operator_client::patience::{GRACE, in_time};
use std::fmt;

/// A right in a namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Right<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    /// The resource, and the subresource after a slash.
    pub resource: &'a str,
    pub namespace: &'a str,
    /// The name of the object; empty for all.
    pub name: &'a str,
}

impl fmt::Display for Right<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, resource, namespace, .. } = self;
        write!(f, "the right to {verb} {resource} in the namespace {namespace}")
    }
}

/// Returns whether the caller whose client it is has the right.
///
/// # Errors
///
/// If the API server does not answer.
pub(crate) async fn has(client: &Client, right: Right<'_>) -> Result<bool, Refusal> {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let (resource, subresource) = right.resource.split_once('/').unwrap_or((right.resource, ""));
    let attributes = ResourceAttributes {
        verb: some(right.verb),
        group: some(right.group),
        resource: some(resource),
        subresource: some(subresource),
        namespace: some(right.namespace),
        name: some(right.name),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec {
        resource_attributes: Some(attributes),
        ..SelfSubjectAccessReviewSpec::default()
    };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let reviews = Api::<SelfSubjectAccessReview>::all(client.clone());
    let answer = in_time(GRACE, reviews.create(&PostParams::default(), &review)).await.flatten()?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
