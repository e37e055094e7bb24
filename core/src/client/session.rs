//! Connecting, authenticating, staying alive, losing the connection, leaving.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::{mem, time::Duration};

use super::{
    Action, ClientCore, Disconnect, Event, OpId, Outcome, Replay, Sender, Session, Timer, TimerTable,
    TokenSource, TransportId, reconnect::Reaction,
};
use crate::{
    Instant, SecretStr,
    error::{Error, Op, ProtocolError, Rejection, ServerError, TransportError, TransportErrorKind, clean},
    wire::{Auth, AuthReply, ClientFrame, PROTOCOL_VERSION},
};

/// Where the connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    /// Nothing is wanted.
    Idle,
    /// The application is asked for a token.
    AwaitingToken,
    /// Waiting for the next attempt.
    Backoff,
    /// The adapter opens a transport.
    Opening(TransportId),
    /// The broker has `auth` and must answer.
    Authenticating(TransportId),
    /// A session stands.
    Ready {
        transport: TransportId,
        since: Instant,
        /// Nothing new is accepted; what was accepted is finished.
        draining: bool,
    },
}

impl Link {
    pub(super) fn transport(self) -> Option<TransportId> {
        match self {
            Self::AwaitingToken | Self::Backoff | Self::Idle => None,
            Self::Opening(transport) | Self::Authenticating(transport) | Self::Ready { transport, .. } => {
                Some(transport)
            }
        }
    }

    /// The transport, if it can carry frames.
    pub(super) fn open_transport(self) -> Option<TransportId> {
        match self {
            Self::Opening(_) => None,
            _ => self.transport(),
        }
    }
}

const NORMAL_CLOSURE: (u16, &str) = (1000, "");

impl ClientCore {
    /// Starts connecting; with a session already there or on its way, joins it.
    ///
    /// The outcome is [`Outcome::Connected`] or [`Outcome::Failed`]. A failure of the first attempt is reported at once
    /// unless [`Config::retry_first_connect`](super::Config::retry_first_connect) is set; a lost session is then
    /// restored by [`Config::reconnect`](super::Config::reconnect) without another call.
    ///
    /// # Errors
    /// [`Rejection::Closing`] while the client is leaving.
    pub fn connect(&mut self, now: Instant) -> Result<OpId, Error> {
        self.observe(now);
        if let Link::Ready { draining: true, .. } = self.link {
            return Err(Rejection::Closing.into());
        }
        let op = self.accept(Op::Connect);
        match (&self.link, &self.session) {
            (Link::Ready { .. }, Some(session)) => {
                let session = session.clone();
                self.settle(op, Outcome::Connected(session));
            }
            (Link::Idle, _) => {
                self.connecting.push(op);
                self.gave_up = None;
                self.lost_at = None;
                self.attempts = 0;
                self.start_attempt();
            }
            _ => self.connecting.push(op),
        }
        Ok(op)
    }

    /// Leaves. Nothing new is accepted from now on, and no reconnect follows.
    ///
    /// Draining finishes what was accepted, then closes; what is left at its deadline is reported as not sent or
    /// unknown. Without a session there is nothing to finish. Subscriptions end.
    ///
    /// The outcome is [`Outcome::Disconnected`].
    pub fn disconnect(&mut self, now: Instant, mode: Disconnect) -> OpId {
        self.observe(now);
        let op = self.accept(Op::Disconnect);
        self.disconnecting.push(op);
        match (&mut self.link, mode) {
            (Link::Ready { draining, .. }, Disconnect::Drain(patience)) => {
                let already = mem::replace(draining, true);
                if !already {
                    self.timers.set(Timer::Drain, self.now + patience);
                }
                self.flush_acks();
                self.finish_drain();
            }
            _ => self.leave(),
        }
        op
    }

    pub(super) fn start_attempt(&mut self) {
        if self.lost_at.is_some() || self.link == Link::Backoff {
            self.attempts += 1;
        }
        if self.token_is_good() {
            self.open_transport();
        } else {
            self.ask_for_token();
        }
    }

    pub(super) fn open_transport(&mut self) {
        let id = TransportId(self.id());
        self.tokens.attempt();
        self.link = Link::Opening(id);
        self.timers.set(Timer::Handshake, self.now + self.config.connect_timeout);
        self.actions.push_back(Action::OpenTransport { id });
    }

