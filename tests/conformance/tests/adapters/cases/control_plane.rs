//! The REST control plane: every operation, and what follows from it on the socket.

use nolag::{
    Client, Error, NoLagApi, NoLagApiError, TransportErrorKind,
    api::{
        AccessPermission, ActorCreate, ActorType, ActorUpdate, ApiCall, App, AppCreate, AppUpdate,
        BatchMessage, ListParams, Patch, ResourceStatus, Room, RoomAccessCreate, RoomCreate, RoomType,
        RoomUpdate, ScopeCreate, ScopeUpdate, SortOrder, json,
    },
};
use nolag_broker::BlockingTestBroker;

use super::{Case, case};
use crate::{
    fixtures::LostAnswers,
    world::{Log, World},
};

pub(super) const CASES: &[Case] = &[
    case!(One, apps_are_managed),
    case!(One, a_list_comes_page_by_page),
    case!(One, rooms_are_managed),
    case!(One, rooms_are_ensured_where_the_app_permits_it),
    case!(One, actors_are_managed),
    case!(One, scopes_are_managed),
    case!(One, grants_are_managed),
    case!(One, refusals_say_what_is_wrong),
    case!(One, what_no_server_takes_is_not_sent),
    case!(One, nothing_happens_twice_when_answers_are_lost),
    case!(Every, a_created_room_is_found_by_who_is_connected_already),
    case!(Every, a_grant_keeps_others_out_until_it_is_revoked),
    case!(Every, a_deleted_actor_is_cut_and_stays_away),
    case!(Every, a_batch_arrives_as_the_servers),
    case!(One, scopes_keep_their_actors_apart),
];

/// A broker whose control plane has an app with the topic `messages` and the room `general`.
struct Plane {
    broker: BlockingTestBroker,
    api: NoLagApi,
    app: App,
    room: Room,
}

impl Plane {
    fn new(w: &World) -> Self {
        let broker = w.broker();
        let api = w.api(&broker);
        let app = w.wait(api.apps().create(&AppCreate::new("chat").topics(["messages"]))).unwrap();
        let room = w.wait(api.rooms().create(&app.app_id, &RoomCreate::new("general"))).unwrap();
        Self { broker, api, app, room }
    }

    fn topic(&self, room: &str) -> String {
        format!("{}/{room}/messages", self.app.slug)
    }

    /// A new actor's id, its client, connected, and what that tells.
    fn connect(&self, w: &World, actor: &ActorCreate) -> (String, Client, Log) {
        let created = w.wait(self.api.actors().create(actor)).unwrap();
        let client = Client::new(created.access_token, w.options(&self.broker.url()));
        let log = Log::watch(&client);
        w.wait(client.connect()).unwrap();
        assert_eq!(client.actor_id().as_ref(), Some(&created.actor.actor_token_id));
        (created.actor.actor_token_id, client, log)
    }

    fn user(&self, w: &World, name: &str) -> (String, Client, Log) {
        self.connect(w, &ActorCreate::new(name, ActorType::User))
    }

    /// Whether a client may subscribe to the topic in a room.
    fn may_subscribe(&self, w: &World, client: &Client, room: &str) -> bool {
        match w.wait(client.subscribe(self.topic(room)).refresh()) {
            Ok(_) => true,
            Err(Error::Server(error)) if error.code == Some(42940) => false,
            Err(error) => panic!("{error}"),
        }
    }
}

/// The status with which the server refuses, and its words.
#[track_caller]
fn refused<T: std::fmt::Debug>(w: &World, call: ApiCall<T>) -> (u16, String) {
    match w.wait(call) {
        Err(error @ NoLagApiError::Status(_)) => {
            assert!(error.id().is_some(), "{error:?}");
            (error.status().unwrap(), error.message().unwrap_or_default().into())
        }
        other => panic!("not refused by the server: {other:?}"),
    }
}

fn all() -> ListParams {
    ListParams::new()
}

