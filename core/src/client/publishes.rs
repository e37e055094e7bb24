//! Publishing: from the command to its one outcome, paced, retried and resent by policy.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    string::String,
    vec::Vec,
};
use core::{fmt, time::Duration};

use bytes::{Bytes, BytesMut};

use super::{ByOp, ClientCore, Link, OfflinePolicy, OpId, Outcome, Publish, ResendPolicy, Timer, Waiting};
use crate::{
    Instant,
    error::{Error, Misuse, Op, Refused, Rejection, ServerError, TransportErrorKind},
    topic,
    wire::{self, ClientFrame, ErrorFrame, QoS, Text, is_valid_filter},
};

/// The broker counts publishes per second of its own clock. One second after a reply has arrived, whatever it was the
/// reply to is in a second that is over.
const WINDOW: Duration = Duration::from_secs(1);

/// The broker's refusal of a publish that came too soon.
const RATE_LIMITED: u32 = 42910;

/// How often a publish that came too soon is tried again.
const MAX_RETRIES: u32 = 10;

/// Bytes of a `publish` frame besides its texts and its payload, at most.
const FRAME_OVERHEAD: usize = 128;

/// Untracked publishes whose topics are remembered until the broker has seen them.
const MAX_UNSEEN: usize = 1024;

/// A publish without an outcome.
struct Pending {
    frame: Bytes,
    /// The hash of its topic if nothing will confirm it.
    untracked: Option<u64>,
    /// How often it was handed to a transport.
    attempts: u32,
    in_flight: bool,
    /// Its place among the publishes of this connection.
    serial: u64,
    /// How often it was refused for coming too soon.
    refusals: u32,
    /// Until when it may wait to be sent.
    expires: Option<Instant>,
}

/// Publishes without an outcome, in the order of the commands.
#[derive(Default)]
pub(super) struct Publishes {
    pending: ByOp<Pending>,
    /// Those to be sent, in order.
    waiting: ByOp<()>,
    /// When those that wait expire.
    expiries: BTreeSet<(Instant, OpId)>,
    /// Bytes of all frames.
    bytes: usize,
    /// Tracked and sent, not answered.
    in_flight: usize,
    /// When the slots of what was answered are free again.
    cooling: VecDeque<Instant>,
    /// Ended without an answer, by their serial. The broker may count them only now, so they keep their slots until it is
    /// known to have seen them.
    overdue: BTreeMap<u64, OpId>,
    /// Untracked, with their serials and the hashes of their topics: a refusal, which names only the topic, may come as
    /// long as the broker is not known to have seen them.
    unseen: VecDeque<(u64, u64)>,
    /// The serial of the last one that `unseen` had no room for.
    forgotten: u64,
    /// Publishes handed to this connection.
    sent: u64,
    /// As many had been handed over when heartbeats that are not answered yet left.
    heartbeats: VecDeque<u64>,
    /// Nothing is sent before, because the broker said that it was too much.
    hold_until: Option<Instant>,
    /// The publish on which the broker closed the connection; it is sent alone.
    suspect: Option<OpId>,
    /// Other frames whose place is before this one go first: they restore what publishes may rely on.
    after: u64,
}

/// Shows sizes only: the frames hold payloads.
impl fmt::Debug for Publishes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publishes")
            .field("pending", &self.pending.len())
            .field("waiting", &self.waiting.len())
            .field("bytes", &self.bytes)
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}

