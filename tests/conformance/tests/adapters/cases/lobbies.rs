//! Watching who is present in many rooms.

use nolag::{Error, LobbyChange, LobbySnapshot, PresenceKind};
use nolag_broker::{AuthConfig, Expected, Fault, NewActor};

use super::{Case, case};
use crate::world::{Log, World};

pub(super) const CASES: &[Case] = &[
    case!(Every, a_lobby_shows_who_is_in_its_rooms),
    case!(Every, a_lobby_without_a_grant_is_refused_at_once),
    case!(Every, a_watched_lobby_comes_back_with_the_connection),
];

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

fn a_lobby_shows_who_is_in_its_rooms(w: &World) {
    let broker = w.broker();
    let (alice, bob) = (w.connect(&broker, "alice"), w.connect(&broker, "bob"));
    w.wait(alice.set_presence_in("general", "here")).unwrap();
    let lobby = bob.app("demo").lobby("online");
    assert_eq!((lobby.app(), lobby.name(), lobby.snapshot()), ("demo", "online", None));
    // Kraken's own first snapshot is empty.
    let snapshot = w.wait(lobby.subscribe()).unwrap();
    assert_eq!(present(&snapshot), ["general: alice"]);
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
    lobby.on_update(move |event| seen.add(format!("{} is {:?}", event.actor_id, event.data.text())));
    let seen = log.clone();
    lobby.on_leave(move |event| seen.add(format!("{} went", event.actor_id)));
    let seen = log.clone();
    bob.on_lobby(move |event| seen.add(format!("any {}", shown(&event))));

    w.wait(alice.set_presence_in("general", "busy")).unwrap();
    w.heard(&log, r#"alice is Some("busy")"#);
    w.heard(&log, "online: update alice@general");
    assert!(lobby.off(all) && !lobby.off(all));
    w.wait(alice.set_presence_in("lounge", "here")).unwrap();
    w.heard(&log, "any online: join alice@lounge");
    assert_eq!(present(&lobby.snapshot().unwrap()), ["lounge: alice"]);
    assert_eq!(present(&w.wait(lobby.fetch()).unwrap()), ["lounge: alice"]);
    w.wait(alice.close());
    w.heard(&log, "any online: leave alice@lounge");
    w.until("both rooms were left", || log.count("alice went") == 2);
    assert!(log.has("alice came"), "{:?}", log.entries());
    assert!(present(&lobby.snapshot().unwrap()).is_empty());

    w.wait(lobby.unsubscribe()).unwrap();
    assert_eq!(lobby.snapshot(), None);
}

fn a_lobby_without_a_grant_is_refused_at_once(w: &World) {
    let auth = AuthConfig::allow_all().with_actor(NewActor::new("carol").can_use("demo/general/#"));
    let broker = w.broker_with(|broker| broker.auth(auth));
    // With a patience that only a lost answer would use up.
    let hour = std::time::Duration::from_secs(3600);
    let client = w.connect_with(&broker, "carol", |options| options.operation_timeout(hour));
    let log = Log::watch(&client);
    let lobby = client.app("demo").lobby("online");
    for refused in [w.wait(lobby.subscribe()), w.wait(lobby.fetch())] {
        let Err(Error::Server(error)) = refused else { panic!("{refused:?}") };
        assert_eq!((error.error.as_str(), error.lobby_id.as_deref()), ("not_authorized", Some("online")));
    }
    assert_eq!(lobby.snapshot(), None);
    lobby.subscribe().send().unwrap();
    w.heard(&log, "error: subscribe to lobby refused: not_authorized");
}

fn a_watched_lobby_comes_back_with_the_connection(w: &World) {
    let broker = w.broker();
    let (alice, bob) = (w.connect(&broker, "alice"), w.connect(&broker, "bob"));
    let lobby = bob.app("demo").lobby("online");
    let log = Log::watch(&bob);
    let seen = log.clone();
    lobby.on(move |event| seen.add(shown(&event)));
    w.wait(lobby.subscribe()).unwrap();
    let answers = Expected::to_client("lobbySubscribed").actor("bob");
    let before = w.frames(&broker, &answers, 1).len();
    let bobs =
        broker.block_on(broker.connections()).into_iter().find(|it| it.actor_id.as_deref() == Some("bob"));
    broker.block_on(broker.cut(bobs.unwrap().id));
    w.frames(&broker, &answers, before + 1);
    w.wait(alice.set_presence_in("general", "here")).unwrap();
    w.heard(&log, "online: join alice@general");
    assert_eq!(present(&lobby.snapshot().unwrap()), ["general: alice"]);
    // A lobby that is not given back is told about.
    broker.block_on(broker.fault(Fault::refuse("not_authorized").on("lobbySubscribe")));
    broker.block_on(broker.cut_all());
    w.heard(&log, "error: lobby online is no longer watched");
    assert_eq!(lobby.snapshot(), None);
}
