//! Decides about one SparkConnect: which objects it has, and whether its server runs, is suspended or asleep, or is
//! replaced.

mod record;
mod sleep;

use crate::{
    Action, Found, Gateway, Observed, Plan, Policy, ServerPod,
    checks::validate,
    events, executor_trial, names, objects,
    server_pod::{server_hash, server_pod},
    ui,
};
use api::{
    ConnectFailure, ConnectGateway, ConnectState, ExecutorState, Identity, ObjectKey, ObjectKind,
    SparkConnect, SparkConnectStatus, excerpt,
    names::connect_condition::{
        EXECUTORS_REFUSED, GATEWAY_MISSING, INGRESS_MISSING, SERVER_POD_READY, SLEEPING, SUSPENDED,
    },
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::{between, driver, executor_trial::Trial, left_to_collect};
use pods::Phase;
use record::not_ready;
use std::time::Duration;

/// The backoff before a server that ended by itself is created again: the first pause, which doubles, and the maximum.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// How long a server has to be ready before the backoff starts again from [`FIRST_PAUSE`].
const STABLE: Duration = Duration::from_secs(600);
/// The number of consecutive servers that end by themselves after which the state is `Failed`. Programs that wait for
/// `Ready`, such as Kubeflow's SDK, give up at `Failed`, and a single crash may be due to a node or to a package that
/// could not be downloaded. Three servers that end at once take less than a minute.
const FAILURES: i32 = 3;
/// The time after a pod's `deletionTimestamp` when it is deleted by force: its node is lost, and the next server needs
/// its name.
const LOST: Duration = Duration::from_secs(60);
/// The pause before the next reconcile where no watch reports a change.
const LATER: Duration = Duration::from_secs(30);

/// Reasons of the condition `ServerPodReady` that are used more than once.
mod reason {
    pub(super) const NOT_READY: &str = "ServerPodNotReady";
    pub(super) const CREATING: &str = "Creating";
    pub(super) const REFUSED: &str = "PodRefused";
    pub(super) const OBJECT_REFUSED: &str = "ObjectRefused";
    pub(super) const TERMINATING: &str = "Terminating";
}

/// The input of one decision, and the plan as far as it is complete.
struct Pass<'a> {
    connect: &'a SparkConnect,
    seen: &'a Observed,
    now: Timestamp,
    policy: &'a Policy,
    plan: Plan,
}

/// Returns the plan for `connect`.
pub(super) fn plan(connect: &SparkConnect, seen: &Observed, now: Timestamp, policy: &Policy) -> Plan {
    let plan = Plan { status: connect.status.clone().unwrap_or_default(), ..Plan::default() };
    let mut pass = Pass { connect, seen, now, policy, plan };
    if connect.metadata.deletion_timestamp.is_none() {
        pass.decide();
        pass.collect_executors();
        // The passing of time alone is no reason to write the status.
        if connect.status.as_ref() != Some(&pass.plan.status) {
            pass.plan.status.last_update_time = Some(Time(now));
        }
    }
    pass.plan
}

impl<'a> Pass<'a> {
    fn decide(&mut self) {
        let status = &mut self.plan.status;
        status.observed_generation = self.connect.metadata.generation;
        status.start_time.get_or_insert(Time(self.now));
        status.executors.clone_from(&self.seen.executors);
        if let Err(refusal) = validate(self.connect) {
            // A server that runs keeps running: an invalid spec does not say how to replace it.
            return self.stop("Invalid", &refusal.brief());
        }
        self.find_gateway();
        self.note_ingress();
        if self.lifetime_ends() {
            let note = "nobody has connected for ttlSecondsAfterIdle".to_owned();
            self.normal("SparkConnectDeleted", "Delete", note);
            self.plan.actions.push(Action::DeleteConnect);
            return;
        }
        let taken = self.plan_objects();
        if let Some(name) = taken {
            let why = format!(
                "{name} exists and does not belong to this SparkConnect: delete it, or choose another name"
            );
            return self.stop("NameTaken", &why);
        }
        let is_asleep = self.sleeps();
        if self.connect.spec.suspend {
            self.suspend();
        } else if is_asleep {
            self.leave_rest(SUSPENDED, events::RESUMED, "the server may start again");
            self.rest(SLEEPING, "SparkConnectSleeping", "nobody has connected for sleepAfterIdleSeconds");
        } else {
            self.leave_rest(SUSPENDED, events::RESUMED, "the server starts again");
            self.leave_rest(SLEEPING, events::WAKING, "a client connects, and the server starts again");
            self.serve();
        }
    }

