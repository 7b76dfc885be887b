//! Defines `SparkApplication`: a Spark program that is run once, and again if its restart policy requires that.

use std::collections::BTreeMap;

use api_derive::kubernetes_json;
use k8s_openapi::{
    api::{core::v1::Volume, networking::v1::IngressTLS},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::OwnerReference},
};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DriverSpec, Embedded, ExecutorSpec, Identity, SparkApplicationStatus, State, annotation};

/// The Spark program to run, and how.
#[kubernetes_json]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "sparkoperator.k8s.io",
    version = "v1beta2",
    kind = "SparkApplication",
    shortname = "sparkapp",
    namespaced,
    status = "SparkApplicationStatus",
    derive = "PartialEq",
    doc = "A Spark program that the operator submits, watches, retries and reports on."
)]
#[serde(remote = "Self")]
#[schemars(extend("required" = ["driver", "executor", "mainApplicationFile", "sparkVersion", "type"]))]
pub struct SparkApplicationSpec {
    /// Set to true to stop the application: its pods are deleted and none are made until it is set to false
    /// again, which runs it anew. Default: false.
    pub suspend: Option<bool>,
    /// Language of the program.
    #[serde(rename = "type")]
    pub application_type: ApplicationType,
    /// Version of Spark in the image, for instance `4.0.1`.
    pub spark_version: String,
    /// Where the driver runs. `cluster`, the default: in a pod of its own. `client` would be inside the
    /// operator and is refused.
    pub mode: DeployMode,
    /// User to impersonate when talking to Hadoop. Becomes `--proxy-user`.
    pub proxy_user: Option<String>,
    /// Container image of driver and executors, unless they name their own. Becomes
    /// `spark.kubernetes.container.image`.
    pub image: Option<String>,
    /// When nodes pull the image: `Always`, `IfNotPresent` or `Never`. Default: Spark's, which is
    /// `IfNotPresent`. Becomes `spark.kubernetes.container.image.pullPolicy`.
    pub image_pull_policy: Option<String>,
    /// Names of the Secrets with the registry's credentials. Becomes
    /// `spark.kubernetes.container.image.pullSecrets`.
    pub image_pull_secrets: Vec<String>,
    /// Class whose main function is run; Java and Scala only.
    pub main_class: Option<String>,
    /// The program: a jar, a Python or an R file. `local://` means a path inside the image.
    pub main_application_file: String,
    /// Arguments of the program.
    pub arguments: Vec<String>,
    /// Any Spark properties, as with `--conf`. A field of this object that stands for the same property wins.
    pub spark_conf: BTreeMap<String, String>,
    /// Any Hadoop properties. Each becomes `spark.hadoop.<key>`.
    pub hadoop_conf: BTreeMap<String, String>,
    /// Name of a ConfigMap with files such as `log4j2.properties`; mounted in driver and executors,
    /// `SPARK_CONF_DIR` points to it.
    pub spark_config_map: Option<String>,
    /// Name of a ConfigMap with files such as `core-site.xml`; mounted in driver and executors,
    /// `HADOOP_CONF_DIR` points to it.
    pub hadoop_config_map: Option<String>,
    /// Volumes that `driver.volumeMounts` and `executor.volumeMounts` refer to by name: Kubernetes Volumes.
    pub volumes: Vec<Embedded<Volume>>,
    /// The driver: the pod that runs the program's main function and requests executors. `{}` is enough.
    pub driver: DriverSpec,
    /// The executors: the pods that do the work. `{}` is enough.
    pub executor: ExecutorSpec,
    /// What the program needs beside its main file.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub deps: Dependencies,
    /// Whether, how often and how soon the program is run again.
    pub restart_policy: RestartPolicy,
    /// Labels that the nodes of driver and executors must have. Each becomes
    /// `spark.kubernetes.node.selector.<key>`. Not together with a nodeSelector of the driver or the
    /// executors.
    pub node_selector: BTreeMap<String, String>,
    /// Without effect, kept for old manifests: use `restartPolicy.onFailureRetries`.
    pub failure_retries: Option<i32>,
    /// Without effect, kept for old manifests: use `restartPolicy.onFailureRetryInterval`.
    pub retry_interval: Option<i64>,
    /// Major version of Python. Becomes `spark.kubernetes.pyspark.pythonVersion`, for which Spark 3.1 and later accept
    /// only `3`, without any effect.
    #[schemars(extend("enum" = ["2", "3"]))]
    pub python_version: Option<String>,
    /// Memory overhead (memory outside the heap) as a fraction of the heap, for instance `"0.2"`. Default: Spark's,
    /// which is 0.1, and 0.4 for Python and R. Becomes `spark.kubernetes.memoryOverheadFactor`.
    pub memory_overhead_factor: Option<String>,
    /// Metrics of driver and executors for Prometheus.
    pub monitoring: Option<MonitoringSpec>,
    /// Batch scheduler that places the pods together: `volcano`, `yunikorn`, `kubernetes` or a
    /// kube-scheduler that the operator knows.
    pub batch_scheduler: Option<String>,
    /// Options of the batch scheduler.
    pub batch_scheduler_options: Option<BatchSchedulerOptions>,
    /// Seconds after its end at which the application is deleted, with all that belongs to it; 0 means at
    /// once. Default: never.
    pub time_to_live_seconds: Option<i64>,
    /// The Service and the Ingress of Spark's web UI.
    #[serde(rename = "sparkUIOptions")]
    pub spark_ui_options: Option<PortExposure>,
    /// Further ports of the driver to be reached from outside, each with a Service and an Ingress of its own.
    // The operator creates a Service and an Ingress for each entry.
    #[schemars(length(max = 100))]
    pub driver_ingress_options: Vec<DriverIngressOptions>,
    /// Dynamic allocation of executors.
    pub dynamic_allocation: Option<DynamicAllocation>,
    /// Whether a PodDisruptionBudget keeps node drains from evicting the driver; the operator's administrator
    /// must have allowed it. Default: false.
    pub driver_pod_disruption_budget: Option<bool>,
}

