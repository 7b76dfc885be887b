//! Serves one connection: holds it until the server's pod answers, and then forwards all bytes in both directions.

use super::{
    connection_limits::{CHUNK, Place, SOCKET_BUFFER},
    gateway::Gateway,
    server::Server,
};
use prometheus_client::metrics::counter::Counter;
use rustix::net::sockopt;
use std::{
    io::{self, ErrorKind},
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncWriteExt, Interest},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    time::{sleep, timeout},
};
use tracing::debug;

/// The timeout for a connection to a pod: TCP retransmits the first packet after 1 s and 3 s.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause before another attempt to connect to a pod that is ready by its status: it may have just ended, or its
/// address may not be routed from this node yet.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// TCP keepalive: the idle time before the first probe, the interval of probes, and the number of unanswered probes
/// after which the connection is closed. A connection to a node without power is closed after two minutes. While sent
/// data is not acknowledged, TCP sends no probes, and the connection is closed after the last retransmission, some 15
/// minutes. A connection whose other end answers may be idle for any time.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(60), Duration::from_secs(15), 4);

/// Serves the connection of a client until both sides have closed it, or until the gateway closes all connections.
pub(crate) async fn serve(gateway: Arc<Gateway>, server: Arc<Server>, client: TcpStream, place: Place) {
    let served = async {
        prepare(&client)?;
        let Some(pod) = reached(&gateway, &server, &client).await else { return Ok(()) };
        splice(client, pod, &gateway).await
    };
    if let Some(Err(error)) = gateway.closing.run_until_cancelled(served).await {
        debug!(%error, "connection failed");
    }
    drop(place);
    server.used();
}

/// Returns a connection to the server's pod. If the pod does not answer the first attempt, the client is held, and a
/// report wakes the server. `None` if too many connections are held, the wait is too long, the client has left, or the
/// SparkConnect is gone.
async fn reached(gateway: &Gateway, server: &Server, client: &TcpStream) -> Option<TcpStream> {
    let settings = &gateway.setup.settings;
    let (mut address, mut held) = (server.address.subscribe(), None);
    let answers = async {
        loop {
            let present = *address.borrow_and_update();
            if let Some(ip) = present
                && let Ok(pod) = connected(ip, settings.server_port).await
            {
                return Ok(pod);
            }
            if held.is_none() {
                held = gateway.held.place(&server.uid, &server.namespace);
                if held.is_none() {
                    return Err("too many held connections");
                }
                server.used();
            }
            // `server` owns the sender, so the only outcomes are a new address and the end of the pause.
            timeout(RETRY_PAUSE, address.changed()).await.ok();
        }
    };
    let refused = tokio::select! {
        answer = answers => match answer {
            Ok(pod) => return Some(pod),
            Err(reason) => reason,
        },
        () = sleep(settings.longest_wait) => "no answer",
        () = server.gone.cancelled() => return None,
        // The client has closed its side. A read would not show that, because the bytes that the client has sent are
        // not read before a server answers. Readiness for urgent data, which is not expected, also reports a closed
        // side.
        _ = client.ready(Interest::PRIORITY) => return None,
    };
    debug!(reason = refused, "connection refused");
    gateway.setup.metrics.refused(refused);
    None
}

async fn connected(ip: IpAddr, port: u16) -> io::Result<TcpStream> {
    let pod = timeout(CONNECT_TIMEOUT, TcpStream::connect(SocketAddr::from((ip, port)))).await??;
    prepare(&pod)?;
    Ok(pod)
}

/// Sets the options for the sockets of both sides.
fn prepare(socket: &TcpStream) -> io::Result<()> {
    let (idle, interval, count) = KEEPALIVE;
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_recv_buffer_size(socket, SOCKET_BUFFER)?;
    sockopt::set_socket_send_buffer_size(socket, SOCKET_BUFFER)?;
    sockopt::set_tcp_keepidle(socket, idle)?;
    sockopt::set_tcp_keepintvl(socket, interval)?;
    sockopt::set_tcp_keepcnt(socket, count)?;
    sockopt::set_socket_keepalive(socket, true)?;
    Ok(())
}

/// Forwards bytes in both directions until both sides have closed theirs.
async fn splice(mut client: TcpStream, mut pod: TcpStream, gateway: &Gateway) -> io::Result<()> {
    let ((from_client, to_client), (from_pod, to_pod)) = (client.split(), pod.split());
    tokio::try_join!(
        pass_on(from_client, to_pod, &gateway.setup.metrics.to_servers),
        pass_on(from_pod, to_client, &gateway.setup.metrics.to_clients),
    )?;
    Ok(())
}

/// Forwards bytes in one direction until the sender has closed its side, and then closes that direction of the
/// receiver.
async fn pass_on(from: ReadHalf<'_>, mut to: WriteHalf<'_>, bytes: &Counter) -> io::Result<()> {
    loop {
        from.readable().await?;
        let mut chunk = Vec::<u8>::with_capacity(CHUNK);
        loop {
            chunk.clear();
            match from.try_read_buf(&mut chunk) {
                Ok(0) => return to.shutdown().await,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            to.write_all(&chunk).await?;
            bytes.inc_by(chunk.len() as u64);
        }
    }
}
