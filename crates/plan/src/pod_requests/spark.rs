//! Computes how many executors Spark creates and which resources Spark's containers ask for, in the same way as Spark's
//! submission client and Spark's scheduler back end for Kubernetes.

use super::Error;
use api::{Role, SparkApplicationSpec, names::conf};
use spark_client::{Conf, NotNative};
use submission::field_of;

/// Spark's default for the number of executors.
const INSTANCES: i32 = 2;

/// The inputs of Spark's computation: the spec of the application, and the properties, not all of which are made from it.
pub(super) struct Spark<'a> {
    pub spec: &'a SparkApplicationSpec,
    pub conf: Conf,
}

impl Spark<'_> {
    /// Returns the number of cores that Spark uses in the role's container.
    pub(super) fn cores(&self, role: Role) -> &str {
        self.conf.raw(&conf::spark(role, conf::CORES)).unwrap_or("1").trim()
    }

    /// Returns whether dynamic allocation is on, so that the number of executors follows the work, the number of executors that
    /// the driver creates at first (as Spark's `SchedulerBackendUtils` and `Utils.getDynamicAllocationInitialExecutors`), and
    /// the greatest number: see [`super::PodRequests::greatest`].
    pub(super) fn executors(&self) -> Result<(bool, u32, u32), Error> {
        let number = |number: i32| u32::try_from(number).unwrap_or(0);
        let instances = self.count(conf::EXECUTOR_INSTANCES)?;
        let is_dynamic =
            self.conf.boolean(conf::DYNAMIC_ALLOCATION).map_err(|problem| self.unknown(problem))?;
        if is_dynamic != Some(true) {
            let instances = number(instances.unwrap_or(INSTANCES));
            return Ok((false, instances, instances));
        }
        let least = self.count(conf::DYNAMIC_ALLOCATION_MIN)?;
        let initial = self.count(conf::DYNAMIC_ALLOCATION_INITIAL)?;
        let initial = number([least, initial, instances].into_iter().flatten().max().unwrap_or(0));
        let most = self.count(conf::DYNAMIC_ALLOCATION_MAX)?;
        Ok((true, initial, most.map_or(initial.max(1), number)))
    }

    fn count(&self, key: &str) -> Result<Option<i32>, Error> {
        self.conf.int(key).map_err(|problem| self.unknown(problem))
    }

    /// Returns the error for a property that Spark would refuse, or whose value only Spark knows.
    pub(super) fn unknown(&self, problem: NotNative) -> Error {
        let (NotNative::Refused { field: key, why } | NotNative::Fallback { field: key, why, .. }) = problem;
        let field = field_of(self.spec, "spec", &key);
        let is_of_admin = field == key && self.conf.raw(&key).is_some();
        let place = if is_of_admin { " in the administrator's spark-defaults.conf" } else { "" };
        Error::Unknown { field: format!("{field}{place}"), why }
    }
}
