//! Tokens that come from the application, and tokens that end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nolag::{Client, Error, FreshToken, Rejection, Status};
use nolag_broker::{AuthConfig, BlockingTestBroker, Expected};

use super::{Case, case};
use crate::{
    fixtures::Bomb,
    world::{Log, TOPIC, World},
};

pub(super) const CASES: &[Case] = &[
    case!(Every, a_token_is_replaced_ahead_of_its_end, slow),
    case!(Every, an_expired_token_is_replaced_at_once),
    case!(Every, a_revoked_token_is_replaced_and_without_a_provider_final),
    case!(One, every_connection_gets_a_fresh_token),
    case!(One, a_token_that_is_good_for_another_while_is_kept),
    case!(One, why_there_is_no_token_is_told),
];

/// Counts how often a provider was asked.
#[derive(Clone, Default)]
struct Asked(Arc<AtomicU32>);

impl Asked {
    fn again(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn times(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// The one open connection.
fn connection(broker: &BlockingTestBroker) -> nolag_broker::ConnectionId {
    broker.block_on(broker.connections())[0].id
}

fn a_token_is_replaced_ahead_of_its_end(w: &World) {
    let auth = AuthConfig::allow_all().with_signing_key("key", "secret");
    let broker = w.broker_with(|broker| broker.auth(auth.clone()));
    let asked = Asked::default();
    let count = asked.clone();
    // A client token says itself when it ends: so soon that the client replaces it as early as it ever does.
    let provider = move || {
        count.again();
        let end = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(34);
        auth.client_token("alice", end).ok_or("there is no key")
    };
    // Old brokers do not answer, which ends the session.
    let options = w.options(&broker.url()).operation_timeout(Duration::from_secs(2));
    let client = Client::with_token_provider(provider, options);
    w.wait(client.connect()).unwrap();
    assert_eq!(asked.times(), 1);
    let reauth = w.frames(&broker, &Expected::from_client("reauth"), 1);
    assert!(reauth[0].to_string().contains("(a token)"));
    assert_eq!(asked.times(), 2);
    if w.profile.rules().reauth {
        w.frames(&broker, &Expected::to_client("reauth"), 1);
        w.wait(client.emit(TOPIC, &1)).unwrap();
        assert_eq!(client.stats().core.sessions, 1);
    } else {
        // The new connection takes the new token.
        w.until("a new session", || client.stats().core.sessions == 2);
        assert_eq!(asked.times(), 2);
    }
}

fn an_expired_token_is_replaced_at_once(w: &World) {
    let broker = w.broker();
    let asked = Asked::default();
    let (count, token) = (asked.clone(), broker.token("alice"));
    let provider = move || {
        count.again();
        Ok::<_, String>(token.clone())
    };
    // Brokers look at heartbeats only. An interval of an hour: with a fresh token there is no reason to wait.
    let options = w
        .options(&broker.url())
        .heartbeat_interval(Duration::from_millis(20))
        .reconnect_interval(Duration::from_secs(3600));
    let client = Client::with_token_provider(provider, options);
    let log = Log::watch(&client);
    w.wait(client.connect()).unwrap();
    broker.block_on(broker.expire_token(connection(&broker)));
    w.heard(&log, "reconnect");
    assert!(log.has("disconnect: ") && log.has("4003"), "{:?}", log.entries());
    assert_eq!(asked.times(), 2);
}

fn a_revoked_token_is_replaced_and_without_a_provider_final(w: &World) {
    let broker = w.broker();
    let asked = Asked::default();
    let (count, token) = (asked.clone(), broker.token("alice"));
    let provider = move || {
        count.again();
        Ok::<_, String>(token.clone())
    };
    let revoke = |conn| {
        let revoked = broker.with_core(move |core, now| core.close(now, conn, 4001, "token_revoked"));
        broker.block_on(revoked).unwrap();
    };
    let client = Client::with_token_provider(provider, w.options(&broker.url()));
    let log = Log::watch(&client);
    w.wait(client.connect()).unwrap();
    revoke(connection(&broker));
    w.heard(&log, "reconnect");
    assert_eq!(asked.times(), 2);
    w.wait(client.close());
    w.connections(&broker, 0);

    let client = w.connect(&broker, "alice");
    let log = Log::watch(&client);
    let mut messages = w.wait(client.subscribe(TOPIC).messages()).unwrap();
    revoke(connection(&broker));
    assert!(w.wait(messages.next()).is_none());
    w.heard(&log, "error: will not connect again by itself");
    assert_eq!(client.status(), Status::Disconnected);
    assert!(!log.has("reconnect"));
    // The application may start again.
    w.wait(client.connect()).unwrap();
}

fn every_connection_gets_a_fresh_token(w: &World) {
    let broker = w.broker();
    let asked = Asked::default();
    let count = asked.clone();
    let provider = move || Ok::<_, String>(format!("dev-token-alice{}", count.again()));
    let client = Client::with_token_provider(provider, w.options(&broker.url()));
    let log = Log::watch(&client);
    w.wait(client.connect()).unwrap();
    assert_eq!(client.actor_id().as_deref(), Some("alice1"));
    broker.block_on(broker.cut_all());
    w.heard(&log, "reconnect");
    assert_eq!(client.actor_id().as_deref(), Some("alice2"));
}

fn a_token_that_is_good_for_another_while_is_kept(w: &World) {
    let broker = w.broker();
    let asked = Asked::default();
    let count = asked.clone();
    let provider = move || {
        let token = format!("dev-token-alice{}", count.again());
        async move { Ok::<_, String>(FreshToken::new(token).valid_for(Duration::from_secs(3600))) }
    };
    let client = Client::with_token_provider(provider, w.options(&broker.url()));
    let log = Log::watch(&client);
    w.wait(client.connect()).unwrap();
    broker.block_on(broker.cut_all());
    w.heard(&log, "reconnect");
    assert_eq!((asked.times(), client.actor_id().as_deref()), (1, Some("alice1")));
}

fn why_there_is_no_token_is_told(w: &World) {
    let broker = w.broker();
    let asked = Asked::default();
    let token = broker.token("alice");
    let provider = move || match asked.again() {
        1 => Err("the vault is closed"),
        2 => Ok(String::new()),
        3 => panic!("on purpose: sesame"),
        4 => std::panic::panic_any(Bomb),
        _ => Ok(token.clone()),
    };
    let client = Client::with_token_provider(provider, w.options(&broker.url()));
    for expected in ["the vault is closed", "it is empty", "its provider panicked", "its provider panicked"] {
        let error = w.wait(client.connect()).unwrap_err();
        assert_eq!(error, Error::Rejected(Rejection::TokenUnavailable(expected.into())));
        assert_eq!(client.status(), Status::Disconnected);
    }
    w.wait(client.connect()).unwrap();
}