impl Publishes {
    /// Bytes held for publishes without an outcome.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_answered(&self, op: OpId, attempt: u32) -> bool {
        !self.pending.get(op).is_some_and(|pending| pending.in_flight && pending.attempts == attempt)
    }

    /// Those that wait to be sent.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn remove(&mut self, op: OpId) -> Option<Pending> {
        self.stop_waiting(op);
        let pending = self.pending.remove(op)?;
        self.bytes -= pending.frame.len();
        self.in_flight -= usize::from(pending.in_flight);
        if self.suspect == Some(op) {
            self.suspect = None;
        }
        Some(pending)
    }

    fn stop_waiting(&mut self, op: OpId) {
        if self.waiting.remove(op).is_some() {
            if let Some(expires) = self.pending.get(op).and_then(|pending| pending.expires) {
                self.expiries.remove(&(expires, op));
            }
        }
    }

    fn wait(&mut self, op: OpId) {
        let Some(pending) = self.pending.get_mut(op) else { return };
        self.in_flight -= usize::from(core::mem::take(&mut pending.in_flight));
        self.waiting.insert(op, ());
        if let Some(expires) = pending.expires {
            self.expiries.insert((expires, op));
        }
    }

    /// Shortens how long a publish may wait: from now on it waits for a session.
    fn expire_by(&mut self, op: OpId, limit: Option<Instant>) {
        let (Some(limit), Some(pending)) = (limit, self.pending.get_mut(op)) else { return };
        if pending.expires.is_none_or(|expires| limit < expires) {
            if let Some(before) = pending.expires.replace(limit) {
                self.expiries.remove(&(before, op));
            }
            self.expiries.insert((limit, op));
        }
    }

    fn new_connection(&mut self) {
        self.cooling.clear();
        self.overdue.clear();
        self.unseen.clear();
        self.forgotten = 0;
        self.sent = 0;
        self.heartbeats.clear();
        self.hold_until = None;
    }

    /// Slots that are not free.
    fn used_slots(&self) -> usize {
        self.in_flight + self.cooling.len() + self.overdue.len()
    }

    /// Whether an error that names the topic of this hash, and no publish, may be for an untracked one.
    pub(super) fn may_be_refused(&self, topic: u64) -> bool {
        self.forgotten > 0 || self.unseen.iter().any(|(_, of)| *of == topic)
    }

    fn remember_untracked(&mut self, serial: u64, topic: u64) {
        if self.unseen.len() >= MAX_UNSEEN {
            self.forgotten = self.unseen.pop_front().map_or(0, |(forgotten, _)| forgotten);
        }
        self.unseen.push_back((serial, topic));
    }

    /// A heartbeat is handed over: its echo will show that what came before it has arrived.
    pub(super) fn heartbeat_sent(&mut self) {
        self.heartbeats.push_back(self.sent);
    }

    /// Lets the frames with a place before `place` go first, although publishes that waited for them are older.
    pub(super) fn go_after(&mut self, place: u64) {
        self.after = place;
    }

    /// The next one to send now, if the broker would take it.
    fn next(&mut self, now: Instant, slots: Option<u32>) -> Option<OpId> {
        while self.cooling.front().is_some_and(|free| *free <= now) {
            self.cooling.pop_front();
        }
        let op = match self.suspect {
            // Nothing goes beside the suspect.
            Some(suspect) => suspect,
            None => self.waiting.first()?.0,
        };
        if !self.waiting.contains(op) {
            return None;
        }
        let slots = slots.map_or(usize::MAX, |slots| slots.max(1) as usize);
        let free = self.used_slots() < slots;
        (free && self.hold_until.is_none_or(|until| until <= now)).then_some(op)
    }

    /// When the next one that waits may be sent, if only time holds it back.
    fn next_slot(&self, slots: Option<u32>) -> Option<Instant> {
        self.waiting.first()?;
        let full = slots.is_some_and(|slots| self.used_slots() >= slots.max(1) as usize);
        let slot = self.cooling.front().copied().filter(|_| full);
        slot.into_iter().chain(self.hold_until).max()
    }
}

