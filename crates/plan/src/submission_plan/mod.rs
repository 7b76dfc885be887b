//! Plans the submission of a run: who submits it, with which objects, and which objects it may leave behind.

mod choice;
mod leftovers;

pub use choice::{Chosen, Submitter, choose};
pub use leftovers::children;
