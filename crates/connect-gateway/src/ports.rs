//! Opens the port of each SparkConnect, closes ports that belong to none any more, and accepts connections.

use super::{
    connection,
    gateway::Gateway,
    objects::{Objects, assigned},
    reports,
    server::Server,
    spark_connect::Uid,
};
use axum::serve::Listener;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::time::sleep;
use tokio_util::sync::DropGuard;
use tracing::{Instrument, debug, info, warn};

/// The pause before another attempt to open a port: the listener of the SparkConnect that had it before may not be
/// closed yet.
const OPEN_PAUSE: Duration = Duration::from_secs(1);

/// The ports that are open.
pub(crate) struct Ports {
    gateway: Arc<Gateway>,
    /// The SparkConnects whose status names a port. `None` for one that does not get it, which was logged.
    served: BTreeMap<Uid, Option<Served>>,
}

/// A SparkConnect and its port. When this value is dropped, connections that have reached the server continue.
struct Served {
    server: Arc<Server>,
    /// The port, and the guard that closes it when dropped.
    port: (u16, DropGuard),
    /// The guard that closes held connections and ends the reports when dropped.
    _gone: DropGuard,
}

impl Ports {
    pub(crate) fn new(gateway: Arc<Gateway>) -> Self {
        Self { gateway, served: BTreeMap::new() }
    }

    /// Opens and closes ports so that each SparkConnect has its own, and updates the addresses of the servers.
    pub(crate) fn assign(&mut self, objects: &[Objects]) {
        let gateway = &self.gateway;
        let assigned = assigned(objects.iter().flat_map(Objects::all), &gateway.setup.settings.ports);
        self.served.retain(|uid, _| assigned.contains_key(uid));
        for (uid, (port, known)) in assigned {
            let served = match (port, self.served.get_mut(uid)) {
                (None, Some(None)) => continue,
                (None, _) => {
                    let (namespace, name) = (&known.namespace, &known.name);
                    warn!(namespace, name, port = known.port, "the port is not in --port-range, or taken");
                    None
                }
                (Some(port), Some(Some(there))) => {
                    there.server.moved(known.address);
                    if there.port.0 != port {
                        there.port = (port, open(gateway, &there.server, port));
                    }
                    continue;
                }
                (Some(port), _) => {
                    let server = Arc::new(Server::new(uid, known));
                    // These connections came through an earlier port of the server, which is closed by now. They count
                    // as use.
                    if gateway.connections.has_any(uid) {
                        server.used();
                    }
                    let port = (port, open(gateway, &server, port));
                    let reports = reports::report(Arc::clone(gateway), Arc::clone(&server));
                    gateway.reporters.spawn(reports.instrument(server.span()));
                    let _gone = server.gone.clone().drop_guard();
                    Some(Served { server, port, _gone })
                }
            };
            self.served.insert(Arc::clone(uid), served);
        }
        for room in [&gateway.connections, &gateway.held] {
            room.share(self.served.values().flatten().map(|served| served.server.namespace.as_str()));
        }
    }
}

/// Accepts connections to `server` at `port` until the returned value is dropped or the process is asked to stop.
fn open(gateway: &Arc<Gateway>, server: &Arc<Server>, port: u16) -> DropGuard {
    let listening = gateway.stop.child_token();
    let accepts = accept(Arc::clone(gateway), Arc::clone(server), port).instrument(server.span());
    tokio::spawn(listening.clone().run_until_cancelled_owned(accepts));
    listening.drop_guard()
}

async fn accept(gateway: Arc<Gateway>, server: Arc<Server>, port: u16) {
    let mut tcp = loop {
        match (gateway.setup.listen)(port) {
            Ok(tcp) => break tcp,
            Err(error) => warn!(port, %error, "the port cannot be opened yet"),
        }
        sleep(OPEN_PAUSE).await;
    };
    info!(port, "port open");
    loop {
        let (client, peer) = Listener::accept(&mut tcp).await;
        if let Some(place) = gateway.connections.place(&server.uid, &server.namespace) {
            server.used();
            let serve = connection::serve(Arc::clone(&gateway), Arc::clone(&server), client, place);
            gateway.open.spawn(serve.in_current_span());
        } else {
            debug!(%peer, "too many connections");
            gateway.setup.metrics.refused("too many connections");
        }
    }
}
