//! The names of all labels, annotations, containers, environment variables and configuration keys. No other file
//! contains one.

/// Labels on pods and on the objects that the operator makes for an application.
pub mod label {
    /// The SparkApplication's name: on pods, services, ingresses and disruption budgets.
    pub const APP_NAME: &str = "sparkoperator.k8s.io/app-name";
    /// The ScheduledSparkApplication that made a SparkApplication: on that, and so on its pods.
    pub const SCHEDULED_APP_NAME: &str = "sparkoperator.k8s.io/scheduled-app-name";
    /// `status.submissionID` of the run that the object belongs to.
    pub const SUBMISSION_ID: &str = "sparkoperator.k8s.io/submission-id";
    /// `"true"` on driver, executor and submission pods; what the operator's pod watch selects.
    pub const LAUNCHED_BY: &str = "sparkoperator.k8s.io/launched-by-spark-operator";
    /// `"true"` on pods without a user's template; nothing reads it, kept because KF sets it.
    pub const MUTATED_BY: &str = "sparkoperator.k8s.io/mutated-by-spark-operator";
    /// `"true"` on what the operator makes beside pods: Services, Ingresses, the ConfigMap of an application's monitoring. What its
    /// watch of Services selects.
    pub const CREATED_BY: &str = "sparkoperator.k8s.io/created-by-spark-operator";
    /// Spark's own: [`DRIVER`](super::role::DRIVER) or [`EXECUTOR`](super::role::EXECUTOR); on submission pods
    /// [`SUBMISSION`](super::role::SUBMISSION), which Spark does not know.
    pub const SPARK_ROLE: &str = "spark-role";
    /// Spark's own application id (`spark-…`).
    pub const SPARK_APP_SELECTOR: &str = "spark-app-selector";
    /// Spark's own: the version that submitted the application.
    pub const SPARK_VERSION: &str = "spark-version";
    /// Spark's own: the application's name, as far as a label holds it.
    pub const SPARK_APP_NAME: &str = "spark-app-name";
    /// Spark's number of an executor within its application, from 1.
    pub const SPARK_EXEC_ID: &str = "spark-exec-id";
    /// Kubernetes' own: the name of a namespace, on itself.
    pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
    /// Kubernetes' own: the program that manages an object. `sparkctl` sets it on the ConfigMaps that it makes.
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// Labels with this prefix belong to Kueue and are not copied from the application to its pods.
    pub const KUEUE_PREFIX: &str = "kueue.x-k8s.io/";
}

/// Values of [`label::SPARK_ROLE`].
pub mod role {
    /// The pod that runs the program's main function.
    pub const DRIVER: &str = "driver";
    /// A pod that does the work.
    pub const EXECUTOR: &str = "executor";
    /// A pod in which `spark-submit` runs for one run of an application.
    pub const SUBMISSION: &str = "submission";
}

/// The annotation contract (version [`CONTRACT_VERSION`](annotation::CONTRACT_VERSION)): what the webhook is
/// to do to a Spark pod stands in the pod's own annotations, one concern each, the value being the JSON of
/// the Kubernetes type.
pub mod annotation {
    /// Every annotation of the contract begins so.
    pub const PREFIX: &str = "sparkoperator.k8s.io/";
    /// The contract's version; a webhook denies a pod whose version is newer than the one it knows.
    pub const CONTRACT: &str = "sparkoperator.k8s.io/contract";
    /// The version that is written and understood here.
    pub const CONTRACT_VERSION: u32 = 1;

