//! Connecting, authenticating, staying alive, leaving.

mod support;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use nolag_core::{
    Action, ClientCore, Config, Disconnect, Error, Event, Instant, Misuse, Op, Outcome, ProtocolError,
    Publish, Rejection, ServerError, Status, Subscribe, TransportErrorKind, TransportEvent,
    TransportEventKind,
    wire::{Auth, AuthReply, ClientFrame, ServerFrame},
};
use support::*;

fn failed_with(outcome: Outcome) -> Error {
    match outcome {
        Outcome::Failed(error) => error,
        other => panic!("not a failure: {other:?}"),
    }
}

fn denied(error: &str) -> Error {
    ServerError::named(error, Op::Connect).into()
}

// ---- connecting ----

#[test]
fn a_new_client_does_nothing() {
    let mut peer = Peer::new(config());
    peer.advance(secs(3600));
    assert_eq!(peer.core.status(), Status::Disconnected);
    assert_eq!(peer.core.poll_timeout(), None);
    assert!(peer.actions().is_empty() && peer.events().is_empty() && peer.sent().is_empty());
}

#[test]
fn an_empty_token_and_a_bad_client_id_are_refused_at_once() {
    let refused = |config: Config| ClientCore::new(config, 1, Instant::ZERO).map(|_| ()).unwrap_err();
    assert_eq!(refused(Config::new("")), Misuse::NoToken.into());
    for bad in ["", "a b", "ü", "a/b", &"x".repeat(65)] {
        let config = with(|config| config.client_id = Some(bad.into()));
        assert_eq!(refused(config), Misuse::InvalidClientId(bad.into()).into());
    }
    let longest = with(|config| config.client_id = Some("A-z_09".repeat(10)));
    assert!(ClientCore::new(longest, 1, Instant::ZERO).is_ok());
}

#[test]
fn connecting_opens_a_transport_authenticates_and_reports_the_session() {
    let mut peer = Peer::new(config());
    let op = peer.connect();
    assert!(matches!(peer.actions()[..], [Action::OpenTransport { .. }]));
    assert_eq!(peer.core.status(), Status::Connecting);
    assert!(peer.sent().is_empty(), "nothing leaves before the transport is open");

    peer.open();
    let frame = peer.frame();
    let expected =
        Auth { token: nolag_core::SecretStr::new(TOKEN), protocol_version: Some(2), ..Auth::default() };
    assert_eq!(decode(&frame), ClientFrame::Auth(expected));
    assert_eq!(peer.core.status(), Status::Connecting);

    peer.accept();
    let Outcome::Connected(session) = peer.outcome(op) else { panic!("not connected") };
    assert_eq!(session.actor_id, ACTOR);
    assert_eq!(session.project_id.as_deref(), Some("project-1"));
    assert_eq!(session.actor_type.as_deref(), Some("user"));
    assert_eq!(session.protocol_version, 2);
    assert_eq!(peer.event(), Event::Connected { session: session.clone(), downtime: None });
    assert_eq!(peer.core.status(), Status::Connected);
    assert_eq!(peer.core.session(), Some(&session));
}

#[test]
fn auth_carries_the_client_id_and_the_project() {
    let mut peer = Peer::new(with(|config| {
        config.client_id = Some("kiosk-7".into());
        config.project_id = Some("p1".into());
    }));
    peer.connect();
    peer.open();
    let frame = peer.frame();
    let ClientFrame::Auth(auth) = decode(&frame) else { panic!("not auth") };
    assert_eq!((auth.client_id, auth.project_id), (Some("kiosk-7"), Some("p1")));
    assert!(!auth.reconnect, "the first session has nothing to restore");
}

#[test]
fn the_broker_decides_the_protocol_version() {
    for (answered, version) in [(None, 1), (Some(0), 1), (Some(1), 1), (Some(2), 2), (Some(9), 2)] {
        let mut peer = Peer::new(config());
        peer.connect();
        peer.open();
        peer.accept_with(|reply| reply.protocol_version = answered);
        let session = peer.core.session().expect("a session");
        assert_eq!(session.protocol_version, version, "answered {answered:?}");
    }
}

