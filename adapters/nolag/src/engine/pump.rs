//! The task that moves bytes: it opens and closes connections as the core says, writes what the core has to send,
//! reads while the core wants input, and wakes the core in time.

use std::{
    collections::VecDeque,
    future::Future,
    mem,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
};

use bytes::BytesMut;
use nolag_core::{
    Action, ClientCore, Instant, Status, TransportError, TransportErrorKind, TransportEvent,
    TransportEventKind, TransportId, wire::Dump,
};

use super::{
    Shared, State,
    connection::{Connection, Lingering, end_of},
    dispatch, tokens,
};
use crate::{
    options::Direction,
    runtime::{BoxFuture, Timer},
    trace,
    transport::{self, WebSocket},
};

/// Rounds in one poll before other tasks get the thread.
const ROUNDS: usize = 16;

/// Frames fetched from the core at once.
const WRITE_BATCH: usize = 64;

/// Bytes fetched from the core at once; one frame may be larger.
const WRITE_BATCH_BYTES: usize = 64 << 10;

/// Memory taken at once for frames to be written. A large frame has its own, which goes with it.
const WRITE_CHUNK: usize = 2 << 10;

/// With less room left than that, more is taken.
const SMALL_FRAME: usize = 512;

/// See the module.
pub(super) struct Pump {
    shared: Arc<Shared>,
    link: Link,
    lingering: Vec<Lingering>,
    /// What happened to the transport and is not yet told to the core.
    events: Vec<TransportEvent>,
    read: Vec<TransportEventKind>,
    out: BytesMut,
    timer: Box<dyn Timer>,
    /// Of the latest connection.
    span: trace::ConnectionSpan,
    started: bool,
    finished: bool,
}

/// The one connection that the core wants.
enum Link {
    None,
    Opening(TransportId, BoxFuture<Result<WebSocket, TransportError>>),
    Open(Box<Connection>),
}

/// What the core wants after a visit.
struct Orders {
    now: Instant,
    actions: VecDeque<Action>,
    wants_input: bool,
    timeout: Option<Instant>,
    /// Whether the visit changed anything.
    busy: bool,
}

