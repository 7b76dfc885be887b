//! `sparkctl connect open`: forwards a port of this machine to a server of Spark Connect. When the server is replaced, its
//! successor is used. As long as the command runs, the server does not sleep.

use crate::{
    change::asked,
    cluster::Cluster,
    completion,
    failure::of_call,
    forward::{LocalPort, through},
    log::Whose,
    names,
    show::{complain, print},
    yaml::line,
};
use anyhow::bail;
use api::{
    NameKey, SparkConnect,
    names::{annotation, env},
};
use clap::Args;
use clap_complete::ArgValueCompleter;
use kube::api::{Patch, PatchParams};
use spark_operator_client::patience::{GRACE, can_pass, in_time};
use std::{cell::Cell, future::pending, time::Duration};
use tokio::time::sleep;

#[derive(Debug, Args)]
pub(super) struct Flags {
    /// The SparkConnect
    #[arg(value_parser = names::connect, add = ArgValueCompleter::new(completion::connects))]
    name: String,

    /// The port of this machine, on its loopback addresses alone [default: 15002 if it is free, else any that is]
    #[arg(short, long, value_name = "PORT")]
    port: Option<u16>,
}

/// The server's port, which is also the one that clients take where an address has none.
const PORT: u16 = 15_002;
/// How often the use of the server is noted: twice in the shortest time after which a server sleeps.
const PERIOD: Duration = Duration::from_secs(connect::LEAST_IDLE_SECONDS.unsigned_abs() / 2);

pub(super) async fn open(cluster: &Cluster, flags: &Flags) -> anyhow::Result<()> {
    let name = &flags.name;
    let connect: SparkConnect = cluster.read(name).await?;
    if connect.spec.suspend {
        bail!("{name} is suspended: sparkctl connect resume {name}");
    }
    let local = LocalPort::usual(flags.port, PORT).await?;
    // Connections that do not pass the gateway are not noted by it. The first note wakes a server that sleeps.
    let mut is_noted = connect.needs_gateway() && note(cluster, name).await;
    let stay_awake = async {
        while is_noted {
            sleep(PERIOD).await;
            is_noted = note(cluster, name).await;
        }
        pending::<anyhow::Result<()>>().await
    };
    let is_first = Cell::new(true);
    let forward = through(cluster, Whose::Connect(name), PORT, &local, async |server| {
        server.is_ready().await;
        if !is_first.replace(false) {
            complain(&format!("{name} has a new server, in which sessions begin anew"));
            return Ok(());
        }
        if let Some(NameKey { name, key }) = &connect.spec.server.token {
            let variable = env::SPARK_CONNECT_AUTHENTICATE_TOKEN;
            complain(&line(&format!(
                "clients have to know the token, {variable} for Python: entry {key} of Secret {name}"
            )));
        }
        print(&told(local.port))
    });
    tokio::select! {
        ended = forward => ended,
        never = stay_awake => never,
    }
}

/// Returns the address, and how a client in Python connects.
fn told(port: u16) -> String {
    format!(
        "sc://localhost:{port}\n\n\
         from pyspark.sql import SparkSession\n\
         spark = SparkSession.builder.remote(\"sc://localhost:{port}\").getOrCreate()\n\
         spark.range(100).count()\n"
    )
}

/// Notes that the server is used, as the gateway does. Returns whether that may be done again.
async fn note(cluster: &Cluster, name: &str) -> bool {
    let patch = asked(annotation::LAST_CONNECTION);
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
    let connects = cluster.whole::<SparkConnect>();
    match in_time(GRACE, connects.patch(name, &parameters, &patch)).await.flatten() {
        Err(error) if !can_pass(&error) => {
            let why = of_call(error);
            complain(&format!("Warning: {name} may go to sleep while it is used: {why:#}"));
            false
        }
        Ok(_) | Err(_) => true,
    }
}
