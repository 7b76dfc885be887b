//! Drives applications: watches them, observes the facts, decides in `plan` what to do, acts, and records the result.
//!
//! A reconcile looks at one application as it is now; the reason for the call does not matter. Every failure is
//! retried, and every action can be repeated, so nothing has to be remembered across a crash.

mod application_metrics;
mod aside;
mod calls;
mod companions;
mod error;
mod events;
mod execute;
mod farewell;
mod leadership;
mod mount_failures;
mod namespaces;
mod native;
mod notes;
mod observe;
mod pods;
mod schedules;
mod slots;
mod status;
mod stopping;
mod submission_metrics;
mod submitter;
mod surroundings;
mod unreadable;
mod watch;
mod way;
mod workload;

use crate::{
    api::{Lenient, SparkApplication},
    plan::{Action as Act, Plan, Policy, lifecycle, namespaces::Namespaces, schedule},
};
pub use application_metrics::ApplicationMetrics;
use application_metrics::Caches;
use aside::Asides;
use calls::Metadata;
use companions::CompanionIndex;
use error::{Error, guarded};
use events::Events;
use farewell::Farewells;
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use kube::{
    Api, Client, ResourceExt,
    runtime::{
        Controller, WatchStreamExt,
        controller::{self, Action, Config},
        reflector::{self, ObjectRef},
        watcher,
    },
};
pub use leadership::Leadership;
use mount_failures::MountFailures;
use namespaces::OurNamespaces;
use notes::Notes;
use pods::PodIndex;
pub use schedules::ScheduleMetrics;
use schedules::{Children, Occasions};
use std::{sync::Arc, time::Duration};
pub use submission_metrics::SubmissionMetrics;
use submitter::Submitter;
pub use submitter::SubmitterSettings;
pub use surroundings::Surroundings;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::{Span, debug, field, info, instrument, warn};
pub use watch::ReadMetrics;
use workload::Outcome;
pub use workload::{Workload, Workloads};

/// An application as the watch delivers it. An application that cannot be decoded is an error of its own and does not
/// stop the others.
type Watched = Lenient<SparkApplication>;
/// Namespace and name of an application.
pub type ApplicationRef = ObjectRef<Watched>;

/// Returns the time by the API server's clock; none until the API server has reported its time.
pub type ServerTime = Arc<dyn Fn() -> Option<Timestamp> + Send + Sync>;

/// How many applications kube's controller takes up at once; most of them wait for their turn. It polls each of them
/// whenever anything happens, so thousands would cost more than their reconciles. It picks the others in no order.
const QUEUE: u16 = 256;
/// How soon to look again if the facts were stale. The watch usually delivers fresh facts sooner.
const FRESH_FACTS: Duration = Duration::from_secs(1);

/// What the controller gets from its process.
#[derive(Clone)]
pub struct Setup {
    pub client: Client,
    pub policy: Policy,
    pub schedule_policy: schedule::Policy,
    /// The namespaces in which applications are driven.
    pub namespaces: Namespaces,
    pub submitter: SubmitterSettings,
    /// The environment variables and configuration files that submissions use.
    pub surroundings: Surroundings,
    pub application_metrics: ApplicationMetrics,
    pub submission_metrics: SubmissionMetrics,
    pub schedule_metrics: ScheduleMetrics,
    pub read_metrics: ReadMetrics,
    /// The number of applications reconciled at once.
    pub concurrency: u16,
    /// The longest time that one watch request lasts, in seconds; the next request continues where it ended.
    pub watch_seconds: u32,
    /// Records which objects wait for a reconcile and which are being reconciled.
    pub workloads: Workloads,
    /// The name of the operator's pod, for events.
    pub instance: String,
    pub server_time: ServerTime,
}

