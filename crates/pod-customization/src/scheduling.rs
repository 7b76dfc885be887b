//! Sets where and in which order Spark pods are scheduled.

use super::{Concern, annotation_value::Json, entries};
use api::{Embedded, Role, SparkApplication, names::annotation};
use entries::OnClash;
use k8s_openapi::api::core::v1::{Affinity, Toleration};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) const PRIORITY_CLASS_NAME: Concern<String> = Concern {
    key: annotation::PRIORITY_CLASS_NAME,
    asked: |pod, _, _| pod.priority_class_name.clone().filter(|class| !class.is_empty()),
    apply: |pod, class| {
        let spec = &mut pod.spec;
        if spec.get("priorityClassName").and_then(Value::as_str) != Some(&class) {
            spec.set("priorityClassName", class);
            // Both fields were computed from another class; the API server refuses a pod in which they contradict the
            // class.
            spec.remove("priority");
            spec.remove("preemptionPolicy");
        }
        Ok(())
    },
};

pub(super) const SCHEDULER_NAME: Concern<String> = Concern {
    key: annotation::SCHEDULER_NAME,
    // Returns the batch scheduler, or else the pod's own scheduler. The batch scheduler takes precedence even if its
    // name is an empty string (as in Kubeflow's operator).
    asked: |pod, application, _| {
        let batch_scheduler = application.spec.batch_scheduler.as_ref();
        batch_scheduler.or(pod.scheduler_name.as_ref()).filter(|name| !name.is_empty()).cloned()
    },
    apply: |pod, scheduler| entries::replace(&mut pod.spec, "schedulerName", scheduler.into()),
};

/// Returns the annotation `key` of the application. `crates/batch-schedulers` sets it for each run, in the operator's
/// memory alone, since it corresponds to no field of the spec.
fn planned(application: &SparkApplication, key: &str) -> Option<String> {
    application.metadata.annotations.as_ref()?.get(key).cloned()
}

pub(super) const POD_GROUP: Concern<String> = Concern {
    key: annotation::POD_GROUP,
    asked: |_, application, role| {
        planned(application, annotation::POD_GROUP).filter(|_| role == Role::Driver)
    },
    apply: |pod, group| entries::replace(&mut pod.spec, "schedulingGroup", json!({"podGroupName": group})),
};

pub(super) const SCHEDULING_GATE: Concern<String> = Concern {
    key: annotation::SCHEDULING_GATE,
    asked: |_, application, role| {
        planned(application, annotation::SCHEDULING_GATE).filter(|_| role == Role::Executor)
    },
    // Adds the gate to a pod that is being created: the API server refuses to add gates to a pod that exists.
    apply: |pod, gate| {
        entries::add(&mut pod.spec, "schedulingGates", vec![json!({"name": gate})], &[], OnClash::Append)
    },
};

pub(super) const NODE_SELECTOR: Concern<Json<BTreeMap<String, String>>> = Concern {
    key: annotation::NODE_SELECTOR,
    asked: |pod, _, _| (!pod.node_selector.is_empty()).then(|| Json(pod.node_selector.clone())),
    apply: |pod, Json(selector)| {
        let mut labels = pod.spec.object("nodeSelector");
        labels.extend(selector.into_iter().map(|(label, value)| (label, value.into())));
        pod.spec.set("nodeSelector", labels);
        Ok(())
    },
};

pub(super) const AFFINITY: Concern<Embedded<Affinity>> = Concern {
    key: annotation::AFFINITY,
    asked: |pod, _, _| pod.affinity.clone(),
    apply: |pod, affinity| entries::replace(&mut pod.spec, "affinity", affinity.into_json()),
};

pub(super) const TOLERATIONS: Concern<Embedded<Vec<Toleration>>> = Concern {
    key: annotation::TOLERATIONS,
    asked: |pod, _, _| Embedded::list(&pod.tolerations),
    apply: |pod, tolerations| {
        entries::add(&mut pod.spec, "tolerations", tolerations.into_entries(), &[], OnClash::Append)
    },
};
