//! Attempts to connect: when they come, and that a dead link is noticed.

use std::{collections::VecDeque, time::Duration};

use nolag_core::{
    Action, Error, Event, Instant, Op, ProtocolError, ReconnectPolicy, TokenSource, TransportErrorKind,
};

use super::Known;
use crate::{Command, Fault, Moment, Way};

/// How late an attempt may be.
const SLACK: Duration = Duration::from_millis(10);

/// How long reading may stop because the application is behind, and with it the deadline of a heartbeat.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// Attempts of one client.
#[derive(Debug, Default)]
pub(crate) struct Connecting {
    pub(super) sessions: u64,
    pub(super) longest_outage: u64,
    /// Attempts since the last session that lasted.
    attempts: u32,
    /// Since when a session stands, by the client's clock.
    since: Option<Instant>,
    /// When the next attempt is due, by the client's clock.
    due: Option<Instant>,
    /// Since when there is none although one is wanted.
    without: Option<Instant>,
    /// The process stood still or the clock jumped since the last event.
    disturbed: bool,
    /// Until when the application takes nothing: what it is told then happened earlier.
    stopped_until: Instant,
    /// Until when the process stands still.
    frozen_until: Instant,
    /// How long a silent link may go unnoticed.
    patience: Duration,
    /// It is not known how many attempts there were.
    unsure: bool,
    /// By when a silent link must have been noticed.
    notice_by: Option<Instant>,
}

impl Connecting {
    pub(super) fn accepted(&mut self, moment: &Moment<'_>, command: &Command) {
        match command {
            Command::Connect => _ = self.without.get_or_insert(moment.now),
            Command::Disconnect(_) => self.left(),
            _ => {}
        }
    }

    /// Nothing is wanted any more.
    fn left(&mut self) {
        self.attempts = 0;
        self.unsure = false;
        self.due = None;
        self.since = None;
        self.without = None;
        self.notice_by = None;
    }

    pub(super) fn told(&mut self, moment: &Moment<'_>, event: &Event) {
        match event {
            Event::Connected { .. } => {
                self.sessions += 1;
                self.since = Some(moment.clock);
                self.unsure |= moment.now <= self.stopped_until;
                if let Some(since) = self.without.take() {
                    let outage = moment.now.saturating_since(since).as_micros() as u64;
                    self.longest_outage = self.longest_outage.max(outage);
                }
            }
            Event::Disconnected { retry_in, .. } | Event::AttemptFailed { retry_in, .. } => {
                self.since = None;
                self.notice_by = None;
                self.disturbed = false;
                self.due = retry_in.map(|delay| moment.clock + delay).filter(|_| !self.unsure);
                if retry_in.is_some() {
                    self.attempts += 1;
                    self.without.get_or_insert(moment.now);
                }
            }
            Event::GaveUp { .. } => self.left(),
            _ => {}
        }
    }

    /// Something arrived: the link is not silent.
    pub(super) fn arrived(&mut self) {
        self.notice_by = None;
    }

    /// `true` if it is an attempt that a policy set the time of.
    pub(super) fn acted(&mut self, moment: &Moment<'_>, action: &Action) -> bool {
        let _ = moment;
        match action {
            Action::OpenTransport { .. } | Action::NeedToken => {
                self.notice_by = None;
                self.due.is_some() && self.since.is_none()
            }
            Action::CloseTransport { .. } => {
                self.notice_by = None;
                false
            }
            _ => false,
        }
    }

    pub(super) fn fault(&mut self, moment: &Moment<'_>, fault: &Fault) {
        match fault {
            Fault::Silence { way: None | Some(Way::ToClient), span, .. } if self.since.is_some() => {
                let config = moment.core.config();
                let patience = config.heartbeat_interval.unwrap_or_default()
                    + config.heartbeat_timeout
                    + MAX_PAUSE
                    + SLACK;
                self.patience = patience;
                let deadline = moment.now.max(self.frozen_until) + patience;
                // One that ends before needs no notice.
                if span.is_none_or(|span| moment.now + span > deadline) {
                    self.notice_by = Some(self.notice_by.map_or(deadline, |before| before.min(deadline)));
                }
            }
            Fault::Stop { span, .. } => {
                self.disturbed = true;
                self.stopped_until = self.stopped_until.max(moment.now + *span).max(self.frozen_until);
            }
            Fault::Freeze { span, .. } => {
                self.disturbed = true;
                let stopped = self.stopped_until >= moment.now;
                self.frozen_until = self.frozen_until.max(moment.now + *span);
                if stopped {
                    self.stopped_until = self.stopped_until.max(self.frozen_until);
                }
                // What came before is read first, and is proof of life then.
                let patience = self.patience;
                self.notice_by = self.notice_by.map(|by| by.max(self.frozen_until + patience));
            }
            Fault::Clock { by, .. } => {
                self.disturbed = true;
                let back = Duration::from_micros(by.min(&0).unsigned_abs());
                self.notice_by = self.notice_by.map(|by| by + back);
            }
            _ => {}
        }
    }
}

