//! Counts how often parts of an object are looked at, if debug assertions are on: tests check that the work for an
//! object grows no faster than its size.
//!
//! The count is the same on every machine and in every run; a measured time is not. The counting functions are the few
//! through which all other code looks at lists, maps and texts of a user's object
//! ([`Embedded::json`](crate::Embedded::json) and similar), so that a loop inside a loop is found wherever it is. A
//! counting allocator would not find such a loop, because comparing takes no memory.

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<usize> = const { Cell::new(0) };
}

/// Adds `steps` to the number of parts that this thread has looked at.
pub fn took(steps: usize) {
    if cfg!(debug_assertions) {
        STEPS.set(STEPS.get() + steps);
    }
}

/// Runs `work` and returns the number of steps that it took.
pub fn of(work: impl FnOnce()) -> usize {
    let before = STEPS.get();
    work();
    STEPS.get() - before
}
