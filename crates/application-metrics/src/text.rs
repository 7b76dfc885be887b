//! Writes the metrics of applications and executors in Prometheus' text format, version 0.0.4. `prometheus-client` cannot
//! write them: the counters of Kubeflow's operator do not end in `_total`, and some of its metrics are summaries.

use super::{Count, Durations, Label, Labelled, Ledger, Options, Retry, Snapshot, Timed};
use api::State;

/// A sample: the suffix of its metric's name, the values of the configured labels, a further label, and the number.
type Sample<'a> = (&'static str, &'a [String], Option<(&'static str, String)>, f64);

impl Snapshot {
    /// Returns all metrics in Prometheus' text format.
    pub fn text(&self) -> String {
        let Ledger { options, applications, executors } = &self.0;
        let mut text = Text { options, written: String::new() };
        for (count, help) in [
            (Count::Began, "New applications that the operator has begun to handle"),
            (Count::Submitted, "Submissions that created a driver, those of retries and re-runs included"),
            (Count::SubmissionFailed, "Submissions that have failed, including those that were retried"),
            (Count::Succeeded, "Applications that have become COMPLETED"),
            (Count::Failed, "Applications that have become FAILED, without those that are retried"),
        ] {
            let counted = numbers(applications, |of| of.counts[count as usize]);
            text.family(count.as_str(), "counter", help, counted);
        }

        let help = "Runs and submissions that were retried, by cause";
        let retries = applications.iter().flat_map(|(values, (_, of))| {
            Retry::ALL.map(|retry| {
                let cause = Some(("cause", retry.as_str().to_owned()));
                ("", &values[..], cause, of.retries[retry as usize] as f64)
            })
        });
        text.family("spark_application_retries_total", "counter", help, retries);

        let running = numbers(applications, |of| of.states[State::Running as usize]);
        text.family("spark_application_running_count", "gauge", "Applications whose driver runs", running);
        let states = applications.iter().flat_map(|(values, (_, of))| {
            State::ALL.map(|state| {
                let label = if state == State::New { "NEW" } else { state.as_str() };
                ("", &values[..], Some(("state", label.to_owned())), of.states[state as usize] as f64)
            })
        });
        text.family("spark_applications", "gauge", "Applications that exist, by their state", states);

        for (timed, help) in [
            (Timed::Success, "From the last submission to COMPLETED, in seconds"),
            (Timed::Failure, "From the last submission to FAILED, in seconds"),
            (Timed::Submission, "From the creation of an application to its first submission, in seconds"),
            (Timed::Start, "From the creation of an application until its first driver runs, in seconds"),
        ] {
            let all = applications.iter().map(|(values, (_, of))| (values, &of.times[timed as usize]));
            let totals = all.clone().flat_map(|(values, durations)| durations.totals(values));
            text.family(timed.as_str(), "summary", help, totals);
            if let Some(bounds) = options.bounds(timed) {
                let samples = all.flat_map(|(values, durations)| {
                    durations.buckets(values, bounds).chain(durations.totals(values))
                });
                text.family(&format!("{timed}_histogram"), "histogram", help, samples);
            }
        }

        let running = numbers(executors, |counts| counts.running);
        text.family("spark_executor_running_count", "gauge", "Executors that run", running);
        let help = "Executors that have completed";
        let succeeded = numbers(executors, |counts| counts.succeeded);
        text.family("spark_executor_success_count", "counter", help, succeeded);
        let failed = numbers(executors, |counts| counts.failed);
        text.family("spark_executor_failure_count", "counter", "Executors that have failed", failed);
        text.written
    }
}

/// The text that is being written, and the options for the prefix and the labels of its metrics.
struct Text<'a> {
    options: &'a Options,
    written: String,
}

impl Text<'_> {
    fn family<'a>(&mut self, name: &str, kind: &str, help: &str, samples: impl Iterator<Item = Sample<'a>>) {
        let name = format!("{}{name}", self.options.prefix.0);
        self.written += &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for (suffix, values, more, number) in samples {
            let own = self.options.labels.iter().map(Label::as_str).zip(values);
            let more = more.as_ref().map(|(label, value)| (*label, value));
            let written = |(label, value): (&str, &String)| {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                format!("{label}=\"{value}\"")
            };
            let labels: Vec<_> = own.chain(more).map(written).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            self.written += &format!("{name}{suffix}{labels} {number}\n");
        }
    }
}

/// Returns one number for each combination of values.
fn numbers<T>(labelled: &Labelled<T>, number: impl Fn(&T) -> u64) -> impl Iterator<Item = Sample<'_>> {
    labelled.iter().map(move |(values, (_, counts))| ("", &values[..], None, number(counts) as f64))
}

impl Durations {
    /// Returns the number of durations up to each of `bounds`, and the number of all durations (`+Inf`).
    fn buckets<'a>(&self, values: &'a [String], bounds: &[f64]) -> impl Iterator<Item = Sample<'a>> {
        let buckets = bounds.iter().enumerate().map(move |(place, bound)| {
            // Without an observation there are no buckets yet.
            (bound.to_string(), self.buckets.get(place).copied().unwrap_or_default())
        });
        let buckets = buckets.chain([("+Inf".to_owned(), self.count)]);
        buckets.map(move |(bound, count)| ("_bucket", values, Some(("le", bound)), count as f64))
    }

    fn totals<'a>(&self, values: &'a [String]) -> [Sample<'a>; 2] {
        [("_sum", values, None, self.sum), ("_count", values, None, self.count as f64)]
    }
}
