//! What several parts need alike where they work for others: what a panic becomes, who is next where there is less room than
//! work, and how much of it somebody may have.

mod panics;
mod shares;
mod turns;

pub use panics::{Panicked, caught, caught_now};
pub use shares::{Share, Shares, may_have};
pub use turns::{Line, Lines, Turn, Turns};
