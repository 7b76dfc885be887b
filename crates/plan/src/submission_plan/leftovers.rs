//! Names the objects that a run may have left behind, which are deleted after its end.

use super::{Submitter, choice::submitter};
use crate::Policy;
use api::{ObjectKey, ObjectKind, SparkApplication};
use jiff::Timestamp;
use pods::PodSummary;
use spark_client::{self, Line, possible_children};
use submission::{SubmissionEnvironment, monitoring, native, run::Run, submission_pod};
use validation::validate;

/// Returns the objects that the operator may have created for `run` in addition to pods: those that
/// [`objects`](submission::objects) returns in addition to the driver's pod, or the ConfigMap of the submission
/// pod; the ConfigMap of monitoring; and what extensions have added.
///
/// The objects are found by their names. The names follow from the application and the run, not from the admin's
/// configuration, which may have changed since. (To find the objects by label, the operator would need the right to
/// list all ConfigMaps and claims, and would have to list those of the namespace for every run that ends.) Before an
/// object is deleted, the caller has to check its owner.
///
/// The names of claims depend on all volumes of the driver. They are taken from `driver`, the pod of the run's driver.
/// Without `driver`, the names are computed from `submission_environment`: they are exact if it equals that of the
/// submission, otherwise a best guess. Claims whose name the user has chosen are not returned: they may belong to
/// another user.
pub fn children(
    application: &SparkApplication,
    run: &Run,
    policy: &Policy,
    submission_environment: &SubmissionEnvironment,
    driver: Option<&PodSummary>,
) -> Vec<ObjectKey> {
    let name = application.metadata.name.as_deref().unwrap_or_default();
    let ids = run.ids();
    let possible = possible_children(name, &ids);
    let config_map = driver.and_then(|driver| driver.driver_config_map.as_ref());
    let is_native = config_map.map(|config_map| possible.iter().any(|child| child.name == *config_map));
    let (by_operator, by_pod) = match (is_native, submitter(application, policy)) {
        (Some(is_native), _) => (is_native, !is_native),
        (None, Ok(Submitter::Native)) => (true, false),
        (None, Ok(Submitter::SparkSubmit)) => (false, true),
        // With `auto`, either the operator or a submission pod may have submitted the run, so the objects of both are
        // possible.
        (None, Ok(Submitter::Auto) | Err(_)) => (true, true),
    };

    let mut named: Vec<_> =
        monitoring::config_map(application, run).iter().filter_map(ObjectKey::of).collect();
    named.extend(policy.extensions.leftovers(application, run.id.as_str(), driver));
    if by_operator {
        let has_policy = Line::nearest(&application.spec.spark_version).0 >= Line::V4_2;
        let is_known = |child: &ObjectKey| has_policy || child.kind != ObjectKind::NETWORK_POLICY;
        named.extend(possible.into_iter().filter(is_known));
        let is_ours = |claim: &ObjectKey| claim.name.contains(&ids.prefix);
        let claims = match driver.filter(|_| is_native.is_some()) {
            Some(driver) => {
                driver.claims.iter().map(|name| ObjectKind::PERSISTENT_VOLUME_CLAIM.named(name)).collect()
            }
            None => planned_claims(application, run, policy, submission_environment),
        };
        named.extend(claims.into_iter().filter(is_ours));
    }
    if by_pod {
        named.push(submission_pod::config_map(&submission_pod::name(application, run)));
    }
    named
}

/// Returns the claims that are created for the driver of `run`; empty if its submission cannot be planned.
fn planned_claims(
    application: &SparkApplication,
    run: &Run,
    policy: &Policy,
    submission_environment: &SubmissionEnvironment,
) -> Vec<ObjectKey> {
    let SubmissionEnvironment { defaults, environment, .. } = submission_environment;
    let Ok(application) = validate(application) else { return Vec::new() };
    let planned =
        native(application, run, &policy.submission, defaults, environment.clone(), Timestamp::UNIX_EPOCH)
            .and_then(|submission| spark_client::objects(&submission));
    let children = planned.map(|objects| objects.children).unwrap_or_default();
    let is_claim = |child: &ObjectKey| child.kind == ObjectKind::PERSISTENT_VOLUME_CLAIM;
    children.iter().filter_map(ObjectKey::of).filter(is_claim).collect()
}
