//! Checks whether an application can run with the spec that the user wrote. Each file checks one concern; [`CHECKS`]
//! lists the checks.
//!
//! The webhook checks an application when a user applies it, the controller before it submits an application, and
//! `sparkctl render` offline. Because they share this code, all of them refuse the same applications with the same
//! messages. An application is refused only for what can never work. A setting that has no effect, or that may fail in
//! one cluster and work in another, causes a warning.

mod customization;
mod edits;
mod ignored;
mod ingress;
pub mod kubernetes;
mod labels;
mod likely_mistakes;
mod monitoring;
mod names;
mod planned;
mod pod_templates;
mod program;
mod resources;
mod rules;
mod schedule;
mod spark_conf;
mod start;
mod volumes;

use api::{
    Identity, LONGEST_LABEL, Role, ScheduledSparkApplication, SparkApplication, SparkPodSpec, with_defaults,
};
pub use edits::{Edit, Effect, differences, edits_of, effect_on_run};
pub use names::{check_name, is_label, is_label_key, is_label_value, is_object_name};
pub use planned::Files;
pub use schedule::{Precision, shortest_named_run};
use std::{borrow::Cow, cell::RefCell, fmt::Display, time::Duration};
pub use submission::findings::{Findings, Invalid, MOST_FINDINGS, Refusal, Validated};
use submission::{RoleField, spec_hash::spec_hash};

/// All checks of an application, whether it is applied by itself or is the template of a schedule. The name is checked
/// separately, before these checks, and the customization of the pods after them: with the planned pods if there are any,
/// else with pods of few fields ([`customization::rehearsal`]).
const CHECKS: [Check; 34] = [
    Check::Whole(program::entry_point),
    Check::Whole(program::local_files),
    Check::Whole(program::arguments),
    Check::OfRole(program::java_options),
    Check::Whole(names::driver_pod),
    Check::OfRole(pod_templates::form),
    Check::OfRole(labels::node_selector),
    Check::Whole(ingress::web_ui),
    Check::Whole(ingress::driver_ingress),
    Check::Whole(spark_conf::denied),
    Check::OfRole(spark_conf::contract),
    Check::Whole(spark_conf::references),
    Check::Whole(spark_conf::lists),
    Check::Whole(spark_conf::without_effect),
    Check::Whole(spark_conf::unknown),
    Check::OfRole(spark_conf::of_volumes),
    Check::Whole(likely_mistakes::in_properties),
    Check::Whole(likely_mistakes::in_arguments),
    Check::OfRole(likely_mistakes::secrets),
    Check::OfRole(likely_mistakes::mounts),
    Check::OfRole(likely_mistakes::containers),
    Check::Whole(likely_mistakes::images),
    Check::Whole(labels::operators),
    Check::Whole(resources::memory),
    Check::Whole(resources::cores),
    Check::OfRole(resources::limits),
    Check::Whole(resources::bounds),
    Check::Whole(resources::counted_by_kueue),
    Check::Whole(volumes::names),
    Check::OfRole(volumes::mounts),
    Check::Whole(monitoring::exposure),
    Check::Whole(program::python),
    Check::Whole(ignored::fields),
    Check::OfRole(ignored::of_role),
];

/// A check of one concern.
enum Check {
    Whole(fn(&Subject)),
    /// Of the section of each role.
    OfRole(fn(&Subject, Role, &SparkPodSpec)),
}

/// The path, below the spec, at which the user wrote a value, and the value.
type Given<'a> = (String, Cow<'a, str>);

/// The application that the checks examine, and what they have found. The paths of fields are those below the spec.
struct Subject<'a> {
    application: &'a SparkApplication,
    /// The application's spec with defaults filled in.
    spec: api::SparkApplicationSpec,
    /// The path of the spec in the user's object: `spec`, or `spec.template` in a schedule.
    root: &'static str,
    findings: RefCell<Findings>,
}

impl<'a> Subject<'a> {
    fn of(application: &'a SparkApplication) -> Self {
        let mut findings = Findings::default();
        check_name("SparkApplication", &application.metadata, LONGEST_LABEL, &mut findings);
        Self::new(application, "spec", findings)
    }

    fn new(application: &'a SparkApplication, root: &'static str, findings: Findings) -> Self {
        let spec = with_defaults(application.spec.clone());
        Self { application, spec, root, findings: findings.into() }
    }

    fn name(&self) -> &str {
        self.application.own_name()
    }

    /// Returns the roles with their sections.
    fn pods(&self) -> [(Role, &SparkPodSpec); 2] {
        Role::ALL.map(|role| (role, role.pod(&self.spec)))
    }

    /// Returns the path in the user's object of a field of the spec.
    fn field(&self, path: impl Display) -> String {
        format!("{}.{path}", self.root)
    }

    /// Adds a mistake of a field.
    fn refuse(&self, path: impl Display, why: impl Display) {
        self.findings.borrow_mut().refuse(self.field(path), why);
    }

    /// Adds a warning about a field.
    fn warn(&self, path: impl Display, what: impl Display) {
        self.findings.borrow_mut().warn(self.field(path), what);
    }

