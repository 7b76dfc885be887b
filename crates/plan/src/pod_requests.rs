//! Determines the resource requests of an application's pods. The check of quotas and the groups of batch schedulers
//! both take their sums from here.
//!
//! The pods are built by the same code that submits the application and customizes its pods, so that they equal the pods
//! that Spark will create.

use api::{Role, SparkApplicationSpec, annotation, conf, excerpt};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::api::resource::Quantity};
use pods::{Amounts, PodClaim};
use serde::Deserialize;
use serde_json::Value;
use spark_client::{Conf, NotNative, place, read_properties, set_resources};
use std::{collections::BTreeMap, mem};
use submission::pod_templates;
use validation::{Refusal, Validated};

/// The pods that an application will have, and how many of them.
#[derive(Clone, Debug)]
pub struct PodRequests {
    pub driver: PlannedPod,
    pub executor: PlannedPod,
    /// The number of executors that the driver creates at first.
    pub initial: u32,
    /// The greatest number of executors. If dynamic allocation has no maximum, the initial number, but at least 1,
    /// because the application cannot work without an executor.
    pub greatest: u32,
    /// Whether dynamic allocation changes the number of executors with the work.
    pub is_dynamic: bool,
    /// The component that creates the executors' pods; `direct` means the driver itself.
    pub allocator: String,
}

/// A pod as the operator expects it.
#[derive(Clone, Debug)]
pub struct PlannedPod {
    /// The resources of the pod as quotas count them. If Spark's container has no CPU limit, it counts as limited to its cores, as in Kubeflow's
    /// operator: if a quota limits `limits.cpu`, Kubernetes accepts no container without a limit, and the limit that a
    /// LimitRange may add is not known here.
    pub claim: PodClaim,
    /// The labels of the pod, except those that Spark adds in addition to `spark-role`.
    pub labels: BTreeMap<String, String>,
    /// The annotations of the pod, except those that Spark and the operator add.
    pub annotations: BTreeMap<String, String>,
    /// The `spec` of the pod, as far as template and customizations determine it, with the resources that Spark sets.
    pub spec: Value,
    /// The index of the container in `spec` in which Spark runs.
    pub sparks_container: usize,
}

impl PodRequests {
    /// Returns the pods of a run of `application`. `defaults` is the text of the admin's `spark-defaults.conf`,
    /// which all other properties override. `asker` is what needs the requests, as an error names it.
    ///
    /// # Errors
    ///
    /// When the value of a property is not a number, or contains a reference that only Spark replaces when it runs; and when
    /// pods would be invalid for Kubernetes, or the webhook would deny them.
    pub fn of(application: &Validated, defaults: &str, asker: &str) -> Result<Self, Refusal> {
        let malformed = |why| refusal("spark-defaults.conf".to_owned(), why);
        let defaults = read_properties(defaults).map_err(malformed)?;
        let (conf, [driver, executor]) = submission::starting_point(application, defaults);
        let spark = Spark { spec: &application.spec, conf, asker };
        let driver = planned(&spark, Role::Driver, driver)?;
        let executor = planned(&spark, Role::Executor, executor)?;
        let number = |number: i32| u32::try_from(number).unwrap_or(0);
        let instances = spark.count(conf::EXECUTOR_INSTANCES)?;
        let is_dynamic =
            spark.conf.boolean(conf::DYNAMIC_ALLOCATION).map_err(|problem| spark.unknown(problem))?;
        let is_dynamic = is_dynamic == Some(true);
        // As Spark's `SchedulerBackendUtils` and `Utils.getDynamicAllocationInitialExecutors`.
        let (initial, greatest) = if is_dynamic {
            let least = spark.count(conf::DYNAMIC_ALLOCATION_MIN)?;
            let initial = [least, spark.count(conf::DYNAMIC_ALLOCATION_INITIAL)?, instances];
            let initial = number(initial.into_iter().flatten().max().unwrap_or(0));
            let most = spark.count(conf::DYNAMIC_ALLOCATION_MAX)?;
            (initial, most.map_or(initial.max(1), number))
        } else {
            let instances = number(instances.unwrap_or(INSTANCES));
            (instances, instances)
        };
        Ok(Self {
            driver,
            executor,
            initial,
            greatest,
            is_dynamic,
            allocator: spark.conf.raw(conf::PODS_ALLOCATOR).unwrap_or(conf::DIRECT).to_owned(),
        })
    }

