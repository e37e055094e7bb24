//! Tokens from a provider: asked for to connect, replaced ahead of their end, and never shown.

mod support;

use nolag_core::{
    Action, Config, Error, Event, OfflinePolicy, Op, Outcome, ProtocolError, Rejection, Status,
    TransportErrorKind,
    wire::{ClientFrame, ServerFrame},
};
use support::*;

const FIRST: &str = "first-tokenthatmustnotleak";
const SECOND: &str = "second-tokenthatmustnotleak";
const HOUR: u64 = 3_600;

fn provider() -> Config {
    Config::with_token_provider()
}

fn provider_with(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = provider();
    change(&mut config);
    config
}

/// A client whose session stands under [`FIRST`], which is good for so many seconds.
fn connected(config: Config, valid_for: impl Into<Option<u64>>) -> Peer {
    let mut peer = Peer::new(config);
    peer.connect();
    peer.provide(FIRST, valid_for.into().map(secs));
    peer.open();
    peer.accept();
    peer.forget();
    peer
}

/// Lets the next attempt come as far as it does by itself.
fn next_attempt(peer: &mut Peer) {
    let before = peer.now;
    while peer.core.explain().starts_with("waiting to reconnect") {
        let at = peer.core.poll_timeout().expect("an attempt is due");
        peer.advance_to(at);
        assert!(peer.now < before + secs(120), "{}", peer.core.explain());
    }
}

/// The token in the one frame sent since last asked.
fn token_sent(peer: &mut Peer) -> String {
    match decode(&peer.frame()) {
        ClientFrame::Auth(auth) => format!("auth {}", auth.token.expose()),
        ClientFrame::Reauth { token } => format!("reauth {}", token.expose()),
        other => panic!("no token in {other:?}"),
    }
}

fn reauth_reply(peer: &mut Peer, error: Option<&str>) {
    peer.answer(&ServerFrame::Reauth { success: error.is_none(), error, auth_expires_at: None });
}

fn is_unavailable(cause: &Error, part: &str) -> bool {
    matches!(cause, Error::Rejected(Rejection::TokenUnavailable(reason)) if reason.contains(part))
}

// ---- to connect ----

#[test]
fn a_token_is_asked_for_before_a_transport_is_opened() {
    let mut peer = Peer::new(provider());
    let op = peer.connect();
    assert_eq!(peer.actions(), [Action::NeedToken]);
    assert_eq!(peer.core.status(), Status::Connecting);
    peer.provide(FIRST, None);
    assert!(matches!(peer.actions()[..], [Action::OpenTransport { .. }]));
    peer.open();
    assert_eq!(token_sent(&mut peer), format!("auth {FIRST}"));
    peer.accept();
    assert!(matches!(peer.outcome(op), Outcome::Connected(_)));
}

#[test]
fn a_static_token_is_never_asked_for_and_cannot_be_replaced() {
    let mut peer = Peer::new(config());
    peer.connect();
    assert!(matches!(peer.actions()[..], [Action::OpenTransport { .. }]));
    peer.provide(SECOND, secs(1));
    peer.token_unavailable("none");
    peer.open();
    assert_eq!(token_sent(&mut peer), format!("auth {TOKEN}"));
    peer.accept();
    peer.provide(SECOND, secs(31));
    peer.advance(secs(100));
    assert!(peer.sent().is_empty());
    assert!(peer.actions().is_empty());
}

#[test]
fn a_token_known_to_be_good_is_used_again_without_asking() {
    let mut peer = connected(provider(), HOUR);
    peer.close(1006);
    peer.reopen();
    assert_eq!(peer.tokens_asked(), 0);
    assert_eq!(token_sent(&mut peer), format!("auth {FIRST}"));
}

#[test]
fn a_token_that_nobody_knows_to_be_good_is_asked_for_at_each_attempt() {
    let mut peer = connected(provider(), None);
    peer.close(1006);
    next_attempt(&mut peer);
    assert_eq!(peer.actions(), [Action::NeedToken]);
    assert_eq!(peer.core.status(), Status::Reconnecting);
    peer.provide(SECOND, None);
    assert_eq!(peer.opened(), 1);
    peer.fail(TransportErrorKind::Connect);
    next_attempt(&mut peer);
    assert_eq!(peer.actions(), [Action::NeedToken], "what the failed attempt had may have ended meanwhile");
}

