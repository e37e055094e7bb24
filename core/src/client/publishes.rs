//! Publishing: from the command to its one outcome.

use alloc::{format, string::String, vec::Vec};
use core::mem;

use super::{ClientCore, OpId, Outcome, Publish, Sender, Waiting};
use crate::{
    Instant,
    error::{Error, Misuse, Op, Refused, ServerError},
    topic,
    wire::{self, ClientFrame, ErrorFrame, QoS, Text, is_valid_filter},
};

/// A publish without an outcome.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingPublish {
    tracked: bool,
}

impl ClientCore {
    /// Accepts a message to publish on the session that stands.
    ///
    /// The outcome is [`Outcome::Acked`], [`Outcome::Sent`] (untracked, or on protocol version 1),
    /// [`Outcome::Refused`], [`Outcome::NotSent`] or [`Outcome::Unknown`].
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
        let msg_ref = publish.tracked.then(|| msg_ref(op));
        let qos = Some(publish.qos.unwrap_or(self.config.qos)).filter(|qos| *qos != QoS::default());
        let frame = ClientFrame::Publish(wire::Publish {
            topic: &publish.topic,
            data: publish.payload.raw(),
            qos,
            retain: publish.retain,
            echo: publish.echo,
            filter: publish.filter.as_deref(),
            filters: publish.filters.iter().map(String::as_str).collect::<Vec<_>>(),
            msg_ref: msg_ref.as_deref(),
        });
        self.send(&frame, Sender::Publish(op));
        self.publishes.insert(op, PendingPublish { tracked: publish.tracked });
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
        self.check_ready(publish.payload.packed_len())
    }

    pub(super) fn publish_sent(&mut self, op: OpId) {
        let Some(publish) = self.publishes.get(&op) else { return };
        if publish.tracked {
            self.mark_sent(op);
            self.expect_answer(Waiting::Publish(op));
        } else {
            self.end_publish(op, Outcome::Sent);
        }
    }

    pub(super) fn publish_timed_out(&mut self, op: OpId) {
        if !self.publishes.contains_key(&op) {
            return;
        }
        // Version 1 promises no confirmation, so its absence says nothing.
        let outcome = if self.session.as_ref().is_some_and(|session| session.protocol_version < 2) {
            Outcome::Sent
        } else {
            Outcome::Unknown(self.timeout(Op::Publish, self.config.operation_timeout))
        };
        self.end_publish(op, outcome);
    }

    pub(super) fn handle_published(&mut self, msg_ref: Text<'_>) {
        match self.find_publish(msg_ref) {
            Some(op) => self.end_publish(op, Outcome::Acked),
            None => self.stats.frames_unexpected += 1,
        }
    }

    /// Settles the publish that an error names; `false` when it names none that waits.
    pub(super) fn publish_refused(&mut self, msg_ref: Text<'_>, frame: &ErrorFrame<'_>) -> bool {
        let Some(op) = self.find_publish(msg_ref) else { return false };
        let error = ServerError::from_frame(frame, Some(Op::Publish));
        self.end_publish(op, Outcome::Refused(error.into()));
        true
    }

    pub(super) fn lose_publishes(&mut self, cause: &Error) {
        let publishes = mem::take(&mut self.publishes);
        self.settle_undone(publishes.into_keys(), cause);
    }

    fn find_publish(&self, msg_ref: Text<'_>) -> Option<OpId> {
        let op = OpId(u64::from_str_radix(msg_ref.as_str()?, 16).ok()?);
        // Only what was sent can be answered.
        let sent = self.ops.get(&op).is_some_and(|pending| pending.sent);
        (sent && self.publishes.contains_key(&op)).then_some(op)
    }

    fn end_publish(&mut self, op: OpId, outcome: Outcome) {
        self.publishes.remove(&op);
        self.forget_answered();
        self.settle(op, outcome);
    }
}

/// The operation's number in hexadecimal: unique among this client's publishes, and cheap to find again.
fn msg_ref(op: OpId) -> String {
    format!("{:x}", op.0)
}
