//! Kubernetes' own gangs: a PodGroup of `scheduling.k8s.io` for each run, which the cluster's scheduler places as a whole.
//!
//! The scheduler counts pods that exist, and executors exist only once their driver runs. If only the driver were in the
//! gang, drivers would fill the cluster and find no room for their executors. If the executors were in the gang too, it
//! would never have enough pods. So the operator creates a placeholder for each initial executor: a pod with the same
//! requests that does nothing. Driver and placeholders are the gang. Executors are created with a scheduling gate, and
//! each takes the room of its placeholder: see `placeholder_exchanges`.
//!
//! Executors are in no gang: the scheduler would enforce the number of members again for each executor that is replaced,
//! and executors of an application that has shrunk would never be placed.

mod placeholder_exchanges;
mod placeholders;

use api::{
    Identity, SparkApplication, annotation, batch_scheduler, conf, label, quantity, role, without_nulls,
};
use k8s_openapi::api::core::v1::PodSpec;
pub(crate) use placeholder_exchanges::Gang;
pub use placeholder_exchanges::{Blocker, ExchangeMemory, Exchanges, Recalled, Wait, Waits};
use plan::{Action, PodPatch, copies::Copies, pod_requests::PlannedPod};
use pods::{Amounts, Placement, PodClaim, PodSummary};
use serde::Deserialize;
use serde_json::{Value, json};
use submission::copy_fields;

/// The maximum number of placeholders of one run.
const MOST: u32 = 1000;
/// The time after which the kubelet stops a placeholder, in seconds. It matters only if no operator runs: otherwise, the
/// operator deletes the placeholder earlier.
const LONGEST_LIFE: u32 = 15 * 60;

/// The name of the only template in the Workload.
const TEMPLATE: &str = "driver-and-executors";

/// Returns the name of the PodGroup, with which the names of the placeholders begin. The name differs for each run: the
/// cluster keeps a PodGroup until none of its pods is left.
pub(super) fn name(application: &str, submission_id: &str) -> String {
    format!("{application}-{}", submission_id.get(..8).unwrap_or(submission_id))
}

/// Puts the driver of `application` into its PodGroup and gates its executors. Returns the Workload and the PodGroup, and
/// the placeholders, which are created after them. `version` is the version of `scheduling.k8s.io` that the cluster serves.
///
/// # Errors
///
/// When there would be too many placeholders, or the driver does not create the executors itself.
pub(super) fn objects(
    application: &mut SparkApplication,
    requests: &plan::pod_requests::PodRequests,
    version: &str,
    submission_id: &str,
) -> Result<(Vec<Value>, Copies), String> {
    let count = requests.initial;
    if count > MOST {
        return Err(format!(
            "spec.batchScheduler: kubernetes: holds room for at most {MOST} executors, and the driver creates {count} at \
             first: let it create fewer (spec.executor.instances, or spec.dynamicAllocation.initialExecutors and \
             minExecutors), or take another batch scheduler"
        ));
    }
    let (key, allocator) = (conf::PODS_ALLOCATOR, &requests.allocator);
    if allocator != conf::DIRECT {
        return Err(format!(
            "spec.batchScheduler: kubernetes: holds room for executors by their numbers, which they do not have with {key}: \
             {allocator}: leave that property out, or take another batch scheduler"
        ));
    }
    let name = name(application.own_name(), submission_id);
    let annotations = application.metadata.annotations.get_or_insert_default();
    annotations.insert(annotation::POD_GROUP.to_owned(), name.clone());
    annotations.insert(annotation::SCHEDULING_GATE.to_owned(), batch_scheduler::GATE.to_owned());

    // The scheduler of 1.37 places no pods whose priority differs from that of their group; 1.36 does not know the field
    // unless another feature gate is on.
    let is_beta = version == batch_scheduler::KUBERNETES_BETA_API;
    let class = is_beta.then(|| &requests.driver.spec["priorityClassName"]);
    let policy = json!({"gang": {"minCount": count + 1}});
    let mut template = without_nulls(json!({"schedulingPolicy": policy, "priorityClassName": class}));
    let mut group = template.clone();
    let (field, reference) = if is_beta {
        ("workloadRef", json!({"workloadName": name, "templateName": TEMPLATE}))
    } else {
        let workload = json!({"workloadName": name, "podGroupTemplateName": TEMPLATE});
        ("podGroupTemplateRef", json!({"workload": workload}))
    };
    group[field] = reference;
    template["name"] = TEMPLATE.into();
    let own = &application.metadata.name;
    let controller = json!({"apiGroup": "sparkoperator.k8s.io", "kind": "SparkApplication", "name": own});
    let object = |kind: &str, spec: Value| json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec});
    let workload = object("Workload", json!({"controllerRef": controller, "podGroupTemplates": [template]}));
    let placeholders = Copies {
        template: placeholder(&name, requests),
        prefix: format!("{name}-placeholder-"),
        count,
        meanwhile: "until then driver and placeholders wait",
    };
    Ok((vec![workload, object("PodGroup", group)], placeholders))
}

