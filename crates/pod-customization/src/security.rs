//! Sets the security contexts of Spark's container and of its pod.

use super::{Concern, entries};
use api::{Embedded, names::annotation};
use k8s_openapi::api::core::v1::{PodSecurityContext, SecurityContext};

pub(super) const SECURITY_CONTEXT: Concern<Embedded<SecurityContext>> = Concern {
    key: annotation::SECURITY_CONTEXT,
    asked: |pod, _, _| pod.security_context.clone(),
    apply: |pod, context| entries::replace(&mut pod.container, "securityContext", context.into_json()),
};

pub(super) const POD_SECURITY_CONTEXT: Concern<Embedded<PodSecurityContext>> = Concern {
    key: annotation::POD_SECURITY_CONTEXT,
    asked: |pod, _, _| pod.pod_security_context.clone(),
    apply: |pod, context| entries::replace(&mut pod.spec, "securityContext", context.into_json()),
};
