//! Kubernetes' own gangs: a PodGroup of `scheduling.k8s.io` for each run, which the cluster's scheduler places as a whole.
//!
//! The scheduler counts pods that exist, and executors exist only once their driver runs. A gang of the driver alone would
//! let drivers fill the cluster that find no room for their executors; a gang with the executors would never begin. So
//! the operator creates a placeholder for each executor that the driver creates at first: a pod of the same size that
//! does nothing. Driver and placeholders are the gang. Executors are created with a scheduling gate, and each takes the
//! room of its placeholder: see `lifecycle::placeholders`.
//!
//! Executors are in no gang: the scheduler would enforce the number of members again for each executor that is replaced,
//! and executors of an application that has shrunk would never be placed.

use crate::pod_requests::{Amounts, PlannedPod, PodRequests};
use api::{
    SparkApplication,
    names::{annotation, batch_scheduler, label, role},
    quantity,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The version of `scheduling.k8s.io` in which the cluster has PodGroups and Workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodGroupVersion {
    /// The version of Kubernetes 1.36.
    V1alpha2,
    /// The version of Kubernetes 1.37.
    V1beta1,
}

impl PodGroupVersion {
    /// All versions, the newest first.
    pub const ALL: [Self; 2] = [Self::V1beta1, Self::V1alpha2];

    /// Returns API group and version, with a slash between them.
    #[must_use]
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::V1alpha2 => batch_scheduler::KUBERNETES_ALPHA_API,
            Self::V1beta1 => batch_scheduler::KUBERNETES_BETA_API,
        }
    }
}

/// The name of the only template in the Workload.
const TEMPLATE: &str = "driver-and-executors";

/// Returns the name of the PodGroup, which begins the names of the placeholders. Each run has a name of its own: the
/// cluster keeps a PodGroup until none of its pods is left.
pub(super) fn name(application: &SparkApplication, submission_id: &str) -> String {
    let name = application.metadata.name.as_deref().unwrap_or_default();
    format!("{name}-{}", submission_id.get(..8).unwrap_or(submission_id))
}

/// Puts the driver of `application` into its PodGroup and gates its executors. Returns the Workload, the PodGroup and the
/// placeholders, in the order in which they are created.
pub(super) fn objects(
    application: &mut SparkApplication,
    requests: &PodRequests,
    version: PodGroupVersion,
    submission_id: &str,
) -> Vec<Value> {
    let name = name(application, submission_id);
    let annotations = application.metadata.annotations.get_or_insert_default();
    annotations.insert(annotation::POD_GROUP.to_owned(), name.clone());
    annotations.insert(annotation::SCHEDULING_GATE.to_owned(), batch_scheduler::GATE.to_owned());

    let class = &requests.driver.spec["priorityClassName"];
    let mut template =
        json!({"schedulingPolicy": {"gang": {"minCount": requests.initial.saturating_add(1)}}});
    // The scheduler of 1.37 places no pods whose priority differs from that of their group; 1.36 does not know the field
    // unless another feature gate is on.
    if version == PodGroupVersion::V1beta1 && !class.is_null() {
        template["priorityClassName"] = class.clone();
    }
    let mut group = template.clone();
    match version {
        PodGroupVersion::V1alpha2 => {
            group["podGroupTemplateRef"] =
                json!({"workload": {"workloadName": name, "podGroupTemplateName": TEMPLATE}});
        }
        PodGroupVersion::V1beta1 => {
            group["workloadRef"] = json!({"workloadName": name, "templateName": TEMPLATE});
        }
    }
    template["name"] = TEMPLATE.into();
    let controller = json!({
        "apiGroup": "sparkoperator.k8s.io",
        "kind": "SparkApplication",
        "name": application.metadata.name,
    });
    let object = |kind: &str, spec: Value| json!({"apiVersion": version.api_version(), "kind": kind, "metadata": {"name": name}, "spec": spec});
    let workload = object("Workload", json!({"controllerRef": controller, "podGroupTemplates": [template]}));
    let labels = &application.spec.executor.pod.labels;
    let placeholders = (1..=requests.initial).map(|number| placeholder(&name, number, labels, requests));
    [workload, object("PodGroup", group)].into_iter().chain(placeholders).collect()
}

/// Returns the placeholder for the executor with this number: a pod that is placed like the executor, and as large.
/// `labels` are those that the user gives to executors: affinities may select them.
fn placeholder(group: &str, number: u32, labels: &BTreeMap<String, String>, requests: &PodRequests) -> Value {
    let PlannedPod { claim, spec: executor } = &requests.executor;
    let driver = &requests.driver.spec;
    let containers = executor["containers"].as_array();
    let spark = containers.and_then(|all| all.first()).unwrap_or(&Value::Null);
    // The pod states its overhead itself.
    let overhead = |name: &str| executor["overhead"][name].as_str().and_then(quantity::amount).unwrap_or(0);
    let asked: Amounts =
        claim.requests().iter().map(|(name, amount)| (name.clone(), amount - overhead(name))).collect();
    // Kubernetes requires limits of devices and huge pages, and a quota or a LimitRange those that executors have too.
    let is_limited = |name: &str| {
        let is_always = name == "memory" || name.starts_with("hugepages-") || name.contains('/');
        is_always || claim.limits().contains_key(name)
    };
    let limit = |name: &str, amount: i128| {
        amount.max(claim.limits().get(name).map_or(0, |limit| limit - overhead(name)))
    };
    let limits: Amounts = asked
        .iter()
        .filter(|(name, _)| is_limited(name))
        .map(|(name, amount)| (name.clone(), limit(name, *amount)))
        .collect();
    let mut all_labels = labels.clone();
    for (label, value) in [
        (label::LAUNCHED_BY, "true".to_owned()),
        (label::SPARK_ROLE, role::PLACEHOLDER.to_owned()),
        (label::SPARK_EXEC_ID, number.to_string()),
    ] {
        all_labels.insert(label.to_owned(), value);
    }
    let mut container = json!({
        "name": role::PLACEHOLDER,
        // The image of the executors, which the node needs anyway.
        "image": spark["image"],
        "command": ["sleep", "infinity"],
        "resources": {"requests": super::quantities(&asked), "limits": super::quantities(&limits)},
    });
    let mut spec = json!({
        "schedulingGroup": {"podGroupName": group},
        "restartPolicy": "Never",
        // At once would be too early: the kubelet counts a pod until its containers have ended, and would refuse the
        // executor.
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
    });
    let take = |to: &mut Value, from: &Value, fields: &[&str]| {
        for field in fields {
            if !from[field].is_null() {
                to[field] = from[field].clone();
            }
        }
    };
    take(&mut container, spark, &["imagePullPolicy", "securityContext"]);
    take(
        &mut spec,
        executor,
        &[
            "nodeSelector",
            "affinity",
            "tolerations",
            "topologySpreadConstraints",
            "runtimeClassName",
            "overhead",
        ],
    );
    take(&mut spec, executor, &["securityContext", "imagePullSecrets", "hostNetwork"]);
    // All pods of a gang have one scheduler and one priority.
    take(&mut spec, driver, &["schedulerName", "priorityClassName"]);
    spec["containers"] = json!([container]);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("{group}-placeholder-{number}"),
            "labels": all_labels,
        },
        "spec": spec,
    })
}
