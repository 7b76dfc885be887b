//! Drives schedules in the same way as applications: watches them, observes the facts, decides what to do,
//! acts, and records the result.

mod children;
mod metrics;

use super::{
    ApplicationRef, Cluster, Error, FRESH_FACTS, Setup, Watched as WatchedApplication, calls,
    error::guarded,
    execute,
    kept::{Kept, Text},
    queue::Queue,
    reconcile_memory::ReconcileMemory,
    status,
};
use api::{ScheduledSparkApplication, SparkApplication, names::label, version};
pub(super) use children::Children;
use children::Owner;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams, Preconditions},
    runtime::{
        WatchStreamExt,
        reflector::{ObjectRef, Store, store::Writer},
        watcher,
    },
};
pub use metrics::ScheduleMetrics;
use schedules::{Action as Act, Checked, Child, Observed, Plan, Policy};
use std::{ops::ControlFlow, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;
use tracing::{Span, debug, field, info, instrument, warn};

/// A schedule as the watch delivers it.
type Watched = Kept<ScheduledSparkApplication, Text>;
/// Namespace and name of a schedule.
pub(super) type ScheduleRef = ObjectRef<Watched>;

/// The most passes (observe, decide, act, record) in one reconcile of a schedule: after a status is recorded, another
/// decision may be due. Two passes have always been enough.
const PASSES: usize = 4;
/// How old an application made by this process must be before the API server is asked for it, if the watch has not
/// reported it.
const CONFIRMED_AFTER: Duration = Duration::from_secs(10);

/// Everything that the reconcile loop of schedules uses and remembers.
pub(super) struct Context {
    cluster: Cluster,
    policy: Policy,
    pub children: Children,
    pub queue: Arc<Queue>,
    /// The cache of schedules, fed by the watch.
    pub schedules: Store<Watched>,
    memory: ReconcileMemory,
    metrics: ScheduleMetrics,
}

/// The result of one pass.
enum Passed {
    /// Nothing is left to do until the schedule or its applications change, or until this time (if given) has passed.
    Rests(Option<Duration>),
    /// A new status was recorded; this is the schedule as the API server has stored it.
    Recorded(Box<ScheduledSparkApplication>),
}

/// Runs the reconcile loop of schedules until `stop` is cancelled; `writer` fills the cache of [`Context::schedules`].
/// The index of applications must be complete.
pub(super) async fn run(context: Arc<Context>, writer: Writer<Watched>, stop: CancellationToken) {
    let follow = follow(&context, writer);
    let work = async {
        // The writer lives in `follow`, so this wait does not fail.
        if stop.run_until_cancelled(context.schedules.wait_until_ready()).await.is_some() {
            let working = Arc::clone(&context);
            let look = move |namespace, name| look(Arc::clone(&working), namespace, name);
            context.queue.work(&stop, look).await;
        }
    };
    tokio::select! {
        () = work => {}
        () = follow => {}
    }
}

/// Keeps the cache, and queues the schedules that change; never ends.
async fn follow(context: &Context, writer: Writer<Watched>) {
    let schedules = context.cluster.watching.events(&(), None);
    schedules
        .inspect(|event| match event {
            Ok(watcher::Event::Delete(schedule)) => context.forget(schedule),
            Ok(_) => {}
            Err(error) => warn!(%error, "the watch of schedules is retried"),
        })
        .reflect(writer)
        // After `reflect`, so that the cache contains what the watch has reported when `take_note` reads the cache.
        .for_each(async |event| event.map_or_else(|_| (), |event| context.take_note(&event)))
        .await;
}

/// Works on one schedule as the cache contains it. Returns after which time to work on it again if nothing changes
/// before; none to wait for a change.
async fn look(context: Arc<Context>, namespace: String, name: String) -> Option<Duration> {
    let Some(watched) = context.schedules.get(&ScheduleRef::new(&name).within(&namespace)) else {
        context.queue.workload.remove(&namespace, &name);
        return None;
    };
    reconcile(&watched, &context).await.unwrap_or_else(|error| Some(context.memory.again(&*watched, &error)))
}

#[instrument(skip_all, fields(
    kind = "ScheduledSparkApplication",
    namespace = watched.namespace(),
    name = field::Empty,
))]
async fn reconcile(watched: &Watched, context: &Context) -> Result<Option<Duration>, Error> {
    let namespace = watched.namespace().unwrap_or_default();
    let now = super::now();
    // The name is not set in the attribute above, because the JSON log layer overwrites a field `name` that is set
    // there with the span's own name.
    Span::current().record("name", watched.name_any());
    let look = async {
        if !context.cluster.namespaces.include(&namespace) {
            // Another operator may start applications now, so the version that this process has written last may be
            // outdated when it drives the schedule again.
            context.memory.forget(&watched.uid().unwrap_or_default());
            return Ok(None);
        }
        let Some(whole) = context.cluster.reader.whole(watched, now).await? else { return Ok(None) };
        context.reconcile(&whole.object, now).await
    };
    guarded(watched, &context.queue.workload, &context.cluster.events, now, look).await
}