#[test]
fn a_token_about_to_end_is_not_used_for_another_connection() {
    for (left, asked) in [(29, 1), (40, 0)] {
        let mut peer = connected(provider(), 60);
        peer.sleep(secs(60 - left));
        peer.close(1006);
        next_attempt(&mut peer);
        assert_eq!(peer.tokens_asked(), asked, "{left} s left");
    }
}

#[test]
fn each_connect_of_the_application_asks_anew() {
    let mut peer = connected(provider(), None);
    peer.disconnect_now();
    peer.sleep(secs(2 * HOUR));
    peer.actions();
    peer.connect();
    assert_eq!(peer.actions(), [Action::NeedToken]);
}

#[test]
fn a_token_that_nobody_asked_for_is_used_for_the_next_connection() {
    let mut peer = connected(provider(), HOUR);
    peer.provide(SECOND, None);
    assert!(peer.sent().is_empty(), "the session keeps the token that it has");
    peer.close(1006);
    peer.reopen();
    assert_eq!(peer.tokens_asked(), 0);
    assert_eq!(token_sent(&mut peer), format!("auth {SECOND}"));
}

#[test]
fn a_short_lived_token_is_used_once_and_replaced_every_five_seconds() {
    for valid_for in [0, 3, 20] {
        let mut peer = Peer::new(provider());
        peer.connect();
        peer.actions();
        peer.provide(FIRST, secs(valid_for));
        assert_eq!(peer.opened(), 1);
        peer.open();
        assert!(peer.actions().is_empty(), "the broker decides whether it is still good");
        assert_eq!(token_sent(&mut peer), format!("auth {FIRST}"));
        peer.accept();
        peer.advance(millis(4_999));
        assert_eq!(peer.tokens_asked(), 0);
        peer.advance(millis(1));
        assert_eq!(peer.tokens_asked(), 1);
    }
}

#[test]
fn a_token_that_ended_while_the_transport_was_opened_fails_that_attempt_only() {
    let mut peer = connected(provider(), 60);
    peer.close(1006);
    next_attempt(&mut peer);
    peer.sleep(secs(70));
    peer.open();
    assert_eq!(token_sent(&mut peer), format!("auth {FIRST}"));
    peer.forget();
    peer.deny("token_expired");
    let Event::AttemptFailed { retry_in: Some(_), .. } = peer.event() else { panic!("given up") };
    next_attempt(&mut peer);
    assert_eq!(peer.tokens_asked(), 1);
}

#[test]
fn a_provider_that_does_not_answer_in_time_fails_the_attempt() {
    let mut peer = Peer::new(provider());
    let op = peer.connect();
    peer.advance(millis(29_999));
    assert!(peer.is_pending(op));
    peer.advance(millis(1));
    assert!(matches!(peer.outcome(op), Outcome::Failed(error) if is_unavailable(&error, "30.0 s")));
    assert_eq!(peer.core.status(), Status::Disconnected);
    assert_eq!(peer.core.poll_timeout(), None);
}

#[test]
fn a_provider_that_has_no_token_fails_the_attempt_and_is_asked_again_by_policy() {
    let mut peer = Peer::new(provider_with(|config| config.retry_first_connect = true));
    let op = peer.connect();
    let mut delays = Vec::new();
    for attempt in 1..=4 {
        assert_eq!(peer.actions(), [Action::NeedToken]);
        peer.token_unavailable("the login server is\ndown");
        let Event::AttemptFailed { attempt: said, cause, retry_in: Some(delay) } = peer.event() else {
            panic!("given up")
        };
        assert_eq!(said, attempt);
        assert!(is_unavailable(&cause, "the login server is-down"), "{cause}");
        delays.push(delay);
        next_attempt(&mut peer);
    }
    assert!(delays[0] <= secs(1) && delays[1] >= millis(2_500) && delays[3] >= millis(5_625), "{delays:?}");
    peer.provide(FIRST, None);
    peer.open();
    peer.accept();
    assert!(matches!(peer.outcome(op), Outcome::Connected(_)));
}

