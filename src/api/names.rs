//! What is every label, annotation, container, environment variable and configuration key called? Here, once.

/// Labels on pods and on the objects that the operator makes for an application.
pub mod label {
    /// The SparkApplication's name: on pods, services, ingresses and disruption budgets.
    pub const APP_NAME: &str = "sparkoperator.k8s.io/app-name";
    /// The ScheduledSparkApplication that made a SparkApplication: on that, and so on its pods.
    pub const SCHEDULED_APP_NAME: &str = "sparkoperator.k8s.io/scheduled-app-name";
    /// `status.submissionID` of the run that the object belongs to.
    pub const SUBMISSION_ID: &str = "sparkoperator.k8s.io/submission-id";
    /// `"true"` on driver and executor pods; what the operator's pod watch selects.
    pub const LAUNCHED_BY: &str = "sparkoperator.k8s.io/launched-by-spark-operator";
    /// `"true"` on pods without a user's template; nothing reads it, kept because KF sets it.
    pub const MUTATED_BY: &str = "sparkoperator.k8s.io/mutated-by-spark-operator";
    /// `"true"` on what the operator makes beside pods: Services, Ingresses, the ConfigMap of an application's monitoring. What its
    /// watch of Services selects.
    pub const CREATED_BY: &str = "sparkoperator.k8s.io/created-by-spark-operator";
    /// Spark's own: [`DRIVER`](super::role::DRIVER) or [`EXECUTOR`](super::role::EXECUTOR).
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
    /// Labels with this prefix belong to Kueue and are not copied from the application to its pods.
    pub const KUEUE_PREFIX: &str = "kueue.x-k8s.io/";
}

/// Values of [`label::SPARK_ROLE`].
pub mod role {
    pub const DRIVER: &str = "driver";
    pub const EXECUTOR: &str = "executor";
}

/// The annotation contract (version [`CONTRACT_VERSION`](annotation::CONTRACT_VERSION)): what the webhook is
/// to do to a Spark pod stands in the pod's own annotations, one concern each, the value being the JSON of
/// the Kubernetes type.
pub mod annotation {
    /// Every annotation of the contract begins so.
    pub const PREFIX: &str = "sparkoperator.k8s.io/";
    /// The contract's version; a webhook denies a pod whose version is newer than the one it knows.
    pub const CONTRACT: &str = "sparkoperator.k8s.io/contract";
    pub const CONTRACT_VERSION: u32 = 1;

    pub const OWNER_REFERENCE: &str = "sparkoperator.k8s.io/owner-reference";
    pub const ENV: &str = "sparkoperator.k8s.io/env";
    pub const ENV_FROM: &str = "sparkoperator.k8s.io/env-from";
    pub const HADOOP_CONFIG_MAP: &str = "sparkoperator.k8s.io/hadoop-config-map";
    pub const SPARK_CONFIG_MAP: &str = "sparkoperator.k8s.io/spark-config-map";
    pub const CONFIG_MAPS: &str = "sparkoperator.k8s.io/config-maps";
    pub const VOLUMES: &str = "sparkoperator.k8s.io/volumes";
    pub const VOLUME_MOUNTS: &str = "sparkoperator.k8s.io/volume-mounts";
    pub const PORTS: &str = "sparkoperator.k8s.io/ports";
    pub const HOST_NETWORK: &str = "sparkoperator.k8s.io/host-network";
    pub const HOST_ALIASES: &str = "sparkoperator.k8s.io/host-aliases";
    pub const INIT_CONTAINERS: &str = "sparkoperator.k8s.io/init-containers";
    pub const SIDECARS: &str = "sparkoperator.k8s.io/sidecars";
    pub const DNS_CONFIG: &str = "sparkoperator.k8s.io/dns-config";
    pub const PRIORITY_CLASS_NAME: &str = "sparkoperator.k8s.io/priority-class-name";
    pub const SCHEDULER_NAME: &str = "sparkoperator.k8s.io/scheduler-name";
    pub const NODE_SELECTOR: &str = "sparkoperator.k8s.io/node-selector";
    pub const AFFINITY: &str = "sparkoperator.k8s.io/affinity";
    pub const TOLERATIONS: &str = "sparkoperator.k8s.io/tolerations";
    pub const MEMORY_LIMIT: &str = "sparkoperator.k8s.io/memory-limit";
    pub const GPU: &str = "sparkoperator.k8s.io/gpu";
    pub const PROMETHEUS: &str = "sparkoperator.k8s.io/prometheus";
    pub const SECURITY_CONTEXT: &str = "sparkoperator.k8s.io/security-context";
    pub const POD_SECURITY_CONTEXT: &str = "sparkoperator.k8s.io/pod-security-context";
    pub const TERMINATION_GRACE_PERIOD_SECONDS: &str =
        "sparkoperator.k8s.io/termination-grace-period-seconds";
    pub const LIFECYCLE: &str = "sparkoperator.k8s.io/lifecycle";
    pub const SHARE_PROCESS_NAMESPACE: &str = "sparkoperator.k8s.io/share-process-namespace";