    /// `OwnerReference`, of the driver alone: the application that it belongs to. Executors belong to their driver.
    pub const OWNER_REFERENCE: &str = "sparkoperator.k8s.io/owner-reference";
    /// `[EnvVar]` of the Spark container.
    pub const ENV: &str = "sparkoperator.k8s.io/env";
    /// `[EnvFromSource]` of the Spark container.
    pub const ENV_FROM: &str = "sparkoperator.k8s.io/env-from";
    /// Name of the ConfigMap that is mounted at [`HADOOP_CONF`](super::path::HADOOP_CONF).
    pub const HADOOP_CONFIG_MAP: &str = "sparkoperator.k8s.io/hadoop-config-map";
    /// Name of the ConfigMap that is mounted at [`SPARK_CONF`](super::path::SPARK_CONF).
    pub const SPARK_CONFIG_MAP: &str = "sparkoperator.k8s.io/spark-config-map";
    /// `[{name, path}]`: further ConfigMaps, and where they are mounted.
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
    /// `[Container]`: those that end before the Spark container starts.
    pub const INIT_CONTAINERS: &str = "sparkoperator.k8s.io/init-containers";
    /// `[Container]`: those beside the Spark container.
    pub const SIDECARS: &str = "sparkoperator.k8s.io/sidecars";
    /// `PodDNSConfig`.
    pub const DNS_CONFIG: &str = "sparkoperator.k8s.io/dns-config";
    /// Name of the PriorityClass.
    pub const PRIORITY_CLASS_NAME: &str = "sparkoperator.k8s.io/priority-class-name";
    /// Name of the scheduler that places the pod.
    pub const SCHEDULER_NAME: &str = "sparkoperator.k8s.io/scheduler-name";
    /// `{label: value}` that a node must have.
    pub const NODE_SELECTOR: &str = "sparkoperator.k8s.io/node-selector";
    /// `Affinity`.
    pub const AFFINITY: &str = "sparkoperator.k8s.io/affinity";
    /// `[Toleration]`.
    pub const TOLERATIONS: &str = "sparkoperator.k8s.io/tolerations";
    /// Memory limit of the Spark container: a Kubernetes quantity.
    pub const MEMORY_LIMIT: &str = "sparkoperator.k8s.io/memory-limit";
    /// `{name, quantity}`: the resource, `nvidia.com/gpu`, and how many.
    pub const GPU: &str = "sparkoperator.k8s.io/gpu";
    /// `{configMap, port, portName}`: what the JMX exporter reads, and where it is read.
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

    /// Not of the contract, but Prometheus' habit: whether a pod's metrics are to be read, on which port and path.
    pub const SCRAPE: &str = "prometheus.io/scrape";
    /// The port beside it.
    pub const SCRAPE_PORT: &str = "prometheus.io/port";
    /// The path beside it.
    pub const SCRAPE_PATH: &str = "prometheus.io/path";
    /// Not of the contract, but on a SparkApplication: who submits it, `auto`, `native` or `spark-submit`.
    pub const SUBMITTER: &str = "sparkoperator.k8s.io/submitter";
    /// Not of the contract, but on a SparkApplication: any value that it has not had yet runs a finished
    /// application again.
    pub const RERUN: &str = "sparkoperator.k8s.io/rerun";
    /// Not of the contract, but on a ScheduledSparkApplication: any value that it has not had yet makes an
    /// application now. That application has it as well.
    pub const TRIGGER: &str = "sparkoperator.k8s.io/trigger";
    /// Not of the contract, but on a SparkApplication: the time of the schedule that it was made for, RFC 3339.
    pub const SCHEDULED_TIME: &str = "sparkoperator.k8s.io/scheduled-time";

    /// Istio's, as a label and as an annotation: whether its sidecar is injected into a pod, `"true"` or `"false"`.
    pub const ISTIO_INJECT: &str = "sidecar.istio.io/inject";
    /// Linkerd's: whether its sidecar is injected into a pod, `enabled` or `disabled`.
    pub const LINKERD_INJECT: &str = "linkerd.io/inject";

    /// ingress-nginx's: what it asks the backend for in place of the path that it was asked for.
    pub const REWRITE_TARGET: &str = "nginx.ingress.kubernetes.io/rewrite-target";
}

/// Finalizers.
pub mod finalizer {
    /// On a driver's pod: it stays until what became of it stands in its application's status.
    pub const DRIVER_OUTCOME: &str = "sparkoperator.k8s.io/driver-outcome";
}

/// Names of the containers that Spark runs in.
pub mod container {
    /// The driver's.
    pub const DRIVER: &str = "spark-kubernetes-driver";
    /// An executor's since Spark 3.
    pub const EXECUTOR: &str = "spark-kubernetes-executor";
    /// What Spark 2 called its executor container.
    pub const EXECUTOR_SPARK_2: &str = "executor";
    /// The container of a submission pod in which `spark-submit` runs.
    pub const SPARK_SUBMIT: &str = "spark-submit";
}