#[test]
fn the_first_failure_of_the_provider_is_reported_at_once() {
    let mut peer = Peer::new(provider());
    let op = peer.connect();
    peer.token_unavailable("no");
    assert!(matches!(peer.outcome(op), Outcome::Failed(error) if is_unavailable(&error, "no")));
    assert!(peer.core.explain().starts_with("gave up: no token could be had: no"));
}

#[test]
fn a_provider_that_never_has_a_token_is_given_up() {
    let mut peer = connected(provider(), None);
    peer.close(1006);
    let mut asked = 0;
    while peer.core.status() != Status::Disconnected {
        next_attempt(&mut peer);
        asked += peer.tokens_asked();
        peer.token_unavailable("no");
    }
    assert_eq!(asked, 10);
    assert!(matches!(peer.events().last(), Some(Event::GaveUp { cause }) if is_unavailable(cause, "no")));
}

#[test]
fn an_answer_that_comes_while_the_client_waits_to_reconnect_is_used_then() {
    let mut peer = connected(provider(), 60);
    peer.advance(secs(30));
    assert_eq!(peer.tokens_asked(), 1, "for the refresh");
    peer.close(1006);
    peer.provide(SECOND, secs(HOUR));
    peer.reopen();
    assert_eq!(peer.tokens_asked(), 0);
    assert_eq!(token_sent(&mut peer), format!("auth {SECOND}"));
}

#[test]
fn an_answer_that_is_good_for_a_short_while_is_used_once_all_the_same() {
    let mut peer = connected(provider(), 60);
    peer.close(1006);
    peer.provide(SECOND, secs(20));
    peer.reopen();
    assert_eq!(peer.tokens_asked(), 0);
    assert_eq!(token_sent(&mut peer), format!("auth {SECOND}"));
}

#[test]
fn leaving_ends_the_wait_for_a_token() {
    let mut peer = Peer::new(provider());
    let op = peer.connect();
    peer.actions();
    peer.disconnect_now();
    assert_eq!(peer.outcome(op), Outcome::Failed(Rejection::Disconnected.into()));
    assert_eq!(peer.core.poll_timeout(), None);
    peer.provide(FIRST, None);
    peer.token_unavailable("late");
    assert!(peer.actions().is_empty() && peer.events().is_empty());
    peer.connect();
    assert_eq!(peer.opened(), 1, "what came late is good for the next connect");
}

#[test]
fn publishes_are_queued_and_expire_while_a_token_is_waited_for() {
    let max_age = Some(secs(5));
    let mut peer = Peer::new(provider_with(|config| {
        config.offline = OfflinePolicy::Queue { max_messages: 10, max_bytes: 1_000, max_age };
    }));
    peer.connect();
    let early = peer.publish(TOPIC);
    peer.advance(secs(3));
    let late = peer.publish("demo/general/late");
    peer.advance(secs(2));
    assert_eq!(peer.outcome(early), Outcome::Expired);
    peer.provide(FIRST, None);
    peer.open();
    peer.accept();
    assert_eq!(peer.sent(), ["auth", "publish demo/general/late"]);
    assert!(peer.is_pending(late));
}

// ---- ahead of its end ----

#[test]
fn a_token_is_replaced_thirty_seconds_ahead_without_a_reconnect() {
    let mut peer = connected(provider(), HOUR);
    peer.subscription(TOPIC);
    for round in 0..3 {
        peer.advance(millis((HOUR - 30) * 1_000 - 1));
        assert_eq!(peer.tokens_asked(), 0, "round {round}");
        peer.advance(millis(1));
        assert_eq!(peer.tokens_asked(), 1, "round {round}");
        peer.provide(SECOND, secs(HOUR));
        assert_eq!(token_sent(&mut peer), format!("reauth {SECOND}"));
        reauth_reply(&mut peer, None);
    }
    assert!(peer.events().is_empty() && peer.sent().is_empty());
    assert_eq!(peer.core.stats().sessions, 1);
    assert_eq!(peer.topics(), [(TOPIC.to_owned(), true)]);
    peer.close(1006);
    peer.reopen();
    assert_eq!(token_sent(&mut peer), format!("auth {SECOND}"));
}

