//! Closes a connection without losing what the client has begun to send. Closing a socket with unread bytes sends a
//! reset, and a reset discards what was sent before it: over HTTP/2 the number of the last request that will be
//! answered. So the socket is lent to the connection, comes back, and is read until the client hangs up as well.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::oneshot,
};
use tokio_rustls::server::TlsStream;

type Stream = Box<TlsStream<TcpStream>>;

/// A connection that comes back when whoever has it drops it.
pub(super) struct ReturningStream {
    /// With where it comes back; there until this is dropped.
    stream: Option<(Stream, oneshot::Sender<Stream>)>,
}

impl ReturningStream {
    /// `stream`, and where it comes back.
    pub(super) fn new(stream: Stream) -> (Self, oneshot::Receiver<Stream>) {
        let (back, returned) = oneshot::channel();
        (Self { stream: Some((stream, back)) }, returned)
    }

    fn stream(self: Pin<&mut Self>) -> io::Result<Pin<&mut TlsStream<TcpStream>>> {
        let stream = self.get_mut().stream.as_mut();
        stream.map(|(stream, _)| Pin::new(&mut **stream)).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for ReturningStream {
    fn drop(&mut self) {
        if let Some((stream, back)) = self.stream.take() {
            // Nobody waits for one that was hung up on.
            back.send(stream).ok();
        }
    }
}

/// Reads what the client has still to say, to its end.
pub(super) async fn read_to_end(mut stream: Stream) {
    let (socket, _) = stream.get_mut();
    let mut words = [0; 1024];
    while socket.read(&mut words).await.is_ok_and(|length| length > 0) {}
}

impl AsyncRead for ReturningStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream()?.poll_read(context, buffer)
    }
}

impl AsyncWrite for ReturningStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(|(stream, _)| stream.is_write_vectored())
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write_vectored(context, bytes)
    }
}