super::nulls::reads_null_as_absent!("spec": SparkApplicationSpec);

crate::words! {
    /// Language of a program. Spark gives Python and R more memory overhead.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    pub enum ApplicationType {
        /// A jar, with a main class.
        Java = "Java",
        /// A `.py` file.
        Python = "Python",
        /// A jar, with a main class.
        #[default]
        Scala = "Scala",
        /// A `.R` file.
        R = "R",
    }
}

/// Where the driver runs. Becomes `--deploy-mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeployMode {
    /// In a pod of its own.
    #[default]
    Cluster,
    /// Inside the operator, which refuses it.
    Client,
}

/// What a program needs beside its main file. `local://` means a path inside the image.
#[kubernetes_json]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dependencies {
    /// Jars on the class path of driver and executors. Becomes `--jars`.
    pub jars: Vec<String>,
    /// Files in the working directory of driver and executors. Becomes `--files`.
    pub files: Vec<String>,
    /// `.py`, `.zip` and `.egg` files on the Python path. Becomes `--py-files`.
    pub py_files: Vec<String>,
    /// Maven coordinates `group:artifact:version` of jars, fetched with what they need. Becomes `--packages`.
    pub packages: Vec<String>,
    /// Maven coordinates `group:artifact` of jars that `packages` is not to bring. Becomes
    /// `--exclude-packages`.
    pub exclude_packages: Vec<String>,
    /// Maven repositories to look in beside the usual ones. Becomes `--repositories`.
    pub repositories: Vec<String>,
    /// Archives unpacked into the working directory of the executors. Becomes `--archives`.
    pub archives: Vec<String>,
}

impl SparkApplication {
    /// Returns the state of the application; [`State::New`] if no status is recorded.
    pub fn state(&self) -> State {
        self.status.as_ref().map_or(State::New, |status| status.application_state.state)
    }

