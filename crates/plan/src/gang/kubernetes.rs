//! Kubernetes' own gangs: a PodGroup of `scheduling.k8s.io` for each run, which the cluster's scheduler places as a whole.
//!
//! The scheduler counts pods that exist, and executors exist only once their driver runs. If only the driver were in the
//! gang, drivers would fill the cluster and find no room for their executors. If the executors were in it too, it would
//! never have enough pods. So the operator creates a placeholder for each executor that the driver creates at first: a
//! pod of the same size that does nothing. Driver and placeholders are the gang. Executors are created with a scheduling
//! gate, and each takes the room of its placeholder: see `lifecycle::exchanges`.
//!
//! Executors are in no gang: the scheduler would enforce the number of members again for each executor that is replaced,
//! and executors of an application that has shrunk would never be placed.

use crate::pod_requests::{Amounts, PlannedPod, PodRequests};
use api::{
    SparkApplication,
    names::{annotation, batch_scheduler, conf, label, role},
    quantity,
};
use serde_json::{Value, json};

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

/// The greatest number of placeholders of one run.
const MOST: u32 = 1000;
/// The time after which the kubelet ends a placeholder, in seconds. It matters only where no operator runs:
/// elsewhere, the placeholder is deleted before.
const LONGEST_LIFE: u32 = 15 * 60;

/// The placeholders of a run, which differ only in their numbers. There may be many of them, so each is built when it is
/// needed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placeholders {
    /// A placeholder without its name and without its number.
    pod: Value,
    group: String,
    count: u32,
}

impl Placeholders {
    /// Returns the placeholders in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = Value> {
        (1..=self.count).map(|number| self.with_number(number))
    }

    /// Returns the placeholder for the executor with this number.
    #[must_use]
    pub fn with_number(&self, number: u32) -> Value {
        let mut pod = self.pod.clone();
        pod["metadata"]["name"] = self.name(number).into();
        pod["metadata"]["labels"][label::SPARK_EXEC_ID] = number.to_string().into();
        pod
    }

    /// Returns the numbers of the placeholders whose names `is_there` does not know.
    pub fn missing(&self, is_there: impl Fn(&str) -> bool) -> Vec<u32> {
        (1..=self.count).filter(|number| !is_there(&self.name(*number))).collect()
    }

    fn name(&self, number: u32) -> String {
        format!("{}-placeholder-{number}", self.group)
    }

    /// Applies `change` to each placeholder.
    pub(super) fn map(self, change: impl FnOnce(Value) -> Value) -> Self {
        if self.count == 0 { self } else { Self { pod: change(self.pod), ..self } }
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

/// Puts the driver of `application` into its PodGroup and gates its executors. Returns the Workload and the PodGroup, and
/// the placeholders, which are created after them.
///
/// # Errors
///
/// When there would be too many placeholders, or the driver does not create the executors itself.
pub(super) fn objects(
    application: &mut SparkApplication,
    requests: &PodRequests,
    version: PodGroupVersion,
    submission_id: &str,
) -> Result<(Vec<Value>, Placeholders), String> {
    let count = requests.initial;
    if count > MOST {
        return Err(format!(
            "spec.batchScheduler: kubernetes: holds room for at most {MOST} executors, and the driver creates {count} at \
             first: let it create fewer (spec.executor.instances, or spec.dynamicAllocation.initialExecutors and \
             minExecutors), or take another batch scheduler"
        ));
    }
    if requests.allocator != conf::DIRECT {
        return Err(format!(
            "spec.batchScheduler: kubernetes: holds room for executors by their numbers, which they do not have with {}: {}: \
             leave that property out, or take another batch scheduler",
            conf::PODS_ALLOCATOR,
            requests.allocator
        ));
    }
    let name = name(application, submission_id);
    let annotations = application.metadata.annotations.get_or_insert_default();
    annotations.insert(annotation::POD_GROUP.to_owned(), name.clone());
    annotations.insert(annotation::SCHEDULING_GATE.to_owned(), batch_scheduler::GATE.to_owned());

    let class = &requests.driver.spec["priorityClassName"];
    let mut template = json!({"schedulingPolicy": {"gang": {"minCount": count + 1}}});
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
    let placeholders = Placeholders { pod: placeholder(&name, requests), group: name.clone(), count };
    Ok((vec![workload, object("PodGroup", group)], placeholders))
}

/// Returns a placeholder without its name and without its number: a pod that is placed like an executor, and as large.
fn placeholder(group: &str, requests: &PodRequests) -> Value {
    let PlannedPod { claim, limits, labels, annotations, spec: executor, container: spark } =
        &requests.executor;
    let driver = &requests.driver.spec;
    // The pod states its overhead itself.
    let overhead = |name: &str| executor["overhead"][name].as_str().and_then(quantity::amount).unwrap_or(0);
    let asked: Amounts =
        claim.requests().iter().map(|(name, amount)| (name.clone(), amount - overhead(name))).collect();
    // Kubernetes requires limits of devices and huge pages, and a quota or a LimitRange those that executors have too.
    let is_limited = |name: &str| {
        let is_always = name == "memory" || name.starts_with("hugepages-") || name.contains('/');
        is_always || limits.contains_key(name)
    };
    let limit =
        |name: &str, amount: i128| amount.max(limits.get(name).map_or(0, |limit| limit - overhead(name)));
    let limits: Amounts = asked
        .iter()
        .filter(|(name, _)| is_limited(name))
        .map(|(name, amount)| (name.clone(), limit(name, *amount)))
        .collect();
    // Affinities may select the user's labels. The operator's own are left out: by them it would take the placeholder for
    // an executor.
    let mut labels = labels.clone();
    labels.retain(|name, _| !name.starts_with(annotation::PREFIX));
    labels.insert(label::LAUNCHED_BY.to_owned(), "true".to_owned());
    labels.insert(label::SPARK_ROLE.to_owned(), role::PLACEHOLDER.to_owned());
    // What injects sidecars into executors, or is asked not to, does the same here. Nothing can be scraped.
    let mut annotations = annotations.clone();
    for name in [annotation::SCRAPE, annotation::SCRAPE_PORT, annotation::SCRAPE_PATH] {
        annotations.remove(name);
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
        // Not 0: the kubelet counts a pod until its containers have ended, and would refuse the executor.
        "terminationGracePeriodSeconds": 1,
        "activeDeadlineSeconds": LONGEST_LIFE,
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
    // Policies and pull secrets can belong to the account.
    take(&mut spec, executor, &["serviceAccountName", "serviceAccount"]);
    // All pods of a gang have one scheduler and one priority.
    take(&mut spec, driver, &["schedulerName", "priorityClassName"]);
    spec["containers"] = json!([container]);
    let mut metadata = json!({"labels": labels});
    if !annotations.is_empty() {
        metadata["annotations"] = json!(annotations);
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}
