//! Hands an application over to a batch scheduler, which places driver and executors as one group.
//!
//! The group is expressed by labels and annotations of the pods, and for most schedulers by an object that is created
//! before the first pod of each run. Kubeflow's operator does the same, but with sums that are wrong for nearly every
//! application ("512m" counts as half a byte); here the sums are those of [`PodRequests`].

mod coscheduling;
mod kubernetes;
mod options;
mod seat;
mod volcano;
mod yunikorn;

use crate::{
    Policy, copies::Copies, findings::Refusal, owned::owned, pod_claim::Amounts, pod_requests::PodRequests,
    pod_summary::PodSummary,
};
use api::{
    ObjectKey, ObjectKind, Role, SparkApplication, SparkPodSpec,
    excerpt::{self, LONGEST_EXPLANATION},
    names::{annotation, batch_scheduler, label},
    quantity, stated,
};
pub use kubernetes::PodGroupVersion;
pub use seat::{excess, is_gated, is_placeholder};
pub(crate) use seat::{nominate, nomination, ungate};
use serde_json::{Map, Value, json};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

/// The admin's settings: the batch schedulers that applications may name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchSchedulers {
    kube_schedulers: Vec<String>,
    has_kubernetes: bool,
    default: Option<String>,
}

/// A batch scheduler that an application is handed over to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchScheduler {
    Volcano,
    YuniKorn,
    /// A kube-scheduler with the coscheduling plugin of scheduler-plugins.
    Coscheduling,
    /// Kubernetes' own gangs.
    Kubernetes,
}

/// An API group whose PodGroups the operator creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupApi {
    Volcano,
    Coscheduling,
    Kubernetes(PodGroupVersion),
}

impl GroupApi {
    const ALL: [Self; 4] = [
        Self::Volcano,
        Self::Coscheduling,
        Self::Kubernetes(PodGroupVersion::V1beta1),
        Self::Kubernetes(PodGroupVersion::V1alpha2),
    ];

