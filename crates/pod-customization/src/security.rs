//! Sets the security contexts of Spark's container and of its pod.

use super::{Step, entries, value};
use api::names::annotation;
use k8s_openapi::api::core::v1::{PodSecurityContext, SecurityContext};

pub(super) const SECURITY_CONTEXT: Step = Step {
    key: annotation::SECURITY_CONTEXT,
    asked: |pod, _, _| pod.security_context.as_ref().map(value::written),
    apply: |pod, text| {
        entries::replace(&mut pod.container, "securityContext", value::json::<SecurityContext>(text)?)
    },
};

pub(super) const POD_SECURITY_CONTEXT: Step = Step {
    key: annotation::POD_SECURITY_CONTEXT,
    asked: |pod, _, _| pod.pod_security_context.as_ref().map(value::written),
    apply: |pod, text| {
        entries::replace(&mut pod.spec, "securityContext", value::json::<PodSecurityContext>(text)?)
    },
};
