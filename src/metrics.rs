//! Creates the registry to which every part adds its metrics, and the metrics of the process as a whole.

use crate::settings::VERSION;
use procfs::process::{LimitValue, Process};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, text},
    metrics::{counter::ConstCounter, gauge::ConstGauge, info::Info},
    registry::Registry,
};
use std::fmt;

/// The content type of [`text()`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns a registry that contains the metrics of the process.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.register("spark_operator_build", "The operator's version", Info::new([("version", VERSION)]));
    registry.register_collector(Box::new(ProcessCollector));
    registry
}

/// Returns all metrics in Prometheus' text format, version 0.0.4.
pub fn text(registry: &Registry) -> String {
    let mut text = String::new();
    text::encode(&mut text, registry).expect("writing to a String cannot fail");
    from_openmetrics(&text)
}

/// Translates OpenMetrics' text format into Prometheus' text format. In Prometheus' format a family has the same name
/// as its samples, and there is no end marker.
fn from_openmetrics(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let mut help = "";
    for line in openmetrics.lines() {
        if let Some(of_family) = line.strip_prefix("# HELP ") {
            // The HELP line is written only together with the TYPE line, because the sample names, and with them the
            // name of the family, depend on the type.
            help = of_family.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|family| family.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                _ => ("", kind),
            };
            text += &format!("# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}\n");
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// Reports the process metrics of Prometheus' own client libraries, under the same names, read from /proc whenever
/// metrics are requested.
#[derive(Debug)]
struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        // Without /proc these metrics are missing; all others are still reported.
        let Ok(process) = Process::myself() else { return Ok(()) };
        let Ok(stat) = process.stat() else { return Ok(()) };
        let ticks = procfs::ticks_per_second() as f64;

        let cpu = ConstCounter::new((stat.utime + stat.stime) as f64 / ticks);
        let help = "Time that the process has spent on processors, user and system, in seconds";
        cpu.encode(encoder.encode_descriptor("process_cpu_seconds", help, None, cpu.metric_type())?)?;

        let memory = Some((stat.rss * procfs::page_size()) as f64);
        let (addresses, threads) = (Some(stat.vsize as f64), Some(stat.num_threads as f64));
        let descriptors = process.fd_count().ok().map(|count| count as f64);
        let limit = process.limits().ok().map(|limits| limits.max_open_files.soft_limit);
        let limit = limit.and_then(|limit| match limit {
            LimitValue::Value(limit) => Some(limit as f64),
            LimitValue::Unlimited => None,
        });
        let started = procfs::boot_time_secs().ok().map(|boot| boot as f64 + stat.starttime as f64 / ticks);
        for (name, help, value) in [
            ("process_resident_memory_bytes", "Memory that the process has in RAM, in bytes", memory),
            ("process_virtual_memory_bytes", "Address space of the process, in bytes", addresses),
            ("process_threads", "Threads of the process", threads),
            ("process_open_fds", "Open file descriptors", descriptors),
            ("process_max_fds", "The most file descriptors that may be open", limit),
            ("process_start_time_seconds", "When the process started, in seconds since 1970", started),
        ] {
            if let Some(value) = value {
                let gauge = ConstGauge::new(value);
                gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{from_openmetrics, registry, text};

    #[test]
    fn the_process_has_the_usual_metrics_of_processes() {
        let text = text(&registry());
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 1e6, "{text}");
        assert!(
            value("process_open_fds") >= 3.0 && value("process_max_fds") > value("process_open_fds"),
            "{text}"
        );
        assert!(value("process_start_time_seconds") > 1.7e9, "{text}");
        assert!(value("process_cpu_seconds_total") >= 0.0, "{text}");
        assert!(
            text.contains(
                "# TYPE spark_operator_build_info gauge\nspark_operator_build_info{version=\"0.1.0\"} 1\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_metric_family_has_the_name_of_its_samples() {
        let openmetrics = "# HELP a_seconds Counts.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n\
            a_seconds_total{x=\"# y\"} 1\n# HELP build The version.\n# TYPE build info\nbuild_info{v=\"1\"} 1\n\
            # HELP h How long.\n# TYPE h histogram\nh_sum 0.0\nh_count 0\nh_bucket{le=\"+Inf\"} 0\n# EOF\n";
        let expected = "# HELP a_seconds_total Counts.\n# TYPE a_seconds_total counter\na_seconds_total{x=\"# y\"} 1\n\
            # HELP build_info The version.\n# TYPE build_info gauge\nbuild_info{v=\"1\"} 1\n\
            # HELP h How long.\n# TYPE h histogram\nh_sum 0.0\nh_count 0\nh_bucket{le=\"+Inf\"} 0\n";
        assert_eq!(from_openmetrics(openmetrics), expected);
    }
}
