//! The task that owns the broker core.

use std::{
    collections::BTreeMap,
    mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::body::Bytes;
use nolag_core::Instant;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time,
};

use crate::{BrokerConfig, BrokerCore, ConnectionId, Output};

/// Events that are dealt with before what they lead to is written: few, so that little piles up meanwhile.
const EVENTS_AT_ONCE: usize = 32;

/// What a client is told for which too much waits.
pub(super) const TOO_SLOW: (u16, &str) = (1013, "reads too slowly");

/// Something to do on the core, and what to do once its outputs are on their way.
pub(super) type Call = Box<dyn FnOnce(&mut BrokerCore, Instant) -> Box<dyn FnOnce() + Send> + Send>;

/// Does something on the core. `None` when the broker has ended.
pub(super) async fn call<R: Send + 'static>(
    calls: &mpsc::UnboundedSender<Call>,
    act: impl FnOnce(&mut BrokerCore, Instant) -> R + Send + 'static,
) -> Option<R> {
    let (result, reply) = oneshot::channel();
    let call: Call = Box::new(|core, now| {
        let value = act(core, now);
        Box::new(move || drop(result.send(value)))
    });
    calls.send(call).ok()?;
    reply.await.ok()
}

/// What connections report.
#[derive(Debug)]
pub(super) enum Event {
    Opened { peer: Peer, id: oneshot::Sender<ConnectionId> },
    Binary(ConnectionId, Bytes),
    Text(ConnectionId, axum::extract::ws::Utf8Bytes),
    Ping(ConnectionId),
    Closed(ConnectionId),
}

/// What a connection is told to write.
#[derive(Debug)]
pub(super) enum Outgoing {
    Frame(Bytes),
    Close { code: u16, reason: &'static str },
}

/// The broker's end of one connection. Dropping it cuts the connection at once.
#[derive(Debug)]
pub(super) struct Peer {
    /// Takes what one cause leads to in one piece: it is written at once.
    pub(super) outbox: mpsc::UnboundedSender<Vec<Outgoing>>,
    pub(super) queued_bytes: Arc<AtomicUsize>,
    /// Tells the connection, by being dropped, that it is cut; and by a word that it is to close at once, ahead of what
    /// waits.
    pub(super) lifeline: Option<oneshot::Sender<()>>,
}

pub(super) struct BrokerTask {
    core: BrokerCore,
    max_queued_bytes: usize,
    started: time::Instant,
    events: mpsc::Receiver<Event>,
    calls: mpsc::UnboundedReceiver<Call>,
    peers: BTreeMap<ConnectionId, Peer>,
    /// How many frames were recorded, for those who wait for one.
    recorded: watch::Sender<u64>,
}

impl BrokerTask {
    pub(super) fn new(
        mut config: BrokerConfig,
        events: mpsc::Receiver<Event>,
        calls: mpsc::UnboundedReceiver<Call>,
        recorded: watch::Sender<u64>,
    ) -> Self {
        config.wall_clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let max_queued_bytes = config.limits.max_queued_bytes.unwrap_or(usize::MAX);
        let core = BrokerCore::new(config, Instant::ZERO);
        let (started, peers) = (time::Instant::now(), BTreeMap::new());
        Self { core, max_queued_bytes, started, events, calls, peers, recorded }
    }

    /// The broker, before it runs.
    pub(super) fn core_mut(&mut self) -> &mut BrokerCore {
        &mut self.core
    }

    /// Runs until `stop` is sent; then closes everything and waits for the clients, but not for long.
    pub(super) async fn run(mut self, mut stop: oneshot::Receiver<()>, patience: Duration) {
        loop {
            tokio::select! {
                biased;
                asked = &mut stop => match asked {
                    Ok(()) => break,
                    // The server is gone, and its tasks with it.
                    Err(_) => return,
                },
                () = self.step() => {}
            }
        }
        let now = self.now();
        let open: Vec<_> = self.core.connections().map(|connection| connection.id).collect();
        for conn in open {
            self.core.release(now, conn);
            self.core.close(now, conn, 1001, "");
        }
        self.carry_out();
        let all_closed = async {
            while !self.peers.is_empty() {
                self.step().await;
            }
        };
        // Whoever has not answered by then is cut.
        let _ = time::timeout(patience, all_closed).await;
    }

