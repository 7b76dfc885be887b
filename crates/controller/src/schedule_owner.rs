//! Reads which schedule has created an application.

use super::{Key, key};
use api::{Identity, LONGEST_NAME, State};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt;
use schedules::Child;

/// A schedule as its applications refer to it: by the name and uid in an owner reference, in the application's own
/// namespace.
///
/// The uid alone is not enough. Every user who may read a schedule knows its uid, and Kubernetes lets every user write
/// any uid into the owner reference of an application of their own, in any namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Owner {
    pub(crate) key: Key,
    pub(crate) uid: String,
}

impl Owner {
    pub(crate) fn of(schedule: &impl ResourceExt) -> Self {
        Self { key: key(schedule), uid: schedule.own_uid().to_owned() }
    }
}

/// Reduces an application to the facts that its schedule needs, and returns them with the schedule to which the
/// application refers; `None` if it refers to none, or the reference is too long.
pub(crate) fn child(application: &ObjectMeta, state: State) -> Option<(Owner, Child)> {
    let (OwnerReference { name, uid, .. }, child) = Child::of(application, state)?;
    // The API server does not limit the length of these texts.
    let is_kept = |text: &String| text.len() <= LONGEST_NAME;
    let child = Child { trigger: child.trigger.filter(is_kept), ..child };
    let key = (application.namespace.clone().unwrap_or_default(), name.clone());
    (is_kept(name) && is_kept(uid)).then(|| (Owner { key, uid: uid.clone() }, child))
}