#[test]
fn without_a_known_end_nothing_is_refreshed() {
    let mut peer = connected(provider(), None);
    peer.advance(secs(24 * HOUR));
    assert!(peer.actions().is_empty());
}

#[test]
fn an_end_beyond_all_time_is_no_end() {
    let mut peer = Peer::new(provider());
    peer.connect();
    peer.provide(FIRST, std::time::Duration::MAX);
    peer.open();
    peer.accept();
    peer.actions();
    peer.advance(secs(24 * HOUR));
    assert!(peer.actions().is_empty());
}

#[test]
fn while_a_replacement_is_awaited_it_is_not_asked_for_again() {
    let mut peer = connected(provider(), 60);
    peer.advance(secs(30));
    assert_eq!(peer.tokens_asked(), 1);
    peer.advance(millis(29_999));
    assert_eq!(peer.tokens_asked(), 0);
}

#[test]
fn a_provider_that_hangs_on_a_replacement_is_reported_and_asked_anew() {
    let mut peer = connected(provider(), 60);
    peer.advance(secs(30));
    assert_eq!(peer.tokens_asked(), 1);
    peer.advance(secs(30));
    assert_eq!(peer.tokens_asked(), 1);
    let event = peer.event();
    assert!(matches!(event, Event::TokenRefreshFailed { .. }), "{event:?}");
    peer.provide(SECOND, secs(HOUR));
    assert_eq!(peer.sent(), ["reauth"]);
}

#[test]
fn a_replacement_that_cannot_be_had_is_asked_for_again_after_five_seconds() {
    let mut peer = connected(provider(), 60);
    peer.advance(secs(30));
    assert_eq!(peer.tokens_asked(), 1);
    peer.token_unavailable("not now");
    peer.advance(millis(4_999));
    assert_eq!(peer.tokens_asked(), 0);
    peer.advance(millis(1));
    assert_eq!(peer.tokens_asked(), 1);
    let Event::TokenRefreshFailed { cause } = peer.event() else { panic!("not told") };
    assert_eq!(cause.to_string(), "no token could be had: not now");
    assert_eq!(peer.core.status(), Status::Connected);
}

#[test]
fn a_broker_that_ignores_reauth_gets_the_new_token_with_a_new_connection() {
    let mut peer = connected(provider(), HOUR);
    peer.advance(secs(HOUR - 30));
    peer.provide(SECOND, secs(HOUR));
    peer.forget();
    peer.advance(millis(9_999));
    assert_eq!(peer.core.status(), Status::Connected);
    peer.advance(millis(1));
    assert_eq!(peer.closed(), [1000]);
    let Event::Disconnected { cause, retry_in: Some(delay) } = peer.event() else { panic!("given up") };
    assert_eq!(cause, ProtocolError::Timeout { op: Op::Reauth, after: secs(10) }.into());
    assert!(delay <= secs(1), "{delay:?}");
    peer.reopen();
    assert_eq!(peer.tokens_asked(), 0);
    assert_eq!(token_sent(&mut peer), format!("auth {SECOND}"));
}

#[test]
fn a_token_without_a_known_end_that_reauth_could_not_give_is_used_for_the_new_connection() {
    let mut peer = connected(provider(), HOUR);
    peer.advance(secs(HOUR - 30));
    peer.provide(SECOND, None);
    peer.forget();
    peer.advance(secs(10));
    peer.reopen();
    assert_eq!(peer.tokens_asked(), 0);
    assert_eq!(token_sent(&mut peer), format!("auth {SECOND}"));
}

#[test]
fn a_broker_that_ignores_reauth_every_hour_is_never_given_up() {
    let mut peer = connected(provider(), HOUR);
    for hour in 0..30 {
        peer.advance(secs(HOUR - 30));
        assert_eq!(peer.tokens_asked(), 1, "hour {hour}: {}", peer.core.explain());
        peer.provide(SECOND, secs(HOUR));
        peer.events();
        peer.advance(secs(10));
        let retry_in = peer.events().into_iter().find_map(|event| match event {
            Event::Disconnected { retry_in, .. } => Some(retry_in),
            _ => None,
        });
        assert!(matches!(retry_in, Some(Some(delay)) if delay <= secs(1)), "hour {hour}: {retry_in:?}");
        peer.reconnect();
        peer.actions();
    }
}

