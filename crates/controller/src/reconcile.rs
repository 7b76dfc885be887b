//! Reconciles one application: the only place in which its facts, its plan and the effects of the plan meet.

use super::{
    ApplicationRef, Context, FRESH_FACTS, Watched,
    calls::{self, Calls, Metadata},
    error::{Error, guarded},
    execute::{self, Progress},
    now, observe,
    schedules::Children,
    status, submission_room,
};
use api::{SparkApplication, State};
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use kube::{
    Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        reflector::{ObjectRef, store::Writer},
        watcher,
    },
};
use plan::{Action as Act, Plan, lifecycle};
use std::{sync::Arc, time::Duration};
use tracing::{Span, debug, field, info, instrument, warn};

/// The pause before an application goes on with what did not fit into one turn: those that wait have theirs before.
const NEXT_TURN: Duration = Duration::from_millis(10);

/// Keeps the cache of applications and the index of schedules' `children`, and queues the applications that change; never
/// ends.
pub(super) async fn follow(context: &Context, children: &Children, writer: Writer<Watched>) {
    let applications = context.cluster.watching.events(&(), None);
    applications
        .inspect_ok(|event| children.apply(event))
        .inspect(|event| match event {
            Ok(watcher::Event::Delete(application)) => context.forget(&application.uid().unwrap_or_default()),
            Ok(_) => {}
            Err(error) => warn!(%error, "the watch of applications is retried"),
        })
        .reflect(writer)
        // After `reflect`, so that the cache contains what the watch has reported when `take_note` reads the cache.
        .for_each(async |event| event.map_or_else(|_| (), |event| context.take_note(&event)))
        .await;
}

/// Works on one application as the cache contains it, or as it is fetched if it is too large for that: reconciles it, or
/// handles the pods of one that is gone. Returns after which time to work on it again if nothing changes before; none to
/// wait for a change.
pub(super) async fn look(context: Arc<Context>, namespace: String, name: String) -> Option<Duration> {
    // In this order: what has departed has left the cache before.
    let has_departed = context.departed.lock().remove(&(namespace.clone(), name.clone()));
    let watched = context.cluster.applications.get(&ApplicationRef::new(&name).within(&namespace));
    if watched.is_none() {
        context.queue.workload.remove(&namespace, &name);
    }
    if has_departed || watched.is_none() {
        context.delete_or_release_pods(&namespace, &name).await;
    }
    let watched = watched?;
    reconcile(&watched, &context).await.unwrap_or_else(|error| Some(context.memory.again(&*watched, &error)))
}

#[instrument(skip_all, fields(
    kind = "SparkApplication",
    namespace = watched.namespace(),
    name = field::Empty,
    state = field::Empty,
    submission_id = field::Empty,
))]
async fn reconcile(watched: &Watched, context: &Context) -> Result<Option<Duration>, Error> {
    let now = now();
    // The name is not set in the attribute above, because the JSON log layer overwrites a field `name` that is set in
    // the attribute with the span's own name.
    Span::current().record("name", watched.name_any());
    let look = async {
        if !context.cluster.namespaces.include(&watched.namespace().unwrap_or_default()) {
            return context.leave(watched).await.map(|()| None);
        }
        if waits_for_room(watched, context) {
            return Ok(Some(submission_room::AGAIN));
        }
        let Some(whole) = context.cluster.reader.whole(watched, now).await? else { return Ok(None) };
        context.reconcile(&whole.object, now).await
    };
    guarded(watched, &context.queue.workload, &context.cluster.events, now, look).await
}

/// Whether a new application waits for room, so that it need not be fetched only to find that out.
fn waits_for_room(watched: &Watched, context: &Context) -> bool {
    watched.is_fetched()
        && watched.kept.state == State::New
        && watched.meta().deletion_timestamp.is_none()
        && context.submitter.submission(&watched.uid().unwrap_or_default()).is_none()
        && !context.submitter.has_room(watched)
}

