//! Sets the security contexts of Spark's container and of its pod.

use super::{Concern, Problem, SparkPod, entries};
use api::{Embedded, Role, SparkApplication, names::annotation};
use k8s_openapi::api::core::v1::{PodSecurityContext, SecurityContext};

pub(super) struct ContainerSecurity;

impl Concern for ContainerSecurity {
    const KEY: &'static str = annotation::SECURITY_CONTEXT;
    type Value = Embedded<SecurityContext>;

    fn asked(application: &SparkApplication, role: Role) -> Option<Self::Value> {
        role.pod(&application.spec).security_context.clone()
    }

    fn apply(pod: &mut SparkPod, context: Self::Value) -> Result<(), Problem> {
        entries::replace(&mut pod.container, "securityContext", context.into_json());
        Ok(())
    }
}

pub(super) struct PodSecurity;

impl Concern for PodSecurity {
    const KEY: &'static str = annotation::POD_SECURITY_CONTEXT;
    type Value = Embedded<PodSecurityContext>;

    fn asked(application: &SparkApplication, role: Role) -> Option<Self::Value> {
        role.pod(&application.spec).pod_security_context.clone()
    }

    fn apply(pod: &mut SparkPod, context: Self::Value) -> Result<(), Problem> {
        entries::replace(&mut pod.spec, "securityContext", context.into_json());
        Ok(())
    }
}
