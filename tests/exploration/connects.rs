//! Checks that a server of Spark Connect reaches the state of its spec, whatever happens: edits, suspension,
//! connections, crashes of the operator at each call, lost responses, servers that end, and pods that are deleted. No
//! server that works and is wanted is ever deleted, and the state is not `Failed` after a single crash of the server.
//!
//! The model leaves out the objects other than the pod, which are always applied together, and the operator's copy of
//! the SparkConnect: each reconcile reads the SparkConnect, and does not write its status if it has changed since.

use crate::{
    budget::{self, Kind as _, listed},
    decision::Doing,
    explorer::{Edge, EdgeOf, Model, edge, explore, explore_and_report},
};
use api::{ConnectState, SparkConnect, SparkConnectStatus, names::annotation};
use connect::{Action, Gateway, Observed, Plan, Policy, ServerPod, next, server_hash};
use jiff::{SignedDuration, Timestamp};
use pods::{Controller, Ended, Phase, PodSummary};
use serde_json::{Value, json};
use std::collections::HashMap;

/// The length of a time step of the model, in seconds: longer than the first pauses of the backoff, and than the time
/// after which a pod on a lost node is deleted by force.
const MOMENT: i64 = 100;
/// The value of `sleepAfterIdleSeconds`, in explorations with a server that sleeps.
const IDLE: i64 = 250;
/// The last time step to which the clock advances while troubles may still happen.
const LAST: u8 = 2;
const UID: &str = "connect";

listed! {
    enum Trouble {
        Edit,
        Suspend,
        Connect,
        Crash,
        /// A call of the operator fails, or its answer is lost.
        Fault,
        /// The server's container ends.
        End,
        /// A user deletes the pod.
        Deletion,
    }
}

type Budget = budget::Budget<Trouble, { Trouble::ALL.len() }>;

