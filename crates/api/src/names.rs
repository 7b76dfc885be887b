//! Defines every label, annotation, finalizer, container, volume, environment variable and configuration key once.

pub mod batch_scheduler;
pub mod role;
pub mod submit_conf;

/// Labels on pods and on the objects that the operator creates for an application.
pub mod label {
    /// The name of the SparkApplication; on pods, Services, Ingresses and PodDisruptionBudgets.
    pub const APP_NAME: &str = "sparkoperator.k8s.io/app-name";
    /// The name of the ScheduledSparkApplication that created a SparkApplication; on the SparkApplication and its pods.
    pub const SCHEDULED_APP_NAME: &str = "sparkoperator.k8s.io/scheduled-app-name";
    /// The name of the SparkConnect; on all objects that the operator creates for a server, and on its executors.
    pub const CONNECT_NAME: &str = "sparkoperator.k8s.io/connect-name";
    /// `status.submissionID` of the run that the object belongs to.
    pub const SUBMISSION_ID: &str = "sparkoperator.k8s.io/submission-id";
    /// `"true"` on driver, executor and submission pods; the operator's watch of pods selects by this label.
    pub const LAUNCHED_BY: &str = "sparkoperator.k8s.io/launched-by-spark-operator";
    /// `"true"` on pods without a user's template. Nothing reads this label; it is kept because Kubeflow's operator
    /// sets it.
    pub const MUTATED_BY: &str = "sparkoperator.k8s.io/mutated-by-spark-operator";
    /// `"true"` on the objects other than pods that the operator creates: Services, Ingresses, the ConfigMap of an
    /// application's monitoring. The operator's watch of Services selects by this label.
    pub const CREATED_BY: &str = "sparkoperator.k8s.io/created-by-spark-operator";
    /// Set by Spark: [`DRIVER`](super::role::DRIVER) or [`EXECUTOR`](super::role::EXECUTOR). Set by the operator on
    /// submission pods: [`SUBMISSION`](super::role::SUBMISSION), which Spark does not know.
    pub const SPARK_ROLE: &str = "spark-role";
    /// Spark's application id (`spark-…`).
    pub const SPARK_APP_SELECTOR: &str = "spark-app-selector";
    /// Set by Spark: the version of Spark that submitted the application.
    pub const SPARK_VERSION: &str = "spark-version";
    /// Set by Spark: the application's name, as far as a label can hold it.
    pub const SPARK_APP_NAME: &str = "spark-app-name";
    /// The number of an executor within its application, from 1. Set by Spark.
    pub const SPARK_EXEC_ID: &str = "spark-exec-id";
    /// Set by Kubernetes on each namespace: the name of the namespace.
    pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
    /// Kubernetes' recommended label for the name of the program in a pod.
    pub const PROGRAM: &str = "app.kubernetes.io/name";
    /// Kubernetes' recommended label for the program that manages an object. `sparkctl` sets it on the ConfigMaps that
    /// it creates.
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// Set by users on a SparkApplication: the queue of Kueue in which the application waits for quota.
    pub const QUEUE_NAME: &str = "kueue.x-k8s.io/queue-name";
    /// On the driver's and the executors' pods of an application, as long as Kueue admits it.
    pub const POD_SET: &str = "kueue.x-k8s.io/podset";
    /// Labels with this prefix belong to Kueue and are not copied from the application to its pods.
    pub const KUEUE_PREFIX: &str = "kueue.x-k8s.io/";
    /// On an EndpointSlice, read by Kubernetes: the name of the Service that it belongs to.
    pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
    /// On an EndpointSlice: the program that manages it. Kubernetes leaves those of other programs alone.
    pub const ENDPOINT_SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
}

/// The annotation contract (version [`CONTRACT_VERSION`](annotation::CONTRACT_VERSION)): the annotations of a Spark pod
/// define how the webhook changes the pod. Each annotation covers one concern; its value is JSON of a Kubernetes type.
pub mod annotation {
    /// The prefix of every annotation of the contract.
    pub const PREFIX: &str = "sparkoperator.k8s.io/";
    /// The contract's version; a webhook denies a pod whose version is newer than the one it knows.
    pub const CONTRACT: &str = "sparkoperator.k8s.io/contract";
    /// The contract version that the operator writes and understands.
    pub const CONTRACT_VERSION: u32 = 1;

