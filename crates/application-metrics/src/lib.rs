//! Counts applications and executors for Prometheus, under the metric names and labels of Kubeflow's operator. Gauges
//! are computed from the objects that exist at the time of the scrape; counters add up the changes that were written to
//! statuses (`tally`).

mod options;
mod tally;
mod text;

use api::State;
pub use options::{Label, Options, Prefix, labels_of, labels_of_executors};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
pub use tally::{Count, Retry, Tally, Timed, tally};

/// The maximum number of combinations of label values that have their own counters. Without a limit, a user who may
/// label applications could fill the operator's memory and Prometheus' disk. Dashboards have room for a few dozen.
const MOST_LABELLED: usize = 500;
/// The value of all labels for the combinations beyond that limit.
const OTHER: &str = "Other";

/// The values of the configured labels, in the order of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Values {
    /// The namespace of the application that has these values.
    namespace: String,
    shown: Vec<String>,
}

/// The values of the gauges at one time, by the values of the labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// Applications in each state.
    pub applications: BTreeMap<Values, BTreeMap<State, u64>>,
    /// Executors that are running.
    pub executors: BTreeMap<Values, u64>,
}

/// The counters since the start of the process, and the gauges of the last snapshot.
#[derive(Clone, Debug)]
pub struct Ledger {
    options: Options,
    applications: Labelled<Applications>,
    executors: Labelled<Executors>,
}

/// A copy of the counters and the gauges, so that counting need not wait while they are written as text.
#[derive(Clone, Debug)]
pub struct Snapshot(Ledger);

/// Numbers by the values of the labels, each with the namespace whose application first had these values: the owner.
type Labelled<T> = BTreeMap<Vec<String>, (String, T)>;

/// The number of combinations that each namespace owns; `None` until it is needed. A snapshot looks up the values of all
/// applications, and counts only once.
type Owned = Option<BTreeMap<String, usize>>;

/// The numbers of applications, each array in the order of the variants of its enum.
#[derive(Clone, Debug, Default)]
struct Applications {
    counts: [u64; Count::ALL.len()],
    retries: [u64; Retry::ALL.len()],
    /// Applications that exist, by their state.
    states: [u64; State::ALL.len()],
    times: [Durations; Timed::ALL.len()],
}

#[derive(Clone, Debug, Default)]
struct Executors {
    running: u64,
    succeeded: u64,
    failed: u64,
}

#[derive(Clone, Debug, Default)]
struct Durations {
    count: u64,
    /// In seconds.
    sum: f64,
    /// For each bucket, the number of durations that are at most its upper bound.
    buckets: Vec<u64>,
}

impl Durations {
    fn observe(&mut self, duration: Duration, bounds: &[f64]) {
        let seconds = duration.as_secs_f64();
        self.count += 1;
        self.sum += seconds;
        self.buckets.resize(bounds.len(), 0);
        for (bucket, bound) in self.buckets.iter_mut().zip(bounds) {
            *bucket += u64::from(seconds <= *bound);
        }
    }
}

