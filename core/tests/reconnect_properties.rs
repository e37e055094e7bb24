//! When the next attempt to connect comes, whatever the policy and whatever went wrong.

#[path = "support/cases.rs"]
mod cases;
mod support;

use std::time::Duration;

use cases::cases;
use nolag_core::{Config, Event, Instant, ReconnectPolicy, Status, TransportErrorKind};
use proptest::{collection::vec, prelude::*, sample::select};
use support::*;

const MICROSECOND: Duration = Duration::from_micros(1);

/// How an attempt, or the session that it led to, ends.
#[derive(Debug, Clone)]
enum End {
    /// The transport does not open.
    Fail,
    /// It opens and is closed before the broker answered `auth`.
    ClosedEarly(u16),
    /// The broker denies the token.
    Denied(&'static str),
    /// Nobody answers `auth`.
    Silence,
    /// A session stands for so long, and is then closed.
    Session(Duration, u16),
}

/// What the facts say about a failure (§2.2, §5), with a token that can or cannot be replaced.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Meaning {
    Ordinary,
    /// Back off long.
    Full,
    /// A fresh token, and at once.
    Expired,
    Terminal,
}

impl End {
    fn meaning(&self, renewable: bool) -> Meaning {
        match self {
            Self::ClosedEarly(code) | Self::Session(_, code) => match code {
                4001 if !renewable => Meaning::Terminal,
                4002 => Meaning::Full,
                4003 if renewable => Meaning::Expired,
                4003 => Meaning::Terminal,
                _ => Meaning::Ordinary,
            },
            Self::Denied("connection_limit_reached") => Meaning::Full,
            Self::Denied("access_denied" | "token_expired") if !renewable => Meaning::Terminal,
            _ => Meaning::Ordinary,
        }
    }
}

fn end() -> impl Strategy<Value = End> {
    let code = || select(vec![1000, 1001, 1006, 1009, 1011, 1012, 4002, 4000, 4001, 4003]);
    prop_oneof![
        3 => Just(End::Fail),
        1 => code().prop_map(End::ClosedEarly),
        1 => select(vec!["broker_unavailable", "connection_limit_reached", "access_denied"]).prop_map(End::Denied),
        1 => Just(End::Silence),
        4 => (span(), code()).prop_map(|(lasted, code)| End::Session(lasted, code)),
    ]
}

/// Spans around the usual ones.
fn span() -> impl Strategy<Value = Duration> {
    prop_oneof![
        3 => (0..90_000_u64).prop_map(Duration::from_millis),
        1 => select(vec![30_000, 29_999, 0]).prop_map(Duration::from_millis),
    ]
}

/// Delays of any size, also such as no clock can hold.
fn delay() -> impl Strategy<Value = Duration> {
    prop_oneof![
        4 => (0..100_000_u64).prop_map(Duration::from_millis),
        2 => (0..1_000_000_u64).prop_map(Duration::from_micros),
        1 => any::<u64>().prop_map(Duration::from_micros),
        1 => select(vec![Duration::ZERO, Duration::MAX, Duration::from_secs(u64::MAX)]),
    ]
}

fn policy() -> impl Strategy<Value = ReconnectPolicy> {
    let attempts = prop_oneof![2 => Just(None), 2 => (0..6_u32).prop_map(Some), 1 => Just(Some(u32::MAX))];
    let any =
        (attempts, delay(), delay(), delay(), span()).prop_map(|(attempts, first, interval, cap, stable)| {
            let mut policy = ReconnectPolicy::default();
            policy.max_attempts = attempts;
            policy.first = first;
            policy.interval = interval;
            policy.cap = cap;
            policy.stable_after = stable;
            policy
        });
    prop_oneof![3 => any, 1 => Just(ReconnectPolicy::default())]
}

/// The least and the most that the delay after `failures` in a row may be, in seconds.
fn envelope(policy: &ReconnectPolicy, failures: u32, meaning: Meaning) -> (f64, f64) {
    let (cap, interval) = (policy.cap.as_secs_f64(), policy.interval.as_secs_f64());
    let most = match meaning {
        Meaning::Full => cap,
        Meaning::Expired if failures == 0 => return (0.0, 0.0),
        _ if failures == 0 => return (0.0, policy.first.as_secs_f64()),
        // 1.5^2000 is infinite already.
        _ => cap.min(interval * 1.5_f64.powi((failures - 1).min(2_000) as i32)),
    };
    (most / 2.0, most)
}

/// Whether `delay` is within the envelope, up to what integers round: a nanosecond per step, and a microsecond in all.
fn is_within(delay: Duration, (least, most): (f64, f64)) -> bool {
    let delay = delay.as_secs_f64();
    delay >= least * 0.99 - 2e-6 && delay <= most * (1.0 + 1e-9) + 1e-6
}

