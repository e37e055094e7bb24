//! WebSocket over any stream of bytes.

use std::{
    collections::VecDeque,
    future::poll_fn,
    io::{self, Read, Write},
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

use nolag_core::{TransportError, TransportErrorKind};
use tungstenite::{
    Error as WsError, HandshakeError, Message as WsMessage,
    client::client_with_config,
    handshake::client::{Request, Response},
    protocol::WebSocketConfig,
};

use super::{Io, fault};

/// An open WebSocket connection, used by one task.
pub(crate) struct WebSocket {
    inner: tungstenite::WebSocket<Polled>,
    /// A message was taken and could not all be written.
    blocked: bool,
}

impl WebSocket {
    /// Performs the client's side of the handshake.
    pub(super) async fn open(
        io: Box<dyn Io>,
        request: Request,
        config: WebSocketConfig,
    ) -> Result<Self, WsError> {
        let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        let polled = Polled { io, waker, bytes_read: 0 };
        let mut attempt = client_with_config(request, polled, Some(config));
        loop {
            match attempt {
                Ok((inner, _)) => return Ok(Self { inner, blocked: false }),
                Err(HandshakeError::Failure(error)) => return Err(error),
                Err(HandshakeError::Interrupted(mut interrupted)) => {
                    let waker = woken().await;
                    interrupted.get_mut().get_mut().waker = waker;
                    attempt = interrupted.handshake();
                }
            }
        }
    }

    /// The next message, also pings, pongs and the peer's goodbye.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<WsMessage, WsError>> {
        self.use_waker(cx);
        not_blocked(self.inner.read())
    }

    /// Writes what is queued and flushes, also the answers to the peer's pings. `Ready` when all of it is out.
    ///
    /// A message stays queued until the one before it is written, so that little more than one is buffered here.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        queue: &mut VecDeque<WsMessage>,
    ) -> Poll<Result<(), WsError>> {
        self.use_waker(cx);
        while !queue.is_empty() {
            if self.blocked {
                ready!(self.poll_flush())?;
            }
            if let Some(message) = queue.pop_front() {
                self.blocked = match not_blocked(self.inner.write(message)) {
                    Poll::Ready(written) => {
                        written?;
                        false
                    }
                    Poll::Pending => true,
                };
            }
        }
        self.poll_flush()
    }

    /// Bytes received so far, whole messages or not.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.inner.get_ref().bytes_read
    }

    fn poll_flush(&mut self) -> Poll<Result<(), WsError>> {
        let flushed = not_blocked(self.inner.flush());
        self.blocked &= flushed.is_pending();
        flushed
    }

    fn use_waker(&mut self, cx: &Context<'_>) {
        self.inner.get_mut().waker.clone_from(cx.waker());
    }
}

/// What would block is pending: [`Polled`] has seen to the wake-up.
fn not_blocked<T>(result: Result<T, WsError>) -> Poll<Result<T, WsError>> {
    match result {
        Err(WsError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        result => Poll::Ready(result),
    }
}

/// Waits to be polled once more; then gives the waker of that poll.
async fn woken() -> Waker {
    let mut waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut waited, true) { Poll::Ready(cx.waker().clone()) } else { Poll::Pending }
    })
    .await
}

/// Makes a polled stream of one that blocks: what is pending fails as [`io::ErrorKind::WouldBlock`], and the waker is
/// called when it is worth another try.
struct Polled {
    io: Box<dyn Io>,
    waker: Waker,
    /// Proof of life while a large message trickles in.
    bytes_read: u64,
}

impl Polled {
    fn poll<T>(
        &mut self,
        poll: impl FnOnce(Pin<&mut dyn Io>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> io::Result<T> {
        match poll(Pin::new(&mut *self.io), &mut Context::from_waker(&self.waker)) {
            Poll::Ready(result) => result,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl Read for Polled {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.poll(|io, cx| io.poll_read(cx, buf))?;
        self.bytes_read += read as u64;
        Ok(read)
    }
}

impl Write for Polled {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.poll(|io, cx| io.poll_write(cx, buf))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.poll(|io, cx| io.poll_flush(cx))
    }
}

/// Why an upgrade failed.
pub(super) fn upgrade_error(error: WsError) -> TransportError {
    let upgrade =
        |status| move |detail: &str| TransportError::new(TransportErrorKind::Upgrade(status), detail);
    match error {
        WsError::Http(response) => {
            let status = Response::status(&response);
            upgrade(Some(status.as_u16()))(status.canonical_reason().unwrap_or_default())
        }
        WsError::Io(error) => fault(TransportErrorKind::Io, "", error),
        error => upgrade(None)(&error.to_string()).with_cause(error),
    }
}
