//! Serves one connection: holds it until the server's pod answers, and then passes all bytes on in both directions.

use super::{
    gateway::Gateway,
    room::{CHUNK, KEPT, Place},
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

/// The longest time in which a pod accepts a connection: a packet is sent again after 1 s and 3 s.
const CONNECT: Duration = Duration::from_secs(5);
/// The pause after which a pod is tried again that should answer: it may have died a moment ago, or its network may not
/// be known everywhere yet.
const AGAIN: Duration = Duration::from_secs(1);
/// The silence after which the other end of a connection is tested, the pause between tests, and how many tests without an
/// answer end the connection: two minutes in all, also where a node has lost its power. One that answers is never too old.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(60), Duration::from_secs(15), 4);

/// Serves the connection of a client until both sides have closed it, or until the process ends.
pub(crate) async fn serve(gateway: Arc<Gateway>, server: Arc<Server>, client: TcpStream, place: Place) {
    let served = async {
        prepare(&client)?;
        let Some(pod) = reached(&gateway, &server, &client).await else { return Ok(()) };
        splice(client, pod, &gateway).await
    };
    if let Some(Err(error)) = gateway.cut.run_until_cancelled(served).await {
        debug!(%error, "connection failed");
    }
    drop(place);
    server.used();
}

/// Returns a connection to the server's pod. If the pod does not answer at once, the client is held, which has the server
/// woken. None if there is no room for that, or nobody waits any more.
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
            // The sender is in `server`, so the only outcomes are a new address and the end of the pause.
            timeout(AGAIN, address.changed()).await.ok();
        }
    };
    let refused = tokio::select! {
        answer = answers => match answer {
            Ok(pod) => return Some(pod),
            Err(reason) => reason,
        },
        () = sleep(settings.longest_wait) => "no answer",
        () = server.gone.cancelled() => return None,
        // The client has closed its side. Nothing is read of what it has sent before, so this is not told by a read:
        // whoever waits for urgent data, which is not asked for, is told of the end too.
        _ = client.ready(Interest::PRIORITY) => return None,
    };
    debug!(reason = refused, "connection refused");
    gateway.setup.metrics.refused(refused);
    None
}

async fn connected(ip: IpAddr, port: u16) -> io::Result<TcpStream> {
    let pod = timeout(CONNECT, TcpStream::connect(SocketAddr::from((ip, port)))).await??;
    prepare(&pod)?;
    Ok(pod)
}

/// Sets what holds for the sockets of both sides.
fn prepare(socket: &TcpStream) -> io::Result<()> {
    let (idle, interval, count) = KEEPALIVE;
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_recv_buffer_size(socket, KEPT)?;
    sockopt::set_socket_send_buffer_size(socket, KEPT)?;
    sockopt::set_tcp_keepidle(socket, idle)?;
    sockopt::set_tcp_keepintvl(socket, interval)?;
    sockopt::set_tcp_keepcnt(socket, count)?;
    sockopt::set_socket_keepalive(socket, true)?;
    Ok(())
}

/// Passes bytes on in both directions until both sides have closed theirs.
async fn splice(mut client: TcpStream, mut pod: TcpStream, gateway: &Gateway) -> io::Result<()> {
    let ((from_client, to_client), (from_pod, to_pod)) = (client.split(), pod.split());
    tokio::try_join!(
        pass_on(from_client, to_pod, &gateway.setup.metrics.to_servers),
        pass_on(from_pod, to_client, &gateway.setup.metrics.to_clients),
    )?;
    Ok(())
}

/// Passes bytes on until the sender has closed its side, and then closes this side of the receiver.
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