#[test]
fn a_reply_without_details_and_of_an_unknown_actor_type_is_accepted() {
    let mut peer = Peer::new(config());
    peer.connect();
    peer.open();
    peer.answer(&ServerFrame::Auth(AuthReply {
        success: true,
        actor_type: Some("llm_swarm"),
        ..AuthReply::default()
    }));
    let session = peer.core.session().expect("a session");
    assert_eq!((&*session.actor_id, session.actor_type.as_deref()), ("", Some("llm_swarm")));
}

#[test]
fn connecting_again_joins_what_is_on_its_way_or_stands() {
    let mut peer = Peer::new(config());
    let first = peer.connect();
    let second = peer.connect();
    peer.open();
    let third = peer.connect();
    assert_eq!(peer.opened(), 1);
    peer.accept();
    let fourth = peer.connect();
    for op in [first, second, third, fourth] {
        assert!(matches!(peer.outcome(op), Outcome::Connected(_)));
    }
    assert_eq!(peer.opened(), 0);
    assert_eq!(peer.sent(), ["auth"]);
}

#[test]
fn every_connect_that_joined_fails_with_the_attempt() {
    let mut peer = Peer::new(config());
    let ops = [peer.connect(), peer.connect()];
    peer.fail(TransportErrorKind::Connect);
    for op in ops {
        assert!(matches!(failed_with(peer.outcome(op)), Error::Transport(_)));
    }
}

// ---- failing to connect ----

#[test]
fn a_denied_token_fails_closes_the_socket_and_never_reconnects() {
    let mut peer = Peer::new(config());
    let op = peer.connect();
    peer.open();
    peer.forget();
    peer.deny("access_denied");
    let cause = denied("access_denied");
    assert_eq!(failed_with(peer.outcome(op)), cause);
    assert_eq!(peer.closed(), [1000]);
    assert_eq!(
        peer.events(),
        [
            Event::AttemptFailed { attempt: 1, cause: cause.clone(), retry_in: None },
            Event::GaveUp { cause: cause.clone() }
        ]
    );
    assert_eq!(peer.core.status(), Status::Disconnected);

    // What the broker does with the socket later is no concern any more.
    peer.close(1000);
    peer.advance(secs(3600));
    assert_eq!(peer.core.poll_timeout(), None);
    assert_eq!(peer.opened(), 0);
    assert!(peer.events().is_empty() && peer.sent().is_empty());
}

#[test]
fn a_denial_without_words_is_a_failed_authentication() {
    let mut peer = Peer::new(config());
    let op = peer.connect();
    peer.open();
    peer.answer(&ServerFrame::Auth(AuthReply::default()));
    assert_eq!(failed_with(peer.outcome(op)), denied("authentication_failed"));
}

#[test]
fn a_denied_token_is_final_even_when_the_first_connect_is_retried() {
    for error in ["access_denied", "token_expired"] {
        let mut peer = Peer::new(with(|config| config.retry_first_connect = true));
        let op = peer.connect();
        peer.open();
        peer.deny(error);
        assert_eq!(failed_with(peer.outcome(op)), denied(error));
        assert_eq!(peer.core.poll_timeout(), None);
    }
}

#[test]
fn after_a_final_failure_every_call_says_why() {
    let mut peer = Peer::new(config());
    peer.connect();
    peer.open();
    peer.deny("access_denied");
    let cause = denied("access_denied");
    assert_eq!(peer.core.subscribe(peer.now, Subscribe::new(TOPIC)).unwrap_err().error, cause);
    assert_eq!(peer.core.publish(peer.now, Publish::new(TOPIC, payload("x"))).unwrap_err().error, cause);
    assert_eq!(peer.core.unsubscribe(peer.now, TOPIC).unwrap_err(), cause);
    assert!(peer.core.explain().contains("access_denied"), "{}", peer.core.explain());

    // And connect may start again.
    let op = peer.connect();
    peer.open();
    peer.accept();
    assert!(matches!(peer.outcome(op), Outcome::Connected(_)));
}

