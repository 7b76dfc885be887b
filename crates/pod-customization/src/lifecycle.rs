//! Sets how a Spark pod starts and ends: hooks, grace period and shared process namespace.

use super::{Concern, Problem, SparkPod, annotation_value::Json, entries};
use api::{Embedded, Role, SparkApplication, names::annotation};
use k8s_openapi::api::core::v1::Lifecycle;

pub(super) struct TerminationGracePeriodSeconds;

impl Concern for TerminationGracePeriodSeconds {
    const KEY: &'static str = annotation::TERMINATION_GRACE_PERIOD_SECONDS;
    type Value = Json<i64>;

    fn asked(application: &SparkApplication, role: Role) -> Option<Self::Value> {
        role.pod(&application.spec).termination_grace_period_seconds.map(Json)
    }

    fn apply(pod: &mut SparkPod, Json(seconds): Self::Value) -> Result<(), Problem> {
        pod.spec.set("terminationGracePeriodSeconds", seconds);
        Ok(())
    }
}

pub(super) struct ContainerLifecycle;

impl Concern for ContainerLifecycle {
    const KEY: &'static str = annotation::LIFECYCLE;
    type Value = Embedded<Lifecycle>;

    fn asked(application: &SparkApplication, role: Role) -> Option<Self::Value> {
        role.pod(&application.spec).lifecycle.clone()
    }

    fn apply(pod: &mut SparkPod, hooks: Self::Value) -> Result<(), Problem> {
        entries::replace(&mut pod.container, "lifecycle", hooks.into_json());
        Ok(())
    }
}

pub(super) struct ShareProcessNamespace;

impl Concern for ShareProcessNamespace {
    const KEY: &'static str = annotation::SHARE_PROCESS_NAMESPACE;
    type Value = Json<bool>;

    fn asked(application: &SparkApplication, role: Role) -> Option<Self::Value> {
        (role.pod(&application.spec).share_process_namespace == Some(true)).then_some(Json(true))
    }

    fn apply(pod: &mut SparkPod, Json(share): Self::Value) -> Result<(), Problem> {
        if share {
            pod.spec.set("shareProcessNamespace", true);
        }
        Ok(())
    }
}