fn apps_are_managed(w: &World) {
    let broker = w.broker();
    let apps = w.api(&broker).apps();
    assert_eq!(w.wait(apps.list(&all())).unwrap().pagination.total, 0);
    let create = AppCreate::new("My Chat").description("A chat").topics(["messages"]).blueprint_id("b1");
    let created = w.wait(apps.create(&create)).unwrap();
    assert!(
        created.slug.starts_with("my-chat-") && created.slug.len() == "my-chat-".len() + 4,
        "{created:?}"
    );
    assert_eq!((created.name.as_str(), created.blueprint_id.as_deref()), ("My Chat", Some("b1")));
    assert_eq!(w.wait(apps.get(&created.app_id)).unwrap(), created);

    let update = AppUpdate::new().name("Talk").description(Patch::Null).topics(["messages", "jobs"]);
    let updated = w.wait(apps.update(&created.app_id, &update)).unwrap();
    assert_eq!((updated.name.as_str(), updated.description.as_deref()), ("Talk", None));
    assert_eq!(updated.topics.as_ref().map(Vec::len), Some(2));
    assert_eq!((&updated.slug, &updated.created_at), (&created.slug, &created.created_at));
    let reset = w.wait(apps.reset_to_blueprint(&created.app_id)).unwrap();
    assert_eq!((reset.name.as_str(), reset.topics), ("Talk", created.topics));

    assert_eq!(w.wait(apps.list(&all().name("talk"))).unwrap().data[0].app_id, created.app_id);
    assert_eq!(w.wait(apps.list(&all().name("chat"))).unwrap().data, []);
    w.wait(apps.delete(&created.app_id)).unwrap();
    assert_eq!(w.wait(apps.list(&all())).unwrap().data, []);
    assert_eq!(refused(w, apps.get(&created.app_id)).0, 404);
}

fn a_list_comes_page_by_page(w: &World) {
    let broker = w.broker();
    let api = w.api(&broker);
    for number in 0..5 {
        w.wait(api.apps().create(&AppCreate::new(format!("app {number}")))).unwrap();
        w.wait(api.actors().create(&ActorCreate::new(format!("actor {number}"), "user"))).unwrap();
    }
    let mut pages = api.apps().pages(all().limit(2).order_by("name", SortOrder::Desc));
    let mut names = Vec::new();
    while let Some(page) = w.wait(pages.next()) {
        names.push(page.unwrap().into_iter().map(|app| app.name).collect::<Vec<_>>());
    }
    assert_eq!(names, [vec!["app 4", "app 3"], vec!["app 2", "app 1"], vec!["app 0"]]);
    // A list that the server does not cut is one page.
    let mut pages = api.actors().pages(all());
    assert_eq!(w.wait(pages.next()).unwrap().unwrap().data.len(), 5);
    assert!(w.wait(pages.next()).is_none());
}

fn rooms_are_managed(w: &World) {
    let plane = Plane::new(w);
    let (rooms, app) = (plane.api.rooms(), plane.app.app_id.as_str());
    let create = RoomCreate::new("Side Room").topics(["messages"]).metadata(json!({"floor": 2}));
    let created = w.wait(rooms.create(app, &create)).unwrap();
    assert_eq!((created.slug.as_str(), created.app_id.as_str()), ("side-room", app));
    assert_eq!((&created.room_type, created.may_be_used()), (&Some(RoomType::Dynamic), true));
    assert_eq!(created.metadata.as_ref().map(|json| json["floor"].clone()), Some(json!(2)));
    assert_eq!(w.wait(rooms.get(app, &created.room_id)).unwrap(), created);
    let listed = w.wait(rooms.list(app, &all())).unwrap();
    assert_eq!(listed.data, [plane.room.clone(), created.clone()]);

    let update = RoomUpdate::new().name("Lobby").is_enabled(false);
    let updated = w.wait(rooms.update(app, &created.room_id, &update)).unwrap();
    assert_eq!((updated.name.as_str(), updated.slug.as_str()), ("Lobby", "side-room"));
    assert_eq!((updated.status.clone(), updated.may_be_used()), (Some(ResourceStatus::Disabled), false));
    w.wait(rooms.delete(app, &created.room_id)).unwrap();
    assert_eq!(refused(w, rooms.get(app, &created.room_id)).0, 404);
    let mut pages = rooms.pages(app, all());
    assert_eq!(w.wait(pages.next()).unwrap().unwrap().data, std::slice::from_ref(&plane.room));
}

fn rooms_are_ensured_where_the_app_permits_it(w: &World) {
    let plane = Plane::new(w);
    let (rooms, app) = (plane.api.rooms(), plane.app.app_id.as_str());
    let room = RoomCreate::new("Late").slug("late");
    assert_eq!(refused(w, rooms.ensure(app, &room)).0, 403);
    let permit = AppUpdate::new().config(json!({"autoProvisionRooms": true}));
    w.wait(plane.api.apps().update(app, &permit)).unwrap();
    let created = w.wait(rooms.ensure(app, &room)).unwrap();
    let again = w.wait(rooms.ensure(app, &room.description("other"))).unwrap();
    assert_eq!(again, created, "it is given unchanged");
    assert_eq!(w.wait(rooms.list(app, &all())).unwrap().data.len(), 2);
}

