//! What actors that were created over REST may do on the socket, and when they no longer may.

use std::time::Duration;

use nolag_broker::{AuthConfig, BrokerConfig, ConnectionId, Profile};
use nolag_core::rest::{
    AccessMode, ActorCreate, ActorUpdate, AppCreate, AppUpdate, Patch, ResourceStatus, RoomAccessCreate,
    RoomCreate, RoomUpdate, ScopeCreate, ScopeUpdate, actors, apps, rooms, scopes,
};
use serde_json::{Value, json};

use crate::world::World;

/// A broker with an app that has the topics `messages` and `jobs`, and a room `general`.
struct Plane {
    world: World,
    app: String,
    slug: String,
    room: String,
}

impl Plane {
    fn new() -> Self {
        Self::with(BrokerConfig::default())
    }

    fn with(config: BrokerConfig) -> Self {
        let mut world = World::managed(config);
        let app = world.call(apps::create(&AppCreate::new("chat").topics(["messages", "jobs"]))).unwrap();
        let room = world.call(rooms::create(&app.app_id, &RoomCreate::new("general"))).unwrap();
        Self { world, app: app.app_id, slug: app.slug, room: room.room_id }
    }

    fn topic(&self, room_and_topic: &str) -> String {
        format!("{}/{room_and_topic}", self.slug)
    }

    /// A new actor: its id and its token.
    fn actor(&mut self, create: &ActorCreate) -> (String, String) {
        let created = self.world.call(actors::create(create)).unwrap();
        (created.actor.actor_token_id, created.access_token.expose().into())
    }

    /// A connection of a new actor of the type `user`, and the actor's id.
    fn user(&mut self, name: &str) -> (ConnectionId, String) {
        let (id, token) = self.actor(&ActorCreate::new(name, "user"));
        (self.world.connect_with(&token), id)
    }

    fn ask(&mut self, conn: ConnectionId, frame_type: &str, room_and_topic: &str) -> Value {
        let topic = self.topic(room_and_topic);
        let frame = json!({"type": frame_type, "topic": topic, "data": 1, "msgRef": "r", "echo": false});
        self.world.ask(conn, frame).remove(0)
    }

    fn may(&mut self, conn: ConnectionId, frame_type: &str, room_and_topic: &str) -> bool {
        let reply = self.ask(conn, frame_type, room_and_topic);
        if reply["type"] == "error" {
            assert_eq!(
                (&reply["code"], &reply["error"]),
                (&json!(42940), &json!("unknown_topic")),
                "{reply}"
            );
        }
        reply["type"] != "error"
    }

    fn refused_auth(&mut self, token: &str) -> Value {
        let conn = self.world.open();
        self.world.ask(conn, json!({"type": "auth", "token": token, "protocolVersion": 2})).remove(0)["error"]
            .take()
    }
}

#[test]
fn new_actors_connect_at_once_and_talk() {
    for profile in Profile::ALL {
        let mut plane = Plane::with(BrokerConfig { profile, ..BrokerConfig::default() });
        let (ann, _) = plane.user("ann");
        let (id, token) = plane.actor(&ActorCreate::new("ben", "agent"));
        let ben = plane.world.open();
        let reply =
            plane.world.ask(ben, json!({"type": "auth", "token": token, "protocolVersion": 2})).remove(0);
        assert_eq!((&reply["actorTokenId"], &reply["actorType"]), (&json!(id), &json!("agent")));
        assert_eq!(plane.ask(ann, "subscribe", "general/messages")["type"], "subscribed");
        assert_eq!(plane.ask(ben, "publish", "general/messages")["type"], "published");
        assert_eq!(plane.world.payloads(ann), [1]);
        let seen = plane.world.call(actors::get(&id)).unwrap().last_connected_at;
        assert!(seen.is_some());
    }
}

#[test]
fn what_does_not_exist_is_an_unknown_topic() {
    let mut plane = Plane::new();
    let empty = plane.world.call(apps::create(&AppCreate::new("empty"))).unwrap();
    plane.world.call(rooms::create(&empty.app_id, &RoomCreate::new("general").topics(["messages"]))).unwrap();
    let (ann, _) = plane.user("ann");
    for topic in ["general/other", "missing/messages", "general", "general/messages/more", "+/messages", "#"]
    {
        assert!(!plane.may(ann, "subscribe", topic) && !plane.may(ann, "publish", topic), "{topic}");
    }
    plane.slug = empty.slug;
    assert!(!plane.may(ann, "subscribe", "general/messages"), "a room's own topics permit nothing");
    plane.world.call(apps::update(&empty.app_id, &AppUpdate::new().topics(["messages"]))).unwrap();
    assert!(plane.may(ann, "subscribe", "general/messages"));
}

