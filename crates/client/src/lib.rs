//! The client library: a program builds an application, submits it, follows its status and waits for its end.
//!
//! ```no_run
//! use futures::TryStreamExt;
//! use spark_operator_client::{Applications, Builder, End};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let pi = Builder::scala("org.apache.spark.examples.SparkPi", "local:///opt/spark/examples/jars/spark-examples.jar")
//!     .spark("4.0.1", "docker.io/apache/spark:4.0.1")
//!     .arguments(["100"])
//!     .driver(1, "512m")
//!     .service_account("spark")
//!     .executors(1, 1, "512m")
//!     .named("spark-pi");
//!
//! let applications = Applications::new(kube::Client::try_default().await?, "default");
//! let pi = applications.submit(&pi).await?;
//! let states = applications.states(&pi).try_for_each(async |state| Ok(println!("{state:?}")));
//! let ((), end) = futures::try_join!(states, applications.end(&pi))?;
//! match end {
//!     End::Completed(_) => println!("it has ended well"),
//!     End::Failed { message, .. } => println!("it has failed: {message}"),
//!     End::Deleted => println!("somebody has deleted it"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The library does not connect to the operator's process: all requests go to the API server, with the credentials of
//! the [`kube::Client`]. The credentials have to allow `create`, `get` and `watch` of `sparkapplications` in the
//! namespace.
//!
//! The library runs on tokio, as kube's client does, and needs tokio's timer (`enable_all`, or `#[tokio::main]`).
//!
//! Every future and stream of this library can be dropped at any time, by `tokio::select!` or `tokio::time::timeout`
//! for instance. Dropping it ends only the watch; the application continues. To watch again later, call the method
//! again: the new future or stream begins with the state at that time.

#![warn(missing_docs)]

mod applications;
mod builder;
pub mod connect_summary;
mod end;
mod error;
mod following;
pub mod patience;
pub mod printable;
pub mod summary;

pub use api;
pub use applications::{Applications, Changes};
pub use builder::Builder;
pub use end::End;
pub use error::Error;
pub use following::Which;
