//! Counts how often parts of an object are read, if debug assertions are on, so that tests can check that the work for
//! an object grows no faster than its size.
//!
//! Unlike a measured time, the count is the same on every machine and in every test run. The functions that count are
//! the few through which all other code reads lists, maps and texts of a user's object
//! ([`Embedded::json`](crate::Embedded::json) and similar), so that a loop inside a loop is found in any place. A
//! counting allocator would not find such a loop, because comparing takes no memory.

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<usize> = const { Cell::new(0) };
}

/// Adds `steps` to the count of this thread.
pub fn took(steps: usize) {
    if cfg!(debug_assertions) {
        STEPS.set(STEPS.get() + steps);
    }
}

/// Runs `work` and returns the number of steps that it has counted.
pub fn of(work: impl FnOnce()) -> usize {
    let before = STEPS.get();
    work();
    STEPS.get() - before
}