    pub(super) fn transport_opened(&mut self) {
        let Link::Opening(id) = self.link else { return };
        self.link = Link::Authenticating(id);
        self.timers.set(Timer::Handshake, self.now + self.config.auth_timeout);
        // No attempt begins without a token. Whether it ended meanwhile is for the broker to say.
        let Some(token) = self.token() else { return };
        let auth = ClientFrame::Auth(Auth {
            token: SecretStr::new(token.expose()),
            protocol_version: Some(PROTOCOL_VERSION),
            // Without a name of its own a client would be given the subscriptions of all the actor's connections.
            reconnect: self.lost_at.is_some() && self.config.client_id.is_some(),
            client_id: self.config.client_id.as_deref(),
            project_id: self.config.project_id.as_deref(),
            ..Auth::default()
        });
        self.outbound.push(0, super::encode(&auth), Sender::Nobody);
    }

    pub(super) fn handle_auth(&mut self, reply: &AuthReply<'_>) {
        let Link::Authenticating(transport) = self.link else { return };
        if self.outbound.precedes(1) {
            // Nothing was asked yet.
            self.stats.frames_unexpected += 1;
            return;
        }
        if !reply.success {
            let error =
                ServerError::named(clean(reply.error.unwrap_or("authentication_failed")), Op::Connect);
            return self.connection_lost(error.into(), Some(NORMAL_CLOSURE));
        }
        self.timers.stop(Timer::Handshake);
        self.link = Link::Ready { transport, since: self.now, draining: false };
        self.stats.sessions += 1;
        self.unanswered_restores = 0;
        let owned = |text: Option<&str>| text.map(String::from);
        let session = Arc::new(Session {
            actor_id: reply.actor_token_id.unwrap_or_default().into(),
            project_id: owned(reply.project_id),
            actor_type: owned(reply.actor_type),
            // A broker that does not name a version speaks the first.
            protocol_version: reply.protocol_version.unwrap_or(1).clamp(1, PROTOCOL_VERSION),
        });
        self.session = Some(session.clone());
        let downtime = self.lost_at.map(|lost_at| self.now.saturating_since(lost_at));
        // What did not stand again before the last loss either has been missing for longer.
        self.restoring = downtime.map(|downtime| self.restoring.unwrap_or_default() + downtime);
        self.events.push_back(Event::Connected { session: session.clone(), downtime });
        for op in mem::take(&mut self.connecting) {
            self.settle(op, Outcome::Connected(session.clone()));
        }
        if let Some(interval) = self.heartbeat_interval() {
            self.timers.set(Timer::Heartbeat, self.now + interval);
        }
        self.restore_subscriptions(reply.restored_subscriptions);
        self.restore_presence();
        self.restore_lobbies();
        self.publishes.go_after(self.next_id);
        self.schedule_refresh();
        self.flush_acks();
        self.check_restored();
    }

    pub(super) fn handshake_timed_out(&mut self) {
        let error = match self.link {
            Link::Authenticating(_) => self.timeout(Op::Connect, self.config.auth_timeout),
            Link::AwaitingToken => {
                let wait = self.config.token_timeout.as_secs_f32();
                Rejection::TokenUnavailable(alloc::format!("none came within {wait:.1} s").into()).into()
            }
            _ => {
                let detail =
                    alloc::format!("not open after {:.1} s", self.config.connect_timeout.as_secs_f32());
                TransportError::new(TransportErrorKind::Timeout, detail).into()
            }
        };
        self.connection_lost(error, Some(NORMAL_CLOSURE));
    }

    pub(super) fn timeout(&self, op: Op, after: Duration) -> Error {
        ProtocolError::Timeout { op, after }.into()
    }

    pub(super) fn heartbeat_interval(&self) -> Option<Duration> {
        self.config.heartbeat_interval.filter(|interval| !interval.is_zero())
    }

    pub(super) fn send_heartbeat(&mut self) {
        let (Link::Ready { .. }, Some(interval)) = (self.link, self.heartbeat_interval()) else {
            return;
        };
        self.outbound.push_heartbeat();
        self.timers.set(Timer::Heartbeat, self.now + interval);
        if self.liveness.is_none() {
            self.liveness = Some(self.inbox.active(self.now) + self.config.heartbeat_timeout);
        }
    }

    pub(super) fn check_liveness(&mut self) {
        if self.liveness.is_some_and(|deadline| deadline <= self.inbox.active(self.now)) {
            self.connection_lost(ProtocolError::HeartbeatLost.into(), Some(NORMAL_CLOSURE));
        }
    }

    pub(super) fn transport_closed(&mut self, code: Option<u16>, reason: String) {
        // A broker that announces the close says why in one place or the other.
        let announced = self.goodbye.take().filter(|_| reason.is_empty());
        let reason = announced.unwrap_or_else(|| clean(&reason));
        let error = TransportError::new(TransportErrorKind::Closed(code), reason);
        self.connection_lost(error.into(), None);
    }

