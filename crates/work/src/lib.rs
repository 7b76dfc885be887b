//! What several parts need alike where they work for others: what a panic becomes, who is next where there is less room than
//! work, and whether somebody may have more of it.

mod panics;
mod turns;

pub use panics::{Panicked, caught, caught_now};
pub use turns::{Line, Lines, Turn, Turns};

/// Whether an owner of `own` places may have one more, while so many are `free`: each takes at most as many as it leaves.
pub const fn may_have(own: usize, free: usize) -> bool {
    own < free
}
