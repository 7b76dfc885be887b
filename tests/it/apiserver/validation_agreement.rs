//! Compares the results of validation with those of the API server: for applications, and for the pods and other
//! objects that the operator and Spark would create for them.

use super::{calls::tried, namespace::Namespace};
use crate::validation::{Told, cases, examined_by};
use api::SparkApplication;
use jiff::Timestamp;
use kube::Error;
use serde_json::{Value, json};
use spark_client::{Environment, NotNative, executor};
use submission::{Settings, SubmissionEnvironment, native, objects, run::Run};
use validation::{Precision, Refusal, validate};

/// Needs an operator that reviews applications.
pub(super) fn the_api_server_refuses_exactly_what_validation_refuses(namespace: &Namespace) {
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for Told { context, object, warnings, .. } in cases(namespace.name) {
        let invalid = examined_by(&object, Some(Precision::Nanos)).invalid;
        let (is_valid, refusal) = (invalid.is_empty(), Refusal(invalid).to_string());
        match refused(tried(&object)) {
            None if is_valid => {}
            Some((403, message)) if !is_valid && message.ends_with(&refusal) => {}
            // An object that the CRD's schema refuses does not reach the webhook.
            Some((422, message)) if !is_valid && message.starts_with("SparkApplication") => {}
            applied => wrong.push(format!("{context}: {applied:?} instead of `{refusal}`")),
        }
        // Two mistakes cause only a warning, because another webhook of the cluster might correct them.
        let is_mended = warnings.iter().any(|text| text.contains("Kubernetes refuses such pods"));
        let is_application = object["kind"] == "SparkApplication";
        let Some(created) = (is_application && !is_mended).then(|| made(object)).flatten() else { continue };
        compared += 1;
        if created.is_none() != is_valid {
            wrong.push(format!("{context}: {created:?}, but validation says `{refusal}`"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 70, "only {compared} plans were compared");
}

/// Plans a run of an application, and tries to create the run's objects and one of its executors. Returns the refusal
/// by the plan or by the API server, `Some(None)` if nothing is refused, and `None` if the checks before planning find
/// a mistake or the run cannot be submitted natively.
fn made(mut application: Value) -> Option<Option<String>> {
    application["metadata"]["uid"] = json!("6d8a2c1e-0000-4000-8000-000000000001");
    let namespace = application["metadata"]["namespace"].clone();
    let application: SparkApplication = serde_json::from_value(application).unwrap();
    let valid = &validate(&application).ok()?;
    let (run, settings, now) =
        (Run::next(&application), Settings::new("k8s://https://10.96.0.1:443"), Timestamp::UNIX_EPOCH);
    let defaults = "spark.kubernetes.container.image spark".to_owned();
    let environment = SubmissionEnvironment { defaults, ..SubmissionEnvironment::default() };
    let planned = objects(valid, &run, &settings, &environment, now).and_then(|(objects, _)| {
        let submission = native(valid, &run, &settings, &environment.defaults, Environment::default(), now)?;
        Ok([vec![objects.pod, executor(&submission)?], objects.children].concat())
    });
    match planned {
        Ok(objects) => Some(objects.into_iter().find_map(|mut object| {
            object["metadata"]["namespace"] = namespace.clone();
            refused(tried(&object)).map(|(_, message)| message)
        })),
        Err(NotNative::Refused { field, why }) => Some(Some(format!("{field}: {why}"))),
        Err(NotNative::Fallback { .. }) => None,
    }
}

/// Returns the code and the message with which the API server has refused an object.
fn refused(answer: Result<(), Error>) -> Option<(u16, String)> {
    match answer {
        Ok(()) => None,
        Err(Error::Api(status)) => Some((status.code, status.message)),
        Err(other) => panic!("{other}"),
    }
}
