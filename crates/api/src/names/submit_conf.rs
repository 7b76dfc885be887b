//! Keys of Spark's configuration that only Spark's submission client reads and that the operator sets or checks. The
//! other keys of that client are in `crates/spark-client/src/submit_conf.rs`.

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
/// The port of Spark Connect's server.
pub const CONNECT_PORT: &str = "spark.connect.grpc.binding.port";
/// Directories for scratch space if no volume is mounted for it.
pub const LOCAL_DIR: &str = "spark.local.dir";
/// Prefix of all settings of Spark on Kubernetes.
pub const KUBERNETES_PREFIX: &str = "spark.kubernetes.";

/// The prefix of the credentials with which Spark's own client creates the driver.
pub const SUBMISSION_CREDENTIALS: &str = "spark.kubernetes.authenticate.submission.";
/// Name under which executors reach the driver.
pub const DRIVER_HOST: &str = "spark.driver.host";
/// The driver's port for executors.
pub const DRIVER_PORT: &str = "spark.driver.port";
/// The port of the driver's block manager; overrides `spark.blockManager.port`.
pub const DRIVER_BLOCK_MANAGER_PORT: &str = "spark.driver.blockManager.port";
/// The address that the driver listens on.
pub const BIND_ADDRESS: &str = "spark.driver.bindAddress";

/// The directory in a Hadoop file system to which `spark-submit` uploads local files.
pub const UPLOAD_PATH: &str = "spark.kubernetes.file.upload.path";
