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

use super::{
    Io, fault,
    head::{end_of_head, is_interim, status_of},
};

/// The largest answer to the upgrade that is gathered.
const MAX_ANSWER: usize = 64 << 10;

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
        let polled = Polled { io, waker, bytes_read: 0, answer: Some(Answer::default()) };
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
    /// The answer to the upgrade, until it was handed on.
    answer: Option<Answer>,
}

/// The answer to the upgrade, gathered. The library below takes an answer in small pieces for an attack, and one that
/// only announces the answer (`100`, `103`) for a refusal.
#[derive(Default)]
struct Answer {
    bytes: Vec<u8>,
    /// Handed on from here.
    given: usize,
    complete: bool,
}

impl Answer {
    /// Takes what came; nothing: no more will. What is no head of HTTP is for the library to judge.
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        while let Some(end) = end_of_head(&self.bytes) {
            if !status_of(&self.bytes).is_some_and(is_interim) {
                self.complete = true;
                return;
            }
            self.bytes.drain(..end);
        }
        let is_http = self.bytes.iter().zip(b"HTTP/1.").all(|(byte, expected)| byte == expected);
        self.complete = bytes.is_empty() || !is_http || self.bytes.len() > MAX_ANSWER;
    }
}

impl Polled {
    /// Hands on the answer to the upgrade once it is complete.
    fn read_answer(&mut self, mut answer: Answer, buf: &mut [u8]) -> io::Result<usize> {
        let mut chunk = [0; 1024];
        while !answer.complete {
            match self.read_some(&mut chunk) {
                Ok(read) => answer.push(&chunk[..read]),
                Err(error) => {
                    self.answer = Some(answer);
                    return Err(error);
                }
            }
        }
        let mut rest = &answer.bytes[answer.given..];
        if rest.is_empty() {
            return self.read_some(buf);
        }
        let given = rest.read(buf)?;
        answer.given += given;
        self.answer = Some(answer);
        Ok(given)
    }

