//! The program `spark-operator`: its settings, the checks of its installation, its ports, and `run`, which runs all
//! parts in one process. The parts are crates in `crates/`:
//!
//! | crate | what | uses |
//! |---|---|---|
//! | `api` | what users write: kinds, names, defaults, quantities | none of them |
//! | `client` | applications in a cluster, for other programs: build, submit, follow | `api` |
//! | `cron` | cron schedules, and the times at which they are due | none of them |
//! | `spark-client` | the objects that Spark's own submission client creates | `api` |
//! | `pod-customization` | changes a pod as its annotations say | `api` |
//! | `plan` | decisions: pure functions from observations to actions and a status | the ones above, without `client` |
//! | `watches` | which watches of the API server there are, and whether each is alive | none of them |
//! | `certificates` | the webhook's certificates: when to renew them; how to create, share and trust them | `api`, `watches` |
//! | `leader-election` | which of several processes or operators drives applications | `api` |
//! | `work` | confines a panic to the object under work, and lets clients and namespaces take turns | none of them |
//! | `connect-gateway` | holds connections to SparkConnects that sleep, in a process of its own | `api`, `watches` |
//! | `controller` | observe, decide, act: watches and API calls | `plan`, `leader-election`, `watches`, `work` |
//! | `webhook` | HTTPS: admission reviews | `plan`, `certificates`, `work` |
//! | `page` | the page in a browser, with the caller's own credentials | `submission`, `cron`, `client` |
//! | `sparkctl` | the command line | `plan`, `client`, `page` |
//!
//! Controller and webhook do not use each other: they communicate only through annotations on pods
//! (`pod-customization`).

pub mod admin;
pub mod api_server;
pub mod certs;
pub mod definitions;
pub mod gateway;
pub mod installation;
pub mod listen;
pub mod manifests;
pub mod metrics;
pub mod operator;
pub mod page;
mod parts;
pub mod process;
pub mod settings;