struct Context {
    client: Client,
    policy: Policy,
    namespaces: Arc<OurNamespaces>,
    pods: Arc<PodIndex>,
    mount_failures: Arc<MountFailures>,
    asides: Asides,
    submitter: Submitter,
    surroundings: Surroundings,
    metrics: ApplicationMetrics,
    events: Events,
    workload: Workload,
    notes: Notes,
    /// The cache of applications, fed by the watch.
    applications: reflector::Store<Watched>,
    /// The permits to reconcile, first come, first served. The limit of kube's controller picks any application that
    /// waits, so under a load that does not end some applications would wait for ever.
    turns: Semaphore,
    server_time: ServerTime,
    stop: CancellationToken,
}

/// Runs the controller until `stop`. `synced` is called once, when the caches are complete.
pub async fn run(setup: Setup, synced: impl FnOnce(), stop: CancellationToken) {
    let Setup {
        client,
        policy,
        schedule_policy,
        namespaces,
        submitter,
        surroundings,
        application_metrics,
        submission_metrics,
        schedule_metrics,
        read_metrics,
        concurrency,
        watch_seconds,
        workloads,
        instance,
        server_time,
    } = setup;
    workloads.forget();
    let workload = workloads.applications;
    let (ended, submissions_ended) = mpsc::unbounded_channel();
    let submitter = Submitter::new(client.clone(), submitter, submission_metrics, ended);
    let (reports, reported) = unreadable::reports();
    let reporting = read_metrics.reporting_to(reports);
    let pods = Arc::new(PodIndex::default());
    let (dirty, pods_changed) = mpsc::unbounded_channel();
    let follow =
        Arc::clone(&pods).follow(client.clone(), watch_seconds, &reporting).for_each(move |application| {
            // The receiver is gone only when the process is about to end.
            dirty.send(application).ok();
            std::future::ready(())
        });
    let companions = Arc::new(CompanionIndex::default());
    let (beside, companions_changed) = mpsc::unbounded_channel();
    let (aside_ended, mounts) = (beside.clone(), beside.clone());
    let follow_companions =
        Arc::clone(&companions).follow(&client, watch_seconds, &reporting).for_each(move |application| {
            beside.send(application).ok();
            std::future::ready(())
        });
    let mount_failures = Arc::new(MountFailures::default());
    let follow_mounts =
        mount_failures.follow(client.clone(), watch_seconds, &read_metrics, move |application| {
            mounts.send(application).ok();
        });
    let namespaces = Arc::new(OurNamespaces::new(namespaces));
    let (change, namespaces_changed) = mpsc::unbounded_channel();
    let (change_of_schedules, schedules_moved) = mpsc::unbounded_channel();
    let follow_namespaces = Arc::clone(&namespaces)
        .follow(client.clone(), watch_seconds, &read_metrics)
        .for_each(move |namespace| {
            change_of_schedules.send(namespace.clone()).ok();
            change.send(namespace).ok();
            std::future::ready(())
        });
    let poking = workload.clone();
    let poked = move |application: &ApplicationRef| {
        poking.waits(application.namespace.as_deref().unwrap_or_default(), &application.name);
    };
    let (reader, writer) = reflector::store();
    let (made, schedules_dirty) = mpsc::unbounded_channel();
    let children = Arc::new(Children::new(made));
    let events = Events::new(client.clone(), instance);
    let (ours, telling) = (Arc::clone(&namespaces), events.clone());
    let report = async move {
        // Until then, a namespace that is chosen by its labels does not count as chosen.
        ours.synced().await;
        unreadable::send_events(reported, &telling, |namespace| ours.include(namespace)).await;
    };
    let stop_asides = stop.child_token();
    // Stops the background work also when this future is dropped because another process leads now.
    let _stopped = stop_asides.clone().drop_guard();
    let asides = Asides::new(
        client.clone(),
        events.clone(),
        Arc::clone(&companions),
        aside_ended,
        stop_asides.clone(),
    );
    let of_schedules = Arc::new(schedules::Context {
        client: client.clone(),
        policy: schedule_policy,
        namespaces: Arc::clone(&namespaces),
        children: Arc::clone(&children),
        pods: Arc::clone(&pods),
        applications: reader.clone(),
        events: events.clone(),
        notes: Notes::default(),
        metrics: schedule_metrics,
        reads: read_metrics.clone(),
        workload: workloads.schedules,
    });
    let context = Arc::new(Context {
        client: client.clone(),
        policy,
        namespaces: Arc::clone(&namespaces),
        pods: Arc::clone(&pods),
        mount_failures: Arc::clone(&mount_failures),
        asides,
        submitter,
        surroundings,
        metrics: application_metrics.clone(),
        events,
        workload: workload.clone(),
        notes: Notes::default(),
        applications: reader.clone(),
        turns: Semaphore::new(usize::from(concurrency)),
        server_time,
        stop: stop.clone(),
    });

    let (ready, known, listed) = (reader.clone(), reader.clone(), reader.clone());
    let caches =
        Caches { applications: reader.clone(), pods: Arc::clone(&pods), namespaces: Arc::clone(&namespaces) };
    let moved = unbounded(namespaces_changed).flat_map(move |namespace| {
        let applications = known.state().into_iter().map(|application| ObjectRef::from_obj(&*application));
        let inside = applications.filter(|application| application.namespace.as_ref() == Some(&namespace));
        futures::stream::iter(inside.collect::<Vec<_>>())
    });
    let farewells = Arc::new(Farewells::default());
    let (watching, deleted, listing) = (Arc::clone(&context), Arc::clone(&farewells), Arc::clone(&context));
    let applications =
        watch::events(Api::<Watched>::all(client), watch::config(watch_seconds), &read_metrics)
            .inspect_ok(move |event| children.apply(event))
            .inspect(move |event| match event {
                Ok(watcher::Event::Apply(application) | watcher::Event::InitApply(application)) => {
                    watching
                        .workload
                        .waits(&application.namespace().unwrap_or_default(), &application.name_any());
                }
                Ok(watcher::Event::Delete(application)) => {
                    watching.forget(&application.uid().unwrap_or_default());
                    deleted.waits(&application.namespace().unwrap_or_default(), &application.name_any());
                }
                Ok(watcher::Event::Init | watcher::Event::InitDone) => {}
                Err(error) => warn!(%error, "the watch of applications is retried"),
            })
            .reflect(writer)
            // After `reflect`, so that the cache contains what the list contains when `take_note` reads the cache.
            .inspect_ok(move |event| listing.take_note(event))
            .applied_objects();
    let reconcile_all = async {
        // Until the caches are complete, a pod that is not in the cache may still exist, and its application would be
        // treated as an application that has lost the pod.
        let known = async { futures::join!(pods.synced(), companions.synced(), namespaces.synced()) };
        if stop.run_until_cancelled(known).await.is_none() {
            return;
        }
        let controller = Controller::for_stream(applications, reader)
            .with_config(Config::default().concurrency(QUEUE.max(concurrency)))
            .reconcile_on(unbounded(pods_changed).inspect(poked.clone()))
            .reconcile_on(unbounded(companions_changed).inspect(poked.clone()))
            .reconcile_on(moved.inspect(poked.clone()))
            .reconcile_on(unbounded(submissions_ended).inspect(poked))
            .graceful_shutdown_on(stop.clone().cancelled_owned())
            .run(take_turn, again, Arc::clone(&context))
            .for_each(|ended| {
                if let Err(controller::Error::ObjectNotFound(application)) = ended {
                    let namespace = application.namespace.as_deref().unwrap_or_default();
                    workload.is_gone(namespace, &application.name);
                    farewells.waits(namespace, &application.name);
                }
                std::future::ready(())
            });
        let follow_schedules = async {
            // The writer lives in the controller's stream, so this wait fails only when the controller has ended. Until
            // the wait succeeds, an application that is not in the index may still exist.
            if ready.wait_until_ready().await.is_ok() {
                let _shown = application_metrics.show(caches);
                synced();
                let occasions = Occasions { children: schedules_dirty, namespaces: schedules_moved };
                // In a task of its own, so that schedules do not wait while thousands of applications are reconciled.
                let run = schedules::run(of_schedules, occasions, watch_seconds, stop.clone());
                AbortOnDropHandle::new(tokio::spawn(run)).await.expect("it neither panics nor is aborted");
            }
        };
        futures::join!(stopping::until_stopped(controller, listed, stop.clone()), follow_schedules);
    };
    tokio::select! {
        () = reconcile_all => {}
        () = follow => {}
        () = follow_companions => {}
        () = follow_mounts => {}
        () = follow_namespaces => {}
        () = report => {}
        () = farewells.say(&context) => {}
    }
    stop_asides.cancel();
    context.asides.stopped().await;
    context.submitter.stop().await;
}

