//! Checks whether the ResourceQuotas of a namespace have room for the pods of an application.
//!
//! The code that submits the application and customizes its pods also makes the pods here, as Spark will make them. The
//! pods are counted as Kubernetes will count them. An application is thus refused for a lack of room that would
//! otherwise keep its executors waiting without any message.

mod pod;
mod spark;

use super::{
    By, Policy,
    run::Run,
    submission::{SubmissionEnvironment, choose, starting_point},
    validation::{Invalid, Refusal, is_same_run, validate},
};
use api::{
    ExecutorState, Role, SparkApplication, State,
    excerpt::{self, LONGEST_EXPLANATION},
    names::{annotation, label},
    quantity,
};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Pod, ResourceQuota},
    apimachinery::pkg::api::resource::Quantity,
};
use pod::PodClaim;
use pod_customization;
use serde_json::{Value, json};
use spark::Spark;

/// Why the amounts that an application asks for cannot be determined.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Error {
    /// The application cannot be run at all.
    Refused(Refusal),
    /// The value of a property is not a number, or is known only when Spark completes it.
    Unknown { key: String, text: String },
    /// Kubernetes could not read the pods of this role, or the webhook would not admit them.
    NoPod { role: Role, why: String },
}

/// A number of pods that ask for the same amounts.
#[derive(Clone, Debug)]
struct Pods {
    each: PodClaim,
    number: u32,
}

/// The pods of an application: driver, executors and, if there is one, the submission pod, which runs before the
/// executors.
#[derive(Clone, Debug)]
struct Claim {
    submission: Option<Pods>,
    driver: Pods,
    executors: Pods,
    /// Whether dynamic allocation changes the number of executors with the work.
    is_dynamic: bool,
}

/// The limit of a quota for one resource.
struct Limit<'a> {
    quota: &'a ResourceQuota,
    key: &'a str,
    hard: &'a str,
}

/// Whether a change makes pods, so that the quotas must have room for them: the application is new, runs differently
/// than before, or is resumed. A suspended application needs no room.
#[must_use]
pub fn needs_room(old: Option<&SparkApplication>, new: &SparkApplication) -> bool {
    let is_suspended = |application: &SparkApplication| application.spec.suspend == Some(true);
    let goes_on = old.is_some_and(|old| is_same_run(old, new) && !is_suspended(old));
    new.metadata.deletion_timestamp.is_none() && !is_suspended(new) && !goes_on
}

/// Returns every quota that `new` would exceed, for each of its resources: what is asked for, what is used, what is
/// left, and what to do.
///
/// An edit ends the current run before the next one begins, so the amounts that the pods of `old` use are left for the
/// pods of `new`. (Kubeflow's operator counts both.)
#[must_use]
pub fn exceeded(
    old: Option<&SparkApplication>,
    new: &SparkApplication,
    quotas: &[ResourceQuota],
    policy: &Policy,
) -> Vec<Invalid> {
    let mut limits: Vec<_> =
        quotas.iter().flat_map(Limit::of).filter(|limit| pod::is_counted(limit.key)).collect();
    if limits.is_empty() {
        return Vec::new();
    }
    limits.sort_by_key(|limit| (limit.quota.metadata.name.as_ref(), limit.key));
    let claim = match Claim::of(new, policy) {
        Ok(claim) => claim,
        Err(error) => return error.findings(),
    };
    let own = old.and_then(|old| Some(Claim::of(old, policy).ok()?.at_present(old)));
    limits.into_iter().filter_map(|limit| limit.exceeded_by(&claim, own.as_ref())).collect()
}

/// Returns the reason why no application is admitted if the quotas of its namespace cannot be read.
#[must_use]
pub fn unreadable(namespace: &str, why: &str, is_forbidden: bool) -> String {
    let help = if is_forbidden {
        "let the operator list them (`spark-operator manifests rbac --enable-resource-quota-enforcement | kubectl apply \
         --filename -`)"
    } else {
        "try again"
    };
    format!(
        "the ResourceQuotas of namespace {namespace} cannot be read, so nobody knows whether there is room: {why}; {help}, or \
         run the operator without --enable-resource-quota-enforcement"
    )
}