/// What ended, and when the next attempt comes, as the application is told.
fn told(peer: &mut Peer) -> Option<Option<Duration>> {
    peer.events().into_iter().find_map(|event| match event {
        Event::AttemptFailed { retry_in, .. } | Event::Disconnected { retry_in, .. } => Some(retry_in),
        _ => None,
    })
}

/// Gives the token that the core asks for, if it does.
fn serve_token(peer: &mut Peer) {
    if peer.tokens_asked() > 0 {
        peer.provide("at_live_0123456789ab.another", None);
    }
}

proptest! {
    #![proptest_config(cases(512))]

    /// The delay before every attempt lies in the envelope of the policy, the count of failures starts anew only after a
    /// session that lasted, a policy's end is the end, and no value overflows.
    #[test]
    fn every_delay_lies_in_its_envelope(
        policy in policy(), ends in vec(end(), 1..14), renewable in any::<bool>(), retry_first in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mut config = if renewable { Config::with_token_provider() } else { config() };
        config.reconnect = policy.clone();
        config.retry_first_connect = retry_first;
        config.heartbeat_interval = None;
        let mut peer = Peer::with_seed(config, seed);
        peer.connect();
        serve_token(&mut peer);
        let mut failures = 0;
        let mut had_session = false;
        for (n, end) in ends.into_iter().enumerate() {
            prop_assert_eq!(peer.core.attempt(), failures + u32::from(!had_session), "before {:?}", end);
            let before = peer.transport;
            match &end {
                End::Fail => peer.fail(TransportErrorKind::Connect),
                End::ClosedEarly(code) => {
                    peer.open();
                    peer.close(*code);
                }
                End::Denied(error) => {
                    peer.open();
                    peer.deny(error);
                }
                End::Silence => {
                    peer.open();
                    let until = peer.core.poll_timeout().expect("patience ends");
                    prop_assert_eq!(until, peer.now + secs(10));
                    peer.now = until;
                    peer.wake();
                }
                End::Session(lasted, code) => {
                    peer.open();
                    peer.accept();
                    peer.advance(*lasted);
                    peer.close(*code);
                    had_session = true;
                    if *lasted >= policy.stable_after {
                        failures = 0;
                    }
                }
            }
            let Some(retry_in) = told(&mut peer) else { panic!("not told of {end:?}") };
            let meaning = end.meaning(renewable);
            let over = meaning == Meaning::Terminal
                || policy.max_attempts.is_some_and(|most| failures >= most)
                || !had_session && !retry_first;
            prop_assert_eq!(retry_in.is_none(), over, "end {} {:?} after {} failures", n, end, failures);
            let Some(delay) = retry_in else {
                prop_assert_eq!(peer.core.status(), Status::Disconnected);
                prop_assert_eq!(peer.core.poll_timeout(), None);
                break;
            };
            let bounds = envelope(&policy, failures, meaning);
            prop_assert!(is_within(delay, bounds), "{:?} is not in {:?}: {:?}", delay, bounds, end);
            // It comes exactly then, and not a microsecond sooner; a delay of nothing ends with the wake-up that it began in.
            let due = peer.now + delay;
            if due >= Instant::from_micros(u64::MAX / 2) {
                // No clock gets there; if one did, every timer would be due at once and nothing would overflow.
                peer.now = Instant::from_micros(u64::MAX);
                (0..20).for_each(|_| peer.wake());
                break;
            }
            if !(delay < MICROSECOND && matches!(end, End::Silence)) {
                prop_assert_eq!(peer.core.poll_timeout(), Some(due));
            }
            if delay >= MICROSECOND {
                peer.now = due - MICROSECOND;
                peer.wake();
                prop_assert_eq!(peer.transport, before);
            }
            peer.now = due;
            peer.wake();
            serve_token(&mut peer);
            prop_assert!(peer.transport != before, "{}", peer.core.explain());
            failures += 1;
        }
    }

    /// Clients with different seeds do not come back in step.
    #[test]
    fn seeds_spread_the_first_attempts(seed in any::<u64>()) {
        let first = |seed| {
            let mut peer = Peer::with_seed(config(), seed);
            peer.connect();
            peer.open();
            peer.accept();
            peer.close(1006);
            peer.core.poll_timeout().expect("a reconnect").saturating_since(peer.now)
        };
        let delays: std::collections::BTreeSet<_> = (0..16).map(|n| first(seed.wrapping_add(n))).collect();
        prop_assert!(delays.len() >= 15, "{:?}", delays);
        let (least, most) = (delays.first().expect("some"), delays.last().expect("some"));
        prop_assert!(*most <= secs(1) && *most - *least >= millis(200), "{:?}", delays);
    }
}
