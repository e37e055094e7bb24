//! Being seen in a room, and seeing who else is there.

use nolag::{Client, PresenceChange, PresenceKind};
use nolag_broker::Expected;
use serde::{Deserialize, Serialize};

use super::{Case, case};
use crate::world::{Log, World};

pub(super) const CASES: &[Case] = &[
    case!(Every, presence_is_set_seen_fetched_and_cleared),
    case!(Every, setting_presence_in_another_room_is_a_move),
    case!(Every, presence_comes_back_with_the_connection),
];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Mood {
    mood: String,
}

fn mood(mood: &str) -> Mood {
    Mood { mood: mood.into() }
}

fn shown(event: &PresenceChange) -> String {
    let kind = match event.kind {
        PresenceKind::Join => "join",
        PresenceKind::Leave => "leave",
        PresenceKind::Update => "update",
        _ => "other",
    };
    let room = event.room.as_deref().unwrap_or("?");
    let mood = event.presence.as_ref().and_then(|presence| presence.decode::<Option<Mood>>().unwrap());
    format!("{kind} {}@{room} {}", event.actor_id, mood.map_or_else(|| "-".into(), |mood| mood.mood))
}

fn watch(client: &Client) -> Log {
    let log = Log::default();
    let seen = log.clone();
    client.on_presence(move |event| seen.add(shown(&event)));
    log
}

/// Who a client knows to be in its room.
fn known(client: &Client) -> Vec<(String, Option<Mood>)> {
    let members = client.all_presence();
    members.iter().map(|member| (member.actor_id.to_string(), member.presence.decode().unwrap())).collect()
}

fn presence_is_set_seen_fetched_and_cleared(w: &World) {
    let broker = w.broker();
    let (alice, bob) = (w.connect(&broker, "alice"), w.connect(&broker, "bob"));
    let (by_alice, by_bob) = (watch(&alice), watch(&bob));
    let kinds = Log::default();
    let seen = kinds.clone();
    alice.on_presence_join(move |event| seen.add(format!("{} came", event.actor_id)));
    let seen = kinds.clone();
    let update = alice.on_presence_update(move |event| seen.add(format!("{} changed", event.actor_id)));
    let seen = kinds.clone();
    alice.on_presence_leave(move |event| {
        let seen = seen.clone();
        async move { seen.add(format!("{} went", event.actor_id)) }
    });

    w.wait(alice.app("demo").room("general").set_presence(&mood("online"))).unwrap();
    assert_eq!(alice.presence_room().as_deref(), Some("general"));
    w.wait(bob.set_presence_in("general", &mood("new"))).unwrap();
    w.heard(&by_alice, "join bob@general new");
    w.wait(bob.set_presence_in("general", &mood("busy"))).unwrap();
    w.heard(&by_alice, "update bob@general busy");
    assert!(!by_bob.has("alice"), "no list comes on joining: {:?}", by_bob.entries());
    let both = [("alice".into(), Some(mood("online"))), ("bob".into(), Some(mood("busy")))];
    assert_eq!(known(&alice), both);
    assert_eq!(alice.presence_of("bob").unwrap().presence.decode(), Ok(mood("busy")));
    assert_eq!(bob.presence_of("alice"), None);

    // Asking completes what is known, and tells it.
    let members = w.wait(bob.app("demo").room("general").fetch_presence()).unwrap();
    assert_eq!(members.len(), 2);
    w.heard(&by_bob, "join alice@general online");
    assert_eq!(known(&bob), both);
    assert!(w.wait(bob.fetch_presence("nowhere")).unwrap().is_empty());

    w.heard(&kinds, "bob changed");
    assert!(alice.off(update) && !alice.off(update));
    w.wait(bob.clear_presence()).unwrap();
    w.heard(&by_alice, "update bob@general -");
    assert_eq!(bob.presence_room(), None);
    w.wait(bob.close());
    w.heard(&by_alice, "leave bob@general");
    w.heard(&kinds, "bob went");
    assert!(kinds.has("bob came") && alice.presence_of("bob").is_none());
}

fn setting_presence_in_another_room_is_a_move(w: &World) {
    let broker = w.broker();
    let (alice, bob) = (w.connect(&broker, "alice"), w.connect(&broker, "bob"));
    let (by_alice, by_bob) = (watch(&alice), watch(&bob));
    w.wait(bob.set_presence_in("general", &mood("here"))).unwrap();
    w.wait(alice.set_presence_in("general", &mood("here"))).unwrap();
    w.wait(alice.set_presence_in("lounge", &mood("there"))).unwrap();
    w.heard(&by_bob, "leave alice@general");
    w.heard(&by_alice, "leave alice@general");
    w.heard(&by_alice, "join alice@lounge there");
    assert_eq!(alice.presence_room().as_deref(), Some("lounge"));
    assert_eq!(known(&alice), [("alice".into(), Some(mood("there")))]);
    w.until("bob is alone", || known(&bob).len() == 1);
}

fn presence_comes_back_with_the_connection(w: &World) {
    let broker = w.broker();
    let (alice, bob) = (w.connect(&broker, "alice"), w.connect(&broker, "bob"));
    w.wait(bob.set_presence_in("general", &mood("here"))).unwrap();
    w.wait(alice.set_presence_in("general", &mood("here"))).unwrap();
    broker.block_on(broker.cut_all());
    for actor in ["alice", "bob"] {
        w.frames(&broker, &Expected::from_client("presence").actor(actor), 2);
    }
    let carol = w.connect(&broker, "carol");
    w.until("both are there", || w.wait(carol.fetch_presence("general")).unwrap().len() == 2);
    // Each hears of the other again.
    let by_bob = watch(&bob);
    w.wait(alice.set_presence_in("general", &mood("back"))).unwrap();
    w.heard(&by_bob, "update alice@general back");
}