#[test]
fn the_first_failure_of_connect_is_reported_at_once() {
    let kinds = [
        TransportErrorKind::Connect,
        TransportErrorKind::Io,
        TransportErrorKind::Resolve,
        TransportErrorKind::Timeout,
        TransportErrorKind::Tls,
        TransportErrorKind::Upgrade(Some(502)),
        TransportErrorKind::WebSocket,
    ];
    for kind in kinds {
        let mut peer = Peer::new(config());
        let op = peer.connect();
        peer.fail(kind);
        let Error::Transport(error) = failed_with(peer.outcome(op)) else { panic!("not the network's") };
        assert_eq!(error.kind, kind);
        assert!(peer.closed().is_empty(), "there is nothing to close");
        assert_eq!(peer.core.poll_timeout(), None);
    }
}

#[test]
fn a_first_connect_that_is_to_be_retried_goes_on_until_it_succeeds() {
    let mut peer = Peer::new(with(|config| config.retry_first_connect = true));
    let op = peer.connect();
    peer.fail(TransportErrorKind::Connect);
    let Event::AttemptFailed { attempt: 1, retry_in: Some(delay), .. } = peer.event() else { panic!() };
    assert!(delay <= secs(1));
    assert!(peer.is_pending(op));
    assert_eq!(peer.core.status(), Status::Connecting, "there was no session that could be restored");

    peer.reopen();
    assert_eq!(peer.sent(), ["auth"], "a first session is not a restored one");
    peer.deny("broker_unavailable");
    let Event::AttemptFailed { attempt: 2, retry_in: Some(delay), .. } = peer.event() else { panic!() };
    assert!((millis(2500)..=secs(5)).contains(&delay), "{delay:?}");

    peer.reconnect();
    assert!(matches!(peer.outcome(op), Outcome::Connected(_)));
    assert!(matches!(peer.event(), Event::Connected { downtime: None, .. }));
}

#[test]
fn a_transport_that_does_not_open_fails_after_ten_seconds() {
    let mut peer = Peer::new(config());
    let op = peer.connect();
    peer.forget();
    peer.advance(millis(9_999));
    assert!(peer.is_pending(op));
    peer.advance(millis(1));
    let Error::Transport(error) = failed_with(peer.outcome(op)) else { panic!("not the network's") };
    assert_eq!(error.kind, TransportErrorKind::Timeout);
    assert_eq!(peer.closed(), [1000], "the adapter must stop trying");

    // A transport that opens after all is stale.
    peer.open();
    assert!(peer.sent().is_empty());
    assert_eq!(peer.core.stats().stale_transport_events, 1);
}

#[test]
fn an_unanswered_auth_fails_after_ten_seconds_of_its_own() {
    let mut peer = Peer::new(config());
    let op = peer.connect();
    peer.advance(secs(9));
    peer.open();
    peer.forget();
    peer.advance(millis(9_999));
    assert!(peer.is_pending(op));
    peer.advance(millis(1));
    let timeout = ProtocolError::Timeout { op: Op::Connect, after: secs(10) };
    assert_eq!(failed_with(peer.outcome(op)), timeout.into());
    assert_eq!(peer.closed(), [1000]);
}

#[test]
fn a_close_before_the_answer_to_auth_fails_connect() {
    let mut peer = Peer::new(config());
    let op = peer.connect();
    peer.open();
    peer.close(4001);
    let Error::Transport(error) = failed_with(peer.outcome(op)) else { panic!("not the network's") };
    assert_eq!(error.kind, TransportErrorKind::Closed(Some(4001)));
}

// ---- odd peers ----