    /// `OwnerReference` to the application, on the driver only. Executors are owned by their driver.
    pub const OWNER_REFERENCE: &str = "sparkoperator.k8s.io/owner-reference";
    /// `[EnvVar]` of the Spark container.
    pub const ENV: &str = "sparkoperator.k8s.io/env";
    /// `[EnvFromSource]` of the Spark container.
    pub const ENV_FROM: &str = "sparkoperator.k8s.io/env-from";
    /// Name of the ConfigMap that is mounted at [`HADOOP_CONF`](super::path::HADOOP_CONF).
    pub const HADOOP_CONFIG_MAP: &str = "sparkoperator.k8s.io/hadoop-config-map";
    /// Name of the ConfigMap that is mounted at [`SPARK_CONF`](super::path::SPARK_CONF).
    pub const SPARK_CONFIG_MAP: &str = "sparkoperator.k8s.io/spark-config-map";
    /// `[{name, path}]`: further ConfigMaps and the paths at which they are mounted.
    pub const CONFIG_MAPS: &str = "sparkoperator.k8s.io/config-maps";
    /// `[Volume]` of the pod.
    pub const VOLUMES: &str = "sparkoperator.k8s.io/volumes";
    /// `[VolumeMount]` of the Spark container.
    pub const VOLUME_MOUNTS: &str = "sparkoperator.k8s.io/volume-mounts";
    /// `[ContainerPort]` of the Spark container.
    pub const PORTS: &str = "sparkoperator.k8s.io/ports";
    /// `true`: the pod has the network of its node.
    pub const HOST_NETWORK: &str = "sparkoperator.k8s.io/host-network";
    /// `[HostAlias]`: lines of `/etc/hosts`.
    pub const HOST_ALIASES: &str = "sparkoperator.k8s.io/host-aliases";
    /// `[Container]`: containers that end before the Spark container starts.
    pub const INIT_CONTAINERS: &str = "sparkoperator.k8s.io/init-containers";
    /// `[Container]`: containers that run beside the Spark container.
    pub const SIDECARS: &str = "sparkoperator.k8s.io/sidecars";
    /// `PodDNSConfig`.
    pub const DNS_CONFIG: &str = "sparkoperator.k8s.io/dns-config";
    /// Name of the PriorityClass.
    pub const PRIORITY_CLASS_NAME: &str = "sparkoperator.k8s.io/priority-class-name";
    /// Name of the scheduler that places the pod.
    pub const SCHEDULER_NAME: &str = "sparkoperator.k8s.io/scheduler-name";
    /// Name of the PodGroup of `scheduling.k8s.io` that the pod belongs to, on the driver only. By this annotation the
    /// operator recognises the group that it has created for a driver, so drivers have the annotation without the
    /// webhook too.
    pub const POD_GROUP: &str = "sparkoperator.k8s.io/pod-group";
    /// Name of a scheduling gate: the pod is not placed before the gate is removed. By this annotation the operator
    /// recognises executors of Kubernetes' own gangs that have lost the gate, so they have the annotation without the
    /// webhook too.
    pub const SCHEDULING_GATE: &str = "sparkoperator.k8s.io/scheduling-gate";
    /// `{label: value}`: labels that a node must have.
    pub const NODE_SELECTOR: &str = "sparkoperator.k8s.io/node-selector";
    /// `Affinity`.
    pub const AFFINITY: &str = "sparkoperator.k8s.io/affinity";
    /// `[Toleration]`.
    pub const TOLERATIONS: &str = "sparkoperator.k8s.io/tolerations";
    /// Memory limit of the Spark container: a Kubernetes quantity.
    pub const MEMORY_LIMIT: &str = "sparkoperator.k8s.io/memory-limit";
    /// `{name, quantity}`: the name of the resource, such as `nvidia.com/gpu`, and the number of GPUs.
    pub const GPU: &str = "sparkoperator.k8s.io/gpu";
    /// `{configMap, port, portName}`: the ConfigMap that the JMX exporter reads, and the port at which its metrics are
    /// read.
    pub const PROMETHEUS: &str = "sparkoperator.k8s.io/prometheus";
    /// `SecurityContext` of the Spark container.
    pub const SECURITY_CONTEXT: &str = "sparkoperator.k8s.io/security-context";
    /// `PodSecurityContext`.
    pub const POD_SECURITY_CONTEXT: &str = "sparkoperator.k8s.io/pod-security-context";
    /// Seconds between the request to stop and the end of the pod.
    pub const TERMINATION_GRACE_PERIOD_SECONDS: &str =
        "sparkoperator.k8s.io/termination-grace-period-seconds";
    /// `Lifecycle` of the Spark container.
    pub const LIFECYCLE: &str = "sparkoperator.k8s.io/lifecycle";
    /// `true`: the containers of the pod see each other's processes.
    pub const SHARE_PROCESS_NAMESPACE: &str = "sparkoperator.k8s.io/share-process-namespace";