#[test]
fn a_refused_replacement_is_reported_and_another_is_asked_for() {
    let mut peer = connected(provider(), HOUR);
    peer.advance(secs(HOUR - 30));
    peer.provide(SECOND, secs(HOUR));
    peer.forget();
    reauth_reply(&mut peer, Some("actor_mismatch"));
    let Event::ServerError(error) = peer.event() else { panic!("not reported") };
    assert_eq!((&*error.error, error.op), ("actor_mismatch", Some(Op::Reauth)));
    assert_eq!(peer.core.status(), Status::Connected, "under the old token");
    peer.advance(millis(29_999));
    assert_eq!(peer.tokens_asked(), 0);
    peer.advance(millis(1));
    assert_eq!(peer.tokens_asked(), 1);
    peer.provide(FIRST, secs(HOUR));
    reauth_reply(&mut peer, None);
    peer.advance(secs(HOUR - 30));
    assert_eq!(peer.tokens_asked(), 1, "and all is as before");
}

#[test]
fn a_refused_replacement_is_not_used_for_the_next_connection() {
    let mut peer = connected(provider(), HOUR);
    peer.advance(secs(HOUR - 30));
    peer.provide(SECOND, secs(HOUR));
    reauth_reply(&mut peer, Some("actor_mismatch"));
    peer.forget();
    peer.close(1006);
    next_attempt(&mut peer);
    assert_eq!(peer.actions(), [Action::NeedToken]);
}

#[test]
fn a_loss_while_a_replacement_is_awaited_starts_anew() {
    let mut peer = connected(provider(), 60);
    peer.advance(secs(30));
    peer.actions();
    peer.close(1006);
    next_attempt(&mut peer);
    assert_eq!(peer.tokens_asked(), 1);
    peer.provide(SECOND, secs(60));
    assert_eq!(peer.opened(), 1);
    peer.open();
    peer.accept();
    // The answer to the question of the lost session.
    peer.sent();
    peer.provide(FIRST, secs(60));
    assert!(peer.sent().is_empty());
    peer.advance(secs(30));
    assert_eq!(peer.tokens_asked(), 1);
}

#[test]
fn an_answer_to_a_reauth_that_was_not_sent_changes_nothing() {
    let mut peer = connected(provider(), HOUR);
    reauth_reply(&mut peer, None);
    reauth_reply(&mut peer, Some("token_expired"));
    assert_eq!(peer.core.stats().frames_unexpected, 2);
    assert!(peer.events().is_empty() && peer.actions().is_empty());
    peer.close(1006);
    peer.reopen();
    assert_eq!(token_sent(&mut peer), format!("auth {FIRST}"), "the token is as good as before");
}

// ---- when the broker does not accept it any more ----

#[test]
fn an_expired_token_is_replaced_and_used_at_once() {
    let mut peer = connected(provider(), HOUR);
    peer.advance(secs(60));
    peer.close(4003);
    let Event::Disconnected { retry_in, .. } = peer.event() else { panic!() };
    assert_eq!(retry_in, Some(secs(0)));
    peer.wake();
    assert_eq!(peer.tokens_asked(), 1);
    peer.provide(SECOND, secs(HOUR));
    peer.open();
    assert_eq!(token_sent(&mut peer), format!("auth {SECOND}"));
}

#[test]
fn a_revoked_token_is_replaced_and_used_by_policy() {
    let mut peer = connected(provider(), HOUR);
    peer.close(4001);
    let Event::Disconnected { retry_in: Some(_), .. } = peer.event() else { panic!("given up") };
    next_attempt(&mut peer);
    assert_eq!(peer.tokens_asked(), 1);
}

#[test]
fn a_denied_token_is_replaced_and_used_by_policy() {
    for error in ["access_denied", "token_expired", "something new"] {
        let mut peer = connected(provider(), HOUR);
        peer.close(1006);
        peer.reopen();
        peer.forget();
        peer.deny(error);
        let Event::AttemptFailed { retry_in: Some(delay), .. } = peer.event() else { panic!("given up") };
        assert!(delay >= millis(2_500), "{error}: {delay:?}");
        peer.actions();
        next_attempt(&mut peer);
        assert_eq!(peer.tokens_asked(), 1, "{error}");
    }
}