#[test]
fn events_of_other_transports_are_ignored_and_counted() {
    let mut other = Peer::default_connected();
    other.close(1006);
    other.reconnect();
    let foreign = other.transport.expect("a second transport");

    let mut peer = Peer::default_connected();
    for kind in [
        TransportEventKind::Opened,
        TransportEventKind::Progress,
        TransportEventKind::Message(encode(&ServerFrame::Auth(AuthReply::default()))),
        TransportEventKind::Closed { code: Some(4001), reason: String::new() },
    ] {
        peer.core.handle_transport(peer.now, TransportEvent { id: foreign, kind });
        peer.pump();
    }
    assert_eq!(peer.core.stats().stale_transport_events, 4);
    assert_eq!(peer.core.status(), Status::Connected);
    assert!(peer.events().is_empty());
}

#[test]
fn a_transport_opens_once() {
    let mut peer = Peer::new(config());
    peer.connect();
    peer.open();
    peer.open();
    assert_eq!(peer.sent(), ["auth"]);
    peer.accept();
    peer.open();
    assert!(peer.sent().is_empty());
    assert_eq!(peer.core.status(), Status::Connected);
}

#[test]
fn an_auth_reply_before_auth_and_a_second_one_change_nothing() {
    let mut peer = Peer::new(config());
    peer.connect();
    peer.accept();
    assert_eq!(peer.core.status(), Status::Connecting);
    peer.open();
    peer.accept();
    peer.forget();
    peer.deny("access_denied");
    peer.accept_with(|reply| reply.actor_token_id = Some("somebody else"));
    assert_eq!(peer.core.status(), Status::Connected);
    assert_eq!(peer.core.session().expect("a session").actor_id, ACTOR);
    assert!(peer.events().is_empty());
    assert_eq!(peer.core.stats().frames_unexpected, 2);
}

#[test]
fn messages_right_after_the_auth_reply_are_delivered_and_before_it_are_not() {
    let mut peer = Peer::new(config());
    peer.connect();
    peer.open();
    peer.deliver(TOPIC, "too early");
    peer.accept();
    peer.deliver(TOPIC, "queued in the session");
    let texts: Vec<_> = peer.messages().iter().map(|m| m.payload().text().unwrap().to_owned()).collect();
    assert_eq!(texts, ["queued in the session"]);
}

#[test]
fn undecodable_frames_are_reported_and_skipped() {
    let mut peer = Peer::default_connected();
    for bytes in [&b"\xc1"[..], b"\x93\x01\x02\x03", b"{\"type\":\"error\"}", b"\x80"] {
        peer.bytes(Bytes::copy_from_slice(bytes));
        assert!(matches!(peer.event(), Event::ProtocolError(ProtocolError::Undecodable(_))), "{bytes:?}");
    }
    assert_eq!(peer.core.stats().frames_undecodable, 4);
    assert_eq!(peer.core.status(), Status::Connected);
}

#[test]
fn frames_of_the_future_are_tolerated() {
    let mut peer = Peer::default_connected();
    for frame in [
        ServerFrame::Unknown { frame_type: "invented later" },
        ServerFrame::Disconnect { reason: Some("token_expired") },
    ] {
        peer.answer(&frame);
    }
    assert_eq!(peer.core.status(), Status::Connected);
    assert!(peer.events().is_empty());
}

#[test]
fn control_characters_in_a_brokers_words_do_not_reach_a_terminal() {
    use nolag_core::wire::{ErrorFrame, Text};
    let mut peer = Peer::default_connected();
    let op = peer.subscribe(TOPIC);
    peer.answer(&ServerFrame::Error(ErrorFrame {
        error: "unknown_topic",
        topic: Some(Text::Str(TOPIC)),
        hint: Some("not known \u{14} check it"),
        ..ErrorFrame::default()
    }));
    let outcome = peer.outcome(op);
    let Outcome::Refused(error) = &outcome else { panic!("{outcome:?}") };
    assert_eq!(error.hint.as_deref(), Some("not known - check it"));
}

#[test]
fn errors_about_no_command_are_reported() {
    let mut peer = Peer::default_connected();
    peer.answer(&ServerFrame::Error(nolag_core::wire::ErrorFrame {
        error: "not_authenticated",
        ..Default::default()
    }));
    let Event::ServerError(error) = peer.event() else { panic!("not reported") };
    assert_eq!((&*error.error, error.op), ("not_authenticated", None));
}

