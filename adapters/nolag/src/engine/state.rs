//! What the lock protects.

use std::{
    collections::VecDeque,
    mem,
    sync::Arc,
    task::{Poll, Waker},
};

use nolag_core::{
    Action, ClientCore, Disconnect, Error, Event, Instant, OpId, Outcome, Rejection, Status,
    TransportErrorKind,
};

use super::{
    Job, Mail, Mailbox, Receipt, Shared, Waiter,
    gather::Gather,
    lock,
    streams::Streams,
    waiters::Waiters,
    wakers::{Waiting, Wakers},
};
use crate::{
    event::{Disconnected, ErrorEvent, Hydration, Reconnected, ReplayEvent, Restored},
    message::Message,
    trace,
};

/// Replay events that may wait for the messages before them; a broker could send them without end.
const MAX_REPLAY_EVENTS: usize = 1024;

/// The core and everything that is kept in step with it.
pub(crate) struct State {
    pub(crate) core: ClientCore,
    /// What is wrong with the options, so that connecting is pointless.
    invalid: Option<Error>,
    pub(crate) waiters: Waiters,
    pub(crate) streams: Streams,
    mailbox: Arc<Mailbox>,
    /// A message that did not fit where it belongs.
    held: Option<nolag_core::Message>,
    /// Replay events that are told once the messages received before them have been handed out.
    replay: Vec<ReplayEvent>,
    /// Error events that are told together.
    gather: Gather,
    /// Why the pump is gone, while what that means is being told.
    pump_lost: Option<Error>,
    /// Whether there was a session since the client was idle last.
    had_session: bool,
    /// Whether a call of `connect` returns the failure that makes the client give up.
    failure_returned: bool,
    /// That failure, until the call has taken it.
    returned_failure: Option<Error>,
    /// Messages that nobody listened to.
    pub(crate) unheard: u64,
    /// What the pump must do.
    pub(super) actions: VecDeque<Action>,
    /// Transports that were told to close and are not closed yet.
    lingering: usize,
    /// Who waits for them.
    linger_wakers: Wakers,
    /// Whom to wake when the lock is released.
    wakers: Vec<Waker>,
}

impl State {
    pub(crate) fn new(core: ClientCore, invalid: Option<Error>) -> Self {
        Self {
            core,
            invalid,
            waiters: Waiters::default(),
            streams: Streams::default(),
            mailbox: Arc::default(),
            held: None,
            replay: Vec::new(),
            gather: Gather::default(),
            pump_lost: None,
            had_session: false,
            failure_returned: false,
            returned_failure: None,
            unheard: 0,
            actions: VecDeque::new(),
            lingering: 0,
            linger_wakers: Wakers::default(),
            wakers: Vec::new(),
        }
    }

    pub(super) fn mailbox(&self) -> Arc<Mailbox> {
        self.mailbox.clone()
    }

    pub(super) fn connect(&mut self, now: Instant) -> Result<OpId, Error> {
        self.returned_failure = None;
        match &self.invalid {
            Some(error) => Err(error.clone()),
            None => self.core.connect(now),
        }
    }

    /// Ends a subscription and its streams.
    pub(crate) fn unsubscribe(&mut self, now: Instant, topic: &str) -> Result<OpId, Error> {
        let op = self.core.unsubscribe(now, topic)?;
        self.wakers.extend(self.streams.end(topic));
        Ok(op)
    }

    /// Brings everything in step with the core.
    pub(super) fn turn(&mut self, shared: &Arc<Shared>, now: Instant) {
        for mail in self.mailbox.take() {
            match mail {
                Mail::Ack(message) => {
                    message.ack_id().into_iter().for_each(|msg_id| self.core.ack(now, msg_id));
                }
                Mail::Abandon(op) => match self.waiters.abandon(op) {
                    // What was told to nobody is told to all.
                    Some(Outcome::Failed(_)) => {
                        let cause = self.returned_failure.take();
                        cause.into_iter().for_each(|cause| report(shared, ErrorEvent::GaveUp { cause }));
                    }
                    Some(Outcome::Subscribed { .. }) | None => self.core.abandon(now, op),
                    Some(_) => {}
                },
                Mail::Leave => {
                    let op = self.core.disconnect(now, Disconnect::Drain(shared.options.drain_timeout));
                    self.waiters.insert(op, Waiter::Nobody);
                }
            }
        }
        // The clock decides, not the timer that woke us.
        if self.core.poll_timeout().is_some_and(|at| at <= now) {
            self.core.handle_timeout(now);
        }
        while let Some(event) = self.core.poll_event() {
            let event = self.in_our_words(shared, event);
            self.take_event(shared, event, now);
        }
        // What is still kept back must not outlive the session.
        let over = self.core.status() == Status::Disconnected;
        let gathered = if over { self.gather.take(now) } else { self.gather.take_due(now) };
        gathered.into_iter().for_each(|event| report(shared, event));
        self.hand_out_messages(shared, now);
        while let Some(action) = self.core.poll_action() {
            if let Action::CloseTransport { .. } = action {
                self.lingering += 1;
            }
            self.actions.push_back(action);
        }
        self.wakers.extend(shared.status.set(self.core.status()));
    }

