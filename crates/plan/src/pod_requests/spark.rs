//! Computes how many executors Spark creates and which resources Spark's containers ask for, in the same way as Spark's
//! submission client and Spark's scheduler back end for Kubernetes.

use super::Error;
use crate::submission::{self, Properties};
use api::{Role, memory, names::conf};
use serde_json::{Value, json};
use spark_client::Line;
use std::collections::BTreeMap;

/// Spark's default for the number of executors.
const INSTANCES: i32 = 2;

/// The inputs of Spark's computation: Spark's version, the properties, those of them that the application states in
/// `sparkConf`, and `mainApplicationFile`.
pub(super) struct Spark<'a> {
    pub version: &'a str,
    pub properties: &'a Properties,
    pub own: &'a BTreeMap<String, String>,
    pub main_file: &'a str,
}

impl Spark<'_> {
    /// Returns the resources of Spark's container as JSON: those of `template`, overridden by those that Spark sets.
    pub(super) fn resources(&self, role: Role, template: &Value) -> Result<Value, Error> {
        let request = self.properties.get(&conf::kubernetes(role, conf::REQUEST_CORES));
        let request = request.unwrap_or_else(|| self.cores(role));
        let mut resources = if template.is_object() { template.clone() } else { json!({}) };
        for part in ["requests", "limits"] {
            if !resources[part].is_object() {
                resources[part] = json!({});
            }
            resources[part]["memory"] = format!("{}Mi", self.memory(role)?).into();
        }
        resources["requests"]["cpu"] = request.into();
        if let Some(limit) = self.properties.get(&conf::kubernetes(role, conf::LIMIT_CORES)) {
            resources["limits"]["cpu"] = limit.into();
        }
        for (name, amount) in self.devices(role)? {
            resources["limits"][name] = amount.to_string().into();
        }
        Ok(resources)
    }

    /// Returns the number of cores that Spark uses in the role's container.
    pub(super) fn cores(&self, role: Role) -> &str {
        self.properties.get(&conf::spark(role, conf::CORES)).unwrap_or("1").trim()
    }

    /// Returns the service account of the role's pods, which for executors is by default that of the driver; none if the
    /// properties name none. (Spark's `ExecutorKubernetesCredentialsFeatureStep`)
    pub(super) fn service_account(&self, role: Role) -> Option<&str> {
        let own = self.properties.get(&conf::service_account(role));
        own.or_else(|| self.properties.get(&conf::service_account(Role::Driver)))
    }

    /// Returns the limits for GPUs and other devices: the resource name `<vendor>/<name>` and the number of devices. A
    /// device without a vendor is left out: Spark refuses to create such a pod.
    fn devices(&self, role: Role) -> Result<Vec<(String, i32)>, Error> {
        let prefix = conf::spark(role, conf::RESOURCE_PREFIX);
        let mut devices = Vec::new();
        for (setting, _) in self.properties.prefixed(&prefix) {
            let Some(name) = setting.strip_suffix(".amount") else { continue };
            let vendor = self.properties.get(&format!("{prefix}{name}.vendor"));
            let amount = self.count(&format!("{prefix}{setting}"))?;
            devices.extend(
                vendor
                    .zip(amount.filter(|amount| *amount > 0))
                    .map(|(vendor, amount)| (format!("{vendor}/{name}"), amount)),
            );
        }
        Ok(devices)
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
        self.read(key, |text| text.trim().parse().ok())
    }

    /// Whether dynamic allocation is on, so that the number of executors follows the work.
    pub(super) fn is_dynamic(&self) -> Result<bool, Error> {
        self.is_on(conf::DYNAMIC_ALLOCATION)
    }

    /// Returns the memory that the role's container asks for, in MiB.
    fn memory(&self, role: Role) -> Result<u64, Error> {
        let heap = self.mib(&conf::spark(role, conf::MEMORY))?.unwrap_or(memory::HEAP);
        let stated = self.mib(&conf::spark(role, conf::MEMORY_OVERHEAD))?;
        let overhead = match stated.or(self.mib(&conf::old_memory_overhead(role))?) {
            Some(overhead) => overhead,
            None => memory::part(heap, self.overhead_factor(role)?).max(self.overhead_least(role)?),
        };
        let beside = match role {
            Role::Driver => 0,
            Role::Executor => self.off_heap()?.saturating_add(self.pyspark()?),
        };
        Ok(heap.saturating_add(overhead).saturating_add(beside))
    }

    /// Returns the minimum of the memory overhead in MiB. Spark 3 has no property for this minimum.
    fn overhead_least(&self, role: Role) -> Result<u64, Error> {
        if !submission::is_since(self.version, 4) {
            return Ok(memory::OVERHEAD_LEAST);
        }
        Ok(self.mib(&conf::spark(role, conf::MEMORY_OVERHEAD_LEAST))?.unwrap_or(memory::OVERHEAD_LEAST))
    }

    fn overhead_factor(&self, role: Role) -> Result<f64, Error> {
        let own = self.read(&conf::spark(role, conf::MEMORY_OVERHEAD_FACTOR_OF_ROLE), memory::factor)?;
        let common = self.read(conf::MEMORY_OVERHEAD_FACTOR, memory::factor)?;
        let default = if self.is_python() || self.is_r() {
            memory::OVERHEAD_FACTOR_BESIDE_JVM
        } else {
            memory::OVERHEAD_FACTOR
        };
        Ok(own.or(common).unwrap_or(default))
    }

    fn off_heap(&self) -> Result<u64, Error> {
        if !self.is_on(conf::OFF_HEAP)? {
            return Ok(0);
        }
        // A number without a unit means bytes in this property.
        let bytes = |text: &str| text.trim().parse().ok().or_else(|| self.bytes(text));
        Ok(self.read(conf::OFF_HEAP_SIZE, bytes)?.unwrap_or(0) >> 20)
    }

    fn pyspark(&self) -> Result<u64, Error> {
        if self.is_python() { Ok(self.mib(conf::PYSPARK_MEMORY)?.unwrap_or(0)) } else { Ok(0) }
    }

    /// Whether Spark takes the program for a Python program. Spark decides by the name of the file, not by the language
    /// in `spec.type`.
    fn is_python(&self) -> bool {
        self.main_file.ends_with(".py")
    }

    fn is_r(&self) -> bool {
        [".R", ".r"].iter().any(|ending| self.main_file.ends_with(ending))
    }

    fn is_on(&self, key: &str) -> Result<bool, Error> {
        let flag = |text: &str| text.trim().to_ascii_lowercase().parse().ok();
        Ok(self.read(key, flag)?.unwrap_or(false))
    }

    fn mib(&self, key: &str) -> Result<Option<u64>, Error> {
        self.read(key, |text| self.bytes(text).map(|bytes| bytes >> 20))
    }

    fn bytes(&self, text: &str) -> Option<u64> {
        Line::nearest(self.version).0.bytes(text)
    }

    /// Returns the value of a property. A value with a reference (`${…}`), which Spark replaces only when it runs, is
    /// an error.
    fn read<T>(&self, key: &str, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Error> {
        let Some(text) = self.properties.get(key) else { return Ok(None) };
        // The values of other fields have been checked.
        let field = || {
            if self.own.contains_key(key) {
                format!("spec.sparkConf[{key}]")
            } else {
                format!("{key} in the administrator's spark-defaults.conf")
            }
        };
        let unknown = || Error::Unknown { field: field(), text: text.to_owned() };
        read(text).map(Some).ok_or_else(unknown)
    }
}
