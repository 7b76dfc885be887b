//! `sparkctl forward`: forwards a port of this machine to a port of the driver, through the API server as `kubectl
//! port-forward` does. When a driver has ended, the next driver is used. `sparkctl connect open` does the same with
//! servers.

use super::{
    cluster::Cluster,
    completion,
    failure::of_call,
    log::{Whose, next_pod, runs},
    names,
    show::{complain, print},
    waiting::Waiting,
};
use anyhow::{Context, anyhow, bail};
use clap::Args;
use clap_complete::ArgValueCompleter;
use connect::ServerPod;
use futures::future::{Either, select, select_all};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, runtime::wait::await_condition};
use spark_operator_client::patience::{GRACE, in_time};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::pin,
    time::Duration,
};
use submission::exposure::ui_port;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::sleep,
};

#[derive(Debug, Args)]
#[command(after_help = "Example: sparkctl forward spark-pi --local-port 8080")]
pub(super) struct Flags {
    /// The application
    #[arg(value_parser = names::application, add = ArgValueCompleter::new(completion::applications))]
    name: String,

    /// The port of this machine, on its loopback addresses alone; 0 takes any free port
    #[arg(short, long, value_name = "PORT", default_value_t = DEFAULT_PORT)]
    local_port: u16,

    /// The driver's port [default: that of its web UI]
    #[arg(short, long, value_name = "PORT")]
    remote_port: Option<u16>,
}

/// The default port of Spark's web UI (`spark.ui.port`).
pub(super) const DEFAULT_PORT: u16 = 4040;

/// The pause before the next check whether something listens, and before a failed watch is repeated.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) async fn forward(cluster: &Cluster, flags: &Flags) -> anyhow::Result<()> {
    let local = LocalPort::open(flags.local_port).await?;
    let remote = match flags.remote_port {
        Some(port) => port,
        None => ui_port_of(cluster, &flags.name).await?,
    };
    through(cluster, Whose::Application(&flags.name), remote, &local, async |_| {
        print(&format!("forwarding from {} -> {remote}\n", local.port))
    })
    .await
}

/// Returns the port that the web UI of an application listens on.
///
/// # Errors
///
/// When the application does not exist, or lets Spark choose the port.
pub(super) async fn ui_port_of(cluster: &Cluster, name: &str) -> anyhow::Result<u16> {
    let port = ui_port(&cluster.application(name).await?).and_then(|port| port.try_into().ok());
    port.ok_or_else(|| {
        anyhow!(
            "{name} lets Spark choose a random port for its web UI (`spark.ui.port`): find it with sparkctl log, \
             and give it with sparkctl forward --remote-port"
        )
    })
}

/// Forwards each connection to `local` to `port` of the driver or server, and to that of the next one, until no further
/// one will be created. `connected` is called for each one before connections are accepted.
pub(super) async fn through(
    cluster: &Cluster,
    whose: Whose<'_>,
    port: u16,
    local: &LocalPort,
    connected: impl AsyncFn(&PodPort) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut last = None;
    let mut was_open = false;
    while let Some(pod) = next_pod(cluster, whose, last.as_deref()).await? {
        last = pod.uid();
        if has_ended(Some(&pod)) {
            continue;
        }
        was_open = true;
        let to = PodPort { pods: cluster.api(), pod: pod.name_any(), port };
        let over = pin!(over(&to, &pod));
        let open = pin!(async {
            connected(&to).await?;
            local.serve(&to).await
        });
        if let Either::Right((failed, _)) = select(over, open).await {
            return failed;
        }
        complain(&format!("{whose} has ended"));
    }
    if was_open {
        return Ok(());
    }
    bail!(whose.without_pod(cluster).await?)
}

/// Waits until the pod has ended, or does not exist any more.
async fn over(to: &PodPort, pod: &Pod) {
    let uid = pod.uid();
    loop {
        let is_over = |pod: Option<&Pod>| has_ended(pod.filter(|pod| pod.uid() == uid));
        if await_condition(to.pods.clone(), &to.pod, is_over).await.is_ok() {
            return;
        }
        sleep(PAUSE).await;
    }
}

/// Whether Spark does not listen on the pod's ports any more: its container or the pod has ended, or the pod does not
/// exist. Only for pods whose Spark container has started.
pub(super) fn has_ended(pod: Option<&Pod>) -> bool {
    let phase = pod.and_then(|pod| pod.status.as_ref()).and_then(|status| status.phase.as_deref());
    pod.is_none_or(|pod| !runs(pod)) || matches!(phase, Some("Succeeded" | "Failed"))
}

/// A port of a pod.
pub(super) struct PodPort {
    pods: Api<Pod>,
    pod: String,
    port: u16,
}

impl PodPort {
    /// Waits until something on the port answers HTTP.
    ///
    /// # Errors
    ///
    /// When the API server refuses the user's credentials, or the user may not forward ports of pods.
    pub(super) async fn answers(&self) -> anyhow::Result<()> {
        self.until(async || {
            let mut forwarder = self.pods.portforward(&self.pod, &[self.port]).await?;
            let Some(mut stream) = forwarder.take_stream(self.port) else { return Ok(false) };
            let is_sent = stream.write_all(b"HEAD / HTTP/1.0\r\n\r\n").await.is_ok();
            Ok(is_sent && stream.read(&mut [0]).await.is_ok_and(|read| read > 0))
        })
        .await
    }

