//! Reconciles one application: the only place in which its facts, its plan and the effects of the plan meet.

use super::{
    Applications, Context, FRESH_FACTS, Key, Setup, Watched, calls, error::Error, execute,
    kept::KeptApplication, key, observe, source::Reconciler, submission_room,
};
use api::{Identity, SparkApplication, State};
use jiff::Timestamp;
use kube::{Resource, ResourceExt, runtime::watcher};
use plan::{Action as Act, Observed, Plan, extension::PodsOfOthers, lifecycle};
use std::{collections::HashSet, time::Duration};
use tracing::{Span, info};

/// The pause before an application continues with the actions that did not fit into one turn, so that waiting
/// applications come first.
const NEXT_TURN: Duration = Duration::from_millis(10);

impl Reconciler for Context {
    type Kind = SparkApplication;
    type Part = KeptApplication;

    fn source(&self) -> &Applications {
        &self.source
    }

    /// Deletes or releases the pods of an application that is gone, also if another application has its name by now.
    /// After a failure, the application stays recorded as departed.
    async fn prepare(&self, key: &Key) -> Option<Duration> {
        // In this order: an application leaves the cache before it is recorded as departed.
        let has_departed = self.departed.lock().remove(key);
        let is_gone = self.source.cluster.application(&key.0, &key.1).is_none();
        if !is_gone && !has_departed {
            return None;
        }
        let again = self.delete_or_release_pods(key).await;
        if again.is_some() {
            self.departed.lock().insert(key.clone());
        }
        again
    }

    /// Lets a new application that has to be fetched wait until there is room for its submission, so that it is not
    /// fetched in vain.
    fn delay(&self, watched: &Watched) -> Option<Duration> {
        let is_waiting = watched.is_fetched()
            && watched.kept.state == State::New
            && watched.meta().deletion_timestamp.is_none()
            && self.submitter.submission(watched.own_uid()).is_none()
            && !self.submitter.has_room(watched);
        is_waiting.then_some(submission_room::AGAIN)
    }

    async fn release(&self, watched: &Watched) -> Result<(), Error> {
        self.leave(watched).await
    }

    /// Deletes or releases the pods of an application. Kubernetes deletes them too, because the application is their owner.
    async fn end(&self, application: &SparkApplication) -> Option<Duration> {
        self.forget(application.own_uid());
        self.delete_or_release_pods(&key(application)).await
    }

