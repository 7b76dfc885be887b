//! Plans the auxiliary objects of an application: Services, Ingresses and PodDisruptionBudgets. The driver does not
//! depend on them: a missing auxiliary object never keeps a driver from running.
//!
//! The Services and Ingresses, and the objects of extensions, are compared with those that the application should have.
//! The comparison takes place in every reconcile of the application. So objects that other programs have edited or
//! deleted are repaired, objects that the spec no longer requires are deleted, and a new run takes over the objects of
//! the previous run. This work never delays the application: it is done in the background, and retried with growing
//! pauses if it fails.

use crate::extension::{Extensions, View};
use api::{DriverInfo, ObjectKey, ObjectKind, SparkApplication, SparkApplicationStatus, State, label, role};
use jiff::Timestamp;
use k8s_openapi::{api::networking::v1::IngressTLS, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube_core::Resource;
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use submission::exposure::{ExposedPort, Exposure, addresses, backend, ingress, others, ui, wanted};

/// One effect for which nothing waits. Each effect can be repeated without harm.
#[derive(Clone, Debug, PartialEq)]
pub enum AuxiliaryAction {
    /// Creates the object. If this application already owns an object with that name, that object is changed to match.
    Make(Value),
    /// Changes an object by this merge patch, which contains the object's kind, its name and its expected uid.
    Mend(Value),
    /// Deletes the object, if it belongs to this application.
    Delete(ObjectKey),
}

/// A Service, an Ingress or an object of an extension, reduced to the facts on which decisions depend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuxiliaryObject {
    pub child: ObjectKey,
    pub uid: String,
    /// The uid of the application that controls the object.
    pub owner: String,
    pub terminating: bool,
    /// The cluster IP of a Service; `None` for an Ingress and for a Service without a cluster IP.
    pub cluster_ip: Option<String>,
    /// The addresses of an Ingress, as [`addresses`] returns them.
    pub addresses: Vec<String>,
    /// The reason why an object of an extension has no effect yet, if it has none.
    pub waiting: Option<String>,
    /// Labels, annotations and the spec fields that the operator sets, as JSON text. Text takes less memory than parsed
    /// values: there are thousands of these objects, and only few of them are compared at a time.
    content: Box<str>,
}

/// The Services and Ingresses of an application.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuxiliaryObjects {
    pub there: Vec<AuxiliaryObject>,
    /// The kinds that are not watched, because the cluster does not have the kind or the operator may not watch it.
    pub unwatched: Vec<ObjectKind>,
    /// The attempts of this process to create, change or delete each object.
    pub tries: BTreeMap<ObjectKey, Try>,
}

/// The attempts to create, change or delete one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Try {
    /// How many attempts were made in a row. An attempt belongs to the row if it begins within twice the pause after
    /// the attempt before. The number grows if the attempts fail, or if another program keeps undoing them.
    pub count: u32,
    /// When the last attempt ended; `None` while it is running.
    pub ended: Option<Timestamp>,
    /// The submission id of the run for which the last attempt has created or changed the object as required; `None` if
    /// it has failed, or deleted the object.
    pub made_for: Option<String>,
    /// The addresses that the last attempt gives to an Ingress. They count as taken before the watch reports the Ingress, so
    /// that two applications cannot get the same address at the same time.
    pub claims: Vec<String>,
}

/// The first pause between two attempts for the same object: long enough for the watch to report the result of the
/// first attempt.
const PAUSE: Duration = Duration::from_secs(5);
/// The maximum pause between two attempts. A user who has corrected the cause of a failure does not wait longer than
/// this.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

impl Try {
    /// Returns the record of a new attempt that begins now, follows `before` and claims no address.
    pub fn begun(before: Option<Self>, now: Timestamp) -> Self {
        let is_recent =
            |before: &Self| before.ended.is_some_and(|ended| crate::between(ended, now) < before.pause() * 2);
        let count = before.filter(is_recent).map_or(0, |before| before.count).saturating_add(1);
        Self { count, ended: None, made_for: None, claims: Vec::new() }
    }

    fn pause(&self) -> Duration {
        PAUSE.saturating_mul(2_u32.saturating_pow(self.count.saturating_sub(1))).min(LONGEST_PAUSE)
    }
}

impl AuxiliaryObject {
    /// Reads an object of this kind. Returns it together with the name of the application that controls it; `None` if
    /// no application controls it.
    pub fn of(kind: &ObjectKind, object: &Value, extensions: &Extensions) -> Option<(String, Self)> {
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let owners: Vec<OwnerReference> = serde_json::from_value(metadata["ownerReferences"].clone()).ok()?;
        let owner = controlling_application(&owners)?;
        let auxiliary = Self {
            child: kind.clone().named(text(&metadata["name"])?),
            uid: text(&metadata["uid"]).unwrap_or_default(),
            owner: owner.uid.clone(),
            terminating: !metadata["deletionTimestamp"].is_null(),
            cluster_ip: text(&object["spec"]["clusterIP"]).filter(|ip| !ip.is_empty() && ip != "None"),
            addresses: addresses(object),
            waiting: extensions.iter().find_map(|extension| extension.pending(kind, object)),
            content: content(kind, object, extensions).to_string().into(),
        };
        Some((owner.name.clone(), auxiliary))
    }
}