fn actors_are_managed(w: &World) {
    let broker = w.broker();
    let actors = w.api(&broker).actors();
    let create = ActorCreate::new("web", ActorType::Device)
        .external_id("42")
        .metadata(json!({"platform": "web"}))
        .expires_at("2099-01-01T00:00:00Z");
    let created = w.wait(actors.create(&create)).unwrap();
    assert!(created.access_token.expose().starts_with("at_live_"));
    assert!(!format!("{created:?}").contains(created.access_token.expose()));
    let (id, actor) = (created.actor.actor_token_id.clone(), created.actor);
    assert_eq!((&actor.actor_type, actor.external_id.as_deref()), (&Some(ActorType::Device), Some("42")));
    assert_eq!(w.wait(actors.get(&id)).unwrap(), actor);
    assert_eq!(w.wait(actors.list(&all())).unwrap().data, [actor]);

    let update = ActorUpdate::new().name("phone").is_active(false).expires_at(Patch::Null);
    let updated = w.wait(actors.update(&id, &update)).unwrap();
    assert_eq!((updated.name.as_str(), updated.may_be_used(), updated.expires_at), ("phone", false, None));
    assert_eq!(updated.external_id.as_deref(), Some("42"), "what is not named stays");
    w.wait(actors.delete(&id)).unwrap();
    assert_eq!(w.wait(actors.list(&all())).unwrap().data, []);
    assert_eq!(refused(w, actors.delete(&id)).0, 404);
}

fn scopes_are_managed(w: &World) {
    let broker = w.broker();
    let api = w.api(&broker);
    let scopes = api.scopes();
    let created = w.wait(scopes.create(&ScopeCreate::new("acme", "Acme").description("A tenant"))).unwrap();
    let id = created.access_scope_id.as_str();
    assert_eq!((created.slug.as_str(), created.is_active), ("acme", Some(true)));
    assert_eq!(w.wait(scopes.get(id)).unwrap(), created);
    let listed = w.wait(scopes.list(&all())).unwrap();
    assert_eq!((listed.pagination.total, listed.data), (1, vec![created.clone()]));
    let update = ScopeUpdate::new().name("Acme Inc").description(Patch::Null);
    let updated = w.wait(scopes.update(id, &update)).unwrap();
    assert_eq!((updated.name.as_str(), updated.description), ("Acme Inc", None));

    let actor = w.wait(api.actors().create(&ActorCreate::new("a", "user"))).unwrap().actor.actor_token_id;
    assert_eq!(w.wait(scopes.list_actors(id, &all())).unwrap().data, []);
    let added = w.wait(scopes.add_actor(id, &actor)).unwrap();
    assert_eq!(added.access_scope_id.as_deref(), Some(id));
    assert_eq!(w.wait(scopes.list_actors(id, &all())).unwrap().data, [added]);
    assert_eq!(refused(w, scopes.delete(id)).0, 409);
    let mut pages = scopes.actor_pages(id, all());
    assert_eq!(w.wait(pages.next()).unwrap().unwrap().data.len(), 1);
    assert_eq!(w.wait(scopes.remove_actor(&actor)).unwrap().access_scope_id, None);
    assert_eq!(w.wait(scopes.list_actors(id, &all())).unwrap().data, []);
    w.wait(scopes.delete(id)).unwrap();
    let mut pages = scopes.pages(all());
    assert_eq!(w.wait(pages.next()).unwrap().unwrap().data, []);
}

