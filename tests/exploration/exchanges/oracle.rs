//! Asks the decision core (`crates/plan`) each question once and keeps the answers, because the model asks the same
//! question often.

use super::{
    mutation::Mutation,
    world::{Elapsed, Executor, NODES, Nodes, Nominated, Placeholder, SEATS, Seat, Seats, Wake},
};
use crate::template;
use api::SparkApplication;
use jiff::{SignedDuration, Timestamp};
use plan::{
    Action, Driver, Observed, Policy,
    auxiliary::AuxiliaryObjects,
    gang,
    lifecycle::{self, Exchanges, Nominations},
    pod_summary::{Controller, Phase, PodSummary},
    submission::SubmissionEnvironment,
};
use serde_json::json;
use std::{
    array,
    collections::{BTreeSet, HashMap},
    time::Duration,
};

const UID: &str = "6c1f0b5e-0000-4000-8000-000000000001";
const RUN: &str = "run-1";

/// A question: the seats of an application as the operator knows them, their nodes, and the exchanges of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    pub seats: Seats,
    pub nodes: [u8; SEATS],
    pub elsewhere: Nodes,
    pub nominations: Nominated,
    pub elapsed: Elapsed,
}

/// An answer, in the form in which the model carries it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub acts: Vec<Act>,
    /// The nominations that the watch has yet to report.
    pub nominations: Nominated,
    pub wake: Wake,
}

/// An action about the executor or the placeholder of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Nominate { seat: usize, node: u8 },
    DeletePlaceholder(usize),
    DeleteExecutor(usize),
    Ungate(usize),
}

pub struct Oracle {
    application: SparkApplication,
    policy: Policy,
    mutation: Option<Mutation>,
    answers: Vec<Answer>,
    known: HashMap<Question, u32>,
}

impl Oracle {
    pub fn new(mutation: Option<Mutation>) -> Self {
        let application = json!({
            "apiVersion": "sparkoperator.k8s.io/v1beta2",
            "kind": "SparkApplication",
            "metadata": {"name": "pi", "namespace": "default", "uid": UID, "generation": 1},
            "spec": template(),
            "status": {
                "applicationState": {"state": "RUNNING"},
                "submissionID": RUN,
                "runOrdinal": 1,
                "driverInfo": {"podName": "pi-driver"},
            },
        });
        Self {
            application: serde_json::from_value(application).unwrap(),
            policy: Policy::new("k8s://https://10.0.0.1:443"),
            mutation,
            answers: Vec::new(),
            known: HashMap::new(),
        }
    }

    pub fn answer(&self, number: u32) -> &Answer {
        &self.answers[number as usize]
    }

    /// Returns the number of the answer.
    pub fn ask(&mut self, question: &Question) -> u32 {
        if let Some(number) = self.known.get(question) {
            return *number;
        }
        let mut seen = observed(question);
        if let Some(mutation) = self.mutation {
            mutation.of_question(&mut seen);
        }
        let now = then()
            + match question.elapsed {
                Elapsed::Nothing => SignedDuration::ZERO,
                Elapsed::Exchange => SignedDuration::from_mins(3),
                Elapsed::Wait => SignedDuration::from_mins(11),
            };
        let mut plan = lifecycle::next(&self.application, &seen, now, &self.policy);
        let mut nominations = seen.nominations.clone();
        nominations.add(&plan.actions);
        if let Some(mutation) = self.mutation {
            mutation.of_plan(&mut plan);
        }
        let wake = match plan.wake {
            None => Wake::Never,
            Some(wake) if wake <= Duration::from_secs(1) => Wake::Soon,
            Some(_) => Wake::Later,
        };
        let acts = plan.actions.iter().map(act).collect();
        self.answers.push(Answer { acts, nominations: nominated(&nominations), wake });
        let number = u32::try_from(self.answers.len() - 1).unwrap();
        self.known.insert(*question, number);
        number
    }
}

/// Returns the exchanges of an application with these seats.
pub fn exchanges(seats: &Seats, nodes: [u8; SEATS], decided: Nominated) -> Nodes {
    let pods: Vec<_> = executors(seats).into_iter().chain(placeholders(seats, nodes)).collect();
    let mut exchanges = Exchanges::of(pods.iter());
    exchanges.add_begun(&nominations(decided));
    bits(&exchanges)
}

fn nominations(nominated: Nominated) -> Nominations {
    let nominations = nominated.iter().enumerate();
    let nominations =
        nominations.filter_map(|(seat, node)| Some((pod("executor", seat).uid, node_name((*node)?))));
    Nominations(nominations.collect())
}

