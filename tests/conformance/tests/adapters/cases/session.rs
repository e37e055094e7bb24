//! Who we are to the broker, and where the client stands.

use nolag::{ActorType, Client, Error, Rejection, Status};
use nolag_broker::{AuthConfig, Expected, Fault};

use super::{Case, case};
use crate::world::{Log, TOPIC, World};

pub(super) const CASES: &[Case] = &[
    case!(Every, a_session_tells_who_we_are),
    case!(Every, a_denied_token_is_told_in_the_brokers_words_and_not_retried),
    case!(One, the_first_attempt_is_retried_when_asked),
    case!(One, the_status_can_be_watched),
    case!(One, counters_and_words_say_what_goes_on),
    case!(One, a_weak_reference_keeps_nothing_alive),
];

fn a_session_tells_who_we_are(w: &World) {
    let broker = w.broker();
    let options = w.options(&broker.url()).client_id("laptop").project_id("p").load_balance_group("workers");
    let client = Client::new(broker.token("alice"), options);
    let log = Log::watch(&client);
    assert_eq!((client.status(), client.is_connected()), (Status::Disconnected, false));
    assert_eq!((client.session(), client.actor_id()), (None, None));

    w.wait(client.connect()).unwrap();
    assert_eq!((client.status(), client.is_connected()), (Status::Connected, true));
    assert_eq!(client.actor_id().as_deref(), Some("alice"));
    assert_eq!(client.actor_type(), Some(ActorType::User));
    assert_eq!(client.protocol_version(), Some(2));
    let session = client.session().unwrap();
    assert_eq!((session.actor_id.as_str(), &session.project_id), ("alice", &client.project_id()));
    assert_eq!((client.load_balanced(), client.load_balance_group()), (false, Some("workers")));
    // Joins the session that stands.
    w.wait(client.connect()).unwrap();
    assert_eq!(w.frames(&broker, &Expected::from_client("auth"), 1).len(), 1);

    w.wait(client.close());
    assert_eq!(client.status(), Status::Disconnected);
    assert_eq!(client.actor_id().as_deref(), Some("alice"), "that of the last session");
    assert_eq!(log.entries(), ["connect", "disconnect: the client was disconnected by the application"]);
    w.connections(&broker, 0);
}

fn a_denied_token_is_told_in_the_brokers_words_and_not_retried(w: &World) {
    let broker = w.broker_with(|broker| broker.auth(AuthConfig::seed_world()));
    let client = Client::new("sesame", w.options(&broker.url()).retry_first_connect(true));
    let denied = w.wait(client.connect()).unwrap_err();
    let Error::Server(error) = &denied else { panic!("{denied:?}") };
    assert_eq!(error.error, "access_denied");
    assert!(!format!("{denied} {denied:?} {client:?}").contains("sesame"));
    assert_eq!(client.status(), Status::Disconnected);
    // The broker leaves the socket open; the client must not.
    w.connections(&broker, 0);
    assert_eq!(w.frames(&broker, &Expected::from_client("auth"), 1).len(), 1);
    assert!(matches!(
        client.emit(TOPIC, &1).send(),
        Err(Error::Rejected(Rejection::NotConnected) | Error::Server(_))
    ));
}

fn the_first_attempt_is_retried_when_asked(w: &World) {
    let refusals = Fault::refuse("broker_unavailable").on("auth").times(2);
    let broker = w.broker_with(|broker| broker.fault(refusals));
    let client = Client::new(broker.token("alice"), w.options(&broker.url()).retry_first_connect(true));
    let log = Log::watch(&client);
    w.wait(client.connect()).unwrap();
    w.heard(&log, "connect");
    assert_eq!(log.count("error: attempt"), 2, "{:?}", log.entries());
}

fn the_status_can_be_watched(w: &World) {
    let broker = w.broker();
    let client = w.client(&broker, "alice");
    let mut watch = client.watch_status();
    assert_eq!(w.wait(watch.next()), Some(Status::Disconnected));
    w.wait(client.connect()).unwrap();
    assert_eq!(w.wait(watch.next()), Some(Status::Connected));
    // The client comes back only when it may.
    let refusal = broker.block_on(broker.fault(Fault::refuse("broker_unavailable").on("auth")));
    broker.block_on(broker.cut_all());
    assert!(w.wait(watch.wait_for(Status::Reconnecting)));
    broker.block_on(broker.remove_fault(refusal));
    assert!(w.wait(watch.wait_for(Status::Connected)));
    // The watch keeps nothing alive, and ends with the client.
    drop(client);
    assert!(!w.wait(watch.wait_for(Status::Reconnecting)));
    assert_eq!(w.wait(watch.next()), None, "an end is an end");
}

fn counters_and_words_say_what_goes_on(w: &World) {
    let broker = w.broker();
    let client = w.client(&broker, "alice");
    assert!(client.explain().starts_with("idle"), "{}", client.explain());
    w.wait(client.connect()).unwrap();
    w.wait(client.subscribe(TOPIC)).unwrap();
    assert_eq!(client.subscriptions()[0].topic.as_ref(), TOPIC);
    // Nobody listens.
    w.wait(client.emit(TOPIC, "echo")).unwrap();
    w.until("the echo", || client.stats().messages_unheard == 1);
    let stats = client.stats();
    assert_eq!((stats.core.sessions, stats.core.messages_received), (1, 1));
    assert!(stats.core.frames_sent >= 3 && stats.core.frames_received >= 4, "{stats:?}");
    assert_eq!((stats.core.messages_dropped, stats.error_events_dropped, stats.events_dropped), (0, 0, 0));
    assert!(client.explain().starts_with(r#"connected as "alice", 1 subscriptions"#), "{}", client.explain());
}

fn a_weak_reference_keeps_nothing_alive(w: &World) {
    let broker = w.broker();
    let client = w.connect(&broker, "alice");
    let weak = client.downgrade();
    assert_eq!(weak.upgrade().unwrap().actor_id(), client.actor_id());
    let room = client.app("demo").room("general");
    drop(client);
    assert!(weak.upgrade().is_some(), "a room holds its client");
    drop(room);
    assert!(weak.upgrade().is_none());
    w.connections(&broker, 0);
}
