//! Keys of Spark's configuration that only Spark's submission client reads. The keys that the operator also sets or
//! checks are in the crate `api`, and are exported again here.

pub use api::submit_conf::*;
use api::{Role, conf};

/// URL of a Spark Connect server, used in place of a cluster.
pub const REMOTE: &str = "spark.remote";
/// Spark's application id (`spark-…`).
pub const APP_ID: &str = "spark.app.id";
/// The time at which the run was submitted, in milliseconds since 1970.
pub const SUBMIT_TIME: &str = "spark.app.submitTime";
/// The port of the block manager, through which data is transferred; 0 means any port.
pub const BLOCK_MANAGER_PORT: &str = "spark.blockManager.port";
/// The Python of the executors, and of the driver unless [`DRIVER_PYTHON`] is set.
pub const PYTHON: &str = "spark.pyspark.python";
/// The Python of the driver.
pub const DRIVER_PYTHON: &str = "spark.pyspark.driver.python";
/// Path of a Kerberos keytab.
pub const KEYTAB: &str = "spark.kerberos.keytab";
/// The Kerberos principal that the keytab belongs to.
pub const PRINCIPAL: &str = "spark.kerberos.principal";
/// Hadoop's key `hadoop.security.authentication` with Spark's prefix for Hadoop's keys.
pub const HADOOP_AUTHENTICATION: &str = "spark.hadoop.hadoop.security.authentication";
/// The end of every key whose value is a token.
pub const TOKEN_SUFFIX: &str = "oauthToken";

/// Whether the driver creates no ConfigMap with its properties for its executors: `true` or `false`.
pub const EXECUTOR_WITHOUT_CONFIG_MAP: &str = "spark.kubernetes.executor.disableConfigMap";
/// JVM options that are put before `extraJavaOptions`. A suffix of `spark.driver.` or `spark.executor.`.
pub const DEFAULT_JAVA_OPTIONS: &str = "defaultJavaOptions";

/// `true` inside a driver that was submitted in cluster mode.
pub const SUBMIT_IN_DRIVER: &str = "spark.kubernetes.submitInDriver";
/// The program's language: `java`, `python` or `r`.
pub const RESOURCE_TYPE: &str = "spark.kubernetes.resource.type";
/// Name of the scheduler that places the pods of both roles.
pub const SCHEDULER_NAME: &str = "spark.kubernetes.scheduler.name";
/// Greatest size of the driver's ConfigMap, in bytes.
pub const CONFIG_MAP_MAX_SIZE: &str = "spark.kubernetes.configMap.maxSize";
/// `ipFamilyPolicy` of the driver's Service.
pub const IP_FAMILY_POLICY: &str = "spark.kubernetes.driver.service.ipFamilyPolicy";
/// `ipFamilies` of the driver's Service, separated by commas.
pub const IP_FAMILIES: &str = "spark.kubernetes.driver.service.ipFamilies";
/// `publishNotReadyAddresses` of the driver's Service.
pub const PUBLISH_NOT_READY: &str = "spark.kubernetes.driver.service.publishNotReadyAddresses";
/// `allowPrivilegeEscalation` of the Spark containers of driver and executors.
pub const PRIVILEGE_ESCALATION: &str = "spark.kubernetes.securityContext.allowPrivilegeEscalation";
/// `allowPrivilegeEscalation` of the driver's Spark container.
pub const DRIVER_PRIVILEGE_ESCALATION: &str =
    "spark.kubernetes.driver.securityContext.allowPrivilegeEscalation";
/// Whether the access mode of claims that Spark creates is `ReadWriteOnce` instead of `ReadWriteOncePod`.
pub const READ_WRITE_ONCE: &str = "spark.kubernetes.legacy.useReadWriteOnceAccessMode";
/// Whether scratch space is kept in memory.
pub const TMPFS: &str = "spark.kubernetes.local.dirs.tmpfs";
/// Classes that make further changes to the driver's pod.
pub const FEATURE_STEPS: &str = "spark.kubernetes.driver.pod.featureSteps";
/// Spark's own classes that must not change the driver's pod.
pub const EXCLUDED_FEATURE_STEPS: &str = "spark.kubernetes.driver.pod.excludedFeatureSteps";
/// Name of a ConfigMap with Hadoop's configuration for the driver.
pub const HADOOP_CONFIG_MAP: &str = "spark.kubernetes.hadoop.configMapName";
/// Name of a ConfigMap with Hadoop's configuration for the executors.
pub const EXECUTOR_HADOOP_CONFIG_MAP: &str = "spark.kubernetes.executor.hadoopConfigMapName";
/// Path of `krb5.conf` on the submitter's file system.
pub const KRB5_PATH: &str = "spark.kubernetes.kerberos.krb5.path";
/// Name of a ConfigMap with a `krb5.conf`.
pub const KRB5_CONFIG_MAP: &str = "spark.kubernetes.kerberos.krb5.configMapName";
/// Name of a Secret with Hadoop's delegation tokens.
pub const TOKEN_SECRET_NAME: &str = "spark.kubernetes.kerberos.tokenSecret.name";
/// Key of the entry of that Secret that contains the tokens.
pub const TOKEN_SECRET_ITEM: &str = "spark.kubernetes.kerberos.tokenSecret.itemKey";

/// Prefix of the credentials by which the driver authenticates to the API server; followed by the key of a
/// credential. The value is the token itself or the path of a file of the submitter.
pub const DRIVER_CREDENTIALS_PREFIX: &str = "spark.kubernetes.authenticate.driver.";
/// Prefix of the paths of the driver's credentials inside its container; followed by the key of a credential.
pub const MOUNTED_CREDENTIALS_PREFIX: &str = "spark.kubernetes.authenticate.driver.mounted.";

/// Whether Spark uses memory outside the heap: `true` or `false`.
pub const OFF_HEAP: &str = "spark.memory.offHeap.enabled";
/// Size of the memory outside the heap, in Java's notation; a number without a unit means bytes.
pub const OFF_HEAP_SIZE: &str = "spark.memory.offHeap.size";
/// Memory of Python in each executor, in Java's notation; a number without a unit means MiB.
pub const PYSPARK_MEMORY: &str = "spark.executor.pyspark.memory";
/// Memory overhead, as a fraction of the heap; Spark 3.3 and later. A suffix for [`conf::spark`].
pub const MEMORY_OVERHEAD_FACTOR_OF_ROLE: &str = "memoryOverheadFactor";
/// Name of the scheduler that places the pod. A suffix for [`conf::kubernetes`].
pub const SCHEDULER: &str = "scheduler.name";

/// Returns the key that Spark reads if [`conf::MEMORY_OVERHEAD`] is not set.
pub fn old_memory_overhead(role: Role) -> String {
    format!("spark.yarn.{}.memoryOverhead", role.as_str())
}

/// Returns the prefixes of the node selector of the role's pods, of which the last one takes precedence; each is
/// followed by the key of a node label.
pub fn node_selector_prefixes(role: Role) -> [String; 2] {
    [conf::NODE_SELECTOR_PREFIX.to_owned(), conf::kubernetes(role, "node.selector.")]
}
