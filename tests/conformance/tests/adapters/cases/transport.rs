//! Options of the connection itself.

use std::{net::TcpListener, time::Duration};

use nolag::{Client, Error, Misuse, Options, TransportErrorKind};
use nolag_broker::Limits;

use super::{Case, case};
use crate::{
    fixtures::{Link, full_listener},
    world::{Log, TOPIC, World, transport_error},
};

pub(super) const CASES: &[Case] = &[
    case!(One, extra_headers_arrive_with_every_upgrade),
    case!(One, what_is_no_header_is_told_by_its_option),
    case!(One, a_message_over_the_limit_ends_the_connection),
    case!(One, opening_is_bounded_in_every_phase),
    case!(One, large_messages_pass_small_buffers),
    case!(One, pings_keep_an_idle_connection, slow),
];

fn extra_headers_arrive_with_every_upgrade(w: &World) {
    let broker = w.broker();
    let link = Link::to(&broker);
    let options =
        w.options(&link.url()).header("X-Gateway", "one").header("x-gateway", "two").header("Cookie", "c=3");
    assert!(!format!("{options:?}").contains("c=3"), "values may be secrets");
    let client = Client::new(broker.token("alice"), options);
    let log = Log::watch(&client);
    w.wait(client.connect()).unwrap();
    broker.block_on(broker.cut_all());
    w.heard(&log, "reconnect");
    let heads = link.heads();
    assert_eq!(heads.len(), 2);
    for head in heads {
        let lines: Vec<String> = head.lines().map(str::to_lowercase).collect();
        for line in ["x-gateway: one", "x-gateway: two", "cookie: c=3", "upgrade: websocket"] {
            assert_eq!(lines.iter().filter(|found| *found == line).count(), 1, "{line} in {head}");
        }
    }
}

fn what_is_no_header_is_told_by_its_option(w: &World) {
    for (name, value) in [
        ("no name", "x"),
        ("X", "a\nb"),
        ("Sec-WebSocket-Key", "x"),
        ("host", "elsewhere"),
        ("Content-Length", "5"),
    ] {
        let client = Client::new("token", w.options("ws://127.0.0.1:9/ws").header(name, value));
        let refused = w.wait(client.connect());
        assert!(
            matches!(&refused, Err(Error::Misuse(Misuse::InvalidOption { option: "header", .. }))),
            "{name:?}: {refused:?}"
        );
    }
}

fn a_message_over_the_limit_ends_the_connection(w: &World) {
    let broker = w.broker();
    let publisher = w.connect(&broker, "bob");
    let options = w.options(&broker.url()).max_inbound_size(5000).reconnect(false);
    let client = Client::new(broker.token("alice"), options);
    let log = Log::watch(&client);
    w.wait(client.connect()).unwrap();
    let mut messages = w.wait(client.subscribe(TOPIC).messages()).unwrap();
    w.wait(publisher.emit(TOPIC, &"x".repeat(4000))).unwrap();
    assert_eq!(w.message(&mut messages).payload().text().map(str::len), Some(4000));
    w.wait(publisher.emit(TOPIC, &"x".repeat(6000))).unwrap();
    w.heard(&log, "Options::max_inbound_size allows 5000");
    assert!(w.wait(messages.next()).is_none());
}

fn opening_is_bounded_in_every_phase(w: &World) {
    // Whoever is let in here is never talked to.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap();
    let full = full_listener();
    let short = Duration::from_secs(1);
    for (options, phase) in [
        (w.options(&format!("ws://{}/ws", full.address())), "while the TCP connection was being opened"),
        (
            w.options("ws://broker.invalid/ws").proxy(format!("http://{silent}")),
            "while waiting for the proxy",
        ),
        (w.options(&format!("wss://{silent}/ws")), "during the TLS handshake"),
        (w.options(&format!("ws://{silent}/ws")), "while waiting for the WebSocket upgrade"),
    ] {
        let client = Client::new("token", options.connect_timeout(short));
        let error = transport_error(w.wait(client.connect()));
        assert_eq!(error.kind, TransportErrorKind::Timeout, "{error}");
        assert!(error.to_string().ends_with(phase), "{error}");
    }
}

fn large_messages_pass_small_buffers(w: &World) {
    let broker = w.broker_with(|broker| broker.limits(Limits::NONE));
    let small = |options: Options| options.read_buffer_size(1).tcp_nodelay(false);
    let client = w.connect_with(&broker, "alice", small);
    let publisher = w.connect(&broker, "bob");
    let mut messages = w.wait(client.subscribe(TOPIC).stream::<String>()).unwrap();
    for size in [0, 10, 100_000, 900_000] {
        let text = "x".repeat(size);
        w.wait(publisher.emit(TOPIC, &text)).unwrap();
        assert_eq!(w.data(&mut messages), text);
    }
}

fn pings_keep_an_idle_connection(w: &World) {
    let idle = Duration::from_secs(1);
    let limits = Limits { idle_timeout: Some(idle), ..Limits::default() };
    let broker = w.broker_with(|broker| broker.limits(limits));
    let options = w.options(&broker.url()).heartbeat_interval(Duration::ZERO);
    let kept = Client::new(broker.token("kept"), options.clone().websocket_ping_interval(idle / 10));
    w.wait(kept.connect()).unwrap();
    // One without them is closed over and over by the broker, so that time passes for both.
    let closed = Client::new(broker.token("closed"), options.websocket_ping_interval(Duration::ZERO));
    w.wait(closed.connect()).unwrap();
    w.until("the other is closed twice", || closed.stats().core.sessions >= 3);
    assert_eq!((kept.stats().core.sessions, kept.is_connected()), (1, true));
}
