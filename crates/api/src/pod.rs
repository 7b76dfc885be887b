//! Defines the spec fields of the pods that Spark runs in: those that driver and executors share, and those that each
//! has of its own.

use std::collections::BTreeMap;

use api_derive::kubernetes_json;
use k8s_openapi::api::core::v1::{
    Affinity, Container, EnvFromSource, EnvVar, HostAlias, Lifecycle, PodDNSConfig, PodSecurityContext,
    PodTemplateSpec, SecurityContext, Toleration, VolumeMount,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Embedded, embedded};

/// The driver: the process that runs the application's main function and requests executors.
#[kubernetes_json]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DriverSpec {
    /// The fields that driver and executors share; in the manifest they are at the same level as these.
    #[serde(flatten)]
    pub pod: SparkPodSpec,

    /// Name of the driver's pod. Default: the sparkConf entry `spark.kubernetes.driver.pod.name`, otherwise
    /// the application's name with `-driver` behind it.
    pub pod_name: Option<String>,
    /// Address under which the driver reaches the API server, for instance `https://10.0.0.1:6443`. Default:
    /// `https://kubernetes.default.svc`. Becomes `spark.kubernetes.driver.master`.
    pub kubernetes_master: Option<String>,
    /// Annotations of the Service that Spark makes for its driver. Each becomes
    /// `spark.kubernetes.driver.service.annotation.<key>`.
    pub service_annotations: BTreeMap<String, String>,
    /// Labels of the Service that Spark makes for its driver. Each becomes
    /// `spark.kubernetes.driver.service.label.<key>`.
    pub service_labels: BTreeMap<String, String>,
}

/// The executors: the processes that do the work.
#[kubernetes_json]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExecutorSpec {
    /// The fields that driver and executors share; in the manifest they are at the same level as these.
    #[serde(flatten)]
    pub pod: SparkPodSpec,

    /// Number of executors. Default: 1, unless sparkConf says `spark.executor.instances` or dynamic
    /// allocation is on. Becomes `spark.executor.instances`.
    #[schemars(range(min = 1))]
    pub instances: Option<i32>,
    /// Whether Spark deletes the pods of executors that have ended. Default: true. Becomes
    /// `spark.kubernetes.executor.deleteOnTermination`.
    pub delete_on_termination: Option<bool>,
}

/// The fields that driver and executors share. `<role>` in a conf key is `driver` or `executor`.
#[kubernetes_json]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SparkPodSpec {
    /// Pod to start from: a Kubernetes PodTemplateSpec whose Spark container is called
    /// `spark-kubernetes-driver` or `spark-kubernetes-executor`. The other fields of this section come on top
    /// of it. Needs Spark 3.0. Becomes `spark.kubernetes.<role>.podTemplateFile`.
    #[schemars(schema_with = "embedded::opaque")]
    pub template: Option<Embedded<PodTemplateSpec>>,
    /// Number of cores, whole ones, and the pod's CPU request unless `coreRequest` says otherwise. Default:
    /// 1, unless sparkConf says `spark.<role>.cores`, which this becomes.
    #[schemars(range(min = 1))]
    pub cores: Option<i32>,
    /// CPU request of the pod as a Kubernetes quantity, for instance `200m`: what the scheduler reserves,
    /// while `cores` is what Spark believes to have. Default: `cores`. Becomes
    /// `spark.kubernetes.<role>.request.cores`.
    pub core_request: Option<String>,
    /// CPU limit of the pod as a Kubernetes quantity, for instance `1200m`. Default: none. Becomes
    /// `spark.kubernetes.<role>.limit.cores`.
    pub core_limit: Option<String>,
    /// Heap of the Java virtual machine, in Java's notation: `512m`, `4g`. The pod requests this plus the overhead.
    /// Default: `1g`, unless sparkConf says `spark.<role>.memory`, which this becomes.
    pub memory: Option<String>,
    /// Memory limit of the Spark container, in Java's or Kubernetes' notation: `6g`, `6Gi`. Default: Spark's, which is
    /// `memory` plus the overhead.
    pub memory_limit: Option<String>,
    /// Memory overhead: memory of the pod outside the heap (native memory, Python processes), in Java's notation.
    /// Default: `memory` times `memoryOverheadFactor`, at least 384m. Becomes `spark.<role>.memoryOverhead`.
    pub memory_overhead: Option<String>,
    /// GPUs of the Spark container.
    pub gpu: Option<GpuSpec>,
    /// Container image. Default: the application's `image`. Becomes
    /// `spark.kubernetes.<role>.container.image`.
    pub image: Option<String>,
    /// ConfigMaps to mount into the Spark container.
    pub config_maps: Vec<NamePath>,
    /// Secrets to mount into the Spark container. Each becomes `spark.kubernetes.<role>.secrets.<name>`.
    pub secrets: Vec<SecretInfo>,
    /// Environment variables of the Spark container: Kubernetes EnvVars, so values may come from ConfigMaps,
    /// Secrets and the pod's own fields.
    pub env: Vec<Embedded<EnvVar>>,
    /// Deprecated, use `env`. Environment variables by name. Each becomes `spark.kubernetes.driverEnv.<name>`
    /// or `spark.executorEnv.<name>`.
    pub env_vars: BTreeMap<String, String>,
    /// ConfigMaps and Secrets all of whose entries become environment variables: Kubernetes EnvFromSources.
    pub env_from: Vec<Embedded<EnvFromSource>>,
    /// Deprecated, use `env`. Environment variables by name, each with the Secret's entry that holds its
    /// value. Each becomes `spark.kubernetes.<role>.secretKeyRef.<name>`.
    pub env_secret_key_refs: BTreeMap<String, NameKey>,
    /// Labels of the pod, beside the application's own. Each becomes `spark.kubernetes.<role>.label.<key>`.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the pod. Each becomes `spark.kubernetes.<role>.annotation.<key>`.
    pub annotations: BTreeMap<String, String>,
    /// Where volumes of the application's `volumes` are mounted in the Spark container: Kubernetes
    /// VolumeMounts. A volume whose name begins with `spark-local-dir-` is Spark's scratch space and becomes
    /// `spark.kubernetes.<role>.volumes.*`.
    pub volume_mounts: Vec<Embedded<VolumeMount>>,
    /// Which nodes and which neighbours the pod is attracted to or kept from: a Kubernetes Affinity.
    pub affinity: Option<Embedded<Affinity>>,
    /// Taints of nodes that do not keep the pod away: Kubernetes Tolerations.
    pub tolerations: Vec<Embedded<Toleration>>,
    /// Security settings of the whole pod (fsGroup, runAsUser): a Kubernetes PodSecurityContext.
    pub pod_security_context: Option<Embedded<PodSecurityContext>>,
    /// Security settings of the Spark container (capabilities, read-only file system): a Kubernetes
    /// SecurityContext.
    pub security_context: Option<Embedded<SecurityContext>>,
    /// Name of the scheduler that places the pod. Default: that of the application's `batchScheduler`,
    /// otherwise the cluster's.
    pub scheduler_name: Option<String>,
    /// Containers that run beside the Spark container: Kubernetes Containers.
    pub sidecars: Vec<Embedded<Container>>,
    /// Containers that run to their end before the Spark container starts: Kubernetes Containers.
    pub init_containers: Vec<Embedded<Container>>,
    /// Whether the pod uses the network of its node. Default: false.
    pub host_network: Option<bool>,
    /// Labels that a node must have. Not together with the application's `nodeSelector`.
    pub node_selector: BTreeMap<String, String>,
    /// Name servers and search domains beside the cluster's: a Kubernetes PodDNSConfig.
    pub dns_config: Option<Embedded<PodDNSConfig>>,
    /// Seconds between the request to stop and the end of the pod. Default: Kubernetes', which is 30.
    pub termination_grace_period_seconds: Option<i64>,
    /// Name of the ServiceAccount that the pod runs as; the driver's must be allowed to create pods. Default: for
    /// drivers that of --default-service-account, else the namespace's `default`. Becomes
    /// `spark.kubernetes.authenticate.<role>.serviceAccountName`.
    pub service_account: Option<String>,
    /// Lines for the pod's `/etc/hosts`: Kubernetes HostAliases.
    pub host_aliases: Vec<Embedded<HostAlias>>,
    /// Whether the containers of the pod see each other's processes. Default: false.
    pub share_process_namespace: Option<bool>,
    /// Further options of the Java virtual machine; not its heap, which is `memory`. Becomes
    /// `spark.<role>.extraJavaOptions`.
    pub java_options: Option<String>,
    /// What is to run after the Spark container has started and before it is stopped: a Kubernetes Lifecycle.
    pub lifecycle: Option<Embedded<Lifecycle>>,
    /// Ports that the Spark container opens beside Spark's own.
    pub ports: Vec<Port>,
    /// Name of the PriorityClass of the pod.
    pub priority_class_name: Option<String>,
}

