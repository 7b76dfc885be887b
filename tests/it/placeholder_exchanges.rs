//! Tests what the operator remembers between two reconciles about executors that wait for the room of placeholders.

use crate::prelude::*;
use api::names::batch_scheduler::GATE;
use batch_schedulers::{ExchangeMemory, Exchanges, Recalled, Wait, Waits};
use plan::{Action, Observed, PodPatch, extension::ExtensionMemory};
use serde_json::from_value;

/// An executor that was created long before the operator started may wait as long as any other. An executor of another
/// application that is to be placed on a node blocks that node for a minute, even if it exists for longer.
#[test]
fn waiting_times_begin_when_the_process_first_sees_a_pod() {
    let mut memory = ExchangeMemory::default();
    let blocked = Exchanges { to_be_placed: ["n1".to_owned()].into(), ..Exchanges::default() };
    let free = Exchanges::default();
    for (second, exchanges) in [(0, &blocked), (59, &blocked), (60, &free), (3600, &free)] {
        let recalled = decided(&mut memory, gated("e1"), &[blocker("b1", "n1")], second, &[]).unwrap();
        assert_eq!(recalled.waits, waits("e1", 0, None), "{second}");
        assert_eq!(recalled.of_others, *exchanges, "{second}");
    }
    // A later one blocks for a minute of its own, and one that is gone is forgotten.
    let recalled = decided(&mut memory, gated("e1"), &[blocker("b2", "n1")], 3601, &[]).unwrap();
    assert_eq!(recalled.of_others, blocked);
    assert_eq!(memory.blockers.keys().collect::<Vec<_>>(), ["b2"]);
    // An executor whose gate is gone is forgotten as well.
    let recalled = decided(&mut memory, gated("e2"), &[], 3602, &[]).unwrap();
    assert_eq!((recalled.waits, memory.blockers.len()), (waits("e2", 3602, None), 0));
    assert_eq!(decided(&mut memory, executor("e2", &json!({})), &[], 3603, &[]), None);
    assert_eq!(memory, ExchangeMemory::default());
}

#[test]
fn a_nomination_counts_for_all_applications_as_soon_as_it_is_decided() {
    let mut memory = ExchangeMemory::default();
    let patch = PodPatch::Status(json!({"status": {"nominatedNodeName": "n1"}}));
    let nominate = Action::PatchPod { name: "e1".to_owned(), uid: "e1".to_owned(), patch };
    decided(&mut memory, gated("e1"), &[], 0, &[nominate]);
    let recalled = decided(&mut memory, gated("e1"), &[], 1, &[]).unwrap();
    assert_eq!(recalled.waits, waits("e1", 0, Some("n1")));
    let of_other = |memory: &mut ExchangeMemory| {
        let recalled = recall(memory, "other", gated("e9"), &[], 2).unwrap();
        recalled.of_others.under_way.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(of_other(&mut memory), ["n1"]);
    // The watch reports the nomination.
    let reported = executor("e1", &json!({"gate": GATE, "nominated": "n1"}));
    let recalled = decided(&mut memory, reported, &[], 3, &[]).unwrap();
    assert_eq!(recalled.waits, waits("e1", 0, None));
    assert_eq!(of_other(&mut memory), Vec::<String>::new());
}

/// Returns what is recalled for the application `own` with this executor while `others`, pods of other applications,
/// may block it. Then notes `actions` as decided.
fn decided(
    memory: &mut ExchangeMemory,
    executor: PodSummary,
    others: &[PodSummary],
    second: i64,
    actions: &[Action],
) -> Option<Recalled> {
    let recalled = recall(memory, "own", executor, others, second);
    memory.note("own", actions);
    recalled
}

fn recall(
    memory: &mut ExchangeMemory,
    uid: &str,
    executor: PodSummary,
    others: &[PodSummary],
    second: i64,
) -> Option<Recalled> {
    let mut seen = Observed { executors: vec![executor], ..Observed::default() };
    let others = others.iter().collect::<Vec<_>>();
    let is_noted = memory.recall(uid, &mut seen, &|each| each(&others), at(second));
    assert_eq!(is_noted, seen.recalled::<Recalled>().is_some());
    seen.recalled().cloned()
}

fn gated(uid: &str) -> PodSummary {
    executor(uid, &json!({"gate": GATE}))
}

fn executor(uid: &str, placement: &Value) -> PodSummary {
    from_value(json!({
        "name": uid, "uid": uid, "role": "executor", "created": "2020-01-01T00:00:00Z",
        "particulars": {"placement": placement},
    }))
    .unwrap()
}

/// Returns an executor of another application that is to be placed on `node`.
fn blocker(uid: &str, node: &str) -> PodSummary {
    executor(uid, &json!({"nominated": node}))
}

fn waits(uid: &str, since: i64, nominated: Option<&str>) -> Waits {
    let wait = Wait { since: at(since), nominated: nominated.map(str::to_owned) };
    [(uid.to_owned(), wait)].into()
}

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
}
