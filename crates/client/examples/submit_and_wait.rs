//! Submits SparkPi, and prints the application's states as they come, and how the application ended.
//!
//! ```console
//! $ cargo run --example submit_and_wait [NAME]
//! ```
//!
//! The example uses the cluster and the namespace that kubectl would use. The cluster needs the operator, and the
//! namespace needs the service account `spark` (`manifests/rbac/spark.yaml`).

use futures::TryStreamExt;
use kube::{Client, Config};
use spark_operator_client::{Applications, Builder, End};
use std::{env, error::Error, io, io::Write, process::ExitCode};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let name = env::args().nth(1).unwrap_or_else(|| "spark-pi".to_owned());
    match run(&name).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(io::stderr(), "{error}").ok();
            ExitCode::FAILURE
        }
    }
}

async fn run(name: &str) -> Result<(), Box<dyn Error>> {
    let jar = "local:///opt/spark/examples/jars/spark-examples.jar";
    let pi = Builder::scala("org.apache.spark.examples.SparkPi", jar)
        .spark("4.0.1", "docker.io/apache/spark:4.0.1")
        .arguments(["100"])
        .driver(1, "512m")
        .service_account("spark")
        .executors(1, 1, "512m")
        // The CPU that the scheduler reserves for each pod: little enough for a cluster on a laptop.
        .with(|spec| {
            for pod in [&mut spec.driver.pod, &mut spec.executor.pod] {
                pod.core_request = Some("200m".to_owned());
            }
        })
        .named(name);

    let config = Config::infer().await?;
    let namespace = config.default_namespace.clone();
    let applications = Applications::new(Client::try_from(config)?, namespace);
    let pi = applications.submit(&pi).await?;

    // Both futures run at the same time, so that the end is seen even if the application is deleted as soon as it
    // ended.
    let states = applications.states(&pi).try_for_each(async |state| {
        // If stdout is closed, the line has no reader, so the failure to write it is ignored.
        writeln!(io::stdout(), "{name} is {state:?}").ok();
        Ok(())
    });
    let ((), end) = futures::try_join!(states, applications.end(&pi))?;
    match end {
        End::Completed(pi) => {
            let driver = pi.status.and_then(|status| status.driver_info.pod_name).unwrap_or_default();
            writeln!(io::stdout(), "the result is in the log of {driver}")?;
            Ok(())
        }
        End::Failed { message, .. } => Err(format!("{name} has failed: {message}").into()),
        End::Deleted => Err(format!("{name} was deleted").into()),
    }
}
