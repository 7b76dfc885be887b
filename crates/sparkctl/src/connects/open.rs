//! `sparkctl connect open`: forwards a port of this machine to a server of Spark Connect. When the server is replaced, its
//! successor is used. As long as the command runs, the server does not sleep.

use crate::{
    cluster::Cluster,
    completion,
    failure::of_call,
    forward::{LocalPort, through},
    log::Whose,
    names,
    show::{complain, now, print},
    yaml::line,
};
use anyhow::bail;
use api::{
    NameKey, SparkConnect,
    names::{annotation, env},
};
use clap::Args;
use clap_complete::ArgValueCompleter;
use jiff::{SignedDuration, Timestamp, fmt::rfc2822::DateTimeParser};
use kube::{
    api::{GetParams, Patch, PatchParams, Request},
    client::Body,
};
use serde_json::json;
use spark_operator_client::patience::{GRACE, can_pass, in_time};
use std::{cell::Cell, future::pending, time::Duration};
use tokio::time::sleep;

#[derive(Debug, Args)]
pub(super) struct Flags {
    /// The SparkConnect
    #[arg(value_parser = names::connect, add = ArgValueCompleter::new(completion::connects))]
    name: String,

    /// The port of this machine, on its loopback addresses alone [default: 15002 if it is free, else any free port]
    #[arg(short, long, value_name = "PORT")]
    port: Option<u16>,
}

/// The server's port, which is also the default port of Spark Connect clients.
const PORT: u16 = 15_002;
/// The time between two records of the use of the server: a third of the minimum idle time after which a server sleeps,
/// so that one record may fail.
const PERIOD: Duration = Duration::from_secs(connect::LEAST_IDLE_SECONDS.unsigned_abs() / 3);

pub(super) async fn open(cluster: &Cluster, flags: &Flags) -> anyhow::Result<()> {
    let name = &flags.name;
    let connect: SparkConnect = cluster.read(name).await?;
    if connect.spec.suspend {
        bail!("{name} is suspended: sparkctl connect resume {name}");
    }
    let local = LocalPort::usual(flags.port, PORT).await?;
    // Forwarded connections bypass the gateway, so that it does not record them. The first record wakes a sleeping
    // server.
    let mut is_recorded = connect.needs_gateway() && record_use(cluster, name).await;
    let stay_awake = async {
        while is_recorded {
            sleep(PERIOD).await;
            is_recorded = record_use(cluster, name).await;
        }
        pending::<anyhow::Result<()>>().await
    };
    let is_first = Cell::new(true);
    let forward = through(cluster, Whose::Connect(name), PORT, &local, async |server| {
        server.is_ready().await?;
        if !is_first.replace(false) {
            complain(&format!("{name} has a new server: the sessions of the previous one are lost"));
            return Ok(());
        }
        if let Some(NameKey { name, key }) = &connect.spec.server.token {
            let variable = env::SPARK_CONNECT_AUTHENTICATE_TOKEN;
            complain(&line(&format!(
                "clients need the token, Python in the variable {variable}: key {key} of Secret {name}"
            )));
        }
        print(&instructions(local.port))
    });
    tokio::select! {
        ended = forward => ended,
        never = stay_awake => never,
    }
}

/// Returns the URL, and how a client in Python connects.
fn instructions(port: u16) -> String {
    format!(
        "sc://localhost:{port}\n\n\
         from pyspark.sql import SparkSession\n\
         spark = SparkSession.builder.remote(\"sc://localhost:{port}\").getOrCreate()\n\
         spark.range(100).count()\n"
    )
}

/// Returns the time by the API server's clock: the `Date` header of a response plus one second, because the header has
/// only whole seconds, and the time has to be later than that at which the server went to sleep. Without such a header,
/// returns the time of this machine.
async fn time(cluster: &Cluster) -> Timestamp {
    let time = async {
        let request = Request::new("").get("version", &GetParams::default()).ok()?;
        let answer = in_time(GRACE, cluster.client.send(request.map(Body::from))).await.ok()?.ok()?;
        let date = DateTimeParser::new().parse_timestamp(answer.headers().get("date")?).ok()?;
        Some(date + SignedDuration::from_secs(1))
    };
    time.await.unwrap_or_else(now)
}

/// Records in the annotation of the SparkConnect that the server is used, as the gateway does. Returns false if the API
/// server refuses that, so that repeating it is useless.
async fn record_use(cluster: &Cluster, name: &str) -> bool {
    // If the clock of this machine is slow, its time would replace a later one of other users, and the server would
    // seem idle.
    let now = time(cluster).await.to_string();
    let patch = json!({"metadata": {"annotations": {annotation::LAST_CONNECTION: now}}});
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
