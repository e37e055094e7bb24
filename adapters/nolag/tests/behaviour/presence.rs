//! Being present in rooms, and seeing who else is.

use std::time::Duration;

use nolag::{Client, Error, ErrorEvent, Op, PresenceChange, PresenceKind, ProtocolError, Rejection};
use nolag_broker::{AuthConfig, Expected, Fault, NewActor, TestBroker};
use nolag_core::wire::{ClientFrame, PresenceEntry, PresenceEvent, RawValue, ServerFrame, Text};
use serde::{Deserialize, Serialize};

use crate::{
    Log, PATIENCE, connect, options,
    server::{Peer, ScriptedServer},
    soon, until,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Mood {
    status: String,
}

fn mood(status: &str) -> Mood {
    Mood { status: status.into() }
}

/// `kind actor@room data`.
fn shown(event: &PresenceChange) -> String {
    let kind = match event.kind {
        PresenceKind::Join => "join",
        PresenceKind::Leave => "leave",
        PresenceKind::Update => "update",
        _ => "other",
    };
    let mood = event.presence.as_ref().map(|presence| presence.decode::<Option<Mood>>().unwrap());
    let status = mood.flatten().map_or_else(|| "-".into(), |mood| mood.status);
    format!("{kind} {}@{} {status}", event.actor_id, event.room.as_deref().unwrap_or("?"))
}

fn watch(client: &Client) -> Log {
    let log = Log::default();
    let seen = log.clone();
    client.on_presence(move |event| seen.add(shown(&event)));
    log
}

/// Who is known to be there.
fn known(client: &Client) -> Vec<(String, Option<Mood>)> {
    let member = |member: nolag::PresenceMember| (member.actor_id.into(), member.presence.decode().unwrap());
    client.all_presence().into_iter().map(member).collect()
}

#[tokio::test]
async fn members_of_a_room_see_one_another() {
    let broker = TestBroker::start().await;
    let (alice, bob) = (connect(&broker, "alice").await, connect(&broker, "bob").await);
    let room = alice.app("demo").room("general");
    let (heard_by_alice, heard_by_bob) = (watch(&alice), watch(&bob));
    let kinds = Log::default();
    let seen = kinds.clone();
    alice.on_presence_join(move |event| seen.add(format!("joined {}", event.actor_id)));
    let seen = kinds.clone();
    let update = alice.on_presence_update(move |event| {
        let seen = seen.clone();
        async move { seen.add(format!("updated {}", event.actor_id)) }
    });
    let seen = kinds.clone();
    alice.on_presence_leave(move |event| seen.add(format!("left {}", event.actor_id)));

    soon(room.set_presence(&mood("online"))).await.unwrap();
    assert_eq!(alice.presence_room().as_deref(), Some("general"));
    // Looking in from outside.
    let members = soon(bob.fetch_presence("general")).await.unwrap();
    assert_eq!(members.len(), 1);
    assert_eq!((&*members[0].actor_id, members[0].presence.decode()), ("alice", Ok(mood("online"))));
    assert!(members[0].joined_at.is_some() && bob.all_presence().is_empty());

    soon(bob.set_presence_in("general", &mood("new"))).await.unwrap();
    soon(bob.set_presence_in("general", &mood("busy"))).await.unwrap();
    heard_by_alice.wait_for("update bob@general busy").await;
    heard_by_bob.wait_for("update bob@general busy").await;
    assert!(heard_by_alice.has("join alice@general online") && heard_by_alice.has("join bob@general new"));
    assert!(!heard_by_bob.has("alice"), "no list comes on joining: {:?}", heard_by_bob.entries());
    let bobs = alice.presence_of("bob").unwrap();
    assert_eq!(bobs.presence.decode(), Ok(mood("busy")));
    let both = [("alice".into(), Some(mood("online"))), ("bob".into(), Some(mood("busy")))];
    assert_eq!(known(&alice), both);
    assert_eq!(bob.presence_of("alice"), None);

    // Asking completes what is known, and tells it.
    soon(bob.app("demo").room("general").fetch_presence()).await.unwrap();
    heard_by_bob.wait_for("join alice@general online").await;
    assert_eq!(known(&bob), both);

    assert!(alice.off(update) && !alice.off(update));
    soon(bob.clear_presence()).await.unwrap();
    heard_by_alice.wait_for("update bob@general -").await;
    assert_eq!((bob.presence_room(), known(&alice)[1].1.clone()), (None, None));
    soon(bob.close()).await;
    heard_by_alice.wait_for("leave bob@general").await;
    kinds.wait_for("left bob").await;
    assert_eq!(alice.presence_of("bob"), None);
    assert!(kinds.has("joined alice") && kinds.has("joined bob") && kinds.has("updated bob"));
}

#[tokio::test]
async fn setting_presence_in_another_room_is_a_move() {
    let broker = TestBroker::start().await;
    let (alice, bob) = (connect(&broker, "alice").await, connect(&broker, "bob").await);
    let (heard_by_alice, heard_by_bob) = (watch(&alice), watch(&bob));
    soon(bob.set_presence_in("general", &mood("here"))).await.unwrap();
    soon(alice.set_presence_in("general", &mood("here"))).await.unwrap();
    soon(alice.set_presence_in("lounge", &mood("there"))).await.unwrap();
    heard_by_bob.wait_for("leave alice@general").await;
    heard_by_alice.wait_for("leave alice@general").await;
    heard_by_alice.wait_for("join alice@lounge there").await;
    assert_eq!(alice.presence_room().as_deref(), Some("lounge"));
    assert_eq!(known(&alice), [("alice".into(), Some(mood("there")))]);
    until("bob alone", || known(&bob).len() == 1).await;
}

#[tokio::test]
async fn presence_comes_back_with_the_connection() {
    let broker = TestBroker::start().await;
    let (alice, bob) = (connect(&broker, "alice").await, connect(&broker, "bob").await);
    soon(bob.set_presence_in("general", &mood("here"))).await.unwrap();
    soon(alice.set_presence_in("general", &mood("here"))).await.unwrap();
    broker.cut_all().await;
    for actor in ["alice", "bob"] {
        broker
            .recorder()
            .expect(Expected::from_client("presence").actor(actor).times(2).within(PATIENCE))
            .await;
    }
    let carol = connect(&broker, "carol").await;
    let members = soon(carol.fetch_presence("general")).await.unwrap();
    let mut actors: Vec<_> = members.iter().map(|member| &*member.actor_id).collect();
    actors.sort_unstable();
    assert_eq!(actors, ["alice", "bob"]);
    // Each hears of the other again.
    let heard = watch(&bob);
    soon(alice.set_presence_in("general", &mood("back"))).await.unwrap();
    heard.wait_for("update alice@general back").await;
}

#[tokio::test]
async fn presence_that_is_set_without_a_connection_waits_for_it() {
    let broker = TestBroker::start().await;
    let client = Client::new(broker.token("alice"), options(&broker.url()));
    let refused = soon(client.set_presence_in("general", &mood("early"))).await;
    assert_eq!(refused, Err(Rejection::NotConnected.into()));
    let (connected, set) =
        tokio::join!(soon(client.connect()), soon(client.set_presence_in("general", &mood("early"))));
    connected.unwrap();
    set.unwrap();
    assert_eq!(known(&client), [("alice".into(), Some(mood("early")))]);
}

#[tokio::test]
async fn brokers_are_silent_about_rooms_that_they_do_not_know() {
    let auth = AuthConfig::seed_world().with_actor(NewActor::new("carol").can_use("demo/general/#"));
    let broker = TestBroker::builder().auth(auth).start().await;
    let quick = options(&broker.url()).operation_timeout(Duration::from_millis(50));
    let client = Client::new(broker.token("carol"), quick);
    soon(client.connect()).await.unwrap();
    let error = soon(client.set_presence_in("nowhere", &mood("lost"))).await.unwrap_err();
    assert!(
        matches!(error, Error::Protocol(ProtocolError::Timeout { op: Op::SetPresence, .. })),
        "{error:?}"
    );
    assert_eq!(soon(client.fetch_presence("nowhere")).await, Ok(Vec::new()));
}

#[tokio::test]
async fn what_cannot_be_sent_is_told_at_once() {
    let broker = TestBroker::start().await;
    let client = connect(&broker, "alice").await;
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    client.on_error(move |event| tell.send(event).unwrap());
    let map = std::collections::BTreeMap::from([(1u8, Unwritable)]);
    let error = soon(client.app("demo").room("general").set_presence(&map)).await.unwrap_err();
    assert!(error.to_string().contains("cannot be written as MessagePack"), "{error}");
    let event = soon(told.recv()).await.unwrap();
    assert_eq!((event.op(), event.topic()), (Some(Op::SetPresence), Some("general")));
    assert!(matches!(event, ErrorEvent::Encode { .. }));
    for (app, room) in [("de/mo", "general"), ("demo", "gene/ral")] {
        let room = client.app(app).room(room);
        assert!(matches!(room.set_presence(&mood("x")).send(), Err(Error::Misuse(_))));
        assert!(matches!(room.fetch_presence().send(), Err(Error::Misuse(_))));
    }
    assert!(broker.recorder().matching(&Expected::from_client("presence")).await.is_empty());
}

struct Unwritable;

impl Serialize for Unwritable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("no"))
    }
}