/// Returns the SparkApplication among `owners`, the owner references of an object, that controls the object.
pub fn controlling_application(owners: &[OwnerReference]) -> Option<&OwnerReference> {
    let application = SparkApplication::kind(&());
    owners.iter().find(|owner| owner.controller == Some(true) && owner.kind == application)
}

/// Returns the fields of an object that the operator sets. Fields to which the API server has added its defaults are
/// reduced to the parts that the operator sets.
fn content(kind: &ObjectKind, object: &Value, extensions: &Extensions) -> Value {
    let spec = &object["spec"];
    let spec = if *kind == ObjectKind::SERVICE {
        let kept = |port: &Value| json!({"name": port["name"], "port": port["port"], "targetPort": port["targetPort"]});
        let ports: Vec<_> = spec["ports"].as_array().into_iter().flatten().map(kept).collect();
        json!({"type": spec["type"], "ports": ports, "selector": spec["selector"]})
    } else if *kind == ObjectKind::INGRESS {
        json!({"rules": spec["rules"], "tls": certificates(&spec["tls"]), "ingressClassName": spec["ingressClassName"]})
    } else {
        extensions.iter().find_map(|extension| extension.content(kind, spec)).unwrap_or_default()
    };
    let of_metadata = |field: &str| entries(&object["metadata"][field]);
    json!({"metadata": {"labels": of_metadata("labels"), "annotations": of_metadata("annotations")}, "spec": spec})
}

/// Returns the `tls` entries in the form in which Kubernetes stores them, without unknown fields that a user may have
/// written.
fn certificates(tls: &Value) -> Value {
    let kept = |tls: &Value| {
        let IngressTLS { hosts, secret_name } = serde_json::from_value(tls.clone()).unwrap_or_default();
        let (hosts, secret_name) =
            (hosts.filter(|hosts| !hosts.is_empty()), secret_name.filter(|name| !name.is_empty()));
        json!(IngressTLS { hosts, secret_name })
    };
    let kept: Vec<_> = tls.as_array().into_iter().flatten().map(kept).collect();
    if kept.is_empty() { Value::Null } else { kept.into() }
}

/// Returns the merge patch that changes the existing object `there` to `wanted`; `None` if nothing differs.
///
/// Labels and annotations that other programs have added are kept as long as the run is the same, because cloud
/// controllers write some. If the object belongs to another run, they are removed.
pub fn mend(wanted: &Value, there: &AuxiliaryObject, extensions: &Extensions) -> Option<Value> {
    let is: Value = serde_json::from_str(&there.content).expect("it was JSON before");
    let mut should = content(&there.child.kind, wanted, extensions);
    let run = |content: &Value| content["metadata"]["labels"][label::SUBMISSION_ID].clone();
    if run(&is) == run(&should) {
        for field in ["labels", "annotations"] {
            let mut all = entries(&is["metadata"][field]);
            all.extend(entries(&should["metadata"][field]));
            should["metadata"][field] = all.into();
        }
    }
    // The cluster may set a default ingress class if the object names none, and a batch scheduler a default queue.
    for field in ["ingressClassName", "queue"] {
        if should["spec"][field].is_null() && !is["spec"][field].is_null() {
            should["spec"][field] = is["spec"][field].clone();
        }
    }
    if is == should {
        return None;
    }
    let mut patch = crate::merge_patch(&is, &should);
    submission::copy_fields(&mut patch, wanted, &["apiVersion", "kind"]);
    patch["metadata"]["name"] = there.child.name.as_str().into();
    patch["metadata"]["uid"] = there.uid.as_str().into();
    Some(patch)
}

fn entries(map: &Value) -> Map<String, Value> {
    map.as_object().cloned().unwrap_or_default()
}