// ---- staying alive ----

#[test]
fn a_heartbeat_leaves_every_thirty_seconds() {
    let mut peer = Peer::default_connected();
    peer.advance(millis(29_999));
    assert_eq!(peer.heartbeats, 0);
    peer.advance(millis(1));
    assert_eq!(peer.heartbeats, 1);
    peer.advance(secs(3600));
    assert_eq!(peer.heartbeats, 121);
    assert_eq!(peer.core.status(), Status::Connected);
}

#[test]
fn heartbeats_can_be_switched_off_with_none_or_zero() {
    for interval in [None, Some(Duration::ZERO)] {
        let mut peer = Peer::connected(with(|config| config.heartbeat_interval = interval));
        peer.advance(secs(3600));
        assert_eq!(peer.heartbeats, 0);
        assert_eq!(peer.core.poll_timeout(), None);
        assert_eq!(peer.core.status(), Status::Connected);
    }
}

#[test]
fn a_connection_without_echo_is_dead_after_ten_seconds() {
    let mut peer = Peer::default_connected();
    peer.echo = false;
    peer.advance(millis(39_999));
    assert_eq!(peer.core.status(), Status::Connected);
    peer.advance(millis(1));
    assert_eq!(peer.closed(), [1000]);
    let Event::Disconnected { cause, retry_in: Some(_) } = peer.event() else { panic!() };
    assert_eq!(cause, ProtocolError::HeartbeatLost.into());
    assert_eq!(peer.core.status(), Status::Reconnecting);
}

#[test]
fn any_inbound_byte_proves_life() {
    let proofs: [fn(&mut Peer); 4] = [
        |peer| peer.bytes(Bytes::new()),
        |peer| peer.deliver(TOPIC, "hello"),
        |peer| peer.bytes(Bytes::from_static(b"\xc1")),
        |peer| peer.transport(TransportEventKind::Progress),
    ];
    for proof in proofs {
        let mut peer = Peer::default_connected();
        peer.echo = false;
        peer.advance(secs(39));
        proof(&mut peer);
        peer.advance(secs(30));
        assert_eq!(peer.core.status(), Status::Connected);
        assert_eq!(peer.heartbeats, 2);
        // And the silence after it counts again.
        peer.advance(secs(10));
        assert_eq!(peer.core.status(), Status::Reconnecting);
    }
}

#[test]
fn heartbeats_more_frequent_than_their_timeout_do_not_postpone_it() {
    let mut peer = Peer::connected(with(|config| config.heartbeat_interval = Some(secs(3))));
    peer.echo = false;
    peer.advance(secs(13));
    assert_eq!(peer.core.status(), Status::Reconnecting);
    assert_eq!(peer.heartbeats, 4);
}

#[test]
fn a_machine_that_slept_asks_before_it_gives_the_connection_up() {
    let mut peer = Peer::default_connected();
    peer.sleep(secs(7200));
    peer.wake();
    assert_eq!(peer.heartbeats, 1, "one, not one for each that was missed");
    assert_eq!(peer.core.status(), Status::Connected);
}

#[test]
fn heartbeats_overtake_a_full_queue() {
    let mut peer = Peer::default_connected();
    peer.blocked = true;
    peer.publish(TOPIC);
    peer.advance(secs(30));
    let mut out = BytesMut::new();
    let first = peer.core.poll_transmit(peer.now, &mut out).expect("a frame waits");
    assert_eq!(first.len, 0);
}

#[test]
fn a_wake_up_that_is_overdue_is_due_now_and_not_in_the_past() {
    let mut peer = Peer::default_connected();
    peer.sleep(secs(45));
    peer.deliver(TOPIC, "the adapter was busy");
    assert_eq!(peer.core.poll_timeout(), Some(peer.now));
}

