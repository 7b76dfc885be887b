//! Counts the runs that schedules start, skip and miss.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};
use schedules::{Outcome, Skip};
use work::metric;

/// The metrics of schedules.
#[derive(Clone, Debug)]
pub struct ScheduleMetrics {
    started: Counter,
    skipped: Family<[(&'static str, &'static str); 1], Counter>,
    missed: Counter,
    lag: Histogram,
}

impl ScheduleMetrics {
    /// Creates the metrics in `registry`.
    pub fn new(registry: &mut Registry) -> Self {
        let help = "Applications that schedules have created";
        let started = metric(registry, "spark_operator_scheduled_runs_started", help, Counter::default());
        let help = "Times of schedules that passed while an operator ran and for which it created no application, by reason";
        let skipped = metric(registry, "spark_operator_scheduled_runs_skipped", help, Family::default());
        for why in Skip::ALL {
            drop(skipped.get_or_create(&[("reason", why.as_str())]));
        }
        let help =
            "Times of schedules that passed while no operator ran, and for which no application was created";
        let missed = metric(registry, "spark_operator_scheduled_runs_missed", help, Counter::default());
        let help = "How long after the times of their schedules applications were created, in seconds";
        let lag = Histogram::new([0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0]);
        let lag = metric(registry, "spark_operator_scheduled_run_lag_seconds", help, lag);
        Self { started, skipped, missed, lag }
    }

    pub(super) fn count(&self, outcome: Outcome) {
        match outcome {
            Outcome::Started(late) => {
                self.started.inc();
                self.lag.observe(late.as_secs_f64());
            }
            Outcome::Skipped(why) => {
                self.skipped.get_or_create(&[("reason", why.as_str())]).inc();
            }
            Outcome::Missed(count) => {
                self.missed.inc_by(count);
            }
        }
    }
}
