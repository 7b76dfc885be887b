//! The application that is created for a slot, and what is known of applications that exist.

use super::{Action, Pass};
use crate::digest;
use api::{
    ScheduledSparkApplication, SparkApplication, State,
    names::{annotation, label},
};
use cron::Rhythm;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube_core::{Resource, ResourceExt};
use std::{fmt, str::FromStr, time::Duration};

/// In which unit the time of a slot stands behind the schedule's name (KF's
/// `--scheduled-spark-application-timestamp-precision`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    #[default]
    Nanos,
    Micros,
    Millis,
    Seconds,
    Minutes,
}

/// For what an application is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Occasion {
    Slot(Timestamp),
    /// The user has annotated the schedule with this.
    Trigger(String),
}

/// An application that was made for a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    pub name: String,
    pub uid: String,
    pub resource_version: Option<String>,
    pub created: Timestamp,
    /// The slot that it was made for; KF says of none.
    pub slot: Option<Timestamp>,
    /// The trigger that it was made for.
    pub trigger: Option<String>,
    pub state: State,
    /// Whether it is being deleted.
    pub is_going: bool,
}

impl Precision {
    const ALL: [Self; 5] = [Self::Nanos, Self::Micros, Self::Millis, Self::Seconds, Self::Minutes];

    /// The value of the flag.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Nanos => "nanos",
            Self::Micros => "micros",
            Self::Millis => "millis",
            Self::Seconds => "seconds",
            Self::Minutes => "minutes",
        }
    }

    /// What stands behind a schedule's name for the slot, if the schedule has this rhythm.
    fn suffix(self, slot: Timestamp, rhythm: &Rhythm) -> String {
        let time = match self.for_rhythm(rhythm) {
            Self::Nanos => slot.as_nanosecond(),
            Self::Micros => slot.as_microsecond().into(),
            Self::Millis => slot.as_millisecond().into(),
            Self::Seconds => slot.as_second().into(),
            Self::Minutes => (slot.as_second() / 60).into(),
        };
        format!("-{time}")
    }

    /// Where two slots would share a minute, seconds are used.
    fn for_rhythm(self, rhythm: &Rhythm) -> Self {
        match (self, rhythm) {
            (Self::Minutes, Rhythm::Every(period)) if *period < Duration::from_secs(60) => Self::Seconds,
            (precision, _) => precision,
        }
    }

    /// How many characters stand behind a schedule's name, until the year 2286.
    #[must_use]
    pub fn suffix_length(self, rhythm: Option<&Rhythm>) -> usize {
        match rhythm.map_or(self, |rhythm| self.for_rhythm(rhythm)) {
            Self::Nanos => 20,
            Self::Micros => 17,
            Self::Millis => 14,
            Self::Seconds => 11,
            Self::Minutes => 9,
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|precision| precision.as_str() == text);
        named.ok_or_else(|| {
            format!("`{text}` is no unit: try `nanos`, `micros`, `millis`, `seconds` or `minutes`")
        })
    }
}

impl Pass<'_> {
    /// What the application for `occasion` is called.
    pub(super) fn name(&self, occasion: &Occasion) -> String {
        let behind = match occasion {
            Occasion::Slot(slot) => self.policy.precision.suffix(*slot, &self.rhythm),
            // No longer than the shortest time, and no time begins with a letter.
            Occasion::Trigger(value) => {
                let uid = self.schedule.uid().unwrap_or_default();
                format!("-t{}", &digest::fingerprint(&[&uid, value])[..7])
            }
        };
        self.schedule.name_any() + &behind
    }

    /// The application for `occasion`. As KF's: all of the schedule's labels, and an owner that is no controller.
    pub(super) fn application(&self, occasion: &Occasion) -> SparkApplication {
        let ObjectMeta { namespace, labels, uid, .. } = self.schedule.metadata.clone();
        let own = (label::SCHEDULED_APP_NAME.to_owned(), self.schedule.name_any());
        let annotation = match occasion {
            Occasion::Slot(slot) => (annotation::SCHEDULED_TIME.to_owned(), slot.to_string()),
            Occasion::Trigger(value) => (annotation::TRIGGER.to_owned(), value.clone()),
        };
        let owner = OwnerReference {
            api_version: ScheduledSparkApplication::api_version(&()).into_owned(),
            kind: ScheduledSparkApplication::kind(&()).into_owned(),
            name: self.schedule.name_any(),
            uid: uid.unwrap_or_default(),
            block_owner_deletion: Some(true),
            controller: None,
        };
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
    /// What is known of an application in this state, and the schedule that owns it; none if none does.
    #[must_use]
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

    /// Whether no more comes of it.
    #[must_use]
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
        Action::Delete {
            name: self.name.clone(),
            uid: self.uid.clone(),
            resource_version: self.resource_version.clone(),
        }
    }
}
