//! Tests that take too long for `make test`: the same tests for longer, and tests with random events. Each test prints
//! its result.
//!
//! ```text
//! cargo test --test it -- --ignored --test-threads=1 --nocapture soak::
//! ```

#![expect(clippy::print_stdout, reason = "the printed results are what `make soak` is for")]

/// Other programs' own code that submits applications and follows them.
mod clients;
/// The gateway of SparkConnects, between a client and a server.
mod connect;
/// Thousands of schedules at once.
mod due_at_once;
/// A tenant's waiting time beside another tenant who creates as much work as possible.
mod fairness;
/// Every request fails, in every way.
mod faults;
/// Kubernetes' own gangs.
pub(crate) mod gangs;
/// The operator is killed at random times.
mod kills;
/// Many applications of the largest size.
mod large;
/// A server of Spark Connect with Spark 3.5.
mod older_connect;
/// The API server is unreachable for a minute.
mod outage;
/// The page has many rows and many callers.
mod page;
/// The operator is killed while executors of Kubernetes' own gangs take the room of their placeholders.
mod placeholders;
/// Certificates are replaced all the time.
mod rotation;
/// The real `spark-submit` of each Spark line.
mod spark_lines;
/// The web UI of another Spark line, behind the page.
mod spark_ui;
/// Many applications are listed and shown.
mod sparkctl_cost;
/// Kubeflow's chart is replaced by this one.
mod switch;
/// Many applications of many tenants.
mod tenants;
/// The token of a server of Spark Connect.
mod token;
/// An operator of an earlier commit is replaced by this one, and back.
mod upgrade;
