//! Tokens that are asked for: when connecting, and ahead of their expiry.

use alloc::{format, string::String};
use core::{mem, time::Duration};

use super::{
    Action, ClientCore, Event, Link, Timer, TokenSource,
    requests::{Ops, RequestKind},
};
use crate::{
    Instant, SecretStr, Token,
    error::{Error, Op, Rejection, ServerError, clean},
    wire::ClientFrame,
};

/// How long before its end a token is replaced.
const AHEAD: Duration = Duration::from_secs(30);

/// The least time between two attempts to replace it.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long after a refused token the next is asked for.
const RETRY: Duration = Duration::from_secs(30);

/// The token in use, when it comes from a provider.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    current: Option<Token>,
    expires: Option<Instant>,
    /// Whether it came after the last attempt to connect had begun, so that none was made with it.
    untried: bool,
    /// Whether the provider was asked for a replacement.
    refreshing: bool,
}

impl Tokens {
    /// The token is not accepted any more.
    pub(super) fn invalidate(&mut self) {
        *self = Self::default();
    }

    pub(super) fn connection_lost(&mut self) {
        self.refreshing = false;
    }

    /// An attempt begins, with the token that is there.
    pub(super) fn attempt(&mut self) {
        self.untried = false;
    }
}

impl ClientCore {
    /// Gives the token that [`Action::NeedToken`] asked for. `valid_for` is how long it can be used, if that is known: a
    /// replacement is then asked for ahead of time, and given to the broker without a reconnect.
    ///
    /// A token that nobody asked for is used from the next connection on. Without a provider
    /// ([`TokenSource::Provider`]) nothing happens.
    pub fn provide_token(&mut self, now: Instant, token: impl Into<Token>, valid_for: Option<Duration>) {
        self.observe(now);
        if self.config.token != TokenSource::Provider {
            return;
        }
        let token = token.into();
        self.tokens.expires = valid_for.map(|span| self.now + span);
        self.tokens.current = Some(token.clone());
        self.tokens.untried = true;
        match self.link {
            Link::AwaitingToken => self.open_transport(),
            Link::Ready { .. } if mem::take(&mut self.tokens.refreshing) => {
                self.timers.stop(Timer::TokenRefresh);
                let frame = ClientFrame::Reauth { token: SecretStr::new(token.expose()) };
                self.push_request("".into(), RequestKind::Reauth, Ops::new(), &frame);
            }
            _ => {}
        }
    }

    /// Says that the token that [`Action::NeedToken`] asked for cannot be had now. While connecting this fails the attempt;
    /// otherwise the provider is asked again.
    pub fn token_unavailable(&mut self, now: Instant, reason: &str) {
        self.observe(now);
        match self.link {
            Link::AwaitingToken => {
                self.connection_lost(Rejection::TokenUnavailable(clean(reason).into()).into(), None);
            }
            Link::Ready { .. } if mem::take(&mut self.tokens.refreshing) => {
                self.timers.set(Timer::TokenRefresh, self.now + PATIENCE);
                self.report_no_token(clean(reason));
            }
            _ => {}
        }
    }

    /// The token for the next `auth`.
    pub(super) fn token(&self) -> Option<&Token> {
        match &self.config.token {
            TokenSource::Static(token) => Some(token),
            TokenSource::Provider => self.tokens.current.as_ref(),
        }
    }

    /// Whether an attempt to connect can begin with the token that is there, or must ask for one.
    pub(super) fn token_is_good(&self) -> bool {
        let good = match self.tokens.expires {
            Some(at) => at > self.now + AHEAD || self.tokens.untried && at > self.now,
            None => self.tokens.untried,
        };
        self.token().is_some() && (good || self.config.token != TokenSource::Provider)
    }

    pub(super) fn ask_for_token(&mut self) {
        self.link = Link::AwaitingToken;
        self.timers.set(Timer::Handshake, self.now + self.config.token_timeout);
        self.actions.push_back(Action::NeedToken);
    }

    /// Plans to replace the token of the session that now stands.
    pub(super) fn schedule_refresh(&mut self) {
        if let Some(expires) = self.tokens.expires {
            self.timers.set(Timer::TokenRefresh, (expires - AHEAD).max(self.now + PATIENCE));
        }
    }

    pub(super) fn refresh_token(&mut self) {
        if !self.link_is_ready() {
            return;
        }
        if mem::replace(&mut self.tokens.refreshing, true) {
            let wait = self.config.token_timeout.as_secs_f32();
            self.report_no_token(format!("none came within {wait:.1} s"));
        }
        // The provider has its time; after that it is asked anew.
        self.timers.set(Timer::TokenRefresh, self.now + self.config.token_timeout.max(PATIENCE));
        self.actions.push_back(Action::NeedToken);
    }

    fn report_no_token(&mut self, reason: String) {
        self.report(Event::TokenRefreshFailed { cause: Rejection::TokenUnavailable(reason.into()).into() });
    }

    pub(super) fn handle_reauth(&mut self, success: bool, error: Option<&str>) {
        if self.take_answered(Some(""), |kind| matches!(kind, RequestKind::Reauth)).is_none() {
            return;
        }
        if success {
            self.tokens.attempt();
            return self.schedule_refresh();
        }
        // The connection stays up under the old token for as long as that lasts; neither is good for another.
        self.tokens.invalidate();
        let error = ServerError::named(clean(error.unwrap_or("authentication_failed")), Op::Reauth);
        self.report(Event::ServerError(error.into()));
        self.timers.set(Timer::TokenRefresh, self.now + RETRY);
    }

    /// Brokers before client tokens ignore `reauth`; a new connection takes the new token.
    pub(super) fn reauth_timed_out(&mut self, error: Error) {
        self.connection_lost(error, Some((1000, "")));
    }
}
