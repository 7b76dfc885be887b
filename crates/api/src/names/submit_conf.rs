//! Keys of Spark's configuration that only Spark's submission client reads.

/// URL of a Spark Connect server, used in place of a cluster.
pub const REMOTE: &str = "spark.remote";
/// Spark's application id (`spark-…`).
pub const APP_ID: &str = "spark.app.id";
/// The time at which the run was submitted, in milliseconds since 1970.
pub const SUBMIT_TIME: &str = "spark.app.submitTime";
/// Jars on the class path, separated by commas.
pub const JARS: &str = "spark.jars";
/// Maven coordinates of jars, separated by commas.
pub const PACKAGES: &str = "spark.jars.packages";
/// Maven coordinates of jars that [`PACKAGES`] must not bring, separated by commas.
pub const EXCLUDED_PACKAGES: &str = "spark.jars.excludes";
/// Maven repositories, separated by commas.
pub const REPOSITORIES: &str = "spark.jars.repositories";
/// Files in the working directory, separated by commas.
pub const FILES: &str = "spark.files";
/// Archives that are unpacked in the working directory, separated by commas.
pub const ARCHIVES: &str = "spark.archives";
/// Files on the Python path, separated by commas.
pub const PY_FILES: &str = "spark.submit.pyFiles";
/// YARN's lists of files, which Spark resolves like its own lists, whatever the cluster.
pub const YARN_LISTS: [&str; 3] =
    ["spark.yarn.dist.files", "spark.yarn.dist.archives", "spark.yarn.dist.jars"];
/// The port of the block manager, through which data is transferred; 0 means any port.
pub const BLOCK_MANAGER_PORT: &str = "spark.blockManager.port";
/// The port of Spark Connect's server.
pub const CONNECT_PORT: &str = "spark.connect.grpc.binding.port";
/// Directories for scratch space if no volume is mounted for it.
pub const LOCAL_DIR: &str = "spark.local.dir";
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
/// Prefix of all settings of Spark on Kubernetes.
pub const KUBERNETES_PREFIX: &str = "spark.kubernetes.";

/// The prefix of the credentials with which Spark's own client creates the driver.
pub const SUBMISSION_CREDENTIALS: &str = "spark.kubernetes.authenticate.submission.";
/// Name under which executors reach the driver.
pub const DRIVER_HOST: &str = "spark.driver.host";
/// The driver's port for executors.
pub const DRIVER_PORT: &str = "spark.driver.port";
/// Whether the driver creates no ConfigMap with its properties for its executors: `true` or `false`.
pub const EXECUTOR_WITHOUT_CONFIG_MAP: &str = "spark.kubernetes.executor.disableConfigMap";
/// The port of the driver's block manager; overrides [`BLOCK_MANAGER_PORT`].
pub const DRIVER_BLOCK_MANAGER_PORT: &str = "spark.driver.blockManager.port";
/// The address that the driver listens on.
pub const BIND_ADDRESS: &str = "spark.driver.bindAddress";
/// JVM options that are put before `extraJavaOptions`. A suffix of `spark.driver.` or `spark.executor.`.
pub const DEFAULT_JAVA_OPTIONS: &str = "defaultJavaOptions";

/// `true` inside a driver that was submitted in cluster mode.
pub const SUBMIT_IN_DRIVER: &str = "spark.kubernetes.submitInDriver";
/// The program's language: `java`, `python` or `r`.
pub const RESOURCE_TYPE: &str = "spark.kubernetes.resource.type";
/// Name of the scheduler that places the pods of both roles.
pub const SCHEDULER_NAME: &str = "spark.kubernetes.scheduler.name";
/// The directory in a Hadoop file system to which `spark-submit` uploads local files.
pub const UPLOAD_PATH: &str = "spark.kubernetes.file.upload.path";
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