    /// Leaves the recorded numbers of executors as they are, if nothing else has changed and the status was written a
    /// short time ago: see [`left_to_collect`].
    fn collect_executors(&mut self) {
        let Some(recorded) = self.connect.status.as_ref() else { return };
        let written = recorded.last_update_time.as_ref().map(|time| time.0);
        let executors = recorded.executors.clone();
        let others = SparkConnectStatus { executors, ..self.plan.status.clone() };
        if let Some(rest) = left_to_collect(written, self.now)
            && others == *recorded
            && others != self.plan.status
        {
            self.plan.status = others;
            self.wake_in(rest);
        }
    }

    /// Returns the gateway with the port for this server, if connections pass it.
    fn gateway(&self) -> Option<(&'a Gateway, i32)> {
        let port = self.plan.status.gateway.as_ref()?.port;
        Some((self.policy.gateway.as_ref()?, port))
    }

    /// Records the gateway's port for this server, and sets the condition `GatewayMissing` if the spec needs a gateway.
    /// While the condition is false, clients connect through the gateway, and their connections count as use. The
    /// condition is never false during a suspension, so that this time does not count as idle.
    fn find_gateway(&mut self) {
        let (needed, known) = (self.connect.needs_gateway(), self.policy.gateway.is_some());
        let port = self.seen.gateway_port.filter(|_| needed && known);
        self.plan.status.gateway = port.map(|port| ConnectGateway { port });
        let is_missing = needed && port.is_none();
        if needed && !is_missing && !self.connect.spec.suspend {
            let (reason, why) = events::GATEWAY;
            self.set(GATEWAY_MISSING, false, reason, why);
        } else {
            let why = if known { events::NO_PORT } else { events::NO_GATEWAY };
            self.note(GATEWAY_MISSING, is_missing.then_some(why), "SparkConnectGatewayMissing", "Expose");
        }
        if is_missing && known {
            // No watch reports that another SparkConnect has given up its port.
            self.wake_in(LONGEST_PAUSE);
        }
    }

    /// Sets the condition `IngressMissing` if the URL of the web UI is invalid.
    fn note_ingress(&mut self) {
        let why = ui::without_address(self.connect, &self.policy.exposure);
        let problem = why.as_deref().map(|why| ("InvalidAddress", why));
        self.note(INGRESS_MISSING, problem, "SparkConnectIngressMissing", "Expose");
    }

    /// Whether the SparkConnect controls the pod.
    fn is_ours(&self, pod: &ServerPod) -> bool {
        pod.summary.is_controlled_by(self.connect.own_uid())
    }

    /// Plans the objects other than the pod. Returns the pod or object that has a name that is needed, if the
    /// SparkConnect does not control it.
    fn plan_objects(&mut self) -> Option<ObjectKey> {
        // If the Service is not ours, EndpointSlices would lead its clients to this server, and an Ingress would lead
        // users of the web UI to that Service.
        let service = ObjectKind::SERVICE.named(names::service(self.connect));
        let is_taken = self.seen.objects.iter().any(|found| found.key == service && !found.is_ours);
        let gateway = self.gateway().filter(|_| !is_taken);
        let server = self.seen.server.as_deref();
        // The IP address of a pod that has ended may belong to another pod by now.
        let is_alive = |pod: &&ServerPod| {
            let has_ended = [Phase::Succeeded, Phase::Failed].contains(&pod.summary.phase);
            self.is_ours(pod) && !pod.summary.terminating && !has_ended
        };
        let address = server.filter(is_alive).and_then(|pod| pod.ip.as_deref());
        let wanted = objects::wanted(self.connect, self.policy, gateway, address).into_iter();
        let wanted = wanted.filter(|object| !is_taken || object["kind"] != "Ingress");
        let mut taken = server
            .filter(|pod| !self.is_ours(pod))
            .map(|pod| ObjectKind::new("v1", "Pod").named(pod.summary.name.as_str()));
        let mut unneeded: Vec<&Found> = self.seen.objects.iter().filter(|found| found.is_ours).collect();
        for object in wanted {
            let key = ObjectKey::of(&object).expect("it was built with kind and name");
            match self.seen.objects.iter().find(|found| found.key == key) {
                Some(found) if !found.is_ours => taken = taken.or(Some(key)),
                // The Service is deleted and created again: without a selector, Kubernetes would keep the endpoints
                // that it created for the old one.
                Some(found) if found.has_selector && object["spec"]["selector"].is_null() => {
                    self.wake_in(Duration::from_secs(1));
                }
                _ => {
                    unneeded.retain(|found| found.key != key);
                    self.plan.wanted.push(object);
                }
            }
        }
        let delete = |found: &Found| Action::Delete { key: found.key.clone(), uid: found.uid.clone() };
        self.plan.actions.extend(unneeded.into_iter().map(delete));
        self.plan.status.server.service_name = Some(names::service(self.connect));
        taken
    }

