//! Builds the Ingress of a server's web UI, by the same admin's settings as for the web UIs of drivers.

use crate::{UI_PORT, application::as_application, names};
use api::{SparkApplication, SparkApplicationStatus, SparkConnect};
use serde_json::Value;
use submission::exposure::{self, Exposure, ui_path};

/// Returns the Ingress of the web UI, without its owner and labels. `None` if the web UI has no URL outside the
/// cluster.
pub(super) fn ingress(connect: &SparkConnect, admins: &Exposure) -> Option<Value> {
    let application = application(connect, admins)?;
    let mut exposed = exposure::ui(&application, admins)?;
    exposed.service = names::service(connect);
    exposed.ingress = names::ui_ingress(connect);
    exposed.port = UI_PORT;
    exposure::ingress(&application, &SparkApplicationStatus::default(), &exposed)
}

/// Returns the sentence that says why the web UI has no Ingress, if its URL is invalid.
pub(super) fn without_address(connect: &SparkConnect, admins: &Exposure) -> Option<String> {
    let application = application(connect, admins)?;
    let why = exposure::ui(&application, admins)?.url(&application, None).err()?;
    Some(format!("Ingress {} is not created, because its URL is invalid: {why}", names::ui_ingress(connect)))
}

/// Returns the path of the web UI's URL outside the cluster, if it has one.
pub(super) fn path(connect: &SparkConnect, admins: &Exposure) -> Option<String> {
    ui_path(&application(connect, admins)?, None, admins)
}

/// Returns a stand-in application with the same web UI URL as the server. `None` unless the admin's URL format keeps
/// namespaces apart: the operator detects two namespaces with one URL only among SparkApplications.
fn application(connect: &SparkConnect, admins: &Exposure) -> Option<SparkApplication> {
    admins.url_format.as_ref().filter(|format| format.has_namespace())?;
    let mut application = as_application(connect);
    application.metadata.name.clone_from(&connect.metadata.name);
    Some(application)
}
