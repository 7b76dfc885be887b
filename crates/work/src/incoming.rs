//! Accepts connections at a port, whatever goes wrong with one of them, or for a while with all.

use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::sleep,
};
use tracing::{debug, warn};

/// The pause after an error that does not concern a single connection (such as no file descriptors left). Without the
/// pause, the loop would try again and fail at once, and keep a processor busy.
const PAUSE: Duration = Duration::from_millis(100);

/// The connections to a port.
#[derive(Debug)]
pub struct Incoming {
    tcp: TcpListener,
    /// Whether the present error is in the log: it is logged once, however long it lasts.
    is_told: bool,
}

impl Incoming {
    pub fn of(tcp: TcpListener) -> Self {
        Self { tcp, is_told: false }
    }

    /// Waits for the next connection; returns it with the address of its client.
    pub async fn next(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.tcp.accept().await {
                Ok(accepted) => {
                    self.is_told = false;
                    return accepted;
                }
                Err(error) if is_about_one(&error) => debug!(%error, "hung up before it was accepted"),
                Err(error) => {
                    if !self.is_told {
                        warn!(%error, "cannot accept connections");
                        self.is_told = true;
                    }
                    sleep(PAUSE).await;
                }
            }
        }
    }
}

fn is_about_one(error: &io::Error) -> bool {
    use ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