/// Names of volumes.
pub mod volume {
    use serde_json::Value;

    /// Volumes whose name begins so are scratch space: Spark itself mounts them, the webhook leaves them
    /// alone.
    pub const LOCAL_DIR_PREFIX: &str = "spark-local-dir-";

    /// Whether `mount`, an entry of `volumeMounts`, mounts such a volume.
    #[must_use]
    pub fn is_scratch(mount: &Value) -> bool {
        mount["name"].as_str().is_some_and(|name| name.starts_with(LOCAL_DIR_PREFIX))
    }

    /// Of `spec.hadoopConfigMap`.
    pub const HADOOP_CONFIG_MAP: &str = "hadoop-configmap-volume";
    /// Of `spec.sparkConfigMap`.
    pub const SPARK_CONFIG_MAP: &str = "spark-configmap-volume";
    /// In the name of each claim that Spark makes for one driver alone, before a number.
    pub const DRIVER_CLAIM: &str = "-driver-pvc-";
    /// Spark's own: the driver's ConfigMap, which `spark-submit` creates last of all objects.
    pub const SPARK_CONF_DRIVER: &str = "spark-conf-volume-driver";
    /// The same of the executors.
    pub const SPARK_CONF_EXECUTOR: &str = "spark-conf-volume-exec";
    /// Spark's own: the volume of a Secret is called like the Secret with this behind it.
    pub const SECRET_SUFFIX: &str = "-volume";
}

/// Paths inside Spark's containers.
pub mod path {
    /// Where `spec.hadoopConfigMap` is mounted.
    pub const HADOOP_CONF: &str = "/etc/hadoop/conf";
    /// Where `spec.sparkConfigMap` is mounted.
    pub const SPARK_CONF: &str = "/etc/spark/conf";
    /// Where the ConfigMap of `spec.monitoring` is mounted.
    pub const METRICS_CONF: &str = "/etc/metrics/conf";
}

/// Environment variables of Spark's containers.
pub mod env {
    /// Where Hadoop's client looks for `core-site.xml` and its like.
    pub const HADOOP_CONF_DIR: &str = "HADOOP_CONF_DIR";
    /// Where Spark looks for `spark-defaults.conf` and its like.
    pub const SPARK_CONF_DIR: &str = "SPARK_CONF_DIR";
    /// The key file of Google's clients.
    pub const GOOGLE_APPLICATION_CREDENTIALS: &str = "GOOGLE_APPLICATION_CREDENTIALS";
    /// As whom Hadoop's client works where nobody logs in.
    pub const HADOOP_USER_NAME: &str = "HADOOP_USER_NAME";
    /// The file with Hadoop's delegation tokens.
    pub const HADOOP_TOKEN_FILE_LOCATION: &str = "HADOOP_TOKEN_FILE_LOCATION";
    /// Who the program runs as, as Spark's UI and Hadoop are told.
    pub const SPARK_USER: &str = "SPARK_USER";
    /// Spark's own id of the run.
    pub const SPARK_APPLICATION_ID: &str = "SPARK_APPLICATION_ID";
    /// The address that the driver listens on.
    pub const SPARK_DRIVER_BIND_ADDRESS: &str = "SPARK_DRIVER_BIND_ADDRESS";
    /// Directories for scratch space, separated by commas.
    pub const SPARK_LOCAL_DIRS: &str = "SPARK_LOCAL_DIRS";
    /// JVM options of `spark-submit` itself.
    pub const SPARK_SUBMIT_OPTS: &str = "SPARK_SUBMIT_OPTS";
    /// The Python of executors, and of the driver without another.
    pub const PYSPARK_PYTHON: &str = "PYSPARK_PYTHON";
    /// The Python of the driver.
    pub const PYSPARK_DRIVER_PYTHON: &str = "PYSPARK_DRIVER_PYTHON";
}

/// Keys of Spark's configuration.
pub mod conf {
    use crate::Role;

