//! Builds the application for a slot or a trigger, and reads from an application for which slot or trigger it was
//! created.

use super::{Action, Pass};
use api::{
    Identity, ScheduledSparkApplication, SparkApplication, State,
    names::{annotation, label},
    owner_reference,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube_core::{Resource, ResourceExt};
use submission::digest;

/// The reason for which an application is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Occasion {
    Slot(Timestamp),
    /// The value of the trigger annotation that the user has set on the schedule.
    Trigger(String),
}

/// An application of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    pub name: String,
    pub uid: String,
    pub resource_version: Option<String>,
    pub created: Timestamp,
    /// The slot for which the application was created; `None` for a triggered application and for one that Kubeflow's
    /// operator has created, which does not record slots.
    pub slot: Option<Timestamp>,
    /// The value of the trigger annotation for which the application was created.
    pub trigger: Option<String>,
    pub state: State,
    /// Whether the application is being deleted.
    pub is_going: bool,
}

impl Pass<'_> {
    /// Returns the name of the application for `occasion`.
    pub(super) fn name(&self, occasion: &Occasion) -> String {
        let behind = match occasion {
            Occasion::Slot(slot) => self.policy.precision.suffix(*slot, Some(&self.rhythm)),
            // The suffix is not longer than the shortest suffix of a slot, and its `t` avoids a clash with these, which
            // contain digits only.
            Occasion::Trigger(value) => {
                let uid = self.schedule.own_uid();
                format!("-t{}", &digest::fingerprint(&[uid, value])[..7])
            }
        };
        self.schedule.name_any() + &behind
    }

    /// Returns the application for `occasion`. As in Kubeflow's operator, the application has all labels of the
    /// schedule, and its owner reference is not a controller reference.
    pub(super) fn application(&self, occasion: &Occasion) -> SparkApplication {
        let ObjectMeta { namespace, labels, .. } = self.schedule.metadata.clone();
        let own = (label::SCHEDULED_APP_NAME.to_owned(), self.schedule.name_any());
        let annotation = match occasion {
            Occasion::Slot(slot) => (annotation::SCHEDULED_TIME.to_owned(), slot.to_string()),
            Occasion::Trigger(value) => (annotation::TRIGGER.to_owned(), value.clone()),
        };
        let owner = OwnerReference { controller: None, ..owner_reference(self.schedule) };
        let metadata = ObjectMeta {
            name: Some(self.name(occasion)),
            namespace,
            labels: Some([own].into_iter().chain(labels.unwrap_or_default()).collect()),
            annotations: Some([annotation].into()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        };
        SparkApplication { metadata, spec: self.schedule.spec.template.clone(), status: None }
    }
}

impl Child {
    /// Reads an application from its metadata and its state. Returns it together with the reference to the schedule
    /// that owns it; `None` if no schedule owns it.
    pub fn of(metadata: &ObjectMeta, state: State) -> Option<(&OwnerReference, Self)> {
        let kind = ScheduledSparkApplication::kind(&());
        let owner = metadata.owner_references.iter().flatten().find(|owner| owner.kind == kind)?;
        let annotation = |key: &str| metadata.annotations.as_ref().and_then(|all| all.get(key));
        let child = Self {
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone(),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0).unwrap_or_default(),
            slot: annotation(annotation::SCHEDULED_TIME).and_then(|time| time.parse().ok()),
            trigger: annotation(annotation::TRIGGER).cloned(),
            state,
            is_going: metadata.deletion_timestamp.is_some(),
        };
        Some((owner, child))
    }

    /// Whether the application has ended and will not run again by itself.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Completed | State::Failed)
    }

    pub(super) fn is_for(&self, occasion: &Occasion) -> bool {
        match occasion {
            Occasion::Slot(slot) => self.slot == Some(*slot),
            Occasion::Trigger(value) => self.trigger.as_ref() == Some(value),
        }
    }

    pub(super) fn delete(&self) -> Action {
        let Self { name, uid, resource_version, .. } = self.clone();
        Action::Delete { name, uid, resource_version }
    }
}
