//! Hands an application over to a batch scheduler, which places driver and executors as one group.
//!
//! The group is expressed by labels and annotations of the pods, and for most schedulers by an object that is created
//! before the first pod of each run. Kubeflow's operator does the same, but with sums that are wrong for nearly every
//! application ("512m" counts as half a byte); here the sums are those of
//! [`PodRequests`](plan::pod_requests::PodRequests).

mod extension;
mod kubernetes;
mod options;
mod pod_groups;
mod yunikorn;

use api::{ObjectKey, ObjectKind, Role, SparkApplication, SparkPodSpec, batch_scheduler, quantity, stated};
pub use kubernetes::{
    Blocker, ExchangeMemory, Exchanges, Recalled, Wait, Waits, excess, is_gated, is_placeholder,
};
use plan::extension::{ComingRun, Prepared, View};
use pods::{Amounts, PodSummary};
use std::collections::{BTreeMap, BTreeSet};

/// The admin's settings: the batch schedulers that applications may name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchSchedulers {
    /// Whether the operator hands applications over to no batch scheduler.
    is_off: bool,
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

/// Volcano's PodGroups.
pub const VOLCANO: ObjectKind = ObjectKind::new(batch_scheduler::VOLCANO_API, "PodGroup");
/// The PodGroups of scheduler-plugins.
pub const COSCHEDULING: ObjectKind = ObjectKind::new(batch_scheduler::COSCHEDULING_API, "PodGroup");
/// Kubernetes' own PodGroups since 1.37.
pub const KUBERNETES: ObjectKind = ObjectKind::new(batch_scheduler::KUBERNETES_BETA_API, "PodGroup");
/// Kubernetes' own PodGroups in all of their versions, the newest first.
pub const KUBERNETES_VERSIONS: [ObjectKind; 2] =
    [KUBERNETES, ObjectKind::new(batch_scheduler::KUBERNETES_ALPHA_API, "PodGroup")];

/// Whether the operator creates objects of this kind for groups of applications: PodGroups, and Kubernetes' own Workloads.
pub fn is_of_groups(kind: &ObjectKind) -> bool {
    let mut all = [VOLCANO, COSCHEDULING].into_iter().chain(KUBERNETES_VERSIONS);
    ["PodGroup", "Workload"].contains(&&*kind.kind) && all.any(|one| one.api_version == kind.api_version)
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
        let settings = Self { is_off: false, kube_schedulers, has_kubernetes, default };
        if let Some(name) = &settings.default {
            settings.named(name)?;
        }
        Ok(settings)
    }

    /// Returns the settings of an operator that hands applications over to no batch scheduler.
    pub fn off() -> Self {
        Self { is_off: true, ..Self::default() }
    }

    /// Returns the scheduler with this name.
    ///
    /// # Errors
    ///
    /// If applications may not name it: a message with the names that they may write.
    fn named(&self, name: &str) -> Result<BatchScheduler, String> {
        match name {
            batch_scheduler::VOLCANO => Ok(BatchScheduler::Volcano),
            batch_scheduler::YUNIKORN => Ok(BatchScheduler::YuniKorn),
            batch_scheduler::KUBERNETES if self.has_kubernetes => Ok(BatchScheduler::Kubernetes),
            batch_scheduler::KUBERNETES => {
                let why =
                    "`kubernetes` is only possible where the administrator sets --enable-kubernetes-gangs";
                Err(why.to_owned())
            }
            _ if self.kube_schedulers.iter().any(|known| known == name) => Ok(BatchScheduler::Coscheduling),
            _ => {
                let kubernetes = self.has_kubernetes.then_some(batch_scheduler::KUBERNETES);
                let own = [batch_scheduler::VOLCANO, batch_scheduler::YUNIKORN].into_iter().chain(kubernetes);
                let known =
                    own.chain(self.kube_schedulers.iter().map(String::as_str)).collect::<Vec<_>>().join(", ");
                Err(format!(
                    "the operator knows no batch scheduler `{name}`: write one of {known}, or have the administrator add the name \
                     to --kube-scheduler-names"
                ))
            }
        }
    }

    /// Returns the name of the batch scheduler that places the pods of `application`, and the scheduler; `None` if the
    /// cluster's default scheduler places them, or the one that each role names.
    ///
    /// # Errors
    ///
    /// When the application names a scheduler that does not exist.
    fn of(&self, application: &SparkApplication) -> Result<Option<(String, BatchScheduler)>, String> {
        let asked = stated(&application.spec.batch_scheduler).filter(|_| !self.is_off);
        let Some(name) = asked.or(self.default.as_ref()) else { return Ok(None) };
        let scheduler = self.named(name).map_err(|why| format!("spec.batchScheduler: {why}"))?;
        Ok(Some((name.clone(), scheduler)))
    }
}

