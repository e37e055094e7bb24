//! Passing messages between a client and a broker, and noting them.

use std::{io, time::Duration};

use futures_util::{SinkExt as _, StreamExt as _, future::join};
use nolag_conformance::trace::Peer;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::watch,
    time::{sleep, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        error::ProtocolError,
        protocol::{CloseFrame, WebSocketConfig, frame::coding::CloseCode},
    },
};

use super::file::Recording;

/// The longest message; readers of recordings take no longer one.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// How long the end of a connection may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// What recordings say of a close frame without a code.
const NO_CODE: u16 = 1005;

/// What recordings say of a connection that ended without a close frame.
const ABNORMAL: u16 = 1006;

/// One side of a connection.
pub(super) type Socket<S> = WebSocketStream<S>;

/// How a peer ends its connection.
enum End {
    /// With a close frame.
    Closed(Option<CloseFrame>),
    /// Without; if it broke the rules of WebSocket, by what, and what it is told.
    Lost(Option<(String, CloseCode)>),
}

/// How a connection ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// Who ended it; `None` if the recorder did.
    pub(super) by: Option<Peer>,
    pub(super) code: u16,
}

/// The limits of both sides. Nothing waits in a buffer but the message under way: what one side sends is read when the
/// other has taken what came before.
pub(super) fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES))
}

/// Passes everything on until one side ends, and ends the other in the same way; or ends both when `stop` says so.
/// Fails only when the recording cannot be written.
pub(super) async fn relay<C, B>(
    mut client: Socket<C>,
    mut broker: Socket<B>,
    recording: &Recording,
    conn: u64,
    stop: &mut watch::Receiver<bool>,
) -> io::Result<Ended>
where
    C: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let ended = tokio::select! {
        biased;
        // Without a sender the command is over, too.
        _ = stop.wait_for(|stop| *stop) => None,
        ended = pass(&mut client, &mut broker, recording, conn) => Some(ended?),
    };
    let Some((by, end)) = ended else {
        let frame = CloseFrame { code: CloseCode::Away, reason: "the recorder ends".into() };
        join(leave(&mut client, Some(frame.clone())), leave(&mut broker, Some(frame))).await;
        return Ok(Ended { by: None, code: CloseCode::Away.into() });
    };
    let code = match &end {
        End::Closed(Some(frame)) => {
            recording.close(conn, by, frame.code.into(), &frame.reason, None)?;
            frame.code.into()
        }
        End::Closed(None) => {
            recording.close(conn, by, NO_CODE, "", None)?;
            NO_CODE
        }
        End::Lost(fault) => {
            let note = fault.as_ref().map(|(note, _)| note.as_str());
            recording.close(conn, by, ABNORMAL, "", note)?;
            ABNORMAL
        }
    };
    match by {
        Peer::Client => finish(&mut client, &mut broker, end).await,
        Peer::Broker => finish(&mut broker, &mut client, end).await,
    }
    Ok(Ended { by: Some(by), code })
}

/// Passes messages in both directions until a peer ends its connection.
async fn pass<C, B>(
    client: &mut Socket<C>,
    broker: &mut Socket<B>,
    recording: &Recording,
    conn: u64,
) -> io::Result<(Peer, End)>
where
    C: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (mut to_client, mut from_client) = client.split();
    let (mut to_broker, mut from_broker) = broker.split();
    let note = |peer, message: &Message| match message {
        Message::Binary(bytes) => recording.binary(conn, peer, bytes),
        Message::Text(text) => recording.text(conn, peer, text),
        _ => Ok(()),
    };
    // The two directions do not wait for each other.
    macro_rules! one_way {
        ($from:ident, $to:ident, $peer:expr, $other:expr) => {
            async {
                loop {
                    let message = match $from.next().await {
                        Some(Ok(Message::Close(frame))) => return Ok(($peer, End::Closed(frame))),
                        // The library has answered the ping that it belongs to.
                        Some(Ok(Message::Pong(_))) => continue,
                        // Pings go through, so that the other side hears that this one lives.
                        Some(Ok(message)) => message,
                        Some(Err(error)) => return Ok(($peer, End::Lost(fault(&error)))),
                        None => return Ok(($peer, End::Lost(None))),
                    };
                    note($peer, &message)?;
                    if $to.send(message).await.is_err() {
                        // It is gone. Whoever reads from it learns how.
                        sleep(PATIENCE).await;
                        return Ok(($other, End::Lost(None)));
                    }
                }
            }
        };
    }
    tokio::select! {
        ended = one_way!(from_client, to_broker, Peer::Client, Peer::Broker) => ended,
        ended = one_way!(from_broker, to_client, Peer::Broker, Peer::Client) => ended,
    }
}

/// What a peer did that WebSocket forbids; `None` if its connection just ended.
fn fault(error: &Error) -> Option<(String, CloseCode)> {
    let code = match error {
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => return None,
        Error::Protocol(_) => CloseCode::Protocol,
        Error::Utf8(_) => CloseCode::Invalid,
        Error::Capacity(_) => CloseCode::Size,
        _ => return None,
    };
    Some((error.to_string(), code))
}

/// Ends both sides after `first` has ended.
async fn finish<A, B>(first: &mut Socket<A>, other: &mut Socket<B>, end: End)
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    match end {
        // The library answers `first` while what is left of it is read.
        End::Closed(frame) => _ = join(drain(first), leave(other, frame)).await,
        End::Lost(fault) => {
            let tell = async {
                if let Some((_, code)) = fault {
                    leave(first, Some(CloseFrame { code, reason: "".into() })).await;
                    // It may still be sending, and must get there to read that.
                    hang_up(first).await;
                }
            };
            join(tell, hang_up(other)).await;
        }
    }
}

/// Closes a connection and waits for the answer.
async fn leave<S: AsyncRead + AsyncWrite + Unpin>(socket: &mut Socket<S>, frame: Option<CloseFrame>) {
    let closing = async {
        if socket.send(Message::Close(frame)).await.is_ok() {
            while let Some(Ok(_)) = socket.next().await {}
        }
    };
    // Whoever has not answered by then is cut.
    let _ = timeout(PATIENCE, closing).await;
}

/// Reads what is left of a connection that was closed by the other side.
async fn drain<S: AsyncRead + AsyncWrite + Unpin>(socket: &mut Socket<S>) {
    let reading = async { while let Some(Ok(_)) = socket.next().await {} };
    let _ = timeout(PATIENCE, reading).await;
}

/// Ends a connection without a close frame. What was sent before arrives: a socket with unread input would be reset.
async fn hang_up<S: AsyncRead + AsyncWrite + Unpin>(socket: &mut Socket<S>) {
    let stream = socket.get_mut();
    let ending = async {
        let mut rest = [0; 4096];
        if stream.shutdown().await.is_ok() {
            while matches!(stream.read(&mut rest).await, Ok(1..)) {}
        }
    };
    let _ = timeout(PATIENCE, ending).await;
}
