//! Shared by the crates that work for many clients and namespaces: catches panics, lets clients and namespaces take
//! turns where capacity is limited, and bounds the share that each may have.

mod panics;
mod turns;

pub use panics::{Panicked, caught, caught_now};
pub use turns::{Line, Lines, Turn, Turns};

/// Whether an owner that has `own` units of a limited resource, such as ports or connections, may get one of the `free`
/// units: only while it has fewer units than are free, so that it leaves about as many as it takes.
pub const fn may_have(own: usize, free: usize) -> bool {
    own < free
}