fn grants_are_managed(w: &World) {
    let plane = Plane::new(w);
    let (rooms, app, room) = (plane.api.rooms(), plane.app.app_id.as_str(), plane.room.room_id.as_str());
    let create = ActorCreate::new("a", "user");
    let actor = w.wait(plane.api.actors().create(&create)).unwrap().actor.actor_token_id;
    let to_actor = RoomAccessCreate::to_actor(&actor, AccessPermission::PubSub)
        .topics(["messages"])
        .role("host")
        .expires_at("2099-01-01T00:00:00Z");
    let first = w.wait(rooms.grant_access(app, room, &to_actor)).unwrap();
    assert_eq!((first.room_id.as_str(), first.actor_token_id.as_ref()), (room, Some(&actor)));
    assert_eq!((&first.permission, first.role.as_deref()), (&Some(AccessPermission::PubSub), Some("host")));
    let to_type = RoomAccessCreate::to_type(ActorType::Observer, AccessPermission::Subscribe);
    let second = w.wait(rooms.grant_access(app, room, &to_type)).unwrap();
    assert_eq!((&second.actor_token_id, &second.actor_type), (&None, &Some(ActorType::Observer)));
    assert_eq!(refused(w, rooms.grant_access(app, room, &to_type)).0, 409);
    assert_eq!(w.wait(rooms.list_access(app, room, &all())).unwrap().data, [first.clone(), second.clone()]);
    w.wait(rooms.revoke_access(app, room, &first.access_id)).unwrap();
    assert_eq!(refused(w, rooms.revoke_access(app, room, &first.access_id)).0, 404);
    let mut pages = rooms.access_pages(app, room, all());
    assert_eq!(w.wait(pages.next()).unwrap().unwrap().data, [second]);
}

fn refusals_say_what_is_wrong(w: &World) {
    let plane = Plane::new(w);
    let (api, app) = (&plane.api, plane.app.app_id.as_str());
    let wrong = "nlg_live_other.secret";
    let stranger = NoLagApi::new(wrong, w.api_options(&plane.broker.api_url(), &plane.broker.url()));
    let error = w.wait(stranger.apps().list(&all())).unwrap_err();
    assert_eq!((error.status(), error.message()), (Some(401), Some("invalid API key")));
    assert!(!format!("{error} {error:?}").contains(wrong), "{error:?}");

    assert_eq!(refused(w, api.apps().get("missing")), (404, "app not found".into()));
    assert_eq!(refused(w, api.apps().update("missing", &AppUpdate::new().name("x"))).0, 404);
    assert_eq!(refused(w, api.rooms().list("missing", &all())).0, 404);
    assert_eq!(refused(w, api.rooms().get(app, "a/../b")).0, 404, "ids are one segment");
    assert_eq!(refused(w, api.actors().get("missing")).0, 404);
    assert_eq!(refused(w, api.scopes().list_actors("missing", &all())).0, 404);
    let grant = RoomAccessCreate::to_actor("missing", AccessPermission::PubSub);
    assert_eq!(refused(w, api.rooms().grant_access(app, &plane.room.room_id, &grant)).0, 404);

    let (status, words) = refused(w, api.rooms().create(app, &RoomCreate::new("General")));
    assert!(status == 409 && words.contains("general"), "{status} {words}");
    w.wait(api.scopes().create(&ScopeCreate::new("acme", "Acme"))).unwrap();
    assert_eq!(refused(w, api.scopes().create(&ScopeCreate::new("acme", "Other"))).0, 409);
    assert_eq!(refused(w, api.apps().reset_to_blueprint(app)).0, 400, "it has none");
    let (status, words) = refused(w, api.actors().create(&ActorCreate::new("a", "robot")));
    assert!(status == 400 && words.contains("actorType"), "{status} {words}");
    let (status, words) = refused(w, api.apps().list(&all().set("colour", "red")));
    assert!(status == 400 && words.contains("colour"), "{status} {words}");
}

fn what_no_server_takes_is_not_sent(w: &World) {
    // Nobody listens there: whatever is sent fails in another way.
    let api =
        NoLagApi::new("nlg_live_dev.secret", w.api_options("http://127.0.0.1:1/v1", "ws://127.0.0.1:1/ws"));
    let misuse = |outcome: Result<(), NoLagApiError>| match outcome {
        Err(NoLagApiError::Misuse { what, .. }) => what,
        other => panic!("it was sent: {other:?}"),
    };
    let (long, longest) = ("n".repeat(256), "ü".repeat(255));
    let create = |name: &str| w.wait(api.apps().create(&AppCreate::new(name))).map(drop);
    assert_eq!((misuse(create(&long)), misuse(create(""))), ("name", "name"));
    assert!(matches!(create(&longest), Err(NoLagApiError::Transport { .. })), "characters count, not bytes");
    for slug in ["", "Upper", "a--b", "-a", "a-", "a b", &"s".repeat(101)] {
        let room = RoomCreate::new("a").slug(slug);
        assert_eq!(misuse(w.wait(api.rooms().create("a", &room)).map(drop)), "slug", "{slug}");
    }
    assert_eq!(misuse(w.wait(api.scopes().create(&ScopeCreate::new("-a", "a"))).map(drop)), "slug");
    for id in ["", ".", ".."] {
        assert_eq!(misuse(w.wait(api.apps().delete(id))), "app id");
        assert_eq!(misuse(w.wait(api.rooms().delete("a", id))), "room id");
        assert_eq!(misuse(w.wait(api.actors().delete(id))), "actor id");
    }
    assert_eq!(misuse(w.wait(api.publish(&[])).map(drop)), "messages");
}

