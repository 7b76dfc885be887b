//! Sets the CPU, the memory and the devices of Spark's container.

use super::{Conf, Line, input::Kind, memory, not_native::NotNative, submit_conf};
use api::{Role, names::conf};
use serde_json::Value;
use std::collections::BTreeSet;

/// Spark's default heap size, in MiB.
const HEAP: u64 = 1024;
/// The default memory overhead (non-heap memory), as a fraction of the heap (`Config.MEMORY_OVERHEAD_FACTOR`).
const OVERHEAD_FACTOR: f64 = 0.1;
/// The default memory overhead if a Python or R process runs beside the JVM, as a fraction of the heap
/// (`Constants.NON_JVM_MEMORY_OVERHEAD_FACTOR`).
const NON_JVM_OVERHEAD_FACTOR: f64 = 0.4;

/// Sets the resources of Spark's container in pods of `role`. The end of the name of `program` determines its language. Spark
/// does the same in `BasicDriverFeatureStep` for the driver, and in `ResourceProfile` and `BasicExecutorFeatureStep` for
/// executors.
///
/// # Errors
///
/// When Spark would refuse a property, or when only the JVM knows its value.
pub fn set_resources(conf: &Conf, program: &str, role: Role, container: &mut Value) -> Result<(), NotNative> {
    let memory = format!("{}Mi", memory_mib(conf, Kind::of(program), role)?);
    let request = conf::kubernetes(role, conf::REQUEST_CORES);
    let cores = conf.int(&conf::spark(role, conf::CORES))?.unwrap_or(1).to_string();
    let cpu = conf.text(&request)?.unwrap_or(cores);

    let resources = &mut container["resources"];
    resources["requests"]["cpu"] = quantity(&request, cpu)?.into();
    let limit = conf::kubernetes(role, conf::LIMIT_CORES);
    if let Some(cpu) = conf.text(&limit)? {
        resources["limits"]["cpu"] = quantity(&limit, cpu)?.into();
    }
    resources["requests"]["memory"] = memory.as_str().into();
    resources["limits"]["memory"] = memory.into();
    for (name, amount) in devices(conf, role)? {
        resources["limits"][name] = amount.to_string().into();
    }
    Ok(())
}

/// Returns the memory overhead as a fraction of the heap, for a pod whose role has no properties of its own for the
/// overhead.
pub(super) fn default_factor(conf: &Conf, kind: Kind) -> Result<f64, NotNative> {
    let default = match kind {
        Kind::Java => OVERHEAD_FACTOR,
        Kind::Python | Kind::R => NON_JVM_OVERHEAD_FACTOR,
    };
    Ok(conf.factor(conf::MEMORY_OVERHEAD_FACTOR)?.unwrap_or(default))
}

fn memory_mib(conf: &Conf, kind: Kind, role: Role) -> Result<i64, NotNative> {
    let default_factor = default_factor(conf, kind)?;
    let default = |amount: u64| i64::try_from(amount).expect("it is a small constant");
    let heap = conf.mib(&conf::spark(role, conf::MEMORY))?.unwrap_or(default(HEAP));
    let own_factor = conf::spark(role, submit_conf::MEMORY_OVERHEAD_FACTOR_OF_ROLE);
    let factor = match conf.factor(&own_factor)? {
        Some(0.0) => {
            return Err(NotNative::refused(&own_factor, "memory overhead must be a double greater than 0"));
        }
        factor => factor.unwrap_or(default_factor),
    };
    let least = match conf.1 {
        Line::V3_5 => None,
        _ => conf.mib(&conf::spark(role, conf::MEMORY_OVERHEAD_LEAST))?,
    };
    let (own, old) = (conf::spark(role, conf::MEMORY_OVERHEAD), submit_conf::old_memory_overhead(role));
    let stated = conf.first_set(&[&own, &old]).map(|key| conf.mib(key)).transpose()?.flatten();
    let part = part(u64::try_from(heap).unwrap_or(0), factor);
    let computed = || default(part).max(least.unwrap_or(default(memory::OVERHEAD_LEAST)));
    let additional = match role {
        Role::Driver => 0,
        Role::Executor => off_heap_and_python(conf, kind)?,
    };
    Ok(heap.saturating_add(stated.unwrap_or_else(computed)).saturating_add(additional))
}

/// Returns `factor` times `heap`, computed as Scala's `(factor * heap).toInt`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "as in Spark, whose toInt returns the largest Int for a larger number"
)]
fn part(heap: u64, factor: f64) -> u64 {
    ((factor * heap as f64) as i32) as u64
}

/// Returns the off-heap memory and PySpark's memory in MiB, which only executors have in addition to the overhead.
fn off_heap_and_python(conf: &Conf, kind: Kind) -> Result<i64, NotNative> {
    let is_off_heap = conf.boolean(submit_conf::OFF_HEAP)?.unwrap_or(false);
    let bytes = if is_off_heap { conf.bytes(submit_conf::OFF_HEAP_SIZE)? } else { None };
    let off_heap = i64::try_from(bytes.unwrap_or(0) >> 20).unwrap_or(i64::MAX);
    let python = if kind == Kind::Python { conf.mib(submit_conf::PYSPARK_MEMORY)? } else { None };
    Ok(off_heap.saturating_add(python.unwrap_or(0)))
}

/// Returns the limits for GPUs and other devices: the resource name `<vendor>/<name>` and the number of devices.
fn devices(conf: &Conf, role: Role) -> Result<Vec<(String, i32)>, NotNative> {
    let prefix = conf::spark(role, conf::RESOURCE_PREFIX);
    let settings = conf.prefixed(&prefix);
    let names: BTreeSet<_> =
        settings.map(|(setting, _)| setting.split('.').next().unwrap_or(setting)).collect();
    let mut devices = Vec::new();
    for name in names {
        let (amount, vendor) = (format!("{prefix}{name}.amount"), format!("{prefix}{name}.vendor"));
        let Some(number) = conf.raw_int(&amount)? else {
            return Err(NotNative::refused(&amount, format_args!("you must specify an amount for {name}")));
        };
        if number <= 0 {
            continue;
        }
        let Some(domain) = conf.raw(&vendor) else {
            let problem = format!("Resource: {name} was requested, but vendor was not specified");
            return Err(NotNative::refused(&vendor, problem));
        };
        devices.push((format!("{domain}/{name}"), number));
    }
    Ok(devices)
}

/// Returns `text` if Spark's client library accepts it as a quantity, which it does for nearly every text. The API
/// server is stricter.
pub(super) fn quantity(key: &str, text: String) -> Result<String, NotNative> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || ".+-".contains(c));
    let is_odd = unit.contains(|c: char| c.is_ascii_digit()) && unit.ends_with(char::is_alphabetic);
    if text.is_empty() || is_odd {
        return Err(NotNative::refused(
            key,
            format_args!("`{text}` is not a quantity of Kubernetes (try `1` or `500m`)"),
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::quantity;

    #[test]
    fn quantities_are_accepted_as_by_sparks_client_library() {
        for text in ["0.10", "1e3", "+5E1", "abc", "500m", "1Gi", " 1"] {
            assert_eq!(quantity("key", text.to_owned()), Ok(text.to_owned()));
        }
        for text in ["", "1e3m"] {
            assert!(quantity("key", text.to_owned()).is_err(), "{text}");
        }
    }
}