/// Attempts to reconnect come within the limits of the policy: the first within [`ReconnectPolicy::first`], the one
/// after n failures after half to all of `interval` × 1.5ⁿ⁻¹, at most `cap`; and none comes before its time, nor later.
///
/// With an event: checks the announced delay. Without: checks that the attempt that is being made is due.
pub(crate) fn attempts_keep_to_their_policy(
    known: &mut Known,
    moment: &Moment<'_>,
    event: Option<&Event>,
) -> Result<(), String> {
    let connecting = &mut known.connecting;
    let policy = &known.config.reconnect;
    let Some(event) = event else {
        let Some(due) = connecting.due.take() else { return Ok(()) };
        let late = moment.clock > due + SLACK && !connecting.disturbed;
        if moment.clock < due || late {
            return Err(format!("an attempt was due at {due:?} and is made at {:?}", moment.clock));
        }
        return Ok(());
    };
    let (Event::Disconnected { cause, retry_in: Some(delay) }
    | Event::AttemptFailed { cause, retry_in: Some(delay), .. }) = event
    else {
        return Ok(());
    };
    connecting.unsure |= moment.now <= connecting.stopped_until;
    let lasted = connecting.since.map(|since| moment.clock.saturating_since(since));
    let unanswered = matches!(cause, Error::Protocol(ProtocolError::Timeout { op, .. }) if *op != Op::Reauth);
    if lasted.is_some_and(|lasted| lasted >= policy.stable_after && !unanswered) {
        connecting.attempts = 0;
        connecting.unsure = moment.now <= connecting.stopped_until;
    }
    if connecting.unsure {
        return Ok(());
    }
    let (least, most) = envelope(known, cause);
    if *delay < least || *delay > most {
        let attempts = known.connecting.attempts;
        return Err(format!(
            "after {attempts} attempts and {cause} the next comes in {delay:?}, not {least:?} to {most:?}"
        ));
    }
    Ok(())
}

/// The least and the longest delay after so many attempts.
fn envelope(known: &Known, cause: &Error) -> (Duration, Duration) {
    let ReconnectPolicy { first, interval, cap, .. } = known.config.reconnect;
    let closed = match cause {
        Error::Transport(error) => match error.kind {
            TransportErrorKind::Closed(code) => code,
            _ => None,
        },
        _ => None,
    };
    let renewable = known.config.token == TokenSource::Provider;
    match (closed, known.connecting.attempts) {
        (Some(4002), _) => (cap / 2, cap),
        (Some(4003), 0) if renewable => (Duration::ZERO, Duration::ZERO),
        (_, 0) => (Duration::ZERO, first),
        (_, n) => {
            let steps = (n - 1).min(64);
            let step = (0..steps).fold(interval, |step, _| (step * 3 / 2).min(cap)).min(cap);
            (step / 2 - Duration::from_micros(1), step)
        }
    }
}

/// The last attempts of all clients.
#[derive(Debug)]
pub(crate) struct Attempts {
    last: VecDeque<Instant>,
    /// As many may come within a tenth of a second.
    bound: usize,
}

impl Attempts {
    pub(super) fn new(clients: usize) -> Self {
        // A tenth of all clients is to be expected there after a restart, when each waits for up to a second; six
        // standard deviations more are too rare to be met.
        let expected = clients as f64 / 10.0;
        let bound = (expected + 6.0 * expected.sqrt() + 3.0).ceil() as usize;
        Self { last: VecDeque::new(), bound }
    }
}

/// Clients that lost their connection together do not come back together: of `n` clients no more than
/// n/10 + 6·√(n/10) + 3 attempt to reconnect within a tenth of a second.
pub(crate) fn attempts_are_spread(attempts: &mut Attempts, moment: &Moment<'_>) -> Result<(), String> {
    const WINDOW: Duration = Duration::from_millis(100);
    attempts.last.push_back(moment.now);
    while attempts.last.front().is_some_and(|at| *at + WINDOW < moment.now) {
        attempts.last.pop_front();
    }
    if attempts.last.len() > attempts.bound {
        return Err(format!(
            "{} attempts within {WINDOW:?}, more than {}",
            attempts.last.len(),
            attempts.bound
        ));
    }
    Ok(())
}

/// A link on which nothing arrives any more is given up within heartbeat interval and timeout, and the pause that a slow
/// application may cause.
pub(crate) fn silence_is_noticed(known: &Known, moment: &Moment<'_>) -> Result<(), String> {
    match known.connecting.notice_by {
        Some(by) if moment.now > by => {
            Err(format!("the link is silent and should have been given up at {by:?}"))
        }
        _ => Ok(()),
    }
}