fn nothing_happens_twice_when_answers_are_lost(w: &World) {
    let plane = Plane::new(w);
    let way = LostAnswers::of(&plane.broker);
    let api = NoLagApi::new(plane.broker.api_key(), w.api_options(&way.api_url(), &way.broker_url()));
    let (app, room) = (plane.app.app_id.as_str(), plane.room.room_id.as_str());
    let lost = |outcome: Result<(), NoLagApiError>| {
        let lost = matches!(&outcome, Err(NoLagApiError::Transport { error, .. })
            if error.kind != TransportErrorKind::Connect);
        assert!(lost && way.to_lose() == 0, "{outcome:?}");
    };
    let total = || w.wait(api.apps().list(&all())).unwrap().pagination.total;

    // On a new connection, and on one that was kept.
    for made in [2, 3] {
        way.lose(1);
        lost(w.wait(api.apps().create(&AppCreate::new("twice"))).map(drop));
        assert_eq!(total(), made);
    }
    way.lose(1);
    lost(w.wait(api.actors().create(&ActorCreate::new("twice", "user"))).map(drop));
    assert_eq!(w.wait(api.actors().list(&all())).unwrap().data.len(), 1);
    way.lose(1);
    let grant = RoomAccessCreate::to_type("user", AccessPermission::PubSub);
    lost(w.wait(api.rooms().grant_access(app, room, &grant)).map(drop));
    let grants = w.wait(api.rooms().list_access(app, room, &all())).unwrap().data;
    assert_eq!(grants.len(), 1);
    let (_, reader, _) = plane.user(w, "reader");
    let mut messages = w.wait(reader.subscribe(plane.topic("general")).stream::<u32>()).unwrap();
    way.lose(1);
    lost(w.wait(api.publish(&[BatchMessage::new(app, room, "messages", 1)])).map(drop));
    w.wait(plane.api.publish(&[BatchMessage::new(app, room, "messages", 2)])).unwrap();
    assert_eq!(w.take(&mut messages, 2), [1, 2]);

    // What can be repeated is: two retries get over two losses.
    way.lose(2);
    assert_eq!(w.wait(api.apps().get(app)).unwrap().app_id, app);
    assert_eq!(way.to_lose(), 0);
    way.lose(2);
    assert_eq!(w.wait(api.apps().update(app, &AppUpdate::new().name("new"))).unwrap().name, "new");
    way.lose(3);
    lost(w.wait(api.apps().get(app)).map(drop));
    way.lose(1);
    let again = w.wait(api.rooms().revoke_access(app, room, &grants[0].access_id)).unwrap_err();
    assert_eq!(again.status(), Some(404), "it is gone: {again}");
}

fn a_created_room_is_found_by_who_is_connected_already(w: &World) {
    let plane = Plane::new(w);
    let (_, ann, _) = plane.user(w, "ann");
    let (_, ben, _) = plane.user(w, "ben");
    assert!(!plane.may_subscribe(w, &ann, "late"));
    w.wait(plane.api.rooms().create(&plane.app.app_id, &RoomCreate::new("late"))).unwrap();
    let topic = plane.topic("late");
    let mut messages = w.wait(ann.subscribe(&topic).stream::<String>()).unwrap();
    assert!(plane.may_subscribe(w, &ben, "late"));
    w.wait(ben.emit(topic.as_str(), "found")).unwrap();
    assert_eq!(w.data(&mut messages), "found");
}

