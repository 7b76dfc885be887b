//! Proves that an application runs as it should whichever of the operator's requests to the API server fails, in any
//! way.
//!
//! A [`Story`] is a sequence of actions of users and kubelets. Each story is played once undisturbed, to count the
//! requests that the operator, and the `spark-submit` in a submission pod, send for the application; then again for
//! each of these requests and each kind of fault. Two dozen stories are played at once, each with an application of its
//! own.

mod director;
mod stories;
mod world;

use super::gangs;
use crate::apiserver::prelude::*;
pub(crate) use director::Kind;
use director::{Caller, Director, Kill};
use k8s_openapi::api::events::v1::Event;
use std::{convert::Infallible, fmt, io::Write};
pub(crate) use stories::Story;
use tokio::sync::mpsc;
use world::World;

/// The number of stories that are played at once.
const AT_ONCE: usize = 24;
/// How long to wait at the end of a story for faults in the last requests, which only send events.
const TRAILING: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(25);
/// The number of planned faults that may be missing (or one in twenty, if that is more): those at the last requests of
/// a story.
const MISSING: usize = 4;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn natively_an_application_runs_once_whichever_request_fails() {
    tell_all("faults", None, slice).await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn with_the_stand_in_an_application_runs_once_whichever_request_fails() {
    tell_all("faults-stand-in", Some(&stand_in()), |_, calls| in_turn(calls, 13)).await;
}

/// Returns the faults for which `make test` has time; `make soak` has all of them. In the story `Success` each kind of
/// fault happens to every eleventh request, so that most requests have a fault; in the other stories every fifth
/// request has a fault, of alternating kinds.
fn slice(story: Story, calls: usize) -> Vec<Vec<(usize, Kind)>> {
    match story {
        Story::Success => singly(calls, &Kind::ALL).into_iter().step_by(11).collect(),
        _ => in_turn(calls, 5),
    }
}

/// Returns one list for every `step`-th request, with a single fault; the kinds alternate.
fn in_turn(calls: usize, step: usize) -> Vec<Vec<(usize, Kind)>> {
    (1..=calls).step_by(step).zip(Kind::ALL.into_iter().cycle()).map(|fault| vec![fault]).collect()
}

/// Returns one list for each request and kind, with this single fault.
pub(crate) fn singly(calls: usize, kinds: &[Kind]) -> Vec<Vec<(usize, Kind)>> {
    (1..=calls).flat_map(|n| kinds.iter().map(move |kind| vec![(n, *kind)])).collect()
}

/// The environment in which stories are played.
struct Stage<'a> {
    namespace: &'a Namespace,
    director: Director,
    world: World<'a>,
    by_spark_submit: bool,
}

/// A result that a story must not have.
enum Trouble {
    Doubled(String),
    Stuck(String),
    Wrong(String),
}

/// A story with its faults, each with the number of its request.
struct Case {
    name: String,
    story: Story,
    faults: Vec<(usize, Kind)>,
}

/// Plays every story with each list of faults that `faults` returns for the story and the number of its requests;
/// natively, or with the `spark-submit` in `spark_home`, which runs in submission pods.
pub(crate) async fn tell_all(
    namespace: &'static str,
    spark_home: Option<&Path>,
    faults: impl Fn(Story, usize) -> Vec<Vec<(usize, Kind)>>,
) {
    let begun = Instant::now();
    let _rights = granted(gangs::VOLCANO_RBAC);
    let _definitions = gangs::group_definitions();
    let namespace = Namespace::new(namespace).await;
    let proxy = Proxy::start().await;
    let (director, mut kills) = Director::new();
    proxy.guarded_by(director.guard(Caller::Operator));
    let by_spark_submit = spark_home.is_some();
    let pods_proxy = Proxy::start().await;
    pods_proxy.guarded_by(director.guard(Caller::SparkSubmit));
    let _node = match spark_home {
        Some(home) => Some(SubmissionNode::of(&namespace, home).through(&pods_proxy).start().await),
        None => None,
    };
    let world = World::follow(&namespace, by_spark_submit);
    let stage = Stage { namespace: &namespace, director, world, by_spark_submit };
    let setup = || {
        // UI Services are created in the background in any order, so that their requests could not be numbered.
        let setup = Operator::with(&namespace)
            .through(&proxy)
            .argument("--enable-ui-service=false")
            .argument(gangs::ENABLED);
        if by_spark_submit { setup.by_spark_submit() } else { setup.argument("--submitter=native") }
    };

    let operator = setup().start().await;
    let told = async {
        let undisturbed =
            Story::ALL.into_iter().enumerate().map(|(i, story)| stage.case(i, story, Vec::new()));
        let mut calls = Vec::new();
        let mut troubles = Vec::new();
        for case in undisturbed.collect::<Vec<_>>() {
            troubles.extend(stage.play(&case).await);
            calls.push((case.story, stage.director.calls(&case.name).len()));
        }
        let lists = calls
            .iter()
            .flat_map(|(story, n)| faults(*story, *n).into_iter().map(move |list| (*story, list)));
        let cases: Vec<_> = lists
            .enumerate()
            .map(|(i, (story, list))| stage.case(Story::ALL.len() + i, story, list))
            .collect();
        stage.world.expect(cases.iter().map(|case| case.faults.len()).max().unwrap_or_default());
        let others: Vec<_> =
            stream::iter(&cases).map(|case| stage.play(case)).buffer_unordered(AT_ONCE).collect().await;
        troubles.extend(others.into_iter().flatten());
        troubles.extend(stage.left_behind().await);
        let injected: usize = cases.iter().map(|case| stage.director.injected(&case.name).0).sum();
        let planned: usize = cases.iter().map(|case| case.faults.len()).sum();
        (injected, planned, calls, troubles)
    };
    let (injected, planned, calls, troubles) = tokio::select! {
        told = told => told,
        never = restarted(operator, setup, &mut kills) => match never {},
    };

    let count = |is: fn(&Trouble) -> bool| troubles.iter().filter(|(_, trouble)| is(trouble)).count();
    let report = format!(
        "faults: {injected} injected over {} calls of {} stories: {} doubled, {} stuck, {} wrong ({}, {} s)\n",
        calls.iter().map(|(_, calls)| calls).sum::<usize>(),
        calls.len(),
        count(|trouble| matches!(trouble, Trouble::Doubled(_))),
        count(|trouble| matches!(trouble, Trouble::Stuck(_))),
        count(|trouble| matches!(trouble, Trouble::Wrong(_))),
        namespace.name,
        begun.elapsed().as_secs(),
    );
    // Written directly, so that the report is shown even where the output of tests is captured.
    io::stderr().write_all(report.as_bytes()).unwrap();
    assert!(
        troubles.is_empty(),
        "{}",
        troubles.iter().map(|(case, trouble)| format!("{case}: {trouble}\n")).collect::<String>()
    );
    // The number of requests in a story depends a little on timing, so that some faults may not happen.
    let missing = planned - injected;
    assert!(missing <= MISSING.max(planned / 20), "only {injected} of {planned} faults have happened");
}

