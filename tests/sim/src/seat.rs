//! One client's place in a world: its core, its clock, its application, and what slows them down.

use std::{collections::VecDeque, time::Duration};

#[cfg(not(feature = "planted"))]
use nolag_core::ClientCore as Core;
use nolag_core::{Config, Event, Instant, Message, TransportEventKind};

#[cfg(feature = "planted")]
use crate::planted::Core;
use crate::{Application, Client, ClientId, Ledger};

pub(crate) struct Seat {
    id: ClientId,
    pub(crate) core: Core,
    pub(crate) application: Option<Box<dyn Application>>,
    pub(crate) ledger: Ledger,
    /// What the client told and its application has not seen.
    pub(crate) told: VecDeque<Told>,
    /// What a client without an application was told.
    pub(crate) events: Vec<Event>,
    pub(crate) messages: Vec<Message>,
    /// The current link.
    pub(crate) link: Option<usize>,
    /// How many links it has had.
    pub(crate) links: u64,
    /// What arrived and was not read: the link, and what happened.
    pub(crate) backlog: VecDeque<(usize, TransportEventKind)>,
    /// When [`World`](crate::World) must look at this client next.
    pub(crate) next: Option<Instant>,
    /// The client's clock is so many microseconds ahead of the world's.
    ahead: u64,
    /// A clock that was put back stands still until it has caught up.
    stands: Instant,
    pub(crate) refused_until: Instant,
    pub(crate) ignored_until: Instant,
    stopped_until: Instant,
    frozen_until: Instant,
    /// The application takes one message in so much time, until then.
    pub(crate) slow: Option<(Duration, Instant)>,
    takes_next: Instant,
}

/// Something that a client told.
pub(crate) enum Told {
    Event(Event),
    Message(Message),
    TokenNeeded,
}

impl Told {
    /// Of one moment an application is told events first, then messages, in whatever order they were polled.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Self::Event(_) => 0,
            Self::TokenNeeded => 1,
            Self::Message(_) => 2,
        }
    }
}

/// How far a client's clock is ahead at first, so that it can go back.
const AHEAD: Duration = Duration::from_secs(1000);

impl Seat {
    pub(crate) fn new(
        id: ClientId,
        config: Config,
        seed: u64,
        now: Instant,
        application: Option<Box<dyn Application>>,
    ) -> Self {
        let ahead = AHEAD.as_micros() as u64;
        let core = Core::new(config, seed, Instant::from_micros(now.as_micros() + ahead))
            .expect("the configuration is valid");
        let ledger = if application.is_some() { Ledger::default() } else { Ledger::keeping() };
        let mut seat = Self {
            id,
            core,
            application,
            ledger,
            told: VecDeque::new(),
            events: Vec::new(),
            messages: Vec::new(),
            link: None,
            links: 0,
            backlog: VecDeque::new(),
            next: None,
            ahead,
            stands: Instant::ZERO,
            refused_until: Instant::ZERO,
            ignored_until: Instant::ZERO,
            stopped_until: Instant::ZERO,
            frozen_until: Instant::ZERO,
            slow: None,
            takes_next: Instant::ZERO,
        };
        seat.schedule(now);
        seat
    }

    /// What the client takes for the time.
    pub(crate) fn clock(&self, now: Instant) -> Instant {
        Instant::from_micros(now.as_micros() + self.ahead).max(self.stands)
    }

    /// Moves the client's clock by so many microseconds.
    pub(crate) fn shift_clock(&mut self, now: Instant, by: i64) {
        self.stands = self.clock(now);
        self.ahead = self.ahead.saturating_add_signed(by);
    }

    pub(crate) fn client(&mut self, now: Instant) -> Client<'_> {
        let clock = self.clock(now);
        Client { id: self.id, now, clock, core: &mut self.core, accepted: Vec::new() }
    }

    pub(crate) fn stop_until(&mut self, until: Instant) {
        self.stopped_until = self.stopped_until.max(until);
    }

    pub(crate) fn freeze_until(&mut self, until: Instant) {
        self.frozen_until = self.frozen_until.max(until);
    }

    pub(crate) fn is_stopped(&self, now: Instant) -> bool {
        now < self.stopped_until
    }

    pub(crate) fn is_frozen(&self, now: Instant) -> bool {
        now < self.frozen_until
    }

    /// Whether the adapter takes what arrives.
    pub(crate) fn reads(&self, now: Instant) -> bool {
        !self.is_frozen(now) && self.core.wants_input()
    }

    /// Whether the application takes a message now.
    pub(crate) fn may_take(&self, now: Instant) -> bool {
        let slow = self.slow.is_some_and(|(_, until)| now < until);
        let rests = slow && now < self.takes_next;
        !self.is_stopped(now) && !rests
    }

    /// The application took a message.
    pub(crate) fn took(&mut self, now: Instant) {
        if let Some((gap, _)) = self.slow {
            self.takes_next = now + gap;
        }
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next.is_some_and(|next| next <= now)
    }

    /// Finds out when it must be looked at next.
    pub(crate) fn schedule(&mut self, now: Instant) {
        let timer = self
            .core
            .poll_timeout()
            .map(|at| Instant::from_micros(at.as_micros().saturating_sub(self.ahead)));
        let wake = self.application.as_ref().and_then(|application| application.next_wake());
        let take = (self.core.usage().inbound_messages > 0 && self.slow.is_some()).then_some(self.takes_next);
        let unread = (!self.backlog.is_empty() && self.core.wants_input()).then_some(Instant::ZERO);
        // What only a running application can do waits for it.
        let application = [wake, take].into_iter().flatten().min().map(|at| at.max(self.stopped_until));
        let untold = (self.is_stopped(now) && self.has_untold()).then_some(self.stopped_until);
        let next = [timer, application, unread, untold].into_iter().flatten().min();
        self.next = next.map(|at| at.max(self.frozen_until));
    }

    fn has_untold(&self) -> bool {
        let usage = self.core.usage();
        usage.events > 0 || usage.inbound_messages > 0 || !self.told.is_empty()
    }

    /// Takes what a client without an application is told. Messages are acked.
    pub(crate) fn collect(&mut self, now: Instant, told: VecDeque<Told>) {
        let clock = self.clock(now);
        for told in told {
            match told {
                Told::Event(event) => self.events.push(event),
                Told::Message(message) => {
                    if let Some(msg_id) = message.ack_id() {
                        self.core.ack(clock, msg_id);
                    }
                    self.messages.push(message);
                }
                Told::TokenNeeded => {}
            }
        }
    }
}
