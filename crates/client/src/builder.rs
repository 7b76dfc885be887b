//! Builds an application step by step, beginning with its program. Fields that are not set stay empty, so that the
//! operator fills in its defaults.

use api::{ApplicationType, SparkApplication, SparkApplicationSpec};

/// Builds an application: has a method for each field of [`SparkApplicationSpec`] that nearly every application needs.
///
/// [`Self::with`] sets any other field; [`Self::named`] returns the application. Fields that are not set are left out,
/// as in a manifest: the operator fills them in as [`with_defaults`](api::with_defaults) does. The builder checks
/// nothing: when the application is submitted, the webhook checks whether it can be run
/// ([`Error::Refused`](super::Error::Refused)); without a webhook the operator checks that, and reports mistakes in the
/// status.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "it becomes an application by `named`"]
pub struct Builder {
    spec: SparkApplicationSpec,
}

impl Builder {
    /// Begins an application with a Scala program: the class with its main function, and its jar. `local://` is a path
    /// inside the image, anything else a URL that Spark can fetch (`s3a://`, `gs://`, `hdfs://`, `https://`).
    pub fn scala(main_class: impl Into<String>, jar: impl Into<String>) -> Self {
        Self::of(ApplicationType::Scala, Some(main_class.into()), jar.into())
    }

    /// Begins an application with a Java program, otherwise like [`Self::scala`].
    pub fn java(main_class: impl Into<String>, jar: impl Into<String>) -> Self {
        Self::of(ApplicationType::Java, Some(main_class.into()), jar.into())
    }

    /// Begins an application with a Python program: its file, where [`Self::scala`] has a jar.
    pub fn python(file: impl Into<String>) -> Self {
        Self::of(ApplicationType::Python, None, file.into())
    }

    /// Begins an application with an R program, otherwise like [`Self::python`].
    pub fn r(file: impl Into<String>) -> Self {
        Self::of(ApplicationType::R, None, file.into())
    }

    fn of(
        application_type: ApplicationType,
        main_class: Option<String>,
        main_application_file: String,
    ) -> Self {
        Self {
            spec: SparkApplicationSpec {
                application_type,
                main_class,
                main_application_file,
                ..SparkApplicationSpec::default()
            },
        }
    }

    /// Sets the version of Spark, such as `4.0.1`, and the container image that contains it. Every application needs
    /// both, unless driver and executors have images of their own.
    pub fn spark(mut self, version: impl Into<String>, image: impl Into<String>) -> Self {
        self.spec.spark_version = version.into();
        self.spec.image = Some(image.into());
        self
    }

    /// Adds arguments of the program, after those that were added before.
    pub fn arguments(mut self, arguments: impl IntoIterator<Item: Into<String>>) -> Self {
        self.spec.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a Spark property, as with `--conf`. A field of the spec that sets the same property takes precedence.
    pub fn conf(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.spec.spark_conf.insert(key.into(), value.into());
        self
    }

    /// Sets the size of the driver: its cores, and its heap in Java's notation (`512m`, `4g`). The pod's memory is the
    /// heap plus Spark's memory overhead.
    pub fn driver(mut self, cores: i32, memory: impl Into<String>) -> Self {
        self.spec.driver.pod.cores = Some(cores);
        self.spec.driver.pod.memory = Some(memory.into());
        self
    }

    /// Sets the ServiceAccount that the driver runs as: it has to be allowed to create pods, Services and ConfigMaps in
    /// the namespace.
    pub fn service_account(mut self, name: impl Into<String>) -> Self {
        self.spec.driver.pod.service_account = Some(name.into());
        self
    }

    /// Sets the number of executors, and the size of each as in [`Self::driver`].
    pub fn executors(mut self, instances: i32, cores: i32, memory: impl Into<String>) -> Self {
        self.spec.executor.instances = Some(instances);
        self.spec.executor.pod.cores = Some(cores);
        self.spec.executor.pod.memory = Some(memory.into());
        self
    }

    /// Changes any field of the spec, including those that were set by other methods.
    ///
    /// ```
    /// use spark_operator_client::{Builder, api::RestartPolicyType};
    ///
    /// let pi = Builder::python("local:///opt/spark/examples/src/main/python/pi.py")
    ///     .spark("4.0.1", "docker.io/apache/spark:4.0.1-python3")
    ///     .with(|spec| {
    ///         spec.restart_policy.restart_type = RestartPolicyType::OnFailure;
    ///         spec.restart_policy.on_failure_retries = Some(3);
    ///         spec.time_to_live_seconds = Some(3_600);
    ///     })
    ///     .named("pi");
    /// assert_eq!(pi.spec.restart_policy.on_failure_retries, Some(3));
    /// ```
    pub fn with(mut self, change: impl FnOnce(&mut SparkApplicationSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    /// Returns the application with this name: a DNS label of at most 63 characters, because Services and labels
    /// contain it too.
    ///
    /// Labels and annotations are in its `metadata`. To give each submission a name of its own, leave `metadata.name`
    /// empty and put the beginning of the name, such as `spark-pi-`, into `metadata.generate_name`:
    /// [`Applications::submit`](super::Applications::submit) returns the application with the name that the cluster has
    /// given it.
    pub fn named(self, name: &str) -> SparkApplication {
        SparkApplication::new(name, self.spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_builder_builds_the_example_of_the_readme() {
        let readme = include_str!("../../../README.md");
        let manifest = readme.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let mut pi = Builder::scala(
            "org.apache.spark.examples.SparkPi",
            "local:///opt/spark/examples/jars/spark-examples.jar",
        )
        .spark("4.0.1", "docker.io/apache/spark:4.0.1")
        .arguments(["100"])
        .driver(1, "512m")
        .service_account("spark")
        .executors(1, 1, "512m")
        .named("spark-pi");
        pi.metadata.namespace = Some("default".to_owned());
        assert_eq!(pi, serde_saphyr::from_str::<SparkApplication>(manifest).unwrap());
    }

    #[test]
    fn fields_that_are_not_set_stay_empty() {
        let pi = Builder::python("pi.py").conf("spark.executor.instances", "3").named("pi");
        let expected = SparkApplicationSpec {
            application_type: ApplicationType::Python,
            main_application_file: "pi.py".to_owned(),
            spark_conf: [("spark.executor.instances".to_owned(), "3".to_owned())].into(),
            ..SparkApplicationSpec::default()
        };
        assert_eq!(pi.spec, expected);
    }
}
