//! One open WebSocket connection.

use std::{
    collections::VecDeque,
    io, mem,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use nolag_core::{Instant, TransportError, TransportErrorKind, TransportEventKind, TransportId};
use tungstenite::{
    Error as WsError, Message as WsMessage,
    error::{CapacityError, ProtocolError},
    protocol::{CloseFrame, frame::coding::CloseCode},
};

use crate::{
    trace,
    transport::{WebSocket, fault},
};

/// Messages read at once before the core takes them in.
const READ_BATCH: usize = 32;

/// Bytes read at once before the core takes them in; one message may be larger.
const READ_BATCH_BYTES: usize = 64 << 10;

/// How long a peer has to answer our goodbye.
pub(super) const LINGER: Duration = Duration::from_secs(3);

/// An open connection and what waits to be written to it.
pub(super) struct Connection {
    pub(super) id: TransportId,
    socket: WebSocket,
    writes: VecDeque<WsMessage>,
    has_new: bool,
    bytes_seen: u64,
    ping_interval: Option<Duration>,
    next_ping: Instant,
}

/// A connection that is being closed.
pub(super) struct Lingering {
    connection: Connection,
    pub(super) deadline: Instant,
    /// Whether the core ordered it, so that somebody may wait for its end.
    pub(super) ordered: bool,
}

impl Connection {
    pub(super) fn new(id: TransportId, socket: WebSocket, now: Instant, ping_interval: Duration) -> Self {
        Self {
            id,
            socket,
            writes: VecDeque::new(),
            has_new: false,
            bytes_seen: 0,
            ping_interval: (!ping_interval.is_zero()).then_some(ping_interval),
            next_ping: now + ping_interval,
        }
    }

    /// Whether frames are to be fetched from the core.
    pub(super) fn wants_frames(&self) -> bool {
        self.writes.is_empty()
    }

    pub(super) fn queue(&mut self, frame: Bytes) {
        trace::frame!("sent", &frame);
        self.writes.push_back(WsMessage::Binary(frame));
        self.has_new = true;
    }

    /// The frames queued since this was called last. Frames are queued only when none is left.
    pub(super) fn new_frames(&mut self) -> impl Iterator<Item = &Bytes> {
        let has_new = mem::take(&mut self.has_new);
        self.writes.iter().filter(move |_| has_new).filter_map(|message| match message {
            WsMessage::Binary(frame) => Some(frame),
            _ => None,
        })
    }

    /// Queues a ping if one is due.
    pub(super) fn ping(&mut self, now: Instant) {
        let Some(interval) = self.ping_interval else { return };
        if now >= self.next_ping {
            self.next_ping = now + interval;
            // One that waits behind a blocked write is enough.
            if !self.writes.iter().any(WsMessage::is_ping) {
                self.writes.push_back(WsMessage::Ping(Bytes::new()));
            }
        }
    }

    /// When the next ping is due.
    pub(super) fn next_ping(&self) -> Option<Instant> {
        self.ping_interval.map(|_| self.next_ping)
    }

    /// Writes what is queued and flushes, also the answers to the peer's pings. `Ready` when all of it is out.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WsError>> {
        self.socket.poll_write(cx, &mut self.writes)
    }

    /// Reads a bounded number of messages into `events`. `true` when the connection has ended, which the last event
    /// says.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, events: &mut Vec<TransportEventKind>) -> bool {
        let mut bytes = 0;
        let mut heard = false;
        for _ in 0..READ_BATCH {
            let event = match self.socket.poll_read(cx) {
                Poll::Ready(Ok(WsMessage::Binary(frame))) => TransportEventKind::Message(frame),
                Poll::Ready(Ok(WsMessage::Text(text))) => TransportEventKind::Message(text.into()),
                Poll::Ready(Ok(WsMessage::Close(frame))) => {
                    let (code, reason) = match frame {
                        Some(frame) => (Some(frame.code.into()), frame.reason.as_str().to_owned()),
                        None => (None, String::new()),
                    };
                    trace::debug!(?code, reason, "closed by the peer");
                    events.push(TransportEventKind::Closed { code, reason });
                    return true;
                }
                Poll::Ready(Ok(_)) => {
                    heard = true;
                    continue;
                }
                Poll::Ready(Err(error)) => {
                    events.push(end_of(error));
                    return true;
                }
                Poll::Pending => break,
            };
            if let TransportEventKind::Message(frame) = &event {
                trace::frame!("received", frame);
                bytes += frame.len();
            }
            events.push(event);
            if bytes >= READ_BATCH_BYTES {
                break;
            }
        }
        let bytes_read = self.socket.bytes_read();
        if (heard || bytes_read != self.bytes_seen) && events.is_empty() {
            events.push(TransportEventKind::Progress);
        }
        self.bytes_seen = bytes_read;
        false
    }

    /// Starts to say goodbye, after what is queued.
    pub(super) fn close(mut self, code: u16, reason: &'static str, now: Instant) -> Lingering {
        let frame = CloseFrame { code: CloseCode::from(code), reason: reason.into() };
        self.writes.push_back(WsMessage::Close(Some(frame)));
        Lingering { connection: self, deadline: now + LINGER, ordered: true }
    }

    /// Lets the answer to the peer's goodbye out.
    pub(super) fn closed_by_peer(mut self, now: Instant) -> Lingering {
        self.writes.clear();
        Lingering { connection: self, deadline: now + LINGER, ordered: false }
    }
}

impl Lingering {
    /// `Ready` when the connection is closed or has had its time.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        if now >= self.deadline {
            return Poll::Ready(());
        }
        let written = self.connection.poll_write(cx);
        if let Poll::Ready(Err(_)) = written {
            return Poll::Ready(());
        }
        for _ in 0..READ_BATCH {
            match self.connection.socket.poll_read(cx) {
                // The peer's goodbye, or what it had sent before it heard ours.
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// What a failed read or write means.
pub(super) fn end_of(error: WsError) -> TransportEventKind {
    match error {
        WsError::ConnectionClosed
        | WsError::AlreadyClosed
        | WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => closed(),
        // TLS peers that vanish without a word.
        WsError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => closed(),
        WsError::Io(error) => TransportEventKind::Failed(fault(TransportErrorKind::Io, "", error)),
        error => {
            let words = match &error {
                WsError::Capacity(CapacityError::MessageTooLong { size, max_size }) => {
                    format!("a message of {size} bytes came, and Options::max_inbound_size allows {max_size}")
                }
                error => error.to_string(),
            };
            TransportEventKind::Failed(
                TransportError::new(TransportErrorKind::WebSocket, words).with_cause(error),
            )
        }
    }
}

fn closed() -> TransportEventKind {
    TransportEventKind::Closed { code: None, reason: String::new() }
}