fn a_grant_keeps_others_out_until_it_is_revoked(w: &World) {
    let plane = Plane::new(w);
    let (ann_id, ann, _) = plane.user(w, "ann");
    let (_, ben, bens_log) = plane.user(w, "ben");
    let topic = plane.topic("general");
    w.wait(ann.subscribe(&topic)).unwrap();
    let mut bens = w.wait(ben.subscribe(&topic).stream::<u32>()).unwrap();
    let access = RoomAccessCreate::to_actor(ann_id, AccessPermission::PubSub);
    let rooms = plane.api.rooms();
    let (app, room) = (&plane.app.app_id, &plane.room.room_id);
    let grant = w.wait(rooms.grant_access(app, room, &access)).unwrap();
    assert!(w.wait(bens.next()).is_none(), "the subscription ends with the access");
    w.heard(&bens_log, &format!("subscription to {topic} ended"));
    assert!(ben.subscriptions().is_empty());
    assert!(ann.subscriptions().iter().all(|subscription| subscription.live));
    assert!(plane.may_subscribe(w, &ann, "general") && !plane.may_subscribe(w, &ben, "general"));
    w.wait(rooms.revoke_access(app, room, &grant.access_id)).unwrap();
    assert!(plane.may_subscribe(w, &ben, "general"));
}

fn a_deleted_actor_is_cut_and_stays_away(w: &World) {
    let plane = Plane::new(w);
    let (id, client, log) = plane.user(w, "ann");
    let (_, other, others_log) = plane.user(w, "ben");
    let mut messages = w.wait(client.subscribe(plane.topic("general")).messages()).unwrap();
    w.wait(plane.api.actors().delete(&id)).unwrap();
    assert!(w.wait(messages.next()).is_none());
    w.heard(&log, "error: will not connect again by itself");
    assert!(log.entries().iter().any(|entry| entry.starts_with("disconnect") && entry.contains("4001")));
    assert!(w.wait(client.connect()).is_err(), "its token is good for nothing");
    w.wait(other.emit(plane.topic("general"), "still here")).unwrap();
    assert_eq!(others_log.count("disconnect"), 0);
}

fn a_batch_arrives_as_the_servers(w: &World) {
    let plane = Plane::new(w);
    let (_, ann, _) = plane.user(w, "ann");
    let mut messages = w.wait(ann.subscribe(plane.topic("general")).messages()).unwrap();
    let message = |data| BatchMessage::new(&plane.app.app_id, &plane.room.room_id, "messages", data);
    let batch = [message(json!({"n": 1})), message(json!("two")).filter("vip"), message(json!([3]))];
    let published = w.wait(plane.api.publish(&batch));
    if !w.profile.rules().publishes_over_http {
        assert_eq!(published.unwrap_err().status(), Some(404));
        return;
    }
    let ids = published.unwrap();
    assert_eq!(ids.len(), batch.len());
    for (id, data) in ids.iter().zip([json!({"n": 1}), json!("two"), json!([3])]) {
        let message = w.message(&mut messages);
        assert_eq!(message.data::<nolag::api::Value>().unwrap(), data);
        assert_eq!((message.msg_id(), message.sender_type()), (Some(id.as_str()), Some("server")));
    }
    // All or nothing.
    let unknown = BatchMessage::new(&plane.app.app_id, "missing", "messages", 1);
    let error = w.wait(plane.api.publish(&[message(json!(4)), unknown])).unwrap_err();
    let NoLagApiError::Status(error) = error else { panic!("{error}") };
    assert_eq!((error.status, error.index), (404, Some(1)), "{error}");
    w.wait(plane.api.publish(&[message(json!(5))])).unwrap();
    assert_eq!(w.message(&mut messages).data::<u32>(), Ok(5));
}

fn scopes_keep_their_actors_apart(w: &World) {
    let plane = Plane::new(w);
    let scope = w.wait(plane.api.scopes().create(&ScopeCreate::new("acme", "Acme"))).unwrap().access_scope_id;
    let inside = ActorCreate::new("ann", "user").access_scope_id(&scope);
    let (_, inside, _) = plane.connect(w, &inside);
    let (_, outside, _) = plane.user(w, "ben");
    let topic = plane.topic("general");
    let mut within = w.wait(inside.subscribe(&topic).stream::<u32>()).unwrap();
    let mut without = w.wait(outside.subscribe(&topic).stream::<u32>()).unwrap();
    let message = |data: u32| BatchMessage::new(&plane.app.app_id, &plane.room.room_id, "messages", data);
    w.wait(plane.api.publish(&[message(1).scope_id(&scope), message(2)])).unwrap();
    w.wait(plane.api.publish(&[message(3), message(4).scope_id(&scope)])).unwrap();
    assert_eq!((w.take(&mut within, 2), w.take(&mut without, 2)), (vec![1, 4], vec![2, 3]));
}
