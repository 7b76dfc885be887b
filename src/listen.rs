//! Opens the ports of the operator, for IPv4 and IPv6.

use anyhow::Context;
use rustix::net::sockopt::set_ipv6_v6only;
use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
};
use tokio::net::{TcpListener, TcpSocket};

/// The number of connections that may wait to be accepted. With 128, the default of a bind, clients that connect at the
/// same time would wait a second or more for their second attempt.
const BACKLOG: u32 = 1024;
/// The maximum number of bytes of answers that the kernel keeps for a client that does not read. Without it, the kernel
/// may keep 4 MiB for each connection.
const UNREAD: u32 = 256 << 10;

/// Returns the address of all interfaces, for IPv4 as well as for IPv6.
pub fn everywhere(port: u16) -> SocketAddr {
    (Ipv6Addr::UNSPECIFIED, port).into()
}

/// Listens on `address`. `[::]` also covers IPv4; on a machine without IPv6 it covers IPv4 alone.
///
/// # Errors
///
/// When the address cannot be used; the error names the `flag` that has it.
pub fn listen(flag: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    let opened = match opened(address) {
        Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && is_without_ipv6(&error) => {
            opened((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        opened => opened,
    };
    opened.with_context(|| format!("{flag}: cannot listen on {address}"))
}

fn opened(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        // The default depends on the machine (`net.ipv6.bindv6only`).
        set_ipv6_v6only(&socket, false)?;
    }
    socket.set_reuseaddr(true)?;
    // Accepted connections inherit this size.
    socket.set_send_buffer_size(UNREAD)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn is_without_ipv6(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    matches!(code, Some(rustix::io::Errno::AFNOSUPPORT | rustix::io::Errno::ADDRNOTAVAIL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[tokio::test]
    async fn a_port_is_open_for_both_families() {
        let port = listen("--webhook-port", everywhere(0)).unwrap().local_addr().unwrap().port();
        let listener = listen("--webhook-port", everywhere(port)).unwrap();
        for host in ["127.0.0.1", "::1"] {
            TcpStream::connect((host, port)).unwrap_or_else(|error| panic!("{host}: {error}"));
        }
        let taken = listen("--webhook-port", listener.local_addr().unwrap()).unwrap_err();
        assert!(format!("{taken:#}").starts_with("--webhook-port: cannot listen on [::]:"), "{taken:#}");
    }

    #[tokio::test]
    async fn an_ipv4_address_is_opened_for_ipv4_alone() {
        let listener = listen("--metrics-bind-address", "127.0.0.1:0".parse().unwrap()).unwrap();
        assert!(listener.local_addr().unwrap().is_ipv4());
    }
}
