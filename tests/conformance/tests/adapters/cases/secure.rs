//! `wss://`.

use std::error::Error as _;

use nolag::{Client, Error, Misuse, Roots, TransportErrorKind};

use super::{Case, case};
use crate::{
    fixtures::{ClientCertificates, Proxy, ProxyKind, SecureFront},
    world::{Log, TOPIC, World, transport_error},
};

pub(super) const CASES: &[Case] = &[
    case!(One, a_private_authority_can_be_trusted),
    case!(One, a_certificate_of_an_unknown_authority_is_refused),
    case!(One, a_certificate_for_another_name_is_refused),
    case!(One, a_certificate_is_shown_to_servers_that_demand_one),
    case!(One, without_the_certificate_demanded_there_is_no_session),
    case!(One, certificates_that_cannot_be_used_are_told_by_their_option),
    case!(One, it_works_through_a_proxy),
];

fn a_private_authority_can_be_trusted(w: &World) {
    let broker = w.broker();
    let front = SecureFront::of(&broker, ClientCertificates::NotAsked);
    let options = w.options(&front.url()).root_certificates(&front.root);
    // Beside others, and alone.
    for options in [options.clone(), options.roots(Roots::Custom)] {
        let client = Client::new(broker.token("alice"), options);
        let log = Log::watch(&client);
        w.wait(client.connect()).unwrap();
        let text = "x".repeat(100_000);
        let mut messages = w.wait(client.subscribe(TOPIC).stream::<String>()).unwrap();
        w.wait(client.emit(TOPIC, &text)).unwrap();
        assert_eq!(w.data(&mut messages), text);
        broker.block_on(broker.cut_all());
        w.heard(&log, "restored");
        w.wait(client.close());
        w.connections(&broker, 0);
    }
}

fn a_certificate_of_an_unknown_authority_is_refused(w: &World) {
    let broker = w.broker();
    let front = SecureFront::of(&broker, ClientCertificates::NotAsked);
    let client = Client::new(broker.token("alice"), w.options(&front.url()));
    let error = transport_error(w.wait(client.connect()));
    assert_eq!(error.kind, TransportErrorKind::Tls);
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
    let source = error.source().and_then(|source| source.downcast_ref::<rustls::Error>());
    assert!(matches!(source, Some(rustls::Error::InvalidCertificate(_))), "{source:?}");
}

fn a_certificate_for_another_name_is_refused(w: &World) {
    let broker = w.broker();
    let front = SecureFront::of(&broker, ClientCertificates::NotAsked);
    let options = w.options(&front.url_of_another_name()).root_certificates(&front.root);
    let error = transport_error(w.wait(Client::new(broker.token("alice"), options).connect()));
    assert_eq!(error.kind, TransportErrorKind::Tls);
    assert!(error.source().is_some_and(|source| source.is::<rustls::Error>()), "{error:?}");
}

fn a_certificate_is_shown_to_servers_that_demand_one(w: &World) {
    let broker = w.broker();
    let front = SecureFront::of(&broker, ClientCertificates::Demanded);
    let options = w
        .options(&front.url())
        .root_certificates(&front.root)
        .client_certificate(&front.client_certificate, &front.client_key);
    let client = Client::new(broker.token("alice"), options);
    w.wait(client.connect()).unwrap();
    w.wait(client.emit(TOPIC, &1)).unwrap();
}

fn without_the_certificate_demanded_there_is_no_session(w: &World) {
    let broker = w.broker();
    let front = SecureFront::of(&broker, ClientCertificates::Demanded);
    let options = w.options(&front.url()).root_certificates(&front.root);
    let error = transport_error(w.wait(Client::new(broker.token("alice"), options).connect()));
    assert!(error.source().is_some(), "{error:?}");
    assert!(error.to_string().contains("CertificateRequired"), "{error}");
    // Also where TLS 1.3 tells it only after the handshake.
    assert_eq!(error.kind, TransportErrorKind::Tls, "{error}");
}

fn certificates_that_cannot_be_used_are_told_by_their_option(w: &World) {
    let broker = w.broker();
    let front = SecureFront::of(&broker, ClientCertificates::NotAsked);
    let options = w.options(&front.url());
    let good = options.clone().root_certificates(&front.root);
    for (options, expected) in [
        (options.clone().root_certificates("my secret notes"), "root_certificates"),
        (options.roots(Roots::Custom), "root_certificates"),
        (good.clone().client_certificate("my secret notes", &front.client_key), "client_certificate"),
        (good.client_certificate(&front.client_certificate, "my secret notes"), "client_certificate"),
    ] {
        let refused = w.wait(Client::new(broker.token("alice"), options).connect()).unwrap_err();
        let Error::Misuse(Misuse::InvalidOption { option, .. }) = &refused else { panic!("{refused:?}") };
        assert_eq!(*option, expected, "{refused}");
        assert!(!format!("{refused} {refused:?}").contains("secret notes"), "{refused}");
    }
}

fn it_works_through_a_proxy(w: &World) {
    let broker = w.broker();
    let front = SecureFront::of(&broker, ClientCertificates::NotAsked);
    let proxy = Proxy::start(ProxyKind::Open);
    let options = w.options(&front.url()).root_certificates(&front.root).proxy(proxy.url());
    let client = Client::new(broker.token("alice"), options);
    w.wait(client.connect()).unwrap();
    w.wait(client.emit(TOPIC, &1)).unwrap();
    let requests = proxy.requests();
    assert!(requests.len() == 1 && requests[0].starts_with("CONNECT localhost:"), "{requests:?}");
}
