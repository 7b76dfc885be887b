//! Checks whether an application can run with the spec that the user wrote. Each file checks one concern; [`CHECKS`]
//! lists the checks.
//!
//! The webhook checks an application when a user applies it, the controller before it submits an application, and
//! `sparkctl render` offline. Because they share this code, all of them refuse the same applications with the same
//! messages. An application is refused only for what can never work. A setting that has no effect, or that may fail in
//! one cluster and work in another, causes a warning.

mod allocation;
mod customization;
mod edits;
mod ignored;
mod ingress;
pub mod kubernetes;
mod labels;
mod mistakes;
mod mode;
mod monitoring;
mod names;
mod planned;
mod pod_templates;
mod precision;
mod program;
mod python;
mod resources;
mod schedule;
mod scheduling;
mod size;
mod spark_conf;
mod start;
mod volumes;

use api::{Role, ScheduledSparkApplication, SparkApplication, SparkApplicationSpec, with_defaults};
pub use edits::{Edit, Effect, differences, edits_between, effect_of, effect_on_run, effects};
pub use names::{check_name, is_label, is_label_value, is_object_name};
pub use planned::Files;
pub use precision::Precision;
pub use schedule::shortest_named_run;
pub use size::is_bounded;
use std::{borrow::Cow, fmt::Display, time::Duration};
pub use submission::findings::{Findings, Invalid, MOST_FINDINGS, Refusal, Validated};
use submission::{RoleField, spec_hash::spec_hash};

/// All checks of an application, whether it is applied by itself or is the template of a schedule. The name is checked
/// separately, before these checks, and the customization of the pods after them: with the planned pods if there are any,
/// else by a rehearsal.
const CHECKS: [Check; 36] = [
    mode::cluster,
    program::main_file,
    program::main_class,
    program::local_files,
    program::arguments,
    program::java_options,
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
    spark_conf::unknown,
    spark_conf::of_volumes,
    mistakes::in_properties,
    mistakes::in_arguments,
    mistakes::secrets,
    mistakes::mounts,
    mistakes::containers,
    mistakes::images,
    labels::operators,
    resources::memory,
    resources::cores,
    resources::limits,
    allocation::bounds,
    volumes::scratch_space,
    volumes::mounts,
    monitoring::exposure,
    customization::size,
    pod_templates::size,
    python::version,
    ignored::fields,
];

/// Checks one concern.
type Check = fn(&Subject, &mut Findings);

/// The path of where the user wrote a value, and the value.
type Given<'a> = (String, Cow<'a, str>);

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

    /// Returns the value of a role's field, else that of its property in sparkConf, with the path of where it stands.
    fn given(&self, role: Role, field: RoleField) -> Option<Given<'_>> {
        let stated = field.stated(role.pod(&self.spec)).map(|value| (self.of_role(role, field), value));
        stated.or_else(|| self.configured(&field.key(role)))
    }

    /// Returns the value of a property in sparkConf.
    fn configured(&self, key: &str) -> Option<Given<'_>> {
        self.spec.spark_conf.get(key).map(|value| (self.conf(key), value.into()))
    }

    /// Returns whether the spec is small enough for further checks.
    fn check(&self, findings: &mut Findings) -> bool {
        let json = serde_json::to_string(&self.application.spec).expect("a spec is JSON");
        let is_bounded = size::is_bounded(&json, self.root, findings);
        if is_bounded {
            CHECKS.iter().for_each(|check| check(self, findings));
        }
        is_bounded
    }
}

/// Returns the one of `known` from which `given` differs by two letters at most. A known name that ends in a dot is the
/// beginning of names, whose rest is that of `given`.
fn nearest<'k>(given: &str, known: impl Iterator<Item = &'k str>) -> Option<String> {
    /// No name of Spark's is longer, and whoever writes a longer one shall not keep anybody busy.
    const LONGEST: usize = 100;
    const LETTERS: usize = 2;
    let resembling = known.filter_map(|name| {
        let own = match name.strip_suffix('.') {
            Some(before) => &given[..=given.match_indices('.').nth(before.matches('.').count())?.0],
            None => given,
        };
        let letters = || strsim::osa_distance(&own.to_lowercase(), &name.to_lowercase());
        (own.len() <= LONGEST).then(|| (letters(), name, &given[own.len()..]))
    });
    let (letters, name, rest) = resembling.min_by_key(|(letters, ..)| *letters)?;
    (letters <= LETTERS).then(|| format!("{name}{rest}"))
}

/// Returns the mistakes and the warnings of an application, including what planning its run finds.
pub fn examine(application: &SparkApplication, files: Files) -> Findings {
    let mut findings = Findings::default();
    if let Some(subject) = checked(application, &mut findings) {
        planned::run(&subject, files, &mut findings);
    }
    findings.told("spec")
}

/// Returns the application for further checks; none if its spec is too large for any.
fn checked<'a>(application: &'a SparkApplication, findings: &mut Findings) -> Option<Subject<'a>> {
    names::application(application, findings);
    let subject = Subject::new(application, "spec");
    subject.check(findings).then_some(subject)
}

/// Returns the mistakes and the warnings of a schedule, including those of the applications that are created from its
/// template. `precision` is the unit of the times in the names of these applications, if known; `shortest_period` is the
/// shortest period that the operator allows, zero if that is not known.
pub fn examine_schedule(
    schedule: &ScheduledSparkApplication,
    precision: Option<Precision>,
    shortest_period: Duration,
    files: Files,
) -> Findings {
    let mut findings = Findings::default();
    names::schedule(schedule, precision, &mut findings);
    schedule::fields(schedule, shortest_period, &mut findings);
    let run = shortest_named_run(schedule);
    let subject = Subject::new(&run, "spec.template");
    if subject.check(&mut findings) {
        planned::run(&subject, files, &mut findings);
    }
    findings.told("spec")
}

/// Checks that the application can run with the spec that the user wrote, as far as that is known before its run is
/// planned: who calls this plans the run, and [`examine`] plans one too.
///
/// # Errors
///
/// All mistakes of the application.
pub fn validate(application: &SparkApplication) -> Result<Validated<'_>, Refusal> {
    let mut findings = Findings::default();
    if let Some(subject) = checked(application, &mut findings) {
        customization::rehearsal(&subject, &mut findings);
    }
    let Findings { invalid, .. } = findings.told("spec");
    if invalid.is_empty() { Ok(Validated::vouched(application)) } else { Err(Refusal(invalid)) }
}

/// Whether an update does not change the run of an application, so that there is nothing to refuse: the labels,
/// `suspend` and the finalizers of an invalid application that is already stored can still be changed.
pub fn is_same_run(old: &SparkApplication, new: &SparkApplication) -> bool {
    spec_hash(&old.spec) == spec_hash(&new.spec)
}

/// Whether an update changes neither the times nor the runs of a schedule, so that there is nothing to refuse: the
/// counterpart of [`is_same_run`] for a schedule.
pub fn is_same_schedule(old: &ScheduledSparkApplication, new: &ScheduledSparkApplication) -> bool {
    let times = |schedule: &ScheduledSparkApplication| {
        (schedule.spec.schedule.clone(), schedule.spec.time_zone.clone())
    };
    times(old) == times(new) && spec_hash(&old.spec.template) == spec_hash(&new.spec.template)
}