#[tokio::test]
#[allow(deprecated, reason = "it is there for those who come from other clients")]
async fn presence_without_a_room_leaves_and_is_not_kept() {
    let broker = TestBroker::start().await;
    let client = connect(&broker, "alice").await;
    soon(client.set_presence(&mood("nowhere"))).await.unwrap();
    assert_eq!((client.presence_room(), known(&client)), (None, Vec::new()));
    broker.recorder().expect(Expected::from_client("presence").times(1).within(PATIENCE)).await;
    soon(client.close()).await;
    assert_eq!(soon(client.set_presence(&mood("x"))).await, Err(Rejection::NotConnected.into()));
}

#[tokio::test]
async fn requests_are_told_in_every_way() {
    let broker = TestBroker::builder().fault(Fault::drop().on("getPresence").times(1)).start().await;
    let quick = options(&broker.url()).operation_timeout(Duration::from_millis(50));
    let client = Client::new(broker.token("alice"), quick);
    let (log, seen) = (Log::default(), watch(&client));
    log.watch(&client);
    soon(client.connect()).await.unwrap();
    // Nobody waits for an answer, and none comes.
    client.fetch_presence("lost").send().unwrap();
    log.wait_for("error: fetch presence on lost: the broker did not answer").await;
    client.set_presence_in("general", &mood("sent")).send().unwrap();
    seen.wait_for("join alice@general sent").await;
    let told = log.clone();
    client
        .fetch_presence("general")
        .callback(move |members| told.add(format!("{} there", members.unwrap().len())))
        .unwrap();
    log.wait_for("1 there").await;
    soon(client.close()).await;
    let refused = client.clear_presence().callback(|_| panic!("it was refused"));
    assert_eq!(refused, Err(Rejection::NotConnected.into()));
}

