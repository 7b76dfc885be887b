//! Calls the decision core (`crates/plan`) once for each input and keeps the results, because the model often needs the
//! same decision.

use super::{mutation::Mutation, world::*};
use crate::template;
use api::{
    SparkApplication,
    names::{batch_scheduler, role},
};
use batch_schedulers::{BatchSchedulers, Blocker, ExchangeMemory, Wait, Waits};
use jiff::{SignedDuration, Timestamp};
use plan::{
    Action, Driver, Observed, PodPatch, Policy,
    extension::{ExtensionMemory, only},
    lifecycle,
};
use pods::{Controller, Particulars, Phase, Placement, PodSummary};
use serde_json::json;
use std::{array, collections::HashMap, time::Duration};

const UID: &str = "6c1f0b5e-0000-4000-8000-000000000001";
/// The uid of the other application.
const OTHER: &str = "6c1f0b5e-0000-4000-8000-000000000002";
const RUN: &str = "run-1";

/// The input of a decision: what the operator knows of the application that it decides about and of the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    pub own: Known,
    pub other: Known,
    pub elapsed: Elapsed,
}

/// An application as the operator knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Known {
    pub pairs: Pairs,
    /// The nodes of the placeholders.
    pub nodes: [u8; PAIRS],
    pub nominations: Nominated,
}

/// The result of a decision, as the model represents it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub acts: Vec<Act>,
    pub nominations: Nominated,
    pub wake: Wake,
}

/// An action on the executor or the placeholder of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Nominate { pair: usize, node: u8 },
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
            "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication",
            "metadata": {"name": "pi", "namespace": "default", "uid": UID, "generation": 1},
            "spec": template(),
            "status": {
                "applicationState": {"state": "RUNNING"}, "submissionID": RUN, "runOrdinal": 1,
                "driverInfo": {"podName": "pi-driver"},
            },
        });
        let extensions = only(BatchSchedulers::off());
        Self {
            application: serde_json::from_value(application).unwrap(),
            policy: Policy { extensions, ..Policy::new("k8s://https://10.0.0.1:443") },
            mutation,
            answers: Vec::new(),
            known: HashMap::new(),
        }
    }

    pub fn answer(&self, number: u32) -> &Answer {
        &self.answers[number as usize]
    }

    /// Returns the number of the result for this input: see [`Self::answer`].
    pub fn ask(&mut self, question: &Question) -> u32 {
        if let Some(number) = self.known.get(question) {
            return *number;
        }
        let now = then()
            + match question.elapsed {
                Elapsed::Nothing => SignedDuration::ZERO,
                Elapsed::Patience => SignedDuration::from_secs(90),
                Elapsed::Turn => SignedDuration::from_secs(150),
                Elapsed::Exchange => SignedDuration::from_mins(4),
                Elapsed::Wait => SignedDuration::from_mins(11),
            };
        let next = |seen: &Observed| {
            let mut seen = seen.clone();
            if let Some(mutation) = self.mutation {
                mutation.of_question(&mut seen);
            }
            let mut plan = lifecycle::next(&self.application, &seen, now, &self.policy);
            if let Some(mutation) = self.mutation {
                mutation.of_plan(&mut plan);
            }
            plan
        };
        let mut seen = observed(&question.own);
        let known = [(UID, question.own), (OTHER, question.other)];
        let others = pods(&question.other);
        let blockers = Blocker::among(others.iter()).into_iter().map(|blocker| (blocker.uid, then()));
        // All objects were first seen at the beginning.
        let mut memory = ExchangeMemory {
            waits: known.map(|(uid, known)| (uid.to_owned(), waits(&known))).into(),
            blockers: blockers.collect(),
        };
        let others = others.iter().collect::<Vec<_>>();
        let is_noted = memory.recall(UID, &mut seen, &|each| each(&others), now);
        let plan = next(&seen);
        if is_noted {
            memory.note(UID, &plan.actions);
        }
        let is_forgotten = self.mutation == Some(Mutation::DecisionsForgotten);
        let remembered = memory.waits.get(UID).filter(|_| !is_forgotten);
        let wake = match plan.wake {
            None => Wake::Never,
            Some(wake) if wake <= Duration::from_secs(1) => Wake::Soon,
            Some(_) => Wake::Later,
        };
        let acts = plan.actions.iter().map(act).collect();
        self.answers.push(Answer { acts, nominations: remembered.map_or([None; PAIRS], nominated), wake });
        let number = u32::try_from(self.answers.len() - 1).unwrap();
        self.known.insert(*question, number);
        number
    }
}

