//! Hands an application over to a batch scheduler, which places driver and executors as one group.
//!
//! The group is expressed by labels and annotations of the pods, and for most schedulers by an object that is created
//! before the first pod of each run. Kubeflow's operator does the same, but with sums that are wrong for nearly every
//! application ("512m" counts as half a byte); here the sums are those of [`PodRequests`].

mod coscheduling;
mod volcano;
mod yunikorn;

use crate::{
    Policy,
    pod_requests::{Amounts, PodRequests},
    pod_summary::{GroupName, PodSummary},
    validation::Refusal,
};
use api::{
    Role, SparkApplication, SparkPodSpec,
    excerpt::{self, LONGEST_EXPLANATION},
    names::{batch_scheduler, label},
    owner_reference, quantity, stated,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};
use spark_client::Child;
use std::{borrow::Cow, collections::BTreeMap};

/// The admin's settings: the batch schedulers that applications may name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchSchedulers {
    kube_schedulers: Vec<String>,
    default: Option<String>,
}

/// A batch scheduler that an application is handed over to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchScheduler {
    Volcano,
    YuniKorn,
    /// A kube-scheduler with the coscheduling plugin of scheduler-plugins.
    Coscheduling,
}

/// An API group whose PodGroups the operator creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupApi {
    Volcano,
    Coscheduling,
}

impl GroupApi {
    const ALL: [Self; 2] = [Self::Volcano, Self::Coscheduling];

    const fn version(self) -> &'static str {
        match self {
            Self::Volcano => batch_scheduler::VOLCANO_API,
            Self::Coscheduling => batch_scheduler::COSCHEDULING_API,
        }
    }

    fn name(self) -> &'static str {
        self.version().split('/').next().unwrap_or_default()
    }

    /// Returns the kind of its PodGroups, as [`Child`] has it.
    #[must_use]
    pub fn kind(self) -> String {
        format!("{KIND}.{}", self.name())
    }

    /// Returns the API group whose PodGroups have this kind; none if it is another kind. Nothing is allocated: every event
    /// about a Service asks.
    #[must_use]
    pub fn of(kind: &str) -> Option<Self> {
        let name = kind.strip_prefix(KIND)?.strip_prefix('.')?;
        Self::ALL.into_iter().find(|api| api.name() == name)
    }

    /// Returns the path of the PodGroups of a namespace.
    #[must_use]
    pub fn path(self, namespace: &str) -> String {
        format!("/apis/{}/namespaces/{namespace}/podgroups", self.version())
    }

    fn group(self, name: &str, spec: &Value) -> Value {
        json!({"apiVersion": self.version(), "kind": KIND, "metadata": {"name": name}, "spec": spec})
    }

    /// Returns what can be done about `obstacle`, to be written after the API server's own message.
    #[must_use]
    pub const fn advice(self, obstacle: Obstacle) -> &'static str {
        match (obstacle, self) {
            (Obstacle::NoPermission, _) => {
                "; to permit it: spark-operator manifests rbac, with --enable-batch-scheduler and the operator's other flags"
            }
            (Obstacle::NoKind, Self::Volcano) => "; install Volcano, or take batchScheduler out of the spec",
            (Obstacle::NoKind, Self::Coscheduling) => {
                "; install the definitions of scheduler-plugins, or take batchScheduler out of the spec"
            }
        }
    }
}

/// Why the object of a group cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The cluster does not have the kind.
    NoKind,
    /// The operator may not create such objects.
    NoPermission,
}

/// A run that is about to be submitted: the application with the labels and annotations by which the scheduler finds its
/// pods, and the objects that are created before its first pod.
#[derive(Debug)]
pub struct Gang<'a> {
    pub application: Cow<'a, SparkApplication>,
    pub objects: Vec<Value>,
}

impl BatchSchedulers {
    /// Returns the settings with these names of kube-schedulers, and the scheduler of applications that name none.
    ///
    /// # Errors
    ///
    /// When `default` is not a scheduler that applications may name: the reason.
    pub fn new(kube_schedulers: Vec<String>, default: Option<String>) -> Result<Self, String> {
        let settings = Self { kube_schedulers, default };
        if let Some(name) = &settings.default {
            settings.named(name)?;
        }
        Ok(settings)
    }

    /// Returns the API groups whose PodGroups are created for applications.
    #[must_use]
    pub fn group_apis(&self) -> Vec<GroupApi> {
        let coscheduling = (!self.kube_schedulers.is_empty()).then_some(GroupApi::Coscheduling);
        [GroupApi::Volcano].into_iter().chain(coscheduling).collect()
    }