impl View<'_> {
    /// Adds the actions for the Services and Ingresses of the application and the objects of extensions to a plan that is
    /// complete but for them, and the time after which to compare them again. `of_extensions` are the objects that the run in
    /// the plan's status should have for extensions.
    pub(crate) fn plan_auxiliary(&self, plan: &mut crate::Plan, of_extensions: Vec<Value>) {
        let (status, seen, admins) = (&plan.status, &self.seen.auxiliary, &self.policy.submission.exposure);
        let (state, mut wake) = (status.application_state.state, plan.wake);
        let mut is_due = |child: &ObjectKey| {
            let Some(tried) = seen.tries.get(child) else { return true };
            // No reconcile is planned for an attempt that is running: the worker requests one when the attempt has ended.
            let Some(ended) = tried.ended else { return false };
            let rest = tried.pause().saturating_sub(crate::between(ended, self.now));
            if !rest.is_zero() {
                wake = wake.into_iter().chain([rest]).min();
            }
            rest.is_zero()
        };
        let kept = kept(self.application, status, admins);
        // An object of an extension is deleted at the end of its run, before the next run creates another one of the
        // same name. An object that is left then was created while the run ended.
        let is_idle = matches!(state, State::Completed | State::Failed | State::Suspended);
        let is_of_core = |kind: &ObjectKind| [ObjectKind::SERVICE, ObjectKind::INGRESS].contains(kind);
        let is_unwanted = |object: &&AuxiliaryObject| {
            if is_of_core(&object.child.kind) { !kept.contains(&object.child) } else { is_idle }
        };
        let unwanted = self.there().filter(|object| !object.terminating).filter(is_unwanted);
        let unwanted = unwanted.map(|object| &object.child).filter(|child| is_due(child)).cloned();
        let mut actions: Vec<_> = unwanted.map(AuxiliaryAction::Delete).collect();
        let all: BTreeMap<_, _> = self.there().map(|object| (&object.child, object)).collect();
        // A Service of that name may belong to somebody else, and the Ingress would lead to it.
        let has_backend = |ingress: &Value| {
            backend(ingress).is_none_or(|name| {
                let service = ObjectKind::SERVICE.named(name);
                all.contains_key(&service) || seen.has_made(&service, status)
            })
        };
        let wanted = || wanted(self.application, status, admins).into_iter().chain(of_extensions);
        for object in state.is_followed().then(wanted).into_iter().flatten() {
            let Some(child) = ObjectKey::of(&object) else { continue };
            let next = match all.get(&child) {
                _ if !is_of_core(&child.kind) && seen.unwatched.contains(&child.kind) => None,
                Some(there) if there.terminating => None,
                Some(there) => mend(&object, there, &self.policy.extensions).map(AuxiliaryAction::Mend),
                None if seen.has_made(&child, status) || !has_backend(&object) => None,
                None => Some(AuxiliaryAction::Make(object)),
            };
            actions.extend(next.filter(|_| is_due(&child)));
        }
        (plan.auxiliary, plan.wake) = (actions, wake);
    }

    /// Returns the Services, Ingresses and objects of extensions of the application.
    fn there(&self) -> impl Iterator<Item = &AuxiliaryObject> {
        let uid = self.application.metadata.uid.as_ref();
        self.seen.auxiliary.there.iter().filter(move |object| Some(&object.owner) == uid)
    }

    /// Removes the web UI's address from the status of an application that has ended, unless the Service and the Ingress of
    /// the web UI are kept.
    pub(crate) fn note_end(&self, status: &mut SparkApplicationStatus) {
        let admins = &self.policy.submission.exposure;
        if admins.ends_with_run || ui(self.application, admins).is_none() {
            forget_ui(status);
        }
    }

    /// Writes the addresses of the web UI to the status, as far as the Service and the Ingress of the web UI exist.
    pub(crate) fn note_ui(&self, status: &mut SparkApplicationStatus) {
        let exposed = ui(self.application, &self.policy.submission.exposure);
        let Some(exposed) = exposed else { return forget_ui(status) };
        let existing = |key: &ObjectKey| self.there().find(|there| there.child == *key);
        let is_made = |key: &ObjectKey| existing(key).is_some() || self.seen.auxiliary.has_made(key, status);
        let service = ObjectKind::SERVICE.named(&*exposed.service);
        let has_service = is_made(&service);
        let has_ingress = is_made(&ObjectKind::INGRESS.named(&*exposed.ingress));
        let url = exposed.url(self.application, status.spark_application_id.as_deref());
        let info = &mut status.driver_info;
        if has_service {
            let ip = existing(&service).and_then(|service| service.cluster_ip.as_ref());
            info.web_ui_address = ip.map(|ip| {
                let host = if ip.contains(':') { format!("[{ip}]") } else { ip.clone() };
                format!("{host}:{}", exposed.port)
            });
            info.web_ui_port = Some(exposed.port);
            info.web_ui_service_name = Some(exposed.service.clone());
        }
        match url {
            Ok(Some(url)) if has_ingress => {
                info.web_ui_ingress_address = Some(exposed.address(&url));
                info.web_ui_ingress_name = Some(exposed.ingress);
            }
            Ok(_) if exposed.url_format.is_some() => {}
            Ok(_) | Err(_) => {
                info.web_ui_ingress_address = None;
                info.web_ui_ingress_name = None;
            }
        }
    }
}

