//! Faults in the client itself, one for each invariant, to see that it is found.
//!
//! They stand between a client and its world, and change what goes in and out, or what the client was told of its policy.
//! The client's own code is as it is.

use std::{
    collections::VecDeque,
    ops::{Deref, DerefMut},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use nolag_core::{
    ClientCore, Config, Error, Event, Instant, Message, Outcome, ResendPolicy, Transmit, TransportError,
    TransportErrorKind, TransportEvent, TransportEventKind,
    wire::{ClientFrame, ServerFrame},
};

/// A fault, named after what the client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// Reports some outcomes twice.
    ReportsTwice,
    /// Swallows some outcomes.
    ReportsNever,
    /// Says of publishes that they are acked when it does not know.
    ClaimsAcks,
    /// Does not resend what it was to send at least once.
    ForgetsUnacked,
    /// Sends some publishes twice.
    SendsTwice,
    /// Lets some publishes be overtaken.
    LetsOvertake,
    /// Publishes as fast as it can.
    DoesNotPace,
    /// Confirms subscriptions late, after their messages.
    ConfirmsLate,
    /// Loses some messages.
    LosesMessages,
    /// Reconnects far too soon.
    ReconnectsSoon,
    /// Reconnects at once, with hardly any jitter.
    ReconnectsTogether,
    /// Sends no heartbeats.
    SendsNoHeartbeats,
    /// Takes in all that comes.
    Hoards,
    /// Shows its token in an error.
    ShowsToken,
    /// Does not see others leave.
    MissesLeaves,
    /// Lets its time pass a little faster with every call that it did not ask for.
    CountsCalls,
}

impl Planted {
    /// All of them, with the invariant that must find each.
    pub const ALL: [(Self, &'static str); 16] = [
        (Self::ReportsTwice, "one_outcome_per_command"),
        (Self::ReportsNever, "nothing_is_left_open"),
        (Self::ClaimsAcks, "acked_means_accepted"),
        (Self::ForgetsUnacked, "at_least_once_loses_nothing"),
        (Self::SendsTwice, "repeats_are_bounded"),
        (Self::LetsOvertake, "first_copies_keep_their_order"),
        (Self::DoesNotPace, "paced_publishes_are_never_refused"),
        (Self::ConfirmsLate, "messages_belong_to_confirmed_subscriptions"),
        (Self::LosesMessages, "whatever_arrives_is_told"),
        (Self::ReconnectsSoon, "attempts_keep_to_their_policy"),
        (Self::ReconnectsTogether, "attempts_are_spread"),
        (Self::SendsNoHeartbeats, "silence_is_noticed"),
        (Self::Hoards, "everything_is_bounded"),
        (Self::ShowsToken, "no_secret_is_told"),
        (Self::MissesLeaves, "what_was_asked_for_stands"),
        (Self::CountsCalls, "polling_changes_nothing"),
    ];

    /// What the client is told of its policy.
    pub(crate) fn spoil(self, mut config: Config) -> Config {
        match self {
            Self::ForgetsUnacked => config.resend = ResendPolicy::ReportUnknown,
            Self::DoesNotPace => config.publish_rate = None,
            Self::ReconnectsSoon => config.reconnect.cap = Duration::from_millis(100),
            Self::ReconnectsTogether => config.reconnect.first = Duration::from_millis(1),
            Self::SendsNoHeartbeats => config.heartbeat_interval = None,
            Self::Hoards => config.limits.max_inbound_messages = usize::MAX / 4,
            _ => {}
        }
        config
    }
}

/// A client with a fault, or without one.
pub(crate) struct Core {
    core: ClientCore,
    planted: Option<Planted>,
    /// How often the fault had an occasion.
    occasions: u64,
    events: VecDeque<Event>,
    /// To be sent next.
    frames: VecDeque<(Transmit, Bytes)>,
    /// To be sent after the next publish.
    held: Option<(Transmit, Bytes)>,
}

impl Core {
    pub(crate) fn new(config: Config, seed: u64, now: Instant) -> Result<Self, Error> {
        let core = ClientCore::new(config, seed, now)?;
        let (events, frames) = (VecDeque::new(), VecDeque::new());
        Ok(Self { core, planted: None, occasions: 0, events, frames, held: None })
    }

