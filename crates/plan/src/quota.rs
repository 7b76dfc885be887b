//! Checks whether the ResourceQuotas of a namespace have room for the pods of an application, or of a server of Spark Connect.
//!
//! This check builds the pods with the same code that submits the application and customizes its pods, so that they
//! equal the pods that Spark will create. It counts the pods as Kubernetes will count them. So an application whose
//! executors would not fit is refused; otherwise it would wait for them without any message.

use super::{By, Policy, pod_requests::PodRequests, submission_plan::choose};
use api::{ExecutorState, Identity, SparkApplication, State, quantity};
use k8s_openapi::{api::core::v1::ResourceQuota, apimachinery::pkg::api::resource::Quantity};
use pods::{Amounts, PodClaim, is_counted};
use submission::{SubmissionEnvironment, run::Run};
use validation::{Invalid, Refusal, is_same_run, validate};

/// The pods of an application: driver, executors and, if there is one, the submission pod, which runs before the
/// executors. The driver of a SparkConnect is its server.
#[derive(Clone, Debug)]
pub struct Claim {
    submission: Option<PodClaim>,
    driver: Option<PodClaim>,
    executor: PodClaim,
    /// The number of executors.
    executors: u32,
    /// Whether dynamic allocation changes the number of executors with the work.
    is_dynamic: bool,
}

/// What needs the sums of requests, as messages name it.
pub const ASKER: &str = "the ResourceQuotas of the namespace";

/// The limit of a quota for one resource.
struct Limit<'a> {
    quota: &'a ResourceQuota,
    key: &'a str,
    hard: &'a str,
}

/// Whether a change leads to new pods, so that the quotas must have room for them: the application is new, is edited so
/// that it runs differently, or is resumed. A suspended application needs no room.
pub fn needs_room(old: Option<&SparkApplication>, new: &SparkApplication) -> bool {
    let is_suspended = |application: &SparkApplication| application.spec.suspend == Some(true);
    let goes_on = old.is_some_and(|old| is_same_run(old, new) && !is_suspended(old));
    new.metadata.deletion_timestamp.is_none() && !is_suspended(new) && !goes_on
}

/// Returns one finding for each resource of each quota that `new` would exceed: how much it requests, how much is used
/// and left (if `says_numbers`), and what the user can do.
///
/// An edit ends the current run before the next one begins, so the resources that the pods of `old` use count as free
/// for the pods of `new`. (Kubeflow's operator counts both.)
pub fn exceeded(
    old: Option<&SparkApplication>,
    new: &SparkApplication,
    quotas: &[ResourceQuota],
    submission_environment: &SubmissionEnvironment,
    policy: &Policy,
    says_numbers: bool,
) -> Vec<Invalid> {
    let defaults = &submission_environment.defaults;
    // `None` if the operator creates the driver itself, and for an application that cannot be submitted at all: the
    // user is informed when the submission is tried.
    let submission_pod = || {
        let mut application = new.clone();
        // An application that is not stored yet has no uid, but the owner references of its pods need one.
        application.metadata.uid.get_or_insert_with(|| "not stored yet".to_owned());
        let (run, now) = (Run::next(&application), jiff::Timestamp::UNIX_EPOCH);
        let chosen = choose(&application, &run, submission_environment, policy, now).ok()?;
        let By::Pod { objects, .. } = chosen.request.by else { return None };
        serde_json::from_value(objects.pod).ok().map(PodClaim::of)
    };
    let claim = || {
        let requests = PodRequests::of(&validate(new)?, defaults, ASKER)?;
        let submission = submission_pod();
        Ok::<_, Refusal>(Claim { submission, ..Claim::without_submission(requests) })
    };
    let own = || {
        let requests = PodRequests::of(&validate(old?).ok()?, defaults, ASKER).ok()?;
        Some(Claim::without_submission(requests).at_present(has_driver(old?), live_executors(old?)))
    };
    exceeded_by(quotas, claim, own, says_numbers)
}