#[test]
fn a_provider_whose_tokens_are_all_denied_is_given_up() {
    let mut peer = connected(provider(), None);
    peer.close(1006);
    let mut asked = 0;
    while peer.core.status() != Status::Disconnected {
        next_attempt(&mut peer);
        asked += peer.tokens_asked();
        peer.provide(SECOND, secs(HOUR));
        peer.open();
        peer.deny("access_denied");
    }
    assert_eq!(asked, 10);
    assert!(matches!(peer.events().last(), Some(Event::GaveUp { cause: Error::Server(_) })));
}

#[test]
fn a_denial_for_other_reasons_leaves_the_token_good() {
    for error in ["connection_failed", "broker_unavailable", "connection_limit_reached"] {
        let mut peer = connected(provider(), HOUR);
        peer.close(1006);
        peer.reopen();
        peer.deny(error);
        peer.forget();
        peer.reopen();
        assert_eq!(peer.tokens_asked(), 0, "{error}");
        assert_eq!(token_sent(&mut peer), format!("auth {FIRST}"));
    }
}

#[test]
fn a_first_token_that_is_denied_is_reported_at_once() {
    let mut peer = Peer::new(provider());
    let op = peer.connect();
    peer.provide(FIRST, secs(HOUR));
    peer.open();
    peer.deny("access_denied");
    assert!(matches!(peer.outcome(op), Outcome::Failed(Error::Server(_))));
    peer.actions();
    peer.connect();
    assert_eq!(peer.tokens_asked(), 1, "the denied one is not tried again");
}

#[test]
fn what_the_broker_says_before_it_closes_is_the_reason() {
    for (announced, reason, told) in
        [(Some("token_expired"), "", "token_expired"), (None, "", ""), (Some("a"), "b", "b")]
    {
        let mut peer = Peer::default_connected();
        peer.answer(&ServerFrame::Disconnect { reason: announced });
        peer.close_with(4003, reason);
        let event = peer.events().remove(0);
        let Event::Disconnected { cause: Error::Transport(cause), .. } = event else { panic!("{event:?}") };
        assert_eq!((cause.kind, &*cause.detail), (TransportErrorKind::Closed(Some(4003)), told));
    }
}

#[test]
fn without_a_provider_there_is_nothing_to_try_again_with() {
    type Loss = fn(&mut Peer);
    let losses: [Loss; 3] = [
        |peer| peer.close(4001),
        |peer| peer.close(4003),
        |peer| {
            peer.close(1006);
            peer.reopen();
            peer.deny("access_denied");
        },
    ];
    for lose in losses {
        let mut peer = Peer::default_connected();
        lose(&mut peer);
        assert!(matches!(peer.events().last(), Some(Event::GaveUp { .. })));
        assert_eq!(peer.core.poll_timeout(), None);
    }
}

// ---- secrets ----

#[test]
fn provided_tokens_show_nowhere() {
    let mut peer = Peer::new(provider_with(|config| config.retry_first_connect = true));
    let check = |peer: &mut Peer| {
        let texts = [
            format!("{:?}", peer.core),
            format!("{:#?}", peer.core),
            peer.core.explain(),
            format!("{:?}", peer.events()),
            format!("{:?}", peer.actions()),
        ];
        for text in texts {
            assert!(!text.contains("tokenthatmustnotleak"), "{text}");
        }
    };
    peer.connect();
    peer.provide(FIRST, secs(60));
    check(&mut peer);
    peer.blocked = true;
    peer.open();
    check(&mut peer);
    peer.blocked = false;
    peer.pump();
    peer.accept();
    check(&mut peer);
    peer.blocked = true;
    peer.advance(secs(30));
    peer.provide(SECOND, secs(60));
    check(&mut peer);
    peer.blocked = false;
    peer.pump();
    reauth_reply(&mut peer, Some("actor_mismatch"));
    check(&mut peer);
    peer.close(4003);
    check(&mut peer);
}
