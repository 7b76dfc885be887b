//! Counts applications and executors for Prometheus, under the metric names and labels of Kubeflow's operator. Gauges
//! are computed from the objects that exist at the moment of the scrape; counters add up the changes that were written
//! to statuses (`tally`).

mod options;
mod tally;

use crate::exposition::{Exposition, Kind};
use api::State;
pub use options::{Label, Options, Prefix, labels_of, labels_of_executors};
use std::{cmp::Ordering, collections::BTreeMap, time::Duration};
pub use tally::{End, Retry, Submission, Tally, tally};

/// How many combinations of label values have their own counters. Without a limit, a user who may label applications
/// could fill the operator's memory and Prometheus' disk. Dashboards have room for a few dozen.
const MOST_LABELLED: usize = 500;
/// The value of all labels for the combinations beyond that limit.
const OTHER: &str = "Other";

/// The values of the configured labels, in the order of the configuration. Equal ones may have been brought by different
/// namespaces.
#[derive(Clone, Debug, Default)]
pub struct Values {
    brought_by: String,
    shown: Vec<String>,
}

impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        self.shown == other.shown
    }
}

impl Eq for Values {}

impl PartialOrd for Values {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Values {
    fn cmp(&self, other: &Self) -> Ordering {
        self.shown.cmp(&other.shown)
    }
}

/// The values of the gauges at one moment, by the values of the labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// Applications in each state.
    pub applications: BTreeMap<Values, BTreeMap<State, u64>>,
    /// Executors that are running.
    pub executors: BTreeMap<Values, u64>,
}

/// The counters since the start of the process.
#[derive(Clone, Debug)]
pub struct Ledger {
    options: Options,
    applications: BTreeMap<Values, Applications>,
    executors: BTreeMap<Values, Executors>,
}

/// The counters and the gauges of one moment, so that nobody who counts waits for their text.
#[derive(Clone, Debug)]
pub struct Snapshot {
    counters: Ledger,
    states: BTreeMap<Values, BTreeMap<State, u64>>,
    executors: BTreeMap<Values, u64>,
}

#[derive(Clone, Debug, Default)]
struct Applications {
    began: u64,
    submitted: u64,
    failed_submissions: u64,
    succeeded: u64,
    failed: u64,
    retries: BTreeMap<Retry, u64>,
    success_times: Durations,
    failure_times: Durations,
    submit_latencies: Durations,
    start_latencies: Durations,
}

#[derive(Clone, Debug, Default)]
struct Executors {
    succeeded: u64,
    failed: u64,
}

#[derive(Clone, Debug, Default)]
struct Durations {
    count: u64,
    /// In seconds.
    sum: f64,
    /// For each bucket, the number of durations that are greater than the upper bound of the previous bucket and at
    /// most this bucket's own upper bound.
    buckets: Vec<u64>,
}

impl Durations {
    fn observe(&mut self, duration: Duration, bounds: &[f64]) {
        let seconds = duration.as_secs_f64();
        self.count += 1;
        self.sum += seconds;
        self.buckets.resize(bounds.len(), 0);
        if let Some(bucket) = bounds.iter().position(|bound| seconds <= *bound) {
            self.buckets[bucket] += 1;
        }
    }
}