impl Pump {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            timer: shared.driver.timer(),
            shared,
            link: Link::None,
            lingering: Vec::new(),
            events: Vec::new(),
            read: Vec::new(),
            out: BytesMut::new(),
            span: trace::ConnectionSpan::none(),
            started: false,
            finished: false,
        }
    }

    /// Tells the core what happened and learns what it wants.
    fn visit(&mut self) -> Orders {
        let Self { shared, link, events, out, span, .. } = self;
        let mut busy = !events.is_empty();
        let orders = shared.enter_quietly(|state, now| {
            for event in events.drain(..) {
                state.core.handle_transport(now, event);
            }
            // What the core does now must be in before its frames and actions are fetched.
            state.turn(shared, now);
            if let Link::Open(connection) = link {
                connection.ping(now);
                if connection.wants_frames() {
                    let mut bytes = 0;
                    for _ in 0..WRITE_BATCH {
                        // Small frames share memory, which is used again once they are written.
                        if out.capacity() < SMALL_FRAME {
                            out.reserve(WRITE_CHUNK);
                        }
                        let Some(transmit) = state.core.poll_transmit(now, out) else { break };
                        let large = transmit.len > WRITE_CHUNK;
                        let frame = if large { mem::take(out) } else { out.split() };
                        connection.queue(frame.freeze());
                        busy = true;
                        bytes += transmit.len;
                        if bytes >= WRITE_BATCH_BYTES {
                            break;
                        }
                    }
                }
            }
            if span.wants_actor() && state.core.status() == Status::Connected {
                state.core.session().iter().for_each(|session| span.tell_actor(&session.actor_id));
            }
            let actions = mem::take(&mut state.actions);
            (now, actions, state.core.wants_input())
        });
        let (now, actions, wants_input) = orders;
        let timeout = self.shared.peek(State::poll_timeout);
        busy |= !actions.is_empty();
        Orders { now, actions, wants_input, timeout, busy }
    }

    fn perform(&mut self, action: Action, now: Instant) {
        match action {
            Action::OpenTransport { id } => {
                let attempt = self.shared.ask(ClientCore::attempt);
                self.span = trace::ConnectionSpan::open(id, attempt);
                let _entered = self.span.enter();
                trace::debug!("opening");
                if let Some(dial) = &self.shared.dial {
                    let opening = transport::open(self.shared.driver.clone(), dial.clone());
                    self.link = Link::Opening(id, Box::pin(opening));
                }
            }
            Action::CloseTransport { id, code, reason } => {
                trace::debug!(code, "closing");
                match mem::replace(&mut self.link, Link::None) {
                    Link::Open(connection) if connection.id == id => {
                        self.lingering.push(connection.close(code, reason, now));
                        return;
                    }
                    Link::Opening(opening, _) if opening == id => {}
                    other => self.link = other,
                }
                self.shared.enter_quietly(|state, _| state.transport_closed());
            }
            Action::NeedToken => tokens::ask(&self.shared),
            // The core has no other actions.
            _ => {}
        }
    }

    fn poll_link(&mut self, cx: &mut Context<'_>, wants_input: bool) {
        match &mut self.link {
            Link::None => {}
            Link::Opening(id, opening) => {
                let id = *id;
                if let Poll::Ready(opened) = opening.as_mut().poll(cx) {
                    let kind = match opened {
                        Ok(socket) => {
                            let interval = self.shared.options.websocket_ping_interval;
                            let now = self.shared.driver.now();
                            let connection = Connection::new(id, socket, now, interval);
                            self.link = Link::Open(Box::new(connection));
                            TransportEventKind::Opened
                        }
                        Err(error) => {
                            self.link = Link::None;
                            TransportEventKind::Failed(error)
                        }
                    };
                    self.events.push(TransportEvent { id, kind });
                }
            }
            Link::Open(connection) => {
                let id = connection.id;
                let mut ended = false;
                if let Poll::Ready(Err(error)) = connection.poll_write(cx) {
                    // What the peer said before it stopped listening is worth more than our own error.
                    self.read.clear();
                    ended = connection.poll_read(cx, &mut self.read);
                    if !ended {
                        self.read.push(end_of(error));
                        ended = true;
                    }
                } else if wants_input {
                    ended = connection.poll_read(cx, &mut self.read);
                }
                for kind in &self.read {
                    if let TransportEventKind::Message(frame) = kind {
                        show(&self.shared, Direction::Received, frame);
                    }
                }
                let kinds = self.read.drain(..);
                self.events.extend(kinds.map(|kind| TransportEvent { id, kind }));
                if ended {
                    let now = self.shared.driver.now();
                    if let Link::Open(connection) = mem::replace(&mut self.link, Link::None) {
                        self.lingering.push(connection.closed_by_peer(now));
                    }
                }
            }
        }
    }

    fn poll_lingering(&mut self, cx: &mut Context<'_>, now: Instant) {
        let mut closed = 0;
        self.lingering.retain_mut(|lingering| {
            let done = lingering.poll(cx, now).is_ready();
            closed += usize::from(done && lingering.ordered);
            !done
        });
        if closed > 0 {
            self.shared.enter_quietly(|state, _| (0..closed).for_each(|_| state.transport_closed()));
        }
    }

    /// Ends the pump if there is nothing left to do.
    fn try_finish(&mut self) -> bool {
        let at_rest = matches!(self.link, Link::None) && self.lingering.is_empty() && self.events.is_empty();
        if !at_rest {
            return false;
        }
        let shared = self.shared.clone();
        self.finished = shared.enter_quietly(|state, now| {
            // A note left since the last visit may be about leaving, a command about connecting again.
            state.turn(&shared, now);
            let idle = state.is_idle();
            shared.pump_runs.store(!idle, Ordering::Release);
            idle
        });
        if self.finished {
            shared.tokens.cancel();
            shared.dispatch.wake();
        }
        self.finished
    }

    fn next_wake(&self, timeout: Option<Instant>) -> Option<Instant> {
        let ping = match &self.link {
            Link::Open(connection) => connection.next_ping(),
            _ => None,
        };
        let lingering = self.lingering.iter().map(|lingering| lingering.deadline);
        timeout.into_iter().chain(ping).chain(lingering).min()
    }
}

/// Shows a frame to whom the options name.
fn show(shared: &Arc<Shared>, direction: Direction, frame: &[u8]) {
    if let Some(dump) = &shared.options.frame_dump {
        if let Err(panic) = dispatch::calling(shared, || dump(direction, Dump::new(frame))) {
            dispatch::report_panic(shared, panic);
        }
    }
}

impl Future for Pump {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let pump = &mut *self;
        pump.started = true;
        let _entered = pump.span.enter();
        for _ in 0..ROUNDS {
            // Before the visit: whoever changes something after it finds the waker.
            pump.shared.mailbox.register_pump(cx.waker());
            let orders = pump.visit();
            if let Link::Open(connection) = &mut pump.link {
                connection.new_frames().for_each(|frame| show(&pump.shared, Direction::Sent, frame));
            }
            for action in orders.actions {
                pump.perform(action, orders.now);
            }
            pump.poll_link(cx, orders.wants_input);
            pump.poll_lingering(cx, orders.now);
            if orders.busy || !pump.events.is_empty() {
                continue;
            }
            if pump.try_finish() {
                return Poll::Ready(());
            }
            match pump.next_wake(orders.timeout) {
                Some(at) if pump.timer.poll_at(at, cx).is_ready() => {}
                _ => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let detail = self.shared.driver.lost(self.started);
        let cause = TransportError::new(TransportErrorKind::Io, detail).into();
        let shared = self.shared.clone();
        shared.tokens.cancel();
        shared.enter_quietly(|state, now| {
            state.lose_pump(&shared, now, &cause);
            shared.pump_runs.store(false, Ordering::Release);
        });
        shared.dispatch.wake();
    }
}
