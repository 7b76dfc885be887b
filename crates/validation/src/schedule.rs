//! Checks that a schedule is due at some time, that its applications can have names, and that its settings for concurrency
//! and history are valid.

use super::{Findings, Precision, names};
use api::{ConcurrencyPolicy, LONGEST_LABEL, ScheduledSparkApplication, SparkApplication};
use cron::{Rhythm, Schedule, Zone};
use kube_core::ObjectMeta;
use std::time::Duration;

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
    if let Some(ConcurrencyPolicy::Other(policy)) = &spec.concurrency_policy
        && !policy.is_empty()
    {
        let what = format_args!("`{policy}` is not known: write Allow, Forbid or Replace");
        findings.warn("spec.concurrencyPolicy", what);
    }
    for (field, limit) in [
        ("spec.successfulRunHistoryLimit", spec.successful_run_history_limit),
        ("spec.failedRunHistoryLimit", spec.failed_run_history_limit),
    ] {
        if let Some(limit @ ..0) = limit {
            findings.warn(field, format_args!("`{limit}` is negative and counts as 0"));
        }
    }
}

/// Returns an application of the schedule, with the shortest name that such an application can have.
pub fn shortest_named_run(schedule: &ScheduledSparkApplication) -> SparkApplication {
    let ObjectMeta { name, namespace, labels, .. } = schedule.metadata.clone();
    let name = name.map(|name| name + names::SHORTEST_TIME);
    let metadata = ObjectMeta { name, namespace, labels, ..ObjectMeta::default() };
    SparkApplication { metadata, spec: schedule.spec.template.clone(), status: None }
}