#[test]
fn time_that_goes_backwards_is_clamped() {
    let mut peer = Peer::default_connected();
    peer.advance(secs(29));
    peer.core.handle_timeout(Instant::ZERO);
    let armed = peer.core.poll_timeout().expect("the heartbeat");
    assert!(armed > peer.now);
    let op = peer.core.publish(Instant::ZERO, Publish::new(TOPIC, payload("x"))).expect("accepted");
    peer.pump();
    peer.advance(millis(9_999));
    assert!(peer.is_pending(op));
    peer.advance(millis(1));
    assert!(is_timeout(&peer.outcome(op), Op::Publish));
}

// ---- leaving ----

#[test]
fn disconnect_now_closes_and_settles_everything() {
    let mut peer = Peer::default_connected();
    peer.subscription("demo/general/standing");
    let subscribe = peer.subscribe(TOPIC);
    let joined = peer.subscribe(TOPIC);
    let unsubscribe = peer.unsubscribe("demo/general/other");
    let sent = peer.publish(TOPIC);
    peer.blocked = true;
    let unsent = peer.publish(TOPIC);
    let unsent_subscribe = peer.subscribe("demo/general/unsent");
    let leave = peer.disconnect_now();

    let gone = Error::Rejected(Rejection::Disconnected);
    assert_eq!(peer.outcome(leave), Outcome::Disconnected);
    assert_eq!(peer.outcome(subscribe), Outcome::Unknown(gone.clone()));
    assert_eq!(peer.outcome(joined), Outcome::Unknown(gone.clone()));
    assert_eq!(peer.outcome(unsubscribe), Outcome::Unsubscribed);
    assert_eq!(peer.outcome(sent), Outcome::Unknown(gone.clone()));
    assert_eq!(peer.outcome(unsent), Outcome::NotSent(gone.clone()));
    assert_eq!(peer.outcome(unsent_subscribe), Outcome::NotSent(gone.clone()));
    assert_eq!(peer.closed(), [1000]);
    let events = peer.events();
    assert!(
        matches!(
            &events[..],
            [Event::SubscriptionEnded { topic, .. }, Event::Disconnected { cause, retry_in: None }]
                if &**topic == "demo/general/standing" && *cause == gone
        ),
        "{events:?}"
    );
    assert_eq!(peer.core.status(), Status::Disconnected);
    assert_eq!(peer.core.poll_timeout(), None);
    assert!(peer.topics().is_empty());

    peer.advance(secs(3600));
    assert_eq!(peer.opened(), 0, "and no reconnect follows");
}

#[test]
fn disconnect_now_works_wherever_the_client_stands() {
    let stands: [fn(&mut Peer); 5] = [
        |_| {},
        |peer| {
            peer.connect();
        },
        |peer| {
            peer.connect();
            peer.open();
        },
        |peer| {
            peer.connect();
            peer.open();
            peer.accept();
        },
        |peer| {
            peer.connect();
            peer.open();
            peer.accept();
            peer.close(1006);
        },
    ];
    for (index, stand) in stands.iter().enumerate() {
        for mode in [Disconnect::Now, Disconnect::Drain(secs(5))] {
            let mut peer = Peer::new(config());
            stand(&mut peer);
            peer.actions();
            let op = peer.core.disconnect(peer.now, mode);
            peer.pump();
            assert_eq!(peer.outcome(op), Outcome::Disconnected, "{index} {mode:?}");
            assert_eq!(peer.core.poll_timeout(), None, "{index} {mode:?}");
            assert_eq!(peer.core.status(), Status::Disconnected);
            let closes = usize::from((1..=3).contains(&index));
            assert_eq!(peer.closed().len(), closes, "{index} {mode:?}");
            peer.advance(secs(600));
            assert_eq!(peer.opened(), 0);
        }
    }
}

#[test]
fn a_connect_under_way_fails_when_the_application_leaves() {
    let mut peer = Peer::new(config());
    let op = peer.connect();
    peer.disconnect_now();
    assert_eq!(peer.outcome(op), Outcome::Failed(Rejection::Disconnected.into()));
}

