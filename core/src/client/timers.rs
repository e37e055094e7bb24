//! What the core waits for.

use crate::Instant;

/// Each reason to wake up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// Acks have waited long enough for company.
    AckFlush,
    /// Draining has taken long enough.
    Drain,
    /// Opening the transport, then authenticating, takes too long.
    Handshake,
    /// The next heartbeat is due.
    Heartbeat,
    /// The lobbies must be subscribed again, or the broker forgets them.
    LobbyKeepAlive,
    /// Reading has been paused for as long as brokers bear.
    MaxPause,
    /// The broker takes another publish.
    Pacing,
    /// The room must be asked who is there.
    PresenceRefetch,
    /// A publish has waited for too long.
    PublishExpiry,
    /// The next attempt to connect is due.
    Reconnect,
    /// The token ends soon.
    TokenRefresh,
}

impl Timer {
    pub(super) const ALL: [Self; 11] = [
        Self::AckFlush,
        Self::Drain,
        Self::Handshake,
        Self::Heartbeat,
        Self::LobbyKeepAlive,
        Self::MaxPause,
        Self::Pacing,
        Self::PresenceRefetch,
        Self::PublishExpiry,
        Self::Reconnect,
        Self::TokenRefresh,
    ];

    /// The name in `explain()`.
    pub(super) fn purpose(self) -> &'static str {
        match self {
            Self::AckFlush => "send gathered acks",
            Self::Drain => "stop draining",
            Self::Handshake => "give up the handshake",
            Self::Heartbeat => "send a heartbeat",
            Self::LobbyKeepAlive => "keep lobbies alive",
            Self::Pacing => "publish more",
            Self::PublishExpiry => "give up a publish that waits",
            Self::PresenceRefetch => "ask who is in the room",
            Self::MaxPause => "read again although the application is behind",
            Self::Reconnect => "connect again",
            Self::TokenRefresh => "replace the token",
        }
    }
}

/// When each timer fires, if armed.
#[derive(Debug, Clone, Default)]
pub(super) struct TimerTable([Option<Instant>; Timer::ALL.len()]);

impl TimerTable {
    pub(super) fn set(&mut self, timer: Timer, at: Instant) {
        self.0[timer as usize] = Some(at);
    }

    pub(super) fn stop(&mut self, timer: Timer) {
        self.0[timer as usize] = None;
    }

    pub(super) fn is_armed(&self, timer: Timer) -> bool {
        self.0[timer as usize].is_some()
    }

    /// The next timer to fire; the order of [`Timer::ALL`] breaks ties.
    pub(super) fn next(&self) -> Option<(Instant, Timer)> {
        Timer::ALL.into_iter().filter_map(|timer| self.0[timer as usize].map(|at| (at, timer))).min()
    }

    /// Disarms and returns the next timer that is due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        let (_, timer) = self.next().filter(|(at, _)| *at <= now)?;
        self.stop(timer);
        Some(timer)
    }
}
