//! Watching who is present in many rooms.

use std::collections::BTreeMap;

use nolag::{Client, Error, ErrorEvent, LobbyChange, LobbySnapshot, PresenceKind, Rejection};
use nolag_broker::{AuthConfig, Expected, Fault, NewActor, Profile, TestBroker};
use nolag_core::wire::{ClientFrame, LobbyEvent, RawValue, ServerFrame, Text};
use tokio::sync::mpsc;

use crate::{
    Log, PATIENCE, connect, options,
    server::{Peer, ScriptedServer},
    soon, until,
};

fn shown(event: &LobbyChange) -> String {
    let kind = match event.kind {
        PresenceKind::Join => "join",
        PresenceKind::Leave => "leave",
        PresenceKind::Update => "update",
        _ => "other",
    };
    let room = event.room.as_deref().unwrap_or("?");
    format!("{}: {kind} {}@{room}", event.lobby.as_deref().unwrap_or("?"), event.actor_id)
}

/// `room: actor …`, without rooms where nobody is.
fn present(snapshot: &LobbySnapshot) -> Vec<String> {
    let rooms = snapshot.iter().filter(|(_, members)| !members.is_empty());
    let names = |members: &[nolag::PresenceMember]| {
        members.iter().map(|member| &*member.actor_id).collect::<Vec<_>>().join(" ")
    };
    rooms.map(|(room, members)| format!("{room}: {}", names(members))).collect()
}