    /// Not of the contract, but Prometheus' habit: whether a pod's metrics are to be read, on which port and path.
    pub const SCRAPE: &str = "prometheus.io/scrape";
    pub const SCRAPE_PORT: &str = "prometheus.io/port";
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
    pub const DRIVER: &str = "spark-kubernetes-driver";
    pub const EXECUTOR: &str = "spark-kubernetes-executor";
    /// What Spark 2 called its executor container.
    pub const EXECUTOR_SPARK_2: &str = "executor";
}

/// Names of volumes.
pub mod volume {
    /// Volumes whose name begins so are scratch space: Spark itself mounts them, the webhook leaves them
    /// alone.
    pub const LOCAL_DIR_PREFIX: &str = "spark-local-dir-";
    pub const HADOOP_CONFIG_MAP: &str = "hadoop-configmap-volume";
    pub const SPARK_CONFIG_MAP: &str = "spark-configmap-volume";
    /// Spark's own: the driver's ConfigMap, which `spark-submit` creates last of all objects.
    pub const SPARK_CONF_DRIVER: &str = "spark-conf-volume-driver";
    /// The same of the executors.
    pub const SPARK_CONF_EXECUTOR: &str = "spark-conf-volume-exec";
    /// Spark's own: the volume of a Secret is called like the Secret with this behind it.
    pub const SECRET_SUFFIX: &str = "-volume";
}

/// Paths inside Spark's containers.
pub mod path {
    pub const HADOOP_CONF: &str = "/etc/hadoop/conf";
    pub const SPARK_CONF: &str = "/etc/spark/conf";
    pub const METRICS_CONF: &str = "/etc/metrics/conf";
}

/// Environment variables of Spark's containers.
pub mod env {
    pub const HADOOP_CONF_DIR: &str = "HADOOP_CONF_DIR";
    pub const SPARK_CONF_DIR: &str = "SPARK_CONF_DIR";
    pub const GOOGLE_APPLICATION_CREDENTIALS: &str = "GOOGLE_APPLICATION_CREDENTIALS";
    pub const HADOOP_TOKEN_FILE_LOCATION: &str = "HADOOP_TOKEN_FILE_LOCATION";
    pub const SPARK_USER: &str = "SPARK_USER";
    pub const SPARK_APPLICATION_ID: &str = "SPARK_APPLICATION_ID";
    pub const SPARK_DRIVER_BIND_ADDRESS: &str = "SPARK_DRIVER_BIND_ADDRESS";
    pub const SPARK_LOCAL_DIRS: &str = "SPARK_LOCAL_DIRS";
    pub const SPARK_SUBMIT_OPTS: &str = "SPARK_SUBMIT_OPTS";
    pub const PYSPARK_PYTHON: &str = "PYSPARK_PYTHON";
    pub const PYSPARK_DRIVER_PYTHON: &str = "PYSPARK_DRIVER_PYTHON";
}

/// Keys of Spark's configuration.
pub mod conf {
    use crate::api::Role;