/// Returns one finding for each resource of each quota that `claim` would exceed. `claim` is called only if there is a
/// limit. The resources that `own`, the present pods, use count as free.
pub fn exceeded_by(
    quotas: &[ResourceQuota],
    claim: impl FnOnce() -> Result<Claim, Refusal>,
    own: impl FnOnce() -> Option<Claim>,
    says_numbers: bool,
) -> Vec<Invalid> {
    let mut limits: Vec<_> =
        quotas.iter().flat_map(Limit::of).filter(|limit| is_counted(limit.key)).collect();
    if limits.is_empty() {
        return Vec::new();
    }
    limits.sort_by_key(|limit| (limit.quota.metadata.name.as_ref(), limit.key));
    let claim = match claim() {
        Ok(claim) => claim,
        Err(Refusal(invalid)) => return invalid,
    };
    let own = own();
    limits.into_iter().filter_map(|limit| limit.exceeded_by(&claim, own.as_ref(), says_numbers)).collect()
}

/// Returns the error for an object that is refused because the quotas of its namespace cannot be read.
pub fn unreadable(namespace: &str, why: &str, is_forbidden: bool) -> String {
    let help = if is_forbidden {
        "let the operator list them (apply what `spark-operator manifests rbac` prints with \
         --enable-resource-quota-enforcement and the operator's other flags)"
    } else {
        "try again"
    };
    format!(
        "the ResourceQuotas of namespace {namespace} cannot be read, so nobody knows whether there is room: {why}; {help}, or \
         run the operator without --enable-resource-quota-enforcement"
    )
}

/// Returns the error for an application that is refused because the admin's settings for submissions, on which the size
/// of its pods depends, cannot be read. `problem` continues a sentence: `cannot read …`.
pub fn unknown(namespace: &str, problem: &str) -> String {
    format!(
        "nobody knows whether the ResourceQuotas of namespace {namespace} have room, because the operator {problem}; have the \
         administrator mend that, or run the operator without --enable-resource-quota-enforcement"
    )
}

/// Returns the sum of the resource requests of the application's present pods, according to its spec and status; `None`
/// if it has no driver, or if the sum cannot be determined. Settings of the admin's `spark-defaults.conf` are not
/// included.
pub fn present_sum(application: &SparkApplication) -> Option<Amounts> {
    let valid = has_driver(application).then(|| validate(application).ok())??;
    let requests = PodRequests::of(&valid, "", ASKER).ok()?;
    Some(requests.sum(live_executors(application)))
}

fn has_driver(application: &SparkApplication) -> bool {
    let state = application.state();
    state.is_followed() || matches!(state, State::Invalidating | State::Suspending)
}

/// Returns the number of executors that have not ended.
fn live_executors(application: &SparkApplication) -> u32 {
    let executors = application.status.iter().flat_map(|status| status.executor_state.values());
    let live = executors.filter(|state| matches!(state, ExecutorState::Pending | ExecutorState::Running));
    u32::try_from(live.count()).unwrap_or(u32::MAX)
}

impl Claim {
    /// Returns the claim of the driver and the maximum number of executors, without a submission pod.
    pub fn without_submission(requests: PodRequests) -> Self {
        let PodRequests { driver, executor, greatest, is_dynamic, .. } = requests;
        Self {
            submission: None,
            driver: Some(driver.claim),
            executor: executor.claim,
            executors: greatest,
            is_dynamic,
        }
    }

    /// Reduces a claim without a submission pod to the pods that exist.
    pub fn at_present(self, has_driver: bool, executors: u32) -> Self {
        Self { driver: self.driver.filter(|_| has_driver), executors, ..self }
    }

    /// Returns the largest amount of the limited resource that the pods use at the same time: the submission pod has
    /// ended before executors exist.
    fn amount(&self, limit: &Limit) -> i128 {
        let of = |pod: &Option<PodClaim>| pod.as_ref().and_then(|pod| limit.of_pod(pod)).unwrap_or(0);
        of(&self.driver).saturating_add(of(&self.submission).max(self.of_executors(limit)))
    }

    /// Returns how much of the limited resource all executors use.
    fn of_executors(&self, limit: &Limit) -> i128 {
        limit.of_pod(&self.executor).unwrap_or(0).saturating_mul(self.executors.into())
    }
}