    /// Returns whether the operator has processed the newest spec and the newest request for another run (annotation
    /// [`annotation::RERUN`]). Until then the status describes the application before the edit or the request.
    ///
    /// Kubeflow's operator records neither of the two, so its applications always count as settled.
    pub fn is_settled(&self) -> bool {
        let status = self.status.as_ref();
        let seen = status.and_then(|status| status.observed_generation);
        let is_newest = seen.zip(self.metadata.generation).is_none_or(|(seen, now)| seen >= now);
        let annotations = self.metadata.annotations.as_ref();
        let rerun = annotations.and_then(|annotations| annotations.get(annotation::RERUN));
        is_newest && (rerun.is_none() || rerun == status.and_then(|status| status.last_rerun.as_ref()))
    }

    /// Returns whether the last run is over and no other run follows unless the user changes the application: its state
    /// is COMPLETED or FAILED, and it [is settled](Self::is_settled).
    pub fn has_ended(&self) -> bool {
        self.is_settled() && matches!(self.state(), State::Completed | State::Failed)
    }
}

/// Returns the owner reference to `owner`, an application for instance. The objects that are created for it contain the
/// reference, so that Kubernetes deletes them together with the owner.
pub fn owner_reference<K: kube_core::Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.own_name().to_owned(),
        uid: owner.own_uid().to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Returns the text of an optional field; `None` if the text is empty, because Helm charts write an empty string for a
/// value that is not set. `sparkConf` may then still set the same property.
pub fn stated(text: &Option<String>) -> Option<&String> {
    text.as_ref().filter(|text| !text.is_empty())
}

/// Whether, how often and how soon a program is run again.
#[kubernetes_json]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RestartPolicy {
    /// `Never`, the default: one run; `OnFailure`: again after a failure, as often as the two retry counts
    /// say; `Always`: again whatever the outcome, without end.
    #[serde(rename = "type")]
    pub restart_type: RestartPolicyType,
    /// Number of times that a failed submission is tried again, with `OnFailure`. Default: 0.
    #[schemars(range(min = 0))]
    pub on_submission_failure_retries: Option<i32>,
    /// Number of times that a failed run is tried again, with `OnFailure`. Default: 0.
    #[schemars(range(min = 0))]
    pub on_failure_retries: Option<i32>,
    /// Seconds to wait after a failed submission, times the number of submissions so far. Default: 5.
    #[schemars(range(min = 1))]
    pub on_submission_failure_retry_interval: Option<i64>,
    /// Seconds to wait after a failed run, times the number of submissions so far. Default: 5.
    #[schemars(range(min = 1))]
    pub on_failure_retry_interval: Option<i64>,
}

/// When a program is run again; see [`RestartPolicy::restart_type`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RestartPolicyType {
    /// One run.
    #[default]
    Never,
    /// Again whatever the outcome, without end.
    Always,
    /// Again after a failure, so many times.
    OnFailure,
}

/// Options of the batch scheduler.
#[kubernetes_json]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BatchSchedulerOptions {
    /// Queue that the application waits in.
    pub queue: Option<String>,
    /// Name of the PriorityClass of the group of pods. Volcano only.
    pub priority_class_name: Option<String>,
    /// Resources that must be free before any pod is placed, as Kubernetes quantities by resource name.
    /// Volcano only. Default: the sum of driver and executors.
    #[schemars(with = "BTreeMap<String, Embedded<Quantity>>")]
    pub resources: BTreeMap<String, Quantity>,
}

/// Metrics of driver and executors for Prometheus.
#[kubernetes_json]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["exposeDriverMetrics", "exposeExecutorMetrics"]))]
pub struct MonitoringSpec {
    /// Whether the driver exposes metrics.
    pub expose_driver_metrics: bool,
    /// Whether the executors expose metrics.
    pub expose_executor_metrics: bool,
    /// Content of Spark's `metrics.properties`. Default: JMX for driver and executors.
    pub metrics_properties: Option<String>,
    /// Path of a `metrics.properties` inside the image, instead of `metricsProperties`. Becomes
    /// `spark.metrics.conf`.
    pub metrics_properties_file: Option<String>,
    /// The Prometheus JMX exporter, which runs as a Java agent in driver and executors. Without it,
    /// `monitoring` sets Spark's `metrics.properties` alone.
    pub prometheus: Option<PrometheusSpec>,
}