    /// Spark drops a key that begins otherwise.
    pub const PREFIX: &str = "spark.";
    /// Which cluster, `k8s://https://…`.
    pub const MASTER: &str = "spark.master";
    /// `cluster` or `client`.
    pub const DEPLOY_MODE: &str = "spark.submit.deployMode";
    /// The name that Spark shows.
    pub const APP_NAME: &str = "spark.app.name";
    /// Where driver and executors live.
    pub const NAMESPACE: &str = "spark.kubernetes.namespace";
    /// The container image of both.
    pub const IMAGE: &str = "spark.kubernetes.container.image";
    /// `Always`, `IfNotPresent` or `Never`.
    pub const IMAGE_PULL_POLICY: &str = "spark.kubernetes.container.image.pullPolicy";
    /// Names of Secrets, separated by commas.
    pub const IMAGE_PULL_SECRETS: &str = "spark.kubernetes.container.image.pullSecrets";
    /// Python's major version.
    pub const PYTHON_VERSION: &str = "spark.kubernetes.pyspark.pythonVersion";
    /// Memory beside the heap, as a fraction of it.
    pub const MEMORY_OVERHEAD_FACTOR: &str = "spark.kubernetes.memoryOverheadFactor";
    /// Whether Spark uses memory outside the heap: `true` or `false`.
    pub const OFF_HEAP: &str = "spark.memory.offHeap.enabled";
    /// How much, in Java's notation; bytes without a unit.
    pub const OFF_HEAP_SIZE: &str = "spark.memory.offHeap.size";
    /// Memory of Python in each executor, in Java's notation; MiB without a unit.
    pub const PYSPARK_MEMORY: &str = "spark.executor.pyspark.memory";
    /// Whether `spark-submit` waits for the driver's end: `true` or `false`.
    pub const WAIT_APP_COMPLETION: &str = "spark.kubernetes.submission.waitAppCompletion";
    /// Name of the driver's pod.
    pub const DRIVER_POD_NAME: &str = "spark.kubernetes.driver.pod.name";
    /// Address of the API server as the driver reaches it.
    pub const DRIVER_MASTER: &str = "spark.kubernetes.driver.master";
    /// Number of executors.
    pub const EXECUTOR_INSTANCES: &str = "spark.executor.instances";
    /// Whether the pods of executors that have ended are deleted: `true` or `false`.
    pub const EXECUTOR_DELETE_ON_TERMINATION: &str = "spark.kubernetes.executor.deleteOnTermination";
    /// Behind it: a key of Hadoop's configuration.
    pub const HADOOP_PREFIX: &str = "spark.hadoop.";
    /// Behind it: a label of the nodes of both.
    pub const NODE_SELECTOR_PREFIX: &str = "spark.kubernetes.node.selector.";
    /// Behind it: a label of the driver's Service.
    pub const DRIVER_SERVICE_LABEL_PREFIX: &str = "spark.kubernetes.driver.service.label.";
    /// Behind it: an annotation of the driver's Service.
    pub const DRIVER_SERVICE_ANNOTATION_PREFIX: &str = "spark.kubernetes.driver.service.annotation.";
    /// Whether the number of executors follows the work: `true` or `false`.
    pub const DYNAMIC_ALLOCATION: &str = "spark.dynamicAllocation.enabled";
    /// What KF looks for instead of [`DYNAMIC_ALLOCATION`]; Spark has no such key.
    pub const DYNAMIC_ALLOCATION_KUBEFLOW: &str = "spark.dynamicallocation.enabled";
    /// How many there are in the beginning.
    pub const DYNAMIC_ALLOCATION_INITIAL: &str = "spark.dynamicAllocation.initialExecutors";
    /// How many at least.
    pub const DYNAMIC_ALLOCATION_MIN: &str = "spark.dynamicAllocation.minExecutors";
    /// How many at most.
    pub const DYNAMIC_ALLOCATION_MAX: &str = "spark.dynamicAllocation.maxExecutors";
    /// Path of `metrics.properties`.
    pub const METRICS_CONF: &str = "spark.metrics.conf";
    /// What the names of metrics begin with.
    pub const METRICS_NAMESPACE: &str = "spark.metrics.namespace";
    /// Whether there is a web UI: `true` or `false`.
    pub const UI_ENABLED: &str = "spark.ui.enabled";
    /// Its port.
    pub const UI_PORT: &str = "spark.ui.port";
    /// What the UI puts in front of its links: the path under which others see it.
    pub const UI_PROXY_BASE: &str = "spark.ui.proxyBase";
    /// What it puts in front of the addresses that it redirects to.
    pub const UI_PROXY_REDIRECT_URI: &str = "spark.ui.proxyRedirectUri";
    /// Whether executors hand over what they hold before they go: `true` or `false`.
    pub const DECOMMISSION: &str = "spark.decommission.enabled";
    /// Whether executors stay while their shuffle data is needed: `true` or `false`.
    pub const SHUFFLE_TRACKING: &str = "spark.dynamicAllocation.shuffleTracking.enabled";
    /// For how long at most, in Java's notation; milliseconds without a unit.
    pub const SHUFFLE_TRACKING_TIMEOUT: &str = "spark.dynamicAllocation.shuffleTracking.timeout";

