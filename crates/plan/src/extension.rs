//! The points at which extensions take part in the runs of applications. An extension is a feature that most clusters do not
//! use. The core knows none by its name: it calls those in [`Policy::extensions`](crate::Policy::extensions).

use crate::{Action, Observed, Plan, Policy, copies::Copies};
use api::{Identity, ObjectKey, ObjectKind, SparkApplication};
use jiff::Timestamp;
use pods::PodSummary;
use serde_json::Value;
use std::{borrow::Cow, collections::BTreeSet, fmt, sync::Arc};

/// Three limits for one plan: the number of executors that are deleted, of an extension's actions about pods, and of the
/// pods that an extension creates. An application with a thousand of them must not make other applications wait.
pub const AT_ONCE: usize = 100;

/// A feature that changes how applications are run. Each function is pure. None has a default, so that the compiler
/// names those that an extension has forgotten.
pub trait Extension: fmt::Debug + Send + Sync {
    /// Returns the kinds of which the cluster has to serve at least one before `application` is submitted, the
    /// preferred one first; empty if the application needs none of them. No kind is of Kubernetes' core group.
    fn alternatives(&self, application: &SparkApplication) -> Vec<ObjectKind>;

    /// Changes a run that is about to be submitted.
    ///
    /// # Errors
    ///
    /// When the run cannot be submitted: the reason, in words for the user.
    fn prepare(&self, prepared: &mut Prepared<'_>, run: &ComingRun<'_>) -> Result<(), String>;

    /// Returns the objects that [`prepare`](Self::prepare) may have added to the run with this submission id of the
    /// application called `name`. `driver` is the run's driver; without it, the spec may have been edited since. The admin may
    /// have turned the extension off since.
    fn leftovers(&self, name: &str, submission_id: &str, driver: Option<&PodSummary>) -> Vec<ObjectKey>;

    /// Returns the kinds of objects that are watched, repaired and deleted like Services and Ingresses.
    fn watched(&self) -> Vec<ObjectKind>;

    /// Returns those fields of `spec`, the spec of an object of this kind, that the operator sets; `None` if the kind
    /// is not the extension's.
    fn content(&self, kind: &ObjectKind, spec: &Value) -> Option<Value>;

    /// Returns what `object`, which has this kind, waits for, in words for the user; `None` if it does not wait, or if
    /// the kind is not the extension's.
    fn pending(&self, kind: &ObjectKind, object: &Value) -> Option<String>;

    /// Returns what can be done about `obstacle`, to be written after the API server's own message; `None` if the kind
    /// is not the extension's.
    fn advice(&self, kind: &ObjectKind, obstacle: Obstacle) -> Option<&'static str>;

    /// Whether decisions about a run whose driver is `driver` depend on the admin's `spark-defaults.conf`.
    fn needs_defaults(&self, driver: &PodSummary) -> bool;

    /// Adds actions, events and the time of the next reconcile to a plan that is complete but for its auxiliary
    /// actions. Returns the objects of [`watched`](Self::watched) kinds that the run in the plan's status should have
    /// now.
    fn amend(&self, view: &View<'_>, plan: &mut Plan) -> Vec<Value>;

    /// Returns what `driver`, which does not run yet, waits for, in words for the user. The reason that its pod reports is
    /// written before it.
    fn waits_for(&self, driver: &PodSummary, seen: &Observed) -> Option<String>;

    /// Returns the actions for `pods`, all of one application, that continue to run without the operator.
    fn leave(&self, pods: &[&PodSummary]) -> Vec<Action>;

    /// Returns an empty memory of applications; `None` if its decisions do not depend on earlier ones.
    fn memory(&self) -> Option<Box<dyn ExtensionMemory>>;

    /// Returns the fields of the spec that [`check`](Self::check) reads.
    fn fields(&self) -> &'static [&'static str];

    /// Returns what is wrong with a spec. `fields` is an object with [`fields`](Self::fields), as the user has written them,
    /// and `root` is the path of the spec.
    fn check(&self, root: &str, fields: &Value) -> submission::findings::Findings;
}

/// The reason why an object cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The cluster does not have the kind.
    NoKind,
    /// The operator may not create such objects.
    NoPermission,
}

/// The memory of an extension about applications, by their uids, from one decision to the next.
pub trait ExtensionMemory: Send {
    /// Adds to [`Observed::recalled`] what is remembered of the application with this uid, before it is decided about.
    /// `others` calls a function with the pods of each other application that has a pod with a
    /// [`Placement`](pods::Placement). Returns whether the decision has to be noted; if so, no other application is
    /// decided about before that.
    fn recall(&mut self, uid: &str, seen: &mut Observed, others: &PodsOfOthers<'_>, now: Timestamp) -> bool;

    /// Remembers what was decided about the application with this uid.
    fn note(&mut self, uid: &str, actions: &[Action]);

    /// Forgets the applications whose uids are not to be kept.
    fn retain(&mut self, is_kept: &dyn Fn(&str) -> bool);
}

/// Calls a function with the pods of each application but one.
pub type PodsOfOthers<'a> = dyn Fn(&mut dyn FnMut(&[&PodSummary])) + 'a;

/// The facts about an application for which a plan is made.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub application: &'a SparkApplication,
    pub seen: &'a Observed,
    pub now: Timestamp,
    pub policy: &'a Policy,
}

impl<'a> View<'a> {
    /// Returns the name of the application.
    pub fn name(&self) -> &'a str {
        self.application.own_name()
    }

    /// Returns the uid of the application.
    pub fn uid(&self) -> &'a str {
        self.application.own_uid()
    }

    /// Returns the objects that extensions may have added to the run with this submission id: see
    /// [`Extension::leftovers`].
    pub fn of_extensions(&self, submission_id: &str, driver: Option<&PodSummary>) -> Vec<ObjectKey> {
        let extensions = self.policy.extensions.iter();
        extensions.flat_map(|extension| extension.leftovers(self.name(), submission_id, driver)).collect()
    }

    /// Returns the pod with the driver's name, if it belongs to the application.
    pub fn driver(&self) -> Option<&'a PodSummary> {
        self.seen.driver.pod().filter(|pod| pod.is_controlled_by(self.uid()))
    }
}

/// A run that is about to be submitted.
#[derive(Debug)]
pub struct Prepared<'a> {
    /// The application as it is submitted.
    pub application: Cow<'a, SparkApplication>,
    /// The objects that are created before its first pod, in this order.
    pub objects: Vec<Value>,
    /// The pods that are created after them and before the driver. At most one extension has any.
    pub copies: Copies,
}

/// The facts about a run that are known before it is submitted.
#[derive(Clone, Copy, Debug)]
pub struct ComingRun<'a> {
    pub submission_id: &'a str,
    /// The kinds among [`Extension::alternatives`] that the cluster serves, at most one of each extension.
    pub served: &'a BTreeSet<ObjectKind>,
    /// The text of the admin's `spark-defaults.conf`.
    pub defaults: &'a str,
}

/// The extensions that the operator is built with, also those that the admin has turned off. Cheap to clone.
pub type Extensions = Arc<[Arc<dyn Extension>]>;

/// Returns a single extension.
pub fn only(extension: impl Extension + 'static) -> Extensions {
    let one: Arc<dyn Extension> = Arc::new(extension);
    Arc::new([one])
}
