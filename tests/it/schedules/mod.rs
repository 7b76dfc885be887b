//! Does each time of a schedule have its application, once, whatever happens? The pure core, with an invented clock.

mod exploration;
mod ledger;
mod simulation;
mod stories;
mod timetable;