    /// With what Spark says who it is to the API server.
    pub const CREDENTIALS: [&str; 6] = [
        "spark.kubernetes.authenticate.oauthToken",
        "spark.kubernetes.authenticate.oauthTokenFile",
        "spark.kubernetes.authenticate.driver.oauthToken",
        "spark.kubernetes.authenticate.driver.oauthTokenFile",
        "spark.kubernetes.authenticate.executor.oauthToken",
        "spark.kubernetes.authenticate.executor.oauthTokenFile",
    ];

    /// `spark.driver.…` or `spark.executor.…`; suffixes: the constants below.
    #[must_use]
    pub fn spark(role: Role, suffix: &str) -> String {
        format!("spark.{}.{suffix}", role.as_str())
    }

    /// Whole cores, as Spark counts them.
    pub const CORES: &str = "cores";
    /// Heap, in Java's notation; MiB without a unit.
    pub const MEMORY: &str = "memory";
    /// Memory beside the heap, likewise.
    pub const MEMORY_OVERHEAD: &str = "memoryOverhead";
    /// Memory beside the heap at least, likewise; Spark 4.0 and later.
    pub const MEMORY_OVERHEAD_LEAST: &str = "minMemoryOverhead";
    /// Memory beside the heap as a fraction of it; Spark 3.3 and later.
    pub const MEMORY_OVERHEAD_FACTOR_OF_ROLE: &str = "memoryOverheadFactor";
    /// JVM options.
    pub const EXTRA_JAVA_OPTIONS: &str = "extraJavaOptions";

    /// What Spark reads in place of [`MEMORY_OVERHEAD`] where that is not set.
    #[must_use]
    pub fn old_memory_overhead(role: Role) -> String {
        format!("spark.yarn.{}.memoryOverhead", role.as_str())
    }

    /// `spark.kubernetes.driver.…` or `spark.kubernetes.executor.…`; suffixes: the constants below. Those
    /// that end in a dot take a name behind them.
    #[must_use]
    pub fn kubernetes(role: Role, suffix: &str) -> String {
        format!("spark.kubernetes.{}.{suffix}", role.as_str())
    }

    /// The container image.
    pub const CONTAINER_IMAGE: &str = "container.image";
    /// CPU request: a Kubernetes quantity.
    pub const REQUEST_CORES: &str = "request.cores";
    /// CPU limit: a Kubernetes quantity.
    pub const LIMIT_CORES: &str = "limit.cores";
    /// Path of the file with the pod to start from.
    pub const POD_TEMPLATE_FILE: &str = "podTemplateFile";
    /// Which container of that pod is Spark's.
    pub const POD_TEMPLATE_CONTAINER: &str = "podTemplateContainerName";
    /// Behind it: a label of the pod.
    pub const LABEL_PREFIX: &str = "label.";
    /// Behind it: an annotation of the pod.
    pub const ANNOTATION_PREFIX: &str = "annotation.";
    /// Behind it: a Secret; the value is where it is mounted.
    pub const SECRETS_PREFIX: &str = "secrets.";
    /// Behind it: a variable; the value is `<Secret>:<key>`.
    pub const SECRET_KEY_REF_PREFIX: &str = "secretKeyRef.";
    /// Behind it: type and name of a volume, then `.mount.…` or `.options.…`.
    pub const VOLUMES_PREFIX: &str = "volumes.";