impl Ledger {
    /// Returns a ledger whose counters are all zero.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let mut ledger = Self { options, applications: BTreeMap::new(), executors: BTreeMap::new() };
        if ledger.options.labels.is_empty() {
            // The counters exist with the value 0 before the first event: Prometheus' `increase` would otherwise miss
            // that event.
            ledger.applications.insert(Values::default(), Applications::default());
            ledger.executors.insert(Values::default(), Executors::default());
        }
        ledger
    }

    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Adds the changes of one application to the counters. `application` contains the label values of the application,
    /// `executors` those of its executors.
    pub fn add(&mut self, application: Values, executors: Values, tally: &Tally) {
        let Options { submit_latency_buckets, start_latency_buckets, .. } = &self.options;
        let counts = entry(&mut self.applications, application);
        counts.began += u64::from(tally.began);
        match tally.submission {
            Some(Submission::Succeeded { latency }) => {
                counts.submitted += 1;
                if let Some(latency) = latency {
                    counts.submit_latencies.observe(latency, submit_latency_buckets);
                }
            }
            Some(Submission::Failed) => counts.failed_submissions += 1,
            None => {}
        }
        if let Some(retry) = tally.retry {
            *counts.retries.entry(retry).or_default() += 1;
        }
        if let Some(latency) = tally.start_latency {
            counts.start_latencies.observe(latency, start_latency_buckets);
        }
        if let Some(End { succeeded, execution_time }) = &tally.end {
            let (ends, times) = if *succeeded {
                (&mut counts.succeeded, &mut counts.success_times)
            } else {
                (&mut counts.failed, &mut counts.failure_times)
            };
            *ends += 1;
            if let Some(time) = execution_time {
                times.observe(*time, &[]);
            }
        }
        let counts = entry(&mut self.executors, executors);
        counts.succeeded += tally.executors_succeeded;
        counts.failed += tally.executors_failed;
    }

    /// Returns all counters as they are now, and the gauges from `present`.
    pub fn snapshot(&mut self, present: &Present) -> Snapshot {
        let mut states: BTreeMap<Values, BTreeMap<State, u64>> = BTreeMap::new();
        for (values, counted) in &present.applications {
            let values = admitted(&mut self.applications, values.clone());
            let states = states.entry(values).or_default();
            for (state, count) in counted {
                *states.entry(*state).or_default() += count;
            }
        }
        let mut executors: BTreeMap<Values, u64> = BTreeMap::new();
        for (values, count) in &present.executors {
            *executors.entry(admitted(&mut self.executors, values.clone())).or_default() += count;
        }
        let snapshot = Snapshot { counters: self.clone(), states, executors };
        make_room(&mut self.applications, &present.applications);
        make_room(&mut self.executors, &present.executors);
        snapshot
    }
}

impl Snapshot {
    /// Returns all metrics in Prometheus' text format.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { counters, executors, .. } = self;
        let mut told = Told { options: &counters.options, exposition: Exposition::default() };
        self.tell_applications(&mut told);
        told.values(
            "spark_executor_running_count",
            Kind::Gauge,
            "Executors that run",
            counters
                .executors
                .keys()
                .map(|values| (values, executors.get(values).copied().unwrap_or_default())),
        );
        for (name, help, count) in [
            (
                "spark_executor_success_count",
                "Executors that have ended well",
                (|counts: &Executors| counts.succeeded) as fn(&Executors) -> u64,
            ),
            ("spark_executor_failure_count", "Executors that have failed", |counts| counts.failed),
        ] {
            let counts = counters.executors.iter().map(|(values, counts)| (values, count(counts)));
            told.values(name, Kind::Counter, help, counts);
        }
        told.exposition.into_text()
    }

    fn tell_applications(&self, told: &mut Told<'_>) {
        let Ledger { options, applications, .. } = &self.counters;
        let in_state = |values: &Values, state| {
            self.states.get(values).and_then(|states| states.get(&state)).copied().unwrap_or_default()
        };
        for (name, help, count) in [
            (
                "spark_application_count",
                "New applications that the operator has begun to handle",
                (|counts: &Applications| counts.began) as fn(&Applications) -> u64,
            ),
            (
                "spark_application_submit_count",
                "Submissions that have made a driver, those of retries and re-runs included",
                |counts| counts.submitted,
            ),
            (
                "spark_application_failed_submission_count",
                "Submissions that have failed, those that were tried again included",
                |counts| counts.failed_submissions,
            ),
            ("spark_application_success_count", "Applications that have become COMPLETED", |counts| {
                counts.succeeded
            }),
            (
                "spark_application_failure_count",
                "Applications that have become FAILED, without those that are tried again",
                |counts| counts.failed,
            ),
        ] {
            let counts = applications.iter().map(|(values, counts)| (values, count(counts)));
            told.values(name, Kind::Counter, help, counts);
        }

        let name = told.family(
            "spark_application_retries_total",
            Kind::Counter,
            "Runs and submissions that were tried again, by cause",
        );
        for (values, counts) in applications {
            for retry in Retry::ALL {
                let count = counts.retries.get(&retry).copied().unwrap_or_default();
                told.sample(&name, values, Some(("cause", retry.as_str())), count as f64);
            }
        }

        let running = applications.keys().map(|values| (values, in_state(values, State::Running)));
        told.values(
            "spark_application_running_count",
            Kind::Gauge,
            "Applications whose driver runs",
            running,
        );
        let name =
            told.family("spark_applications", Kind::Gauge, "Applications that there are, by their state");
        for values in applications.keys() {
            for state in State::ALL {
                let label = if state == State::New { "NEW" } else { state.as_str() };
                told.sample(&name, values, Some(("state", label)), in_state(values, state) as f64);
            }
        }

        type Select = fn(&Applications) -> &Durations;
        for (name, help, durations, bounds) in [
            (
                "spark_application_success_execution_time_seconds",
                "From the last submission to COMPLETED, in seconds",
                (|counts| &counts.success_times) as Select,
                None,
            ),
            (
                "spark_application_failure_execution_time_seconds",
                "From the last submission to FAILED, in seconds",
                |counts| &counts.failure_times,
                None,
            ),
            (
                "spark_application_submit_latency_seconds",
                "From the creation of an application to its first submission, in seconds",
                |counts| &counts.submit_latencies,
                Some(&options.submit_latency_buckets),
            ),
            (
                "spark_application_start_latency_seconds",
                "From the creation of an application until its first driver runs, in seconds",
                |counts| &counts.start_latencies,
                Some(&options.start_latency_buckets),
            ),
        ] {
            let all = || applications.iter().map(|(values, counts)| (values, durations(counts)));
            told.durations(name, Kind::Summary, help, all(), None);
            if let Some(bounds) = bounds {
                told.durations(&format!("{name}_histogram"), Kind::Histogram, help, all(), Some(bounds));
            }
        }
    }
}

