//! Sets how a Spark pod starts and ends: hooks, grace period and shared process namespace.

use super::{Step, entries, value};
use api::names::annotation;
use k8s_openapi::api::core::v1::Lifecycle;

pub(super) const TERMINATION_GRACE_PERIOD_SECONDS: Step = Step {
    key: annotation::TERMINATION_GRACE_PERIOD_SECONDS,
    asked: |pod, _, _| pod.termination_grace_period_seconds.as_ref().map(value::written),
    apply: |pod, text| {
        entries::replace(&mut pod.spec, "terminationGracePeriodSeconds", value::json::<i64>(text)?)
    },
};

pub(super) const LIFECYCLE: Step = Step {
    key: annotation::LIFECYCLE,
    asked: |pod, _, _| pod.lifecycle.as_ref().map(value::written),
    apply: |pod, text| entries::replace(&mut pod.container, "lifecycle", value::json::<Lifecycle>(text)?),
};

pub(super) const SHARE_PROCESS_NAMESPACE: Step = Step {
    key: annotation::SHARE_PROCESS_NAMESPACE,
    asked: |pod, _, _| (pod.share_process_namespace == Some(true)).then(|| value::written(&true)),
    apply: |pod, text| {
        if value::typed(text)? {
            pod.spec.set("shareProcessNamespace", true);
        }
        Ok(())
    },
};