    /// The service account of the role's pods.
    #[must_use]
    pub fn service_account(role: Role) -> String {
        format!("spark.kubernetes.authenticate.{}.serviceAccountName", role.as_str())
    }

    /// The environment variable `name` of the role's container.
    #[must_use]
    pub fn env(role: Role, name: &str) -> String {
        match role {
            Role::Driver => format!("spark.kubernetes.driverEnv.{name}"),
            Role::Executor => format!("spark.executorEnv.{name}"),
        }
    }
}

/// Keys of Spark's configuration that its submission client reads, and nobody else here.
pub mod submit_conf {
    /// Spark Connect's server, in place of a cluster.
    pub const REMOTE: &str = "spark.remote";
    /// Spark's own id of the run.
    pub const APP_ID: &str = "spark.app.id";
    /// When it was submitted: milliseconds since 1970.
    pub const SUBMIT_TIME: &str = "spark.app.submitTime";
    /// Jars on the class path, separated by commas.
    pub const JARS: &str = "spark.jars";
    /// Maven coordinates of jars, separated by commas.
    pub const PACKAGES: &str = "spark.jars.packages";
    /// Maven coordinates of jars that those are not to bring.
    pub const EXCLUDED_PACKAGES: &str = "spark.jars.excludes";
    /// Maven repositories, separated by commas.
    pub const REPOSITORIES: &str = "spark.jars.repositories";
    /// Files in the working directory, separated by commas.
    pub const FILES: &str = "spark.files";
    /// Archives that are unpacked there, separated by commas.
    pub const ARCHIVES: &str = "spark.archives";
    /// What is on the Python path, separated by commas.
    pub const PY_FILES: &str = "spark.submit.pyFiles";
    /// YARN's lists, which Spark resolves like its own whatever the cluster.
    pub const YARN_LISTS: [&str; 3] =
        ["spark.yarn.dist.files", "spark.yarn.dist.archives", "spark.yarn.dist.jars"];
    /// The port by which blocks of data are fetched; 0 is any.
    pub const BLOCK_MANAGER_PORT: &str = "spark.blockManager.port";
    /// The port of Spark Connect's server.
    pub const CONNECT_PORT: &str = "spark.connect.grpc.binding.port";
    /// Directories for scratch space, where no volume is.
    pub const LOCAL_DIR: &str = "spark.local.dir";
    /// The Python of executors, and of the driver without another.
    pub const PYTHON: &str = "spark.pyspark.python";
    /// The Python of the driver.
    pub const DRIVER_PYTHON: &str = "spark.pyspark.driver.python";
    /// Path of a Kerberos keytab.
    pub const KEYTAB: &str = "spark.kerberos.keytab";
    /// Whose it is.
    pub const PRINCIPAL: &str = "spark.kerberos.principal";
    /// Hadoop's own key behind Spark's prefix for such keys.
    pub const HADOOP_AUTHENTICATION: &str = "spark.hadoop.hadoop.security.authentication";
    /// What a secret's key ends with, whatever stands before it.
    pub const TOKEN_SUFFIX: &str = "oauthToken";
    /// All settings of Spark on Kubernetes.
    pub const KUBERNETES_PREFIX: &str = "spark.kubernetes.";

    /// Name under which executors reach the driver.
    pub const DRIVER_HOST: &str = "spark.driver.host";
    /// The driver's port for executors.
    pub const DRIVER_PORT: &str = "spark.driver.port";
    /// As [`BLOCK_MANAGER_PORT`], of the driver.
    pub const DRIVER_BLOCK_MANAGER_PORT: &str = "spark.driver.blockManager.port";
    /// The address that the driver listens on.
    pub const BIND_ADDRESS: &str = "spark.driver.bindAddress";
    /// JVM options before `extraJavaOptions`; behind `spark.driver.` or `spark.executor.`.
    pub const DEFAULT_JAVA_OPTIONS: &str = "defaultJavaOptions";
    /// Behind it: a resource of the driver, such as a GPU, then `.amount` and the like.
    pub const DRIVER_RESOURCE_PREFIX: &str = "spark.driver.resource.";

