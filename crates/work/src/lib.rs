//! Shared by the crates that work for many clients and namespaces: catches panics, lets clients and namespaces take
//! turns where capacity is limited, bounds the share that each may have, and registers metrics.

mod panics;
mod turns;

pub use panics::{Panicked, caught, caught_now};
use prometheus_client::registry::{Metric, Registry};
pub use turns::{Line, Lines, Turn, Turns};

/// Whether an owner that has `own` units of a limited resource, such as ports or connections, may get one of the `free`
/// units: only while it has fewer units than are free, so that it leaves about as many as it takes.
pub const fn may_have(own: usize, free: usize) -> bool {
    own < free
}

/// Registers `metric` in `registry` under `name`, and returns it. The registry keeps a clone, which shares its values.
pub fn metric<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}