impl SparkPodSpec {
    /// Returns the user's template; `null` if there is none.
    pub fn template(&self) -> &Value {
        self.template.as_ref().map_or(&Value::Null, Embedded::json)
    }
}

/// A ConfigMap and where it is mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["name", "path"]))]
pub struct NamePath {
    /// Name of the object, in the application's namespace.
    pub name: String,
    /// Directory that it is mounted at, in which every entry becomes a file.
    pub path: String,
}

/// An entry of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["key", "name"]))]
pub struct NameKey {
    /// Name of the Secret, in the application's namespace.
    pub name: String,
    /// Key of the entry.
    pub key: String,
}

/// A Secret, where it is mounted and what it is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name", "path", "secretType"]))]
pub struct SecretInfo {
    /// Name of the Secret, in the application's namespace.
    pub name: String,
    /// Directory that it is mounted at, in which every entry becomes a file.
    pub path: String,
    /// What the Secret is for. `GCPServiceAccount`: `GOOGLE_APPLICATION_CREDENTIALS` names its file
    /// `key.json`; `HadoopDelegationToken`: `HADOOP_TOKEN_FILE_LOCATION` names its file `hadoop.token`;
    /// `Generic` or any other: it is only mounted.
    pub secret_type: SecretType,
}

/// The purpose of a mounted Secret; see [`SecretInfo::secret_type`]. Any string is allowed, as in Kubeflow's
/// operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(with = "String")]
pub enum SecretType {
    /// A key of a service account of Google Cloud, `key.json`.
    #[serde(rename = "GCPServiceAccount")]
    GcpServiceAccount,
    /// Hadoop's delegation tokens, `hadoop.token`.
    HadoopDelegationToken,
    /// Anything: it is only mounted.
    #[default]
    Generic,
    /// Any other string, which means the same as `Generic`.
    #[serde(untagged)]
    Other(String),
}

/// GPUs of a Spark container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["name", "quantity"]))]
pub struct GpuSpec {
    /// Name of the extended resource, for instance `nvidia.com/gpu`.
    pub name: String,
    /// Number of them for each pod.
    pub quantity: i64,
}

/// A port that a Spark container opens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["containerPort", "name", "protocol"]))]
pub struct Port {
    /// Name of the port, unique in the pod.
    pub name: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Number of the port.
    pub container_port: i32,
}