    /// The one place where a transport ends before we wanted it to. `close` when we end it.
    pub(super) fn connection_lost(&mut self, cause: Error, close: Option<(u16, &'static str)>) {
        let lost = mem::replace(&mut self.link, Link::Backoff);
        self.end_transport(lost, close);
        self.settle_lost_connection(&cause);
        if let Link::Ready { draining: true, .. } = lost {
            return self.become_idle(cause, true);
        }
        if let Link::Ready { since, .. } = lost {
            self.lost_at = Some(self.now);
            self.restoring = self.restoring.map(|downtime| downtime + self.now.saturating_since(since));
            // A session that broke at once is no success: the next delays must go on growing. Nor is one that was given up
            // because the broker did not answer, unless it only does not know `reauth`.
            let unanswered = |op: Op| op != Op::Reauth;
            let answered =
                !matches!(cause, Error::Protocol(ProtocolError::Timeout { op, .. }) if unanswered(op));
            if answered && self.now.saturating_since(since) >= self.config.reconnect.stable_after {
                self.attempts = 0;
            }
        }
        let first = self.lost_at.is_none();
        let renewable = self.config.token == TokenSource::Provider;
        let reaction = Reaction::to(&cause, renewable);
        if renewable && (reaction == Reaction::RetryNow || Reaction::to(&cause, false) == Reaction::GiveUp) {
            self.tokens.invalidate();
        }
        let retry_in = if first && !self.config.retry_first_connect {
            None
        } else {
            self.config.reconnect.delay(self.attempts, reaction, &mut self.rng)
        };
        let attempt = self.attempts + u32::from(first);
        self.events.push_back(match lost {
            Link::Ready { .. } => Event::Disconnected { cause: cause.clone(), retry_in },
            _ => Event::AttemptFailed { attempt, cause: cause.clone(), retry_in },
        });
        match retry_in {
            Some(delay) => self.timers.set(Timer::Reconnect, self.now + delay),
            None => {
                self.gave_up = Some(cause.clone());
                self.become_idle(cause.clone(), false);
                self.events.push_back(Event::GaveUp { cause });
            }
        }
    }

    /// Ends at once, by the application's wish.
    pub(super) fn leave(&mut self) {
        let left = mem::replace(&mut self.link, Link::Idle);
        let cause = Error::Rejected(Rejection::Disconnected);
        self.end_transport(left, Some(NORMAL_CLOSURE));
        self.settle_lost_connection(&cause);
        self.become_idle(cause, matches!(left, Link::Ready { .. }));
    }

    /// Ends a drain as soon as nothing is left to finish.
    pub(super) fn finish_drain(&mut self) {
        let Link::Ready { draining: true, .. } = self.link else { return };
        let finished =
            self.ops.len() == self.disconnecting.len() && self.outbound.is_empty() && self.acks.is_empty();
        if finished {
            self.leave();
        }
    }

    fn end_transport(&mut self, link: Link, close: Option<(u16, &'static str)>) {
        self.timers = TimerTable::default();
        self.liveness = None;
        self.inbox.connection_lost(self.now);
        if let (Some(id), Some((code, reason))) = (link.transport(), close) {
            self.actions.push_back(Action::CloseTransport { id, code, reason });
        }
    }

    /// Settles what cannot outlive its connection; the rest waits for the next session.
    fn settle_lost_connection(&mut self, cause: &Error) {
        self.lose_publishes(cause);
        self.lose_requests(cause);
        let unsent: Vec<OpId> = self.outbound.unanswered().collect();
        self.settle_undone(unsent, cause);
        self.outbound.clear();
        self.deadlines.clear();
        self.replay = Replay::default();
        self.tokens.connection_lost();
        self.goodbye = None;
    }

    /// Ends everything that waited for another session.
    fn become_idle(&mut self, cause: Error, was_connected: bool) {
        self.link = Link::Idle;
        self.restoring = None;
        self.end_publishes(&cause);
        self.end_subscriptions(&cause);
        self.end_presence(&cause);
        self.end_lobbies(&cause);
        self.drop_acks();
        if was_connected {
            self.events.push_back(Event::Disconnected { cause: cause.clone(), retry_in: None });
        }
        let connecting = mem::take(&mut self.connecting);
        self.settle_all(connecting, &Outcome::Failed(cause));
        let disconnecting = mem::take(&mut self.disconnecting);
        self.settle_all(disconnecting, &Outcome::Disconnected);
    }
}