fn unbounded<T: Send + 'static>(
    receiver: mpsc::UnboundedReceiver<T>,
) -> impl futures::Stream<Item = T> + Send {
    futures::stream::unfold(receiver, async |mut receiver| receiver.recv().await.map(|item| (item, receiver)))
}

/// Waits for a permit, then reconciles the application as the cache contains it by then.
async fn take_turn(watched: Arc<Watched>, context: Arc<Context>) -> Result<Action, Error> {
    let Some(Ok(_turn)) = context.stop.run_until_cancelled(context.turns.acquire()).await else {
        return Ok(Action::await_change());
    };
    let application = ObjectRef::from_obj(&*watched);
    let Some(watched) = context.applications.get(&application) else {
        let namespace = application.namespace.as_deref().unwrap_or_default();
        context.workload.is_gone(namespace, &application.name);
        context.bid_farewell(namespace, &application.name).await;
        return Ok(Action::await_change());
    };
    // Boxed because the future of `reconcile` is large, and thousands of futures of `take_turn` may wait.
    Box::pin(reconcile(watched, Arc::clone(&context))).await
}

#[instrument(skip_all, fields(
    kind = "SparkApplication",
    namespace = watched.namespace(),
    name = field::Empty,
    state = field::Empty,
    submission_id = field::Empty,
))]
async fn reconcile(watched: Arc<Watched>, context: Arc<Context>) -> Result<Action, Error> {
    let now = now();
    // Not in the attribute above: the JSON log layer overwrites a `name` that is set there with the span's own.
    Span::current().record("name", watched.name_any());
    let work = context.workload.begin(&watched.namespace().unwrap_or_default(), &watched.name_any());
    let look = async {
        match &watched.0 {
            _ if !context.namespaces.include(&watched.namespace().unwrap_or_default()) => {
                context.leave(&watched).await.map(|()| None)
            }
            Ok(application) => context.reconcile(application, now).await,
            Err(invalid) => {
                context.events.unreadable(events::reference(&*watched), &invalid.error, now).await;
                Ok(None)
            }
        }
    };
    let wake = guarded(&*watched, &context.workload, &context.events, now, look).await;
    work.end(Outcome::of(&wake));
    wake.map(|wake| wake.map_or_else(Action::await_change, Action::requeue))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one clock of the controller: once a reconcile, at its top, and once a report"
)]
fn now() -> Timestamp {
    Timestamp::now()
}

