//! Writes metrics in Prometheus' text format, version 0.0.4. That format also accepts names that OpenMetrics forbids:
//! the counters of Kubeflow's operator do not end in `_total`.

use std::fmt::Write;

/// The content type of the answer to a scrape.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The type of a metric family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
    /// Sum and count, without quantiles.
    Summary,
}

/// Metrics in the text format, as far as they have been added.
#[derive(Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Begins a metric family. The samples that are added next belong to this family.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Summary => "summary",
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    /// Adds one sample.
    pub fn sample<'a>(
        &mut self,
        name: &str,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        value: f64,
    ) {
        let labels: Vec<_> = labels
            .into_iter()
            .map(|(label, value)| {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                format!("{label}=\"{value}\"")
            })
            .collect();
        if labels.is_empty() {
            self.line(format_args!("{name} {value}"));
        } else {
            self.line(format_args!("{name}{{{}}} {value}", labels.join(",")));
        }
    }

    /// Returns all metrics that were added.
    #[must_use]
    pub fn into_text(self) -> String {
        self.0
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("writing to a String cannot fail");
    }
}

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
    fn values_of_labels_are_escaped_and_whole_numbers_have_no_fraction() {
        let mut told = Exposition::default();
        told.family("a_count", Kind::Counter, "With a \\ and\na second line");
        told.sample("a_count", [], 3.0);
        told.sample("a_count", [("team", "a\"b\\c\nd"), ("le", "+Inf")], 0.5);
        let expected = "# HELP a_count With a \\\\ and\\na second line\n# TYPE a_count counter\na_count 3\n\
            a_count{team=\"a\\\"b\\\\c\\nd\",le=\"+Inf\"} 0.5\n";
        assert_eq!(told.into_text(), expected);
    }

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