impl Context {
    pub(super) fn new(cluster: Cluster, setup: &Setup, schedules: Store<Watched>) -> Self {
        let queue = Queue::new(setup.workloads.schedules.clone());
        Self {
            cluster,
            policy: setup.schedule_policy.clone(),
            children: Children::new(Arc::clone(&queue)),
            queue,
            schedules,
            memory: ReconcileMemory::default(),
            metrics: setup.schedule_metrics.clone(),
        }
    }

    /// Brings one schedule a step further. Returns the time until the next reconcile if nothing changes before; none to
    /// wait for a change.
    async fn reconcile(
        &self,
        schedule: &ScheduledSparkApplication,
        now: Timestamp,
    ) -> Result<Option<Duration>, Error> {
        if schedule.metadata.deletion_timestamp.is_some() {
            // Kubernetes deletes the schedule's applications too, because the schedule is their owner.
            self.forget(schedule);
            return Ok(None);
        }
        if self.memory.have_newer(schedule) {
            debug!("the cache has not seen our last write yet");
            return Ok(Some(FRESH_FACTS));
        }
        let mut recorded = None;
        for _ in 0..PASSES {
            match self.pass(recorded.as_deref().unwrap_or(schedule), now).await? {
                Passed::Rests(wake) => return Ok(wake),
                Passed::Recorded(written) => recorded = Some(written),
            }
        }
        Ok(Some(FRESH_FACTS))
    }

    /// Runs one pass: observes a schedule, decides what to do, acts, and records the result.
    async fn pass(&self, schedule: &ScheduledSparkApplication, now: Timestamp) -> Result<Passed, Error> {
        let (client, uid) = (&self.cluster.client, schedule.uid().unwrap_or_default());
        let checked = schedules::check(schedule, &self.policy);
        let seen = self.observe(schedule, &checked, now).await?;
        let Plan { actions, status, events, outcomes, wake } =
            schedules::next(schedule, &checked, &seen, now, &self.policy);
        let starts = actions.iter().any(|action| matches!(action, Act::Start(_)));
        // A decision on a stale copy of the schedule may start an application that was started and deleted already. The
        // version that this process wrote last needs no check: only this process starts applications, so no later
        // version records another start.
        let is_ours = self.memory.with(&uid, |note| note.written) == version(schedule);
        if starts && !is_ours && !calls::is_current(client, schedule, "GET of the schedule").await? {
            return Ok(Passed::Rests(Some(FRESH_FACTS)));
        }
        for action in actions {
            self.execute(schedule, action, now).await?;
        }
        let mut passed = Passed::Rests(wake);
        if schedule.status.clone().unwrap_or_default() != status {
            self.memory.begin_write(&uid);
            let written = status::write(client, schedule, &schedule.status, &status).await;
            let is_outdated = self.memory.end_write(&uid, written.as_ref().ok());
            passed = match written? {
                _ if is_outdated => Passed::Rests(Some(Duration::ZERO)),
                written => Passed::Recorded(Box::new(written)),
            };
        }
        for outcome in outcomes {
            self.metrics.count(outcome);
        }
        let occasion = schedule.metadata.generation.unwrap_or_default().to_string();
        for event in &events {
            self.cluster.events.send(schedule, &occasion, event, now).await;
        }
        self.memory.with(&uid, |note| note.failures = 0);
        Ok(passed)
    }

