//! Computes how many executors Spark creates and which resources Spark's containers ask for, in the same way as Spark's
//! submission client and Spark's scheduler back end for Kubernetes.

use super::Error;
use api::{Role, SparkApplicationSpec, names::conf};
use serde_json::Value;
use spark_client::{Conf, NotNative, set_resources};
use submission::field_of;

/// Spark's default for the number of executors.
const INSTANCES: i32 = 2;

/// The inputs of Spark's computation: the spec of the application, and the properties, not all of which are made from it.
pub(super) struct Spark<'a> {
    pub spec: &'a SparkApplicationSpec,
    pub conf: Conf,
}

impl Spark<'_> {
    /// Sets the resources of Spark's container in pods of `role`.
    pub(super) fn set_resources(&self, role: Role, container: &mut Value) -> Result<(), Error> {
        let resources = set_resources(&self.conf, &self.spec.main_application_file, role, container);
        resources.map_err(|problem| self.unknown(problem))
    }

    /// Returns the number of cores that Spark uses in the role's container.
    pub(super) fn cores(&self, role: Role) -> &str {
        self.conf.raw(&conf::spark(role, conf::CORES)).unwrap_or("1").trim()
    }

    /// Returns the number of executors that the driver creates at first (as Spark's `SchedulerBackendUtils` and
    /// `Utils.getDynamicAllocationInitialExecutors`).
    pub(super) fn initial_executors(&self) -> Result<u32, Error> {
        let instances = self.count(conf::EXECUTOR_INSTANCES)?;
        let initial = if self.is_dynamic()? {
            let (least, initial) =
                (self.count(conf::DYNAMIC_ALLOCATION_MIN)?, self.count(conf::DYNAMIC_ALLOCATION_INITIAL)?);
            [least, initial, instances].into_iter().flatten().max().unwrap_or(0)
        } else {
            instances.unwrap_or(INSTANCES)
        };
        Ok(u32::try_from(initial).unwrap_or(0))
    }

    /// Returns the greatest number of executors: see [`super::PodRequests::greatest`].
    pub(super) fn most_executors(&self) -> Result<u32, Error> {
        let initial = self.initial_executors()?;
        if !self.is_dynamic()? {
            return Ok(initial);
        }
        let most = self.count(conf::DYNAMIC_ALLOCATION_MAX)?;
        Ok(most.map_or(initial.max(1), |most| u32::try_from(most).unwrap_or(0)))
    }

    fn count(&self, key: &str) -> Result<Option<i32>, Error> {
        self.conf.int(key).map_err(|problem| self.unknown(problem))
    }

    /// Whether dynamic allocation is on, so that the number of executors follows the work.
    pub(super) fn is_dynamic(&self) -> Result<bool, Error> {
        let is_on = self.conf.boolean(conf::DYNAMIC_ALLOCATION).map_err(|problem| self.unknown(problem))?;
        Ok(is_on.unwrap_or(false))
    }

    /// Returns the error for a property that Spark would refuse, or whose value only Spark knows.
    fn unknown(&self, problem: NotNative) -> Error {
        let (NotNative::Refused { field: key, why } | NotNative::Fallback { field: key, why, .. }) = problem;
        let field = field_of(self.spec, "spec", &key);
        let is_of_admin = field == key && self.conf.raw(&key).is_some();
        let place = if is_of_admin { " in the administrator's spark-defaults.conf" } else { "" };
        Error::Unknown { field: format!("{field}{place}"), why }
    }
}
