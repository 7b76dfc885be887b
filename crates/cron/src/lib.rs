//! Schedules as Kubeflow's operator reads them, and the moments at which they are due.
//!
//! [`Schedule::parse`] reads a cron expression or `@every 90m`; [`Slots`] has its moments in a time zone: the last one that is due, the next
//! one. Nothing here knows of applications, reads a clock or depends on the zones of the machine.

mod expression;
pub mod go_duration;
mod slots;

pub use expression::{Error, Rhythm, Schedule, Times, Values, Zone};
pub use slots::{Due, Slots};
