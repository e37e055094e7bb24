//! Connections that are spoiled by what is between client and broker.

use std::time::Duration;

use nolag::{Client, Error, Options, Rejection, Status};
use nolag_broker::TestBroker;

use super::{Case, case};
use crate::{
    fixtures::{RoughWay, Treatment},
    world::{Log, TOPIC, World},
};

pub(super) const CASES: &[Case] = &[
    case!(Every, connections_that_are_cut_anywhere_are_made_anew),
    case!(One, connections_that_fall_silent_anywhere_are_made_anew, slow),
    case!(One, garbage_after_the_upgrade_is_survived),
    case!(One, a_peer_that_does_not_read_is_left_and_no_more_is_kept_than_allowed, slow),
];

/// Goes on trying, and notices silence soon.
fn stubborn(w: &World, way: &RoughWay) -> Options {
    w.options(&way.url())
        .retry_first_connect(true)
        .max_reconnect_attempts(None)
        .heartbeat_interval(Duration::from_millis(100))
        .heartbeat_timeout(Duration::from_millis(400))
        .connect_timeout(Duration::from_millis(500))
        .websocket_ping_interval(Duration::ZERO)
}

/// Once the bad connections are used up, everything works.
fn gets_through(w: &World, broker: &TestBroker, way: &RoughWay, client: &Client, bad: usize) {
    w.until("the bad connections are used up", || way.count() > bad && client.status() == Status::Connected);
    let mut messages = w.wait(client.subscribe(TOPIC).stream::<String>()).unwrap();
    let other = w.connect(broker, "bob");
    w.wait(other.emit(TOPIC, "through")).unwrap();
    assert_eq!(w.data(&mut messages), "through");
    assert_eq!(way.count(), bad + 1);
}

fn connections_that_are_cut_anywhere_are_made_anew(w: &World) {
    let broker = w.broker();
    // Within the upgrade, at its end, within the answer to auth, and after it.
    let places = [0, 1, 20, 100, 128, 129, 130, 131, 140, 200, 250];
    let treatments: Vec<_> =
        places.into_iter().flat_map(|bytes| [Treatment::Cut(bytes), Treatment::Reset(bytes)]).collect();
    let bad = treatments.len();
    let way = RoughWay::to(&broker, treatments);
    let client = Client::new(broker.token("alice"), stubborn(w, &way));
    w.wait(client.connect()).unwrap();
    gets_through(w, &broker, &way, &client, bad);
}

fn connections_that_fall_silent_anywhere_are_made_anew(w: &World) {
    let broker = w.broker();
    // Silence before the answer to auth is noticed after ten seconds only, so it is left out here.
    let treatments = vec![Treatment::Stall(0), Treatment::Stall(50), Treatment::Stall(400)];
    let bad = treatments.len();
    let way = RoughWay::to(&broker, treatments);
    let client = Client::new(broker.token("alice"), stubborn(w, &way));
    w.wait(client.connect()).unwrap();
    gets_through(w, &broker, &way, &client, bad);
}

fn garbage_after_the_upgrade_is_survived(w: &World) {
    let garbage: [&[u8]; 10] = [
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        // Text, an orphaned continuation, a masked frame, a frame of eight exabytes.
        b"\x81\x05hello",
        b"\x80\x00",
        b"\x82\x81\x01\x02\x03\x04\x05",
        b"\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff",
        // A ping that is too long, a close with a code that does not exist, half a frame.
        b"\x89\x7e\x00\xc8",
        b"\x88\x02\x00\x01",
        b"\x82\x05\x81",
        // Frames that are no MessagePack map.
        b"\x82\x03\xc1\xc1\xc1\x82\x01\x90",
    ];
    let broker = w.broker();
    let way = RoughWay::to(&broker, garbage.into_iter().map(Treatment::Garbage).collect());
    let client = Client::new(broker.token("alice"), stubborn(w, &way));
    let log = Log::watch(&client);
    w.wait(client.connect()).unwrap();
    gets_through(w, &broker, &way, &client, garbage.len());
    // Each is told as the failure of an attempt.
    w.heard(&log, &format!("error: attempt {} to connect failed", garbage.len()));
}

fn a_peer_that_does_not_read_is_left_and_no_more_is_kept_than_allowed(w: &World) {
    const KEPT: usize = 1 << 20;
    let broker = w.broker();
    let way = RoughWay::to(&broker, vec![Treatment::Deaf(200)]);
    let options = stubborn(w, &way).outbound_limits(1_000, KEPT).publish_rate(None);
    let client = Client::new(broker.token("alice"), options);
    let log = Log::watch(&client);
    w.wait(client.connect()).unwrap();
    let large = "x".repeat(64 << 10);
    let mut accepted = 0;
    let mut full = false;
    w.until("the client has had enough", || {
        match client.emit(TOPIC, &large).untracked().send() {
            Ok(()) => accepted += large.len(),
            Err(Error::Rejected(Rejection::Full { .. })) => full = true,
            Err(_) => {}
        }
        log.has("disconnect")
    });
    assert!(full, "{accepted} bytes were accepted");
    // The machine's buffers, at both ends and in between, and ours.
    assert!(accepted < (64 << 20) + KEPT, "{accepted} bytes were accepted");
    gets_through(w, &broker, &way, &client, 1);
}
