//! How does a program use the operator? It builds an application, submits it, follows its status and waits for its end.
//!
//! ```no_run
//! use futures::TryStreamExt;
//! use spark_operator::client::{Applications, Builder, End};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let pi = Builder::scala("org.apache.spark.examples.SparkPi", "local:///opt/spark/examples/jars/spark-examples.jar")
//!     .spark("4.0.1", "docker.io/apache/spark:4.0.1")
//!     .arguments(["1000"])
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
//! Nothing here needs the operator's process: all goes through the API server, with the credentials of the [`kube::Client`]. They have
//! to allow `create`, `get` and `watch` of `sparkapplications` in the namespace.
//!
//! It runs on tokio, as kube's client does, with its timer (`enable_all`, or `#[tokio::main]`).
//!
//! Every future and stream here can be dropped at any moment, by `tokio::select!` or `tokio::time::timeout` for instance: then nobody
//! looks any more, and the application goes on. To go on looking later is to ask again: what is told begins with what is so then.

mod application;
mod applications;
mod end;
mod error;
mod following;
pub(crate) mod patience;

pub use application::Builder;
pub use applications::{Applications, Changes, Which};
pub use end::End;
pub use error::Error;
