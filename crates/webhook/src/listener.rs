//! Accepts connections, with or without TLS, and hands them to the routes. Each connection has a task of its own from the
//! beginning, so slow and silent clients do not delay others.

use super::{
    connection_limit::{ConnectionLimit, Place},
    connections::{Connection, Host, Stream},
};
use axum::serve::Listener;
use std::{io, pin::pin, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{either::Either, task::TaskTracker};
use tracing::{Instrument, debug, debug_span};

/// How long a TLS handshake may take. An API server finishes a handshake in milliseconds, and gives up after 10 s.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Accepts connections on `tcp` until the host stops, and then for the delay in [`Host::closing`]. After that, answers
/// the requests that have begun and closes all connections.
pub(super) async fn receive(mut tcp: TcpListener, acceptor: Option<TlsAcceptor>, host: Host) {
    let limit = ConnectionLimit::of(host.limits.connections);
    let host = Arc::new(host);
    let connections = TaskTracker::new();
    let mut end = pin!(async {
        host.stop.cancelled().await;
        sleep(host.closing.delay).await;
    });
    loop {
        let accepted = async {
            let room = limit.room().await;
            let (stream, peer) = Listener::accept(&mut tcp).await;
            (stream, peer, limit.opened(peer.ip(), room))
        };
        let (stream, peer, place) = tokio::select! {
            accepted = accepted => accepted,
            () = &mut end => break,
        };
        let served = serve(stream, acceptor.clone(), Arc::clone(&host), place);
        connections.spawn(served.instrument(debug_span!("connection", %peer)));
    }
    drop(tcp);
    host.closed.cancel();
    connections.close();
    connections.wait().await;
}

async fn serve(tcp: TcpStream, acceptor: Option<TlsAcceptor>, host: Arc<Host>, place: Place) {
    let shaken = async {
        // A silent client costs no more than a socket and a few hundred bytes: all else is boxed, and allocated only
        // after the client has sent something.
        tcp.readable().await?;
        Box::pin(shake_hands(tcp, acceptor)).await
    };
    let stream = tokio::select! {
        shaken = timeout(HANDSHAKE_TIMEOUT, shaken) => match shaken {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return debug!(%error, "TLS handshake failed"),
            Err(_) => return debug!("TLS handshake took too long"),
        },
        () = place.used.evicted.cancelled() => return debug!("closed to make room during its TLS handshake"),
        () = host.closed.cancelled() => return,
    };
    Box::pin(Connection::serve(host, place, stream)).await;
}

async fn shake_hands(tcp: TcpStream, acceptor: Option<TlsAcceptor>) -> io::Result<Stream> {
    // Answers are small, and no data follows them, so Nagle's algorithm would only delay them.
    tcp.set_nodelay(true)?;
    Ok(Box::new(match acceptor {
        Some(acceptor) => Either::Right(acceptor.accept(tcp).await?),
        None => Either::Left(tcp),
    }))
}