#[tokio::test]
async fn a_lobby_shows_who_is_in_its_rooms() {
    for profile in Profile::ALL {
        let broker = TestBroker::builder().profile(profile).start().await;
        let (alice, bob) = (connect(&broker, "alice").await, connect(&broker, "bob").await);
        soon(alice.set_presence_in("general", "here")).await.unwrap();
        let lobby = bob.app("demo").lobby("online");
        assert_eq!((lobby.app(), lobby.name(), lobby.snapshot()), ("demo", "online", None));
        // Kraken's own first snapshot is empty.
        let snapshot = soon(lobby.subscribe()).await.unwrap();
        assert_eq!(present(&snapshot), ["general: alice"], "{profile:?}");
        assert_eq!(snapshot["general"][0].presence.text(), Some("here"));

        let log = Log::default();
        let seen = log.clone();
        let all = lobby.on(move |event| seen.add(shown(&event)));
        let seen = log.clone();
        lobby.on_join(move |event| {
            let seen = seen.clone();
            async move { seen.add(format!("{} came", event.actor_id)) }
        });
        let seen = log.clone();
        lobby.on_update(move |event| {
            seen.add(format!("{} changed to {:?}", event.actor_id, event.data.text()))
        });
        let seen = log.clone();
        lobby.on_leave(move |event| seen.add(format!("{} went", event.actor_id)));
        let seen = log.clone();
        bob.on_lobby(move |event| seen.add(format!("any {}", shown(&event))));

        soon(alice.set_presence_in("general", "busy")).await.unwrap();
        log.wait_for(r#"alice changed to Some("busy")"#).await;
        assert!(lobby.off(all) && !lobby.off(all));
        soon(alice.set_presence_in("lounge", "here")).await.unwrap();
        log.wait_for("any online: join alice@lounge").await;
        soon(alice.close()).await;
        log.wait_for("any online: leave alice@lounge").await;
        until("the handlers", || log.entries().iter().filter(|entry| *entry == "alice went").count() == 2)
            .await;
        assert!(log.has("online: update alice@general") && log.has("alice came"), "{:?}", log.entries());
        assert_eq!(present(&lobby.snapshot().unwrap()), Vec::<String>::new());
        assert_eq!(present(&soon(lobby.fetch()).await.unwrap()), Vec::<String>::new());

        soon(lobby.unsubscribe()).await.unwrap();
        assert_eq!(lobby.snapshot(), None);
    }
}

#[tokio::test]
async fn a_lobby_without_a_grant_is_refused_at_once() {
    let auth = AuthConfig::allow_all().with_actor(NewActor::new("carol").can_use("demo/general/#"));
    let broker = TestBroker::builder().auth(auth).start().await;
    // With a patience that only a lost answer would use up.
    let patient = options(&broker.url()).operation_timeout(std::time::Duration::from_secs(3600));
    let client = Client::new(broker.token("carol"), patient);
    let (tell, mut told) = mpsc::unbounded_channel();
    client.on_error(move |event| tell.send(event).unwrap());
    soon(client.connect()).await.unwrap();
    let lobby = client.app("demo").lobby("online");
    for refused in [soon(lobby.subscribe()).await, soon(lobby.fetch()).await] {
        let Err(Error::Server(error)) = refused else { panic!("{refused:?}") };
        assert_eq!((error.error.as_str(), error.lobby_id.as_deref()), ("not_authorized", Some("online")));
    }
    assert_eq!(lobby.snapshot(), None);
    lobby.subscribe().send().unwrap();
    let event = soon(told.recv()).await.unwrap();
    assert!(matches!(&event, ErrorEvent::Operation { topic, .. } if &**topic == "online"), "{event:?}");
    let bad = client.app("demo").lobby("on/line");
    assert!(matches!(bad.subscribe().send(), Err(Error::Misuse(_))));
}

#[tokio::test]
async fn a_watched_lobby_comes_back_with_the_connection() {
    let broker = TestBroker::start().await;
    let (alice, bob) = (connect(&broker, "alice").await, connect(&broker, "bob").await);
    let lobby = bob.app("demo").lobby("online");
    let log = Log::default();
    let seen = log.clone();
    lobby.on(move |event| seen.add(shown(&event)));
    log.watch(&bob);
    soon(lobby.subscribe()).await.unwrap();
    let bobs = broker.connections().await.into_iter().find(|conn| conn.actor_id.as_deref() == Some("bob"));
    broker.cut(bobs.unwrap().id).await;
    log.wait_for("reconnect").await;
    broker
        .recorder()
        .expect(Expected::to_client("lobbySubscribed").actor("bob").times(2).within(PATIENCE))
        .await;
    soon(alice.set_presence_in("general", "here")).await.unwrap();
    log.wait_for("online: join alice@general").await;
    assert_eq!(present(&lobby.snapshot().unwrap()), ["general: alice"]);
}

#[tokio::test]
async fn a_lobby_that_is_not_given_back_is_an_error_event() {
    let broker = TestBroker::start().await;
    let client = connect(&broker, "bob").await;
    let lobby = client.app("demo").lobby("online");
    soon(lobby.subscribe()).await.unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    client.on_error(move |event| tell.send(event).unwrap());
    broker.fault(Fault::refuse("not_authorized").on("lobbySubscribe")).await;
    broker.cut_all().await;
    let event = soon(told.recv()).await.unwrap();
    let ErrorEvent::LobbyEnded { lobby: ended, .. } = &event else { panic!("{event}") };
    assert_eq!((&**ended, event.server_error().unwrap().error.as_str()), ("online", "not_authorized"));
    assert_eq!(lobby.snapshot(), None);
    // When everything ends together, one event about the connection says it.
    broker.clear_faults().await;
    soon(lobby.subscribe()).await.unwrap();
    soon(client.close()).await;
    assert_eq!(lobby.snapshot(), None);
    assert!(told.try_recv().is_err());
    assert_eq!(soon(lobby.fetch()).await, Err(Rejection::NotConnected.into()));
}

async fn confirm(peer: &mut Peer, snapshot: &str) {
    let frame = peer.frame().await;
    let Ok(ClientFrame::LobbySubscribe { lobby_id }) = ClientFrame::decode(&frame) else { panic!() };
    let room = BTreeMap::from([(snapshot, BTreeMap::<&str, ()>::new())]);
    let presence = nolag::Payload::encode(&room).unwrap();
    peer.send(&ServerFrame::LobbySubscribed { lobby_id: Text::Str(lobby_id), presence: presence.raw() })
        .await;
}

#[tokio::test]
async fn an_event_of_nobody_knows_which_lobby_is_told_without_one() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()));
    let log = Log::default();
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let (one, two) = (client.app("demo").lobby("one"), client.app("demo").lobby("two"));
    for lobby in [&one, &two] {
        let seen = log.clone();
        lobby.on(move |event| seen.add(shown(&event)));
        let (subscribed, ()) = tokio::join!(soon(lobby.subscribe()), confirm(&mut peer, lobby.name()));
        subscribed.unwrap();
    }
    let seen = log.clone();
    client.on_lobby(move |event| {
        let lobby_id = event.lobby_id.as_deref().unwrap_or_default();
        seen.add(format!("{lobby_id} is {}", shown(&event)));
    });
    for (id, room) in [("two", "hall"), ("some-id", "one"), ("some-id", "elsewhere")] {
        peer.send(&ServerFrame::LobbyPresence(LobbyEvent {
            event: "join",
            lobby_id: Some(Text::Str(id)),
            room_id: Some(Text::Str(room)),
            actor_id: Some("bob"),
            data: RawValue::EMPTY_MAP,
        }))
        .await;
    }
    log.wait_for("elsewhere").await;
    let expected = [
        "two: join bob@hall",
        "two is two: join bob@hall",
        "one: join bob@one",
        "some-id is one: join bob@one",
        "some-id is ?: join bob@elsewhere",
    ];
    assert_eq!(log.entries(), expected);
}
