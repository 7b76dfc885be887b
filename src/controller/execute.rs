//! How is a plan's action carried out? Without choices: each arm can be repeated and treats "done already" as
//! success.

use super::{Context, Error, native};
use crate::{api::SparkApplication, plan::Action};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Preconditions},
};
use tracing::info;

pub(super) async fn execute(
    context: &Context,
    application: &SparkApplication,
    action: Action,
) -> Result<(), Error> {
    match action {
        Action::Submit(request) => {
            context.submitter.start(application, *request);
            Ok(())
        }
        Action::DeleteChildren(children) => {
            let namespace = application.namespace().unwrap_or_default();
            let owner = application.uid().unwrap_or_default();
            let deleted = native::delete(&context.client, &namespace, &owner, &children).await;
            deleted.map_err(Error::api("DELETE of what belongs to a driver"))
        }
        Action::DeleteDriver { name, uid } => {
            let pods =
                Api::<Pod>::namespaced(context.client.clone(), &application.namespace().unwrap_or_default());
            match pods.delete(&name, &only(Some(uid))).await {
                Ok(_) => {
                    info!(pod = name, "driver pod deleted");
                    Ok(())
                }
                // Gone already, or another pod has taken the name since.
                Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
                Err(error) => Err(Error::api("DELETE of the driver pod")(error)),
            }
        }
    }
}

/// Deletes the object with this uid, and no other that has its name by now.
pub(super) fn only(uid: Option<String>) -> DeleteParams {
    let preconditions = Preconditions { uid, resource_version: None };
    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }
}
