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

/// Returns the sentence that says why the caller whose client it is does not have the right; none if the caller has it.
pub(crate) async fn lack(client: &Client, right: Right<'_>) -> Option<String> {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let attributes = ResourceAttributes {
        verb: some(right.verb),
        group: some(right.group),
        resource: some(right.resource),
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
    match in_time(GRACE, reviews.create(&PostParams::default(), &review)).await.flatten() {
        Ok(answer) if answer.status.as_ref().is_some_and(|status| status.allowed) => None,
        Ok(_) => Some(format!("You lack {right}.")),
        Err(error) => Some(Refusal::from(error).words),
    }
}
