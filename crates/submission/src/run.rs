//! Identifies the runs of an application and derives their names.
//!
//! A run is one attempt at executing the application, whatever its cause. Its ordinal is one higher than that of the
//! run before, and its submission id is computed from application, spec and ordinal. So a submission that is repeated
//! after a crash, a conflict or a lost reply has the same id again, and finds the objects that the first attempt
//! created.

use crate::spec_hash::hash_of;
use api::{Identity, SparkApplication};
use serde::{Deserialize, Serialize};
use spark_client::Ids;
use std::fmt;
use uuid::Uuid;

/// The identity of a run: a UUIDv5, which is also the value of the `submission-id` label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SubmissionId(String);

impl SubmissionId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SubmissionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub id: SubmissionId,
    /// 1 for the first run, never reset.
    pub ordinal: i64,
    /// A UUID that depends only on application and ordinal. The names of the objects that belong to a driver are
    /// derived from it. So if the spec is edited before a submission is recorded, the run for the new spec finds the
    /// objects that the submission for the old spec has left, and replaces them.
    pub place: Uuid,
    /// The hash of the spec from which the run was created.
    pub spec_hash: String,
    /// The application's `metadata.generation` at that spec.
    pub generation: Option<i64>,
}

impl Run {
    /// Returns the run that comes after the run recorded in the status.
    pub fn next(application: &SparkApplication) -> Self {
        let recorded = application.status.as_ref().and_then(|status| status.run_ordinal);
        let ordinal = recorded.unwrap_or(0) + 1;
        let spec_hash = hash_of(application);
        let id = Uuid::new_v5(&application_uuid(application), format!("{spec_hash}/{ordinal}").as_bytes());
        Self::of(application, SubmissionId(id.to_string()), ordinal, spec_hash)
    }

    /// Returns a run whose names have the form and the length of those of any run.
    pub(crate) fn model(application: &SparkApplication) -> Self {
        Self::of(application, SubmissionId(Uuid::nil().to_string()), 1, String::new())
    }

    /// Returns the run recorded in the status, if there is one. Spec hash and generation are those of the present spec.
    pub fn recorded(application: &SparkApplication) -> Option<Self> {
        let status = application.status.as_ref()?;
        let id = SubmissionId(status.submission_id.clone()?);
        Some(Self::of(application, id, status.run_ordinal.unwrap_or(1), hash_of(application)))
    }

    /// Returns the ids that `spark-submit` would choose at random. Here they are derived from the run, so that a
    /// repeated submission of the run creates the same objects.
    pub fn ids(&self) -> Ids {
        let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, self.id.as_str().as_bytes());
        let of_id = |what: &str| Uuid::new_v5(&id, what.as_bytes());
        let of_place =
            |what: &str| Uuid::new_v5(&self.place, what.as_bytes()).simple().to_string()[..16].to_owned();
        Ids {
            application: format!("spark-{}", of_id("application").simple()),
            prefix: of_place("prefix"),
            service: of_place("service"),
            config_map: of_place("config map"),
            local_dir: of_id("local directory").to_string(),
        }
    }

    fn of(application: &SparkApplication, id: SubmissionId, ordinal: i64, spec_hash: String) -> Self {
        let place = Uuid::new_v5(&application_uuid(application), ordinal.to_string().as_bytes());
        Self { id, ordinal, place, spec_hash, generation: application.metadata.generation }
    }
}

/// Returns the application's uid as a UUID. Kubernetes' uids are UUIDs; any other uid (from a test or an unusual API
/// server) is converted to a UUID.
fn application_uuid(application: &SparkApplication) -> Uuid {
    let uid = application.own_uid();
    Uuid::parse_str(uid).unwrap_or_else(|_| Uuid::new_v5(&Uuid::NAMESPACE_OID, uid.as_bytes()))
}
