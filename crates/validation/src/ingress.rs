//! Checks that the driver's web UI and the ports of `driverIngressOptions` can be reached: each port has one Service
//! and one URL.

use super::{Subject, property, rules};
use api::{PortExposure, conf};
use serde_json::json;
use std::collections::BTreeSet;
use submission::exposure::{UrlFormat, Variables, is_ui_off, ui_port};

/// A placeholder for Spark's application id, as long as the real ids.
const SOME_ID: &str = "spark-00000000000000000000000000000000";

pub(super) fn web_ui(subject: &Subject) {
    let is_off = is_ui_off(subject.application);
    if ui_port(subject.application).is_none() && !is_off {
        let given = subject.spec.spark_conf.get(conf::UI_PORT).map_or("", String::as_str);
        let what = format_args!("`{given}` is no port to be reached: there is no Service for the web UI");
        subject.warn(property(conf::UI_PORT), what);
    }
    let Some(options) = &subject.spec.spark_ui_options else { return };
    if is_off {
        let off = subject.field(property(conf::UI_ENABLED));
        subject.warn("sparkUIOptions", format_args!("has no effect: {off} is false"));
    }
    service(subject, options, "sparkUIOptions");
}

/// Checks the ports and the type of a Service. `path` is the path of `options`.
fn service(subject: &Subject, options: &PortExposure, path: &str) {
    rules::check("PortExposure", &json!(options), &mut |field, why| {
        subject.refuse(format_args!("{path}{field}"), why);
    });
}

pub(super) fn driver_ingress(subject: &Subject) {
    let (mut ports, mut addresses) = (BTreeSet::new(), BTreeSet::new());
    for (i, ingress) in subject.spec.driver_ingress_options.iter().enumerate() {
        let path = format!("driverIngressOptions[{i}]");
        let of_port = format!("{path}.servicePort");
        match ingress.exposure.service_port {
            None => subject.refuse(of_port, "is required: write the driver's port"),
            Some(port @ 1..=65535) if !ports.insert(port) => {
                subject.refuse(of_port, format_args!("`{port}` is there already: each port once"));
            }
            Some(_) => {}
        }
        service(subject, &ingress.exposure, &path);
        let address = ingress.ingress_url_format.as_deref().unwrap_or_default();
        let wrong = if address.is_empty() {
            Err("is required: write an address such as `{{$appName}}.example.com`".to_owned())
        } else if !addresses.insert(address) {
            Err(format!("`{address}` is there already: each address once"))
        } else {
            possible(subject, address)
        };
        if let Err(why) = wrong {
            subject.refuse(format_args!("{path}.ingressURLFormat"), why);
        }
    }
}

/// Checks that the URL format gives a valid URL for this application. If the application has no name yet (for
/// example with `generateName`), only the format itself is checked.
fn possible(subject: &Subject, address: &str) -> Result<(), String> {
    let format = UrlFormat::parse(address)?;
    let name = subject.name();
    if name.is_empty() {
        return Ok(());
    }
    // If a manifest does not state its namespace, the check uses any valid namespace.
    let namespace = subject.application.metadata.namespace.as_deref().unwrap_or("default");
    format.url(Variables { name, namespace, id: Some(SOME_ID) }).map(drop)
}