    /// `true` inside a driver that was submitted in cluster mode.
    pub const SUBMIT_IN_DRIVER: &str = "spark.kubernetes.submitInDriver";
    /// The program's language: `java`, `python` or `r`.
    pub const RESOURCE_TYPE: &str = "spark.kubernetes.resource.type";
    /// Name of the scheduler that places the pods of both roles.
    pub const SCHEDULER_NAME: &str = "spark.kubernetes.scheduler.name";
    /// Name of the scheduler that places the driver.
    pub const DRIVER_SCHEDULER_NAME: &str = "spark.kubernetes.driver.scheduler.name";
    /// Behind it: a label of the driver's node.
    pub const DRIVER_NODE_SELECTOR_PREFIX: &str = "spark.kubernetes.driver.node.selector.";
    /// Where `spark-submit` puts local files: a directory of Hadoop's.
    pub const UPLOAD_PATH: &str = "spark.kubernetes.file.upload.path";
    /// Size of the driver's ConfigMap at most, in bytes.
    pub const CONFIG_MAP_MAX_SIZE: &str = "spark.kubernetes.configMap.maxSize";
    /// `ipFamilyPolicy` of the driver's Service.
    pub const IP_FAMILY_POLICY: &str = "spark.kubernetes.driver.service.ipFamilyPolicy";
    /// Its `ipFamilies`, separated by commas.
    pub const IP_FAMILIES: &str = "spark.kubernetes.driver.service.ipFamilies";
    /// Its `publishNotReadyAddresses`.
    pub const PUBLISH_NOT_READY: &str = "spark.kubernetes.driver.service.publishNotReadyAddresses";
    /// `allowPrivilegeEscalation` of both roles' Spark containers.
    pub const PRIVILEGE_ESCALATION: &str = "spark.kubernetes.securityContext.allowPrivilegeEscalation";
    /// The driver's.
    pub const DRIVER_PRIVILEGE_ESCALATION: &str =
        "spark.kubernetes.driver.securityContext.allowPrivilegeEscalation";
    /// Whether claims that Spark makes are `ReadWriteOnce` instead of `ReadWriteOncePod`.
    pub const READ_WRITE_ONCE: &str = "spark.kubernetes.legacy.useReadWriteOnceAccessMode";
    /// Whether scratch space is in memory.
    pub const TMPFS: &str = "spark.kubernetes.local.dirs.tmpfs";
    /// Classes that change the driver's pod further.
    pub const FEATURE_STEPS: &str = "spark.kubernetes.driver.pod.featureSteps";
    /// Classes of Spark's own that do not.
    pub const EXCLUDED_FEATURE_STEPS: &str = "spark.kubernetes.driver.pod.excludedFeatureSteps";
    /// Name of a ConfigMap with Hadoop's configuration, of the driver.
    pub const HADOOP_CONFIG_MAP: &str = "spark.kubernetes.hadoop.configMapName";
    /// The same of the executors.
    pub const EXECUTOR_HADOOP_CONFIG_MAP: &str = "spark.kubernetes.executor.hadoopConfigMapName";
    /// Path of the submitter's `krb5.conf`.
    pub const KRB5_PATH: &str = "spark.kubernetes.kerberos.krb5.path";
    /// Name of a ConfigMap with one.
    pub const KRB5_CONFIG_MAP: &str = "spark.kubernetes.kerberos.krb5.configMapName";
    /// Name of a Secret with Hadoop's delegation tokens.
    pub const TOKEN_SECRET_NAME: &str = "spark.kubernetes.kerberos.tokenSecret.name";
    /// Its entry that holds them.
    pub const TOKEN_SECRET_ITEM: &str = "spark.kubernetes.kerberos.tokenSecret.itemKey";

    /// With what the driver says who it is: the token itself, or a file of the submitter's. Behind it: the
    /// key of each credential.
    pub const DRIVER_CREDENTIALS_PREFIX: &str = "spark.kubernetes.authenticate.driver.";
    /// Where such a credential is inside the driver's container.
    pub const MOUNTED_CREDENTIALS_PREFIX: &str = "spark.kubernetes.authenticate.driver.mounted.";
}