    /// Spark drops a key that begins otherwise.
    pub const PREFIX: &str = "spark.";
    pub const MASTER: &str = "spark.master";
    pub const DEPLOY_MODE: &str = "spark.submit.deployMode";
    pub const APP_NAME: &str = "spark.app.name";
    pub const NAMESPACE: &str = "spark.kubernetes.namespace";
    pub const IMAGE: &str = "spark.kubernetes.container.image";
    pub const IMAGE_PULL_POLICY: &str = "spark.kubernetes.container.image.pullPolicy";
    pub const IMAGE_PULL_SECRETS: &str = "spark.kubernetes.container.image.pullSecrets";
    pub const PYTHON_VERSION: &str = "spark.kubernetes.pyspark.pythonVersion";
    pub const MEMORY_OVERHEAD_FACTOR: &str = "spark.kubernetes.memoryOverheadFactor";
    pub const OFF_HEAP: &str = "spark.memory.offHeap.enabled";
    pub const OFF_HEAP_SIZE: &str = "spark.memory.offHeap.size";
    pub const PYSPARK_MEMORY: &str = "spark.executor.pyspark.memory";
    pub const WAIT_APP_COMPLETION: &str = "spark.kubernetes.submission.waitAppCompletion";
    pub const DRIVER_POD_NAME: &str = "spark.kubernetes.driver.pod.name";
    pub const DRIVER_MASTER: &str = "spark.kubernetes.driver.master";
    pub const EXECUTOR_INSTANCES: &str = "spark.executor.instances";
    pub const EXECUTOR_DELETE_ON_TERMINATION: &str = "spark.kubernetes.executor.deleteOnTermination";
    pub const HADOOP_PREFIX: &str = "spark.hadoop.";
    pub const NODE_SELECTOR_PREFIX: &str = "spark.kubernetes.node.selector.";
    pub const DRIVER_SERVICE_LABEL_PREFIX: &str = "spark.kubernetes.driver.service.label.";
    pub const DRIVER_SERVICE_ANNOTATION_PREFIX: &str = "spark.kubernetes.driver.service.annotation.";
    pub const DYNAMIC_ALLOCATION: &str = "spark.dynamicAllocation.enabled";
    /// What KF looks for instead of [`DYNAMIC_ALLOCATION`]; Spark has no such key.
    pub const DYNAMIC_ALLOCATION_KUBEFLOW: &str = "spark.dynamicallocation.enabled";
    pub const DYNAMIC_ALLOCATION_INITIAL: &str = "spark.dynamicAllocation.initialExecutors";
    pub const DYNAMIC_ALLOCATION_MIN: &str = "spark.dynamicAllocation.minExecutors";
    pub const DYNAMIC_ALLOCATION_MAX: &str = "spark.dynamicAllocation.maxExecutors";
    pub const METRICS_CONF: &str = "spark.metrics.conf";
    pub const METRICS_NAMESPACE: &str = "spark.metrics.namespace";
    pub const UI_ENABLED: &str = "spark.ui.enabled";
    pub const UI_PORT: &str = "spark.ui.port";
    /// What the UI puts in front of its links: the path under which others see it.
    pub const UI_PROXY_BASE: &str = "spark.ui.proxyBase";
    /// What it puts in front of the addresses that it redirects to.
    pub const UI_PROXY_REDIRECT_URI: &str = "spark.ui.proxyRedirectUri";
    pub const DECOMMISSION: &str = "spark.decommission.enabled";
    pub const SHUFFLE_TRACKING: &str = "spark.dynamicAllocation.shuffleTracking.enabled";
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

    pub const CORES: &str = "cores";
    pub const MEMORY: &str = "memory";
    pub const MEMORY_OVERHEAD: &str = "memoryOverhead";
    pub const MEMORY_OVERHEAD_LEAST: &str = "minMemoryOverhead";
    pub const MEMORY_OVERHEAD_FACTOR_OF_ROLE: &str = "memoryOverheadFactor";
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

    pub const CONTAINER_IMAGE: &str = "container.image";
    pub const REQUEST_CORES: &str = "request.cores";
    pub const LIMIT_CORES: &str = "limit.cores";
    pub const POD_TEMPLATE_FILE: &str = "podTemplateFile";
    pub const POD_TEMPLATE_CONTAINER: &str = "podTemplateContainerName";
    pub const LABEL_PREFIX: &str = "label.";
    pub const ANNOTATION_PREFIX: &str = "annotation.";
    pub const SECRETS_PREFIX: &str = "secrets.";
    pub const SECRET_KEY_REF_PREFIX: &str = "secretKeyRef.";
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
    pub const REMOTE: &str = "spark.remote";
    pub const APP_ID: &str = "spark.app.id";
    pub const SUBMIT_TIME: &str = "spark.app.submitTime";
    pub const JARS: &str = "spark.jars";
    pub const PACKAGES: &str = "spark.jars.packages";
    pub const EXCLUDED_PACKAGES: &str = "spark.jars.excludes";
    pub const REPOSITORIES: &str = "spark.jars.repositories";
    pub const FILES: &str = "spark.files";
    pub const ARCHIVES: &str = "spark.archives";
    pub const PY_FILES: &str = "spark.submit.pyFiles";
    /// YARN's lists, which Spark resolves like its own whatever the cluster.
    pub const YARN_LISTS: [&str; 3] =
        ["spark.yarn.dist.files", "spark.yarn.dist.archives", "spark.yarn.dist.jars"];
    pub const BLOCK_MANAGER_PORT: &str = "spark.blockManager.port";
    pub const CONNECT_PORT: &str = "spark.connect.grpc.binding.port";
    pub const LOCAL_DIR: &str = "spark.local.dir";
    pub const PYTHON: &str = "spark.pyspark.python";
    pub const DRIVER_PYTHON: &str = "spark.pyspark.driver.python";
    pub const KEYTAB: &str = "spark.kerberos.keytab";
    pub const PRINCIPAL: &str = "spark.kerberos.principal";
    /// Hadoop's own key behind Spark's prefix for such keys.
    pub const HADOOP_AUTHENTICATION: &str = "spark.hadoop.hadoop.security.authentication";
    /// What a secret's key ends with, whatever stands before it.
    pub const TOKEN_SUFFIX: &str = "oauthToken";
    /// All settings of Spark on Kubernetes.
    pub const KUBERNETES_PREFIX: &str = "spark.kubernetes.";

