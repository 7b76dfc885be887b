//! Sets how a Spark pod starts and ends: hooks, grace period and shared process namespace.

use super::{Concern, annotation_value::Json, entries};
use api::{Embedded, names::annotation};
use k8s_openapi::api::core::v1::Lifecycle;

pub(super) const TERMINATION_GRACE_PERIOD_SECONDS: Concern<Json<i64>> = Concern {
    key: annotation::TERMINATION_GRACE_PERIOD_SECONDS,
    asked: |pod, _, _| pod.termination_grace_period_seconds.map(Json),
    apply: |pod, Json(seconds)| {
        entries::replace(&mut pod.spec, "terminationGracePeriodSeconds", seconds.into())
    },
};

pub(super) const LIFECYCLE: Concern<Embedded<Lifecycle>> = Concern {
    key: annotation::LIFECYCLE,
    asked: |pod, _, _| pod.lifecycle.clone(),
    apply: |pod, hooks| entries::replace(&mut pod.container, "lifecycle", hooks.into_json()),
};

pub(super) const SHARE_PROCESS_NAMESPACE: Concern<Json<bool>> = Concern {
    key: annotation::SHARE_PROCESS_NAMESPACE,
    asked: |pod, _, _| (pod.share_process_namespace == Some(true)).then_some(Json(true)),
    apply: |pod, Json(share)| {
        if share {
            pod.spec.set("shareProcessNamespace", true);
        }
        Ok(())
    },
};