    /// Observes an application, decides, acts, and records the result. Returns the time until the next reconcile if
    /// nothing changes before; `None` to wait for a change. "client" marks the steps that send requests to the API server.
    ///
    ///  1. An application that is being deleted: delete or release its pods, and forget it ([`Self::end`]). (client)
    ///  2. Wait for the watch if the cache has not received this process's last write yet ([`super::source`]). (no client)
    ///  3. Count a status in the metrics whose write got no answer and which the watch has reported. (no client)
    ///  4. Ask the plan which facts matter ([`lifecycle::questions`]) and collect them from the caches; ask the API
    ///     server only for a fact that a cache cannot know. (client)
    ///  5. Decide ([`lifecycle::next`]): actions, status, events, auxiliary objects, time to wait. Decisions that an
    ///     extension has to note are made about one application at a time. (no client)
    ///  6. Before a submission, check that the cached copy of the application is current. (client)
    ///  7. Carry out the actions. Each can be repeated after a crash. Actions that do not fit into this turn, and the
    ///     steps that follow, are left to the next turn. (client)
    ///  8. Write the status, after the actions, so that a crash between the two repeats an action that does no harm
    ///     instead of leaving one out. (client)
    ///  9. Remember the version that was written, for step 2, and update the metrics. (no client)
    /// 10. Send the events, after the status that they report. (client)
    /// 11. Start the background work on Services and Ingresses. (no client)
    /// 12. Forget the failures and the children that earlier turns have deleted. (no client)
    async fn reconcile(
        &self,
        application: &SparkApplication,
        now: Timestamp,
    ) -> Result<Option<Duration>, Error> {
        let uid = application.own_uid();
        let state = application.state();
        Span::current().record("state", state.as_str());

        let Setup { policy, application_metrics: metrics, .. } = &self.setup;
        let answered = self.source.memory.with(uid, |note| note.answered(application));
        if let Some((before, status)) = answered {
            metrics.written(&before, &status, now, policy.executor_limit);
        }
        let seen = observe::observe(self, application, now).await?;
        if let Some(driver) = lifecycle::ended_driver(application, &seen.driver) {
            self.source.memory.with(uid, |note| note.ended_driver = Some(driver.uid.clone()));
        }
        let Plan { actions, status, events, auxiliary, wake } = self.decide(application, seen, now);
        Span::current().record("submission_id", status.submission_id.as_deref());
        if actions.iter().any(|action| matches!(action, Act::Submit(_)))
            && !calls::is_current(&self.source.cluster.client, application, "GET of the application").await?
        {
            // A submission based on a stale copy is the only remaining way to run an application twice.
            return Ok(Some(FRESH_FACTS));
        }
        for action in actions {
            if execute::execute(self, application, action).await?.is_break() {
                return Ok(Some(NEXT_TURN));
            }
        }
        if application.status.clone().unwrap_or_default() != status {
            let written = self.source.write(application, &application.status, &status).await;
            if written.as_ref().is_err_and(Error::is_unanswered) {
                self.source.memory.with(uid, |note| note.maybe_wrote(application, status.clone()));
            }
            written?;
            metrics.written(application, &status, now, policy.executor_limit);
            let to = status.application_state.state;
            if to != state {
                info!(from = state.as_str(), to = to.as_str(), "state changed");
            }
            self.source.memory.with(uid, |note| note.recorded = Some(now));
        }
        // The occasion contains the generation, because a run may be suspended and resumed more than once before it
        // begins.
        let generation = application.metadata.generation.unwrap_or_default();
        let run = status.submission_id.unwrap_or_default();
        let occasion = format!("{run}/{generation}");
        for event in &events {
            self.source.cluster.send_event(application, &occasion, event, now).await;
        }
        self.source.start_auxiliary(&self.background, application, &run, auxiliary, now);
        self.source.memory.with(uid, |note| note.deleted.clear());
        Ok(wake)
    }
}

impl Context {
    /// Decides about an application: see [`lifecycle::next`]. If an extension has to note the decision, the memories of
    /// all extensions are locked until it is noted.
    fn decide(&self, application: &SparkApplication, mut seen: Observed, now: Timestamp) -> Plan {
        let (uid, key) = (application.own_uid(), key(application));
        let mut memories = self.extension_memories.lock();
        let mut is_noted = false;
        for memory in memories.iter_mut() {
            let others: &PodsOfOthers<'_> = &|each| self.source.cluster.pods.of_others(&key, each);
            is_noted |= memory.recall(uid, &mut seen, others, now);
        }
        // Other decisions wait only for a decision that is to be noted.
        let memories = is_noted.then_some(memories);
        let plan = lifecycle::next(application, &seen, now, &self.setup.policy);
        if let Some(mut memories) = memories {
            memories.iter_mut().for_each(|memory| memory.note(uid, &plan.actions));
        }
        plan
    }

    /// Has extensions forget the applications whose uids are not to be kept.
    fn retain_memories(&self, is_kept: impl Fn(&str) -> bool) {
        self.extension_memories.lock().iter_mut().for_each(|memory| memory.retain(&is_kept));
    }

    /// Forgets what is remembered of an application that is gone, or about to be.
    pub(super) fn forget(&self, uid: &str) {
        self.source.memory.forget(uid);
        self.retain_memories(|other| other != uid);
    }

    /// Forgets what is remembered of applications that are gone. The watch does not report applications that were deleted
    /// while no watch was running.
    pub(super) fn on_event(&self, event: &watcher::Event<Watched>) {
        match event {
            watcher::Event::Init | watcher::Event::InitApply(_) | watcher::Event::Apply(_) => {}
            watcher::Event::InitDone => {
                let applications = self.source.cache.state();
                let uids: HashSet<_> =
                    applications.iter().filter_map(|application| application.uid()).collect();
                self.retain_memories(|uid| uids.contains(uid));
                let cluster = &self.source.cluster;
                let exists = |(namespace, name): &Key| cluster.application(namespace, name).is_some();
                cluster.pods.forget_others(exists);
            }
            watcher::Event::Delete(application) => {
                self.forget(application.own_uid());
                self.departed.lock().insert(key(application));
            }
        }
    }
}
