//! Drives applications: watches them, observes the facts, decides in `plan` what to do, acts, and records the result.
//!
//! A reconcile depends only on the present state of one application, not on the event that has caused it. Every failure
//! is retried, and every action can be repeated, so nothing has to be remembered across a crash.

mod application_index;
mod application_metrics;
mod auxiliary_index;
mod auxiliary_objects;
mod calls;
mod deletion;
mod error;
mod events;
mod exchange_turns;
mod execute;
mod executor_trial;
mod kept;
mod mount_failures;
mod namespaced_watches;
mod namespaces;
mod objects;
mod observe;
mod pod_groups;
mod pods;
mod queue;
mod reconcile;
mod reconcile_memory;
mod schedules;
mod slots;
mod status;
mod submission_environment;
mod submission_metrics;
mod submission_room;
mod submitter;
mod unreadable;
mod watch;
mod webhook_probe;
mod workload;

use api::SparkApplication;
use application_index::ApplicationKey;
pub use application_metrics::ApplicationMetrics;
use application_metrics::Caches;
use auxiliary_index::AuxiliaryIndex;
use auxiliary_objects::AuxiliaryWorker;
use error::Error;
use events::Events;
use exchange_turns::ExchangeTurns;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use kept::{Kept, KeptApplication, Reader};
use kube::{
    Client, Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        reflector::{self, ObjectRef},
        watcher,
    },
};
use mount_failures::MountFailures;
use namespaces::OurNamespaces;
use parking_lot::Mutex;
use plan::{Policy, schedule};
use pods::PodIndex;
use queue::Queue;
use reconcile::look;
use reconcile_memory::ReconcileMemory;
use schedules::Children;
pub use schedules::ScheduleMetrics;
use std::{collections::HashSet, sync::Arc, time::Duration};
pub use submission_environment::{SubmissionEnvironment, Unreadable};
pub use submission_metrics::SubmissionMetrics;
use submitter::Submitter;
pub use submitter::SubmitterSettings;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::warn;
use unreadable::UnreadableObjects;
use watch::Readable;
pub use watch::Watching;
pub use workload::{Workload, Workloads};

/// An application as the watch delivers it. An application that cannot be decoded is an error of its own and does not
/// stop the others.
type Watched = Kept<SparkApplication, KeptApplication>;
/// Namespace and name of an application.
pub type ApplicationRef = ObjectRef<Watched>;

/// Returns the time by the API server's clock; none until the API server has reported its time.
pub type ServerTime = Arc<dyn Fn() -> Option<Timestamp> + Send + Sync>;

/// The pause before the next reconcile if the cached facts were stale. The watch usually delivers fresh facts sooner.
const FRESH_FACTS: Duration = Duration::from_secs(1);

/// The settings, the client and the metrics that the controller uses.
#[derive(Clone)]
pub struct Setup {
    pub client: Client,
    pub policy: Policy,
    pub schedule_policy: schedule::Policy,
    pub submitter: SubmitterSettings,
    /// The environment variables and configuration files that submissions use.
    pub submission_environment: SubmissionEnvironment,
    pub application_metrics: ApplicationMetrics,
    pub submission_metrics: SubmissionMetrics,
    pub schedule_metrics: ScheduleMetrics,
    pub watching: Watching,
    /// Records which objects wait for a reconcile and which are being reconciled, and limits how many are at once.
    pub workloads: Workloads,
    /// The name of the operator's pod, for events.
    pub instance: String,
    pub server_time: ServerTime,
}

struct Context {
    client: Client,
    reader: Reader,
    policy: Policy,
    namespaces: Arc<OurNamespaces>,
    pods: Arc<PodIndex>,
    mount_failures: MountFailures,
    auxiliary_worker: AuxiliaryWorker,
    submitter: Submitter,
    submission_environment: SubmissionEnvironment,
    metrics: ApplicationMetrics,
    events: Events,
    memory: ReconcileMemory,
    exchange_turns: ExchangeTurns,
    /// The cache of applications, fed by the watch.
    applications: reflector::Store<Watched>,
    queue: Arc<Queue>,
    /// The applications that have been deleted, and whose pods have not been handled since.
    departed: Mutex<HashSet<ApplicationKey>>,
    server_time: ServerTime,
}

