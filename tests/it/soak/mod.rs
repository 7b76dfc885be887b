//! What takes too long for `make test`? The same as there for longer, and chance. Each test prints what came
//! of it.
//!
//! ```text
//! cargo test --test it -- --ignored --test-threads=1 --nocapture soak::
//! ```

#![expect(clippy::print_stdout, reason = "somebody waits for it, and wants to know what came of it")]

/// The API server is away for a minute.
mod away;
/// Every call goes wrong, in every way.
mod faults;
/// The operator is killed at random moments.
mod kills;
/// Many of the largest applications.
mod large;
/// Certificates are replaced all the time.
mod rotation;
/// Thousands of schedules at once.
mod schedules;
/// Many applications are looked at.
mod screen;
/// The real `spark-submit` of each line of Spark.
mod spark_lines;
/// Many applications of many tenants.
mod tenants;
