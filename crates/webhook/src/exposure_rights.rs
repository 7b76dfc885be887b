//! Asks the API server whether a user who exposes a driver outside the cluster may do so (`--check-exposure-rights`):
//! the operator creates Services and Ingresses with its own permissions, which users without these permissions must not
//! be able to use.

use super::{
    PATIENCE, applications,
    decision::{Change, Decision},
    lookups::Permit,
};
use api::{ScheduledSparkApplication, SparkApplication, SparkApplicationSpec};
use k8s_openapi::api::{
    authentication::v1::UserInfo,
    authorization::v1::{LocalSubjectAccessReview, ResourceAttributes, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use plan::{
    auxiliary::{ExposureRight, exposure_rights},
    validation::Invalid,
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

/// The client that asks the API server for the permissions of users.
#[derive(Clone)]
pub struct ExposureRights {
    client: Client,
}

impl ExposureRights {
    #[must_use]
    pub const fn new(client: Client) -> Self {
        Self { client }
    }

    /// Returns `decision`, or a refusal if `user` may not create the Services and Ingresses that the change asks for.
    /// The API server is asked only if `decision` allows the object and the change exposes anything, once that is
    /// `permitted`. Applications that
    /// the operator creates for a schedule pass, because the operator has these permissions. The schedule itself was
    /// checked when a user applied it.
    pub(super) async fn decided(
        &self,
        decision: Decision,
        change: &Change<'_>,
        is_schedule: bool,
        user: impl FnOnce() -> serde_json::Result<UserInfo>,
        permitted: impl Future<Output = Result<Permit, &'static str>>,
    ) -> Decision {
        let Decision::Allowed { warnings } = decision else { return decision };
        let mut needed = if is_schedule {
            needed(change, "spec.template", |schedule: ScheduledSparkApplication| schedule.spec.template)
        } else {
            needed(change, "spec", |application: SparkApplication| application.spec)
        };
        if needed.is_empty() {
            return Decision::Allowed { warnings };
        }
        let user = match user() {
            Ok(user) => user,
            Err(error) => return Decision::Unreadable(format!("userInfo: {error}")),
        };
        let _permit = match permitted.await {
            Ok(permit) => permit,
            Err(why) => {
                let message = format!("nobody knows whether the user may expose a driver like this: {why}");
                return Decision::Refused { subjects: vec![needed.swap_remove(0).field], message, warnings };
            }
        };
        let mut invalid = Vec::new();
        for right in needed {
            if let Err(why) = self.has(&user, &right, change.namespace).await {
                invalid.push(Invalid { field: right.field, why });
            }
        }
        Decision::of(invalid, warnings)
    }

    /// Checks that `user` has the permission. The error is the message for the user.
    async fn has(&self, user: &UserInfo, right: &ExposureRight, namespace: &str) -> Result<(), String> {
        let ExposureRight { group, resource, .. } = *right;
        let attributes = ResourceAttributes {
            namespace: Some(namespace.to_owned()),
            verb: Some("create".to_owned()),
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            user: user.username.clone(),
            groups: user.groups.clone(),
            uid: user.uid.clone(),
            extra: user.extra.clone(),
            ..SubjectAccessReviewSpec::default()
        };
        let mut review = LocalSubjectAccessReview { spec, ..LocalSubjectAccessReview::default() };
        review.metadata.namespace = Some(namespace.to_owned());
        let reviews = Api::<LocalSubjectAccessReview>::namespaced(self.client.clone(), namespace);
        let name = user.username.as_deref().unwrap_or_default();
        let unknown = |why: &str| {
            format!(
                "it is not known whether user `{name}` may create {resource} in namespace {namespace}: {why}"
            )
        };
        match timeout(PATIENCE, reviews.create(&PostParams::default(), &review)).await {
            Ok(Ok(answer)) if answer.status.as_ref().is_some_and(|status| status.allowed) => Ok(()),
            Ok(Ok(_)) => Err(format!(
                "user `{name}` may not create {resource} in namespace {namespace}, so an application of theirs is not exposed \
                 like this: leave the field out, or ask an admin for that right"
            )),
            Ok(Err(error)) => Err(unknown(&error.to_string())),
            Err(_) => Err(unknown(&format!("the API server has not answered for {} s", PATIENCE.as_secs()))),
        }
    }
}

/// Returns the permissions that a change needs. An object that cannot be read needs none: it was allowed only because
/// its spec has not changed or because it is being deleted.
fn needed<K: DeserializeOwned>(
    change: &Change<'_>,
    path: &str,
    spec: fn(K) -> SparkApplicationSpec,
) -> Vec<ExposureRight> {
    let Ok(new) = applications::read::<K>(change) else { return Vec::new() };
    let old = serde_json::from_value::<K>(change.old.into()).ok().map(spec);
    exposure_rights(old.as_ref(), &spec(new), path)
}
