//! Sets where and in which order Spark pods are scheduled.

use super::{Step, entries, value};
use api::{Role, SparkApplication, names::annotation};
use entries::OnClash;
use k8s_openapi::api::core::v1::{Affinity, Toleration};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) const PRIORITY_CLASS_NAME: Step = Step {
    key: annotation::PRIORITY_CLASS_NAME,
    asked: |pod, _, _| pod.priority_class_name.clone().filter(|class| !class.is_empty()),
    apply: |pod, text| {
        let (class, spec) = (value::name(text)?, &mut pod.spec);
        if spec.get("priorityClassName").and_then(Value::as_str) != Some(class) {
            spec.set("priorityClassName", class);
            // Both fields were computed from another class; the API server refuses a pod in which they contradict the
            // class.
            spec.remove("priority");
            spec.remove("preemptionPolicy");
        }
        Ok(())
    },
};

pub(super) const SCHEDULER_NAME: Step = Step {
    key: annotation::SCHEDULER_NAME,
    // Returns the batch scheduler, or else the pod's own scheduler. The batch scheduler takes precedence even if its
    // name is an empty string (as in Kubeflow's operator).
    asked: |pod, application, _| {
        let batch_scheduler = application.spec.batch_scheduler.as_ref();
        batch_scheduler.or(pod.scheduler_name.as_ref()).filter(|name| !name.is_empty()).cloned()
    },
    apply: |pod, text| entries::replace(&mut pod.spec, "schedulerName", value::name(text)?.into()),
};

/// Returns the annotation `key` of the application. `crates/batch-schedulers` sets it for each run, in the operator's
/// memory alone, since it corresponds to no field of the spec.
fn planned(application: &SparkApplication, key: &str) -> Option<String> {
    application.metadata.annotations.as_ref()?.get(key).cloned()
}

pub(super) const POD_GROUP: Step = Step {
    key: annotation::POD_GROUP,
    asked: |_, application, role| {
        planned(application, annotation::POD_GROUP).filter(|_| role == Role::Driver)
    },
    apply: |pod, text| {
        entries::replace(&mut pod.spec, "schedulingGroup", json!({"podGroupName": value::name(text)?}))
    },
};

pub(super) const SCHEDULING_GATE: Step = Step {
    key: annotation::SCHEDULING_GATE,
    asked: |_, application, role| {
        planned(application, annotation::SCHEDULING_GATE).filter(|_| role == Role::Executor)
    },
    // Adds the gate to a pod that is being created: the API server refuses to add gates to a pod that exists.
    apply: |pod, text| {
        let gate = json!({"name": value::name(text)?});
        entries::add(&mut pod.spec, "schedulingGates", vec![gate], &[], OnClash::Append)
    },
};

pub(super) const NODE_SELECTOR: Step = Step {
    key: annotation::NODE_SELECTOR,
    asked: |pod, _, _| (!pod.node_selector.is_empty()).then(|| value::written(&pod.node_selector)),
    apply: |pod, text| {
        let selector: BTreeMap<String, String> = value::typed(text)?;
        let mut labels = pod.spec.object("nodeSelector");
        labels.extend(selector.into_iter().map(|(label, value)| (label, value.into())));
        pod.spec.set("nodeSelector", labels);
        Ok(())
    },
};

pub(super) const AFFINITY: Step = Step {
    key: annotation::AFFINITY,
    asked: |pod, _, _| pod.affinity.as_ref().map(value::written),
    apply: |pod, text| entries::replace(&mut pod.spec, "affinity", value::json::<Affinity>(text)?),
};

pub(super) const TOLERATIONS: Step = Step {
    key: annotation::TOLERATIONS,
    asked: |pod, _, _| value::written_list(&pod.tolerations),
    apply: |pod, text| {
        entries::add(&mut pod.spec, "tolerations", value::list::<Toleration>(text)?, &[], OnClash::Append)
    },
};