    /// Not part of the contract: the prefix of Kubernetes' annotations for AppArmor; followed by the name of a container.
    pub const APPARMOR_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
    /// Not part of the contract: Prometheus' convention for whether the metrics of a pod are read.
    pub const SCRAPE: &str = "prometheus.io/scrape";
    /// The port at which Prometheus reads the metrics of a pod with [`SCRAPE`].
    pub const SCRAPE_PORT: &str = "prometheus.io/port";
    /// The path at which Prometheus reads the metrics of a pod with [`SCRAPE`].
    pub const SCRAPE_PATH: &str = "prometheus.io/path";
    /// Not part of the contract; on a SparkApplication: how it is submitted, `auto`, `native` or `spark-submit`.
    pub const SUBMITTER: &str = "sparkoperator.k8s.io/submitter";
    /// Not part of the contract; on a SparkApplication: `"true"` if an edit of fields that executors get from their pod
    /// template applies to executors created later, any other value if such an edit ends the run. Without this
    /// annotation, the admin's setting (`--partial-restart`) counts.
    pub const PARTIAL_RESTART: &str = "sparkoperator.k8s.io/partial-restart";
    /// Not part of the contract; on a driver whose executors' pod template is replaced after edits: the fingerprint of
    /// that template.
    pub const TEMPLATE: &str = "sparkoperator.k8s.io/template";
    /// Not part of the contract; on a SparkApplication: a new value of this annotation starts another run of an
    /// application that has ended.
    pub const RERUN: &str = "sparkoperator.k8s.io/rerun";
    /// Not part of the contract; on a ScheduledSparkApplication: a new value of this annotation creates an application
    /// at once. The new application gets the same annotation.
    pub const TRIGGER: &str = "sparkoperator.k8s.io/trigger";
    /// Not part of the contract; on a server of a SparkConnect: the hash of the settings that its pod was created from.
    pub const SERVER_HASH: &str = "sparkoperator.k8s.io/server-hash";
    /// Not part of the contract; on a SparkConnect: the time at which a connection was open last, in RFC 3339. The
    /// gateway writes it when a client connects, and again while a connection is open. It wakes a sleeping server.
    pub const LAST_CONNECTION: &str = "sparkoperator.k8s.io/last-connection";
    /// Not part of the contract; on a SparkApplication: the slot of the schedule for which the application was created,
    /// in RFC 3339.
    pub const SCHEDULED_TIME: &str = "sparkoperator.k8s.io/scheduled-time";
    /// Not part of the contract; set by users on a SparkApplication for Kueue: `"true"` if the number of its executors may
    /// change while it runs.
    pub const ELASTIC_JOB: &str = "kueue.x-k8s.io/elastic-job";
    /// Not part of the contract; on a CustomResourceDefinition: the version of the operator that has applied it.
    pub const DEFINITION_VERSION: &str = "sparkoperator.k8s.io/definition-version";

    /// Istio's label and annotation: whether its sidecar is injected into a pod, `"true"` or `"false"`.
    pub const ISTIO_INJECT: &str = "sidecar.istio.io/inject";
    /// Linkerd's annotation: whether its sidecar is injected into a pod, `enabled` or `disabled`.
    pub const LINKERD_INJECT: &str = "linkerd.io/inject";

    /// ingress-nginx's annotation: the path that ingress-nginx requests from the backend in place of the path in the
    /// client's request.
    pub const REWRITE_TARGET: &str = "nginx.ingress.kubernetes.io/rewrite-target";
}