    pub(crate) fn plant(&mut self, planted: Option<Planted>) {
        self.planted = planted;
    }

    /// Whether the fault strikes at this occasion, one of `n`.
    fn strikes(&mut self, n: u64) -> bool {
        self.occasions += 1;
        self.occasions.is_multiple_of(n)
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        let asked = self.core.poll_timeout().is_some_and(|at| at <= now);
        let hurry = self.planted == Some(Planted::CountsCalls) && !asked && self.strikes(20);
        self.core.handle_timeout(if hurry { now + Duration::from_millis(1) } else { now });
    }

    pub(crate) fn handle_transport(&mut self, now: Instant, event: TransportEvent) {
        if let (Some(Planted::MissesLeaves), TransportEventKind::Message(frame)) = (self.planted, &event.kind)
            && matches!(ServerFrame::decode(frame), Ok(ServerFrame::Presence(event)) if event.event == "leave")
        {
            return;
        }
        self.core.handle_transport(now, event);
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        if self.planted == Some(Planted::ConfirmsLate) && self.events.len() > 1 {
            return self.events.pop_front();
        }
        if self.planted == Some(Planted::ReportsTwice)
            && let Some(again) = self.events.pop_front()
        {
            return Some(again);
        }
        loop {
            let event = self.core.poll_event()?;
            let acked = matches!(event, Event::Done { outcome: Outcome::Acked, .. });
            let planted = self.planted;
            match (planted, &event) {
                (Some(Planted::ReportsTwice), Event::Done { .. }) if self.strikes(100) => {
                    self.events.push_back(event.clone());
                }
                (Some(Planted::ReportsNever), _) if acked && self.strikes(1000) => continue,
                (Some(Planted::ClaimsAcks), Event::Done { op, outcome: Outcome::Unknown(_) }) => {
                    return Some(Event::Done { op: *op, outcome: Outcome::Acked });
                }
                (Some(Planted::ConfirmsLate), Event::Done { outcome: Outcome::Subscribed { .. }, .. }) => {
                    self.events.push_back(event);
                    continue;
                }
                (Some(Planted::ShowsToken), Event::AttemptFailed { attempt, retry_in, .. }) => {
                    let cause =
                        TransportError::new(TransportErrorKind::Connect, "dev-token-sim-1 was refused");
                    return Some(Event::AttemptFailed {
                        attempt: *attempt,
                        cause: cause.into(),
                        retry_in: *retry_in,
                    });
                }
                _ => {}
            }
            return Some(event);
        }
    }

    pub(crate) fn poll_message(&mut self) -> Option<Message> {
        let message = self.core.poll_message()?;
        if self.planted == Some(Planted::LosesMessages) && self.strikes(100) {
            return self.core.poll_message();
        }
        Some(message)
    }

    pub(crate) fn poll_transmit(&mut self, now: Instant, out: &mut BytesMut) -> Option<Transmit> {
        if let Some((transmit, frame)) = self.frames.pop_front() {
            out.extend_from_slice(&frame);
            return Some(transmit);
        }
        let start = out.len();
        let transmit = self.core.poll_transmit(now, out)?;
        let frame = Bytes::copy_from_slice(&out[start..]);
        if !matches!(ClientFrame::decode(&frame), Ok(ClientFrame::Publish(_))) {
            return Some(transmit);
        }
        let planted = self.planted;
        match planted {
            Some(Planted::SendsTwice) if self.strikes(20) => self.frames.push_back((transmit, frame)),
            Some(Planted::LetsOvertake) => {
                if let Some((of, held)) = self.held.take() {
                    // Now it goes, behind this one.
                    if of.transport == transmit.transport {
                        self.frames.push_back((of, held));
                    }
                } else if self.strikes(5) {
                    out.truncate(start);
                    self.held = Some((transmit, frame));
                    return self.poll_transmit(now, out);
                }
            }
            _ => {}
        }
        Some(transmit)
    }
}

impl Deref for Core {
    type Target = ClientCore;

    fn deref(&self) -> &ClientCore {
        &self.core
    }
}

impl DerefMut for Core {
    fn deref_mut(&mut self) -> &mut ClientCore {
        &mut self.core
    }
}
