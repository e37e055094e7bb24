//! HTTP proxies.

use std::{error::Error as _, time::Duration};

use nolag::{Client, Error, Misuse, TransportErrorKind};

use super::{Case, case};
use crate::{
    fixtures::{Proxy, ProxyKind},
    world::{Log, TOPIC, World, transport_error},
};

pub(super) const CASES: &[Case] = &[
    case!(One, every_connection_goes_through_the_proxy),
    case!(One, a_proxy_may_want_user_and_password),
    case!(One, a_proxy_that_denies_is_told_with_its_status),
    case!(One, a_proxy_that_answers_nonsense_is_told),
    case!(One, a_proxy_that_does_not_answer_is_not_waited_for),
    case!(One, a_proxy_that_cannot_be_is_told_by_its_option),
];

fn every_connection_goes_through_the_proxy(w: &World) {
    let broker = w.broker();
    let proxy = Proxy::start(ProxyKind::Open);
    // The proxy resolves the name, so nobody here has to know it.
    let client = Client::new(broker.token("alice"), w.options(&broker.url()).proxy(proxy.url()));
    let log = Log::watch(&client);
    w.wait(client.connect()).unwrap();
    let mut messages = w.wait(client.subscribe(TOPIC).stream::<String>()).unwrap();
    broker.block_on(broker.cut_all());
    w.heard(&log, "restored");
    w.wait(client.emit(TOPIC, "through")).unwrap();
    assert_eq!(w.data(&mut messages), "through");
    let requests = proxy.requests();
    assert_eq!(requests.len(), 2);
    let authority = broker.url().replace("ws://", "").replace("/ws", "");
    for request in requests {
        assert!(request.starts_with(&format!("CONNECT {authority} HTTP/1.1\r\n")), "{request}");
        assert!(request.contains(&format!("Host: {authority}\r\n")), "{request}");
        assert!(!request.contains("Authorization"), "{request}");
    }
}

fn a_proxy_may_want_user_and_password(w: &World) {
    let broker = w.broker();
    let proxy = Proxy::start(ProxyKind::Guarded("me:s@cret"));
    let connect = |url: String| {
        let client = Client::new(broker.token("alice"), w.options(&broker.url()).proxy(url));
        w.wait(client.connect())
    };
    connect(proxy.url_for("me:s%40cret")).unwrap();
    for url in [proxy.url(), proxy.url_for("me:hunter2")] {
        let error = transport_error(connect(url));
        assert_eq!(error.kind, TransportErrorKind::Proxy(Some(407)), "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}

fn a_proxy_that_denies_is_told_with_its_status(w: &World) {
    let broker = w.broker();
    let proxy = Proxy::start(ProxyKind::Answering("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"));
    let client = Client::new(broker.token("alice"), w.options(&broker.url()).proxy(proxy.url()));
    let error = transport_error(w.wait(client.connect()));
    assert_eq!(error.kind, TransportErrorKind::Proxy(Some(403)), "{error}");
    w.connections(&broker, 0);
}

fn a_proxy_that_answers_nonsense_is_told(w: &World) {
    for nonsense in ["SSH-2.0-OpenSSH_9.9\r\n", "HTTP/1.1 abc\r\n\r\n", "HTTP/junk 200 OK\r\n\r\n", ""] {
        let proxy = Proxy::start(ProxyKind::Answering(nonsense));
        let client = Client::new("token", w.options("ws://127.0.0.1:9/ws").proxy(proxy.url()));
        let error = transport_error(w.wait(client.connect()));
        assert_eq!(error.kind, TransportErrorKind::Proxy(None), "{nonsense:?}: {error}");
        assert!(error.source().is_some_and(|source| source.is::<std::io::Error>()), "{error:?}");
    }
}

fn a_proxy_that_does_not_answer_is_not_waited_for(w: &World) {
    let proxy = Proxy::start(ProxyKind::Silent);
    let options = w.options("ws://127.0.0.1:9/ws").proxy(proxy.url());
    let client = Client::new("token", options.connect_timeout(Duration::from_millis(500)));
    let error = transport_error(w.wait(client.connect()));
    assert_eq!(error.kind, TransportErrorKind::Timeout);
    assert!(error.to_string().ends_with("while waiting for the proxy"), "{error}");
    // It is asked once for each attempt.
    assert_eq!(proxy.requests().len(), 1);
}

fn a_proxy_that_cannot_be_is_told_by_its_option(w: &World) {
    for url in ["", "proxy:3128", "socks5://proxy:1080", "http://me:hunter2@", "http://me:hunter2@proxy/path"]
    {
        let client = Client::new("token", w.options("ws://127.0.0.1:9/ws").proxy(url));
        let refused = w.wait(client.connect()).unwrap_err();
        assert!(
            matches!(&refused, Error::Misuse(Misuse::InvalidOption { option: "proxy", .. })),
            "{url}: {refused:?}"
        );
        assert!(!format!("{refused} {refused:?}").contains("hunter2"), "{refused}");
    }
}