impl Claim {
    /// Returns all pods that the application will ever have at the same time.
    fn of(application: &SparkApplication, policy: &Policy) -> Result<Self, Error> {
        validate(application).map_err(Error::Refused)?;
        let (properties, [driver, executor]) = starting_point(application);
        let spec = &application.spec;
        let (version, main_file) = (&spec.spark_version, &spec.main_application_file);
        let spark = Spark { version, properties: &properties, main_file };
        Ok(Self {
            submission: submission_pod(application, policy).map(|each| Pods { each, number: 1 }),
            driver: Pods { each: pod(&spark, Role::Driver, driver)?, number: 1 },
            executors: Pods { each: pod(&spark, Role::Executor, executor)?, number: spark.executors()? },
            is_dynamic: spark.is_dynamic()?,
        })
    }

    /// Reduces the claim to the pods that `application` has at present, as far as its status knows.
    fn at_present(mut self, application: &SparkApplication) -> Self {
        let has_driver = matches!(
            application.state(),
            State::Submitted | State::Running | State::Unknown | State::Invalidating | State::Suspending
        );
        let executors = application.status.iter().flat_map(|status| status.executor_state.values());
        let live = executors.filter(|state| matches!(state, ExecutorState::Pending | ExecutorState::Running));
        self.submission = None;
        self.driver.number = has_driver.into();
        self.executors.number = u32::try_from(live.count()).unwrap_or(u32::MAX);
        self
    }

    /// Returns the largest amount of a limit that the pods use at the same time: the submission pod has ended before
    /// executors exist.
    fn amount(&self, limit: &Limit) -> i128 {
        let submission = self.submission.as_ref().map_or(0, |pods| pods.amount(limit));
        self.driver.amount(limit).saturating_add(submission.max(self.executors.amount(limit)))
    }
}

/// Returns the submission pod, if `spark-submit` has to make the driver. None is returned for an application that
/// cannot be submitted at all: the user is informed when the submission is tried.
fn submission_pod(application: &SparkApplication, policy: &Policy) -> Option<PodClaim> {
    let mut application = application.clone();
    // Before the application is stored it has no uid, and its pods would have no owner.
    application.metadata.uid.get_or_insert_with(|| "not stored yet".to_owned());
    let (run, now) = (Run::next(&application), Timestamp::UNIX_EPOCH);
    let chosen = choose(&application, &run, &SubmissionEnvironment::default(), policy, now).ok()?;
    let By::Pod { objects, .. } = chosen.request.by else { return None };
    serde_json::from_value(objects.pod).ok().map(PodClaim::of)
}

impl Pods {
    /// Returns how much all of these pods use of a limit.
    fn amount(&self, limit: &Limit) -> i128 {
        let each = self.of_each(limit).unwrap_or(0);
        each.saturating_mul(self.number.into())
    }

    /// Returns how much one pod uses of a limit; none if the quota does not count these pods.
    fn of_each(&self, limit: &Limit) -> Option<i128> {
        let is_counted = limit.quota.spec.as_ref().is_some_and(|quota| self.each.is_counted_by(quota));
        is_counted.then(|| self.each.amount(limit.key))
    }
}

impl<'a> Limit<'a> {
    fn of(quota: &'a ResourceQuota) -> impl Iterator<Item = Self> {
        let hard = quota.spec.iter().flat_map(|spec| spec.hard.iter().flatten());
        hard.map(move |(key, Quantity(hard))| Self { quota, key, hard })
    }

    /// Returns what is wrong if `claim` exceeds the limit. The amounts that `own` uses are free for `claim`.
    fn exceeded_by(&self, claim: &Claim, own: Option<&Claim>) -> Option<Invalid> {
        let sum = |claim: &Claim| claim.amount(self);
        let asked = sum(claim);
        let hard = quantity::amount(self.hard)?;
        let used = self
            .quota
            .status
            .as_ref()
            .and_then(|status| quantity::amount(&status.used.as_ref()?.get(self.key)?.0));
        let own = own.map_or(0, sum);
        let used = used.unwrap_or(0).saturating_sub(own).max(0);
        let left = hard.saturating_sub(used).max(0);
        if asked == 0 || asked <= left {
            return None;
        }
        let name = self.quota.metadata.name.as_deref().unwrap_or_default();
        let by_others = if own > 0 { " by others" } else { "" };
        let help = if asked > hard {
            self.less(claim)
        } else {
            format!("{}, or wait until others have ended", self.less(claim))
        };
        let why = format!(
            "the application asks for {} ({}); of {}, {} are used{by_others} and {} left: {help}",
            self.words(asked),
            self.parts(claim),
            self.hard,
            self.words(used),
            self.words(left),
        );
        Some(Invalid { field: format!("ResourceQuota {name}: {}", self.key), why })
    }