async fn tell(peer: &mut Peer, event: &str, actor: &str, presence: Option<&Mood>) {
    let data = presence.map(|presence| nolag::Payload::encode(presence).unwrap());
    let presence = data.as_ref().map(|data| RawValue::parse(data.as_msgpack()).unwrap());
    peer.send(&ServerFrame::Presence(PresenceEvent {
        event,
        actor_token_id: Some(actor),
        presence,
        status: None,
        capabilities: None,
        advertisement_version: None,
    }))
    .await;
}

#[tokio::test]
async fn an_actor_with_two_connections_leaves_once() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()));
    let log = watch(&client);
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let (set, ()) = tokio::join!(soon(client.set_presence_in("general", &mood("me"))), async {
        peer.frame().await;
        tell(&mut peer, "join", "alice", Some(&mood("me"))).await;
        tell(&mut peer, "update", "alice", Some(&mood("me"))).await;
    });
    set.unwrap();
    tell(&mut peer, "join", "bob", Some(&mood("phone"))).await;
    tell(&mut peer, "join", "bob", Some(&mood("laptop"))).await;
    tell(&mut peer, "leave", "bob", None).await;
    // The client asks before it believes that.
    let frame = peer.frame().await;
    let Ok(ClientFrame::GetPresence { room_id: Some("general") }) = ClientFrame::decode(&frame) else {
        panic!("{:?}", ClientFrame::decode(&frame));
    };
    let list = [("alice", mood("me")), ("bob", mood("laptop"))].map(|(actor, mood)| Entry {
        actor_token_id: actor.into(),
        presence: mood,
        joined_at: 1,
    });
    let list = nolag::Payload::encode(&list).unwrap();
    assert_eq!(PresenceEntry::parse_list(list.raw()).count(), 2);
    peer.send(&ServerFrame::PresenceList { room_id: Some(Text::Str("general")), data: list.raw() }).await;
    tell(&mut peer, "leave", "bob", None).await;
    log.wait_for("leave bob@general").await;
    assert_eq!(log.entries().iter().filter(|entry| entry.starts_with("leave")).count(), 1);
    assert_eq!(known(&client), [("alice".into(), Some(mood("me")))]);
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    actor_token_id: String,
    presence: Mood,
    joined_at: u64,
}