    fn read_some(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.poll(|io, cx| io.poll_read(cx, buf))?;
        self.bytes_read += read as u64;
        Ok(read)
    }

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
        match self.answer.take() {
            Some(answer) => self.read_answer(answer, buf),
            None => self.read_some(buf),
        }
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

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc, Mutex,
            atomic::{AtomicBool, Ordering},
        },
        task::Wake,
    };

    use futures_io::{AsyncRead, AsyncWrite};
    use tungstenite::{client::IntoClientRequest as _, handshake::derive_accept_key, http::Uri};

    use super::*;
    use crate::engine::lock;

    /// A peer in memory that takes and gives a little, then makes wait, and so on.
    #[derive(Clone, Default)]
    struct Trickle(Arc<Mutex<Pipe>>);

    #[derive(Default)]
    struct Pipe {
        to_client: VecDeque<u8>,
        from_client: Vec<u8>,
        turn: bool,
        /// How many more bytes are taken.
        room: usize,
        /// Whom to wake: who was made to wait last.
        waker: Option<Waker>,
    }

    impl Trickle {
        /// Every other time it is not ready, and wakes at once.
        fn is_ready(pipe: &mut Pipe, cx: &Context<'_>) -> bool {
            pipe.turn = !pipe.turn;
            pipe.waker = Some(cx.waker().clone());
            pipe.turn
        }
    }

    impl AsyncRead for Trickle {
        fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
            let mut pipe = lock(&self.0);
            if !Self::is_ready(&mut pipe, cx) {
                return Poll::Pending;
            }
            let request_is_whole = pipe.from_client.ends_with(b"\r\n\r\n");
            if pipe.to_client.is_empty() && request_is_whole {
                let request = String::from_utf8(pipe.from_client.clone()).unwrap();
                let key = request.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
                let key = derive_accept_key(key.as_bytes());
                let answer = format!(
                    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n\
                     HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                     Sec-WebSocket-Accept: {key}\r\n\r\n"
                );
                pipe.to_client.extend(answer.bytes());
            }
            if pipe.to_client.is_empty() {
                return Poll::Pending;
            }
            pipe.to_client.read_exact(&mut buf[..1])?;
            Poll::Ready(Ok(1))
        }
    }

    impl AsyncWrite for Trickle {
        fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            let mut pipe = lock(&self.0);
            if !Self::is_ready(&mut pipe, cx) || pipe.room == 0 {
                return Poll::Pending;
            }
            pipe.room -= 1;
            pipe.from_client.push(buf[0]);
            Poll::Ready(Ok(1))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    struct Heard(AtomicBool);

    impl Wake for Heard {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Polls with one waker after the other, never ready, and says which of them the peer then wakes.
    fn who_is_woken<T>(peer: &Trickle, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> [bool; 3] {
        let heard = [(); 3].map(|()| Arc::new(Heard(AtomicBool::new(false))));
        for heard in &heard {
            assert!(poll(&mut Context::from_waker(&Waker::from(heard.clone()))).is_pending());
        }
        lock(&peer.0).waker.take().expect("somebody waits").wake();
        heard.map(|heard| heard.0.load(Ordering::Relaxed))
    }

    struct Ignore;

    impl Wake for Ignore {
        fn wake(self: Arc<Self>) {}
    }

    /// Polls until it is ready, at most so often.
    fn drive<T>(times: usize, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
        // A new waker each time: the last one counts.
        (0..times).find_map(|_| match poll(&mut Context::from_waker(&Waker::from(Arc::new(Ignore)))) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        })
    }

    /// After the upgrade.
    fn opened() -> (WebSocket, Trickle) {
        let peer = Trickle::default();
        lock(&peer.0).room = usize::MAX;
        let request = Uri::from_static("ws://broker/ws").into_client_request().unwrap();
        let mut opening = std::pin::pin!(WebSocket::open(
            Box::new(peer.clone()),
            request,
            WebSocketConfig::default().write_buffer_size(0)
        ));
        let socket = drive(10_000, |cx| opening.as_mut().poll(cx)).expect("it ends").unwrap();
        lock(&peer.0).from_client.clear();
        (socket, peer)
    }

    #[test]
    fn the_last_waker_is_the_one_that_is_woken() {
        let (mut socket, peer) = opened();
        assert_eq!(who_is_woken(&peer, |cx| socket.poll_read(cx)), [false, false, true]);
        lock(&peer.0).room = 0;
        let mut queue = VecDeque::from([WsMessage::Binary(vec![7; 10].into())]);
        assert_eq!(who_is_woken(&peer, |cx| socket.poll_write(cx, &mut queue)), [false, false, true]);

        let peer = Trickle::default();
        let request = Uri::from_static("ws://broker/ws").into_client_request().unwrap();
        let opening = WebSocket::open(Box::new(peer.clone()), request, WebSocketConfig::default());
        let mut opening = std::pin::pin!(opening);
        assert_eq!(who_is_woken(&peer, |cx| opening.as_mut().poll(cx).map(drop)), [false, false, true]);
    }

    #[test]
    fn bytes_may_come_and_go_a_few_at_a_time() {
        let (mut socket, peer) = opened();
        lock(&peer.0).to_client.extend([0x82, 3, 1, 2, 3]);
        let read = socket.bytes_read();
        let message = drive(100, |cx| socket.poll_read(cx)).expect("a message").unwrap();
        assert_eq!(message, WsMessage::Binary(vec![1, 2, 3].into()));
        assert_eq!(socket.bytes_read() - read, 5);
        let mut queue = VecDeque::from([WsMessage::Binary(vec![7; 10].into())]);
        drive(100, |cx| socket.poll_write(cx, &mut queue)).expect("it is written").unwrap();
        assert_eq!(lock(&peer.0).from_client.len(), 2 + 4 + 10, "head, mask and payload");
    }

    #[test]
    fn while_one_message_is_blocked_the_next_is_not_taken() {
        let (mut socket, peer) = opened();
        lock(&peer.0).room = 3;
        let message = |byte: u8| WsMessage::Binary(vec![byte; 10].into());
        let mut queue = VecDeque::from([message(1), message(2), message(3)]);
        assert!(drive(100, |cx| socket.poll_write(cx, &mut queue)).is_none());
        assert_eq!(queue.len(), 2, "one is under way");
        lock(&peer.0).room = usize::MAX;
        drive(200, |cx| socket.poll_write(cx, &mut queue)).expect("all are written").unwrap();
        assert_eq!((queue.len(), lock(&peer.0).from_client.len()), (0, 3 * 16));
    }
}
