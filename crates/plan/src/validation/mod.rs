//! Checks whether an application can be run as it is written. Each file checks one concern; [`CHECKS`] lists the
//! checks.
//!
//! The webhook checks an application when a user applies it, the controller before it submits an application, and
//! `sparkctl render` offline, so that all of them refuse the same applications in the same words. An application is
//! refused only for what can never work. A setting that merely has no effect, or that may fail in one cluster and work
//! in another, causes a warning.

mod allocation;
mod customization;
mod ignored;
mod ingress;
mod labels;
mod mode;
mod monitoring;
mod names;
mod pod_templates;
mod program;
mod python;
mod resources;
mod schedule;
mod scheduling;
mod size;
mod spark_conf;
mod volumes;

use crate::{schedule::Precision, spec_hash::spec_hash};
use api::{
    Role, ScheduledSparkApplication, SparkApplication, SparkApplicationSpec,
    excerpt::{self, LONGEST_EXPLANATION},
    with_defaults,
};
pub use names::is_object_name;
pub use schedule::shortest_named_run;
use std::{fmt::Display, ops::Deref};

/// Every check of an application, whether the application is applied by itself or is the template of a schedule. The
/// name is checked separately, before these checks.
const CHECKS: [Check; 26] = [
    mode::cluster,
    program::main_file,
    program::arguments,
    names::driver_pod,
    pod_templates::version,
    pod_templates::form,
    scheduling::node_selector,
    ingress::web_ui,
    ingress::driver_ingress,
    spark_conf::denied,
    spark_conf::contract,
    spark_conf::references,
    spark_conf::without_effect,
    labels::operators,
    resources::memory,
    resources::cores,
    resources::limits,
    allocation::bounds,
    volumes::scratch_space,
    volumes::mounts,
    monitoring::exposure,
    customization::rehearsal,
    customization::size,
    pod_templates::size,
    python::version,
    ignored::fields,
];

/// Checks one concern.
type Check = fn(&Subject, &mut Findings);

/// A mistake in one field: what is wrong, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct Invalid {
    /// Path in the object, such as `spec.driver.memory`.
    pub field: String,
    pub why: String,
}

/// Why an application is not run: all of its mistakes, at least one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(Invalid::to_string).collect::<Vec<_>>().join("; "))]
pub struct Refusal(pub Vec<Invalid>);

impl Refusal {
    /// Returns as much of the refusal as a status and an event can hold, and how many mistakes are left out.
    #[must_use]
    pub fn brief(&self) -> String {
        let (mut brief, mut left) = (String::new(), self.0.len());
        for invalid in &self.0 {
            let next = invalid.to_string();
            if left < self.0.len() && brief.len() + next.len() > LONGEST_EXPLANATION {
                break;
            }
            brief += if brief.is_empty() { "" } else { "; " };
            brief += &next;
            left -= 1;
        }
        // Beyond `MOST_FINDINGS`, the last entry stands for all unlisted mistakes, so `left` is too low.
        let at_least = if self.0.len() > MOST_FINDINGS { "at least " } else { "" };
        if left == 0 { brief } else { format!("{brief}; and {at_least}{left} more") }
    }
}

/// What was found in an object: at most [`MOST_FINDINGS`] mistakes and as many warnings, and for each of the two one
/// more sentence if any were left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The mistakes: what can never work.
    pub invalid: Vec<Invalid>,
    /// The warnings: what is deprecated, has no effect, or is probably not meant.
    pub warnings: Vec<String>,
    /// How many mistakes are left out of `invalid`. A mistake that concerns both roles may count twice.
    unlisted_invalid: usize,
    /// How many warnings are left out of `warnings`.
    unlisted_warnings: usize,
}

impl Findings {
    fn refuse(&mut self, field: impl Display, why: impl Display) {
        // A message that quotes a value of any length must not be of any length itself.
        let cut = |text: String| excerpt::beginning(text, LONGEST_SENTENCE);
        let invalid = Invalid { field: cut(field.to_string()), why: cut(why.to_string()) };
        // A field that concerns both roles is checked once for each role.
        api::steps::took(self.invalid.len());
        if self.invalid.contains(&invalid) {
            return;
        }
        if self.invalid.len() < MOST_FINDINGS {
            self.invalid.push(invalid);
        } else {
            self.unlisted_invalid += 1;
        }
    }

    fn warn(&mut self, field: impl Display, what: impl Display) {
        if self.warnings.len() < MOST_FINDINGS {
            self.warnings.push(excerpt::beginning(format!("{field}: {what}"), LONGEST_SENTENCE));
        } else {
            self.unlisted_warnings += 1;
        }
    }

