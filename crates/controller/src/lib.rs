//! Drives applications: watches them, observes the facts, decides in `plan` what to do, acts, and records the result.
//!
//! A reconcile depends only on the present state of one application, not on the event that has caused it. Every failure
//! is retried, and every action can be repeated, so nothing has to be remembered across a crash.

mod application_index;
mod application_metrics;
mod auxiliary_index;
mod auxiliary_objects;
mod calls;
mod claim;
mod claim_metrics;
mod deletion;
mod error;
mod events;
mod exchange_turns;
mod execute;
mod kept;
mod kube_runtime_workaround;
mod mount_failures;
mod namespace_claims;
mod namespace_lease;
mod namespaced_watches;
mod namespaces;
mod objects;
mod observe;
mod pod_groups;
mod pods;
mod reconcile;
mod reconcile_memory;
mod schedules;
mod slots;
mod status;
mod submission_environment;
mod submission_metrics;
mod submitter;
mod unreadable;
mod watch;
mod webhook_probe;
mod workload;

use api::SparkApplication;
pub use application_metrics::ApplicationMetrics;
use application_metrics::Caches;
use auxiliary_index::AuxiliaryIndex;
use auxiliary_objects::AuxiliaryWorker;
pub use claim_metrics::ClaimMetrics;
use deletion::Deletions;
use error::Error;
use events::Events;
use exchange_turns::ExchangeTurns;
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use kept::{Kept, KeptApplication};
use kube::{
    Client, ResourceExt,
    runtime::{
        Controller, WatchStreamExt,
        controller::{self, Config},
        reflector::{self, ObjectRef},
        watcher,
    },
};
use mount_failures::MountFailures;
use namespace_claims::Claims;
pub use namespace_lease::NAMESPACE_LEASE;
use namespaces::OurNamespaces;
use plan::{Policy, namespaces::Namespaces, schedule};
use pods::PodIndex;
use reconcile::{again, take_turn};
use reconcile_memory::ReconcileMemory;
pub use schedules::ScheduleMetrics;
use schedules::{Children, Occasions};
use std::{sync::Arc, time::Duration};
pub use submission_environment::{SubmissionEnvironment, Unreadable};
pub use submission_metrics::SubmissionMetrics;
use submitter::Submitter;
pub use submitter::SubmitterSettings;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::warn;
pub use watch::Watching;
pub use workload::{Workload, Workloads};

/// An application as the watch delivers it. An application that cannot be decoded is an error of its own and does not
/// stop the others.
type Watched = Kept<SparkApplication, KeptApplication>;
/// Namespace and name of an application.
pub type ApplicationRef = ObjectRef<Watched>;

/// Returns the time by the API server's clock; none until the API server has reported its time.
pub type ServerTime = Arc<dyn Fn() -> Option<Timestamp> + Send + Sync>;

/// How many reconciles kube's controller starts at once; most of them wait for a permit in `take_turn`. The controller
/// polls each of them whenever anything happens, so thousands would cost more than the work itself. Among applications
/// whose reconcile has not started, the controller picks in no order.
const QUEUE: u16 = 256;
/// The pause before the next reconcile if the cached facts were stale. The watch usually delivers fresh facts sooner.
const FRESH_FACTS: Duration = Duration::from_secs(1);

/// The settings, the client and the metrics that the controller uses.
#[derive(Clone)]
pub struct Setup {
    pub client: Client,
    pub policy: Policy,
    pub schedule_policy: schedule::Policy,
    /// The namespaces in which applications are driven.
    pub namespaces: Namespaces,
    /// The holder in the Leases that claim namespaces: `<namespace of the operator>/<installation>`.
    pub identity: String,
    pub claim_metrics: ClaimMetrics,
    pub submitter: SubmitterSettings,
    /// The environment variables and configuration files that submissions use.
    pub submission_environment: SubmissionEnvironment,
    pub application_metrics: ApplicationMetrics,
    pub submission_metrics: SubmissionMetrics,
    pub schedule_metrics: ScheduleMetrics,
    pub watching: Watching,
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
    auxiliary_worker: AuxiliaryWorker,
    submitter: Submitter,
    submission_environment: SubmissionEnvironment,
    metrics: ApplicationMetrics,
    events: Events,
    workload: Workload,
    memory: ReconcileMemory,
    exchange_turns: ExchangeTurns,
    /// The cache of applications, fed by the watch.
    applications: reflector::Store<Watched>,
    /// The permits to reconcile, first come, first served. kube's controller alone would pick any of the waiting
    /// applications, so under constant load some applications would wait for ever.
    turns: Semaphore,
    server_time: ServerTime,
    stop: CancellationToken,
}

