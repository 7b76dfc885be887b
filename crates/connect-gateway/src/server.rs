//! Holds the parts that the connections to one SparkConnect share: the address of its server, and the time of its use.

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
    /// Where the server's pod answers, while the SparkConnect is ready.
    pub(crate) address: watch::Sender<Option<IpAddr>>,
    pub(crate) times: Mutex<Times>,
    /// Notified when `times` have changed.
    pub(crate) changed: Notify,
    /// Cancelled when the SparkConnect is gone, or has no port any more.
    pub(crate) gone: CancellationToken,
}

/// The time at which something last happened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// A connection was opened, held or closed.
    pub(crate) used: Option<Instant>,
    /// The server has got another address, or lost it.
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

    /// Records where the server answers now.
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