fn entry<T: Default>(by_values: &mut BTreeMap<Values, T>, values: Values) -> &mut T {
    let values = admitted(by_values, values);
    by_values.entry(values).or_default()
}

/// Returns `values` if this combination has its own counters, otherwise the values under which it is counted.
fn admitted<T: Default>(by_values: &mut BTreeMap<Values, T>, values: Values) -> Values {
    // A namespace has half of what others have left, so that something is left for the next one.
    let has_room = || {
        let own = by_values.keys().filter(|known| known.brought_by == values.brought_by).count();
        own < MOST_LABELLED.saturating_sub(by_values.len() - own).div_ceil(2)
    };
    let is_admitted = by_values.contains_key(&values) || has_room();
    let shown = if is_admitted { values.shown } else { vec![OTHER.to_owned(); values.shown.len()] };
    let values = Values { shown, ..values };
    by_values.entry(values.clone()).or_default();
    values
}

/// Forgets the counters of the combinations that no application has, if half of the room is taken: they have been told.
fn make_room<T, P>(by_values: &mut BTreeMap<Values, T>, present: &BTreeMap<Values, P>) {
    if by_values.len() >= MOST_LABELLED / 2 {
        by_values.retain(|values, _| {
            present.contains_key(values) || values.shown.iter().all(|shown| shown == OTHER)
        });
    }
}

/// The text that is being written, and the options for the prefix and the labels of its metrics.
struct Told<'a> {
    options: &'a Options,
    exposition: Exposition,
}

