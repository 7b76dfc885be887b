//! Holds the state that the connections to one SparkConnect share: the address of its server, and the time of its last
//! use.

use super::spark_connect::{Known, Uid};
use parking_lot::Mutex;
use std::net::IpAddr;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::{Span, info_span};

/// A SparkConnect that has a port.
pub(crate) struct Server {
    pub(crate) uid: Uid,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The IP address of the server's pod while the SparkConnect is ready.
    pub(crate) address: watch::Sender<Option<IpAddr>>,
    pub(crate) times: Mutex<Times>,
    /// Notified when `times` have changed.
    pub(crate) changed: Notify,
    /// Cancelled when the SparkConnect is deleted, or has no port any more.
    pub(crate) gone: CancellationToken,
}

/// The times of the last use of a SparkConnect, and of the last change of its server's address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// A connection was opened, held or closed.
    pub(crate) used: Option<Instant>,
    /// The address of the server has changed or was removed.
    pub(crate) moved: Instant,
}

impl Server {
    pub(crate) fn new(uid: &Uid, known: &Known) -> Self {
        Self {
            uid: uid.clone(),
            namespace: known.namespace.clone(),
            name: known.name.clone(),
            address: watch::Sender::new(known.address),
            times: Mutex::new(Times { used: None, moved: Instant::now() }),
            changed: Notify::new(),
            gone: CancellationToken::new(),
        }
    }

    /// Returns the span of work for this SparkConnect.
    pub(crate) fn span(&self) -> Span {
        let Self { namespace, name, .. } = self;
        info_span!("connect", namespace, name)
    }

    /// Records the present address of the server.
    pub(crate) fn moved(&self, address: Option<IpAddr>) {
        if *self.address.borrow() != address {
            self.times.lock().moved = Instant::now();
            self.address.send_replace(address);
            self.changed.notify_one();
        }
    }

    /// Records that a connection was opened, held or closed.
    pub(crate) fn used(&self) {
        self.times.lock().used = Some(Instant::now());
        self.changed.notify_one();
    }
}