/// Finalizers.
pub mod finalizer {
    /// On a driver's pod: keeps the pod until its outcome is recorded in the status of its application.
    pub const DRIVER_OUTCOME: &str = "sparkoperator.k8s.io/driver-outcome";
}

/// Types of conditions of an application, beside those for its states.
pub mod condition {
    /// The run has no executors, because the API server refuses them.
    pub const EXECUTORS_REFUSED: &str = "ExecutorsRefused";
    /// The application is not yet in the state that its spec requires. Flux, Helm and others judge objects by this
    /// condition and by [`STALLED`] (kstatus of kubernetes-sigs/cli-utils); each of the two is present only while it is
    /// true.
    pub const RECONCILING: &str = "Reconciling";
    /// The application has failed and is not retried.
    pub const STALLED: &str = "Stalled";
}

/// Types of conditions of a SparkConnect.
pub mod connect_condition {
    /// Clients can connect; otherwise the reason and the message say why not. Kubeflow's operator has it too.
    pub const SERVER_POD_READY: &str = "ServerPodReady";
    /// The server is stopped because `suspend` is true.
    pub const SUSPENDED: &str = "Suspended";
    /// The server is stopped until a client connects.
    pub const SLEEPING: &str = "Sleeping";
    /// A field of the spec has no effect, because the operator has no gateway.
    pub const GATEWAY_MISSING: &str = "GatewayMissing";
    /// The server has no executors, because the API server refuses them.
    pub const EXECUTORS_REFUSED: &str = "ExecutorsRefused";
    /// The web UI has no Ingress, because the admin's URL format yields no valid URL for this name and namespace.
    pub const INGRESS_MISSING: &str = "IngressMissing";
}

/// Names of the containers that Spark runs in.
pub mod container {
    /// The driver's container.
    pub const DRIVER: &str = "spark-kubernetes-driver";
    /// An executor's container since Spark 3.
    pub const EXECUTOR: &str = "spark-kubernetes-executor";
    /// An executor's container in Spark 2.
    pub const EXECUTOR_SPARK_2: &str = "executor";
    /// The container of a submission pod in which `spark-submit` runs.
    pub const SPARK_SUBMIT: &str = "spark-submit";
    /// All of them.
    pub const ALL: [&str; 4] = [DRIVER, EXECUTOR, EXECUTOR_SPARK_2, SPARK_SUBMIT];
}

/// Names of volumes.
pub mod volume {
    use serde_json::Value;

    /// The name prefix of volumes that are scratch space. Spark itself mounts these volumes; the webhook does not
    /// change them.
    pub const LOCAL_DIR_PREFIX: &str = "spark-local-dir-";
    /// The placeholder in the name of a PersistentVolumeClaim that Spark replaces by a name that only this pod uses.
    pub const ON_DEMAND: &str = "OnDemand";

    /// Returns whether `mount`, an entry of `volumeMounts`, mounts a volume that is scratch space.
    pub fn is_scratch(mount: &Value) -> bool {
        mount["name"].as_str().is_some_and(|name| name.starts_with(LOCAL_DIR_PREFIX))
    }

    /// The volume of a server of Spark Connect with the pod template of its executors.
    pub const CONNECT_CONF: &str = "spark-conf";
    /// The volume of `spec.hadoopConfigMap`.
    pub const HADOOP_CONFIG_MAP: &str = "hadoop-configmap-volume";
    /// The volume of `spec.sparkConfigMap`.
    pub const SPARK_CONFIG_MAP: &str = "spark-configmap-volume";
    /// The part in the name of each PersistentVolumeClaim that Spark creates for a single driver. A number follows it.
    pub const DRIVER_CLAIM: &str = "-driver-pvc-";
    /// Spark's volume for the driver's ConfigMap, which `spark-submit` creates after all other objects.
    pub const SPARK_CONF_DRIVER: &str = "spark-conf-volume-driver";
    /// Spark's volume for the executors' ConfigMap.
    pub const SPARK_CONF_EXECUTOR: &str = "spark-conf-volume-exec";
    /// The suffix that Spark adds to the name of a Secret to name its volume.
    pub const SECRET_SUFFIX: &str = "-volume";
}

