//! Reads schedules as Kubeflow's operator does, and computes the moments at which they are due.
//!
//! [`Schedule::parse`] reads a cron expression or `@every 90m`. [`Slots`] computes the moments of a schedule in a time
//! zone: the last moment that is due, and the next one. Nothing here knows applications, reads a clock or depends on
//! the zones of the machine.

mod expression;
pub mod go_duration;
mod slots;

pub use expression::{Error, Rhythm, Schedule, Times, Values, Zone};
pub use slots::{Due, Slots};