/// Kills the operator at each of `kills`, and starts another one.
async fn restarted<'a>(
    mut operator: Operator,
    setup: impl Fn() -> Setup<'a>,
    kills: &mut mpsc::UnboundedReceiver<Kill>,
) -> Infallible {
    loop {
        let Kill { caller, call } = kills.recv().await.expect("the director has the other end");
        // The program that sent the request may have been killed meanwhile, at another request.
        let Ok(held) = call.await else { continue };
        operator.kill();
        match caller {
            Caller::Operator => held.close(),
            // Submission pods outlive the operator.
            Caller::SparkSubmit => held.release(),
        }
        operator = setup().spawn();
    }
}

impl Stage<'_> {
    fn case(&self, number: usize, story: Story, faults: Vec<(usize, Kind)>) -> Case {
        let name = director::name(number);
        self.director.arm(&name, &faults);
        Case { name, story, faults }
    }

    /// Plays a story; returns its trouble, if there is any.
    async fn play(&self, case: &Case) -> Option<(String, Trouble)> {
        let name = &case.name;
        let mut told = case.story.tell(self, name).await;
        if told.is_ok() {
            let begun = Instant::now();
            while self.director.injected(name).1 > 0 && begun.elapsed() < TRAILING {
                sleep(PAUSE).await;
            }
            told = case.story.judge(self, name).await;
        }
        if told.is_ok() && case.story != Story::DeleteWhileSubmitting {
            self.delete(name).await;
        }
        told.err().map(|trouble| {
            (
                format!(
                    "{name} ({:?}, {:?})\n{}",
                    case.story,
                    case.faults,
                    self.director.calls(name).join("\n")
                ),
                trouble,
            )
        })
    }

    /// Returns the objects without an owner that remain once the applications are gone: no controller would delete
    /// them.
    async fn left_behind(&self) -> Vec<(String, Trouble)> {
        sleep(TRAILING).await;
        let (pods, services) = (self.namespace.list::<Pod>().await, self.namespace.list::<Service>().await);
        let config_maps = self.namespace.list::<ConfigMap>().await;
        let all = pods.into_iter().chain(services).chain(config_maps);
        let is_left = |object: &Value| {
            object["metadata"]["ownerReferences"].is_null()
                && object["metadata"]["name"] != "kube-root-ca.crt"
        };
        let trouble = |object: Value| {
            (object["metadata"]["name"].to_string(), Trouble::Wrong("is left behind".to_owned()))
        };
        let left = all.filter(is_left).map(trouble).collect();
        // Otherwise the next test would have to delete thousands of objects first.
        self.namespace.clear::<Pod>().await;
        self.namespace.clear::<Service>().await;
        self.namespace.clear::<ConfigMap>().await;
        self.namespace.clear::<Event>().await;
        left
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Doubled(what) => write!(f, "doubled: {what}"),
            Self::Stuck(what) => write!(f, "stuck: {what}"),
            Self::Wrong(what) => write!(f, "wrong: {what}"),
        }
    }
}
