//! Addresses and networks that are wrong: one typed error each, with its cause.

use std::{error::Error as _, io, net::TcpListener};

use nolag::{Client, Error, ErrorEvent, Misuse, Options, Status, TransportErrorKind};

use super::{Case, case};
use crate::{
    fixtures::{ClientCertificates, Link, Proxy, ProxyKind, SecureFront},
    world::{TOPIC, World, channel, transport_error},
};

pub(super) const CASES: &[Case] = &[
    case!(One, an_address_that_cannot_be_is_told_before_anything_is_tried),
    case!(One, a_refused_port_is_told_with_its_cause),
    case!(One, a_name_without_address_is_told_with_its_cause),
    case!(One, a_server_that_speaks_something_else_is_told),
    case!(One, each_failed_attempt_to_reconnect_is_one_event),
    case!(One, each_failed_first_attempt_is_one_event_when_retried),
];

/// An address where nobody listens.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("ws://{}/ws", listener.local_addr().unwrap())
}

fn an_address_that_cannot_be_is_told_before_anything_is_tried(w: &World) {
    for url in ["", "localhost:8080", "localhost:8080/ws", "http://localhost/ws", "ftp://localhost", "ws://"]
    {
        let client = Client::new("token", w.options(url));
        let error = w.wait(client.connect()).unwrap_err();
        assert!(matches!(error, Error::Misuse(Misuse::InvalidUrl { .. })), "{url:?}: {error:?}");
        assert!(error.to_string().contains(url), "{error}");
        assert_eq!(client.status(), Status::Disconnected);
    }
    let client = Client::new("token", w.options("ws://me:hunter2@localhost/ws"));
    let error = w.wait(client.connect()).unwrap_err();
    assert!(matches!(error, Error::Misuse(Misuse::InvalidUrl { .. })), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    for (client, expected) in [
        (Client::new("", w.options("ws://localhost/ws")), Misuse::NoToken),
        (
            Client::new("token", w.options("ws://localhost/ws").client_id("a b")),
            Misuse::InvalidClientId("a b".into()),
        ),
    ] {
        assert_eq!(w.wait(client.connect()), Err(Error::Misuse(expected)));
    }
}

fn a_refused_port_is_told_with_its_cause(w: &World) {
    let client = Client::new("token", w.options(&nobody()));
    let error = transport_error(w.wait(client.connect()));
    assert_eq!(error.kind, TransportErrorKind::Connect);
    let cause = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    assert_eq!(cause.map(io::Error::kind), Some(io::ErrorKind::ConnectionRefused), "{error:?}");
    assert_eq!(client.status(), Status::Disconnected);
    assert!(matches!(client.emit(TOPIC, &1).send(), Err(Error::Rejected(_) | Error::Transport(_))));
}

fn a_name_without_address_is_told_with_its_cause(w: &World) {
    let client = Client::new("token", w.options("ws://name.invalid/ws"));
    let error = transport_error(w.wait(client.connect()));
    assert_eq!(error.kind, TransportErrorKind::Resolve);
    assert!(error.to_string().contains("name.invalid"), "{error}");
    assert!(error.source().is_some_and(|source| source.is::<io::Error>()), "{error:?}");
}

fn a_server_that_speaks_something_else_is_told(w: &World) {
    let broker = w.broker();
    // The broker itself, where it has no WebSocket.
    let url = broker.url().replace("/ws", "/health");
    let error = transport_error(w.wait(Client::new(broker.token("alice"), w.options(&url)).connect()));
    assert_eq!(error.kind, TransportErrorKind::Upgrade(Some(200)), "{error}");
    let url = broker.url().replace("/ws", "/elsewhere");
    let error = transport_error(w.wait(Client::new(broker.token("alice"), w.options(&url)).connect()));
    assert_eq!(error.kind, TransportErrorKind::Upgrade(Some(404)), "{error}");
    // And where it has no TLS.
    let url = broker.url().replace("ws://", "wss://");
    let error = transport_error(w.wait(Client::new(broker.token("alice"), w.options(&url)).connect()));
    assert_eq!(error.kind, TransportErrorKind::Tls, "{error}");
    assert!(error.source().is_some(), "{error:?}");
    // No HTTP at all.
    let ssh = Proxy::start(ProxyKind::Answering("SSH-2.0-OpenSSH_9.9\r\n"));
    let url = ssh.url().replace("http://", "ws://");
    let error = transport_error(w.wait(Client::new("token", w.options(&url)).connect()));
    assert_eq!(error.kind, TransportErrorKind::Upgrade(None), "{error}");
    assert!(error.source().is_some(), "{error:?}");
}

/// Listens to the failed attempts of a client: number and kind.
fn attempts(client: &Client) -> std::sync::mpsc::Receiver<Result<(u32, TransportErrorKind), ErrorEvent>> {
    let (tell, told) = channel();
    client.on_error(move |event| {
        tell.send(match event {
            ErrorEvent::AttemptFailed { attempt, cause: Error::Transport(cause), .. } => {
                Ok((attempt, cause.kind))
            }
            other => Err(other),
        });
    });
    told
}

fn each_failed_attempt_to_reconnect_is_one_event(w: &World) {
    let broker = w.broker();
    let mut link = Link::to(&broker);
    let client = Client::new(broker.token("alice"), w.options(&link.url()).max_reconnect_attempts(None));
    let told = attempts(&client);
    w.wait(client.connect()).unwrap();
    link.close();
    for attempt in 1..=5 {
        assert_eq!(w.receive(&told), Ok((attempt, TransportErrorKind::Connect)));
    }
    client.disconnect();
    w.wait(client.close());
}

fn each_failed_first_attempt_is_one_event_when_retried(w: &World) {
    let broker = w.broker();
    let front = SecureFront::of(&broker, ClientCertificates::NotAsked);
    let denying = Proxy::start(ProxyKind::Answering("HTTP/1.1 403 Forbidden\r\n\r\n"));
    let retry = |options: Options| options.retry_first_connect(true).max_reconnect_attempts(2);
    for (options, kind) in [
        (w.options(&nobody()), TransportErrorKind::Connect),
        (w.options("ws://name.invalid/ws"), TransportErrorKind::Resolve),
        (w.options(&front.url()), TransportErrorKind::Tls),
        (w.options(&broker.url()).proxy(denying.url()), TransportErrorKind::Proxy(Some(403))),
    ] {
        let client = Client::new(broker.token("alice"), retry(options));
        let told = attempts(&client);
        // The call tells the last failure, and events the others: the first attempt, and two to connect again.
        assert_eq!(transport_error(w.wait(client.connect())).kind, kind);
        w.wait(client.close());
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [Ok((1, kind)), Ok((2, kind))]);
    }
}