    /// Collects all facts on which the next decision about `schedule` depends.
    async fn observe(
        &self,
        schedule: &ScheduledSparkApplication,
        checked: &Checked,
        now: Timestamp,
    ) -> Result<Observed, Error> {
        let (namespace, owner) = (schedule.namespace().unwrap_or_default(), Owner::of(schedule));
        self.confirm(&namespace, &owner, now).await?;
        let (children, departed) = self.children.of(&owner);
        let asked = schedules::questions(schedule, checked, &children, now, &self.policy);
        let has_pods = asked.pods && self.has_pods(schedule, &children).await?;
        let is_foreign = |name: &String| {
            let application = self.cluster.applications.get(&ApplicationRef::new(name).within(&namespace));
            application.is_some_and(|application| !owner.owns(&*application))
        };
        let taken = asked.names.into_iter().filter(is_foreign).collect();
        Ok(Observed { children, departed, taken, has_pods })
    }

    /// Looks for applications that the watch has not reported: those that this process has made, and those that it may
    /// have made.
    async fn confirm(&self, namespace: &str, owner: &Owner, now: Timestamp) -> Result<(), Error> {
        let applications = Api::<WatchedApplication>::namespaced(self.cluster.client.clone(), namespace);
        for name in self.children.with(owner, |family| family.doubted.clone()) {
            let found = applications.get_opt(&name).await.map_err(Error::api("GET of an application"))?;
            if let Some(ours) = found.filter(|there| owner.owns(there)) {
                self.children.add(&ours);
            }
            self.children.with(owner, |family| {
                family.doubted.remove(&name);
                // The application may have existed for a while, and may have left pods.
                family.is_searched = false;
            });
        }
        let is_old = |child: &&Child| now.duration_since(child.created).unsigned_abs() > CONFIRMED_AFTER;
        let unconfirmed: Vec<_> = self.children.with(owner, |family| {
            let unconfirmed = family.unconfirmed.iter().filter_map(|name| family.children.get(name));
            unconfirmed.filter(is_old).map(|child| child.name.clone()).collect()
        });
        for name in unconfirmed {
            let found = calls::metadata(&applications, &name).await;
            if found.map_err(Error::api("GET of an application"))?.is_none() {
                self.children.remove(namespace, &name);
            }
        }
        Ok(())
    }