    /// Lists what the driver asks for, and what the executors ask for, or the submission pod if it asks for more than
    /// the executors.
    fn parts(&self, claim: &Claim) -> String {
        let submission =
            claim.submission.as_ref().filter(|pods| pods.amount(self) > claim.executors.amount(self));
        if let Some(submission) = submission {
            let (driver, submission) = (claim.driver.amount(self), submission.amount(self));
            return format!("driver {}, submission pod {}", self.words(driver), self.words(submission));
        }
        let driver = claim.driver.of_each(self).map(|each| format!("driver {}", self.words(each)));
        let number = claim.executors.number;
        let executors = claim.executors.of_each(self).filter(|_| number > 0).map(|each| {
            let (noun, of_each) = if number == 1 { ("executor", "") } else { ("executors", " each") };
            format!("{number} {noun} {}{of_each}", self.words(each))
        });
        [driver, executors].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Returns advice on how to ask for less.
    fn less(&self, claim: &Claim) -> String {
        let number =
            if claim.is_dynamic { "spec.dynamicAllocation.maxExecutors" } else { "spec.executor.instances" };
        let fields = match self.key {
            "pods" | "count/pods" => return format!("lower {number}"),
            "cpu" | "requests.cpu" => "cores or coreRequest",
            "limits.cpu" => "coreLimit, or cores where there is none,",
            "memory" | "requests.memory" => "memory or memoryOverhead",
            "limits.memory" => "memory, memoryOverhead or memoryLimit",
            _ => "what is asked for of it",
        };
        format!("lower {number}, or {fields} of driver and executor")
    }

    fn words(&self, amount: i128) -> String {
        let is_of_bytes = ["memory", "storage", "hugepages-"].iter().any(|name| self.key.contains(name));
        if is_of_bytes { quantity::binary(amount) } else { quantity::decimal(amount) }
    }
}

/// Returns the claim of a pod of `role` that Spark makes from `template` and the webhook customizes.
fn pod(spark: &Spark, role: Role, mut template: Value) -> Result<PodClaim, Error> {
    let failed = |why: String| Error::NoPod { role, why };
    template["metadata"]["labels"][label::SPARK_ROLE] = role.as_str().into();
    if let Some(annotations) = template["metadata"]["annotations"].as_object_mut() {
        // The user did not write this annotation, and before the application is stored the annotation has no uid.
        annotations.remove(annotation::OWNER_REFERENCE);
    }
    let containers = &mut template["spec"]["containers"];
    if containers.as_array().is_none_or(Vec::is_empty) {
        *containers = json!([{"name": role.container()}]);
    }
    let is_sparks = |container: &Value| container["name"] == role.container();
    let sparks = containers.as_array().and_then(|containers| containers.iter().position(is_sparks));
    let resources = &mut containers[sparks.unwrap_or(0)]["resources"];
    *resources = spark.resources(role, resources)?;
    let customized = pod_customization::customized(&template);
    let customized = customized
        .map_err(|denials| failed(denials.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")))?;
    let pod: Pod = serde_json::from_value(customized).map_err(|error| failed(error.to_string()))?;
    Ok(PodClaim::of(pod))
}

impl Error {
    fn findings(self) -> Vec<Invalid> {
        match self {
            Self::Refused(Refusal(invalid)) => invalid,
            Self::Unknown { key, text } => {
                let text = excerpt::beginning(text, LONGEST_EXPLANATION);
                let why = format!(
                    "`{text}` is nothing that is known before Spark runs, and the ResourceQuotas of the namespace \
                     ask for it: write it out"
                );
                vec![Invalid { field: format!("spec.sparkConf[{key}]"), why }]
            }
            Self::NoPod { role, why } => {
                let why = excerpt::beginning(why, LONGEST_EXPLANATION);
                vec![Invalid { field: format!("spec.{}", role.as_str()), why }]
            }
        }
    }
}
