//! Checks whether an application can be run as it is written. Each concern has a file; [`CHECKS`] lists them.
//!
//! The webhook calls this when an application is applied, the controller before it submits one, and `sparkctl render`
//! without a cluster, so all of them refuse the same in the same words. Only what can never work is refused. What has
//! no effect, or may fail in one cluster and work in another, is a warning.

mod allocation;
mod customization;
mod ignored;
mod ingress;
mod labels;
mod mode;
mod monitoring;
mod names;
mod program;
mod python;
mod resources;
mod schedule;
mod scheduling;
mod size;
mod spark_conf;
mod templates;
mod volumes;

use crate::{schedule::Precision, spec_hash::spec_hash};
use api::{
    Role, ScheduledSparkApplication, SparkApplication, SparkApplicationSpec,
    excerpt::{self, LONGEST_EXPLANATION},
    with_defaults,
};
pub use names::is_object_name;
pub use schedule::shortest_named_run;
use std::fmt::Display;

/// Everything that is looked at in an application, wherever it comes from; its name is looked at before.
const CHECKS: [Check; 26] = [
    mode::cluster,
    program::main_file,
    program::arguments,
    names::driver_pod,
    templates::version,
    templates::form,
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
    templates::size,
    python::version,
    ignored::fields,
];

/// Looks at one concern.
type Check = fn(&Subject, &mut Findings);

/// What is wrong with one field, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct Invalid {
    /// Path in the object, such as `spec.driver.memory`.
    pub field: String,
    pub why: String,
}

/// Why an application is not run: all that is wrong with it, at least one thing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(Invalid::to_string).collect::<Vec<_>>().join("; "))]
pub struct Refusal(pub Vec<Invalid>);

impl Refusal {
    /// As much of it as a status and an event can hold, and how much that leaves out.
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
        // Beyond that number nobody has counted what is here as one.
        let at_least = if self.0.len() > MOST_FINDINGS { "at least " } else { "" };
        if left == 0 { brief } else { format!("{brief}; and {at_least}{left} more") }
    }
}

/// What there is to say of an object: of mistakes and of warnings at most [`MOST_FINDINGS`] each, and one sentence more
/// where that leaves any out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What can never work.
    pub invalid: Vec<Invalid>,
    /// What is deprecated, without effect, or likely not meant.
    pub warnings: Vec<String>,
    /// How many mistakes are left out of `invalid`. One that concerns both roles may count twice.
    unlisted_invalid: usize,
    /// How many are left out of `warnings`.
    unlisted_warnings: usize,
}

impl Findings {
    fn refuse(&mut self, field: impl Display, why: impl Display) {
        // What quotes a value that is of any length must not be of any length itself.
        let cut = |text: String| excerpt::beginning(text, LONGEST_SENTENCE);
        let invalid = Invalid { field: cut(field.to_string()), why: cut(why.to_string()) };
        // A field that concerns both roles is looked at for both.
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

    /// With what is left out told.
    fn told(mut self, root: &str) -> Self {
        if self.unlisted_invalid > 0 {
            let why = format!("{} more mistakes are not listed: correct these first", self.unlisted_invalid);
            self.invalid.push(Invalid { field: root.to_owned(), why });
        }
        if self.unlisted_warnings > 0 {
            // The API server drops the last ones where all warnings together have more than 4 KiB.
            self.warnings
                .insert(0, format!("{root}: {} more warnings are not listed", self.unlisted_warnings));
        }
        self
    }
}

/// What a person corrects before the next try. All of them, at [`LONGEST_SENTENCE`] each, are 25 KiB, which the API
/// server passes on and a terminal still holds; an object of 3 MiB can have a quarter of a million.
pub const MOST_FINDINGS: usize = 50;

/// What a person reads at once, and what the API server passes on of a warning.
const LONGEST_SENTENCE: usize = 256;

/// What a check looks at.
struct Subject<'a> {
    application: &'a SparkApplication,
    /// The application's spec with defaults filled in.
    spec: SparkApplicationSpec,
    /// Where the spec stands in the user's object.
    root: &'static str,
}

impl<'a> Subject<'a> {
    fn new(application: &'a SparkApplication, root: &'static str) -> Self {
        Self { application, spec: with_defaults(application.spec.clone()), root }
    }

    fn name(&self) -> &str {
        self.application.metadata.name.as_deref().unwrap_or_default()
    }

    /// A field of the spec, as the user finds it.
    fn field(&self, path: impl Display) -> String {
        format!("{}.{path}", self.root)
    }

    /// A field of the role's section.
    fn of_role(&self, role: Role, path: impl Display) -> String {
        format!("{}.{}.{path}", self.root, role.as_str())
    }

    /// An entry of sparkConf.
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

/// What there is to say of an application.
#[must_use]
pub fn examine(application: &SparkApplication) -> Findings {
    let mut findings = Findings::default();
    names::application(application, &mut findings);
    Subject::new(application, "spec").check(&mut findings);
    findings.told("spec")
}

/// What there is to say of a schedule, the applications that it makes included. `precision` is that of the times in
/// their names, where it is known.
#[must_use]
pub fn examine_schedule(schedule: &ScheduledSparkApplication, precision: Option<Precision>) -> Findings {
    let mut findings = Findings::default();
    names::schedule(schedule, precision, &mut findings);
    schedule::fields(schedule, &mut findings);
    Subject::new(&shortest_named_run(schedule), "spec.template").check(&mut findings);
    findings.told("spec")
}

/// That the application can be run as it is written.
///
/// # Errors
///
/// All that is wrong with it.
pub fn validate(application: &SparkApplication) -> Result<(), Refusal> {
    let Findings { invalid, .. } = examine(application);
    if invalid.is_empty() { Ok(()) } else { Err(Refusal(invalid)) }
}

/// Whether an update leaves an application to run as it was, so that there is nothing to refuse: what is
/// stored and invalid can still be labelled, suspended and finalized.
#[must_use]
pub fn is_same_run(old: &SparkApplication, new: &SparkApplication) -> bool {
    spec_hash(&old.spec) == spec_hash(&new.spec)
}

/// The same for a schedule.
#[must_use]
pub fn is_same_schedule(old: &ScheduledSparkApplication, new: &ScheduledSparkApplication) -> bool {
    let times = |schedule: &ScheduledSparkApplication| {
        (schedule.spec.schedule.clone(), schedule.spec.time_zone.clone())
    };
    times(old) == times(new) && spec_hash(&old.spec.template) == spec_hash(&new.spec.template)
}

#[cfg(test)]
mod linear;