#[test]
fn connect_after_disconnect_starts_from_nothing() {
    let mut peer = Peer::connected(named());
    peer.subscription(TOPIC);
    peer.disconnect_now();
    peer.forget();
    let op = peer.connect();
    peer.open();
    assert_eq!(peer.sent(), ["auth as kiosk-7"], "nothing is to be restored");
    peer.accept();
    assert!(matches!(peer.outcome(op), Outcome::Connected(_)));
    assert!(peer.sent().is_empty());
    assert!(matches!(peer.event(), Event::Connected { downtime: None, .. }));
}

#[test]
fn commands_of_an_idle_client_are_refused_and_given_back() {
    for mut peer in [Peer::new(config()), {
        let mut peer = Peer::default_connected();
        peer.disconnect_now();
        peer
    }] {
        let not_connected = Error::Rejected(Rejection::NotConnected);
        let refused = peer.core.subscribe(peer.now, Subscribe::new(TOPIC)).unwrap_err();
        assert_eq!((refused.error, refused.value), (not_connected.clone(), Subscribe::new(TOPIC)));
        let publish = Publish::new(TOPIC, payload("x"));
        let refused = peer.core.publish(peer.now, publish.clone()).unwrap_err();
        assert_eq!((refused.error, refused.value), (not_connected.clone(), publish));
        assert_eq!(peer.core.unsubscribe(peer.now, TOPIC).unwrap_err(), not_connected);
        peer.ack("m1");
        assert_eq!(peer.core.stats().acks_dropped, 1);
    }
}

#[test]
fn draining_finishes_accepted_work_and_refuses_more() {
    let mut peer = Peer::default_connected();
    let publish = peer.publish(TOPIC);
    let msg_ref = peer.last_ref();
    let subscribe = peer.subscribe("demo/general/other");
    peer.ack("m1");
    let leave = peer.drain(secs(5));
    assert_eq!(peer.sent().last().map(String::as_str), Some("ack m1"), "acks do not wait for company");
    assert_eq!(peer.core.status(), Status::Connected);

    let closing = Error::Rejected(Rejection::Closing);
    assert_eq!(peer.core.subscribe(peer.now, Subscribe::new(TOPIC)).unwrap_err().error, closing);
    assert_eq!(peer.core.publish(peer.now, Publish::new(TOPIC, payload("x"))).unwrap_err().error, closing);
    assert_eq!(peer.core.unsubscribe(peer.now, TOPIC).unwrap_err(), closing);
    assert_eq!(peer.core.connect(peer.now).unwrap_err(), closing);

    peer.published(&msg_ref);
    assert_eq!(peer.outcome(publish), Outcome::Acked);
    assert!(peer.is_pending(leave) && peer.closed().is_empty());
    peer.subscribed("demo/general/other");
    assert!(matches!(peer.outcome(subscribe), Outcome::Subscribed { .. }));
    assert_eq!(peer.outcome(leave), Outcome::Disconnected);
    assert_eq!(peer.closed(), [1000]);
    assert_eq!(peer.core.poll_timeout(), None);
}

#[test]
fn draining_with_nothing_to_finish_leaves_at_once() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    let leave = peer.drain(secs(5));
    assert_eq!(peer.outcome(leave), Outcome::Disconnected);
    assert_eq!(peer.closed(), [1000]);
}

#[test]
fn a_draining_transport_is_closed_only_after_the_last_frame_left() {
    let mut peer = Peer::default_connected();
    peer.blocked = true;
    let op = peer.publish_as(TOPIC, |publish| publish.tracked = false);
    let leave = peer.drain(secs(5));
    peer.advance(secs(4));
    assert!(peer.closed().is_empty() && peer.is_pending(leave));
    peer.blocked = false;
    peer.pump();
    assert_eq!(peer.sent(), [format!("publish {TOPIC}")]);
    assert_eq!(peer.outcome(op), Outcome::Sent);
    assert_eq!(peer.outcome(leave), Outcome::Disconnected);
    assert_eq!(peer.closed(), [1000]);
}