/// The SparkConnect: the fields that the user and the gateway have written, and the number of the status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Object {
    version: u8,
    suspend: bool,
    /// The time step of the last connection.
    connected: Option<u8>,
    status: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Server {
    uid: u8,
    version: u8,
    phase: Stage,
    /// The time step of its `deletionTimestamp`.
    going: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Pending,
    Ready,
    Ended,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct World {
    clock: u8,
    object: Object,
    server: Option<Server>,
    made: u8,
    /// The server as the operator's watch has reported it.
    heard: Option<Server>,
    /// Whether a reconcile is due: something has changed since the last one began, or time has passed.
    is_due: bool,
    /// Whether the last reconcile has set a timer.
    wakes: bool,
    doing: Option<Doing>,
    left: Budget,
}

/// A seeded bug, which changes the operator's plan and which the exploration must find.
type Mutation = fn(&mut Plan);

struct Connects {
    sleeps: bool,
    budget: Budget,
    mutation: Option<Mutation>,
    /// The server hashes of the spec's versions.
    hashes: Vec<String>,
    statuses: Vec<Option<SparkConnectStatus>>,
    /// The plans, each with the number of its status.
    plans: Vec<(Plan, u32)>,
    decided: HashMap<(u8, Object, Option<Server>), u32>,
}

impl Connects {
    /// Returns a model in which at most `most` troubles happen.
    fn new(sleeps: bool, most: u8, mutation: Option<Mutation>) -> Self {
        use Trouble::{Connect, Crash, Deletion, Edit, End, Fault, Suspend};
        let each = [(Edit, 2), (Suspend, 2), (Connect, 1), (Crash, 1), (Fault, 1), (End, 1), (Deletion, 1)];
        let mut model = Self {
            sleeps,
            budget: Budget::new(most, &each),
            mutation,
            hashes: Vec::new(),
            statuses: vec![None],
            plans: Vec::new(),
            decided: HashMap::new(),
        };
        let hash = |version| server_hash(&model.connect(Object { version, ..Object::default() }).spec);
        model.hashes = (0..=2).map(hash).collect();
        model
    }

    fn connect(&self, object: Object) -> SparkConnect {
        let image = format!("spark:{}", object.version);
        let mut spec = json!({"sparkVersion": "4.0.1", "image": image, "server": {}, "executor": {}});
        spec["suspend"] = object.suspend.into();
        if self.sleeps {
            spec["sleepAfterIdleSeconds"] = IDLE.into();
        }
        let noted = object.connected.map(|moment| (annotation::LAST_CONNECTION, at(moment).to_string()));
        let annotations: Value = noted.into_iter().collect();
        let metadata = json!({"name": "pi", "namespace": "team-a", "uid": UID, "annotations": annotations});
        let mut connect: SparkConnect =
            serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        connect.status.clone_from(&self.statuses[object.status as usize]);
        connect
    }

    fn record(&self, server: Server) -> ServerPod {
        let owner =
            Controller { kind: "SparkConnect".to_owned(), name: "pi".to_owned(), uid: UID.to_owned() };
        let (phase, ended) = match server.phase {
            Stage::Pending => (Phase::Pending, None),
            Stage::Ready => (Phase::Running, None),
            Stage::Ended => (Phase::Failed, Some(Ended { exit_code: 1, ..Ended::default() })),
        };
        let summary = PodSummary {
            name: "pi-server".to_owned(),
            uid: server.uid.to_string(),
            controller: Some(owner),
            phase,
            ended,
            terminating: server.going.is_some(),
            ..PodSummary::default()
        };
        let (is_ready, deletion) = (server.phase == Stage::Ready, server.going.map(at));
        let hash = Some(self.hashes[usize::from(server.version)].clone());
        ServerPod { summary, is_ready, hash, deletion, ip: None }
    }

    /// Returns the number of the plan that a reconcile decides on in `world`.
    fn decide(&mut self, world: &World) -> u32 {
        let key = (world.clock, world.object, world.heard);
        if let Some(known) = self.decided.get(&key) {
            return *known;
        }
        let server = world.heard.map(|server| Box::new(self.record(server)));
        // For a server without executors, the plan would always set a timer for the next trial.
        let executors = [("running".to_owned(), 1)].into();
        let gateway_port = self.sleeps.then_some(20_001);
        let seen = Observed { server, executors, gateway_port, ..Observed::default() };
        let gateway = self.sleeps.then(Gateway::default);
        let policy = Policy { gateway, ..Policy::new("k8s://https://10.96.0.1:443") };
        let mut plan = next(&self.connect(world.object), &seen, at(world.clock), &policy);
        if let Some(mutation) = self.mutation {
            mutation(&mut plan);
        }
        let status = Some(plan.status.clone());
        let known = self.statuses.iter().position(|known| *known == status);
        let of_status = known.unwrap_or(self.statuses.len());
        if known.is_none() {
            self.statuses.push(status);
        }
        let number = u32::try_from(self.plans.len()).unwrap();
        self.plans.push((plan, u32::try_from(of_status).unwrap()));
        self.decided.insert(key, number);
        number
    }

    /// Returns the state after a reconcile has decided, and the invariant that the decision breaks.
    fn pass(&mut self, world: &World) -> EdgeOf<Self> {
        let number = self.decide(world);
        let plan = &self.plans[number as usize].0;
        let is_wanted = !world.object.suspend && !is_asleep(&plan.status);
        let works = |server: Server| {
            let is_current = server.version == world.object.version;
            is_current && server.going.is_none() && server.phase != Stage::Ended
        };
        let deletes = plan.actions.iter().any(|action| matches!(action, Action::DeleteServer { .. }));
        let is_wrong = deletes && is_wanted && world.heard.is_some_and(works);
        let doing = Some(Doing { plan: number, done: 0, is_current: true });
        let world = World { is_due: false, wakes: plan.wake.is_some(), doing, ..*world };
        let is_given_up = plan.status.state == ConnectState::Failed && plan.status.restarts < 3;
        let broken = [
            (is_wrong, "a server is deleted that works and is wanted"),
            (is_given_up, "the state is Failed, but the server is created again soon"),
        ];
        let broken = broken.iter().find_map(|(is, what)| is.then(|| (*what).to_owned()));
        Edge { step: "a reconcile begins", world, broken }
    }

    /// Returns the state after the next call of a reconcile.
    fn acted(&self, world: &World, doing: Doing) -> World {
        let (plan, status) = &self.plans[doing.plan as usize];
        let mut next = World { doing: Some(Doing { done: doing.done + 1, ..doing }), ..*world };
        match plan.actions.get(usize::from(doing.done)) {
            Some(Action::CreateServer(pod)) if world.server.is_none() => {
                let hash = pod["metadata"]["annotations"][annotation::SERVER_HASH].as_str().unwrap();
                let version = self.hashes.iter().position(|known| known == hash).unwrap();
                next.made += 1;
                let version = u8::try_from(version).unwrap();
                next.server = Some(Server { uid: next.made, version, phase: Stage::Pending, going: None });
            }
            Some(Action::DeleteServer { uid, force, .. }) => {
                let is_meant = |server: &Server| server.uid.to_string() == *uid;
                if let Some(server) = world.server.filter(is_meant) {
                    let going = server.going.or(Some(world.clock));
                    next.server = (!force).then_some(Server { going, ..server });
                }
            }
            Some(_) => {}
            None => {
                next.doing = None;
                next.is_due |= !doing.is_current || world.object.status != *status;
                if doing.is_current {
                    next.object.status = *status;
                }
            }
        }
        next
    }

    fn troubled(world: &World, trouble: Trouble) -> Option<World> {
        let mut next = World { left: world.left.without(trouble)?, ..*world };
        match trouble {
            Trouble::Edit => next.object.version += 1,
            Trouble::Suspend => next.object.suspend = !world.object.suspend,
            Trouble::Connect => next.object.connected = Some(world.clock),
            Trouble::Crash => (next.doing, next.heard, next.is_due) = (None, world.server, true),
            Trouble::Fault => {
                next.doing.take()?;
                next.is_due = true;
            }
            Trouble::End => {
                let server = world.server.filter(|server| server.phase == Stage::Ready)?;
                next.server = Some(Server { phase: Stage::Ended, ..server });
            }
            Trouble::Deletion => {
                let server = world.server.filter(|server| server.going.is_none())?;
                next.server = Some(Server { going: Some(world.clock), ..server });
            }
        }
        if next.object != world.object {
            next.is_due = true;
            next.doing = next.doing.map(|doing| Doing { is_current: false, ..doing });
        }
        Some(next)
    }

    /// Returns the steps of the watch and of the kubelet.
    fn happenings(world: &World) -> Vec<(&'static str, World)> {
        let mut all = Vec::new();
        if world.heard != world.server {
            all.push(("the watch reports the pod", World { heard: world.server, is_due: true, ..*world }));
        }
        match world.server {
            Some(Server { going: Some(_), .. }) => {
                all.push(("the pod is removed", World { server: None, ..*world }));
            }
            Some(server) if server.phase == Stage::Pending => {
                let server = Some(Server { phase: Stage::Ready, ..server });
                all.push(("the server becomes ready", World { server, ..*world }));
            }
            _ => {}
        }
        all
    }
}

impl Model for Connects {
    type World = World;

    fn beginning(&self) -> World {
        World { is_due: true, left: self.budget, ..World::default() }
    }

    fn edges(&mut self, world: &World, out: &mut Vec<EdgeOf<Self>>) {
        let mut all = Self::happenings(world);
        if let Some(doing) = world.doing {
            let acted = self.acted(world, doing);
            all.push(("a request is answered", acted));
            // The call succeeds, and its response is lost.
            let lost = Self::troubled(&World { doing: Some(doing), ..acted }, Trouble::Fault);
            all.extend(lost.map(|lost| (Trouble::Fault.name(), lost)));
        } else if world.is_due {
            out.push(self.pass(world));
        }
        let troubles = Trouble::ALL.iter().map(|trouble| (*trouble, Self::troubled(world, *trouble)));
        all.extend(troubles.filter_map(|(trouble, world)| Some((trouble.name(), world?))));
        // A reconcile takes less than a time step.
        if world.clock < LAST && world.doing.is_none() && !world.is_due {
            all.push(("time passes", World { clock: world.clock + 1, is_due: true, ..*world }));
        }
        out.extend(all.into_iter().map(|(step, world)| edge(step, world)));
    }

    fn fair(&mut self, world: &World) -> Option<EdgeOf<Self>> {
        let happens = Self::happenings(world).into_iter().next();
        let (step, world) = match (world.doing, happens) {
            (Some(doing), _) => ("a request is answered", self.acted(world, doing)),
            (None, Some(happens)) => happens,
            (None, None) if world.is_due => return Some(self.pass(world)),
            (None, None) if world.wakes => {
                ("time passes", World { clock: world.clock + 1, is_due: true, ..*world })
            }
            (None, None) => return None,
        };
        Some(edge(step, world))
    }

    fn rests(&mut self, world: &World) -> Result<(), String> {
        let status = self.statuses[world.object.status as usize].clone().unwrap_or_default();
        let is_good = if world.object.suspend || is_asleep(&status) {
            world.server.is_none() && status.state == ConnectState::NotReady
        } else {
            let is_as_asked =
                |server: Server| server.phase == Stage::Ready && server.version == world.object.version;
            !self.sleeps
                && world.server.is_some_and(is_as_asked)
                && status.state == ConnectState::Ready
                && status.restarts == 0
        };
        if is_good { Ok(()) } else { Err(format!("the end state is {:?} with {status:?}", world.server)) }
    }

    fn describe(&self, before: &World, edge: &EdgeOf<Self>) -> String {
        let plan = before.doing.map(|doing| &self.plans[doing.plan as usize].0.actions);
        let World { clock, object, server, heard, .. } = edge.world;
        format!("{} at {clock}: {object:?}, {server:?}, reported {heard:?}, plan {plan:?}", edge.step)
    }
}

fn at(moment: u8) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(MOMENT * i64::from(moment))
}

