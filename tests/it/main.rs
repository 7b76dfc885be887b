//! Contains all integration tests in one binary, so that linking happens only once.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

/// The allocator of the operator, since `make bench` measures the webhook and the plans in this process.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod apiserver;
mod architecture;
mod audit;
mod background;
mod bench;
mod budget;
mod characters;
mod choice;
mod clients;
mod compilation;
mod connect;
mod connections;
mod crds;
mod ctl;
mod customization;
mod dashboards;
mod deletion;
mod docs;
mod edits;
mod exposure;
mod extensions;
mod failure;
mod finally;
mod fuzz;
mod fuzzed;
#[cfg(feature = "batch-schedulers")]
mod gang;
mod gateway;
mod golden;
mod java_properties;
mod leftovers;
mod lifecycle;
mod manifests;
mod module_cycles;
mod monitoring;
mod native;
mod node;
#[cfg(feature = "batch-schedulers")]
mod placeholder_exchanges;
mod prelude;
mod program;
mod quota;
mod random_pods;
mod recorded_reviews;
mod recordings;
mod rendered_connects;
#[cfg(feature = "batch-schedulers")]
mod rendered_gangs;
mod reviews;
mod schedules;
mod soak;
mod start;
mod stored;
mod submission;
mod submission_pod;
mod tmux;
mod uploads;
mod validation;
mod webhook;