fn nominated(nominations: &Nominations) -> Nominated {
    array::from_fn(|seat| nominations.0.get(&pod("executor", seat).uid).map(|node| number(node)))
}

fn observed(question: &Question) -> Observed {
    let driver = PodSummary {
        name: "pi-driver".to_owned(),
        role: Some(api::Role::Driver),
        phase: Phase::Running,
        started: true,
        assigned: Some(then()),
        ..pod("driver", 0)
    };
    let names =
        |bits: u8| (0..).take(NODES).filter(move |node| bits & (1 << node) != 0).map(node_name).collect();
    let Nodes { trying, changing } = question.elsewhere;
    let executors = executors(&question.seats);
    let mut nominations = nominations(question.nominations);
    nominations.forget_reported(&executors);
    Observed {
        driver: Driver::Pod { pod: Box::new(driver), complete: true },
        executors,
        strays: Vec::new(),
        submission_pods: Vec::new(),
        placeholders: placeholders(&question.seats, question.nodes),
        elsewhere: Exchanges { trying: names(trying), changing: names(changing) },
        nominations,
        departed: None,
        mount_failure: None,
        recorded: None,
        made: true,
        auxiliary: AuxiliaryObjects::default(),
        submission: None,
        submission_environment: SubmissionEnvironment::default(),
        server_time: None,
    }
}

fn executors(seats: &Seats) -> Vec<PodSummary> {
    let executor = |(seat, Seat { executor, .. }): (usize, &Seat)| {
        let (phase, room) = match *executor {
            Executor::Unborn | Executor::Deleted => return None,
            Executor::Placed(_) => (Phase::Running, None),
            Executor::Waiting { is_gated, nominated } => {
                let nominated = nominated.map(node_name);
                let is_tried = is_gated || nominated.is_some();
                let room = gang::Seat { is_gated, nominated, ..gang::Seat::default() };
                (Phase::Pending, is_tried.then(|| Box::new(room)))
            }
        };
        let role = Some(api::Role::Executor);
        Some(PodSummary { role, phase, seat: room, controller: None, ..pod("executor", seat) })
    };
    seats.iter().enumerate().filter_map(executor).collect()
}

fn placeholders(seats: &Seats, nodes: [u8; SEATS]) -> Vec<PodSummary> {
    let placeholder = |(seat, Seat { placeholder, .. }): (usize, &Seat)| {
        let node = Some(node_name(nodes[seat]));
        let room = gang::Seat { is_placeholder: true, node, ..gang::Seat::default() };
        let terminating = *placeholder == Placeholder::Terminating;
        let is_there = *placeholder != Placeholder::Gone;
        is_there.then(|| PodSummary { terminating, seat: Some(Box::new(room)), ..pod("placeholder", seat) })
    };
    seats.iter().enumerate().filter_map(placeholder).collect()
}

/// Returns a pod of the application. Its uid is its name, which ends in the number of the seat.
fn pod(what: &str, seat: usize) -> PodSummary {
    let name = format!("{what}-{seat}");
    PodSummary {
        uid: name.clone(),
        name,
        application: Some("pi".to_owned()),
        submission_id: Some(RUN.to_owned()),
        // Spark's numbers begin with 1.
        executor_id: Some(seat as u64 + 1),
        controller: Some(Controller {
            kind: "SparkApplication".to_owned(),
            name: "pi".to_owned(),
            uid: UID.to_owned(),
        }),
        created: Some(then()),
        ..PodSummary::default()
    }
}

fn act(action: &Action) -> Act {
    let seat = |name: &str| name.rsplit_once('-').unwrap().1.parse().unwrap();
    match action {
        Action::Nominate { name, node, .. } => Act::Nominate { seat: seat(name), node: number(node) },
        Action::Ungate { name, .. } => Act::Ungate(seat(name)),
        Action::DeletePod { name, .. } if name.starts_with("placeholder") => {
            Act::DeletePlaceholder(seat(name))
        }
        Action::DeletePod { name, .. } => Act::DeleteExecutor(seat(name)),
        other => panic!("{other:?}"),
    }
}

fn bits(exchanges: &Exchanges) -> Nodes {
    let bits = |names: &BTreeSet<String>| names.iter().map(|name| 1 << number(name)).sum();
    Nodes { trying: bits(&exchanges.trying), changing: bits(&exchanges.changing) }
}

fn node_name(node: u8) -> String {
    format!("n{node}")
}

fn number(node: &str) -> u8 {
    node[1..].parse().unwrap()
}

fn then() -> Timestamp {
    "2026-11-21T08:00:00Z".parse().unwrap()
}
