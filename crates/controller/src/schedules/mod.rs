//! Drives schedules in the same way as applications: watches them, observes the facts, decides what to do,
//! acts, and records the result.

mod children;
mod metrics;

use super::{
    Cluster, Error, FRESH_FACTS, Setup, Watched as WatchedApplication,
    calls::{self, Calls, Metadata},
    execute,
    kept::Kept,
    schedule_owner::Owner,
    source::{self, Reconciler, Source},
};
use api::{Identity, ScheduledSparkApplication, SparkApplication, names::label, version};
pub(super) use children::Children;
use children::Family;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{ListParams, Preconditions},
    core::Request,
    runtime::{
        reflector::{Store, store::Writer},
        watcher::Event,
    },
};
pub use metrics::ScheduleMetrics;
use schedules::{Action as Act, Checked, Child, Observed, Plan, Policy};
use serde_json::json;
use std::{collections::BTreeSet, ops::ControlFlow, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;
use tracing::info;

/// A schedule as the watch delivers it.
type Watched = Kept<ScheduledSparkApplication, ()>;

/// How old an application that this process has created must be before the API server is asked for it, if the watch has
/// not reported it.
const CONFIRMED_AFTER: Duration = Duration::from_secs(10);

/// Everything that the reconcile loop of schedules uses and remembers.
pub(super) struct Context {
    pub source: Source<ScheduledSparkApplication, ()>,
    policy: Policy,
    pub children: Children,
    metrics: ScheduleMetrics,
}

/// Runs the reconcile loop of schedules until `stop` is cancelled; `writer` fills the cache of [`Context::source`].
/// The index of applications must be complete.
pub(super) async fn run(context: Arc<Context>, writer: Writer<Watched>, stop: CancellationToken) {
    let follow = context.source.follow(writer, |event| context.on_event(event));
    let work = async {
        // The writer lives in `follow`, so this wait does not fail.
        if stop.run_until_cancelled(context.source.cache.wait_until_ready()).await.is_some() {
            source::work(&context, &stop).await;
        }
    };
    tokio::select! {
        () = work => {}
        () = follow => {}
    }
}

impl Reconciler for Context {
    type Kind = ScheduledSparkApplication;
    type Part = ();

    fn source(&self) -> &Source<ScheduledSparkApplication, ()> {
        &self.source
    }

    /// Observes a schedule, decides what to do, acts, and records the result. Returns the time until the next reconcile if
    /// neither the schedule nor its applications change before.
    async fn reconcile(
        &self,
        schedule: &ScheduledSparkApplication,
        now: Timestamp,
    ) -> Result<Option<Duration>, Error> {
        let Source { cluster, memory, .. } = &self.source;
        let checked = schedules::check(schedule, &self.policy);
        let seen = self.observe(schedule, &checked, now).await?;
        let Plan { actions, status, events, outcomes, wake } =
            schedules::next(schedule, &checked, &seen, now, &self.policy);
        let starts = actions.iter().any(|action| matches!(action, Act::Start(_)));
        // A decision on a stale copy of the schedule may start an application that was started and deleted already. The
        // version that this process wrote last needs no check: only this process starts applications, so no later
        // version records another start.
        let is_ours = memory.with(schedule.own_uid(), |note| note.written) == version(schedule);
        if starts && !is_ours && !calls::is_current(&cluster.client, schedule, "GET of the schedule").await? {
            return Ok(Some(FRESH_FACTS));
        }
        for action in actions {
            self.execute(schedule, action, now).await?;
        }
        let is_recorded = schedule.status.clone().unwrap_or_default() == status;
        if !is_recorded {
            self.source.write(schedule, &schedule.status, &status).await?;
        }
        for outcome in outcomes {
            self.metrics.count(outcome);
        }
        let occasion = schedule.metadata.generation.unwrap_or_default().to_string();
        for event in &events {
            cluster.send_event(schedule, &occasion, event, now).await;
        }
        // The next decision is made when the watch has reported the new status.
        Ok(if is_recorded { wake } else { Some(FRESH_FACTS) })
    }
}

impl Context {
    pub(super) fn new(cluster: Cluster, setup: &Setup, schedules: Store<Watched>) -> Self {
        let source = Source::new(cluster, &setup.workloads.schedules, schedules);
        Self {
            policy: setup.schedule_policy.clone(),
            children: Children::new(source.clone()),
            source,
            metrics: setup.schedule_metrics.clone(),
        }
    }

    /// Collects all facts on which the next decision about `schedule` depends.
    async fn observe(
        &self,
        schedule: &ScheduledSparkApplication,
        checked: &Checked,
        now: Timestamp,
    ) -> Result<Observed, Error> {
        let (namespace, owner) = (schedule.own_namespace(), Owner::of(schedule));
        self.confirm(namespace, &owner, now).await?;
        let (children, departed) = self.children.of(&owner);
        let asked = schedules::questions(schedule, checked, &children, now, &self.policy);
        let has_pods = asked.pods && self.has_pods(schedule, &children).await?;
        let is_foreign = |name: &String| {
            let application = self.source.cluster.application(namespace, name);
            application.is_some_and(|application| !application.kept.is_of(&owner))
        };
        let taken = asked.names.into_iter().filter(is_foreign).collect();
        Ok(Observed { children, departed, taken, has_pods })
    }

    /// Asks the API server for applications that the watch has not reported: those that this process has created, and
    /// those that it may have created.
    async fn confirm(&self, namespace: &str, owner: &Owner, now: Timestamp) -> Result<(), Error> {
        let is_old = |child: &Child| now.duration_since(child.created).unsigned_abs() > CONFIRMED_AFTER;
        let asked: Vec<_> = self.children.with(owner, |family| {
            let Family { children, unconfirmed, .. } = family;
            unconfirmed.iter().filter(|name| children.get(*name).is_none_or(is_old)).cloned().collect()
        });
        for name in asked {
            if !self.find(namespace, &name, owner).await? {
                self.children.remove(owner, &name);
            }
        }
        Ok(())
    }

    /// Adds an application if the API server has it and it belongs to this schedule. Returns whether that is so.
    async fn find(&self, namespace: &str, name: &str, owner: &Owner) -> Result<bool, Error> {
        let there = Api::<WatchedApplication>::namespaced(self.source.cluster.client.clone(), namespace);
        let there = there.get_opt(name).await.map_err(Error::api("GET of an application"))?;
        let ours = there.filter(|there| there.kept.is_of(owner));
        ours.iter().for_each(|ours| self.children.add(ours));
        Ok(ours.is_some())
    }

    /// Whether pods still run whose application, one of this schedule, does not exist any more.
    async fn has_pods(
        &self,
        schedule: &ScheduledSparkApplication,
        children: &[Child],
    ) -> Result<bool, Error> {
        let (namespace, owner) = (schedule.own_namespace(), Owner::of(schedule));
        let lost = self.children.with(&owner, |family| family.is_searched.then(|| family.lost.clone()));
        // All deleted applications had ended before, and an application that has ended has no running driver.
        if lost.as_ref().is_some_and(BTreeSet::is_empty) {
            return Ok(false);
        }
        let pods = Calls::of::<Pod>(&self.source.cluster.client, namespace);
        let name = schedule.name_any();
        // The schedule's own labels take precedence over the schedule's name.
        let name = schedule.labels().get(label::SCHEDULED_APP_NAME).unwrap_or(&name);
        let live = ListParams::default()
            .labels(&format!("{}={name},{}=true", label::SCHEDULED_APP_NAME, label::LAUNCHED_BY))
            .fields("status.phase!=Succeeded,status.phase!=Failed");
        // A user who copies an application of the schedule copies its labels, too.
        let is_foreign = |name: &String| {
            let is_lost = lost.as_ref().is_some_and(|lost| lost.contains(name));
            let application = self.source.cluster.application(namespace, name);
            !is_lost && application.is_some_and(|application| !application.kept.is_of(&owner))
        };
        let is_of_one_that_is_there = |application: &String| {
            children.iter().any(|child| child.name == *application) || is_foreign(application)
        };
        let mut has_pods = false;
        let lists = &self.source.cluster.lists;
        let listed = pods.list(lists, Request::list_metadata, live, |pod: Metadata| {
            has_pods = !pod.labels().get(label::APP_NAME).is_some_and(is_of_one_that_is_there);
            if has_pods { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        listed.await.map_err(Error::api("LIST of a schedule's pods"))?;
        if !has_pods {
            let lost = lost.unwrap_or_default();
            self.children.with(&owner, |family| {
                // An application that was lost after the request stays recorded.
                family.lost.retain(|name| !lost.contains(name));
                family.is_searched = true;
            });
        }
        Ok(has_pods)
    }

    async fn execute(
        &self,
        schedule: &ScheduledSparkApplication,
        action: Act,
        now: Timestamp,
    ) -> Result<(), Error> {
        let namespace = schedule.own_namespace();
        let applications = Calls::of::<SparkApplication>(&self.source.cluster.client, namespace);
        match action {
            Act::Start(application) => {
                let (name, owner) = (application.name_any(), Owner::of(schedule));
                let made = applications.create(json!(application).to_string()).await.and_then(|made| {
                    serde_json::from_str::<WatchedApplication>(&made).map_err(kube::Error::SerdeError)
                });
                if let Ok(made) = &made {
                    self.children.add(made);
                }
                match made {
                    Ok(_) => info!(application = name, "started"),
                    // Either the response to the creation of this application was lost, or another application has the
                    // name: the watch delivers that one, if it still exists.
                    Err(kube::Error::Api(status)) if status.is_already_exists() => {
                        if !self.find(namespace, &name, &owner).await? {
                            return Err(Error::Conflict);
                        }
                    }
                    Err(error) => {
                        match &error {
                            kube::Error::Api(status) if (400..500).contains(&status.code) => {
                                let event = schedules::not_started(&name, &status.message);
                                self.source.cluster.send_event(schedule, &name, &event, now).await;
                            }
                            _ => drop(self.children.with(&owner, |family| family.unconfirmed.insert(name))),
                        }
                        return Err(Error::api("creation of an application")(error));
                    }
                }
            }
            Act::Delete { name, uid, resource_version } => {
                let preconditions = Preconditions { uid: Some(uid.clone()), resource_version };
                execute::delete(&applications, &name, preconditions).await?;
                self.children.with(&Owner::of(schedule), |family| {
                    if let Some(child) = family.children.get_mut(&name).filter(|child| child.uid == uid) {
                        child.is_going = true;
                    }
                });
            }
        }
        Ok(())
    }

    /// Forgets schedules that are gone. The watch does not report those that were deleted while no watch was running.
    fn on_event(&self, event: &Event<Watched>) {
        match event {
            Event::Init | Event::InitApply(_) | Event::Apply(_) => {}
            Event::InitDone => self.children.forget_others(),
            Event::Delete(schedule) => self.children.forget(&Owner::of(schedule)),
        }
    }
}
