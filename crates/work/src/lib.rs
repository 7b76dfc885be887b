//! What controller and webhook need alike where they work on objects that others have written: what a panic becomes, and
//! who is next where there is less room than work.

mod panics;
mod turns;

pub use panics::{Panicked, caught, caught_now};
pub use turns::{Line, Lines, Turn, Turns};
