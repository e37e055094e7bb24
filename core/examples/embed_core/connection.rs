//! Between an open WebSocket that never blocks and the core. The same in every loop.

use std::{
    io::{self, ErrorKind, Read, Write},
    mem,
};

use bytes::BytesMut;
use nolag_core::{
    ClientCore, Instant, TransportError, TransportErrorKind, TransportEvent, TransportEventKind, TransportId,
};
use tungstenite::{
    Error as WsError, Message, WebSocket, error::ProtocolError, http::Uri, protocol::CloseFrame,
};

/// Messages read at once, so that the rest of the loop does not wait for the end of a flood.
const READ_BATCH: usize = 64;

/// A connection that the core asked for. `S` is a non-blocking socket.
pub(crate) struct Connection<S> {
    id: TransportId,
    /// Until it ends.
    socket: Option<WebSocket<Heard<S>>>,
    out: BytesMut,
}

impl<S: Read + Write> Connection<S> {
    /// Tells the core that it is open.
    pub(crate) fn opened(
        id: TransportId,
        socket: WebSocket<Heard<S>>,
        core: &mut ClientCore,
        now: Instant,
    ) -> Self {
        core.handle_transport(now, TransportEvent { id, kind: TransportEventKind::Opened });
        Self { id, socket: Some(socket), out: BytesMut::new() }
    }

    /// Hands what is there to the core, while it wants it. Returns whether there was anything.
    pub(crate) fn read(&mut self, core: &mut ClientCore, now: Instant) -> bool {
        let mut busy = false;
        for _ in 0..READ_BATCH {
            let Some(socket) = self.socket.as_mut().filter(|_| core.wants_input()) else { break };
            let kind = match socket.read() {
                Ok(Message::Close(frame)) => {
                    let _ = socket.flush(); // Our answer to the goodbye.
                    let reason = frame.as_ref().map(|frame| frame.reason.to_string());
                    let code = frame.map(|frame| frame.code.into());
                    TransportEventKind::Closed { code, reason: reason.unwrap_or_default() }
                }
                Ok(Message::Ping(_) | Message::Pong(_)) => TransportEventKind::Progress,
                Ok(message) => TransportEventKind::Message(message.into_data()),
                Err(error) if would_block(&error) => break,
                Err(error) => failed(&error, TransportErrorKind::Io),
            };
            self.tell(core, now, kind);
            busy = true;
        }
        let heard = self.socket.as_mut().is_some_and(|socket| mem::take(&mut socket.get_mut().heard));
        if heard && !busy {
            // Part of a message that is still on its way: the broker is alive.
            self.tell(core, now, TransportEventKind::Progress);
        }
        busy
    }

    /// Sends what the core has to send, as far as the socket takes it. Returns whether there was anything.
    pub(crate) fn write(&mut self, core: &mut ClientCore, now: Instant) -> bool {
        let mut busy = false;
        while let Some(socket) = &mut self.socket {
            // What the socket does not take now stays with `tungstenite`, and what comes after it with the core.
            let mut result = socket.flush();
            if result.is_ok() {
                if core.poll_transmit(now, &mut self.out).is_none() {
                    break;
                }
                busy = true;
                result = socket.write(Message::Binary(self.out.split().freeze()));
            }
            match result {
                Ok(()) => {}
                Err(error) if would_block(&error) => break,
                Err(error) => {
                    busy = true;
                    // What the broker said before it stopped listening is worth more than our own error.
                    self.read(core, now);
                    if self.socket.is_some() {
                        self.tell(core, now, failed(&error, TransportErrorKind::Io));
                    }
                }
            }
        }
        busy
    }

    /// Says goodbye, if this is the connection to close. A goodbye that does not fit is not worth waiting for.
    pub(crate) fn close(&mut self, id: TransportId, code: u16, reason: &'static str) {
        if let Some(mut socket) = self.socket.take_if(|_| self.id == id) {
            let _ = socket.close(Some(CloseFrame { code: code.into(), reason: reason.into() }));
        }
    }

    fn tell(&mut self, core: &mut ClientCore, now: Instant, kind: TransportEventKind) {
        if matches!(kind, TransportEventKind::Closed { .. } | TransportEventKind::Failed(_)) {
            self.socket = None;
        }
        core.handle_transport(now, TransportEvent { id: self.id, kind });
    }
}

/// Host and port of an address. With `wss://` there would be TLS between the socket and the WebSocket.
pub(crate) fn host_and_port(url: &str) -> Result<(String, u16), String> {
    let uri: Uri = url.parse().map_err(|error| format!("{url}: {error}"))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("ws"), Some(host)) => Ok((host.trim_matches(['[', ']']).into(), uri.port_u16().unwrap_or(80))),
        _ => Err(format!("{url}: this needs an address such as ws://localhost:8080/ws")),
    }
}

/// Tells the core that a connection could not be opened.
pub(crate) fn not_opened(id: TransportId, error: &WsError, core: &mut ClientCore, now: Instant) {
    core.handle_transport(now, TransportEvent { id, kind: failed(error, TransportErrorKind::Connect) });
}

/// What an error says about the connection; `io` is what a failure of the socket means.
fn failed(error: &WsError, io: TransportErrorKind) -> TransportEventKind {
    let (kind, detail) = match error {
        WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
            return TransportEventKind::Closed { code: None, reason: String::new() };
        }
        WsError::Http(response) => {
            (TransportErrorKind::Upgrade(Some(response.status().as_u16())), String::new())
        }
        WsError::Io(error) => (io, error.to_string()),
        error => (TransportErrorKind::WebSocket, error.to_string()),
    };
    TransportEventKind::Failed(TransportError::new(kind, detail))
}

fn would_block(error: &WsError) -> bool {
    matches!(error, WsError::Io(error) if error.kind() == ErrorKind::WouldBlock)
}

/// A socket that remembers whether bytes came.
pub(crate) struct Heard<S> {
    pub(crate) stream: S,
    heard: bool,
}

impl<S> Heard<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, heard: false }
    }
}

impl<S: Read> Read for Heard<S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.stream.read(buf)?;
        self.heard |= len > 0;
        Ok(len)
    }
}

impl<S: Write> Write for Heard<S> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.stream.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