impl Ledger {
    /// Returns a ledger whose counters are all zero.
    pub fn new(options: Options) -> Self {
        let mut ledger = Self { options, applications: BTreeMap::new(), executors: BTreeMap::new() };
        if ledger.options.labels.is_empty() {
            // The counters exist with the value 0 before the first event: Prometheus' `increase` would otherwise miss
            // that event.
            entry(&mut ledger.applications, &mut None, Values::default());
            entry(&mut ledger.executors, &mut None, Values::default());
        }
        ledger
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Adds the changes of one application to the counters. `application` contains the label values of the application,
    /// `executors` those of its executors.
    pub fn add(&mut self, application: Values, executors: Values, tally: &Tally) {
        let numbers = entry(&mut self.applications, &mut None, application);
        tally.counts.iter().for_each(|count| numbers.counts[*count as usize] += 1);
        tally.retry.iter().for_each(|retry| numbers.retries[*retry as usize] += 1);
        for (timed, duration) in &tally.times {
            let bounds = self.options.bounds(*timed).unwrap_or_default();
            numbers.times[*timed as usize].observe(*duration, bounds);
        }
        let counts = entry(&mut self.executors, &mut None, executors);
        counts.succeeded += tally.executors_succeeded;
        counts.failed += tally.executors_failed;
    }

    /// Returns the present counters, and the gauges from `present`. May then forget counters that no application in
    /// `present` uses.
    pub fn snapshot(&mut self, present: &Present) -> Snapshot {
        self.applications.values_mut().for_each(|(_, numbers)| numbers.states.fill(0));
        self.executors.values_mut().for_each(|(_, numbers)| numbers.running = 0);
        let (mut owned, mut owned_of_executors) = (None, None);
        for (values, states) in &present.applications {
            let numbers = entry(&mut self.applications, &mut owned, values.clone());
            for (state, count) in states {
                numbers.states[*state as usize] += count;
            }
        }
        for (values, running) in &present.executors {
            entry(&mut self.executors, &mut owned_of_executors, values.clone()).running += running;
        }
        let snapshot = Snapshot(self.clone());
        forget_unused(&mut self.applications, &present.applications);
        forget_unused(&mut self.executors, &present.executors);
        snapshot
    }
}

/// Returns the numbers of this combination of values, or those of [`OTHER`] if there is no room for another combination.
fn entry<'l, T: Default>(labelled: &'l mut Labelled<T>, owned: &mut Owned, values: Values) -> &'l mut T {
    let Values { namespace, mut shown } = values;
    if !labelled.contains_key(&shown) {
        let all = labelled.len();
        let own = owned.get_or_insert_with(|| owners(labelled)).entry(namespace.clone()).or_default();
        // A namespace owns at most as many combinations as are still free, so that some are left for the next namespace.
        if *own >= MOST_LABELLED.saturating_sub(all) {
            shown = vec![OTHER.to_owned(); shown.len()];
        }
        *own += usize::from(!labelled.contains_key(&shown));
    }
    &mut labelled.entry(shown).or_insert_with(|| (namespace, T::default())).1
}

fn owners<T>(labelled: &Labelled<T>) -> BTreeMap<String, usize> {
    let mut owners = BTreeMap::new();
    for (namespace, _) in labelled.values() {
        *owners.entry(namespace.clone()).or_default() += 1;
    }
    owners
}

