//! Reads the transitions between the states of an application from the page that shows them to users. The exploration of
//! the whole state machine checks that the page has all of them and no other.

use api::State;
use std::collections::BTreeSet;

/// Returns every transition that [`next`](plan::lifecycle::next) makes, according to the page.
pub fn documented() -> BTreeSet<(State, State)> {
    let page = include_str!("../../../docs/user/applications.md");
    let diagram = page.split_once("```mermaid\n").and_then(|(_, rest)| rest.split_once("```")).unwrap().0;
    let state = |name: &str| if name == "NEW" { State::New } else { name.parse().expect(name) };
    let arrows = diagram.lines().filter_map(|line| line.trim().split_once(" --> "));
    // Each has a cause, but for the beginning.
    let caused = arrows.filter_map(|(from, to)| Some((from, to.split_once(": ")?.0)));
    caused.map(|(from, to)| (state(from), state(to))).chain(interruptions()).collect()
}

/// Returns the transitions that a user can cause in almost every state, by suspending the application or by an edit of
/// its spec. The page has them below the diagram, in words.
fn interruptions() -> impl Iterator<Item = (State, State)> {
    use State::{Completed, Failed, Invalidating, Suspended, Suspending};
    let is_suspended = |state: &State| !matches!(state, Completed | Failed | Suspended | Suspending);
    let suspended = State::ALL.into_iter().filter(is_suspended).map(|from| (from, Suspending));
    let edited = State::ALL.into_iter().filter(|state| state.has_a_run_to_edit());
    suspended.chain(edited.map(|from| (from, Invalidating)))
}
