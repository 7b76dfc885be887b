//! Tests what is remembered between two decisions about executors that take the room of placeholders.

use api::names::batch_scheduler::GATE;
use jiff::{SignedDuration, Timestamp};
use plan::{
    Action, Observed, Plan, PodPatch,
    gang::{Blocker, ExchangeMemory, Exchanges, Wait, Waits},
    pod_summary::PodSummary,
};
use serde_json::{Value, from_value, json};

/// An executor that was created long before the operator started has as much time as any other. One that blocks others
/// does so for a minute, even if it stays for longer.
#[test]
fn times_count_from_the_moment_in_which_the_process_first_sees_a_pod() {
    let mut memory = ExchangeMemory::default();
    let executor = || executor("e1", &json!({"gate": GATE}));
    let blocked = Exchanges { to_be_placed: ["n1".to_owned()].into(), ..Exchanges::default() };
    let free = Exchanges::default();
    for (second, exchanges) in [(0, &blocked), (59, &blocked), (60, &free), (3600, &free)] {
        let seen = decided(&mut memory, vec![executor()], vec![blocker("b1", "n1")], second, &[]);
        assert_eq!(seen.waits, waits("e1", 0, None), "{second}");
        assert_eq!(seen.exchanges_of_others, *exchanges, "{second}");
    }
    // One that comes later blocks for a minute of its own, and one that is gone is forgotten.
    let seen = decided(&mut memory, vec![executor()], vec![blocker("b2", "n1")], 3601, &[]);
    assert_eq!(seen.exchanges_of_others, blocked);
    assert_eq!(memory.blockers.keys().collect::<Vec<_>>(), ["b2"]);
    // So is an executor that has no gate any more.
    let seen = decided(&mut memory, Vec::new(), Vec::new(), 3602, &[]);
    assert_eq!((seen.waits, memory.blockers.len()), (Waits::default(), 0));
}

#[test]
fn a_nomination_counts_from_its_decision_on_for_its_own_application_and_for_others() {
    let mut memory = ExchangeMemory::default();
    let gated = || executor("e1", &json!({"gate": GATE}));
    let patch = PodPatch::Status(json!({"status": {"nominatedNodeName": "n1"}}));
    let nominate = Action::PatchPod { name: "e1".to_owned(), uid: "e1".to_owned(), patch };
    decided(&mut memory, vec![gated()], Vec::new(), 0, &[nominate]);
    let seen = decided(&mut memory, vec![gated()], Vec::new(), 1, &[]);
    assert_eq!(seen.waits, waits("e1", 0, Some("n1")));
    let of_other = |memory: &mut ExchangeMemory| {
        let mut seen = Observed::default();
        drop(memory.decide("other", &mut seen, Vec::new(), at(2), |_| plan(&[])));
        seen.exchanges_of_others.under_way.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(of_other(&mut memory), ["n1"]);
    // The watch reports it.
    let reported = executor("e1", &json!({"gate": GATE, "nominated": "n1"}));
    let seen = decided(&mut memory, vec![reported], Vec::new(), 3, &[]);
    assert_eq!(seen.waits, waits("e1", 0, None));
    assert_eq!(of_other(&mut memory), Vec::<String>::new());
}

/// Returns what the decision core sees of an application with these executors while pods of others block them, when it
/// decides on `actions`.
fn decided(
    memory: &mut ExchangeMemory,
    executors: Vec<PodSummary>,
    others: Vec<Blocker>,
    second: i64,
    actions: &[Action],
) -> Observed {
    let mut seen = Observed { executors, ..Observed::default() };
    drop(memory.decide("own", &mut seen, others, at(second), |_| plan(actions)));
    seen
}

fn plan(actions: &[Action]) -> Plan {
    Plan {
        actions: actions.to_vec(),
        status: api::SparkApplicationStatus::default(),
        events: Vec::new(),
        auxiliary: Vec::new(),
        wake: None,
    }
}

fn executor(uid: &str, placement: &Value) -> PodSummary {
    from_value(json!({
        "name": uid, "uid": uid, "role": "executor", "created": "2020-01-01T00:00:00Z",
        "particulars": {"placement": placement},
    }))
    .unwrap()
}

fn blocker(uid: &str, node: &str) -> Blocker {
    Blocker { uid: uid.to_owned(), node: node.to_owned(), is_to_be_placed: true }
}

fn waits(uid: &str, since: i64, nominated: Option<&str>) -> Waits {
    let wait = Wait { since: at(since), nominated: nominated.map(str::to_owned) };
    Waits([(uid.to_owned(), wait)].into())
}

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
}
