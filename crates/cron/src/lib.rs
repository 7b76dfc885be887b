//! Reads schedules as Kubeflow's operator does, and computes when they are due.
//!
//! [`Schedule::parse`] parses a cron expression or `@every 90m`. [`Slots`] computes the due times of a schedule in a
//! time zone: the latest one that has passed, and the next one. This crate knows no applications, reads no clock, and
//! does not use the time zones of the machine.

mod expression;
pub mod go_duration;
mod slots;

pub use expression::{Error, Rhythm, Schedule, Times, Values, Zone};
pub use slots::{Due, Slots};
