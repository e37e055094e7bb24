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

use super::task::{Event, Outgoing, Peer, TOO_SLOW};
use crate::ConnectionId;

/// Messages up to here are read whole, so that the broker can refuse them in its own way. Larger ones end the
/// connection without a close frame.
pub(super) const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// How long a closed connection waits for the client's close frame.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// Serves one connection until it ends.
pub(super) async fn serve(socket: WebSocket, events: mpsc::Sender<Event>, stalled_after: Option<Duration>) {
    let (outbox, to_write) = mpsc::unbounded_channel();
    let queued_bytes = Arc::new(AtomicUsize::new(0));
    let (lifeline, cut) = oneshot::channel();
    let peer = Peer { outbox, queued_bytes: queued_bytes.clone(), lifeline: Some(lifeline) };
    let (id, assigned) = oneshot::channel();
    if events.send(Event::Opened { peer, id }).await.is_err() {
        return;
    }
    let Ok(conn) = assigned.await else { return };
    let (mut sink, mut stream) = socket.split();
    let too_slow = tokio::select! {
        word = cut => word.is_ok(),
        () = read(conn, &mut stream, &events) => false,
        () = write(conn, &mut sink, to_write, &queued_bytes, stalled_after) => false,
    };
    if too_slow {
        let (code, reason) = TOO_SLOW;
        let closing = async {
            let sent = sink.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
            // Its answer is the last that it says. A socket with unread input would be reset, and the frame lost.
            while sent.is_ok() && matches!(stream.next().await, Some(Ok(_))) {}
        };
        // Whoever takes nothing by then is cut.
        let _ = time::timeout(CLOSE_PATIENCE, closing).await;
    }
    // Fails only when the broker is gone too.
    let _ = events.send(Event::Closed(conn)).await;
}

/// Reports what the client sends, until it closes or the socket breaks.
async fn read(conn: ConnectionId, stream: &mut SplitStream<WebSocket>, events: &mpsc::Sender<Event>) {
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

/// Bytes after which a flush is due although more waits.
const FLUSH_BYTES: usize = 64 << 10;

/// Writes what the broker sends, what waits already with one flush, until the connection is closed or the client takes
/// nothing any more.
async fn write(
    conn: ConnectionId,
    mut sink: impl Sink<Message> + Unpin,
    mut outgoing: mpsc::UnboundedReceiver<Vec<Outgoing>>,
    queued_bytes: &AtomicUsize,
    stalled_after: Option<Duration>,
) {
    while let Some(first) = outgoing.recv().await {
        let mut len = 0;
        let mut batch = Some(first);
        while let Some(frames) = batch {
            for next in frames {
                let written = match next {
                    Outgoing::Frame(frame) => {
                        len += frame.len();
                        within(stalled_after, sink.feed(Message::Binary(frame))).await
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
                if !goes_on(conn, written).await {
                    return;
                }
            }
            batch = if len < FLUSH_BYTES { outgoing.try_recv().ok() } else { None };
        }
        let flushed = within(stalled_after, sink.flush()).await;
        if !goes_on(conn, flushed).await {
            return;
        }
        queued_bytes.fetch_sub(len, Ordering::Relaxed);
    }
}

/// Whether a write leaves more to do. One that failed never returns.
async fn goes_on<E>(conn: ConnectionId, written: Result<Result<(), E>, time::error::Elapsed>) -> bool {
    match written {
        Ok(Ok(())) => true,
        // `read` sees the same and says so.
        Ok(Err(_)) => pending().await,
        Err(_) => {
            tracing::warn!(%conn, "cut: the client takes nothing any more");
            false
        }
    }
}

async fn within<T>(
    limit: Option<Duration>,
    what: impl Future<Output = T>,
) -> Result<T, time::error::Elapsed> {
    match limit {
        Some(limit) => time::timeout(limit, what).await,
        None => Ok(what.await),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        pin::Pin,
        sync::Mutex,
        task::{Context, Poll},
    };

    use futures_util::sink;

    use super::*;
    use crate::{BrokerConfig, BrokerCore, Instant, Limits};

    fn a_connection() -> ConnectionId {
        BrokerCore::new(BrokerConfig::default(), Instant::ZERO).open(Instant::ZERO)
    }

    fn frame() -> Outgoing {
        Outgoing::Frame(b"frame".as_slice().into())
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_cut_when_its_time_is_over() {
        for limit in [Limits::default().stalled_reader_timeout, Some(Duration::from_secs(7)), None] {
            let stalled = Box::pin(sink::unfold((), |(), _: Message| pending::<Result<(), ()>>()));
            let (outbox, outgoing) = mpsc::unbounded_channel();
            outbox.send(vec![frame()]).unwrap();
            let started = time::Instant::now();
            let queued_bytes = AtomicUsize::new(5);
            let writing = write(a_connection(), stalled, outgoing, &queued_bytes, limit);
            let cut = time::timeout(Duration::from_secs(100_000), writing).await;
            assert_eq!(cut.ok().map(|()| started.elapsed().as_secs()), limit.map(|limit| limit.as_secs()));
        }
    }

    /// Notes how many frames came before each flush.
    #[derive(Default)]
    struct Flushes {
        unflushed: usize,
        noted: Arc<Mutex<Vec<usize>>>,
    }

    impl Sink<Message> for Flushes {
        type Error = Infallible;

        fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn start_send(mut self: Pin<&mut Self>, _: Message) -> Result<(), Infallible> {
            self.unflushed += 1;
            Ok(())
        }

        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            let frames = std::mem::take(&mut self.unflushed);
            self.noted.lock().unwrap().push(frames);
            Poll::Ready(Ok(()))
        }

        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }
    }

    /// How many frames leave with each flush when these batches wait.
    async fn flushes(batches: Vec<Vec<Outgoing>>) -> Vec<usize> {
        let sink = Flushes::default();
        let noted = sink.noted.clone();
        let (outbox, outgoing) = mpsc::unbounded_channel();
        let mut bytes = 0;
        for batch in batches {
            let frames = batch.iter().map(|outgoing| match outgoing {
                Outgoing::Frame(frame) => frame.len(),
                Outgoing::Close { .. } => 0,
            });
            bytes += frames.sum::<usize>();
            outbox.send(batch).unwrap();
        }
        drop(outbox);
        let queued_bytes = AtomicUsize::new(bytes);
        write(a_connection(), sink, outgoing, &queued_bytes, None).await;
        assert_eq!(queued_bytes.into_inner(), 0);
        let noted = noted.lock().unwrap();
        noted.clone()
    }

    #[tokio::test]
    async fn what_waits_together_leaves_together() {
        assert_eq!(flushes(vec![vec![frame(), frame()], vec![frame()]]).await, [3]);
    }

    #[tokio::test]
    async fn much_that_waits_leaves_in_pieces_and_none_is_cut_in_two() {
        let large = || Outgoing::Frame(vec![0; FLUSH_BYTES].into());
        assert_eq!(flushes(vec![vec![large(), frame(), large()], vec![frame()]]).await, [3, 1]);
    }
}