/// The Prometheus JMX exporter.
#[kubernetes_json]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["jmxExporterJar"]))]
pub struct PrometheusSpec {
    /// Path of the exporter's jar inside the image.
    pub jmx_exporter_jar: String,
    /// Port that metrics are served on, 1024 to 49151. Default: 8090.
    #[schemars(range(min = 1024, max = 49151))]
    pub port: Option<i32>,
    /// Name of that port of the container. Default: `jmx-exporter`.
    pub port_name: Option<String>,
    /// Path of the exporter's configuration inside the image, instead of `configuration`.
    pub config_file: Option<String>,
    /// The exporter's configuration, as YAML. Default: one that names Spark's metrics `spark_…`.
    pub configuration: Option<String>,
}

/// The Service and the Ingress of a port of the driver.
#[kubernetes_json]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PortExposure {
    /// Port of the Service; in `driverIngressOptions` required, and also that of the driver. Default in
    /// `sparkUIOptions`: 4040; without this whole section, the sparkConf entry `spark.ui.port`.
    pub service_port: Option<i32>,
    /// Name of that port; required in `driverIngressOptions`. Default in `sparkUIOptions`:
    /// `spark-driver-ui-port`.
    pub service_port_name: Option<String>,
    /// Type of the Service. Default: `ClusterIP`.
    pub service_type: Option<String>,
    /// Annotations of the Service.
    pub service_annotations: BTreeMap<String, String>,
    /// Labels of the Service.
    pub service_labels: BTreeMap<String, String>,
    /// Annotations of the Ingress. Default: those that the operator was started with.
    pub ingress_annotations: BTreeMap<String, String>,
    /// Hosts of the Ingress and the Secrets with their certificates: Kubernetes IngressTLS. Default: those
    /// that the operator was started with.
    #[serde(rename = "ingressTLS")]
    pub ingress_tls: Vec<Embedded<IngressTLS>>,
}

/// A port of the driver to be reached from outside.
#[kubernetes_json]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["servicePort", "servicePortName"]))]
pub struct DriverIngressOptions {
    /// The fields that the web UI has, too; in the manifest they are at the same level as `ingressURLFormat`.
    #[serde(flatten)]
    pub exposure: PortExposure,
    /// Address of the Ingress, for instance `{{$appName}}.example.com/{{$appNamespace}}`; `{{$appId}}` is
    /// Spark's own id.
    #[serde(rename = "ingressURLFormat")]
    pub ingress_url_format: Option<String>,
}

/// Dynamic allocation of executors.
#[kubernetes_json]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DynamicAllocation {
    /// Whether the number of executors follows the work. Default: false. Becomes
    /// `spark.dynamicAllocation.enabled`.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub enabled: bool,
    /// Number of executors at the start. Default: the larger of `minExecutors` and `executor.instances`.
    /// Becomes `spark.dynamicAllocation.initialExecutors`.
    pub initial_executors: Option<i32>,
    /// Lower bound of the number of executors. Default: 0. Becomes `spark.dynamicAllocation.minExecutors`.
    pub min_executors: Option<i32>,
    /// Upper bound of the number of executors. Default: none. Becomes `spark.dynamicAllocation.maxExecutors`.
    pub max_executors: Option<i32>,
    /// Whether executors with shuffle data that is still needed stay, so that no external shuffle service is
    /// needed. Default: true. Becomes `spark.dynamicAllocation.shuffleTracking.enabled`.
    pub shuffle_tracking_enabled: Option<bool>,
    /// Milliseconds after which executors with shuffle data may be removed nevertheless. Default: none. Becomes
    /// `spark.dynamicAllocation.shuffleTracking.timeout`.
    pub shuffle_tracking_timeout: Option<i64>,
}