    /// Returns the sum of the requests of the driver and of this number of executors.
    pub fn sum(&self, executors: u32) -> Amounts {
        let mut sum = self.driver.claim.requests().clone();
        for (name, amount) in self.executor.claim.requests() {
            let of_all = amount.saturating_mul(executors.into());
            let entry = sum.entry(name.clone()).or_default();
            *entry = entry.saturating_add(of_all);
        }
        sum
    }
}

/// Returns a pod of `role` that Spark creates from `template` and that the webhook customizes.
fn planned(spark: &Spark, role: Role, mut template: Value) -> Result<PlannedPod, Refusal> {
    let failed = |why: String| no_pod(role, why);
    if let Some(annotations) = template["metadata"]["annotations"].as_object_mut() {
        // The operator sets this annotation, not the user, and its value is incomplete before the application is
        // stored: the uid is missing.
        annotations.remove(annotation::OWNER_REFERENCE);
    }
    place(&mut template["spec"], role, &spark.conf);
    let containers = &mut template["spec"]["containers"];
    let image = spark.conf.raw(&conf::kubernetes(role, conf::CONTAINER_IMAGE));
    let image = image.or_else(|| spark.conf.raw(conf::IMAGE));
    let sparks = pod_templates::sparks_container(containers, role);
    let container = &mut containers[sparks];
    for (field, value) in [("image", image), ("imagePullPolicy", spark.conf.raw(conf::IMAGE_PULL_POLICY))] {
        if let Some(value) = value {
            container[field] = value.into();
        }
    }
    let resources = set_resources(&spark.conf, &spark.spec.main_application_file, role, container);
    resources.map_err(|problem| spark.unknown(problem))?;
    let mut customized = pod_templates::as_by_the_webhook(template, role, sparks).map_err(failed)?;
    let mut pod = Pod::deserialize(&customized).map_err(|error| failed(error.to_string()))?;
    let metadata = mem::take(&mut pod.metadata);
    if let Some(container) = pod.spec.as_mut().and_then(|spec| spec.containers.get_mut(sparks)) {
        let cores = spark.conf.raw(&conf::spark(role, conf::CORES)).unwrap_or("1");
        let limits = container.resources.get_or_insert_default().limits.get_or_insert_default();
        limits.entry("cpu".to_owned()).or_insert_with(|| Quantity(cores.trim().to_owned()));
    }
    let with_properties = |entries: Option<BTreeMap<String, String>>, prefix: &str| {
        let prefix = conf::kubernetes(role, prefix);
        let of_properties = spark.conf.prefixed(&prefix);
        let of_properties = of_properties.map(|(name, value)| (name.to_owned(), value.to_owned()));
        entries.into_iter().flatten().chain(of_properties).collect()
    };
    let mut annotations: BTreeMap<_, _> = with_properties(metadata.annotations, conf::ANNOTATION_PREFIX);
    annotations.retain(|name, _| !name.starts_with(annotation::PREFIX));
    Ok(PlannedPod {
        claim: PodClaim::of(pod),
        labels: with_properties(metadata.labels, conf::LABEL_PREFIX),
        annotations,
        spec: customized["spec"].take(),
        sparks_container: sparks,
    })
}

/// Returns the refusal of an application whose pods of this role cannot exist.
pub fn no_pod(role: Role, why: String) -> Refusal {
    refusal(format!("spec.{role}"), excerpt::explanation(why))
}

fn refusal(field: String, why: String) -> Refusal {
    Refusal(vec![submission::findings::Invalid { field, why }])
}

/// Spark's default for the number of executors.
const INSTANCES: i32 = 2;

/// The inputs of Spark's computation of the number of executors and of the requests of its containers: the spec of the
/// application, and the properties, some of which do not come from the spec.
struct Spark<'a> {
    spec: &'a SparkApplicationSpec,
    conf: Conf,
    asker: &'a str,
}

impl Spark<'_> {
    fn count(&self, key: &str) -> Result<Option<i32>, Refusal> {
        self.conf.int(key).map_err(|problem| self.unknown(problem))
    }

    /// Returns the refusal for a property that Spark would refuse, or whose value only Spark knows.
    fn unknown(&self, problem: NotNative) -> Refusal {
        let (NotNative::Refused { field: key, why } | NotNative::Fallback { field: key, why, .. }) = problem;
        let field = submission::field_of(self.spec, "spec", &key);
        let is_of_admin = field == key && self.conf.raw(&key).is_some();
        let place = if is_of_admin { " in the administrator's spark-defaults.conf" } else { "" };
        let (why, asker) = (excerpt::explanation(why), self.asker);
        let why = format!("{why}, and {asker} need its value before Spark runs: write the value itself");
        refusal(format!("{field}{place}"), why)
    }
}