    /// Waits until the pod is ready.
    ///
    /// # Errors
    ///
    /// As [`Self::answers`].
    pub(super) async fn is_ready(&self) -> anyhow::Result<()> {
        self.until(async || {
            let pod = in_time(GRACE, self.pods.get(&self.pod)).await??;
            Ok(ServerPod::of(&pod).is_ready)
        })
        .await
    }

    async fn until(&self, listens: impl AsyncFn() -> kube::Result<bool>) -> anyhow::Result<()> {
        let mut waiting = Waiting::default();
        loop {
            match listens().await {
                Ok(true) => return Ok(()),
                Err(error) if is_refused(&error) => return Err(of_call(error)),
                Ok(false) | Err(_) => {}
            }
            waiting.say(&format!("waiting for {} to listen on port {}", self.pod, self.port));
            sleep(PAUSE).await;
        }
    }

    /// Copies data between a connection of this machine and the port, in both directions.
    async fn carry(&self, mut here: TcpStream) -> anyhow::Result<()> {
        let mut forwarder = self.pods.portforward(&self.pod, &[self.port]).await.map_err(of_call)?;
        let error = forwarder.take_error(self.port).context("no stream of errors")?;
        let mut there = forwarder.take_stream(self.port).context("no stream")?;
        // An error in copying is ignored: either end may close the connection in any way. The kubelet's error for the
        // port is returned.
        copy_bidirectional(&mut here, &mut there).await.ok();
        drop(there);
        match error.await {
            Some(refused) => bail!("port {} of {}: {}", self.port, self.pod, refused.trim()),
            None => Ok(()),
        }
    }
}

/// Whether the API server refuses a request because of the user's credentials or rights.
fn is_refused(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if [401, 403].contains(&status.code))
}

/// A port of this machine's loopback addresses, with the listeners on it.
pub(super) struct LocalPort {
    pub listeners: Vec<TcpListener>,
    pub port: u16,
}

impl LocalPort {
    /// Listens on `port`, or on any free port if it is 0.
    ///
    /// # Errors
    ///
    /// When the port cannot be listened on.
    pub(super) async fn open(port: u16) -> anyhow::Result<Self> {
        let first = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(|error| {
            anyhow!(
                "port {port} of this machine cannot be listened on: {error}: choose another one (0: any that is free)"
            )
        })?;
        let port = first.local_addr()?.port();
        // Not every machine has IPv6, so a failure to listen on the IPv6 address is ignored.
        let second = TcpListener::bind(SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), port)).await;
        Ok(Self { listeners: [first].into_iter().chain(second.ok()).collect(), port })
    }

    /// Opens `port`; if that is `None`, opens `usual` if it is free, else any free port.
    pub(super) async fn usual(port: Option<u16>, usual: u16) -> anyhow::Result<Self> {
        match Self::open(port.unwrap_or(usual)).await {
            Err(_) if port.is_none() => Self::open(0).await,
            opened => opened,
        }
    }

    /// Accepts and forwards connections; returns only on failure.
    async fn serve(&self, to: &PodPort) -> anyhow::Result<()> {
        let mut connections = JoinSet::new();
        loop {
            let accept = select_all(self.listeners.iter().map(|listener| Box::pin(listener.accept())));
            tokio::select! {
                (accepted, ..) = accept => {
                    let (connection, _) = match accepted {
                        Ok(accepted) => accepted,
                        // This process may have no file descriptors left. Its open connections continue.
                        Err(error) => {
                            complain(&format!("a connection cannot be accepted: {error}"));
                            sleep(PAUSE).await;
                            continue;
                        }
                    };
                    let to = PodPort { pods: to.pods.clone(), pod: to.pod.clone(), port: to.port };
                    connections.spawn(async move { to.carry(connection).await });
                }
                Some(left) = connections.join_next() => {
                    if let Err(error) = left? {
                        complain(&error.to_string());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::has_ended;
    use serde_json::{Value, from_value, json};

    /// In an earlier version, `sparkctl ui` waited for ever for a driver that had ended beside a sidecar.
    #[test]
    fn a_driver_has_ended_although_its_sidecar_still_runs() {
        let has_ended = |phase: &str, state: Value| {
            let spark = json!({"name": "main", "state": state, "image": "", "imageID": "", "ready": false, "restartCount": 0});
            let pod = json!({
                "spec": {"containers": [{"name": "main"}, {"name": "istio-proxy"}]},
                "status": {"phase": phase, "containerStatuses": [spark]},
            });
            has_ended(Some(&from_value(pod).unwrap()))
        };
        assert!(!has_ended("Running", json!({"running": {}})));
        assert!(has_ended("Running", json!({"terminated": {"exitCode": 0}})));
        // Kubernetes ends the pod of a lost node, and the last known state of its container remains.
        assert!(has_ended("Failed", json!({"running": {}})));
    }
}