impl<'a> Limit<'a> {
    fn of(quota: &'a ResourceQuota) -> impl Iterator<Item = Self> {
        let hard = quota.spec.iter().flat_map(|spec| spec.hard.iter().flatten());
        hard.map(move |(key, Quantity(hard))| Self { quota, key, hard })
    }

    /// Returns how much of the limited resource a pod uses; `None` if the quota does not count it.
    fn of_pod(&self, pod: &PodClaim) -> Option<i128> {
        let is_counted = self.quota.spec.as_ref().is_some_and(|quota| pod.is_counted_by(quota));
        is_counted.then(|| pod.amount(self.key))
    }

    /// Returns a finding if `claim` exceeds the limit. The amounts that `own`, the present pods of the same
    /// application, use are free for `claim`.
    fn exceeded_by(&self, claim: &Claim, own: Option<&Claim>, says_numbers: bool) -> Option<Invalid> {
        let asked = claim.amount(self);
        let hard = quantity::amount(self.hard)?;
        let status = self.quota.status.as_ref();
        let used = status.and_then(|status| quantity::amount(&status.used.as_ref()?.get(self.key)?.0));
        let own = own.map_or(0, |own| own.amount(self));
        let used = used.unwrap_or(0).saturating_sub(own).max(0);
        let left = hard.saturating_sub(used).max(0);
        if asked == 0 || asked <= left {
            return None;
        }
        let name = self.quota.own_name();
        let by_others = if own > 0 { " by others" } else { "" };
        let room = if says_numbers {
            let (used, left) = (self.words(used), self.words(left));
            format!("of {}, {used} are used{by_others} and {left} left", self.hard)
        } else {
            format!("that is more than there is left (`kubectl describe resourcequota {name}`)")
        };
        let wait = if says_numbers && asked > hard { "" } else { ", or wait until others have ended" };
        let (asked, parts, less) = (self.words(asked), self.parts(claim), self.less(claim));
        let why = format!("the application requests {asked} ({parts}); {room}: {less}{wait}");
        Some(Invalid { field: format!("ResourceQuota {name}: {}", self.key), why })
    }

    /// Returns a text with the amounts of the driver and of the executors, or of the driver and of the submission pod
    /// if that pod requests more than the executors.
    fn parts(&self, claim: &Claim) -> String {
        let amount = |pod: &PodClaim| Some(self.words(self.of_pod(pod)?));
        let driver = claim.driver.as_ref().and_then(amount);
        let submission = claim.submission.as_ref();
        let is_larger = |pod: &&PodClaim| self.of_pod(pod) > Some(claim.of_executors(self));
        if let Some(submission) = submission.filter(is_larger).and_then(amount) {
            let driver = driver.unwrap_or_else(|| self.words(0));
            return format!("driver {driver}, submission pod {submission}");
        }
        let driver = driver.map(|driver| format!("driver {driver}"));
        let number = claim.executors;
        let executors = amount(&claim.executor).filter(|_| number > 0).map(|each| {
            let (noun, of_each) = if number == 1 { ("executor", "") } else { ("executors", " each") };
            format!("{number} {noun} {each}{of_each}")
        });
        [driver, executors].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Returns advice for the user on how to lower the requests.
    fn less(&self, claim: &Claim) -> String {
        let number =
            if claim.is_dynamic { "spec.dynamicAllocation.maxExecutors" } else { "spec.executor.instances" };
        let fields = match self.key {
            "pods" | "count/pods" => return format!("lower {number}"),
            "cpu" | "requests.cpu" => "cores or coreRequest",
            "limits.cpu" => "coreLimit, or cores where there is none,",
            "memory" | "requests.memory" => "memory or memoryOverhead",
            "limits.memory" => "memory, memoryOverhead or memoryLimit",
            _ => "the requests for this resource",
        };
        format!("lower {number}, or {fields} of driver and executor")
    }

    fn words(&self, amount: i128) -> String {
        quantity::of_resource(self.key, amount)
    }
}