/// Runs the controller until `stop` is cancelled. `synced` is called once, when the caches are complete.
pub async fn run(setup: Setup, synced: impl FnOnce(), stop: CancellationToken) {
    let Setup {
        client,
        policy,
        schedule_policy,
        namespaces,
        identity,
        claim_metrics,
        submitter,
        submission_environment,
        application_metrics,
        submission_metrics,
        schedule_metrics,
        watching,
        concurrency,
        watch_seconds,
        workloads,
        instance,
        server_time,
    } = setup;
    workloads.forget();
    let workload = workloads.applications;
    let claims = Claims::new(client.clone(), identity, claim_metrics);
    let namespaces = Arc::new(OurNamespaces::new(namespaces, claims));
    let chosen = namespaces.chosen();
    let (ended, submissions_ended) = mpsc::unbounded_channel();
    let submitter = Submitter::new(client.clone(), submitter, submission_metrics, ended);
    let (reports, reported) = unreadable::reports();
    let reporting = watching.reporting_to(reports);
    let pods = Arc::new(PodIndex::default());
    let (pod_change, pods_changed) = mpsc::unbounded_channel();
    let follow_pods =
        Arc::clone(&pods).follow(&client, chosen, watch_seconds, &reporting).for_each(move |application| {
            // The receiver is gone only when the process is about to end.
            pod_change.send(application).ok();
            std::future::ready(())
        });
    let auxiliary_index = Arc::new(AuxiliaryIndex::new(policy.batch_schedulers.as_ref()));
    let (auxiliary_change, auxiliary_changed) = mpsc::unbounded_channel();
    let (auxiliary_ended, mount_failed) = (auxiliary_change.clone(), auxiliary_change.clone());
    let follow_auxiliary =
        auxiliary_index.follow(&client, chosen, watch_seconds, &reporting).for_each(move |application| {
            auxiliary_change.send(application).ok();
            std::future::ready(())
        });
    let mount_failures = Arc::new(MountFailures::default());
    let follow_mounts =
        mount_failures.follow(&client, chosen, watch_seconds, &watching, move |application| {
            mount_failed.send(application).ok();
        });
    let (namespace_change, namespaces_changed) = mpsc::unbounded_channel();
    let (schedule_change, namespaces_of_schedules_changed) = mpsc::unbounded_channel();
    let look_again_in = move |namespace: String| {
        schedule_change.send(namespace.clone()).ok();
        namespace_change.send(namespace).ok();
    };
    let follow_namespaces = Arc::clone(&namespaces)
        .follow(&client, watch_seconds, &watching)
        .for_each(async |namespace| look_again_in(namespace));
    let waiting = workload.clone();
    let mark_waiting = move |application: &ApplicationRef| {
        waiting.waits(application.namespace.as_deref().unwrap_or_default(), &application.name);
    };
    let (reader, writer) = reflector::store();
    let (child_change, children_changed) = mpsc::unbounded_channel();
    let children = Arc::new(Children::new(child_change));
    let events = Events::new(client.clone(), instance);
    let (ours, report_events, claim_events) = (Arc::clone(&namespaces), events.clone(), events.clone());
    let keep_claims = namespaces.keep_claims(&look_again_in, &claim_events);
    let report = async move {
        // Before `synced` returns, a namespace that is chosen by its labels does not count as chosen.
        ours.synced().await;
        unreadable::send_events(reported, &report_events, |namespace| ours.include(namespace)).await;
    };
    let stop_background = stop.child_token();
    // Stops the background work also when this future is dropped because another process leads now.
    let _stopped = stop_background.clone().drop_guard();
    let auxiliary_worker = AuxiliaryWorker::new(
        client.clone(),
        events.clone(),
        Arc::clone(&auxiliary_index),
        auxiliary_ended,
        stop_background.clone(),
    );
    let of_schedules = Arc::new(schedules::Context {
        client: client.clone(),
        policy: schedule_policy,
        namespaces: Arc::clone(&namespaces),
        children: Arc::clone(&children),
        pods: Arc::clone(&pods),
        applications: reader.clone(),
        events: events.clone(),
        memory: ReconcileMemory::default(),
        metrics: schedule_metrics,
        watching: watching.clone(),
        workload: workloads.schedules,
    });
    let context = Arc::new(Context {
        client: client.clone(),
        policy,
        namespaces: Arc::clone(&namespaces),
        pods: Arc::clone(&pods),
        mount_failures: Arc::clone(&mount_failures),
        auxiliary_worker,
        submitter,
        submission_environment,
        metrics: application_metrics.clone(),
        events,
        workload: workload.clone(),
        memory: ReconcileMemory::default(),
        exchange_turns: ExchangeTurns::default(),
        applications: reader.clone(),
        turns: Semaphore::new(usize::from(concurrency)),
        server_time,
        stop: stop.clone(),
    });

    let (ready, known, listed) = (reader.clone(), reader.clone(), reader.clone());
    let caches =
        Caches { applications: reader.clone(), pods: Arc::clone(&pods), namespaces: Arc::clone(&namespaces) };
    let in_changed_namespaces = unbounded(namespaces_changed).flat_map(move |namespace| {
        let applications = known.state().into_iter().map(|application| ObjectRef::from_obj(&*application));
        let inside = applications.filter(|application| application.namespace.as_ref() == Some(&namespace));
        futures::stream::iter(inside.collect::<Vec<_>>())
    });
    let deletions = Arc::new(Deletions::default());
    let (changed, deleted, listing) = (Arc::clone(&context), Arc::clone(&deletions), Arc::clone(&context));
    let applications = watch::events(&client, chosen, watch::config(watch_seconds), &watching)
        .inspect_ok(move |event| children.apply(event))
        .inspect(move |event| match event {
            Ok(watcher::Event::Apply(application) | watcher::Event::InitApply(application)) => {
                changed.workload.waits(&application.namespace().unwrap_or_default(), &application.name_any());
            }
            Ok(watcher::Event::Delete(application)) => {
                changed.forget(&application.uid().unwrap_or_default());
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
        let known = async { futures::join!(pods.synced(), auxiliary_index.synced(), namespaces.synced()) };
        if stop.run_until_cancelled(known).await.is_none() {
            return;
        }
        let controller = Controller::for_stream(applications, reader)
            .with_config(Config::default().concurrency(QUEUE.max(concurrency)))
            .reconcile_on(unbounded(pods_changed).inspect(mark_waiting.clone()))
            .reconcile_on(unbounded(auxiliary_changed).inspect(mark_waiting.clone()))
            .reconcile_on(in_changed_namespaces.inspect(mark_waiting.clone()))
            .reconcile_on(unbounded(submissions_ended).inspect(mark_waiting))
            .graceful_shutdown_on(stop.clone().cancelled_owned())
            .run(take_turn, again, Arc::clone(&context))
            .for_each(|ended| {
                if let Err(controller::Error::ObjectNotFound(application)) = ended {
                    let namespace = application.namespace.as_deref().unwrap_or_default();
                    workload.remove(namespace, &application.name);
                    deletions.waits(namespace, &application.name);
                }
                std::future::ready(())
            });
        let follow_schedules = async {
            // The writer lives in the controller's stream, so this wait fails only when the controller has ended. Until
            // the wait succeeds, an application that is not in the index may still exist.
            if ready.wait_until_ready().await.is_ok() {
                let _shown = application_metrics.show(caches);
                synced();
                let occasions =
                    Occasions { children: children_changed, namespaces: namespaces_of_schedules_changed };
                // Schedules run in a task of their own, so that they do not wait while thousands of applications are
                // reconciled.
                let run = schedules::run(of_schedules, occasions, watch_seconds, stop.clone());
                AbortOnDropHandle::new(tokio::spawn(run)).await.expect("it neither panics nor is aborted");
            }
        };
        futures::join!(
            kube_runtime_workaround::until_stopped(controller, listed, stop.clone()),
            follow_schedules
        );
    };
    tokio::select! {
        () = reconcile_all => {}
        () = follow_pods => {}
        () = follow_auxiliary => {}
        () = follow_mounts => {}
        () = follow_namespaces => {}
        () = keep_claims => {}
        () = report => {}
        () = deletions.say(&context) => {}
    }
    stop_background.cancel();
    context.auxiliary_worker.stopped().await;
    context.submitter.stop().await;
}

fn unbounded<T: Send + 'static>(
    receiver: mpsc::UnboundedReceiver<T>,
) -> impl futures::Stream<Item = T> + Send {
    futures::stream::unfold(receiver, async |mut receiver| receiver.recv().await.map(|item| (item, receiver)))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one clock of the controller: once a reconcile, at its top, and once a report"
)]
fn now() -> Timestamp {
    Timestamp::now()
}