/// Runs the controller until `stop` is cancelled. `synced` is called once, when the caches are complete.
pub async fn run(setup: Setup, synced: impl FnOnce(), stop: CancellationToken) {
    let Setup {
        client,
        policy,
        schedule_policy,
        submitter,
        submission_environment,
        application_metrics,
        submission_metrics,
        schedule_metrics,
        watching,
        workloads,
        instance,
        server_time,
    } = setup;
    workloads.forget();
    let queue = Queue::new(workloads.applications);
    let schedules = Queue::new(workloads.schedules);
    let namespaces = Arc::new(OurNamespaces::new(watching.namespaces().clone()));
    let submitter = Submitter::new(client.clone(), submitter, submission_metrics, Arc::clone(&queue));
    let unreadable = Arc::new(UnreadableObjects::default());
    let reporting = watching.reporting_to(Arc::clone(&unreadable));
    let pods = Arc::new(PodIndex::default());
    let auxiliary_index = Arc::new(AuxiliaryIndex::new(policy.batch_schedulers.as_ref()));
    let changes = stream::select(Arc::clone(&pods).follow(&reporting), auxiliary_index.follow(&reporting));
    let follow_changes = changes.for_each(async |application| queue.add(&application));
    let (reader, writer) = reflector::store::<Watched>();
    let (schedule_reader, schedule_writer) = reflector::store();
    let look_again_in = |namespace: String| {
        queue.add_all_in(&namespace, &reader);
        schedules.add_all_in(&namespace, &schedule_reader);
    };
    let follow_namespaces =
        Arc::clone(&namespaces).follow(&watching).for_each(async |namespace| look_again_in(namespace));
    let children = Arc::new(Children::new(Arc::clone(&schedules)));
    let events = Events::new(client.clone(), instance);
    let (ours, report_events) = (Arc::clone(&namespaces), events.clone());
    let report = async move {
        // Before `synced` returns, a namespace that is chosen by its labels does not count as chosen.
        ours.synced().await;
        unreadable.send_events(&report_events, |namespace| ours.include(namespace)).await;
    };
    let stop_background = stop.child_token();
    // Stops the background work also when this future is dropped because another process leads now.
    let _stopped = stop_background.clone().drop_guard();
    let is_driven = {
        let (applications, namespaces) = (reader.clone(), Arc::clone(&namespaces));
        move |(namespace, name): &ApplicationKey, uid: &str| {
            let watched = applications.get(&ObjectRef::new(name).within(namespace));
            // One that is being deleted is not looked at any more, and asks for nothing.
            let is_it = |watched: Arc<Watched>| {
                watched.uid().as_deref() == Some(uid)
                    && watched.error().is_none()
                    && watched.meta().deletion_timestamp.is_none()
            };
            namespaces.include(namespace) && watched.is_some_and(is_it)
        }
    };
    let auxiliary_worker = AuxiliaryWorker::new(
        client.clone(),
        events.clone(),
        Arc::clone(&auxiliary_index),
        Arc::new(is_driven),
        Arc::clone(&queue),
        stop_background.clone(),
    );
    let object_reader = Reader::new(client.clone(), events.clone());
    let of_schedules = Arc::new(schedules::Context {
        client: client.clone(),
        reader: object_reader.clone(),
        policy: schedule_policy,
        namespaces: Arc::clone(&namespaces),
        children: Arc::clone(&children),
        pods: Arc::clone(&pods),
        applications: reader.clone(),
        events: events.clone(),
        memory: ReconcileMemory::default(),
        metrics: schedule_metrics,
        watching: watching.clone(),
        queue: Arc::clone(&schedules),
        schedules: schedule_reader.clone(),
    });
    let context = Arc::new(Context {
        client: client.clone(),
        reader: object_reader,
        policy,
        namespaces: Arc::clone(&namespaces),
        pods: Arc::clone(&pods),
        mount_failures: MountFailures::new(client.clone()),
        auxiliary_worker,
        submitter,
        submission_environment,
        metrics: application_metrics.clone(),
        events,
        memory: ReconcileMemory::default(),
        exchange_turns: ExchangeTurns::default(),
        applications: reader.clone(),
        queue: Arc::clone(&queue),
        departed: Mutex::default(),
        server_time,
    });

    let caches =
        Caches { applications: reader.clone(), pods: Arc::clone(&pods), namespaces: Arc::clone(&namespaces) };
    let (changed, listing, ready) = (Arc::clone(&context), Arc::clone(&context), reader.clone());
    let follow_applications = watching
        .events(None)
        .inspect_ok(move |event| children.apply(event))
        .inspect(move |event| match event {
            Ok(watcher::Event::Delete(application)) => changed.forget(&application.uid().unwrap_or_default()),
            Ok(_) => {}
            Err(error) => warn!(%error, "the watch of applications is retried"),
        })
        .reflect(writer)
        // After `reflect`, so that the cache contains what the watch has reported when `take_note` reads the cache.
        .for_each(async |event| event.map_or_else(|_| (), |event| listing.take_note(&event)));
    let reconcile_all = async {
        // Until the caches are complete, a pod or an application that is not in the cache may still exist, and its
        // application would be treated as one that has lost the pod. The writers live as long as this function.
        let known = async {
            futures::join!(
                pods.synced(),
                auxiliary_index.synced(),
                namespaces.synced(),
                ready.wait_until_ready()
            )
        };
        if stop.run_until_cancelled(known).await.is_none() {
            return;
        }
        let _shown = application_metrics.show(caches);
        synced();
        let working = Arc::clone(&context);
        let work = queue.work(&stop, move |namespace, name| look(Arc::clone(&working), namespace, name));
        // Schedules run in a task of their own, so that they do not wait while thousands of applications are
        // reconciled.
        let schedules = schedules::run(of_schedules, schedule_writer, stop.clone());
        let schedules = AbortOnDropHandle::new(tokio::spawn(schedules));
        let ((), ended) = futures::join!(work, schedules);
        ended.expect("it neither panics nor is aborted");
    };
    tokio::select! {
        () = reconcile_all => {}
        () = follow_applications => {}
        () = follow_changes => {}
        () = follow_namespaces => {}
        () = report => {}
    }
    stop_background.cancel();
    context.auxiliary_worker.stopped().await;
    context.submitter.stop().await;
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one clock of the controller: once a reconcile, at its top, and once a report"
)]
fn now() -> Timestamp {
    Timestamp::now()
}