impl ClientCore {
    /// Accepts a message to publish.
    ///
    /// Without a session it is refused, or queued if [`Config::offline`](super::Config::offline) says so. Messages leave
    /// in order, no faster than the broker takes them ([`Config::publish_rate`](super::Config::publish_rate)). The outcome is
    /// [`Outcome::Acked`], [`Outcome::Sent`] (untracked, or on protocol version 1), [`Outcome::Refused`],
    /// [`Outcome::NotSent`], [`Outcome::Expired`] or [`Outcome::Unknown`].
    ///
    /// # Errors
    /// The message comes back with [`Error::Misuse`] for a bad topic, filter or payload, and with
    /// [`Error::Rejected`] when there is no session, the client is leaving, or too much is waiting.
    pub fn publish(&mut self, now: Instant, publish: Publish) -> Result<OpId, Refused<Publish>> {
        self.observe(now);
        if let Err(error) = self.check_publish(&publish) {
            return Err(Refused { error, value: publish });
        }
        let op = self.accept(Op::Publish);
        let mut digits = [0; 16];
        let msg_ref = publish.tracked.then(|| msg_ref(op, &mut digits));
        let untracked = (!publish.tracked).then(|| self.registry.hash(&publish.topic));
        let qos = Some(publish.qos.unwrap_or(self.config.qos)).filter(|qos| *qos != QoS::default());
        let frame = ClientFrame::Publish(wire::Publish {
            topic: &publish.topic,
            data: publish.payload.raw(),
            qos,
            retain: publish.retain,
            echo: publish.echo,
            filter: publish.filter.as_deref(),
            filters: publish.filters.iter().map(String::as_str).collect::<Vec<_>>(),
            msg_ref,
        });
        let texts: usize = publish.filter.iter().chain(&publish.filters).map(|text| text.len() + 5).sum();
        let size = FRAME_OVERHEAD + publish.topic.len() + publish.payload.packed_len() + texts;
        let frame = self.chunk.write(size, |out| frame.encode(out));
        let max_age = match self.config.offline {
            OfflinePolicy::Queue { max_age, .. } if !self.link_is_ready() => max_age,
            _ => None,
        };
        let expires = publish.expires_in.into_iter().chain(max_age).min().map(|span| self.now + span);
        let publishes = &mut self.publishes;
        publishes.bytes += frame.len();
        let pending =
            Pending { frame, untracked, attempts: 0, in_flight: false, serial: 0, refusals: 0, expires };
        publishes.pending.insert(op, pending);
        publishes.wait(op);
        self.schedule_publishes();
        Ok(op)
    }

    fn check_publish(&self, publish: &Publish) -> Result<(), Error> {
        topic::check_topic(&publish.topic)?;
        let filters = publish.filter.iter().chain(&publish.filters);
        if let Some(bad) = filters.into_iter().find(|value| !is_valid_filter(value)) {
            return Err(Misuse::InvalidFilter(bad.as_str().into()).into());
        }
        if publish.filters.len() > wire::MAX_FILTERS {
            return Err(Misuse::TooManyFilters(publish.filters.len()).into());
        }
        publish.payload.check_sendable()?;
        self.check_open()?;
        let len = publish.payload.packed_len();
        match self.config.offline {
            _ if self.link_is_ready() => {}
            OfflinePolicy::Refuse => return Err(Rejection::NotConnected.into()),
            OfflinePolicy::Queue { max_messages, max_bytes, .. } => {
                let (pending, bytes) = (self.publishes.waiting.len(), self.publishes.bytes);
                if pending >= max_messages || bytes + len > max_bytes {
                    return Err(Rejection::Full { pending, bytes }.into());
                }
            }
        }
        self.check_room(len)
    }

    /// The next publish to send, with its place in the order of everything that is sent.
    pub(super) fn next_publish(&mut self) -> Option<OpId> {
        if self.publishes.expiries.first().is_some_and(|(at, _)| *at < self.now) {
            // The adapter polls before it wakes us.
            self.expire_publishes();
            self.finish_drain();
        }
        if !self.link_is_ready() || self.outbound.precedes(self.publishes.after) {
            return None;
        }
        if self.publishes.suspect.is_some() && self.restoring.is_some() {
            // If the broker closed the connection now, it could be for either.
            return None;
        }
        let next = self.publishes.next(self.now, self.config.publish_rate);
        if next.is_none() {
            self.schedule_publishes();
        }
        next
    }

    /// Appends a publish to `out`; from now on it may have been done.
    pub(super) fn send_publish(&mut self, op: OpId, out: &mut BytesMut) -> usize {
        let publishes = &mut self.publishes;
        publishes.stop_waiting(op);
        let Some(pending) = publishes.pending.get_mut(op) else { return 0 };
        let len = pending.frame.len();
        out.extend_from_slice(&pending.frame);
        pending.attempts += 1;
        publishes.sent += 1;
        pending.serial = publishes.sent;
        let (serial, untracked, attempts) = (pending.serial, pending.untracked, pending.attempts);
        pending.in_flight = untracked.is_none();
        publishes.in_flight += usize::from(pending.in_flight);
        if let Some(topic) = untracked {
            publishes.remember_untracked(serial, topic);
            // Nothing will say when it was counted; a second after it left is a good guess.
            self.cool_slot();
            self.end_publish(op, Outcome::Sent);
        } else {
            self.mark_sent(op);
            self.expect_answer(Waiting::Publish(op, attempts));
        }
        self.schedule_publishes();
        len
    }