    pub const DRIVER_HOST: &str = "spark.driver.host";
    pub const DRIVER_PORT: &str = "spark.driver.port";
    pub const DRIVER_BLOCK_MANAGER_PORT: &str = "spark.driver.blockManager.port";
    pub const BIND_ADDRESS: &str = "spark.driver.bindAddress";
    pub const DEFAULT_JAVA_OPTIONS: &str = "defaultJavaOptions";
    pub const DRIVER_RESOURCE_PREFIX: &str = "spark.driver.resource.";

    pub const SUBMIT_IN_DRIVER: &str = "spark.kubernetes.submitInDriver";
    pub const RESOURCE_TYPE: &str = "spark.kubernetes.resource.type";
    pub const SCHEDULER_NAME: &str = "spark.kubernetes.scheduler.name";
    pub const DRIVER_SCHEDULER_NAME: &str = "spark.kubernetes.driver.scheduler.name";
    pub const DRIVER_NODE_SELECTOR_PREFIX: &str = "spark.kubernetes.driver.node.selector.";
    pub const UPLOAD_PATH: &str = "spark.kubernetes.file.upload.path";
    pub const CONFIG_MAP_MAX_SIZE: &str = "spark.kubernetes.configMap.maxSize";
    pub const IP_FAMILY_POLICY: &str = "spark.kubernetes.driver.service.ipFamilyPolicy";
    pub const IP_FAMILIES: &str = "spark.kubernetes.driver.service.ipFamilies";
    pub const PUBLISH_NOT_READY: &str = "spark.kubernetes.driver.service.publishNotReadyAddresses";
    pub const PRIVILEGE_ESCALATION: &str = "spark.kubernetes.securityContext.allowPrivilegeEscalation";
    pub const DRIVER_PRIVILEGE_ESCALATION: &str =
        "spark.kubernetes.driver.securityContext.allowPrivilegeEscalation";
    pub const READ_WRITE_ONCE: &str = "spark.kubernetes.legacy.useReadWriteOnceAccessMode";
    pub const TMPFS: &str = "spark.kubernetes.local.dirs.tmpfs";
    pub const FEATURE_STEPS: &str = "spark.kubernetes.driver.pod.featureSteps";
    pub const EXCLUDED_FEATURE_STEPS: &str = "spark.kubernetes.driver.pod.excludedFeatureSteps";
    pub const HADOOP_CONFIG_MAP: &str = "spark.kubernetes.hadoop.configMapName";
    pub const EXECUTOR_HADOOP_CONFIG_MAP: &str = "spark.kubernetes.executor.hadoopConfigMapName";
    pub const KRB5_PATH: &str = "spark.kubernetes.kerberos.krb5.path";
    pub const KRB5_CONFIG_MAP: &str = "spark.kubernetes.kerberos.krb5.configMapName";
    pub const TOKEN_SECRET_NAME: &str = "spark.kubernetes.kerberos.tokenSecret.name";
    pub const TOKEN_SECRET_ITEM: &str = "spark.kubernetes.kerberos.tokenSecret.itemKey";

    /// With what the driver says who it is: the token itself, or a file of the submitter's. Behind it: the
    /// key of each credential.
    pub const DRIVER_CREDENTIALS_PREFIX: &str = "spark.kubernetes.authenticate.driver.";
    /// Where such a credential is inside the driver's container.
    pub const MOUNTED_CREDENTIALS_PREFIX: &str = "spark.kubernetes.authenticate.driver.mounted.";
}