    /// Leaves the server as it is, because the spec cannot be applied; but deletes one that is suspended.
    fn stop(&mut self, reason: &'static str, why: &str) {
        if self.connect.spec.suspend {
            return self.suspend();
        }
        let known = self.plan.status.condition(SERVER_POD_READY);
        if known.is_none_or(|known| known.reason != reason || known.message != not_ready(why)) {
            self.warn(events::FAILED, "Validate", why.to_owned());
        }
        self.enter(ConnectState::Failed, reason, why);
        self.wake_in(2 * LATER);
    }

    fn serve(&mut self) {
        let seen = self.seen;
        match seen.server.as_deref() {
            None => self.without_pod(),
            Some(pod) if pod.summary.terminating => {
                self.delete(pod);
                // The status does not name a pod that the operator itself has deleted.
                let state = match self.plan.status.server.pod_name {
                    Some(_) => ConnectState::NotReady,
                    None => ConnectState::Provisioning,
                };
                let why = format!("pod {} is being deleted", pod.summary.name);
                self.enter(state, reason::TERMINATING, &why);
            }
            Some(pod) => self.follow(pod),
        }
    }

    fn without_pod(&mut self) {
        let (hash, pause) = (server_hash(&self.connect.spec), self.pause());
        let status = &mut self.plan.status;
        if status.server_hash.as_ref() != Some(&hash) {
            status.restarts = 0;
        } else if let Some(rest) = pause {
            // If a user has deleted the ended pod during the backoff, its end is counted already.
            self.forget_pod();
            return self.await_next(rest);
        } else if let Some(name) = status.server.pod_name.clone() {
            let message = Some(format!("pod {name} no longer exists: it or its node was deleted"));
            let reason = Some("ServerGone".to_owned());
            return self.fail(ConnectFailure { reason, message, ..ConnectFailure::default() });
        }
        let known = status.condition(SERVER_POD_READY).map(|known| known.reason.as_str());
        let creating = [reason::CREATING, reason::REFUSED, reason::OBJECT_REFUSED];
        let is_repeated = known.is_some_and(|known| creating.contains(&known));
        let was_refused = known == Some(reason::REFUSED);
        status.server_hash = Some(hash);
        if !is_repeated {
            status.last_restart_time = Some(Time(self.now));
            let name = names::server(self.connect);
            match status.restarts {
                1.. => {
                    self.normal("SparkConnectRestarted", "Create", format!("server {name} is created again"))
                }
                _ => self.normal(events::PROVISIONING, "Create", format!("server {name} is created")),
            }
        }
        self.forget_pod();
        self.plan.actions.push(Action::CreateServer(Box::new(server_pod(self.connect, self.policy))));
        self.wake_in(LATER);
        let (reason, why) = match (&self.seen.refused_object, &self.seen.refusal) {
            // The controller sent an event when it applied the object.
            (Some(why), _) => (reason::OBJECT_REFUSED, why.as_str()),
            (None, Some(why)) => {
                if !was_refused {
                    let note = format!("the server's pod was refused, and its creation is retried: {why}");
                    self.warn(events::PROVISIONING, "Create", note);
                }
                (reason::REFUSED, why.as_str())
            }
            (None, None) => (reason::CREATING, "the server's pod is being created"),
        };
        self.enter(ConnectState::Provisioning, reason, why);
    }

