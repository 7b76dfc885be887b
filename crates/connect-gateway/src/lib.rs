//! The gateway of SparkConnects that sleep: listens on a port for each, holds connections until the server's pod answers,
//! has the operator wake a server that sleeps, and passes all bytes on.
//!
//! The gateway is a process of its own, so that no session ends with the operator. It knows only what it watches, so
//! replicas share nothing. It reads SparkConnects and changes one annotation of them, the time at which a connection was
//! open last; whatever follows from that time is the operator's decision. It reads no byte of what it passes on: HTTP/2,
//! TLS and tokens are between the client and the server.
//!
//! | file | what |
//! |---|---|
//! | `spark_connect` | what is read of a SparkConnect |
//! | `objects` | which SparkConnects there are, and which of them has which port (pure) |
//! | `ports` | opens and closes ports, and accepts connections |
//! | `room` | how many connections there may be, in all and of one SparkConnect (pure) |
//! | `connection` | one connection: held, then passed on |
//! | `reports` | when the annotation is written, and its writing |
//! | `gateway`, `server` | what all connections share, and what those of one SparkConnect share |

mod connection;
mod gateway;
mod metrics;
mod objects;
mod ports;
mod reports;
mod room;
mod server;
mod spark_connect;

use futures::{StreamExt, stream::select_all};
use gateway::Gateway;
pub use gateway::{Listen, Settings, Setup};
use kube::{
    Api, Resource,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
pub use metrics::GatewayMetrics;
use objects::Objects;
use ports::Ports;
pub use room::Limit;
use spark_connect::SparkConnect;
use std::{collections::BTreeSet, sync::Arc};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use watches::page_by_page;

/// The port of Spark Connect in a server's pod: Spark's default, which the operator sets.
pub const SERVER_PORT: u16 = 15002;
/// The number of objects that the API server is asked for at once. An object has up to 1.5 MB, which is etcd's limit. Of all
/// namespaces, one page is in memory at a time.
const PAGE: u32 = 20;

/// The number of events that are applied before ports and addresses are assigned anew, if so many are there: assigning is
/// work for each SparkConnect.
const EVENTS: usize = 32;

/// Serves SparkConnects until `stop`, and then their open connections for the termination grace. Calls `synced` once
/// the ports of all SparkConnects are known, and maybe again later.
pub async fn run(setup: Setup, synced: impl Fn() + Send, stop: CancellationToken) {
    let gateway = Arc::new(Gateway::new(setup, stop.clone()));
    let end = async {
        stop.cancelled().await;
        gateway.end().await;
    };
    tokio::select! {
        () = follow(&gateway, synced) => {}
        () = end => {}
    }
}

/// Keeps the ports as the SparkConnects say; never ends. A namespace that cannot be listed delays no other.
async fn follow(gateway: &Arc<Gateway>, synced: impl Fn() + Send) {
    let Setup { settings, client, watches, watch_seconds, .. } = &gateway.setup;
    let namespaces: Vec<Option<&str>> = match &settings.namespaces {
        Some(names) => names.iter().map(|name| Some(name.as_str())).collect(),
        None => vec![None],
    };
    let (resource, page) = (spark_connect::resource(), Arc::new(Semaphore::new(1)));
    let events = select_all(namespaces.iter().enumerate().map(|(place, namespace)| {
        let client = watches.begin(client, SparkConnect::url_path(&resource, *namespace));
        let api = Api::<SparkConnect>::all_with(client, &resource).constrain(namespace.unwrap_or_default());
        let config = watcher::Config::default().page_size(PAGE).timeout(*watch_seconds);
        let watch = page_by_page(watcher(api, config), Arc::clone(&page));
        watch.default_backoff().map(move |event| (place, event)).boxed()
    }));
    let mut objects: Vec<Objects> = namespaces.iter().map(|_| Objects::default()).collect();
    let mut unasked: BTreeSet<usize> = (0..objects.len()).collect();
    let (mut ports, mut has_listed) = (Ports::new(Arc::clone(gateway)), false);
    let mut events = events.ready_chunks(EVENTS);
    while let Some(events) = events.next().await {
        let mut has_changed = false;
        for (place, event) in events {
            match event {
                Ok(event) => {
                    if matches!(event, Event::InitDone) {
                        has_listed = true;
                        unasked.remove(&place);
                    }
                    has_changed |= objects[place].apply(event);
                }
                Err(error) => {
                    warn!(namespace = namespaces[place], %error, "the watch of SparkConnects is retried");
                    unasked.remove(&place);
                }
            }
        }
        if has_changed {
            ports.assign(&objects);
        }
        if has_listed && unasked.is_empty() {
            synced();
        }
    }
}
