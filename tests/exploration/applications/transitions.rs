//! Lists the transitions between the states of an application, which the documentation shows. The exploration of the whole
//! state machine checks that the list is complete and contains no other transition.

use api::State;
use std::fmt::Write;

/// A transition from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    pub from: State,
    pub to: State,
    pub when: &'static str,
}

macro_rules! transitions {
    ($($from:ident => $($to:ident: $when:literal),+;)+) => {
        /// Every transition that [`next`](plan::lifecycle::next) makes, except those by which an edit or a suspension interrupts
        /// other states: those are in [`interruptions`].
        pub const TRANSITIONS: &[Transition] =
            &[$($(Transition { from: State::$from, to: State::$to, when: $when },)+)+];
    };
}

transitions! {
    New => Submitted: "driver made", SubmissionFailed: "refused";
    Submitted => Running: "driver runs", Succeeding: "exit code 0", Failing: "exit code not 0, driver gone",
        Unknown: "phase Unknown";
    Running => Submitted: "driver starts anew", Succeeding: "exit code 0", Failing: "exit code not 0, driver gone",
        Unknown: "phase Unknown";
    Unknown => Submitted: "driver starts anew", Running: "phase Running", Succeeding: "exit code 0",
        Failing: "exit code not 0, driver gone";
    Succeeding => Completed: "no restart", PendingRerun: "restart Always";
    Failing => Failed: "no retry left", PendingRerun: "retry is due";
    SubmissionFailed => Submitted: "retry succeeds", SubmissionFailed: "retry fails", Failed: "no retry left";
    PendingRerun => Submitted: "driver made", SubmissionFailed: "refused";
    Invalidating => PendingRerun: "all pods gone";
    Suspending => Suspended: "all pods gone";
    Suspended => Resuming: "suspend false";
    Resuming => Submitted: "driver made", SubmissionFailed: "refused";
    Completed => PendingRerun: "re-run asked for";
    Failed => PendingRerun: "re-run asked for";
}

/// Returns the transitions that a user can cause in almost every state, by an edit of the spec or by suspending the
/// application.
pub fn interruptions() -> Vec<Transition> {
    use State::{Completed, Failed, Suspended, Suspending};
    let of = |to, when, applies: fn(State) -> bool| {
        State::ALL.into_iter().filter(move |state| applies(*state)).map(move |from| Transition {
            from,
            to,
            when,
        })
    };
    let suspends =
        of(Suspending, "suspend true", |state| !matches!(state, Completed | Failed | Suspended | Suspending));
    of(State::Invalidating, "spec edited", State::has_a_run_to_edit).chain(suspends).collect()
}

/// Returns the transitions of [`TRANSITIONS`] as a Mermaid diagram.
fn diagram() -> String {
    let name = |state: State| if state == State::New { "NEW" } else { state.as_str() };
    let mut diagram = String::from("stateDiagram-v2\n    [*] --> NEW\n");
    for Transition { from, to, when } in TRANSITIONS {
        writeln!(diagram, "    {} --> {}: {when}", name(*from), name(*to)).unwrap();
    }
    diagram
}

#[test]
fn the_users_page_shows_the_states_as_they_are() {
    let page = include_str!("../../../docs/user/applications.md");
    let shown = page.split_once("```mermaid\n").and_then(|(_, rest)| rest.split_once("```")).unwrap().0;
    let diagram = diagram();
    assert_eq!(shown, diagram, "docs/user/applications.md is to have:\n{diagram}");
}