    fn follow(&mut self, pod: &ServerPod) {
        let hash = server_hash(&self.connect.spec);
        let status = &mut self.plan.status;
        // A hash of another version cannot be compared, and Kubeflow's operator writes none: such a server keeps
        // running.
        let is_edited = [pod.hash.as_ref(), status.server_hash.as_ref()]
            .into_iter()
            .flatten()
            .find(|known| known.split(':').next() == hash.split(':').next())
            .is_some_and(|known| *known != hash);
        if is_edited {
            status.restarts = 0;
            let note = "the spec was edited: the server is replaced, which ends its sessions".to_owned();
            self.normal("SparkConnectEdited", "Replace", note);
            return self.replace(pod, "the spec was edited");
        }
        status.server_hash = Some(hash);
        let summary = &pod.summary;
        status.server.pod_name = Some(summary.name.clone());
        status.server.pod_ip.clone_from(&pod.ip);
        match summary.state() {
            ExecutorState::Completed => self.ended(pod, "server container ended with exit code 0".to_owned()),
            ExecutorState::Failed => {
                // A server has neither field.
                let (advice, own) = (
                    "raise memoryLimit if it is set, else memoryOverhead",
                    "raise spark.driver.memoryOverhead",
                );
                let why = driver::failure(summary).replacen(advice, own, 1);
                self.ended(pod, why.replacen("driver container", "server container", 1))
            }
            ExecutorState::Pending => {
                let why = summary.waiting_for().or_else(|| self.seen.start_failure.clone());
                self.starts(&summary.name, why.as_deref());
                if let Some(rest) = driver::until_next_lookup(summary, self.now) {
                    self.wake_in(rest);
                }
            }
            ExecutorState::Running if pod.is_ready => self.ready(pod),
            ExecutorState::Running => match self.plan.status.state {
                ConnectState::New | ConnectState::Provisioning | ConnectState::Failed => {
                    self.enter(ConnectState::Provisioning, "Starting", "Spark does not listen yet");
                }
                ConnectState::Ready | ConnectState::NotReady => {
                    self.unready(&summary.name, "Spark does not answer");
                }
            },
            ExecutorState::Unknown => self.unready(&summary.name, "its node does not answer"),
        }
    }

    fn starts(&mut self, name: &str, why: Option<&str>) {
        let word = why.and_then(excerpt::reason).unwrap_or(reason::NOT_READY);
        let known = self.plan.status.condition(SERVER_POD_READY);
        if let Some(why) = why.filter(|_| known.is_none_or(|known| known.reason != word)) {
            self.normal(events::PROVISIONING, "Follow", format!("server {name} waits: {why}"));
        }
        self.enter(ConnectState::Provisioning, word, why.unwrap_or("the server's pod starts"));
    }

    fn ready(&mut self, pod: &ServerPod) {
        if self.plan.status.state != ConnectState::Ready {
            let note = format!("clients can connect to server {}", pod.summary.name);
            self.normal("SparkConnectReady", "Follow", note);
        }
        self.enter(ConnectState::Ready, "ServerPodReady", "Server pod is ready");
        self.note_executors(pod);
        let since = self.plan.status.condition(SERVER_POD_READY).map(|ready| ready.last_transition_time.0);
        let ready = since.map_or(Duration::ZERO, |since| between(since, self.now));
        match STABLE.checked_sub(ready).filter(|rest| !rest.is_zero()) {
            None => self.plan.status.restarts = 0,
            Some(rest) if self.plan.status.restarts > 0 => self.wake_in(rest),
            Some(_) => {}
        }
    }

    /// For a server without executors, sets or removes the condition `ExecutorsRefused` by the last trial, and
    /// schedules the next one.
    fn note_executors(&mut self, server: &ServerPod) {
        let (seen, tries) = (self.seen, self.policy.tries_executors);
        let is_alone =
            tries && seen.executors.is_empty() && executor_trial::executor(self.connect, server).is_some();
        if is_alone && let Some(ready) = self.plan.status.true_condition(SERVER_POD_READY) {
            self.wake_in(executor_trial::pause(ready.last_transition_time.0, self.now));
        }
        let why = match &seen.executor_trial {
            None if is_alone => return,
            Some(Trial::Refused { reason, why }) if is_alone => {
                Some((reason, format!("executors are refused: {why}")))
            }
            _ => None,
        };
        let problem = why.as_ref().map(|(reason, why)| (reason.as_str(), why.as_str()));
        self.note(EXECUTORS_REFUSED, problem, "SparkConnectExecutorsRefused", "Follow");
    }

    fn unready(&mut self, name: &str, why: &str) {
        if self.plan.status.state != ConnectState::NotReady {
            self.warn("SparkConnectNotReady", "Follow", format!("server {name} is not ready: {why}"));
        }
        self.enter(ConnectState::NotReady, reason::NOT_READY, why);
    }

