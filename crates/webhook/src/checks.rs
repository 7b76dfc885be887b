//! Checks objects of all kinds in the same order: the spec itself, the fields that extensions read, the rights of the user
//! who exposes a driver or a server outside the cluster, and the quotas. Each check runs only if those before it have found
//! no mistake.

use super::{
    decision::{Change, Decision},
    quotas::Quotas,
    reviews::Reviews,
};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Resource;
use plan::{Policy, quota};
use serde::de::DeserializeOwned;
use serde_json::Value;
use submission::{SubmissionEnvironment, exposure::ExposureRight};
use validation::{Findings, Invalid};

/// The checks of a kind of object. Functions of two objects get the stored one and the new one.
pub(super) struct Checks<K> {
    /// The path of the spec of which extensions read fields; `None` if they read no fields of this kind.
    pub of_extensions: Option<&'static str>,
    /// Whether an update does not change what runs, so that there is nothing to refuse.
    pub is_same: fn(&K, &K) -> bool,
    /// Returns what is wrong with the object itself.
    pub examine: fn(&K, &Reviews) -> Findings,
    /// Returns the warning about the effect of an update on the present run or server; `None` if there is none.
    pub effect: fn(&K, &K) -> Option<String>,
    /// Returns the rights that a change needs.
    pub exposure_rights: fn(Option<&K>, &K) -> Vec<ExposureRight>,
    /// Whether a change leads to new pods, so that the quotas must have room for them.
    pub needs_room: fn(Option<&K>, &K) -> bool,
    /// Returns the quotas that a change would exceed, or the reason why it is refused while these are unknown.
    pub exceeded: fn(Option<&K>, &K, &Room<'_>) -> Exceeded,
}

/// The quotas that a change would exceed, or the reason why these are unknown.
type Exceeded = Result<Vec<Invalid>, String>;

/// The quotas of a namespace, and the settings on which the resource requests of pods depend.
pub(super) struct Room<'a> {
    pub quotas: &'a [ResourceQuota],
    pub environment: Result<SubmissionEnvironment, String>,
    pub policy: &'a Policy,
    /// Whether refusals say how much of a quota is used.
    pub says_numbers: bool,
}

impl<K: DeserializeOwned + Resource + Send + Sync> Checks<K> {
    /// Returns the decision about a change of an object that should be a `K`.
    pub(super) async fn decided(&self, change: &Change<'_>) -> Decision {
        self.findings(change).await.map_or_else(|refused| refused, Decision::of)
    }

    /// Returns the findings of the checks. The error is a decision that is not based on findings.
    ///
    /// The spec of an object that is being deleted is not examined, nor that of an update which does not change what runs: if
    /// an invalid object was stored before this webhook was installed, users must still be able to remove its finalizers,
    /// to label it and to suspend it.
    async fn findings(&self, change: &Change<'_>) -> Result<Findings, Decision> {
        let Change { object, old: stored, reviews, .. } = *change;
        let is_going = !object["metadata"]["deletionTimestamp"].is_null();
        let is_kept = is_going || !stored.is_null() && object["spec"] == stored["spec"];
        let mut new = match K::deserialize(object) {
            Ok(new) => new,
            Err(_) if is_kept => return Ok(Findings::default()),
            Err(error) => return Err(Decision::Unreadable(error.to_string())),
        };
        // An object whose metadata has no namespace is in the namespace of the request.
        new.meta_mut().namespace.get_or_insert_with(|| change.namespace.to_owned());
        // A stored object that cannot be read counts as absent.
        let old = K::deserialize(stored).ok();
        let old = old.as_ref();
        let mut found = Findings::default();
        if !is_kept && !old.is_some_and(|old| (self.is_same)(old, &new)) {
            found = (self.examine)(&new, reviews);
            // This warning is put first, because the API server drops the last ones if all together exceed 4 KiB.
            found.warnings.splice(..0, old.and_then(|old| (self.effect)(old, &new)));
        }
        if let Some(path) = self.of_extensions.filter(|_| found.invalid.is_empty() && !is_going) {
            of_extensions(change, path, &mut found);
        }
        if let Some(rights) = reviews.exposure_rights.as_ref().filter(|_| found.invalid.is_empty()) {
            let needed = (self.exposure_rights)(old, &new);
            if !needed.is_empty() {
                let user = change.user()?;
                let permitted = change.permitted().await;
                add(&mut found, rights.check(needed, &user, change.namespace, permitted).await);
            }
        }
        if let Some(quotas) = reviews.quotas.as_ref().filter(|_| found.invalid.is_empty())
            && (self.needs_room)(old, &new)
        {
            match self.over_quota(change, quotas, old, &new).await {
                Ok(exceeded) => found.invalid = exceeded,
                Err(message) => {
                    let subjects = vec!["ResourceQuota".to_owned()];
                    return Err(Decision::Refused { subjects, message, warnings: found.warnings });
                }
            }
        }
        Ok(found)
    }

    /// Returns the quotas of its namespace that a change would exceed, or the reason why it is refused while these are
    /// unknown.
    async fn over_quota(
        &self,
        change: &Change<'_>,
        asked: &Quotas,
        old: Option<&K>,
        new: &K,
    ) -> Result<Vec<Invalid>, String> {
        let Change { namespace, caller, .. } = *change;
        let permit = change.permitted().await;
        let _permit = permit.map_err(|why| quota::unreadable(namespace, why, false))?;
        let quotas = &asked.read(namespace).await?;
        if quotas.is_empty() {
            return Ok(Vec::new());
        }
        let environment = (asked.submission_environment)().await;
        let environment = environment.map_err(|why| quota::unknown(namespace, &why));
        let room = Room { quotas, environment, policy: &asked.policy, says_numbers: caller.is_api_server };
        (self.exceeded)(old, new, &room)
    }
}

/// Adds the findings of extensions in the fields that only they read, if the change creates or edits these fields.
fn of_extensions(change: &Change<'_>, path: &str, found: &mut Findings) {
    for extension in change.reviews.extensions.iter() {
        let fields = |object: &Value| {
            let spec = path.split('.').fold(object, |value, field| &value[field]);
            // An empty string counts as absent.
            let given = |field: &str| Some(spec[field].clone()).filter(|value| value != "");
            Value::from_iter(
                extension.fields().iter().map(|field| (*field, given(field).unwrap_or_default())),
            )
        };
        let asked = fields(change.object);
        if change.old.is_null() || fields(change.old) != asked {
            add(found, extension.check(path, &asked));
        }
    }
}

fn add(found: &mut Findings, more: Findings) {
    found.invalid.extend(more.invalid);
    found.warnings.extend(more.warnings);
}