/// Returns the operator's memory of an application. All executors have waited since the beginning.
fn waits(known: &Known) -> Waits {
    let wait = |number: usize| {
        let nominated = known.nominations[number].map(node_name);
        let is_known = nominated.is_some() || known.pairs[number].executor.is_gated();
        is_known.then(|| (pod("executor", number).uid, Wait { since: then(), nominated }))
    };
    (0..PAIRS).filter_map(wait).collect()
}

fn nominated(waits: &Waits) -> Nominated {
    array::from_fn(|number| {
        let wait = waits.get(&pod("executor", number).uid)?;
        wait.nominated.as_deref().map(self::number)
    })
}

fn pods(known: &Known) -> Vec<PodSummary> {
    executors(&known.pairs).into_iter().chain(placeholders(&known.pairs, known.nodes)).collect()
}

fn observed(known: &Known) -> Observed {
    let driver = PodSummary {
        name: "pi-driver".to_owned(),
        role: Some(api::Role::Driver),
        phase: Phase::Running,
        started: true,
        assigned: Some(then()),
        ..pod("driver", 0)
    };
    Observed {
        driver: Driver::Pod { pod: Box::new(driver), complete: true },
        executors: executors(&known.pairs),
        others: placeholders(&known.pairs, known.nodes),
        made: true,
        defaults: Some(String::new()),
        ..Observed::default()
    }
}

fn executors(pairs: &Pairs) -> Vec<PodSummary> {
    let executor = |(number, Pair { executor, .. }): (usize, &Pair)| {
        let (phase, placement) = match *executor {
            Executor::Unborn | Executor::Deleted => return None,
            Executor::Placed(_) => (Phase::Running, None),
            Executor::Waiting { is_gated, nominated } => {
                let nominated = nominated.map(node_name);
                let is_tried = is_gated || nominated.is_some();
                let gate = is_gated.then(|| batch_scheduler::GATE.to_owned());
                (Phase::Pending, is_tried.then(|| Placement { gate, nominated, ..Placement::default() }))
            }
        };
        let role = Some(api::Role::Executor);
        let particulars = placement.map(|placement| particulars(None, placement));
        Some(PodSummary { role, phase, particulars, controller: None, ..pod("executor", number) })
    };
    pairs.iter().enumerate().filter_map(executor).collect()
}

fn placeholders(pairs: &Pairs, nodes: [u8; PAIRS]) -> Vec<PodSummary> {
    let placeholder = |(number, Pair { placeholder, .. }): (usize, &Pair)| {
        let node = Some(node_name(nodes[number]));
        let particulars = particulars(Some(role::PLACEHOLDER), Placement { node, ..Placement::default() });
        let terminating = *placeholder == Placeholder::Terminating;
        let is_there = *placeholder != Placeholder::Gone;
        is_there.then(|| PodSummary {
            terminating,
            particulars: Some(particulars),
            ..pod("placeholder", number)
        })
    };
    pairs.iter().enumerate().filter_map(placeholder).collect()
}

fn particulars(role: Option<&str>, placement: Placement) -> Box<Particulars> {
    let role = role.map(str::to_owned);
    Box::new(Particulars { role, placement: Some(placement), ..Particulars::default() })
}

/// Returns a pod of the application. Its uid is its name, which ends in the number of the pair.
fn pod(what: &str, number: usize) -> PodSummary {
    let name = format!("{what}-{number}");
    PodSummary {
        uid: name.clone(),
        name,
        application: Some("pi".to_owned()),
        submission_id: Some(RUN.to_owned()),
        // Spark numbers executors from 1.
        executor_id: Some(number as u64 + 1),
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
    let pair = |name: &str| name.rsplit_once('-').unwrap().1.parse().unwrap();
    match action {
        Action::PatchPod { name, patch: PodPatch::Status(patch), .. } => {
            let node = patch["status"]["nominatedNodeName"].as_str().unwrap();
            Act::Nominate { pair: pair(name), node: number(node) }
        }
        Action::PatchPod { name, patch: PodPatch::Spec(_), .. } => Act::Ungate(pair(name)),
        Action::DeletePod { name, .. } if name.starts_with("placeholder") => {
            Act::DeletePlaceholder(pair(name))
        }
        Action::DeletePod { name, .. } => Act::DeleteExecutor(pair(name)),
        other => panic!("{other:?}"),
    }
}

fn node_name(node: u8) -> String {
    format!("n{node}")
}

fn number(node: &str) -> u8 {
    node[1..].parse().unwrap()
}

/// Returns 2026-11-21T08:00:00Z.
const fn then() -> Timestamp {
    Timestamp::constant(1_795_248_000, 0)
}
