//! One WebSocket connection: bytes between the socket and the broker task.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use futures_util::{Sink, SinkExt, StreamExt, stream::SplitStream};
use tokio::{
    sync::{mpsc, oneshot},
    time,
};

use super::task::{Event, Outgoing, Peer};
use crate::ConnectionId;

/// Messages up to here are read whole, so that the broker can refuse them in its own way. Larger ones end the
/// connection without a close frame.
pub(super) const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// A client that takes nothing for this long is cut.
const STALLED_AFTER: Duration = Duration::from_secs(30);

/// How long a closed connection waits for the client's close frame.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// Serves one connection until it ends.
pub(super) async fn serve(socket: WebSocket, events: mpsc::Sender<Event>) {
    let (outbox, to_write) = mpsc::unbounded_channel();
    let queued_bytes = Arc::new(AtomicUsize::new(0));
    let (lifeline, cut) = oneshot::channel();
    let peer = Peer { outbox, queued_bytes: queued_bytes.clone(), _lifeline: lifeline };
    let (id, assigned) = oneshot::channel();
    if events.send(Event::Opened { peer, id }).await.is_err() {
        return;
    }
    let Ok(conn) = assigned.await else { return };
    let (sink, stream) = socket.split();
    tokio::select! {
        _ = cut => {}
        () = read(conn, stream, &events) => {}
        () = write(conn, sink, to_write, &queued_bytes) => {}
    }
    // Fails only when the broker is gone too.
    let _ = events.send(Event::Closed(conn)).await;
}

/// Reports what the client sends, until it closes or the socket breaks.
async fn read(conn: ConnectionId, mut stream: SplitStream<WebSocket>, events: &mpsc::Sender<Event>) {
    while let Some(Ok(message)) = stream.next().await {
        let event = match message {
            Message::Binary(frame) => Event::Binary(conn, frame),
            Message::Text(text) => Event::Text(conn, text),
            Message::Ping(_) | Message::Pong(_) => Event::Ping(conn),
            // The library answers; reading on sees the end.
            Message::Close(_) => continue,
        };
        if events.send(event).await.is_err() {
            return;
        }
    }
}

/// Writes what the broker sends, until the connection is closed or the client takes nothing any more.
async fn write(
    conn: ConnectionId,
    mut sink: impl Sink<Message> + Unpin,
    mut outgoing: mpsc::UnboundedReceiver<Outgoing>,
    queued_bytes: &AtomicUsize,
) {
    while let Some(next) = outgoing.recv().await {
        let (message, len) = match next {
            Outgoing::Frame(frame) => {
                let len = frame.len();
                (Message::Binary(frame), len)
            }
            Outgoing::Close { code, reason } => {
                let frame = CloseFrame { code, reason: reason.into() };
                let closing = sink.send(Message::Close(Some(frame)));
                if let Ok(Ok(())) = time::timeout(CLOSE_PATIENCE, closing).await {
                    // `read` sees the client's answer and ends the connection.
                    time::sleep(CLOSE_PATIENCE).await;
                }
                return;
            }
        };
        match time::timeout(STALLED_AFTER, sink.send(message)).await {
            Ok(Ok(())) => {
                queued_bytes.fetch_sub(len, Ordering::Relaxed);
            }
            // `read` sees the same and says so.
            Ok(Err(_)) => return pending().await,
            Err(_) => {
                tracing::warn!(%conn, "cut: the client has taken nothing for {STALLED_AFTER:?}");
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::sink;

    use super::*;
    use crate::{BrokerConfig, BrokerCore, Instant};

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_cut_after_30_seconds() {
        let conn = BrokerCore::new(BrokerConfig::default(), Instant::ZERO).open(Instant::ZERO);
        let stalled = Box::pin(sink::unfold((), |(), _: Message| pending::<Result<(), ()>>()));
        let (outbox, outgoing) = mpsc::unbounded_channel();
        outbox.send(Outgoing::Frame(b"frame".as_slice().into())).unwrap();
        let started = time::Instant::now();
        write(conn, stalled, outgoing, &AtomicUsize::new(5)).await;
        assert_eq!(started.elapsed().as_secs(), STALLED_AFTER.as_secs());
    }
}