#[test]
fn a_room_created_after_connect_can_be_subscribed_to_and_then_published_to() {
    let mut plane = Plane::new();
    let (ann, _) = plane.user("ann");
    assert!(!plane.may(ann, "subscribe", "late/messages"));
    plane.world.call(rooms::create(&plane.app, &RoomCreate::new("late"))).unwrap();
    assert!(!plane.may(ann, "publish", "late/messages"), "as in Kraken, a publish does not look again");
    assert!(plane.may(ann, "subscribe", "late/messages"));
    assert!(plane.may(ann, "publish", "late/messages"));
    let (ben, _) = plane.user("ben");
    assert!(plane.may(ben, "publish", "late/messages"), "whoever connects later finds it");
}

#[test]
fn grants_make_a_room_private_until_the_last_is_revoked() {
    let mut plane = Plane::new();
    let ((ann, ann_id), (ben, _)) = (plane.user("ann"), plane.user("ben"));
    assert!(plane.may(ben, "subscribe", "general/messages"));
    let access = RoomAccessCreate::to_actor(ann_id, "publish");
    let grant = plane.world.call(rooms::grant_access(&plane.app, &plane.room, &access)).unwrap().access_id;
    let lost = plane.world.take(ben);
    let hint = lost[0]["hint"].as_str().unwrap();
    // It belongs to no request: there is no `msgRef`.
    let topic = plane.topic("general/messages");
    let ended =
        json!({"type": "error", "error": "unknown_topic", "code": 42940, "topic": topic, "hint": hint});
    assert_eq!(lost, [ended]);
    assert!(
        !plane.may(ben, "publish", "general/messages") && !plane.may(ben, "subscribe", "general/messages")
    );
    assert!(plane.may(ann, "publish", "general/messages"));
    assert!(!plane.may(ann, "subscribe", "general/messages"), "the grant is for publishing");
    assert_eq!(plane.world.payloads(ben), [0; 0]);

    let of_type = RoomAccessCreate::to_type("user", "subscribe").topics(["jobs", "special"]);
    plane.world.call(rooms::grant_access(&plane.app, &plane.room, &of_type)).unwrap();
    assert!(plane.may(ben, "subscribe", "general/jobs") && plane.may(ben, "subscribe", "general/special"));
    assert!(!plane.may(ben, "subscribe", "general/messages") && !plane.may(ben, "publish", "general/jobs"));

    for grant in [grant, rooms_grants(&mut plane)[1].clone()] {
        assert!(!plane.may(ben, "publish", "general/messages"));
        plane.world.call(rooms::revoke_access(&plane.app, &plane.room, &grant)).unwrap();
    }
    assert!(plane.may(ben, "publish", "general/messages") && plane.may(ann, "subscribe", "general/messages"));
    assert!(!plane.may(ben, "publish", "general/special"));
}

fn rooms_grants(plane: &mut Plane) -> Vec<String> {
    let path = format!("/apps/{}/rooms/{}/actors", plane.app, plane.room);
    let (_, grants) = plane.world.api("GET", &path, Value::Null);
    let ids = grants.as_array().unwrap().iter();
    ids.map(|grant| grant["roomActorAccessId"].as_str().unwrap().into()).collect()
}

#[test]
fn an_inactive_grant_admits_nobody_and_yet_keeps_the_room_private() {
    let mut plane = Plane::new();
    let (ann, id) = plane.user("ann");
    let access = RoomAccessCreate::to_actor(&id, "pubSub").is_active(false);
    plane.world.call(rooms::grant_access(&plane.app, &plane.room, &access)).unwrap();
    assert!(!plane.may(ann, "subscribe", "general/messages"));
}

