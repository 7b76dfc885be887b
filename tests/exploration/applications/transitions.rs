//! Reads the transitions between the states of an application from the users' documentation. The exploration checks
//! that the documentation has exactly the transitions that happen.

use api::State;
use std::collections::BTreeSet;

/// Returns every transition that [`next`](plan::lifecycle::next) makes, according to `docs/user/applications.md`.
pub fn documented() -> BTreeSet<(State, State)> {
    let page = include_str!("../../../docs/user/applications.md");
    let diagram = page.split_once("```mermaid\n").and_then(|(_, rest)| rest.split_once("```")).unwrap().0;
    let state = |name: &str| if name == "NEW" { State::New } else { name.parse().expect(name) };
    let arrows = diagram.lines().filter_map(|line| line.trim().split_once(" --> "));
    // Each arrow has a cause, except the one to the initial state.
    let caused = arrows.filter_map(|(from, to)| Some((from, to.split_once(": ")?.0)));
    caused.map(|(from, to)| (state(from), state(to))).chain(interruptions()).collect()
}

/// Returns the transitions that a user can cause in almost every state, by suspending the application or by an edit of
/// its spec. The documentation describes them in the text below the diagram.
fn interruptions() -> impl Iterator<Item = (State, State)> {
    use State::{Completed, Failed, Invalidating, Suspended, Suspending};
    let is_suspended = |state: &State| !matches!(state, Completed | Failed | Suspended | Suspending);
    let suspended = State::ALL.into_iter().filter(is_suspended).map(|from| (from, Suspending));
    let edited = State::ALL.into_iter().filter(|state| state.has_a_run_to_edit());
    suspended.chain(edited.map(|from| (from, Invalidating)))
}