    /// Whether pods still run of applications of this schedule that do not exist any more.
    async fn has_pods(
        &self,
        schedule: &ScheduledSparkApplication,
        children: &[Child],
    ) -> Result<bool, Error> {
        let (namespace, owner) = (schedule.namespace().unwrap_or_default(), Owner::of(schedule));
        let lost = self.children.with(&owner, |family| family.is_searched.then(|| family.lost.clone()));
        match &lost {
            // All deleted applications had ended before, and an application that has ended has no running driver.
            Some(lost) if lost.is_empty() => return Ok(false),
            Some(lost) if lost.iter().any(|name| self.cluster.pods.has_live(&namespace, name)) => {
                return Ok(true);
            }
            // Only the API server can confirm that no pods exist: a cache may be late.
            _ => {}
        }
        let pods = Api::<Pod>::namespaced(self.cluster.client.clone(), &namespace);
        let name = schedule.name_any();
        // The schedule's own labels take precedence over the schedule's name.
        let name = schedule.labels().get(label::SCHEDULED_APP_NAME).unwrap_or(&name);
        let live = ListParams::default()
            .labels(&format!("{}={name},{}=true", label::SCHEDULED_APP_NAME, label::LAUNCHED_BY))
            .fields("status.phase!=Succeeded,status.phase!=Failed");
        let is_of_one_that_is_there =
            |application: &String| children.iter().any(|child| child.name == *application);
        let mut has_pods = false;
        let listed = calls::list_metadata(&pods, &self.cluster.lists, live, |pod| {
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
        let namespace = schedule.namespace().unwrap_or_default();
        let applications = Api::<SparkApplication>::namespaced(self.cluster.client.clone(), &namespace);
        match action {
            Act::Start(application) => {
                let (name, owner) = (application.name_any(), Owner::of(schedule));
                self.children.with(&owner, |family| family.expected.insert(name.clone()));
                let made: kube::Result<WatchedApplication> =
                    calls::create(&applications, &*application, &PostParams::default()).await;
                if let Ok(made) = &made {
                    self.children.add(made);
                }
                // Only after `add`, because the watch may report the application in between.
                self.children.with(&owner, |family| family.expected.remove(&name));
                match made {
                    Ok(_) => {
                        info!(application = name, "started");
                        Ok(())
                    }
                    Err(kube::Error::Api(status)) if status.is_already_exists() => {
                        let there =
                            Api::<WatchedApplication>::namespaced(self.cluster.client.clone(), &namespace);
                        let there = there.get_opt(&name).await;
                        let there = there.map_err(Error::api("GET of an application"))?;
                        match there.filter(|there| owner.owns(there)) {
                            // The answer to the creation of this application was lost.
                            Some(ours) => {
                                self.children.add(&ours);
                                Ok(())
                            }
                            // The watch delivers the application, if it still exists.
                            None => Err(Error::Conflict),
                        }
                    }
                    Err(error) => {
                        match &error {
                            kube::Error::Api(status) if (400..500).contains(&status.code) => {
                                let event = schedules::not_started(&name, &status.message);
                                self.cluster.events.send(schedule, &name, &event, now).await;
                            }
                            _ => {
                                self.children.with(&owner, |family| family.doubted.insert(name.clone()));
                            }
                        }
                        Err(Error::api("creation of an application")(error))
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
                Ok(())
            }
        }
    }

    /// Records which schedules exist, and queues those that the watch reports. Once the watch has listed all schedules,
    /// everything remembered of other schedules is forgotten: the watch does not report schedules that were deleted while
    /// no watch was running.
    fn take_note(&self, event: &watcher::Event<Watched>) {
        match event {
            watcher::Event::Init => self.memory.list_begins(),
            watcher::Event::InitDone => {
                let schedules = self.schedules.state();
                self.memory.list_ends(&schedules.iter().filter_map(|schedule| schedule.uid()).collect());
                self.children
                    .forget_others(schedules.iter().map(|schedule| Owner::of(&**schedule)).collect());
                self.queue.add_all(&self.schedules);
            }
            watcher::Event::Apply(schedule) => {
                self.children.begin(Owner::of(schedule));
                // Not for this process's own status write: the reconcile that wrote it has already acted on it. Listed
                // objects are queued all the same, because a write may have been undone before the list.
                if !self.memory.is_echo(schedule) {
                    self.queue.add(&ObjectRef::from_obj(schedule));
                }
            }
            // The cache has it once the list is complete.
            watcher::Event::InitApply(_) => {}
            watcher::Event::Delete(schedule) => self.queue.add(&ObjectRef::from_obj(schedule)),
        }
    }

    fn forget(&self, schedule: &impl ResourceExt) {
        self.children.forget(&Owner::of(schedule));
        self.memory.forget(&schedule.uid().unwrap_or_default());
    }
}