#[test]
fn a_grant_ends_at_its_time_on_the_brokers_clock() {
    let wall_clock = Duration::from_secs(1_000_000);
    let mut plane = Plane::with(BrokerConfig { wall_clock, ..BrokerConfig::default() });
    let ((ann, id), (ben, ben_id)) = (plane.user("ann"), plane.user("ben"));
    let short = RoomAccessCreate::to_actor(id, "pubSub").expires_at("1970-01-12T13:47:10Z");
    plane.world.call(rooms::grant_access(&plane.app, &plane.room, &short)).unwrap();
    let long = RoomAccessCreate::to_actor(ben_id, "pubSub");
    plane.world.call(rooms::grant_access(&plane.app, &plane.room, &long)).unwrap();
    assert!(plane.may(ann, "subscribe", "general/messages"));
    plane.world.send(ann, json!({"type": "presence", "roomId": "general", "data": {}}));
    plane.world.send(ben, json!({"type": "presence", "roomId": "general", "data": {}}));
    plane.world.pass(Duration::from_millis(29_999));
    assert!(plane.may(ben, "publish", "general/messages"));
    assert_eq!(plane.world.payloads(ann), [1]);
    assert!(plane.may(ann, "publish", "general/messages"));
    plane.world.take(ben);

    plane.world.pass(Duration::from_millis(1));
    let lost = plane.world.take(ann);
    assert_eq!((lost.len(), &lost[0]["code"]), (1, &json!(42940)));
    assert_eq!(plane.world.take(ben)[0]["event"], "leave");
    assert!(plane.may(ben, "publish", "general/messages") && !plane.may(ann, "publish", "general/messages"));
    assert!(!plane.may(ann, "subscribe", "general/messages"));
    assert_eq!(plane.world.end(ann), None, "the connection stays");
}

#[test]
fn deleted_deactivated_and_expired_actors_are_cut_and_do_not_come_back() {
    let mut plane = Plane::new();
    let connect = |plane: &mut Plane, create: &ActorCreate| {
        let (id, token) = plane.actor(create);
        (plane.world.connect_with(&token), id, token)
    };
    let (deleted, deleted_id, deleted_token) = connect(&mut plane, &ActorCreate::new("a", "user"));
    let (off, off_id, off_token) = connect(&mut plane, &ActorCreate::new("b", "user"));
    let until = ActorCreate::new("c", "user").expires_at("1970-01-01T00:00:50Z");
    let (expired, _, expired_token) = connect(&mut plane, &until);
    let (stays, _, _) = connect(&mut plane, &ActorCreate::new("d", "user"));

    plane.world.call(actors::delete(&deleted_id)).unwrap();
    assert_eq!(plane.world.end(deleted).as_deref(), Some("4001 token_not_found"));
    plane.world.call(actors::update(&off_id, &ActorUpdate::new().is_active(false))).unwrap();
    assert_eq!(plane.world.end(off).as_deref(), Some("4001 token_revoked"));
    assert_eq!(plane.world.end(expired), None);
    plane.world.pass(Duration::from_secs(50));
    assert_eq!(plane.world.end(expired).as_deref(), Some("4001 token_expired"));
    assert_eq!(plane.world.end(stays), None);
    // Although every token is welcome here that is not known.
    for token in [&deleted_token, &off_token, &expired_token] {
        assert_eq!(plane.refused_auth(token), "access_denied");
    }
    plane.world.call(actors::update(&off_id, &ActorUpdate::new().status(ResourceStatus::Active))).unwrap();
    plane.world.connect_with(&off_token);
    // The deleted actor's grants keep their rooms private.
    let (ann, ann_id) = plane.user("ann");
    let (ben, _) = plane.user("ben");
    let access = RoomAccessCreate::to_actor(&ann_id, "pubSub");
    plane.world.call(rooms::grant_access(&plane.app, &plane.room, &access)).unwrap();
    plane.world.call(actors::delete(&ann_id)).unwrap();
    assert!(plane.world.end(ann).is_some() && !plane.may(ben, "subscribe", "general/messages"));
}

