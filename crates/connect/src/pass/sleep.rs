//! Decides whether a server is suspended by its spec, asleep because it was idle, or deleted with its SparkConnect
//! because it was idle.

use super::Pass;
use crate::events;
use api::{
    ConnectState,
    names::connect_condition::{GATEWAY_MISSING, SERVER_POD_READY, SLEEPING, SUSPENDED},
};
use plan::between;
use std::time::Duration;

impl Pass<'_> {
    /// Returns how long the server has been idle: the time since its last connection, or since it started, became
    /// ready, was resumed or got the gateway, whichever is latest.
    fn idle(&self) -> Duration {
        let status = &self.plan.status;
        let ready = status.true_condition(SERVER_POD_READY);
        let times = [
            self.connect.last_connection(),
            status.start_time.clone(),
            // With its restarts, a server that ends again and again would never be idle.
            status.last_restart_time.clone().filter(|_| status.restarts == 0),
            ready.map(|condition| condition.last_transition_time.clone()),
            // Before that, clients did not connect through the gateway, so nobody recorded their connections.
            status.condition(GATEWAY_MISSING).map(|condition| condition.last_transition_time.clone()),
        ];
        let latest = times.into_iter().flatten().map(|time| time.0).max();
        latest.map_or(Duration::ZERO, |latest| between(latest, self.now))
    }

    /// Returns whether the SparkConnect is to be deleted, because it was idle for `ttlSecondsAfterIdle`.
    pub(super) fn lifetime_ends(&mut self) -> bool {
        let limit = self.limit(self.connect.spec.ttl_seconds_after_idle);
        limit.is_some_and(|limit| self.elapses(limit, self.idle()))
    }

    /// Returns an idle limit of the spec as a duration. `None` if it is not set, if connections do not pass a gateway,
    /// which reports them, or if the spec suspends the server.
    fn limit(&self, seconds: Option<i64>) -> Option<Duration> {
        let seconds = seconds.filter(|_| !self.connect.spec.suspend && self.gateway().is_some());
        seconds.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
    }

    /// Returns whether the server is to sleep: to fall asleep, or to stay asleep.
    pub(super) fn sleeps(&mut self) -> bool {
        let Some(limit) = self.limit(self.connect.spec.sleep_after_idle_seconds) else { return false };
        if self.is(SLEEPING) {
            // Only a client wakes it: one that has connected within the last `sleepAfterIdleSeconds`.
            let last = self.connect.last_connection();
            return last.is_none_or(|last| between(last.0, self.now) >= limit);
        }
        // A server that is still starting does not sleep: no client could connect yet.
        let has_started = !matches!(self.plan.status.state, ConnectState::New | ConnectState::Provisioning);
        has_started && self.elapses(limit, self.idle())
    }

    /// Returns whether `passed` has reached the limit and no time is left of [`crate::Observed::settling`]. If not,
    /// schedules a reconcile for that time.
    fn elapses(&mut self, limit: Duration, passed: Duration) -> bool {
        let rest = limit.saturating_sub(passed).max(self.seen.settling);
        if !rest.is_zero() {
            self.wake_in(rest);
        }
        rest.is_zero()
    }

    /// Deletes the server's pod, and creates none until `spec.suspend` is false.
    pub(super) fn suspend(&mut self) {
        self.leave_rest(SLEEPING, events::WAKING, "");
        self.rest(SUSPENDED, "SparkConnectSuspended", "suspend is true");
    }

    /// Deletes the server's pod, creates no other one, and sets the `condition`.
    pub(super) fn rest(&mut self, condition: &'static str, event: &'static str, why: &str) {
        if !self.is(condition) {
            let note = format!("{why}: the server and its executors are deleted, and everything else stays");
            self.normal(event, "Rest", note);
        }
        self.set(condition, true, condition, why);
        self.forget_pod();
        self.plan.status.restarts = 0;
        if let Some(pod) = self.seen.server.as_deref().filter(|pod| self.is_ours(pod)) {
            self.delete(pod);
        }
        self.enter(ConnectState::NotReady, condition, why);
    }

    /// Removes the `condition`. Adds the event if the condition was true and there is a note.
    pub(super) fn leave_rest(&mut self, condition: &'static str, event: &'static str, note: &str) {
        if self.is(condition) && !note.is_empty() {
            self.normal(event, "Start", note.to_owned());
        }
        self.remove(condition);
    }
}