    /// Returns the value of a role's field, else that of its property in sparkConf, with the path at which it is written.
    fn given(&self, role: Role, field: RoleField) -> Option<Given<'_>> {
        let stated = field.stated(role.pod(&self.spec)).map(|value| (format!("{role}.{field}"), value));
        stated.or_else(|| self.configured(&field.key(role)))
    }

    /// Returns the value of a property in sparkConf.
    fn configured(&self, key: &str) -> Option<Given<'_>> {
        self.spec.spark_conf.get(key).map(|value| (property(key), value.into()))
    }

    /// Takes the findings of all checks and, after them, of `further`; if the spec is too large to be checked, only that.
    /// A subject is examined once.
    fn examined(&self, further: impl FnOnce(&Self)) -> Findings {
        let json = serde_json::to_string(&self.application.spec).expect("a spec is JSON");
        let is_bounded = is_bounded(&json, self.root, &mut self.findings.borrow_mut());
        if is_bounded {
            for check in CHECKS {
                match check {
                    Check::Whole(check) => check(self),
                    Check::OfRole(check) => {
                        self.pods().into_iter().for_each(|(role, pod)| check(self, role, pod))
                    }
                }
            }
            further(self);
        }
        self.findings.take().told("spec")
    }
}

/// Returns the path of a property in sparkConf.
fn property(key: &str) -> String {
    format!("sparkConf[{key}]")
}

/// The maximum size of a spec, in bytes of compact JSON.
///
/// The API server accepts requests of 3 MiB, and etcd accepts objects of 1.5 MB. `managedFields` in the same object can
/// be as large as the spec. The data of a run has limits as well: Spark's properties must fit into a ConfigMap of 1
/// MiB, and the changes that the webhook makes to the pods of each of the two roles into 256 KiB of annotations. So
/// this limit leaves 256 KiB for each role and 256 KiB for all the rest.
const LARGEST: usize = 768 << 10;

/// Whether the spec whose JSON this is, under the path `root`, is within the limits. Otherwise no other check is needed: the
/// user has to rewrite the spec.
pub fn is_bounded(json: &str, root: &str, findings: &mut Findings) -> bool {
    let excess = api::Bounds::SPEC.excess(json, root);
    if let Some(excess) = &excess {
        findings.refuse(&excess.path, &excess.why);
    }
    let is_large = json.len() > LARGEST;
    if is_large {
        let most = format_args!("at most {LARGEST} are possible: move large values into ConfigMaps or files");
        findings.refuse(root, format_args!("has {} bytes as JSON, and {most}", json.len()));
    }
    excess.is_none() && !is_large
}

/// Returns the name among `known` from which `given` differs least, by two letters at most. A known name that ends in a dot
/// is a prefix: only the beginning of `given` is compared, and its rest is appended.
fn nearest<'k>(given: &str, known: impl Iterator<Item = &'k str>) -> Option<String> {
    const LETTERS: usize = 2;
    let resembling = known.filter_map(|name| {
        let own = match name.strip_suffix('.') {
            Some(before) => &given[..=given.match_indices('.').nth(before.matches('.').count())?.0],
            None => given,
        };
        let letters = || strsim::osa_distance(&own.to_lowercase(), &name.to_lowercase());
        // The comparison letter by letter takes long, so only names of about the same length are compared.
        (own.len().abs_diff(name.len()) <= LETTERS).then(|| (letters(), name, &given[own.len()..]))
    });
    let (letters, name, rest) = resembling.min_by_key(|(letters, ..)| *letters)?;
    (letters <= LETTERS).then(|| format!("{name}{rest}"))
}

/// Returns the mistakes and the warnings of an application, including what planning its run finds.
pub fn examine(application: &SparkApplication, files: Files) -> Findings {
    Subject::of(application).examined(|subject| planned::run(subject, files))
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
    schedule::check(schedule, precision, shortest_period, &mut findings);
    let run = shortest_named_run(schedule);
    Subject::new(&run, "spec.template", findings).examined(|subject| planned::run(subject, files))
}

/// Checks that the application can run with the spec that the user wrote, as far as that is known before its run is
/// planned: the caller plans the run next. ([`examine`] includes a plan.)
///
/// # Errors
///
/// All mistakes of the application.
pub fn validate(application: &SparkApplication) -> Result<Validated<'_>, Refusal> {
    let subject = Subject::of(application);
    let Findings { invalid, .. } = subject.examined(customization::rehearsal);
    let valid = invalid.is_empty().then(|| Validated::vouched(application, Cow::Owned(subject.spec)));
    valid.ok_or(Refusal(invalid))
}

/// Whether an update does not change the run of an application, so that there is nothing to refuse: the labels,
/// `suspend` and the finalizers of an invalid application that is already stored can still be changed.
pub fn is_same_run(old: &SparkApplication, new: &SparkApplication) -> bool {
    spec_hash(&old.spec) == spec_hash(&new.spec)
}

/// Whether an update changes neither the times nor the runs of a schedule, so that there is nothing to refuse: the
/// counterpart of [`is_same_run`] for a schedule.
pub fn is_same_schedule(old: &ScheduledSparkApplication, new: &ScheduledSparkApplication) -> bool {
    let (old, new) = (&old.spec, &new.spec);
    let is_same_time = old.schedule == new.schedule && old.time_zone == new.time_zone;
    is_same_time && spec_hash(&old.template) == spec_hash(&new.template)
}