    /// Waits for one thing to happen and deals with it. Cancelling it while it waits loses nothing.
    async fn step(&mut self) {
        let due = self.core.poll_timeout().map(|due| self.started + Duration::from_micros(due.as_micros()));
        let timer = async {
            match due {
                Some(due) => time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        let mut done: Box<dyn FnOnce() + Send> = Box::new(|| {});
        tokio::select! {
            biased;
            () = timer => self.core.handle_timeout(self.now()),
            Some(call) = self.calls.recv() => {
                let now = self.now();
                done = call(&mut self.core, now);
            }
            Some(event) = self.events.recv() => {
                self.handle(event);
                // What has arrived together is dealt with together: each connection is then woken once.
                for _ in 1..EVENTS_AT_ONCE {
                    let Ok(event) = self.events.try_recv() else { break };
                    self.handle(event);
                }
            }
        }
        self.carry_out();
        done();
        let recorded = self.core.recorded_in_all();
        self.recorded.send_if_modified(|before| mem::replace(before, recorded) != recorded);
    }

    fn handle(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Opened { peer, id } => {
                let conn = self.core.open(now);
                match id.send(conn) {
                    Ok(()) => drop(self.peers.insert(conn, peer)),
                    Err(_) => self.core.handle_close(now, conn),
                }
            }
            Event::Binary(conn, frame) => self.core.handle_binary(now, conn, &frame),
            Event::Text(conn, text) => self.core.handle_text(now, conn, &text),
            Event::Ping(conn) => self.core.handle_ping(now, conn),
            Event::Closed(conn) => {
                self.core.handle_close(now, conn);
                self.peers.remove(&conn);
            }
        }
    }

    /// Hands everything that the core wants done to the connections.
    fn carry_out(&mut self) {
        loop {
            let mut batches: BTreeMap<ConnectionId, Vec<Outgoing>> = BTreeMap::new();
            while let Some(output) = self.core.poll_output() {
                let conn = output.conn();
                let Some(peer) = self.peers.get_mut(&conn) else { continue };
                let outgoing = match output {
                    Output::Send { frame, .. } => {
                        let queued = peer.queued_bytes.fetch_add(frame.len(), Ordering::Relaxed);
                        if queued.saturating_add(frame.len()) > self.max_queued_bytes {
                            // Once.
                            if let Some(lifeline) = peer.lifeline.take() {
                                tracing::warn!(%conn, "closed: the client reads too slowly, {queued} bytes wait for it");
                                // It fails when the connection is gone, which is as well.
                                let _ = lifeline.send(());
                                let (code, reason) = TOO_SLOW;
                                self.core.close(self.now(), conn, code, reason);
                            }
                            continue;
                        }
                        Outgoing::Frame(frame)
                    }
                    // The peer stays until the connection reports its end, so that the close frame leaves.
                    Output::Close { code, reason, .. } => Outgoing::Close { code, reason },
                    Output::Cut { .. } => {
                        self.peers.remove(&conn);
                        continue;
                    }
                };
                batches.entry(conn).or_default().push(outgoing);
            }
            if batches.is_empty() {
                return;
            }
            for (conn, batch) in batches {
                if self.peers.get(&conn).is_some_and(|peer| peer.outbox.send(batch).is_err()) {
                    self.peers.remove(&conn);
                    self.core.handle_close(self.now(), conn);
                }
            }
        }
    }

    fn now(&self) -> Instant {
        let elapsed = self.started.elapsed().as_micros();
        Instant::from_micros(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }
}
