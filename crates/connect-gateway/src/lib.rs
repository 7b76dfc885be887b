//! The gateway for SparkConnects that sleep: listens on one port for each SparkConnect, holds connections until the
//! server's pod answers, makes the operator wake a server that sleeps, and forwards all bytes.
//!
//! The gateway is a process of its own, so that a restart of the operator ends no session. All it knows comes from its
//! watches, so its replicas share no state. It reads SparkConnects and writes one annotation, the time at which a
//! connection was last open; the operator decides what follows from that time. It does not interpret the bytes that it
//! forwards: HTTP/2, TLS and tokens are between the client and the server.
//!
//! | file | what |
//! |---|---|
//! | `spark_connect` | the fields of a SparkConnect that are read |
//! | `objects` | the SparkConnects that exist, and the port of each (pure) |
//! | `ports` | opens and closes ports, and accepts connections |
//! | `connection_limits` | the number of connections that are allowed, in total and for one SparkConnect (pure) |
//! | `connection` | one connection: held, then forwarded |
//! | `reports` | when the annotation is due, and its writing |
//! | `gateway`, `server` | the state that all connections share, and the state of one SparkConnect's connections |

mod connection;
mod connection_limits;
mod gateway;
mod metrics;
mod objects;
mod ports;
mod reports;
mod server;
mod spark_connect;

pub use connection_limits::Limit;
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
use spark_connect::SparkConnect;
use std::{collections::BTreeSet, sync::Arc};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use watches::page_by_page;

/// The port of Spark Connect in a server's pod: Spark's default, which the operator sets.
pub const SERVER_PORT: u16 = 15002;
/// The number of objects in one page of a list. An object has up to 1.5 MB, which is etcd's limit. One page is in
/// memory at a time, for all namespaces together.
const PAGE: u32 = 20;

/// The maximum number of pending events that are applied before ports and addresses are assigned again: each assignment
/// goes through all SparkConnects.
const EVENTS: usize = 32;

/// Serves SparkConnects until `stop` is cancelled, and then their open connections for the termination grace. Calls
/// `synced` once each namespace has been listed or has failed to be listed, and at least one has been listed; perhaps
/// again later.
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

/// Watches SparkConnects and opens and closes ports accordingly; never returns. A namespace that cannot be listed does
/// not delay the others.
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
    let mut unanswered: BTreeSet<usize> = (0..objects.len()).collect();
    let (mut ports, mut has_listed) = (Ports::new(Arc::clone(gateway)), false);
    let mut events = events.ready_chunks(EVENTS);
    while let Some(events) = events.next().await {
        let mut has_changed = false;
        for (place, event) in events {
            match event {
                Ok(event) => {
                    if matches!(event, Event::InitDone) {
                        has_listed = true;
                        unanswered.remove(&place);
                    }
                    has_changed |= objects[place].apply(event);
                }
                Err(error) => {
                    warn!(namespace = namespaces[place], %error, "the watch of SparkConnects is retried");
                    unanswered.remove(&place);
                }
            }
        }
        if has_changed {
            ports.assign(&objects);
        }
        if has_listed && unanswered.is_empty() {
            synced();
        }
    }
}