impl Context {
    /// Brings one application a step further. Returns the time until the next reconcile if nothing changes before; none
    /// to wait for a change. "client" marks the steps that send requests to the API server.
    ///
    ///  1. An application that is being deleted: delete or release its pods, and forget it. (client)
    ///  2. Wait for the watch if the cache has not received this process's last write yet. (no client)
    ///  3. Count the application in the metrics. (no client)
    ///  4. Ask the plan which facts matter ([`lifecycle::questions`]) and collect them from the caches; ask the API
    ///     server only for a fact that a cache cannot know. (client)
    ///  5. Decide ([`lifecycle::next`]): actions, status, events, auxiliary objects, time to wait. What an extension
    ///     has to note is decided about one application at a time. (no client)
    ///  6. Before a submission, check that the cached copy of the application is current. (client)
    ///  7. Carry out the actions. Each can be repeated after a crash. What does not fit into this turn, and the steps
    ///     that follow, are left to the next turn. (client)
    ///  8. Write the status, after the actions, so that a crash between the two repeats an action that does no harm
    ///     instead of leaving one out. (client)
    ///  9. Remember the version that was written, for step 2, and update the metrics. (no client)
    /// 10. Send the events, after the status that they report. (client)
    /// 11. Start the background work on Services and Ingresses. (no client)
    /// 12. Forget what was noted of failures and of turns before. (no client)
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
            self.delete_or_release_pods(
                &application.namespace().unwrap_or_default(),
                &application.name_any(),
            )
            .await;
            return Ok(None);
        }
        if self.memory.have_newer(application) {
            debug!("the cache has not seen our last write yet");
            return Ok(Some(FRESH_FACTS));
        }

        self.metrics.seen(application, now, self.policy.executor_limits);
        let seen = observe::observe(self, application, now).await?;
        self.memory.driver_ended(&uid, lifecycle::ended_driver(application, &seen.driver));
        let Plan { actions, status, events, auxiliary, wake } =
            self.extension_memories.decide(&self.cluster.pods, application, seen, now, &self.policy);
        Span::current().record("submission_id", status.submission_id.as_deref());
        if actions.iter().any(|action| matches!(action, Act::Submit(_)))
            && !calls::is_current(&self.cluster.client, application, "GET of the application").await?
        {
            // A submission based on a stale copy is the only remaining way to run an application twice.
            return Ok(Some(FRESH_FACTS));
        }
        for action in actions {
            if execute::execute(self, application, action).await? == Progress::NextTurn {
                return Ok(Some(NEXT_TURN));
            }
        }
        if application.status.clone().unwrap_or_default() != status {
            let written =
                status::write(&self.cluster.client, application, &application.status, &status).await;
            if written.as_ref().is_err_and(Error::is_unanswered) {
                self.metrics.maybe_written(application, status.clone());
            }
            let written = written?;
            self.metrics.written(application, &status, now, self.policy.executor_limits);
            let to = status.application_state.state;
            if to != state {
                info!(from = state.as_str(), to = to.as_str(), "state changed");
            }
            self.memory.with(&uid, |note| {
                note.wrote(&written);
                note.recorded = Some(now);
            });
        }
        // The occasion contains the generation, because a run may be suspended and resumed more than once before it
        // begins.
        let generation = application.metadata.generation.unwrap_or_default();
        let run = status.submission_id.unwrap_or_default();
        let occasion = format!("{run}/{generation}");
        for event in &events {
            self.cluster.events.send(application, &occasion, event, now).await;
        }
        self.auxiliary_worker.start(application, &run, auxiliary, now);
        // Of an application that was deleted meanwhile, nothing is remembered any more.
        if let Some(note) = self.memory.lock().get_mut(&uid) {
            note.deleted.clear();
            note.failures = 0;
        }
        Ok(wake)
    }

    /// Returns the application's metadata as the API server has it now; none if the application does not exist.
    pub(super) async fn live(&self, namespace: &str, name: &str) -> Result<Option<Metadata>, Error> {
        let applications = Calls::of::<SparkApplication>(&self.cluster.client, namespace);
        applications.metadata(name).await.map_err(Error::api("GET of the application"))
    }

    /// Forgets what is remembered of an application that is gone, or about to be.
    pub(super) fn forget(&self, uid: &str) {
        self.metrics.forget(uid);
        self.memory.forget(uid);
        self.extension_memories.retain(|other| other != uid);
    }

    /// Queues the application that the watch has reported. Once it has listed all applications, queues all of them, and
    /// forgets what is remembered of others: the watch does not report applications that were deleted while no watch was
    /// running.
    fn take_note(&self, event: &watcher::Event<Watched>) {
        match event {
            watcher::Event::Init => self.memory.list_begins(),
            watcher::Event::InitDone => {
                let applications = self.cluster.applications.state();
                let uids = applications.iter().filter_map(|application| application.uid()).collect();
                let names = applications
                    .iter()
                    .map(|application| (application.namespace().unwrap_or_default(), application.name_any()))
                    .collect();
                self.metrics.forget_others(&uids);
                self.extension_memories.retain(|uid| uids.contains(uid));
                self.memory.list_ends(&uids);
                self.cluster.pods.forget_others(&names);
                self.queue.add_all(&self.cluster.applications);
            }
            // The cache has it once the list is complete.
            watcher::Event::InitApply(_) => {}
            watcher::Event::Apply(application) => self.queue.add(&ObjectRef::from_obj(application)),
            watcher::Event::Delete(application) => {
                let key = (application.namespace().unwrap_or_default(), application.name_any());
                self.departed.lock().insert(key);
                self.queue.add(&ObjectRef::from_obj(application));
            }
        }
    }
}