impl Told<'_> {
    /// Begins a metric family and returns its name with the prefix.
    fn family(&mut self, name: &str, kind: Kind, help: &str) -> String {
        let name = self.options.prefix.name(name);
        self.exposition.family(&name, kind, help);
        name
    }

    fn sample(&mut self, name: &str, values: &Values, more: Option<(&str, &str)>, value: f64) {
        let labels =
            self.options.labels.iter().map(Label::as_str).zip(values.shown.iter().map(String::as_str));
        self.exposition.sample(name, labels.chain(more), value);
    }

    fn values<'a>(
        &mut self,
        name: &str,
        kind: Kind,
        help: &str,
        values: impl Iterator<Item = (&'a Values, u64)>,
    ) {
        let name = self.family(name, kind, help);
        for (values, value) in values {
            self.sample(&name, values, None, value as f64);
        }
    }

    /// Writes sum and count, and buckets if `bounds`, their upper bounds, are given.
    fn durations<'a>(
        &mut self,
        name: &str,
        kind: Kind,
        help: &str,
        durations: impl Iterator<Item = (&'a Values, &'a Durations)>,
        bounds: Option<&[f64]>,
    ) {
        let name = self.family(name, kind, help);
        for (values, durations) in durations {
            let mut so_far = 0;
            for (place, bound) in bounds.unwrap_or_default().iter().enumerate() {
                so_far += durations.buckets.get(place).copied().unwrap_or_default();
                let bound = bound.to_string();
                self.sample(&format!("{name}_bucket"), values, Some(("le", &bound)), so_far as f64);
            }
            if bounds.is_some() {
                let all = durations.count as f64;
                self.sample(&format!("{name}_bucket"), values, Some(("le", "+Inf")), all);
            }
            self.sample(&format!("{name}_sum"), values, None, durations.sum);
            self.sample(&format!("{name}_count"), values, None, durations.count as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(labels: &[&str]) -> Ledger {
        let labels = labels.iter().map(|label| label.parse().unwrap()).collect();
        Ledger::new(Options { labels, ..Options::default() })
    }

    fn value(text: &str, series: &str) -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().unwrap()
    }

    #[test]
    fn all_is_there_from_the_beginning_and_names_take_the_prefix() {
        let prefix = "my-".parse().unwrap();
        let options = Options { prefix, ..Options::default() };
        let text = Ledger::new(options).snapshot(&Present::default()).text();
        assert_eq!(value(&text, "my_spark_application_count"), 0.0);
        assert_eq!(value(&text, "my_spark_executor_running_count"), 0.0);
        assert_eq!(value(&text, "my_spark_applications{state=\"RUNNING\"}"), 0.0);
        assert_eq!(value(&text, "my_spark_application_retries_total{cause=\"FailureRetry\"}"), 0.0);
        let bucket = "my_spark_application_start_latency_seconds_histogram_bucket{le=\"300\"}";
        assert_eq!(value(&text, bucket), 0.0);
        assert!(!text.contains("NaN"), "{text}");
    }

    #[test]
    fn what_has_happened_is_added_up_and_what_there_is_is_not() {
        let mut ledger = ledger(&["app-type", "namespace"]);
        let values =
            || Values { brought_by: "team".to_owned(), shown: vec!["etl".to_owned(), "team".to_owned()] };
        let latency = Some(Duration::from_millis(1500));
        let submission = Some(Submission::Succeeded { latency });
        let tally = Tally { began: true, submission, executors_failed: 2, ..Tally::default() };
        ledger.add(values(), values(), &tally);
        ledger.add(values(), values(), &tally);
        let present = Present {
            applications: BTreeMap::from([(values(), BTreeMap::from([(State::Running, 3)]))]),
            executors: BTreeMap::new(),
        };
        let labels = "app_type=\"etl\",namespace=\"team\"";
        for _ in 0..2 {
            let text = ledger.snapshot(&present).text();
            let value = |series: &str| value(&text, series);
            assert_eq!(value(&format!("spark_application_count{{{labels}}}")), 2.0);
            assert_eq!(value(&format!("spark_application_submit_count{{{labels}}}")), 2.0);
            assert_eq!(value(&format!("spark_application_running_count{{{labels}}}")), 3.0);
            assert_eq!(value(&format!("spark_executor_failure_count{{{labels}}}")), 4.0);
            assert_eq!(value(&format!("spark_executor_running_count{{{labels}}}")), 0.0);
            let histogram = "spark_application_submit_latency_seconds_histogram";
            assert_eq!(value(&format!("{histogram}_bucket{{{labels},le=\"1\"}}")), 0.0);
            assert_eq!(value(&format!("{histogram}_bucket{{{labels},le=\"2\"}}")), 2.0);
            assert_eq!(value(&format!("{histogram}_bucket{{{labels},le=\"+Inf\"}}")), 2.0);
            assert_eq!(value(&format!("spark_application_submit_latency_seconds_sum{{{labels}}}")), 3.0);
        }
    }

    #[test]
    fn labels_without_end_count_as_others_and_only_for_who_makes_them() {
        let mut ledger = ledger(&["run"]);
        let began = Tally { began: true, ..Tally::default() };
        let values = |namespace: &str, run: usize| Values {
            brought_by: namespace.to_owned(),
            shown: vec![format!("{namespace}-{run:04}")],
        };
        let add = |ledger: &mut Ledger, namespace: &str, run| {
            ledger.add(values(namespace, run), values(namespace, run), &began);
        };
        let series =
            |text: &str| text.lines().filter(|line| line.starts_with("spark_application_count{")).count();
        (0..MOST_LABELLED / 2 + 20).for_each(|run| add(&mut ledger, "a", run));
        add(&mut ledger, "b", 1);
        let text = ledger.snapshot(&Present::default()).text();
        assert_eq!(value(&text, "spark_application_count{run=\"a-0000\"}"), 1.0);
        assert_eq!(value(&text, "spark_application_count{run=\"b-0001\"}"), 1.0);
        assert_eq!(value(&text, "spark_application_count{run=\"Other\"}"), 20.0);

        // They have been told, and no application has them any more.
        (0..MOST_LABELLED).for_each(|run| add(&mut ledger, &format!("c{run}"), 1));
        let text = ledger.snapshot(&Present::default()).text();
        assert!(!text.contains("a-0000"));
        assert!((MOST_LABELLED / 2..=MOST_LABELLED + 1).contains(&series(&text)), "{}", series(&text));
        add(&mut ledger, "d", 1);
        let text = ledger.snapshot(&Present::default()).text();
        assert_eq!(value(&text, "spark_application_count{run=\"d-0001\"}"), 1.0);
    }
}
