//! Whether and when to connect again.

use core::time::Duration;

use super::config::ReconnectPolicy;
use crate::{
    error::{Error, Rejection, TransportErrorKind},
    rng::Rng,
};

/// What a failure means for the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaction {
    /// Try again by policy.
    Retry,
    /// Try again at once, with a fresh token.
    RetryNow,
    /// Try again, but only after the longest delay.
    RetryLate,
    /// Trying again cannot help.
    GiveUp,
}

impl Reaction {
    /// The one table of failures (protocol-facts §2.2 for denials, §5 for close codes). `renewable`: whether another token
    /// can be had.
    pub(super) fn to(cause: &Error, renewable: bool) -> Self {
        match cause {
            Error::Transport(error) => match error.kind {
                // The token expired.
                TransportErrorKind::Closed(Some(4003)) if renewable => Self::RetryNow,
                // The token was revoked.
                TransportErrorKind::Closed(Some(4001)) if renewable => Self::Retry,
                TransportErrorKind::Closed(Some(4001 | 4003)) => Self::GiveUp,
                // 4002: the organization has too many connections.
                TransportErrorKind::Closed(Some(4002)) => Self::RetryLate,
                _ => Self::Retry,
            },
            Error::Server(error) => match error.error.as_str() {
                "connection_failed" | "broker_unavailable" | "authentication_failed" => Self::Retry,
                "connection_limit_reached" => Self::RetryLate,
                _ if renewable => Self::Retry,
                _ => Self::GiveUp,
            },
            Error::Protocol(_) | Error::Rejected(Rejection::TokenUnavailable(_)) => Self::Retry,
            Error::Decode(_) | Error::Misuse(_) | Error::Rejected(_) => Self::GiveUp,
        }
    }
}

impl ReconnectPolicy {
    /// The delay before the attempt that follows `attempts` others; `None` when there were enough.
    pub(super) fn delay(&self, attempts: u32, reaction: Reaction, rng: &mut Rng) -> Option<Duration> {
        if reaction == Reaction::GiveUp || self.max_attempts.is_some_and(|max| attempts >= max) {
            return None;
        }
        let base = match (reaction, attempts) {
            (Reaction::RetryLate, _) => self.cap,
            (Reaction::RetryNow, 0) => return Some(Duration::ZERO),
            (_, 0) => return Some(rng.up_to(self.first)),
            (_, n) => self.backoff(n - 1),
        };
        let half = base / 2;
        Some(half + rng.up_to(base - half))
    }

    /// `interval` × 1.5ⁿ, at most `cap`.
    fn backoff(&self, n: u32) -> Duration {
        let mut delay = self.interval.min(self.cap);
        for _ in 0..n {
            if delay >= self.cap {
                break;
            }
            delay = delay.saturating_add(delay / 2).min(self.cap);
        }
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Op, ServerError, TransportError};

    fn closed(code: u16) -> Error {
        TransportError::new(TransportErrorKind::Closed(Some(code)), "").into()
    }

    fn denied(error: &str) -> Error {
        ServerError::named(error, Op::Connect).into()
    }

    #[test]
    fn every_close_code_has_its_reaction() {
        for code in [1000, 1001, 1006, 1009, 1011, 1012] {
            assert_eq!(Reaction::to(&closed(code), false), Reaction::Retry, "{code}");
        }
        assert_eq!(Reaction::to(&closed(4001), false), Reaction::GiveUp);
        assert_eq!(Reaction::to(&closed(4002), false), Reaction::RetryLate);
        assert_eq!(Reaction::to(&closed(4003), false), Reaction::GiveUp);
    }

    #[test]
    fn every_denial_has_its_reaction() {
        for transient in ["connection_failed", "broker_unavailable", "authentication_failed"] {
            assert_eq!(Reaction::to(&denied(transient), false), Reaction::Retry, "{transient}");
        }
        assert_eq!(Reaction::to(&denied("connection_limit_reached"), false), Reaction::RetryLate);
        for terminal in ["access_denied", "token_expired"] {
            assert_eq!(Reaction::to(&denied(terminal), false), Reaction::GiveUp, "{terminal}");
        }
    }

    #[test]
    fn another_token_is_worth_another_try() {
        assert_eq!(Reaction::to(&closed(4001), true), Reaction::Retry);
        assert_eq!(Reaction::to(&closed(4003), true), Reaction::RetryNow);
        assert_eq!(Reaction::to(&denied("access_denied"), true), Reaction::Retry);
    }

    #[test]
    fn delays_grow_by_half_within_their_jitter_up_to_the_cap() {
        let policy = ReconnectPolicy { max_attempts: None, ..ReconnectPolicy::default() };
        let steps = [5_000, 7_500, 11_250, 16_875, 25_312, 37_968, 56_953, 60_000, 60_000];
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let first = policy.delay(0, Reaction::Retry, &mut rng).unwrap();
            assert!(first <= Duration::from_secs(1));
            for (n, step) in steps.iter().enumerate() {
                let delay = policy.delay(n as u32 + 1, Reaction::Retry, &mut rng).unwrap().as_millis();
                assert!((step / 2..=step + 1).contains(&delay), "attempt {n}: {delay} of {step}");
            }
        }
    }

    #[test]
    fn attempts_end_where_the_policy_says() {
        let mut rng = Rng::new(1);
        let policy = ReconnectPolicy::default();
        assert!(policy.delay(9, Reaction::Retry, &mut rng).is_some());
        assert_eq!(policy.delay(10, Reaction::Retry, &mut rng), None);
        assert_eq!(ReconnectPolicy::never().delay(0, Reaction::Retry, &mut rng), None);
        let unlimited = ReconnectPolicy { max_attempts: None, ..policy };
        assert!(unlimited.delay(u32::MAX, Reaction::Retry, &mut rng).is_some());
    }
}