/// Paths inside Spark's containers.
pub mod path {
    /// The directory at which `spec.hadoopConfigMap` is mounted.
    pub const HADOOP_CONF: &str = "/etc/hadoop/conf";
    /// The directory at which `spec.sparkConfigMap` is mounted.
    pub const SPARK_CONF: &str = "/etc/spark/conf";
    /// The directory at which the ConfigMap of `spec.monitoring` is mounted.
    pub const METRICS_CONF: &str = "/etc/metrics/conf";
}

/// Environment variables of Spark's containers.
pub mod env {
    /// The directory in which Hadoop's client looks for `core-site.xml` and similar files.
    pub const HADOOP_CONF_DIR: &str = "HADOOP_CONF_DIR";
    /// The directory in which Spark looks for `spark-defaults.conf` and similar files.
    pub const SPARK_CONF_DIR: &str = "SPARK_CONF_DIR";
    /// The path of the key file for Google's clients.
    pub const GOOGLE_APPLICATION_CREDENTIALS: &str = "GOOGLE_APPLICATION_CREDENTIALS";
    /// The user as which Hadoop's client works if no user logs in.
    pub const HADOOP_USER_NAME: &str = "HADOOP_USER_NAME";
    /// The path of the file with Hadoop's delegation tokens.
    pub const HADOOP_TOKEN_FILE_LOCATION: &str = "HADOOP_TOKEN_FILE_LOCATION";
    /// The user that the program runs as, for Spark's UI and for Hadoop.
    pub const SPARK_USER: &str = "SPARK_USER";
    /// Spark's application id (`spark-…`).
    pub const SPARK_APPLICATION_ID: &str = "SPARK_APPLICATION_ID";
    /// The address that the driver listens on.
    pub const SPARK_DRIVER_BIND_ADDRESS: &str = "SPARK_DRIVER_BIND_ADDRESS";
    /// Directories for scratch space, separated by commas.
    pub const SPARK_LOCAL_DIRS: &str = "SPARK_LOCAL_DIRS";
    /// The IP address of the pod of a Spark Connect server.
    pub const POD_IP: &str = "POD_IP";
    /// The token that clients of a server of Spark Connect have to send; Spark 4.1 and later.
    pub const SPARK_CONNECT_AUTHENTICATE_TOKEN: &str = "SPARK_CONNECT_AUTHENTICATE_TOKEN";
    /// JVM options of `spark-submit` itself.
    pub const SPARK_SUBMIT_OPTS: &str = "SPARK_SUBMIT_OPTS";
    /// The Python of the executors, and of the driver unless [`PYSPARK_DRIVER_PYTHON`] is set.
    pub const PYSPARK_PYTHON: &str = "PYSPARK_PYTHON";
    /// The Python of the driver.
    pub const PYSPARK_DRIVER_PYTHON: &str = "PYSPARK_DRIVER_PYTHON";
}

/// Keys of Spark's configuration.
pub mod conf {
    use super::role::Role;