/// Removes all that the status says about the driver but the name of its pod.
fn forget_ui(status: &mut SparkApplicationStatus) {
    let pod_name = status.driver_info.pod_name.take();
    status.driver_info = DriverInfo { pod_name, ..DriverInfo::default() };
}

impl AuxiliaryObjects {
    /// Returns what an object of an extension waits for, with its kind and name; `None` if it does not wait or is not
    /// known.
    pub fn waiting(&self, object: &ObjectKey) -> Option<String> {
        let there = self.there.iter().find(|there| there.child == *object)?;
        Some(format!("{} {}: {}", object.kind.kind, object.name, there.waiting.as_ref()?))
    }

    /// Whether this process has created the object for the present run, for objects of kinds that are not watched.
    fn has_made(&self, child: &ObjectKey, status: &SparkApplicationStatus) -> bool {
        let made_for = || self.tries.get(child).and_then(|tried| tried.made_for.as_ref());
        self.unwatched.contains(&child.kind)
            && status.submission_id.is_some()
            && made_for() == status.submission_id.as_ref()
    }
}

/// Returns the objects that are not deleted. They are kept between two runs and after the last run, so that addresses
/// do not change, but not while the application is suspended.
fn kept(
    application: &SparkApplication,
    status: &SparkApplicationStatus,
    admins: &Exposure,
) -> BTreeSet<ObjectKey> {
    let state = status.application_state.state;
    let has_ended = matches!(state, State::Completed | State::Failed);
    if state == State::Suspended || admins.ends_with_run && has_ended {
        return BTreeSet::new();
    }
    let id = status.spark_application_id.as_deref();
    let of_exposed = |exposed: ExposedPort| {
        let has_address = exposed.url_format.is_some() && exposed.url(application, id).is_ok();
        let service = ObjectKind::SERVICE.named(exposed.service);
        let ingress = ObjectKind::INGRESS.named(exposed.ingress);
        [Some(service), has_address.then_some(ingress)].into_iter().flatten()
    };
    ui(application, admins).into_iter().chain(others(application, admins)).flat_map(of_exposed).collect()
}

/// The addresses (see [`addresses`]) of the Ingresses of an application that are created or kept now, each with whether
/// it is that of the web UI, which follows from the admin's format; the others are chosen in
/// `spec.driverIngressOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskedAddresses(pub Vec<(String, bool)>);

impl AskedAddresses {
    pub fn of(application: &SparkApplication, admins: &Exposure) -> Self {
        // Each reconcile calls this, and in most clusters no application has an Ingress.
        if admins.url_format.is_none() && application.spec.driver_ingress_options.is_empty() {
            return Self::default();
        }
        let unknown = SparkApplicationStatus::default();
        let status = application.status.as_ref().unwrap_or(&unknown);
        let kept = kept(application, status, admins);
        let is_kept = |ingress: &Value| ObjectKey::of(ingress).is_some_and(|it| kept.contains(&it));
        let of_ui = ui(application, admins).map(|exposed| (exposed, true));
        let chosen = others(application, admins).map(|exposed| (exposed, false));
        let of_exposed = |(exposed, is_of_ui): (ExposedPort, bool)| {
            let ingress = ingress(application, status, &exposed).filter(is_kept);
            let addresses = ingress.as_ref().map(addresses).unwrap_or_default();
            addresses.into_iter().map(move |address| (address, is_of_ui))
        };
        Self(of_ui.into_iter().chain(chosen).flat_map(of_exposed).collect())
    }

    /// Whether another application cannot have `address`, for its web UI if `is_of_ui`. The address of a web UI takes
    /// precedence over one that is chosen in `spec.driverIngressOptions`.
    pub fn takes(&self, address: &str, is_of_ui: bool) -> bool {
        self.0.iter().any(|(own, is_own_ui)| own == address && (*is_own_ui || !is_of_ui))
    }
}

/// Returns the object that a reconcile has to create itself once a driver called `driver` exists: the
/// PodDisruptionBudget that keeps the driver on its node while the node is drained. As in Kubeflow's operator, it has
/// the name of the driver's pod, and at least one driver must be available. `None` if the admin or the application has
/// not turned it on.
pub fn budget(application: &SparkApplication, driver: &str, policy: &crate::Policy) -> Option<Value> {
    let is_wanted = policy.has_driver_pdb && application.spec.driver_pod_disruption_budget == Some(true);
    is_wanted.then(|| {
        let labels = json!({label::APP_NAME: application.metadata.name, label::SPARK_ROLE: role::DRIVER});
        let budget = json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": driver},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
        });
        submission::owned::owned(budget, application, None, label::LAUNCHED_BY)
    })
}