#[test]
fn disabled_and_deleted_apps_and_rooms_are_unknown() {
    let mut plane = Plane::new();
    let (ann, _) = plane.user("ann");
    let (app, room) = (plane.app.clone(), plane.room.clone());
    let subscribed = |plane: &mut Plane| plane.may(ann, "subscribe", "general/messages");
    assert!(subscribed(&mut plane));
    for status in [ResourceStatus::Disabled, ResourceStatus::Active] {
        let active = status == ResourceStatus::Active;
        plane.world.call(apps::update(&app, &AppUpdate::new().status(status))).unwrap();
        assert_eq!((subscribed(&mut plane), plane.may(ann, "publish", "general/messages")), (active, active));
    }
    for enabled in [false, true] {
        plane.world.call(rooms::update(&app, &room, &RoomUpdate::new().is_enabled(enabled))).unwrap();
        assert_eq!(subscribed(&mut plane), enabled);
    }
    plane.world.call(apps::update(&app, &AppUpdate::new().access_mode(AccessMode::Restricted))).unwrap();
    assert!(!subscribed(&mut plane), "without grants nobody may enter");
    plane.world.call(apps::update(&app, &AppUpdate::new().access_mode(AccessMode::Open))).unwrap();
    plane.world.call(rooms::delete(&app, &room)).unwrap();
    assert!(!subscribed(&mut plane));
    plane.world.call(rooms::create(&app, &RoomCreate::new("general"))).unwrap();
    assert!(subscribed(&mut plane));
    plane.world.call(apps::delete(&app)).unwrap();
    assert_eq!(plane.world.take(ann)[0]["code"], 42940);
    assert!(!subscribed(&mut plane));
}

#[test]
fn scopes_keep_their_actors_apart() {
    let mut plane = Plane::new();
    let scope = plane.world.call(scopes::create(&ScopeCreate::new("acme", "Acme"))).unwrap().access_scope_id;
    let (_, token) = plane.actor(&ActorCreate::new("a", "user").access_scope_id(&scope));
    let inside = plane.world.connect_with(&token);
    let (outside, outside_id) = plane.user("b");
    for conn in [inside, outside] {
        assert!(plane.may(conn, "subscribe", "general/messages"));
    }
    assert!(plane.may(inside, "subscribe", "acme/general/messages"), "the scope may be named");
    assert!(!plane.may(outside, "subscribe", "acme/general/messages"));
    assert!(plane.may(outside, "publish", "general/messages"));
    assert_eq!(plane.world.payloads(inside), [0; 0]);

    plane.world.call(scopes::add_actor(&scope, &outside_id)).unwrap();
    assert_eq!(plane.world.take(outside)[0]["code"], 42940, "its subscription was to the other side");
    assert!(
        plane.may(outside, "subscribe", "general/messages") && plane.may(outside, "publish", "general/jobs")
    );
    assert!(plane.may(inside, "publish", "general/messages"));
    assert_eq!(plane.world.payloads(outside), [1]);
    let free = ActorUpdate::new().access_scope_id(Patch::Null);
    plane.world.call(actors::update(&outside_id, &free)).unwrap();
    assert_eq!(plane.world.take(outside)[0]["code"], 42940);
    assert!(plane.may(outside, "subscribe", "general/messages"));
    assert!(plane.may(inside, "publish", "general/messages"));
    assert_eq!(plane.world.payloads(outside), [0; 0]);
}

#[test]
fn the_actors_of_an_inactive_scope_are_as_if_they_had_none() {
    let mut plane = Plane::new();
    let scope = plane.world.call(scopes::create(&ScopeCreate::new("acme", "Acme"))).unwrap().access_scope_id;
    let (_, token) = plane.actor(&ActorCreate::new("a", "user").access_scope_id(&scope));
    let (inside, (outside, _)) = (plane.world.connect_with(&token), plane.user("b"));
    assert!(plane.may(outside, "subscribe", "general/messages"));
    assert!(plane.may(inside, "publish", "general/messages"));
    assert_eq!(plane.world.payloads(outside), [0; 0]);
    plane.world.call(scopes::update(&scope, &ScopeUpdate::new().is_active(false))).unwrap();
    assert!(!plane.may(inside, "subscribe", "acme/general/messages"), "an inactive scope is none");
    assert!(plane.may(inside, "publish", "general/messages"));
    assert_eq!(plane.world.payloads(outside).len(), 1);
}