fn is_asleep(status: &SparkConnectStatus) -> bool {
    status.conditions.iter().any(|condition| condition.type_ == "Sleeping")
}

#[test]
fn a_server_reaches_the_state_of_its_spec_in_every_explored_state() {
    explore_all(1);
}

#[test]
#[ignore = "takes long: make explore"]
fn a_server_reaches_the_state_of_its_spec_with_more_troubles() {
    explore_all(2);
}

fn explore_all(most: u8) {
    for (name, sleeps) in [("servers", false), ("servers that sleep", true)] {
        let mut model = Connects::new(sleeps, most, None);
        let budget = model.budget;
        explore_and_report(name, &budget, &mut model);
    }
}

#[test]
fn seeded_bugs_of_servers_are_found() {
    let mutations: [(Mutation, bool); 4] = [
        (|plan| plan.actions.retain(|action| !matches!(action, Action::DeleteServer { .. })), false),
        (|plan| plan.wake = None, false),
        (|plan| plan.status.conditions.retain(|condition| condition.type_ != "Sleeping"), true),
        (
            |plan| {
                if plan.status.restarts > 0 && plan.status.state == ConnectState::NotReady {
                    plan.status.state = ConnectState::Failed;
                }
            },
            false,
        ),
    ];
    for (number, (mutation, sleeps)) in mutations.into_iter().enumerate() {
        let found = explore(&mut Connects::new(sleeps, 1, Some(mutation)));
        assert!(found.broken.is_some(), "the mutation {number} is not found");
    }
}
