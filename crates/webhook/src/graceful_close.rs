//! Closes a connection without losing requests that the client has begun to send. Closing a socket with unread bytes
//! sends a TCP reset, and a reset discards data that was sent before it: over HTTP/2 the GOAWAY frame, from which the
//! client learns the last request that will be answered. Therefore hyper only borrows the socket: it comes back when
//! hyper has ended the connection, and is read until the client closes it as well.

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
use tokio_util::either::Either;

/// The stream of a connection, without or with TLS.
pub(super) type Stream = Box<Either<TcpStream, TlsStream<TcpStream>>>;

/// A stream that is sent back to its owner when this value is dropped.
pub(super) struct ReturningStream {
    /// The stream, and the channel that sends it back; present until this value is dropped.
    stream: Option<(Stream, oneshot::Sender<Stream>)>,
}

impl ReturningStream {
    /// Wraps `stream`. The receiver gets `stream` back when the wrapper is dropped.
    pub(super) fn new(stream: Stream) -> (Self, oneshot::Receiver<Stream>) {
        let (back, returned) = oneshot::channel();
        (Self { stream: Some((stream, back)) }, returned)
    }

    fn stream(self: Pin<&mut Self>) -> io::Result<Pin<&mut Either<TcpStream, TlsStream<TcpStream>>>> {
        let stream = self.get_mut().stream.as_mut();
        stream.map(|(stream, _)| Pin::new(&mut **stream)).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for ReturningStream {
    fn drop(&mut self) {
        if let Some((stream, back)) = self.stream.take() {
            // Sending fails only if the owner does not wait for the stream any more; the stream is then closed.
            back.send(stream).ok();
        }
    }
}

/// Reads and discards what the client still sends, until the client closes the connection.
pub(super) async fn read_to_end(mut stream: Stream) {
    let socket = match &mut *stream {
        Either::Left(socket) => socket,
        Either::Right(stream) => stream.get_mut().0,
    };
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