/// Forgets the counters of the combinations that no application has, if half of the maximum is used: the snapshot
/// contains them.
fn forget_unused<T, P>(labelled: &mut Labelled<T>, present: &BTreeMap<Values, P>) {
    if labelled.len() >= MOST_LABELLED / 2 {
        let present: BTreeSet<&Vec<String>> = present.keys().map(|values| &values.shown).collect();
        labelled.retain(|shown, _| present.contains(shown) || shown.iter().all(|shown| shown == OTHER));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        let submit_latency_buckets = vec![0.5, 1.0, 2.0, 4.0];
        Options { submit_latency_buckets, start_latency_buckets: vec![300.0], ..Options::default() }
    }

    fn ledger(labels: &[&str]) -> Ledger {
        let labels = labels.iter().map(|label| label.parse().unwrap()).collect();
        Ledger::new(Options { labels, ..options() })
    }

    fn value(text: &str, series: &str) -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().unwrap()
    }

    fn has_lines(text: &str, expected: &str) {
        for line in expected.lines() {
            assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
        }
    }

    #[test]
    fn all_metrics_exist_from_the_beginning_and_their_names_have_the_prefix() {
        let prefix = "my-".parse().unwrap();
        let options = Options { prefix, ..options() };
        let text = Ledger::new(options).snapshot(&Present::default()).text();
        has_lines(&text, include_str!("../../../tests/data/application-metrics/beginning.txt"));
        assert!(!text.contains("NaN"), "{text}");
    }

    #[test]
    fn label_values_are_escaped_and_whole_numbers_have_no_fraction() {
        let mut ledger = ledger(&["team"]);
        let values = || Values { namespace: "team".to_owned(), shown: vec!["a\"b\\c\nd".to_owned()] };
        let times = vec![(Timed::Submission, Duration::from_millis(2500))];
        ledger.add(values(), values(), &Tally { times, ..Tally::default() });
        let text = ledger.snapshot(&Present::default()).text();
        let labels = "team=\"a\\\"b\\\\c\\nd\"";
        let expected = format!(
            "# HELP spark_application_submit_latency_seconds From the creation of an application to its first \
             submission, in seconds\n# TYPE spark_application_submit_latency_seconds summary\n\
             spark_application_submit_latency_seconds_sum{{{labels}}} 2.5\n\
             spark_application_submit_latency_seconds_count{{{labels}}} 1\n"
        );
        assert!(text.contains(&expected), "{text}");
        let bucket = "spark_application_submit_latency_seconds_histogram_bucket";
        assert!(text.contains(&format!("\n{bucket}{{{labels},le=\"0.5\"}} 0\n")), "{text}");
        assert!(text.contains(&format!("\n{bucket}{{{labels},le=\"4\"}} 1\n")), "{text}");
    }

    #[test]
    fn counters_are_added_up_and_gauges_are_not() {
        let mut ledger = ledger(&["app-type", "namespace"]);
        let values =
            || Values { namespace: "team".to_owned(), shown: vec!["etl".to_owned(), "team".to_owned()] };
        let counts = vec![Count::Began, Count::Submitted];
        let times = vec![(Timed::Submission, Duration::from_millis(1500))];
        let tally = Tally { counts, times, executors_failed: 2, ..Tally::default() };
        ledger.add(values(), values(), &tally);
        ledger.add(values(), values(), &tally);
        let present = Present {
            applications: BTreeMap::from([(values(), BTreeMap::from([(State::Running, 3)]))]),
            executors: BTreeMap::new(),
        };
        for _ in 0..2 {
            let text = ledger.snapshot(&present).text();
            has_lines(&text, include_str!("../../../tests/data/application-metrics/added-up.txt"));
        }
    }

    #[test]
    fn a_namespace_with_too_many_label_values_is_counted_as_other() {
        let mut ledger = ledger(&["run"]);
        let began = Tally { counts: vec![Count::Began], ..Tally::default() };
        let values = |namespace: &str, run: usize| Values {
            namespace: namespace.to_owned(),
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

        // Executors that run have the same limits.
        let there = |namespace: &'static str, runs| (0..runs).map(move |run| (values(namespace, run), 1));
        let executors = there("a", 2 * MOST_LABELLED).chain(there("b", 2)).collect();
        let mut fresh = self::ledger(&["run"]);
        let text = fresh.snapshot(&Present { executors, ..Present::default() }).text();
        assert_eq!(value(&text, "spark_executor_running_count{run=\"a-0000\"}"), 1.0);
        assert_eq!(value(&text, "spark_executor_running_count{run=\"b-0001\"}"), 1.0);
        assert_eq!(value(&text, "spark_executor_running_count{run=\"Other\"}"), 750.0);

        // A snapshot contains the values of `a`, and no application has them any more.
        (0..MOST_LABELLED).for_each(|run| add(&mut ledger, &format!("c{run}"), 1));
        let text = ledger.snapshot(&Present::default()).text();
        assert!(!text.contains("a-0000"));
        assert!((MOST_LABELLED / 2..=MOST_LABELLED + 1).contains(&series(&text)), "{}", series(&text));
        add(&mut ledger, "d", 1);
        let text = ledger.snapshot(&Present::default()).text();
        assert_eq!(value(&text, "spark_application_count{run=\"d-0001\"}"), 1.0);
    }
}