    const fn version(self) -> &'static str {
        match self {
            Self::Volcano => batch_scheduler::VOLCANO_API,
            Self::Coscheduling => batch_scheduler::COSCHEDULING_API,
            Self::Kubernetes(version) => version.api_version(),
        }
    }

    /// Returns the kind of its PodGroups.
    #[must_use]
    pub const fn kind(self) -> ObjectKind {
        ObjectKind::new(self.version(), KIND)
    }

    /// Returns the API group whose PodGroups or Workloads have this kind; none if it is another kind.
    #[must_use]
    pub fn of(kind: &ObjectKind) -> Option<Self> {
        let is_its = |api: &Self| KINDS.contains(&&*kind.kind) && kind.api_version == api.version();
        Self::ALL.into_iter().find(is_its)
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
            (Obstacle::NoKind, Self::Kubernetes(_)) => {
                "; turn on the feature gate GenericWorkload, or take batchScheduler out of the spec"
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
/// pods, the objects that are created before its first pod, and the placeholders, which are created before the driver.
#[derive(Debug)]
pub struct Gang<'a> {
    pub application: Cow<'a, SparkApplication>,
    pub objects: Vec<Value>,
    pub placeholders: Copies,
}

impl BatchSchedulers {
    /// Returns the settings with these names of kube-schedulers, with Kubernetes' own gangs or without, and the scheduler
    /// of applications that name none.
    ///
    /// # Errors
    ///
    /// When `default` is not a scheduler that applications may name: the reason.
    pub fn new(
        kube_schedulers: Vec<String>,
        has_kubernetes: bool,
        default: Option<String>,
    ) -> Result<Self, String> {
        let settings = Self { kube_schedulers, has_kubernetes, default };
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

    /// Returns the scheduler with this name.
    ///
    /// # Errors
    ///
    /// When there is none: the names that there are.
    fn named(&self, name: &str) -> Result<BatchScheduler, String> {
        match name {
            batch_scheduler::VOLCANO => Ok(BatchScheduler::Volcano),
            batch_scheduler::YUNIKORN => Ok(BatchScheduler::YuniKorn),
            batch_scheduler::KUBERNETES if self.has_kubernetes => Ok(BatchScheduler::Kubernetes),
            batch_scheduler::KUBERNETES => {
                Err("`kubernetes` is only possible where the administrator sets --enable-kubernetes-gangs"
                    .to_owned())
            }
            _ if self.kube_schedulers.iter().any(|known| known == name) => Ok(BatchScheduler::Coscheduling),
            _ => {
                let own = [batch_scheduler::VOLCANO, batch_scheduler::YUNIKORN].into_iter();
                let kubernetes = self.has_kubernetes.then_some(batch_scheduler::KUBERNETES);
                let own = own.chain(kubernetes);
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
/// driver is in no group, or in one that the operator has not made. `defaults` is the text of the admin's
/// `spark-defaults.conf` as it is now; that of the time when the run was submitted is not known any more.
#[must_use]
pub fn wanted(
    application: &SparkApplication,
    submission_id: &str,
    driver: &PodSummary,
    defaults: &str,
    policy: &Policy,
) -> Option<Value> {
    let named = group_of(driver)?;
    // The cluster keeps a PodGroup of Kubernetes' own as long as it has pods, and its fields cannot be changed.
    if matches!(GroupApi::of(&named.kind), Some(GroupApi::Kubernetes(_))) {
        return None;
    }
    let objects =
        of(application, submission_id, &BTreeSet::new(), defaults, policy).ok()?.objects.into_iter();
    // An admin may have changed the default since the driver was created.
    objects.into_iter().find(|object| ObjectKey::of(object).as_ref() == Some(&named))
}

/// Returns the placeholders of the run with this submission id whose driver is `driver`; empty if the run has none.
#[must_use]
pub(crate) fn placeholders(
    application: &SparkApplication,
    submission_id: &str,
    driver: &PodSummary,
    defaults: &str,
    policy: &Policy,
) -> Copies {
    let api = group_of(driver).and_then(|group| GroupApi::of(&group.kind));
    if !matches!(api, Some(GroupApi::Kubernetes(_))) {
        return Copies::default();
    }
    // They are the same in all versions.
    let served = BTreeSet::from([GroupApi::Kubernetes(PodGroupVersion::V1beta1).kind()]);
    let gang = of(application, submission_id, &served, defaults, policy);
    gang.map(|gang| gang.placeholders).unwrap_or_default()
}

/// Returns the kinds of which the cluster has to serve one before `application` can be submitted, the preferred one first;
/// empty if it needs none.
#[must_use]
pub fn alternatives(application: &SparkApplication, policy: &Policy) -> Vec<ObjectKind> {
    let scheduler = policy.batch_schedulers.as_ref().map(|settings| settings.of(application));
    match scheduler {
        Some(Ok(Some((_, BatchScheduler::Kubernetes)))) => {
            PodGroupVersion::ALL.map(|version| GroupApi::Kubernetes(version).kind()).into()
        }
        _ => Vec::new(),
    }
}

/// Whether the operator mends the group of `driver`, so that it has to know how large that group is.
#[must_use]
pub fn is_mended(driver: &PodSummary, policy: &Policy) -> bool {
    group_of(driver).is_some() && policy.batch_schedulers.is_some()
}

/// Returns the run of `application` with this submission id as the batch scheduler wants it. Without a batch scheduler,
/// nothing changes. `served` are those of [`alternatives`] that the cluster serves; `defaults` is the text of the admin's
/// `spark-defaults.conf`.
///
/// # Errors
///
/// When the application names a scheduler that does not exist, or the resources of its pods cannot be determined.
pub fn of<'a>(
    application: &'a SparkApplication,
    submission_id: &str,
    served: &BTreeSet<ObjectKind>,
    defaults: &str,
    policy: &Policy,
) -> Result<Gang<'a>, String> {
    let alone = |application| Gang { application, objects: Vec::new(), placeholders: Copies::default() };
    let application = without_marks(application);
    let Some(settings) = &policy.batch_schedulers else { return Ok(alone(application)) };
    let Some((name, scheduler)) = settings.of(&application)? else { return Ok(alone(application)) };
    let options = application.spec.batch_scheduler_options.clone().unwrap_or_default();
    if let Some(invalid) = settings.check("spec", &name, &options).invalid.first() {
        return Err(invalid.to_string());
    }
    let mut grouped = application.clone().into_owned();
    // Kubernetes' own gangs are placed by the scheduler that the roles name, or the cluster's default.
    grouped.spec.batch_scheduler = Some(name).filter(|_| scheduler != BatchScheduler::Kubernetes);
    if scheduler.has_own_group(&application) {
        return Ok(alone(Cow::Owned(grouped)));
    }
    let requests = PodRequests::of(&grouped, defaults)
        .map_err(|error| Refusal(error.findings("the sums of the batch scheduler")).brief())?;
    let own = |object| owned(object, &application, Some(submission_id), label::CREATED_BY);
    let mut placeholders = Copies::default();
    let objects = match scheduler {
        BatchScheduler::Volcano => vec![volcano::group(&mut grouped, &requests)],
        BatchScheduler::Coscheduling => vec![coscheduling::group(&mut grouped, &requests)?],
        BatchScheduler::YuniKorn => {
            yunikorn::group(&mut grouped, &requests)?;
            Vec::new()
        }
        BatchScheduler::Kubernetes => {
            let is_served =
                |version: &PodGroupVersion| served.contains(&GroupApi::Kubernetes(*version).kind());
            let version = PodGroupVersion::ALL.into_iter().find(is_served);
            let version = version.ok_or_else(|| NO_POD_GROUPS.to_owned())?;
            let objects;
            (objects, placeholders) = kubernetes::objects(&mut grouped, &requests, version, submission_id)?;
            placeholders.template = own(placeholders.template);
            objects
        }
    };
    Ok(Gang {
        application: Cow::Owned(grouped),
        objects: objects.into_iter().map(own).collect(),
        placeholders,
    })
}

/// Returns the objects that the operator may have made to group the pods of the run with this submission id: those of the
/// group that `driver`, the run's driver, names; without a driver, those of every scheduler that applications may name,
/// because the spec may have been edited since.
#[must_use]
pub fn possible(
    application: &SparkApplication,
    submission_id: &str,
    policy: &Policy,
    driver: Option<&PodSummary>,
) -> Vec<ObjectKey> {
    let kubernetes = GroupApi::Kubernetes(PodGroupVersion::V1beta1);
    let named = |api: GroupApi| match api {
        GroupApi::Volcano => volcano::name(application),
        GroupApi::Coscheduling => coscheduling::name(application),
        GroupApi::Kubernetes(_) => kubernetes::name(application, submission_id),
    };
    let apis: Vec<_> = match (driver, &policy.batch_schedulers) {
        (Some(driver), _) => {
            let api = group_of(driver).and_then(|group| Some((GroupApi::of(&group.kind)?, group.name)));
            // Another name is that of a group of the user's own.
            api.filter(|(api, name)| *name == named(*api)).map(|(api, _)| api).into_iter().collect()
        }
        (None, Some(settings)) => {
            let own = settings.has_kubernetes.then_some(kubernetes);
            settings.group_apis().into_iter().chain(own).collect()
        }
        (None, None) => Vec::new(),
    };
    let children = |api: GroupApi| match api {
        GroupApi::Volcano | GroupApi::Coscheduling => vec![api.kind().named(named(api))],
        // The cluster may have been upgraded since.
        GroupApi::Kubernetes(_) => {
            let kinds = PodGroupVersion::ALL
                .into_iter()
                .flat_map(|version| KINDS.map(|kind| ObjectKind::new(version.api_version(), kind)));
            kinds.map(|kind| kind.named(named(api))).collect()
        }
    };
    apis.into_iter().flat_map(children).collect()
}

/// Returns the PodGroup that the labels and annotations of a driver name. Only the operator sets the annotation of
/// Kubernetes' own gangs.
#[must_use]
pub fn group_of(driver: &PodSummary) -> Option<ObjectKey> {
    let named = |key: &str, api: GroupApi| Some(api.kind().named(driver.mark(key)?));
    let kubernetes = GroupApi::Kubernetes(PodGroupVersion::V1beta1);
    if let Some(own) = named(annotation::POD_GROUP, kubernetes) {
        return Some(own);
    }
    let volcano = named(batch_scheduler::VOLCANO_GROUP, GroupApi::Volcano);
    let coscheduling = named(batch_scheduler::COSCHEDULING_GROUP, GroupApi::Coscheduling);
    // A driver can be in the operator's group of one scheduler and have the user's mark of another one.
    let application = driver.application.as_deref();
    let is_operators =
        |group: &ObjectKey| application.is_some_and(|name| group.name == coscheduling::name_of(name));
    coscheduling.clone().filter(is_operators).or(volcano).or(coscheduling)
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
            Self::YuniKorn | Self::Kubernetes => false,
        }
    }
}

/// Returns the application without the annotations by which its pods would get a group and a gate: only the operator sets
/// them.
fn without_marks(application: &SparkApplication) -> Cow<'_, SparkApplication> {
    const MARKS: [&str; 2] = [annotation::POD_GROUP, annotation::SCHEDULING_GATE];
    let given = application.metadata.annotations.as_ref();
    if !MARKS.iter().any(|mark| given.is_some_and(|given| given.contains_key(*mark))) {
        return Cow::Borrowed(application);
    }
    let mut application = application.clone();
    application.metadata.annotations.get_or_insert_default().retain(|key, _| !MARKS.contains(&key.as_str()));
    Cow::Owned(application)
}

/// The kind of the objects that group pods, in several API groups.
const KIND: &str = "PodGroup";
/// The kinds of objects about groups.
const KINDS: [&str; 2] = [KIND, "Workload"];
/// Why no application can be in a gang of Kubernetes' own.
const NO_POD_GROUPS: &str = "spec.batchScheduler: kubernetes: the cluster has no PodGroups of scheduling.k8s.io: it needs Kubernetes 1.36 or \
                             later, the feature gate GenericWorkload, and scheduling.k8s.io/v1beta1 (v1alpha2 in 1.36) in --runtime-config";

/// Changes the fields of each role.
fn for_roles(application: &mut SparkApplication, mut change: impl FnMut(Role, &mut SparkPodSpec)) {
    change(Role::Driver, &mut application.spec.driver.pod);
    change(Role::Executor, &mut application.spec.executor.pod);
}

/// Returns amounts as Kubernetes quantities by the name of the resource.
fn quantities(amounts: &Amounts) -> Map<String, Value> {
    let quantity = |(name, amount): (&String, &i128)| {
        (name.clone(), canonical(&quantity::of_resource(name, *amount)).into())
    };
    amounts.iter().map(quantity).collect()
}

/// Returns a quantity as Kubernetes' programs write it. Otherwise the operator would repair the group after each of its
/// status updates, because Volcano rewrites the quantities then.
fn canonical(quantity: &str) -> String {
    quantity::canonical(quantity).unwrap_or_else(|| quantity.to_owned())
}