    /// A slot of the broker's second was used and is free again when that second is over for certain.
    fn cool_slot(&mut self) {
        if self.config.publish_rate.is_some() {
            self.publishes.cooling.push_back(self.now + WINDOW);
        }
    }

    pub(super) fn publish_timed_out(&mut self, op: OpId, attempt: u32) {
        if self.publishes.is_answered(op, attempt) {
            return;
        }
        // Version 1 promises no confirmation, so its absence says nothing.
        let confirms = self.session.as_ref().is_none_or(|session| session.protocol_version >= 2);
        let outcome = if confirms {
            Outcome::Unknown(self.timeout(Op::Publish, self.config.operation_timeout))
        } else {
            Outcome::Sent
        };
        let serial = self.publishes.pending.get(op).map(|pending| pending.serial);
        match serial.filter(|_| confirms && self.heartbeat_interval().is_some()) {
            // Its answer, a later one or the echo of a heartbeat will come, or the connection is lost.
            Some(serial) => _ = self.publishes.overdue.insert(serial, op),
            None => self.cool_slot(),
        }
        self.end_publish(op, outcome);
    }

    /// The broker has answered something that was sent after the first `serial` publishes of this connection, so it has
    /// seen and counted them.
    fn publishes_seen(&mut self, serial: u64) {
        let publishes = &mut self.publishes;
        while publishes.unseen.front().is_some_and(|(unseen, _)| *unseen <= serial) {
            publishes.unseen.pop_front();
        }
        if publishes.forgotten <= serial {
            publishes.forgotten = 0;
        }
        while self.publishes.overdue.first_entry().is_some_and(|entry| *entry.key() <= serial) {
            self.publishes.overdue.pop_first();
            self.cool_slot();
        }
    }

    /// The echo of the oldest heartbeat came.
    pub(super) fn heartbeat_answered(&mut self) {
        if let Some(serial) = self.publishes.heartbeats.pop_front() {
            self.publishes_seen(serial);
            self.schedule_publishes();
        }
    }

    /// An answer to a publish that may have ended before: it and those before it are counted.
    fn publish_answered(&mut self, msg_ref: Text<'_>) {
        let Some(op) = parse_msg_ref(msg_ref) else { return };
        let pending = self.publishes.pending.get(op).filter(|pending| pending.in_flight);
        let known = pending.map(|pending| pending.serial);
        let ended =
            || self.publishes.overdue.iter().find(|(_, ended)| **ended == op).map(|(serial, _)| *serial);
        if let Some(serial) = known.or_else(ended) {
            self.publishes_seen(serial);
        }
    }

    pub(super) fn handle_published(&mut self, msg_ref: Text<'_>) {
        self.publish_answered(msg_ref);
        match self.find_publish(msg_ref) {
            Some(op) => {
                self.cool_slot();
                self.end_publish(op, Outcome::Acked);
            }
            None => self.stats.frames_unexpected += 1,
        }
    }

    /// Settles the publish that an error names; `false` when it names none that waits.
    pub(super) fn publish_refused(&mut self, msg_ref: Text<'_>, frame: &ErrorFrame<'_>) -> bool {
        self.publish_answered(msg_ref);
        let Some(op) = self.find_publish(msg_ref) else { return false };
        self.cool_slot();
        if frame.code == Some(RATE_LIMITED) {
            self.publishes.hold_until = Some(self.now + WINDOW);
            let pending = self.publishes.pending.get_mut(op);
            if let Some(pending) = pending.filter(|pending| pending.refusals < MAX_RETRIES) {
                pending.refusals += 1;
                let never_done = pending.refusals == pending.attempts;
                if let Some(known) = self.ops.get_mut(op).filter(|_| never_done) {
                    known.sent = false;
                }
                self.publishes.wait(op);
                self.stats.publishes_retried += 1;
                self.forget_answered();
                self.schedule_publishes();
                return true;
            }
        }
        let error = ServerError::from_frame(frame, Some(Op::Publish));
        self.end_publish(op, Outcome::Refused(error.into()));
        true
    }

    /// Arms the timer for the next publish that time holds back.
    fn schedule_publishes(&mut self) {
        let slot = self.publishes.next_slot(self.config.publish_rate).filter(|_| self.link_is_ready());
        match slot.filter(|at| *at > self.now) {
            Some(at) => self.timers.set(Timer::Pacing, at),
            None => self.timers.stop(Timer::Pacing),
        }
        self.schedule_expiries();
    }

