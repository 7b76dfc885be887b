//! Exposes the web UI of a server as that of a driver, by the admin's settings for all of them.

use crate::{UI_PORT, application::as_application, names};
use api::{SparkApplication, SparkApplicationStatus, SparkConnect};
use serde_json::Value;
use submission::exposure::{self, Exposure, ui_path};

/// Returns the Ingress of the web UI, without its owner and labels; none if the web UI has no address outside the cluster.
pub(super) fn ingress(connect: &SparkConnect, admins: &Exposure) -> Option<Value> {
    let application = application(connect, admins)?;
    let mut exposed = exposure::ui(&application, admins)?;
    exposed.service = names::service(connect);
    exposed.ingress = names::ui_ingress(connect);
    exposed.port = UI_PORT;
    exposure::ingress(&application, &SparkApplicationStatus::default(), &exposed)
}

/// Returns the sentence that says why the web UI has no Ingress, if that is because its address is invalid.
pub(super) fn without_address(connect: &SparkConnect, admins: &Exposure) -> Option<String> {
    let application = application(connect, admins)?;
    let why = exposure::ui(&application, admins)?.url(&application, None).err()?;
    Some(format!("there is no Ingress {}: of its address, {why}", names::ui_ingress(connect)))
}

/// Returns the path of the web UI outside the cluster, if its address has one.
pub(super) fn path(connect: &SparkConnect, admins: &Exposure) -> Option<String> {
    ui_path(&application(connect, admins)?, None, admins)
}

/// Returns the application whose web UI has the address of the server's; none if there is no format of addresses in which
/// each namespace has its own: the operator compares only addresses of applications, to give one to a single namespace.
fn application(connect: &SparkConnect, admins: &Exposure) -> Option<SparkApplication> {
    admins.url_format.as_ref().filter(|format| format.has_namespace())?;
    let mut application = as_application(connect);
    application.metadata.name.clone_from(&connect.metadata.name);
    Some(application)
}
