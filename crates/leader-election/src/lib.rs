//! Elects the process that reconciles applications, by a Lease and as client-go does.
//!
//! [`lease`] decides, for one candidate, what to do next; [`Leadership`] reads and writes the Lease, and runs the work
//! of the leader only while this process holds it.

mod leadership;
mod lease;

pub use leadership::Leadership;
pub use lease::Timing;
