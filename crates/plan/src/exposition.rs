//! Translates metrics to Prometheus' text format, version 0.0.4. That format also accepts names that OpenMetrics forbids:
//! the counters of Kubeflow's operator do not end in `_total`.

use std::fmt::Write;

/// The content type of the answer to a scrape.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Translates OpenMetrics' text format into Prometheus' text format. In Prometheus' format a family has the same name
/// as its samples, and there is no end marker.
#[must_use]
pub fn from_openmetrics(text: &str) -> String {
    let mut told = String::with_capacity(text.len());
    let mut help = "";
    for line in text.lines() {
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
                "unknown" => ("", "untyped"),
                _ => ("", kind),
            };
            writeln!(told, "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}")
                .expect("writing to a String cannot fail");
        } else if !line.starts_with('#') {
            told.push_str(line);
            told.push('\n');
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_called_what_their_samples_are() {
        let openmetrics = "# HELP a_seconds Counts.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n\
            a_seconds_total{x=\"# y\"} 1\n# HELP build The version.\n# TYPE build info\nbuild_info{v=\"1\"} 1\n\
            # HELP h How long.\n# TYPE h histogram\nh_sum 0.0\nh_count 0\nh_bucket{le=\"+Inf\"} 0\n# EOF\n";
        let expected = "# HELP a_seconds_total Counts.\n# TYPE a_seconds_total counter\na_seconds_total{x=\"# y\"} 1\n\
            # HELP build_info The version.\n# TYPE build_info gauge\nbuild_info{v=\"1\"} 1\n\
            # HELP h How long.\n# TYPE h histogram\nh_sum 0.0\nh_count 0\nh_bucket{le=\"+Inf\"} 0\n";
        assert_eq!(from_openmetrics(openmetrics), expected);
    }
}