/// Returns the PodGroup that the run in `status` should have while its driver exists; `None` if the driver is in no group,
/// or in one that the operator has not created, or if its size is not known. The size is that of the present
/// `spark-defaults.conf`: the one with which the run was submitted is not known any more.
fn wanted_group(view: &View<'_>, status: &api::SparkApplicationStatus) -> Option<serde_json::Value> {
    let submission_id = status.submission_id.as_deref()?;
    let named = group_of(view.driver()?)?;
    // The cluster keeps a PodGroup of Kubernetes' own as long as it has pods, and its fields cannot be changed.
    if named.kind == KUBERNETES || !status.application_state.state.is_followed() {
        return None;
    }
    let objects = prepared(view, submission_id)?.objects;
    // An admin may have changed the default since the driver was created.
    objects.into_iter().find(|object| ObjectKey::of(object).as_ref() == Some(&named))
}

/// Returns the placeholders of the run with this submission id; `None` if the run has none, or if their number is not
/// known.
fn wanted_placeholders(view: &View<'_>, submission_id: &str) -> Option<plan::copies::Copies> {
    group_of(view.driver()?).filter(|group| group.kind == KUBERNETES)?;
    Some(prepared(view, submission_id)?.copies)
}

/// Returns the run with this submission id as its batch scheduler requires it; `None` if it cannot be submitted, or if the
/// admin's `spark-defaults.conf` is not known.
fn prepared<'a>(view: &View<'a>, submission_id: &str) -> Option<Prepared<'a>> {
    // Placeholders are the same in all versions.
    let served = &BTreeSet::from([KUBERNETES]);
    let defaults = view.seen.defaults.as_deref()?;
    view.policy.prepared(view.application, &ComingRun { submission_id, served, defaults }).ok()
}

/// Returns the PodGroup that the labels and annotations of a driver name. Only the operator sets the annotation of
/// Kubernetes' own gangs.
fn group_of(driver: &PodSummary) -> Option<ObjectKey> {
    let named = |key: &str, kind: ObjectKind| Some(kind.named(driver.mark(key)?));
    if let Some(own) = named(api::annotation::POD_GROUP, KUBERNETES) {
        return Some(own);
    }
    let volcano = named(batch_scheduler::VOLCANO_GROUP, VOLCANO);
    let coscheduling = named(batch_scheduler::COSCHEDULING_GROUP, COSCHEDULING);
    // A driver can be in the operator's group of one scheduler and have the user's mark of another one.
    let application = driver.application.as_deref();
    let is_operators =
        |group: &ObjectKey| application.is_some_and(|name| group.name == pod_groups::coscheduling_name(name));
    coscheduling.clone().filter(is_operators).or(volcano).or(coscheduling)
}

/// Calls `change` with the section of each role.
fn for_roles(application: &mut SparkApplication, mut change: impl FnMut(Role, &mut SparkPodSpec)) {
    change(Role::Driver, &mut application.spec.driver.pod);
    change(Role::Executor, &mut application.spec.executor.pod);
}

/// Returns amounts as Kubernetes quantities by the name of the resource.
fn quantities(amounts: &Amounts) -> BTreeMap<String, String> {
    let quantity = |(name, amount): (&String, &i128)| canonical(&quantity::of_resource(name, *amount));
    amounts.iter().map(|entry| (entry.0.clone(), quantity(entry))).collect()
}

/// Returns a quantity in the form in which Kubernetes' programs write it. Volcano rewrites quantities to this form with
/// each status update of a group, and with another form the operator would change the group back each time.
fn canonical(quantity: &str) -> String {
    quantity::canonical(quantity).unwrap_or_else(|| quantity.to_owned())
}
