//! Can the driver's further ports be reached: one Service and one address each?

use super::{Findings, Subject, names};
use std::collections::BTreeSet;

pub(super) fn driver_ingress(subject: &Subject, findings: &mut Findings) {
    let (mut ports, mut addresses) = (BTreeSet::new(), BTreeSet::new());
    for (i, ingress) in subject.spec.driver_ingress_options.iter().enumerate() {
        let field = |name: &str| subject.field(format_args!("driverIngressOptions[{i}].{name}"));
        match ingress.service_port {
            None => findings.refuse(field("servicePort"), "is required: write the driver's port"),
            Some(port @ ..=0 | port @ 65536..) => {
                findings
                    .refuse(field("servicePort"), format_args!("`{port}` is not a port: write 1 to 65535"));
            }
            Some(port) if !ports.insert(port) => {
                findings
                    .refuse(field("servicePort"), format_args!("`{port}` is there already: each port once"));
            }
            Some(port) => names::driver_service(subject, port, findings),
        }
        match ingress.ingress_url_format.as_deref().unwrap_or_default() {
            "" => findings.refuse(
                field("ingressURLFormat"),
                "is required: write an address such as `{{$appName}}.example.com`",
            ),
            address if !addresses.insert(address) => findings.refuse(
                field("ingressURLFormat"),
                format_args!("`{address}` is there already: each address once"),
            ),
            _ => {}
        }
    }
}