    /// The prefix of all keys; Spark drops a key without this prefix.
    pub const PREFIX: &str = "spark.";
    /// The cluster to submit to, `k8s://https://…`.
    pub const MASTER: &str = "spark.master";
    /// Where the driver runs: `cluster` or `client`.
    pub const DEPLOY_MODE: &str = "spark.submit.deployMode";
    /// The application's name as Spark shows it.
    pub const APP_NAME: &str = "spark.app.name";
    /// The namespace of driver and executors.
    pub const NAMESPACE: &str = "spark.kubernetes.namespace";
    /// The container image of driver and executors.
    pub const IMAGE: &str = "spark.kubernetes.container.image";
    /// When nodes pull the image: `Always`, `IfNotPresent` or `Never`.
    pub const IMAGE_PULL_POLICY: &str = "spark.kubernetes.container.image.pullPolicy";
    /// Names of the Secrets for pulling the image, separated by commas.
    pub const IMAGE_PULL_SECRETS: &str = "spark.kubernetes.container.image.pullSecrets";
    /// Python's major version.
    pub const PYTHON_VERSION: &str = "spark.kubernetes.pyspark.pythonVersion";
    /// Memory overhead (memory outside the heap), as a fraction of the heap.
    pub const MEMORY_OVERHEAD_FACTOR: &str = "spark.kubernetes.memoryOverheadFactor";
    /// Whether `spark-submit` waits for the driver's end: `true` or `false`.
    pub const WAIT_APP_COMPLETION: &str = "spark.kubernetes.submission.waitAppCompletion";
    /// Name of the driver's pod.
    pub const DRIVER_POD_NAME: &str = "spark.kubernetes.driver.pod.name";
    /// URL at which the driver reaches the API server.
    pub const DRIVER_MASTER: &str = "spark.kubernetes.driver.master";
    /// The component that creates the executors' pods: [`DIRECT`], `statefulset`, `deployment`, or the name of a class.
    pub const PODS_ALLOCATOR: &str = "spark.kubernetes.allocation.pods.allocator";
    /// Spark's default for [`PODS_ALLOCATOR`]: the driver itself.
    pub const DIRECT: &str = "direct";
    /// The prefix of the names of the executors' pods.
    pub const EXECUTOR_POD_NAME_PREFIX: &str = "spark.kubernetes.executor.podNamePrefix";
    /// Number of executors.
    pub const EXECUTOR_INSTANCES: &str = "spark.executor.instances";
    /// Whether the pods of executors that have ended are deleted: `true` or `false`.
    pub const EXECUTOR_DELETE_ON_TERMINATION: &str = "spark.kubernetes.executor.deleteOnTermination";
    /// Prefix of Hadoop's configuration; followed by a key of Hadoop's.
    pub const HADOOP_PREFIX: &str = "spark.hadoop.";
    /// Prefix of the node selector of driver and executors; followed by the key of a node label.
    pub const NODE_SELECTOR_PREFIX: &str = "spark.kubernetes.node.selector.";
    /// Prefix of the labels of the driver's Service; followed by the key of a label.
    pub const DRIVER_SERVICE_LABEL_PREFIX: &str = "spark.kubernetes.driver.service.label.";
    /// Prefix of the annotations of the driver's Service; followed by the key of an annotation.
    pub const DRIVER_SERVICE_ANNOTATION_PREFIX: &str = "spark.kubernetes.driver.service.annotation.";
    /// Whether dynamic allocation is on: `true` or `false`.
    pub const DYNAMIC_ALLOCATION: &str = "spark.dynamicAllocation.enabled";
    /// The interval between two heartbeats of an executor to its driver.
    pub const HEARTBEAT_INTERVAL: &str = "spark.executor.heartbeatInterval";
    /// The key that Kubeflow's operator reads instead of [`DYNAMIC_ALLOCATION`]; Spark has no such key.
    pub const DYNAMIC_ALLOCATION_KUBEFLOW: &str = "spark.dynamicallocation.enabled";
    /// Number of executors at the start, under dynamic allocation.
    pub const DYNAMIC_ALLOCATION_INITIAL: &str = "spark.dynamicAllocation.initialExecutors";
    /// Minimum number of executors under dynamic allocation.
    pub const DYNAMIC_ALLOCATION_MIN: &str = "spark.dynamicAllocation.minExecutors";
    /// Maximum number of executors under dynamic allocation.
    pub const DYNAMIC_ALLOCATION_MAX: &str = "spark.dynamicAllocation.maxExecutors";
    /// Path of `metrics.properties`.
    pub const METRICS_CONF: &str = "spark.metrics.conf";
    /// Prefix of the names of metrics.
    pub const METRICS_NAMESPACE: &str = "spark.metrics.namespace";
    /// Whether there is a web UI: `true` or `false`.
    pub const UI_ENABLED: &str = "spark.ui.enabled";
    /// Port of the web UI.
    pub const UI_PORT: &str = "spark.ui.port";
    /// The text that the web UI puts in front of its links: the path under which users reach the UI.
    pub const UI_PROXY_BASE: &str = "spark.ui.proxyBase";
    /// The text that the web UI puts in front of the URLs that it redirects to.
    pub const UI_PROXY_REDIRECT_URI: &str = "spark.ui.proxyRedirectUri";
    /// Whether executors transfer their data to other executors before they are stopped: `true` or `false`.
    pub const DECOMMISSION: &str = "spark.decommission.enabled";
    /// Whether executors are kept while their shuffle data is needed: `true` or `false`.
    pub const SHUFFLE_TRACKING: &str = "spark.dynamicAllocation.shuffleTracking.enabled";
    /// The maximum time for which executors with shuffle data are kept, in Java's notation; a number without a unit
    /// means milliseconds.
    pub const SHUFFLE_TRACKING_TIMEOUT: &str = "spark.dynamicAllocation.shuffleTracking.timeout";