    pub(super) fn expire_publishes(&mut self) {
        while let Some((_, op)) = self.publishes.expiries.first().copied().filter(|(at, _)| *at <= self.now) {
            // One that was sent before and waits to be resent may have been done.
            let sent = self.ops.get(op).is_some_and(|known| known.sent);
            let outcome = if sent { Outcome::Unknown(Rejection::Expired.into()) } else { Outcome::Expired };
            self.end_publish(op, outcome);
        }
        self.schedule_publishes();
    }

    /// Settles or keeps, by policy, what was under way on a connection that is gone.
    pub(super) fn lose_publishes(&mut self, cause: &Error) {
        self.publishes.new_connection();
        let resend = self.config.resend == ResendPolicy::AtLeastOnce;
        let keep = self.link == Link::Backoff && (resend || self.config.offline != OfflinePolicy::Refuse);
        if resend && keep {
            self.suspect_poison(cause);
        }
        let all: Vec<(OpId, bool)> =
            self.publishes.pending.iter().map(|(op, pending)| (op, pending.in_flight)).collect();
        let age_limit = match self.config.offline {
            OfflinePolicy::Queue { max_age: Some(max_age), .. } if keep => Some(self.now + max_age),
            _ => None,
        };
        // Backwards: each that waits again comes before those that wait already.
        for (op, in_flight) in all.iter().rev().filter(|_| keep) {
            if !in_flight || resend {
                self.publishes.wait(*op);
                self.publishes.expire_by(*op, age_limit);
            }
        }
        for (op, in_flight) in all {
            if !keep || (in_flight && !resend) {
                self.publishes.remove(op);
                self.settle_undone([op], cause);
            }
        }
        self.schedule_expiries();
    }

    /// Whoever has not been sent when the connection is given up was not sent.
    pub(super) fn end_publishes(&mut self, cause: &Error) {
        let publishes = core::mem::take(&mut self.publishes);
        self.settle_undone(publishes.pending.ops(), cause);
        self.schedule_expiries();
    }

    fn schedule_expiries(&mut self) {
        match self.publishes.expiries.first() {
            Some((at, _)) => self.timers.set(Timer::PublishExpiry, *at),
            None => self.timers.stop(Timer::PublishExpiry),
        }
    }

    /// After a close that the broker makes when a frame breaks it, the first unanswered publish is suspected: it is resent
    /// alone, and given up when it happens again.
    fn suspect_poison(&mut self, cause: &Error) {
        let Error::Transport(error) = cause else { return };
        let TransportErrorKind::Closed(Some(code @ (1009 | 1011))) = error.kind else { return };
        let first = self.publishes.pending.iter().find(|(_, pending)| pending.in_flight).map(|(op, _)| op);
        let Some(op) = first else { return };
        if self.publishes.suspect == Some(op) {
            let mut error = ServerError::named("connection_closed", Op::Publish);
            error.detail = Some(format!("the broker closed the connection ({code}) twice on this message"));
            self.end_publish(op, Outcome::Refused(Box::new(error)));
        } else {
            self.publishes.suspect = Some(op);
        }
    }

    fn find_publish(&self, msg_ref: Text<'_>) -> Option<OpId> {
        let op = parse_msg_ref(msg_ref)?;
        // Only what was sent can be answered.
        self.publishes.pending.get(op).filter(|pending| pending.in_flight).map(|_| op)
    }

    fn end_publish(&mut self, op: OpId, outcome: Outcome) {
        self.publishes.remove(op);
        self.forget_answered();
        self.settle(op, outcome);
    }
}

/// The operation's number in hexadecimal: unique among this client's publishes, and cheap to find again.
fn msg_ref(op: OpId, digits: &mut [u8; 16]) -> &str {
    let mut rest = op.0;
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b"0123456789abcdef"[(rest % 16) as usize];
        rest /= 16;
        if rest == 0 {
            break;
        }
    }
    // Hexadecimal digits are text.
    core::str::from_utf8(&digits[start..]).unwrap_or_default()
}

fn parse_msg_ref(msg_ref: Text<'_>) -> Option<OpId> {
    u64::from_str_radix(msg_ref.as_str()?, 16).ok().map(OpId)
}
