//! Checks that the driver's web UI and the ports of `driverIngressOptions` can be reached: each port has one Service
//! and one address.

use super::{Findings, Subject, names};
use api::{PortExposure, names::conf, stated};
use std::collections::BTreeSet;
use submission::exposure::{UrlFormat, Variables, is_ui_off, ui_port};

/// A placeholder for Spark's application id, as long as the real ids.
const SOME_ID: &str = "spark-00000000000000000000000000000000";

pub(super) fn web_ui(subject: &Subject, findings: &mut Findings) {
    let is_off = is_ui_off(subject.application);
    if ui_port(subject.application).is_none() && !is_off {
        let given = subject.spec.spark_conf.get(conf::UI_PORT).map_or("", String::as_str);
        let what = format_args!("`{given}` is no port to be reached: there is no Service for the web UI");
        findings.warn(subject.conf(conf::UI_PORT), what);
    }
    let Some(options) = &subject.spec.spark_ui_options else { return };
    if is_off {
        let off = subject.conf(conf::UI_ENABLED);
        findings.warn(subject.field("sparkUIOptions"), format_args!("has no effect: {off} is false"));
    }
    let field = |name: &str| subject.field(format_args!("sparkUIOptions.{name}"));
    if let Some(port @ (..=0 | 65536..)) = options.service_port {
        findings.refuse(field("servicePort"), format_args!("`{port}` is not a port: write 1 to 65535"));
    }
    service(options, field, findings);
}

/// Checks the port name and the type of a Service.
fn service(options: &PortExposure, field: impl Fn(&str) -> String, findings: &mut Findings) {
    if let Some(name) = stated(&options.service_port_name).filter(|name| !names::is_port_name(name)) {
        findings.refuse(
            field("servicePortName"),
            format_args!(
                "`{name}` cannot be the name of a port: write lower-case letters, digits and `-`, at most 63"
            ),
        );
    }
    let types = ["ClusterIP", "NodePort", "LoadBalancer"];
    if let Some(other) = stated(&options.service_type).filter(|given| !types.contains(&given.as_str())) {
        findings.refuse(
            field("serviceType"),
            format_args!("`{other}` does not lead to a driver: write ClusterIP, NodePort or LoadBalancer"),
        );
    }
}

pub(super) fn driver_ingress(subject: &Subject, findings: &mut Findings) {
    let (mut ports, mut addresses) = (BTreeSet::new(), BTreeSet::new());
    for (i, ingress) in subject.spec.driver_ingress_options.iter().enumerate() {
        let field = |name: &str| subject.field(format_args!("driverIngressOptions[{i}].{name}"));
        match ingress.exposure.service_port {
            None => findings.refuse(field("servicePort"), "is required: write the driver's port"),
            Some(port @ ..=0 | port @ 65536..) => {
                findings
                    .refuse(field("servicePort"), format_args!("`{port}` is not a port: write 1 to 65535"));
            }
            Some(port) if !ports.insert(port) => {
                findings
                    .refuse(field("servicePort"), format_args!("`{port}` is there already: each port once"));
            }
            Some(_) => {}
        }
        service(&ingress.exposure, field, findings);
        match ingress.ingress_url_format.as_deref().unwrap_or_default() {
            "" => findings.refuse(
                field("ingressURLFormat"),
                "is required: write an address such as `{{$appName}}.example.com`",
            ),
            address if !addresses.insert(address) => findings.refuse(
                field("ingressURLFormat"),
                format_args!("`{address}` is there already: each address once"),
            ),
            address => {
                if let Err(why) = possible(subject, address) {
                    findings.refuse(field("ingressURLFormat"), why);
                }
            }
        }
    }
}

/// Checks that the URL format gives a valid address for this application. If the application has no name yet (for
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