    /// Properties with the tokens by which Spark authenticates to the API server, or with the paths of files that
    /// contain them.
    pub const CREDENTIALS: [&str; 6] = [
        "spark.kubernetes.authenticate.oauthToken",
        "spark.kubernetes.authenticate.oauthTokenFile",
        "spark.kubernetes.authenticate.driver.oauthToken",
        "spark.kubernetes.authenticate.driver.oauthTokenFile",
        "spark.kubernetes.authenticate.executor.oauthToken",
        "spark.kubernetes.authenticate.executor.oauthTokenFile",
    ];

    /// Returns `spark.driver.<suffix>` or `spark.executor.<suffix>`; the suffixes are the constants below.
    pub fn spark(role: Role, suffix: &str) -> String {
        format!("spark.{}.{suffix}", role.as_str())
    }

    /// Prefix of the role's devices; followed by the name of a device, such as `gpu`, then `.amount` and similar.
    pub const RESOURCE_PREFIX: &str = "resource.";
    /// Whole cores, as Spark counts them.
    pub const CORES: &str = "cores";
    /// Size of the heap, in Java's notation; a number without a unit means MiB.
    pub const MEMORY: &str = "memory";
    /// Memory overhead (memory outside the heap), in Java's notation; a number without a unit means MiB.
    pub const MEMORY_OVERHEAD: &str = "memoryOverhead";
    /// Minimum of the memory overhead, in Java's notation; a number without a unit means MiB. Spark 4.0 and later.
    pub const MEMORY_OVERHEAD_LEAST: &str = "minMemoryOverhead";
    /// JVM options.
    pub const EXTRA_JAVA_OPTIONS: &str = "extraJavaOptions";

    /// Returns `spark.kubernetes.driver.<suffix>` or `spark.kubernetes.executor.<suffix>`; the suffixes are the
    /// constants below. A suffix that ends in a dot is followed by a name.
    pub fn kubernetes(role: Role, suffix: &str) -> String {
        format!("spark.kubernetes.{}.{suffix}", role.as_str())
    }

    /// The container image.
    pub const CONTAINER_IMAGE: &str = "container.image";
    /// CPU request: a Kubernetes quantity.
    pub const REQUEST_CORES: &str = "request.cores";
    /// CPU limit: a Kubernetes quantity.
    pub const LIMIT_CORES: &str = "limit.cores";
    /// Path of the file with the pod template.
    pub const POD_TEMPLATE_FILE: &str = "podTemplateFile";
    /// Name of the Spark container in the pod template.
    pub const POD_TEMPLATE_CONTAINER: &str = "podTemplateContainerName";
    /// The prefix of the labels of the pod; followed by the key of a label.
    pub const LABEL_PREFIX: &str = "label.";
    /// The prefix of the annotations of the pod; followed by the key of an annotation.
    pub const ANNOTATION_PREFIX: &str = "annotation.";
    /// The prefix of mounted Secrets; followed by the name of a Secret. The value is the path of the mount.
    pub const SECRETS_PREFIX: &str = "secrets.";
    /// The prefix of variables from Secrets; followed by the name of a variable. The value is `<Secret>:<key>`.
    pub const SECRET_KEY_REF_PREFIX: &str = "secretKeyRef.";
    /// The prefix of volumes; followed by the type and the name of a volume, then `.mount.…` or `.options.…`.
    pub const VOLUMES_PREFIX: &str = "volumes.";

    /// Returns the key for the service account of the role's pods.
    pub fn service_account(role: Role) -> String {
        format!("spark.kubernetes.authenticate.{}.serviceAccountName", role.as_str())
    }

    /// Returns the key for the environment variable `name` of the role's container.
    pub fn env(role: Role, name: &str) -> String {
        match role {
            Role::Driver => format!("spark.kubernetes.driverEnv.{name}"),
            Role::Executor => format!("spark.executorEnv.{name}"),
        }
    }
}