    /// Checks that applications may name this scheduler. An empty name means the default.
    ///
    /// # Errors
    ///
    /// When the operator does not know it: the names that there are.
    pub fn known(&self, name: &str) -> Result<(), String> {
        if name.is_empty() { Ok(()) } else { self.named(name).map(drop) }
    }

    /// Returns the scheduler with this name.
    ///
    /// # Errors
    ///
    /// When there is none: the names that there are.
    fn named(&self, name: &str) -> Result<BatchScheduler, String> {
        match name {
            batch_scheduler::VOLCANO => Ok(BatchScheduler::Volcano),
            batch_scheduler::YUNIKORN => Ok(BatchScheduler::YuniKorn),
            _ if self.kube_schedulers.iter().any(|known| known == name) => Ok(BatchScheduler::Coscheduling),
            _ => {
                let own = [batch_scheduler::VOLCANO, batch_scheduler::YUNIKORN].into_iter();
                let known: Vec<_> = own.chain(self.kube_schedulers.iter().map(String::as_str)).collect();
                Err(format!(
                    "the operator knows no batch scheduler `{name}`: write one of {}, or have the administrator add the name to \
                     --kube-scheduler-names",
                    known.join(", ")
                ))
            }
        }
    }

    /// Returns the name of the scheduler that places the pods of `application`, and the scheduler; none if the default
    /// scheduler of the cluster does, or the one that each role names.
    ///
    /// # Errors
    ///
    /// When the application names a scheduler that does not exist.
    pub fn of(&self, application: &SparkApplication) -> Result<Option<(String, BatchScheduler)>, String> {
        let asked = stated(&application.spec.batch_scheduler);
        let Some(name) = asked.or(self.default.as_ref()) else { return Ok(None) };
        let scheduler = self.named(name).map_err(|why| format!("spec.batchScheduler: {why}"))?;
        Ok(Some((name.clone(), scheduler)))
    }
}

/// Returns a warning about an application that names a batch scheduler where the operator hands applications over to none;
/// none if it names none. `root` is the path of its spec.
#[must_use]
pub fn names_without_effect(root: &str, name: &str, has_options: bool) -> Option<String> {
    if name.is_empty() && !has_options {
        return None;
    }
    let what = if name.is_empty() {
        format!("{root}.batchSchedulerOptions: has no effect")
    } else {
        format!("{root}.batchScheduler: only becomes the schedulerName of the pods, without a group")
    };
    Some(format!("{what}: the operator runs without --enable-batch-scheduler"))
}

/// Returns the PodGroup that the run with this submission id should have while `driver`, its driver, exists; none if the
/// driver is in no group, or in one that the operator has not made.
#[must_use]
pub fn wanted(
    application: &SparkApplication,
    submission_id: &str,
    driver: &PodSummary,
    policy: &Policy,
) -> Option<Value> {
    let named = driver.group.as_ref()?;
    let objects = of(application, submission_id, policy).ok()?.objects.into_iter();
    // An admin may have changed the default since the driver was created.
    objects.into_iter().find(|object| {
        Child::of(object).is_some_and(|child| child.kind == named.kind && child.name == named.name)
    })
}

/// Returns the run of `application` with this submission id as the batch scheduler wants it. Without a batch scheduler,
/// nothing changes.
///
/// # Errors
///
/// When the application names a scheduler that does not exist, or the resources of its pods cannot be determined.
pub fn of<'a>(
    application: &'a SparkApplication,
    submission_id: &str,
    policy: &Policy,
) -> Result<Gang<'a>, String> {
    let alone = |application| Gang { application, objects: Vec::new() };
    let Some(settings) = &policy.batch_schedulers else { return Ok(alone(Cow::Borrowed(application))) };
    let Some((name, scheduler)) = settings.of(application)? else {
        return Ok(alone(Cow::Borrowed(application)));
    };
    let mut grouped = application.clone();
    grouped.spec.batch_scheduler = Some(name);
    if scheduler.has_own_group(application) {
        return Ok(alone(Cow::Owned(grouped)));
    }
    let requests = PodRequests::of(&grouped)
        .map_err(|error| Refusal(error.findings("the sums of the batch scheduler")).brief())?;
    let objects = match scheduler {
        BatchScheduler::Volcano => vec![volcano::group(&mut grouped, &requests)],
        BatchScheduler::Coscheduling => vec![coscheduling::group(&mut grouped, &requests)],
        BatchScheduler::YuniKorn => {
            yunikorn::group(&mut grouped, &requests)?;
            Vec::new()
        }
    };
    let objects = objects.into_iter().map(|object| owned(object, application, submission_id)).collect();
    Ok(Gang { application: Cow::Owned(grouped), objects })
}