#[test]
fn a_filter_does_not_lead_into_a_scope() {
    let mut plane = Plane::new();
    let scope = plane.world.call(scopes::create(&ScopeCreate::new("ten", "Ten"))).unwrap().access_scope_id;
    for room in ["ten", "r"] {
        plane.world.call(rooms::create(&plane.app, &RoomCreate::new(room))).unwrap();
    }
    let topics = AppUpdate::new().topics(["r", "m"]);
    plane.world.call(apps::update(&plane.app, &topics)).unwrap();
    let (_, token) = plane.actor(&ActorCreate::new("a", "user").access_scope_id(&scope));
    let (inside, (outside, _)) = (plane.world.connect_with(&token), plane.user("b"));
    let anybody = plane.world.connect_with("dev-token-zoe");
    assert!(plane.may(inside, "subscribe", "r/m"));
    assert!(plane.may(outside, "subscribe", "ten/r"));
    let publish = |plane: &mut Plane, conn, topic: &str| {
        let frame = json!({"type": "publish", "topic": plane.topic(topic), "data": topic, "filter": "m", "retain": true});
        plane.world.send(conn, frame);
    };
    publish(&mut plane, outside, "ten/r");
    publish(&mut plane, anybody, "ten/r");
    assert_eq!(plane.world.payloads(inside), [""; 0]);
    assert_eq!(plane.world.payloads(outside), ["ten/r", "ten/r"]);
    publish(&mut plane, inside, "r/m");
    publish(&mut plane, anybody, "ten/r/m");
    assert_eq!(plane.world.payloads(inside), ["r/m", "ten/r/m"], "who may do everything can name the scope");
    assert_eq!(plane.world.payloads(outside), [""; 0]);
}

#[test]
fn nothing_of_a_deleted_room_meets_a_new_one_of_its_name() {
    for scoped in [false, true] {
        let mut plane = Plane::new();
        let mut create = ActorCreate::new("a", "user");
        if scoped {
            let scope = plane.world.call(scopes::create(&ScopeCreate::new("acme", "Acme"))).unwrap();
            create = create.access_scope_id(scope.access_scope_id);
        }
        let token = plane.actor(&create).1;
        let (ann, zoe) = (plane.world.connect_with(&token), plane.world.connect_with("dev-token-zoe"));
        let retain = |plane: &mut Plane, topic: &str| {
            let frame =
                json!({"type": "publish", "topic": plane.topic(topic), "data": topic, "retain": true});
            plane.world.send(ann, frame);
        };
        plane.world.call(rooms::create(&plane.app, &RoomCreate::new("other"))).unwrap();
        assert!(plane.may(ann, "subscribe", "general/messages") && plane.may(ann, "subscribe", "other/jobs"));
        retain(&mut plane, "general/messages");
        retain(&mut plane, "other/jobs");
        let presence = json!({"type": "presence", "roomId": "general", "data": {"persistent": true}});
        plane.world.ask(zoe, presence.clone());
        plane.world.ask(ann, presence);

        plane.world.call(rooms::delete(&plane.app, &plane.room)).unwrap();
        let lost = plane.world.take(ann);
        assert_eq!(lost.iter().filter(|frame| frame["code"] == 42940).count(), 1, "{lost:?}");
        assert_eq!(plane.world.broker.presence_of(ann), None);
        assert_eq!(plane.world.broker.presence_of(zoe), None, "although it may do everything");
        plane.world.call(rooms::create(&plane.app, &RoomCreate::new("general"))).unwrap();
        let frame = json!({"type": "subscribe", "topic": plane.topic("general/messages")});
        let replies = plane.world.ask(ann, frame);
        assert_eq!((replies.len(), &replies[0]["type"]), (1, &json!("subscribed")), "nothing was retained");
        let list = plane.world.ask(ann, json!({"type": "getPresence", "roomId": "general"}));
        assert_eq!(list[0]["data"], json!([]));
        let frame = json!({"type": "subscribe", "topic": plane.topic("other/jobs")});
        assert_eq!(plane.world.ask(ann, frame)[1]["data"], "other/jobs", "other rooms keep theirs");
    }
}

#[test]
fn who_may_do_everything_is_told_when_a_topic_moves() {
    let mut plane = Plane::new();
    let (zoe, yan) = (plane.world.connect_with("dev-token-zoe"), plane.world.connect_with("dev-token-yan"));
    assert!(plane.may(zoe, "subscribe", "general/messages"));
    plane.world.call(apps::delete(&plane.app)).unwrap();
    assert_eq!(plane.world.take(zoe)[0]["code"], 42940, "nothing would reach it any more");
    assert!(plane.may(zoe, "subscribe", "general/messages") && plane.may(yan, "publish", "general/messages"));
    assert_eq!(plane.world.payloads(zoe), [1]);
}

