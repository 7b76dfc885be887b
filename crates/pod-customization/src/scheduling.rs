//! Sets where and in which order Spark pods are scheduled.

use super::{Concern, Problem, SparkPod, annotation_value::Json, entries};
use api::{Embedded, Role, SparkApplication, names::annotation};
use entries::OnClash;
use k8s_openapi::api::core::v1::{Affinity, Toleration};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) struct PriorityClassName;

impl Concern for PriorityClassName {
    const KEY: &'static str = annotation::PRIORITY_CLASS_NAME;
    type Value = String;

    fn asked(application: &SparkApplication, role: Role) -> Option<String> {
        role.pod(&application.spec).priority_class_name.clone().filter(|class| !class.is_empty())
    }

    fn apply(pod: &mut SparkPod, class: String) -> Result<(), Problem> {
        let spec = &mut pod.spec;
        if spec.get("priorityClassName").as_deref().and_then(Value::as_str) != Some(&class) {
            spec.set("priorityClassName", class);
            // Both fields were computed from another class; the API server refuses a pod in which they contradict the
            // class.
            spec.remove("priority");
            spec.remove("preemptionPolicy");
        }
        Ok(())
    }
}

pub(super) struct SchedulerName;

impl Concern for SchedulerName {
    const KEY: &'static str = annotation::SCHEDULER_NAME;
    type Value = String;

    /// Returns the batch scheduler, or else the pod's own scheduler. The batch scheduler takes precedence even if its
    /// name is an empty string (as in Kubeflow's operator).
    fn asked(application: &SparkApplication, role: Role) -> Option<String> {
        let own = || role.pod(&application.spec).scheduler_name.clone();
        application.spec.batch_scheduler.clone().or_else(own).filter(|name| !name.is_empty())
    }

    fn apply(pod: &mut SparkPod, scheduler: String) -> Result<(), Problem> {
        pod.spec.set("schedulerName", scheduler);
        Ok(())
    }
}

/// The operator writes this annotation into the metadata of the application that it plans, since no field of the spec
/// stands for it: see `crates/batch-schedulers`.
fn planned(application: &SparkApplication, key: &str) -> Option<String> {
    application.metadata.annotations.as_ref()?.get(key).cloned()
}

pub(super) struct PodGroup;

impl Concern for PodGroup {
    const KEY: &'static str = annotation::POD_GROUP;
    type Value = String;

    fn asked(application: &SparkApplication, role: Role) -> Option<String> {
        planned(application, Self::KEY).filter(|_| role == Role::Driver)
    }

    fn apply(pod: &mut SparkPod, group: String) -> Result<(), Problem> {
        pod.spec.set("schedulingGroup", json!({"podGroupName": group}));
        Ok(())
    }
}

pub(super) struct SchedulingGate;

impl Concern for SchedulingGate {
    const KEY: &'static str = annotation::SCHEDULING_GATE;
    type Value = String;

    fn asked(application: &SparkApplication, role: Role) -> Option<String> {
        planned(application, Self::KEY).filter(|_| role == Role::Executor)
    }

    /// Adds the gate to a pod that is not placed yet. The API server refuses new gates of pods that exist.
    fn apply(pod: &mut SparkPod, gate: String) -> Result<(), Problem> {
        entries::add(&mut pod.spec, "schedulingGates", vec![json!({"name": gate})], &[], OnClash::Append)
    }
}

pub(super) struct NodeSelector;

impl Concern for NodeSelector {
    const KEY: &'static str = annotation::NODE_SELECTOR;
    type Value = Json<BTreeMap<String, String>>;

    fn asked(application: &SparkApplication, role: Role) -> Option<Self::Value> {
        let selector = &role.pod(&application.spec).node_selector;
        (!selector.is_empty()).then(|| Json(selector.clone()))
    }

    fn apply(pod: &mut SparkPod, Json(selector): Self::Value) -> Result<(), Problem> {
        let mut labels = pod.spec.object("nodeSelector");
        labels.extend(selector.into_iter().map(|(label, value)| (label, value.into())));
        pod.spec.set("nodeSelector", labels);
        Ok(())
    }
}

pub(super) struct PodAffinity;

impl Concern for PodAffinity {
    const KEY: &'static str = annotation::AFFINITY;
    type Value = Embedded<Affinity>;

    fn asked(application: &SparkApplication, role: Role) -> Option<Self::Value> {
        role.pod(&application.spec).affinity.clone()
    }

    fn apply(pod: &mut SparkPod, affinity: Self::Value) -> Result<(), Problem> {
        entries::replace(&mut pod.spec, "affinity", affinity.into_json());
        Ok(())
    }
}

pub(super) struct Tolerations;

impl Concern for Tolerations {
    const KEY: &'static str = annotation::TOLERATIONS;
    type Value = Embedded<Vec<Toleration>>;

    fn asked(application: &SparkApplication, role: Role) -> Option<Self::Value> {
        Embedded::list(&role.pod(&application.spec).tolerations)
    }

    fn apply(pod: &mut SparkPod, tolerations: Self::Value) -> Result<(), Problem> {
        entries::add(&mut pod.spec, "tolerations", tolerations.into_entries(), &[], OnClash::Append)
    }
}
