//! Marks the objects that the operator creates for an application.

use api::{Identity, SparkApplication, label, owner_reference};
use serde_json::{Value, json};

/// Returns `object` with `application` as its owner, and with the labels by which the operator finds what it has created
/// for the run whose submission id is `id`. `by` is one of them: [`label::CREATED_BY`] or [`label::LAUNCHED_BY`].
pub fn owned(mut object: Value, application: &SparkApplication, id: Option<&str>, by: &str) -> Value {
    let metadata = &mut object["metadata"];
    metadata["ownerReferences"] = json!([owner_reference(application)]);
    metadata["labels"][label::APP_NAME] = application.own_name().into();
    metadata["labels"][by] = "true".into();
    if let Some(id) = id {
        metadata["labels"][label::SUBMISSION_ID] = id.into();
    }
    object
}