fn again(watched: Arc<Watched>, error: &Error, context: Arc<Context>) -> Action {
    context.notes.again(&*watched, error)
}

impl Context {
    /// Brings one application a step further. Returns when to look again if nothing happens before.
    async fn reconcile(
        &self,
        application: &SparkApplication,
        now: Timestamp,
    ) -> Result<Option<Duration>, Error> {
        let uid = application.uid().unwrap_or_default();
        let state = application.state();
        Span::current().record("state", state.as_str());
        if application.metadata.deletion_timestamp.is_some() {
            // Kubernetes deletes the pods too, because the application is their owner.
            self.forget(&uid);
            self.bid_farewell(&application.namespace().unwrap_or_default(), &application.name_any()).await;
            return Ok(None);
        }
        if self.notes.have_newer(application) {
            debug!("the cache has not seen our last write yet");
            return Ok(Some(FRESH_FACTS));
        }

        self.metrics.seen(application, now, self.policy.executor_limits);
        let seen = observe::observe(self, application, now).await?;
        self.notes.driver_ended(&uid, lifecycle::ended_driver(application, &seen.driver));
        let Plan { actions, status, events, aside, wake } =
            lifecycle::next(application, &seen, now, &self.policy);
        Span::current().record("submission_id", status.submission_id.as_deref());
        if actions.iter().any(|action| matches!(action, Act::Submit(_)))
            && !self.is_current(application).await?
        {
            // A submission based on a stale copy is the only remaining way to run an application twice.
            return Ok(Some(FRESH_FACTS));
        }
        for action in actions {
            execute::execute(self, application, action).await?;
        }
        if application.status.clone().unwrap_or_default() != status {
            let written = status::write(&self.client, application, &application.status, &status).await;
            if written.as_ref().is_err_and(Error::is_unanswered) {
                self.metrics.maybe_written(application, status.clone());
            }
            let written = written?;
            self.metrics.written(application, &status, now, self.policy.executor_limits);
            let to = status.application_state.state;
            if to != state {
                info!(from = state.as_str(), to = to.as_str(), "state changed");
            }
            self.notes.with(&uid, |note| {
                note.wrote(&written);
                note.recorded = Some(now);
            });
        }
        // With the generation, because a run may be suspended and resumed more than once before it begins.
        let generation = application.metadata.generation.unwrap_or_default();
        let run = status.submission_id.unwrap_or_default();
        let occasion = format!("{run}/{generation}");
        for event in &events {
            self.events.send(application, &occasion, event, now).await;
        }
        self.asides.start(application, &run, aside, now);
        self.notes.with(&uid, |note| note.failures = 0);
        Ok(wake)
    }