/// Returns the object that may group the pods of a run: the one that `driver`, the run's driver, names; without a driver,
/// the one of the next run.
#[must_use]
pub fn possible(
    application: &SparkApplication,
    policy: &Policy,
    driver: Option<&PodSummary>,
) -> Option<Child> {
    if let Some(driver) = driver {
        let GroupName { kind, name } = *driver.group.clone()?;
        return Some(Child { kind, name });
    }
    let settings = policy.batch_schedulers.clone().unwrap_or_default();
    let (_, scheduler) = settings.of(application).ok()??;
    let (api, name) = match scheduler {
        BatchScheduler::Volcano => (GroupApi::Volcano, volcano::name(application)),
        BatchScheduler::Coscheduling => (GroupApi::Coscheduling, coscheduling::name(application)),
        BatchScheduler::YuniKorn => return None,
    };
    Some(Child { kind: api.kind(), name })
}

/// Returns the object that groups the pod with these labels and annotations.
#[must_use]
pub fn group_of(metadata: &ObjectMeta) -> Option<GroupName> {
    let named = |entries: &Option<BTreeMap<String, String>>, key: &str, api: GroupApi| {
        Some(GroupName { kind: api.kind(), name: entries.as_ref()?.get(key)?.clone() })
    };
    named(&metadata.annotations, batch_scheduler::VOLCANO_GROUP, GroupApi::Volcano)
        .or_else(|| named(&metadata.labels, batch_scheduler::COSCHEDULING_GROUP, GroupApi::Coscheduling))
}

/// Returns the fields of the `spec` of a PodGroup that the operator sets.
pub(crate) fn content(spec: &Value) -> Value {
    let fields = ["minMember", "minResources", "queue", "priorityClassName"];
    fields.into_iter().map(|field| (field.to_owned(), spec[field].clone())).collect::<Map<_, _>>().into()
}

/// Returns what a PodGroup waits for: its phase, and the reason and the message of the last condition that explains it;
/// none if its pods run or have run.
pub(crate) fn waiting(group: &Value) -> Option<String> {
    let status = &group["status"];
    let phase = status["phase"].as_str().filter(|phase| !phase.is_empty()).unwrap_or("Pending");
    if ["Running", "Scheduled", "Completed", "Finished"].contains(&phase) {
        return None;
    }
    let is_reason =
        |condition: &&Value| condition["status"] == "True" && condition["type"] == "Unschedulable";
    let condition = status["conditions"].as_array().and_then(|all| all.iter().rev().find(is_reason));
    let said = ["reason", "message"].into_iter().filter_map(|field| condition?[field].as_str());
    let since = group["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
    let mut words = vec![format!("{phase} since {since}")];
    words.extend(said.filter(|text| !text.is_empty()).map(str::to_owned));
    Some(excerpt::beginning(words.join(": "), LONGEST_EXPLANATION))
}

impl BatchScheduler {
    /// Whether the pods are in a group that the user has made, which the operator leaves alone.
    fn has_own_group(self, application: &SparkApplication) -> bool {
        let driver = &application.spec.driver.pod;
        match self {
            Self::Volcano => driver.annotations.contains_key(batch_scheduler::VOLCANO_GROUP),
            Self::Coscheduling => {
                let labels = application.metadata.labels.as_ref();
                let is_in = |labels: &BTreeMap<String, String>| {
                    labels.contains_key(batch_scheduler::COSCHEDULING_GROUP)
                };
                labels.is_some_and(is_in) || is_in(&driver.labels)
            }
            Self::YuniKorn => false,
        }
    }
}

/// The kind of the objects that group pods, in several API groups.
const KIND: &str = "PodGroup";

/// Changes the fields of each role.
fn for_roles(application: &mut SparkApplication, mut change: impl FnMut(Role, &mut SparkPodSpec)) {
    change(Role::Driver, &mut application.spec.driver.pod);
    change(Role::Executor, &mut application.spec.executor.pod);
}

/// Returns `object` with the owner and the labels of what the operator creates for a run.
fn owned(mut object: Value, application: &SparkApplication, submission_id: &str) -> Value {
    let metadata = &mut object["metadata"];
    metadata["labels"] = json!({
        label::APP_NAME: application.metadata.name,
        label::SUBMISSION_ID: submission_id,
        label::CREATED_BY: "true",
    });
    metadata["ownerReferences"] = json!([owner_reference(application)]);
    object
}

/// Returns amounts as Kubernetes quantities by the name of the resource.
fn quantities(amounts: &Amounts) -> Map<String, Value> {
    let text = |name: &str, amount: i128| {
        let is_of_bytes = ["memory", "ephemeral-storage"].contains(&name) || name.starts_with("hugepages-");
        if is_of_bytes { quantity::binary(amount) } else { quantity::decimal(amount) }
    };
    amounts.iter().map(|(name, amount)| (name.clone(), text(name, *amount).into())).collect()
}