/// Returns a placeholder without its name and number: a pod that is placed like an executor, and with the same requests.
fn placeholder(group: &str, requests: &plan::pod_requests::PodRequests) -> Value {
    let PlannedPod { labels, annotations, spec: executor, .. } = &requests.executor;
    let driver = &requests.driver.spec;
    // Affinities may select the user's labels. The operator's own labels are left out: because of them, the operator would
    // take the placeholder for an executor.
    let mut labels = labels.clone();
    labels.retain(|name, _| !name.starts_with(annotation::PREFIX));
    labels.insert(label::LAUNCHED_BY.to_owned(), "true".to_owned());
    labels.insert(label::SPARK_ROLE.to_owned(), role::PLACEHOLDER.to_owned());
    // The annotations that control the injection of sidecars are kept. Those for scraping are left out, as there are no
    // metrics, and those of AppArmor, as they contain names of the executor's containers.
    let mut annotations = annotations.clone();
    const SCRAPING: [&str; 3] = [annotation::SCRAPE, annotation::SCRAPE_PORT, annotation::SCRAPE_PATH];
    annotations
        .retain(|name, _| !SCRAPING.contains(&&**name) && !name.starts_with(annotation::APPARMOR_PREFIX));
    let mut spec = json!({
        "schedulingGroup": {"podGroupName": group},
        "restartPolicy": "Never",
        // Not 0: the kubelet counts a pod until its containers have ended, and would refuse the executor.
        "terminationGracePeriodSeconds": 1,
        "activeDeadlineSeconds": LONGEST_LIFE,
        "enableServiceLinks": false,
    });
    let mut take = |from: &Value, fields: &[&str]| copy_fields(&mut spec, from, fields);
    take(executor, &["nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"]);
    take(executor, &["runtimeClassName", "overhead", "resources"]);
    take(executor, &["securityContext", "imagePullSecrets", "hostNetwork"]);
    // Policies and pull secrets can belong to the service account, and an injected sidecar can need its token.
    take(executor, &["serviceAccountName", "serviceAccount", "automountServiceAccountToken"]);
    // All pods of a gang have one scheduler and one priority.
    take(driver, &["schedulerName", "priorityClassName"]);
    spec["containers"] = containers(&requests.executor).into();
    hold_as_much(&mut spec, requests.executor.claim.requests());
    let annotations = Some(annotations).filter(|annotations| !annotations.is_empty());
    let metadata = without_nulls(json!({"labels": labels, "annotations": annotations}));
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// Returns the containers of a placeholder, that for Spark's container first: one for each container of the executor that
/// keeps running, because a LimitRange limits containers and not only pods.
fn containers(PlannedPod { spec: executor, sparks_container, .. }: &PlannedPod) -> Vec<Value> {
    let all = |field: &str| executor[field].as_array().map_or(&[][..], Vec::as_slice).iter();
    let others = all("containers").enumerate().filter(|(index, _)| index != sparks_container);
    let sidecars = all("initContainers").filter(|container| container["restartPolicy"] == "Always");
    let others = others.map(|(_, container)| container).chain(sidecars);
    let spark = &executor["containers"][*sparks_container];
    let container = |(number, of): (usize, &Value)| {
        let name = match number {
            0 => role::PLACEHOLDER.to_owned(),
            number => format!("{}-{number}", role::PLACEHOLDER),
        };
        // The node needs Spark's image anyway, and the images of sidecars may have no `sleep`.
        let mut container = json!({"name": name, "image": spark["image"], "command": ["sleep", "infinity"]});
        copy_fields(&mut container, spark, &["imagePullPolicy", "securityContext"]);
        copy_fields(&mut container, of, &["resources"]);
        container
    };
    [spark].into_iter().chain(others).enumerate().map(container).collect()
}

/// Adds to the first container of a placeholder what its containers lack of `requests`: init containers of the executor
/// may request more than its containers.
fn hold_as_much(spec: &mut Value, requests: &Amounts) {
    let held = PodSpec::deserialize(&*spec).map(|spec| PodClaim::requests_of(&spec)).unwrap_or_default();
    let resources = &mut spec["containers"][0]["resources"];
    for (name, amount) in requests {
        let lacking = amount - held.get(name).unwrap_or(&0);
        if lacking <= 0 {
            continue;
        }
        let stated = |part: &str| resources[part][name].as_str().and_then(quantity::amount);
        let (request, limit) = (stated("requests"), stated("limits"));
        let asked = request.or(limit).unwrap_or(0) + lacking;
        let text = |amount: i128| Value::from(crate::canonical(&quantity::of_resource(name, amount)));
        resources["requests"][name] = text(asked);
        // Kubernetes requires limits of devices and huge pages.
        if limit.is_some() || name.starts_with("hugepages-") || name.contains('/') {
            resources["limits"][name] = text(limit.unwrap_or(0).max(asked));
        }
    }
}

/// Whether the pod is a placeholder: it holds room for an executor.
pub fn is_placeholder(pod: &PodSummary) -> bool {
    pod.other_role() == Some(role::PLACEHOLDER)
}

/// Whether the pod still has the operator's scheduling gate.
pub fn is_gated(pod: &PodSummary) -> bool {
    pod.placement().is_some_and(|own| own.gate.as_deref() == Some(batch_scheduler::GATE))
}

/// Returns the first resource of which an executor (`own`) requests more than its placeholder, such as
/// `2Gi memory instead of 1408Mi`; `None` if there is none. If the operator reserved room for such an executor, a user who
/// may create pods would get more room on the node than the placeholder holds there.
pub fn excess(own: &Placement, placeholder: &Placement) -> Option<String> {
    let held = |name: &String| placeholder.requests.get(name).copied().unwrap_or(0);
    let (name, asked) = own.requests.iter().find(|(name, asked)| **asked > held(name))?;
    let [asked, held] = [*asked, held(name)].map(|amount| quantity::of_resource(name, amount));
    Some(format!("{asked} {name} instead of {held}"))
}

/// Returns the action that makes the scheduler reserve room on `node` for a pod that is not placed yet.
fn nominate(pod: &PodSummary, node: &str) -> Action {
    patched(pod, PodPatch::Status(json!({"status": {"nominatedNodeName": node}})))
}

/// Returns the uid of the pod that `action` nominates, and the node; `None` if it is another action.
fn nomination(action: &Action) -> Option<(&str, &str)> {
    let Action::PatchPod { uid, patch: PodPatch::Status(patch), .. } = action else { return None };
    Some((uid, patch["status"]["nominatedNodeName"].as_str()?))
}

/// Returns the action that lets the scheduler place an executor: it removes the gate with which the operator had the
/// executor created, and no other gate.
pub(crate) fn ungate(pod: &PodSummary) -> Action {
    let gates = json!([{"$patch": "delete", "name": batch_scheduler::GATE}]);
    patched(pod, PodPatch::Spec(json!({"spec": {"schedulingGates": gates}})))
}

fn patched(PodSummary { name, uid, .. }: &PodSummary, patch: PodPatch) -> Action {
    Action::PatchPod { name: name.clone(), uid: uid.clone(), patch }
}
