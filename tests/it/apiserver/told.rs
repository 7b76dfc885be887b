//! Compares what validation says of an application with what the API server does: with the application, and with the
//! pods and other objects that the operator and Spark would make for it.

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
pub(super) fn the_api_server_refuses_what_validation_refuses_and_nothing_else(namespace: &Namespace) {
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for Told { context, object, warnings, .. } in cases(namespace.name) {
        let invalid = examined_by(&object, Some(Precision::Nanos)).invalid;
        let (is_valid, refusal) = (invalid.is_empty(), Refusal(invalid).to_string());
        match refused(tried(&object)) {
            None if is_valid => {}
            Some((403, message)) if !is_valid && message.ends_with(&refusal) => {}
            // What the CRD refuses does not reach the webhook.
            Some((422, message)) if !is_valid && message.starts_with("SparkApplication") => {}
            applied => wrong.push(format!("{context}: {applied:?} instead of `{refusal}`")),
        }
        // Two mistakes cause a warning alone, since a webhook of the cluster might mend them.
        let is_mended = warnings.iter().any(|text| text.contains("Kubernetes refuses such pods"));
        let is_application = object["kind"] == "SparkApplication";
        let Some(created) = (is_application && !is_mended).then(|| made(object)).flatten() else { continue };
        compared += 1;
        if created.is_none() != is_valid {
            wrong.push(format!("{context}: {created:?} while it is told `{refusal}`"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 70, "only {compared} plans were tried");
}

/// Plans a run of an application in which the checks before planning find no mistake, and tries to create its objects and
/// one of its executors. Returns what is refused, by the plan or by the API server; none if there is no native plan.
fn made(mut application: Value) -> Option<Option<String>> {
    application["metadata"]["uid"] = json!("6d8a2c1e-0000-4000-8000-000000000001");
    let namespace = application["metadata"]["namespace"].clone();
    let application: SparkApplication = serde_json::from_value(application).unwrap();
    let valid = validate(&application).ok()?;
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
