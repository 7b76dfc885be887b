//! Counts how often parts of an object are looked at, where debug assertions are on: tests hold the work for an object to what grows
//! with its size.
//!
//! The count is the same on every machine and in every run, which a time is not. What is counted are the few functions through
//! which all others look at lists, maps and texts of a user's ([`Embedded::json`](crate::Embedded::json) and the like), so
//! that a loop inside a loop is seen wherever it stands. A counting allocator would not see it: to compare takes no memory.

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<usize> = const { Cell::new(0) };
}

/// So many parts are looked at.
pub fn took(steps: usize) {
    if cfg!(debug_assertions) {
        STEPS.set(STEPS.get() + steps);
    }
}

/// The steps that `work` takes.
pub fn of(work: impl FnOnce()) -> usize {
    let before = STEPS.get();
    work();
    STEPS.get() - before
}