    pub(super) fn take_wakers(&mut self) -> Vec<Waker> {
        mem::take(&mut self.wakers)
    }

    /// Those that are to be dropped when the lock is released.
    pub(super) fn take_former_wakers(&mut self) -> Vec<Waker> {
        mem::take(&mut self.waiters.former)
    }

    pub(super) fn poll_operation(&mut self, op: OpId, waker: &Waker) -> Poll<Option<Outcome>> {
        let polled = self.waiters.poll(op, waker);
        if let Poll::Ready(Some(Outcome::Failed(_))) = polled {
            self.returned_failure = None;
        }
        polled
    }

    /// When the state must be turned at the latest.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.core.poll_timeout().into_iter().chain(self.gather.due()).min()
    }

    fn take_event(&mut self, shared: &Arc<Shared>, event: Event, now: Instant) {
        let report = |event| report(shared, event);
        match event {
            Event::AttemptFailed { attempt, cause, retry_in: Some(retry_in) } => {
                report(ErrorEvent::AttemptFailed { attempt, cause, retry_in });
            }
            // The last attempt: `GaveUp` follows with the same cause.
            Event::AttemptFailed { retry_in: None, .. } => {}
            Event::Connected { downtime, .. } => {
                trace::debug!(?downtime, "connected");
                self.had_session = true;
                shared.dispatch.push(Job::Connect);
                if let Some(downtime) = downtime {
                    shared.dispatch.push(Job::Reconnect(Reconnected { downtime }));
                }
            }
            Event::Disconnected { cause, retry_in } => {
                trace::debug!(%cause, ?retry_in, "disconnected");
                self.gather.take(now).into_iter().for_each(report);
                if retry_in.is_none() {
                    self.streams.end_all_later();
                }
                shared.dispatch.push(Job::Disconnect(Disconnected { cause, retry_in }));
            }
            Event::Done { op, outcome } => {
                match outcome {
                    Outcome::Disconnected => {
                        self.streams.end_all_later();
                        (self.had_session, self.failure_returned) = (false, false);
                    }
                    Outcome::Failed(_) => self.failure_returned |= self.waiters.is_awaited(op),
                    _ => {}
                }
                if let Some(job) = self.waiters.settle(op, outcome, &mut self.wakers) {
                    shared.dispatch.push(job);
                }
            }
            Event::GaveUp { cause } => {
                self.streams.end_all_later();
                let returned = mem::take(&mut self.failure_returned);
                if mem::take(&mut self.had_session) || !returned {
                    report(ErrorEvent::GaveUp { cause });
                } else {
                    self.returned_failure = Some(cause);
                }
            }
            Event::Hydration { topic, data } => {
                shared.dispatch.push(Job::Hydration(Hydration { topic, data }));
            }
            Event::Lagged { subscription, count } => {
                let topic = subscription
                    .and_then(|id| self.core.subscriptions().find(|known| known.id == id))
                    .map(|known| known.topic);
                self.gather.lagged(topic, count);
            }
            Event::Lobby(change) => shared.dispatch.push(Job::Lobby(change)),
            // When all end together, one event about the connection says it.
            Event::LobbyEnded { .. } if self.core.status() == Status::Disconnected => {}
            Event::LobbyEnded { lobby, cause } => report(ErrorEvent::LobbyEnded { lobby, cause }),
            Event::Presence(change) => shared.dispatch.push(Job::Presence(change)),
            Event::ProtocolError(error) => self.gather.protocol(error),
            Event::ReplayEnded { replayed } => self.tell_replay(shared, ReplayEvent::Ended { replayed }),
            Event::ReplayProgress { received, announced } => {
                self.tell_replay(shared, ReplayEvent::Progress { received, announced });
            }
            Event::ReplayStarted { count } => self.tell_replay(shared, ReplayEvent::Started { count }),
            Event::Restored { downtime, possible_gap } => {
                shared.dispatch.push(Job::Restored(Restored { downtime, possible_gap }));
            }
            Event::ServerError(error) => report(ErrorEvent::Server(error)),
            Event::TokenRefreshFailed { cause } => report(ErrorEvent::TokenRefresh { cause }),
            Event::SubscriptionEnded { topic, cause, .. } => {
                self.streams.end_later(&topic);
                // When all end together, one event about the connection says it.
                if self.core.status() != Status::Disconnected {
                    report(ErrorEvent::SubscriptionEnded { topic, cause });
                }
            }
            // What a later version of the core reports is not ours to tell.
            _ => {}
        }
    }

    /// Puts into an event what only this side knows: why the pump is gone, and how far an attempt to connect had come.
    fn in_our_words(&self, shared: &Shared, event: Event) -> Event {
        let refine = |cause: Error| match (cause, &self.pump_lost) {
            (Error::Rejected(Rejection::Disconnected), Some(lost)) => lost.clone(),
            (Error::Transport(mut error), _) if error.kind == TransportErrorKind::Timeout => {
                if let Some(dial) = &shared.dial {
                    error.detail = format!("{}, {}", error.detail, dial.phase.get()).into();
                }
                Error::Transport(error)
            }
            (cause, _) => cause,
        };
        match event {
            Event::AttemptFailed { attempt, cause, retry_in } => {
                Event::AttemptFailed { attempt, cause: refine(cause), retry_in }
            }
            Event::Disconnected { cause, retry_in } => Event::Disconnected { cause: refine(cause), retry_in },
            Event::Done { op, outcome } => {
                let outcome = match outcome {
                    Outcome::Failed(cause) => Outcome::Failed(refine(cause)),
                    Outcome::NotSent(cause) => Outcome::NotSent(refine(cause)),
                    Outcome::Unknown(cause) => Outcome::Unknown(refine(cause)),
                    outcome => outcome,
                };
                Event::Done { op, outcome }
            }
            Event::GaveUp { cause } => Event::GaveUp { cause: refine(cause) },
            event => event,
        }
    }

    /// An end waits for the messages before it, and what follows waits behind it.
    fn tell_replay(&mut self, shared: &Shared, event: ReplayEvent) {
        let waits = matches!(event, ReplayEvent::Ended { .. }) || !self.replay.is_empty();
        if waits && self.replay.len() < MAX_REPLAY_EVENTS {
            self.replay.push(event);
        } else {
            shared.dispatch.push(Job::Replay(event));
        }
    }

    fn hand_out_messages(&mut self, shared: &Arc<Shared>, now: Instant) {
        while let Some(message) = self.held.take().or_else(|| self.core.poll_message()) {
            if let Err(message) = self.hand_out(shared, now, message) {
                self.held = Some(message);
                return;
            }
        }
        for event in self.replay.drain(..) {
            shared.dispatch.push(Job::Replay(event));
        }
        if self.streams.is_ending() {
            self.wakers.extend(self.streams.end_due());
        }
    }

    /// Gives a message to all who listen, or back if one of them has no room.
    fn hand_out(
        &mut self,
        shared: &Arc<Shared>,
        now: Instant,
        message: nolag_core::Message,
    ) -> Result<(), nolag_core::Message> {
        let streams = self.streams.listeners(message.topic());
        let handled = lock(&shared.handlers).hear(message.topic());
        if streams.is_empty() && !handled {
            self.unheard += 1;
            if let Some(msg_id) = message.ack_id() {
                self.core.ack(now, msg_id);
            }
            return Ok(());
        }
        // All of them are asked, so that each knows that something waits for it.
        let full_streams = streams.iter().filter(|stream| !stream.has_room()).count();
        if full_streams > 0 || (handled && !shared.dispatch.has_room()) {
            return Err(message);
        }
        let receipt = Receipt::of(&message, &self.mailbox);
        let message = Message::new(message, receipt);
        for stream in streams {
            self.wakers.extend(stream.push(message.clone()));
        }
        if handled {
            shared.dispatch.push(Job::Message(message));
        }
        Ok(())
    }

    // ---- the pump and those who wait for it ----

    /// Whether the pump has nothing left to do. It stays for a failure that a call is to return: only it reads the note
    /// that nobody waits for that call any more.
    pub(super) fn is_idle(&self) -> bool {
        self.core.status() == Status::Disconnected
            && self.actions.is_empty()
            && self.lingering == 0
            && self.returned_failure.is_none()
    }

    /// The pump was ended from outside: nothing can be finished any more.
    pub(super) fn lose_pump(&mut self, shared: &Arc<Shared>, now: Instant, cause: &Error) {
        // Takes in what came before.
        self.turn(shared, now);
        let given_up =
            self.core.status() != Status::Disconnected && (self.had_session || !self.waiters.has_future());
        self.pump_lost = Some(cause.clone());
        let op = self.core.disconnect(now, Disconnect::Now);
        self.waiters.insert(op, Waiter::Nobody);
        self.turn(shared, now);
        self.pump_lost = None;
        if given_up {
            report(shared, ErrorEvent::GaveUp { cause: cause.clone() });
        }
        self.actions.clear();
        self.lingering = 0;
        self.wakers.extend(self.linger_wakers.take());
    }

    /// A transport that was told to close is closed.
    pub(super) fn transport_closed(&mut self) {
        self.lingering = self.lingering.saturating_sub(1);
        if self.lingering == 0 {
            self.wakers.extend(self.linger_wakers.take());
        }
    }

    /// One who waits until all transports that were told to close are closed.
    pub(super) fn wait_closed(&self) -> Waiting {
        self.linger_wakers.wait(())
    }

    /// Whether all transports that were told to close are closed.
    pub(super) fn is_closed(&self) -> bool {
        self.lingering == 0
    }
}

fn report(shared: &Shared, event: ErrorEvent) {
    shared.dispatch.push(Job::Error(Arc::new(event)));
}