#[test]
fn webrtc_rooms_have_the_topics_of_calls() {
    let mut plane = Plane::new();
    plane.world.call(rooms::create(&plane.app, &RoomCreate::new("call").enable_webrtc(true))).unwrap();
    let (ann, _) = plane.user("ann");
    assert!(plane.may(ann, "subscribe", "call/webrtc:offer"));
    assert!(!plane.may(ann, "subscribe", "general/webrtc:offer"));
}

#[test]
fn actors_that_nobody_created_meet_those_that_were() {
    let mut plane = Plane::new();
    let (ann, _) = plane.user("ann");
    let anybody = plane.world.connect_with("dev-token-zoe");
    assert!(plane.may(ann, "subscribe", "general/messages"));
    assert!(
        plane.may(anybody, "subscribe", "+/messages") && plane.may(anybody, "publish", "general/messages")
    );
    assert_eq!(plane.world.payloads(ann), [1]);
    assert!(plane.may(ann, "publish", "general/messages"));
    assert_eq!(plane.world.payloads(anybody), [1]);
    plane.world.ask(ann, json!({"type": "presence", "roomId": "general", "data": 1}));
    plane.world.ask(anybody, json!({"type": "presence", "roomId": "general", "data": 2}));
    assert_eq!(plane.world.take(ann)[0]["event"], "join");
    let private = RoomAccessCreate::to_type("agent", "pubSub");
    plane.world.call(rooms::grant_access(&plane.app, &plane.room, &private)).unwrap();
    assert!(plane.may(anybody, "publish", "general/messages"), "who may do everything still may");
}

#[test]
fn created_actors_join_the_seed_world() {
    let mut world =
        World::managed(BrokerConfig { auth: AuthConfig::seed_world(), ..BrokerConfig::default() });
    let created = world.call(actors::create(&ActorCreate::new("carol", "user"))).unwrap();
    let (carol, alice) =
        (world.connect_with(created.access_token.expose()), world.connect_with("dev-token-alice"));
    world.ask(alice, json!({"type": "subscribe", "topic": "demo/general/messages"}));
    let topic = "demo/general/messages";
    world.ask(carol, json!({"type": "publish", "topic": topic, "data": "hi", "msgRef": "r"}));
    assert_eq!(world.payloads(alice), ["hi"]);
    world.ask(alice, json!({"type": "presence", "roomId": "general", "data": 1}));
    world.ask(carol, json!({"type": "presence", "roomId": "general", "data": 2}));
    assert_eq!(world.take(alice)[0]["event"], "join");
}

#[test]
fn client_tokens_name_created_actors_too() {
    let auth = AuthConfig::allow_all().with_signing_key("sk", "hush");
    let mut plane = Plane::with(BrokerConfig { auth: auth.clone(), ..BrokerConfig::default() });
    let (id, token) = plane.actor(&ActorCreate::new("ann", "user"));
    let by_id = auth.client_token(&id, Duration::from_secs(600)).unwrap();
    let by_key_id = auth.client_token(token.split_once('.').unwrap().0, Duration::from_secs(600)).unwrap();
    for token in [&by_id, &by_key_id] {
        let conn = plane.world.connect_with(token);
        assert!(
            plane.may(conn, "subscribe", "general/jobs") && !plane.may(conn, "subscribe", "general/other")
        );
    }
    plane.world.call(actors::delete(&id)).unwrap();
    assert_eq!(plane.refused_auth(&by_id), "access_denied");
}

#[test]
fn restored_subscriptions_are_looked_at_again() {
    let mut plane = Plane::new();
    let (id, token) = plane.actor(&ActorCreate::new("ann", "user"));
    let conn = plane.world.connect_with(&token);
    assert!(plane.may(conn, "subscribe", "general/messages") && plane.may(conn, "subscribe", "general/jobs"));
    plane.world.close(conn);
    let access = RoomAccessCreate::to_actor(id, "pubSub").topics(["jobs"]);
    plane.world.call(rooms::grant_access(&plane.app, &plane.room, &access)).unwrap();
    let conn = plane.world.open();
    let auth = json!({"type": "auth", "token": token, "protocolVersion": 2, "reconnect": true});
    let restored = plane.world.ask(conn, auth).remove(0)["restoredSubscriptions"].take();
    assert_eq!(restored, json!([{"topic": plane.topic("general/jobs")}]));
}