    /// Returns the application's metadata as the API server has it now; none if the application does not exist.
    async fn live(&self, namespace: &str, name: &str) -> Result<Option<Metadata<SparkApplication>>, Error> {
        let applications = Api::<SparkApplication>::namespaced(self.client.clone(), namespace);
        calls::metadata(&applications, name).await.map_err(Error::api("GET of the application"))
    }

    /// Whether the API server has the same version of the application as this copy.
    async fn is_current(&self, application: &SparkApplication) -> Result<bool, Error> {
        let namespace = application.namespace().unwrap_or_default();
        let live = self.live(&namespace, &application.name_any()).await?;
        Ok(live.is_some_and(|live| live.resource_version() == application.resource_version()))
    }

    /// Forgets what is remembered of an application that is gone, or about to be.
    fn forget(&self, uid: &str) {
        self.submitter.forget(uid);
        self.metrics.forget(uid);
        self.asides.forget(uid);
        self.notes.forget(uid);
    }

    /// Forgets, once the watch has listed all applications, what is remembered of all others: the watch does not report
    /// applications that were deleted while no watch was running.
    fn take_note<K>(&self, event: &watcher::Event<K>) {
        match event {
            watcher::Event::Init => self.notes.list_begins(),
            watcher::Event::InitDone => {
                let applications = self.applications.state();
                let uids = applications.iter().filter_map(|application| application.uid()).collect();
                let names = applications
                    .iter()
                    .map(|application| (application.namespace().unwrap_or_default(), application.name_any()))
                    .collect();
                self.submitter.forget_others(&uids);
                self.metrics.forget_others(&uids);
                self.asides.forget_others(&uids);
                self.notes.list_ends(&uids);
                self.pods.forget_others(&names);
            }
            watcher::Event::InitApply(_) | watcher::Event::Apply(_) | watcher::Event::Delete(_) => {}
        }
    }
}