    /// Adds a sentence about how many mistakes are left out and a sentence about how many warnings, if any.
    fn told(mut self, root: &str) -> Self {
        if self.unlisted_invalid > 0 {
            let why = format!("{} more mistakes are not listed: correct these first", self.unlisted_invalid);
            self.invalid.push(Invalid { field: root.to_owned(), why });
        }
        if self.unlisted_warnings > 0 {
            // Inserted first: the API server drops the last warnings if all warnings together exceed 4 KiB.
            self.warnings
                .insert(0, format!("{root}: {} more warnings are not listed", self.unlisted_warnings));
        }
        self
    }
}

/// The most mistakes, and the most warnings, that are listed: as many as a person corrects before the next try. All
/// listed mistakes, with [`LONGEST_SENTENCE`] bytes for each field and each explanation, are 25 KiB, which the API
/// server passes on and a terminal can still show. An object of 3 MiB can have a quarter of a million mistakes.
pub const MOST_FINDINGS: usize = 50;

/// The most bytes of a message: as much as a person reads at once, and as the API server passes on of a warning.
const LONGEST_SENTENCE: usize = 256;

/// The application that a check examines.
struct Subject<'a> {
    application: &'a SparkApplication,
    /// The application's spec with defaults filled in.
    spec: SparkApplicationSpec,
    /// The path of the spec in the user's object: `spec`, or `spec.template` in a schedule.
    root: &'static str,
}

impl<'a> Subject<'a> {
    fn new(application: &'a SparkApplication, root: &'static str) -> Self {
        Self { application, spec: with_defaults(application.spec.clone()), root }
    }

    fn name(&self) -> &str {
        self.application.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns the path of a field of the spec in the user's object.
    fn field(&self, path: impl Display) -> String {
        format!("{}.{path}", self.root)
    }

    /// Returns the path of a field of the role's section.
    fn of_role(&self, role: Role, path: impl Display) -> String {
        format!("{}.{}.{path}", self.root, role.as_str())
    }

    /// Returns the path of an entry of sparkConf.
    fn conf(&self, key: &str) -> String {
        format!("{}.sparkConf[{key}]", self.root)
    }

    fn check(&self, findings: &mut Findings) {
        if !size::is_bounded(self, findings) {
            return;
        }
        for check in CHECKS {
            check(self, findings);
        }
    }
}

/// Returns the mistakes and the warnings of an application.
#[must_use]
pub fn examine(application: &SparkApplication) -> Findings {
    let mut findings = Findings::default();
    names::application(application, &mut findings);
    Subject::new(application, "spec").check(&mut findings);
    findings.told("spec")
}

/// Returns the mistakes and the warnings of a schedule, including those of the applications that the schedule makes.
/// `precision` is the precision of the times in the names of these applications, if known.
#[must_use]
pub fn examine_schedule(schedule: &ScheduledSparkApplication, precision: Option<Precision>) -> Findings {
    let mut findings = Findings::default();
    names::schedule(schedule, precision, &mut findings);
    schedule::fields(schedule, &mut findings);
    Subject::new(&shortest_named_run(schedule), "spec.template").check(&mut findings);
    findings.told("spec")
}

/// An application in which [`validate`] has found no mistake. Code that takes this type does not validate again.
#[derive(Clone, Copy, Debug)]
pub struct Validated<'a>(&'a SparkApplication);

impl<'a> Validated<'a> {
    /// Returns the application, for as long as it was borrowed.
    #[must_use]
    pub const fn get(self) -> &'a SparkApplication {
        self.0
    }
}

impl Deref for Validated<'_> {
    type Target = SparkApplication;

    fn deref(&self) -> &SparkApplication {
        self.0
    }
}

/// Checks that the application can be run as it is written.
///
/// # Errors
///
/// All mistakes of the application.
pub fn validate(application: &SparkApplication) -> Result<Validated<'_>, Refusal> {
    let Findings { invalid, .. } = examine(application);
    if invalid.is_empty() { Ok(Validated(application)) } else { Err(Refusal(invalid)) }
}

/// Whether an update leaves the run of an application as it was, so that there is nothing to refuse: an invalid
/// application that is already stored can still be labelled, suspended and finalized.
#[must_use]
pub fn is_same_run(old: &SparkApplication, new: &SparkApplication) -> bool {
    spec_hash(&old.spec) == spec_hash(&new.spec)
}

/// Whether an update leaves the times and the runs of a schedule as they were, so that there is nothing to refuse:
/// [`is_same_run`] for a schedule.
#[must_use]
pub fn is_same_schedule(old: &ScheduledSparkApplication, new: &ScheduledSparkApplication) -> bool {
    let times = |schedule: &ScheduledSparkApplication| {
        (schedule.spec.schedule.clone(), schedule.spec.time_zone.clone())
    };
    times(old) == times(new) && spec_hash(&old.spec.template) == spec_hash(&new.spec.template)
}

#[cfg(test)]
mod linear;
