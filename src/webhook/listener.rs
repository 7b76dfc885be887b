//! How do TLS connections reach axum? Handshakes run in tasks of their own, so that a slow client delays
//! nobody.

use super::{serving_certificate::ServingCertificate, tls::Tls};
use axum::serve::Listener;
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, warn};

/// An API server finishes a handshake in milliseconds; whoever takes longer is none.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// An API server keeps its connections open and has few. More handshakes at once than this only serve to fill
/// our memory.
const HANDSHAKES_AT_ONCE: usize = 256;
/// After an error that is not about one connection (no file descriptors left), trying again at once would
/// only spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A TCP listener that hands out connections once their TLS handshake is done.
pub struct TlsListener {
    address: SocketAddr,
    connections: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    /// Ends with the listener.
    _accepting: AbortOnDropHandle<()>,
}

impl TlsListener {
    /// Accepts what `tls` allows, HTTP/2 and HTTP/1.1, with whichever certificate `certificate` holds at the
    /// time.
    ///
    /// # Errors
    ///
    /// When `tls` allows nothing, or `tcp` has no address, which a bound socket has.
    pub fn new(tcp: TcpListener, certificate: Arc<ServingCertificate>, tls: &Tls) -> io::Result<Self> {
        let config = tls.config(certificate).map_err(io::Error::other)?;
        let address = tcp.local_addr()?;
        let (sender, connections) = mpsc::channel(HANDSHAKES_AT_ONCE);
        let accepting = tokio::spawn(accept(tcp, TlsAcceptor::from(Arc::new(config)), sender));
        Ok(Self { address, connections, _accepting: AbortOnDropHandle::new(accepting) })
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.connections.recv().await {
            Some(connection) => connection,
            // The accepting task ends only when this listener is dropped.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(self.address)
    }
}

async fn accept(
    tcp: TcpListener,
    acceptor: TlsAcceptor,
    connections: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_AT_ONCE));
    loop {
        let permit = Arc::clone(&handshakes).acquire_owned().await.expect("this semaphore is never closed");
        let (stream, peer) = match tcp.accept().await {
            Ok(connection) => connection,
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (acceptor, connections) = (acceptor.clone(), connections.clone());
        tokio::spawn(async move {
            let _permit = permit;
            match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
                // An error means that the listener is gone, and with it whoever would answer.
                Ok(Ok(stream)) => drop(connections.send((stream, peer)).await),
                Ok(Err(error)) => debug!(%peer, %error, "TLS handshake failed"),
                Err(_) => debug!(%peer, "TLS handshake took too long"),
            }
        });
    }
}
