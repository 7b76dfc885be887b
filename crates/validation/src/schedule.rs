//! Checks that a schedule is due at some time, that its applications can have names, and that its settings for concurrency
//! and history are valid.

use super::{Findings, names, rules};
use api::{LONGEST_LABEL, ScheduledSparkApplication, SparkApplication, label};
use cron::{Rhythm, Schedule, Zone};
use jiff::Timestamp;
use kube_core::ObjectMeta;
use serde_json::json;
use std::time::Duration;

api::words! {
    /// The unit of the slot's time that follows the schedule's name in the name of an application
    /// (`--scheduled-spark-application-timestamp-precision` of Kubeflow's operator).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Precision {
        #[default]
        Nanos = "nanos",
        Micros = "micros",
        Millis = "millis",
        Seconds = "seconds",
        Minutes = "minutes",
    }

    text => String: format!("`{text}` is no unit: try `nanos`, `micros`, `millis`, `seconds` or `minutes`")
}

impl Precision {
    /// Returns the suffix for a slot's application, which is appended to the schedule's name. In place of minutes, it has
    /// seconds if two slots of the schedule could be in the same minute.
    pub fn suffix(self, slot: Timestamp, rhythm: Option<&Rhythm>) -> String {
        let is_often = matches!(rhythm, Some(Rhythm::Every(period)) if *period < Duration::from_secs(60));
        let time = match self {
            Self::Nanos => slot.as_nanosecond(),
            Self::Micros => slot.as_microsecond().into(),
            Self::Millis => slot.as_millisecond().into(),
            Self::Minutes if !is_often => (slot.as_second() / 60).into(),
            Self::Seconds | Self::Minutes => slot.as_second().into(),
        };
        format!("-{time}")
    }

    /// Returns the length of the suffix that is appended to a schedule's name; correct until the year 2160 for minutes,
    /// and until 2286 for the other units.
    pub fn suffix_length(self, rhythm: Option<&Rhythm>) -> usize {
        const THIS_YEAR: Timestamp = Timestamp::constant(1_767_225_600, 0);
        self.suffix(THIS_YEAR, rhythm).len()
    }
}

/// Checks the name and the fields of a schedule. The schedule's applications are called `<name>-<time>`. If the unit of the
/// time is not known, a name is refused only if it is too long with every unit; a name that is too long with the default
/// unit causes a warning.
pub(super) fn check(
    schedule: &ScheduledSparkApplication,
    precision: Option<Precision>,
    shortest_period: Duration,
    findings: &mut Findings,
) {
    let (spec, metadata) = (&schedule.spec, &schedule.metadata);
    let text = &spec.schedule;
    let parsed = Schedule::parse(text);
    let rhythm = parsed.as_ref().ok().map(|parsed| &parsed.rhythm);
    let possible = |precision: Precision| LONGEST_LABEL - precision.suffix_length(rhythm);
    let (most, surely) = (possible(precision.unwrap_or(Precision::Minutes)), possible(Precision::default()));
    names::check_name("ScheduledSparkApplication", metadata, most, findings);
    let length = metadata.name.as_deref().map_or(0, str::len);
    if precision.is_none() && length > surely && length <= most {
        let what = format_args!("beyond {surely}, an operator with default flags cannot name its runs");
        findings.warn("metadata.name", format_args!("has {length} characters; {what}"));
    }
    match parsed {
        Ok(parsed) if !parsed.is_ever_due() => {
            findings.warn("spec.schedule", format_args!("`{text}` is never due: no year has such a day"));
        }
        Ok(Schedule { rhythm: Rhythm::Every(period), .. }) if period < shortest_period => {
            let most = shortest_period.as_secs();
            let why = "which is the most that this operator allows (--schedule-shortest-period)";
            findings
                .refuse("spec.schedule", format_args!("`{text}` is more often than every {most} s, {why}"));
        }
        Ok(_) => {}
        Err(error) => findings.refuse("spec.schedule", error),
    }
    if let Err(error) = Zone::parse(spec.time_zone.as_deref().unwrap_or_default()) {
        findings.refuse("spec.timeZone", error);
    }
    let given = json!({
        "concurrencyPolicy": spec.concurrency_policy,
        "successfulRunHistoryLimit": spec.successful_run_history_limit,
        "failedRunHistoryLimit": spec.failed_run_history_limit,
        "startingDeadlineSeconds": spec.starting_deadline_seconds,
    });
    rules::check("Schedule", &given, &mut |field, what| findings.warn(format_args!("spec{field}"), what));
    // Kueue resumes applications in a queue.
    let is_queued = metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(label::QUEUE_NAME));
    if spec.template.suspend == Some(true) && !is_queued {
        let what = "each application waits until somebody resumes it; `spec.suspend` stops the schedule";
        findings.warn("spec.template.suspend", what);
    }
}

/// The shortest suffix that follows a schedule's name in the name of an application: a time in minutes.
const SHORTEST_TIME: &str = "-00000000";

/// Returns an application of the schedule, with the shortest name that such an application can have.
pub fn shortest_named_run(schedule: &ScheduledSparkApplication) -> SparkApplication {
    let ObjectMeta { name, namespace, labels, .. } = schedule.metadata.clone();
    let name = name.map(|name| name + SHORTEST_TIME);
    let metadata = ObjectMeta { name, namespace, labels, ..ObjectMeta::default() };
    SparkApplication { metadata, spec: schedule.spec.template.clone(), status: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suffix_is_the_slots_time_in_the_unit_and_has_the_expected_length() {
        let slot = Timestamp::from_second(1_767_225_600).unwrap();
        for (precision, time) in [
            (Precision::Nanos, "1767225600000000000"),
            (Precision::Micros, "1767225600000000"),
            (Precision::Millis, "1767225600000"),
            (Precision::Seconds, "1767225600"),
            (Precision::Minutes, "29453760"),
        ] {
            let suffix = precision.suffix(slot, Some(&Rhythm::Every(Duration::from_secs(60))));
            assert_eq!(suffix, format!("-{time}"));
            assert_eq!(suffix.len(), precision.suffix_length(None));
        }
    }
}