#[test]
fn acks_that_come_while_draining_still_leave() {
    let mut peer = Peer::default_connected();
    let publish = peer.publish(TOPIC);
    let msg_ref = peer.last_ref();
    peer.drain(secs(5));
    peer.ack("m1");
    peer.published(&msg_ref);
    assert_eq!(peer.outcome(publish), Outcome::Acked);
    assert!(peer.closed().is_empty());
    peer.advance(millis(50));
    assert_eq!(peer.sent(), [format!("publish {TOPIC}"), "ack m1".into()]);
    assert_eq!(peer.closed(), [1000]);
}

#[test]
fn a_drain_ends_at_its_deadline_and_says_what_is_undone() {
    let mut peer = Peer::default_connected();
    let sent = peer.publish(TOPIC);
    peer.blocked = true;
    let unsent = peer.publish(TOPIC);
    let leave = peer.drain(secs(3));
    peer.advance(millis(2_999));
    assert!(peer.is_pending(leave));
    peer.advance(millis(1));
    let gone = Error::Rejected(Rejection::Disconnected);
    assert_eq!(peer.outcome(sent), Outcome::Unknown(gone.clone()));
    assert_eq!(peer.outcome(unsent), Outcome::NotSent(gone));
    assert_eq!(peer.outcome(leave), Outcome::Disconnected);
    assert_eq!(peer.closed(), [1000]);
}

#[test]
fn disconnect_now_cuts_a_drain_short() {
    let mut peer = Peer::default_connected();
    let publish = peer.publish(TOPIC);
    let first = peer.drain(secs(60));
    let second = peer.drain(secs(60));
    assert!(peer.is_pending(first) && peer.is_pending(second));
    let now = peer.disconnect_now();
    for op in [first, second, now] {
        assert_eq!(peer.outcome(op), Outcome::Disconnected);
    }
    assert!(matches!(peer.outcome(publish), Outcome::Unknown(_)));
    assert_eq!(peer.closed(), [1000]);
}

#[test]
fn a_connection_lost_while_draining_is_the_end() {
    let mut peer = Peer::default_connected();
    let publish = peer.publish(TOPIC);
    let leave = peer.drain(secs(5));
    peer.close(1006);
    assert!(matches!(peer.outcome(publish), Outcome::Unknown(Error::Transport(_))));
    assert_eq!(peer.outcome(leave), Outcome::Disconnected);
    assert!(matches!(peer.event(), Event::Disconnected { retry_in: None, .. }));
    peer.advance(secs(600));
    assert_eq!(peer.opened(), 0);
    assert_eq!(peer.core.poll_timeout(), None);
}

#[test]
fn a_broker_that_dies_while_we_drain_does_not_hold_us() {
    let mut peer = Peer::default_connected();
    peer.echo = false;
    peer.publish(TOPIC);
    peer.advance(secs(1));
    let leave = peer.drain(secs(600));
    peer.advance(secs(600));
    assert_eq!(peer.outcome(leave), Outcome::Disconnected);
}

// ---- in words ----

#[test]
fn explain_says_what_the_client_waits_for() {
    let mut peer = Peer::new(config());
    let says = |peer: &Peer, words: &[&str]| {
        let text = peer.core.explain();
        words.iter().for_each(|word| assert!(text.contains(word), "{word:?} is not in {text:?}"));
    };
    says(&peer, &["idle"]);
    peer.connect();
    says(&peer, &["opening transport", "1 connects", "wakes in 10.0 s", "handshake"]);
    peer.open();
    says(&peer, &["auth", "wakes in 10.0 s"]);
    peer.accept();
    says(&peer, &["connected", ACTOR, "wakes in 30.0 s to send a heartbeat"]);
    peer.publish(TOPIC);
    says(&peer, &["1 publishes", "wakes in 10.0 s to stop waiting for an answer"]);
    let msg_ref = peer.last_ref();
    peer.published(&msg_ref);
    says(&peer, &["wakes in 30.0 s to send a heartbeat"]);
    peer.close(1006);
    says(&peer, &["waiting to reconnect", "to connect again"]);
}