    /// Records that a server has ended, and replaces it after the backoff. Its pod is kept until then, for its log.
    fn ended(&mut self, pod: &ServerPod, why: String) {
        let summary = &pod.summary;
        let recorded = self.plan.status.last_failure.as_ref().and_then(|failure| failure.pod_uid.as_ref());
        if recorded != Some(&summary.uid) {
            let of_container = summary.ended.as_ref().map(|ended| ended.reason.clone());
            let of_pod = summary.message.as_deref().and_then(excerpt::reason).map(str::to_owned);
            let failure = ConnectFailure {
                reason: of_container.filter(|word| !word.is_empty()).or(of_pod),
                exit_code: summary.ended.as_ref().map(|ended| ended.exit_code),
                message: Some(why),
                pod_uid: Some(summary.uid.clone()),
                time: None,
            };
            return self.fail(failure);
        }
        match self.pause() {
            Some(rest) => self.await_next(rest),
            None => self.replace(pod, "the last server has ended"),
        }
    }

    fn fail(&mut self, failure: ConnectFailure) {
        self.plan.status.restarts = self.plan.status.restarts.saturating_add(1);
        if failure.pod_uid.is_none() {
            self.forget_pod();
        }
        let pause = pause(self.plan.status.restarts);
        let why = failure.message.as_deref().unwrap_or_default();
        self.warn(
            events::FAILED,
            "Follow",
            format!("{why}; the server is created again in {} s", pause.as_secs()),
        );
        self.plan.status.last_failure = Some(ConnectFailure { time: Some(Time(self.now)), ..failure });
        self.await_next(pause);
    }

    /// Waits during the backoff after a server has ended by itself. Sets the state and the condition.
    fn await_next(&mut self, pause: Duration) {
        let status = &self.plan.status;
        let state = match status.state {
            _ if status.restarts >= FAILURES => ConnectState::Failed,
            ConnectState::Ready | ConnectState::NotReady => ConnectState::NotReady,
            ConnectState::New | ConnectState::Provisioning | ConnectState::Failed => {
                ConnectState::Provisioning
            }
        };
        let ConnectFailure { reason, message, .. } = status.last_failure.clone().unwrap_or_default();
        let word = reason.as_deref().and_then(excerpt::reason).unwrap_or(reason::NOT_READY);
        self.enter(state, word, message.as_deref().unwrap_or_default());
        self.wake_in(pause);
    }

    /// Returns the rest of the backoff after a server has ended by itself. `None` if the next server may be created
    /// now.
    fn pause(&self) -> Option<Duration> {
        let status = &self.plan.status;
        let ended = status.last_failure.as_ref().and_then(|failure| failure.time.as_ref())?;
        let pause = pause(status.restarts).checked_sub(between(ended.0, self.now))?;
        (status.restarts > 0 && !pause.is_zero()).then_some(pause)
    }

    /// Deletes the server's pod, so that the next one can have its name.
    fn replace(&mut self, pod: &ServerPod, why: &str) {
        self.forget_pod();
        self.delete(pod);
        self.enter(ConnectState::Provisioning, reason::TERMINATING, why);
    }

    /// Deletes the pod; by force if it still exists [`LOST`] after its `deletionTimestamp`.
    fn delete(&mut self, pod: &ServerPod) {
        let overdue = pod.deletion.map(|deletion| between(deletion, self.now));
        let force = overdue.is_some_and(|overdue| overdue >= LOST);
        if !pod.summary.terminating || force {
            let (name, uid) = (pod.summary.name.clone(), pod.summary.uid.clone());
            self.plan.actions.push(Action::DeleteServer { name, uid, force });
        }
        self.wake_in(LATER);
    }

    fn forget_pod(&mut self) {
        (self.plan.status.server.pod_name, self.plan.status.server.pod_ip) = (None, None);
    }

    /// Sets the state, and the condition `ServerPodReady` with its reason.
    fn enter(&mut self, state: ConnectState, reason: &str, why: &str) {
        let is_ready = state == ConnectState::Ready;
        let message = if is_ready { why.to_owned() } else { not_ready(why) };
        self.plan.status.state = state;
        if !is_ready {
            self.remove(EXECUTORS_REFUSED);
        }
        self.set(SERVER_POD_READY, is_ready, reason, &message);
    }

    fn wake_in(&mut self, rest: Duration) {
        // One millisecond more, so that the reconcile does not run just before the time.
        let rest = rest + Duration::from_millis(1);
        self.plan.wake = Some(self.plan.wake.map_or(rest, |wake| wake.min(rest)));
    }
}

fn pause(restarts: i32) -> Duration {
    let doublings = u32::try_from(restarts.saturating_sub(1)).unwrap_or(0).min(5);
    (FIRST_PAUSE * 2_u32.pow(doublings)).min(LONGEST_PAUSE)
}
