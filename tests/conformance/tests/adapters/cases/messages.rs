//! Messages from one client to another, and how they are received.

use nolag::{Client, Emitted, Error, TypedMessages};
use nolag_broker::{AuthConfig, Expected, NewActor};
use serde::{Deserialize, Serialize};

use super::{Case, case};
use crate::world::{Log, TOPIC, World, channel};

pub(super) const CASES: &[Case] = &[
    case!(Every, messages_go_both_ways),
    case!(Every, a_message_carries_what_the_broker_knows_of_it),
    case!(Every, retained_messages_come_to_later_subscribers),
    case!(Every, own_messages_come_back_where_the_broker_sends_them),
    case!(Every, a_pattern_hears_every_topic_of_its_room),
    case!(Every, a_subscribed_topic_is_hydrated),
    case!(Every, what_the_actor_may_not_hear_is_refused),
    case!(One, a_stream_can_be_read_to_its_end),
    case!(One, streams_share_one_subscription_and_detach_alone),
    case!(One, unsubscribing_ends_the_stream_after_what_it_holds),
    case!(One, a_typed_topic_publishes_streams_and_handles),
    case!(One, subscribing_reports_in_every_way),
    case!(One, ten_thousand_messages_arrive_in_order, slow),
];

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Chat {
    text: String,
}

fn chat(text: &str) -> Chat {
    Chat { text: text.into() }
}

fn messages_go_both_ways(w: &World) {
    let broker = w.broker();
    let (alice, bob) = (w.connect(&broker, "alice"), w.connect(&broker, "bob"));
    let (alice_room, bob_room) = (alice.app("demo").room("general"), bob.app("demo").room("general"));
    let mut to_alice = w.wait(alice_room.subscribe("messages").stream::<Chat>()).unwrap();
    let mut to_bob = w.wait(bob_room.subscribe("messages").stream::<Chat>()).unwrap();
    assert_eq!(w.wait(alice_room.emit("messages", &chat("hello")).echo(false)), Ok(Emitted::Acked));
    assert_eq!(w.data(&mut to_bob), chat("hello"));
    assert_eq!(w.wait(bob_room.emit("messages", &chat("hi")).echo(false)), Ok(Emitted::Acked));
    assert_eq!(w.data(&mut to_alice), chat("hi"));
    w.wait(alice.close());
    w.wait(bob.close());
    assert!(w.wait(to_alice.next()).is_none(), "closing ends the streams");
}

fn a_message_carries_what_the_broker_knows_of_it(w: &World) {
    let broker = w.broker();
    let (alice, bob) = (w.connect(&broker, "alice"), w.connect(&broker, "bob"));
    let mut messages = w.wait(bob.subscribe(TOPIC).messages()).unwrap();
    w.wait(alice.emit(TOPIC, &(1, "one")).filter("vip")).unwrap();
    w.wait(alice.emit(TOPIC, "two")).unwrap();
    let rules = w.profile.rules();

    let first = w.message(&mut messages);
    assert_eq!((first.topic(), first.data()), (TOPIC, Ok((1, String::from("one")))));
    assert!(first.data::<String>().is_err());
    assert!(first.msg_id().is_some() && first.requires_ack() && !first.is_replay());
    assert_eq!(first.sender(), rules.stamps_sender.then_some("alice"));
    assert_eq!(first.sender_type(), rules.stamps_sender.then_some("actor"));
    // Kraken 0.4 shows no filter to those who have none.
    assert_eq!(first.filter(), rules.unfiltered_filter.is_none().then_some("vip"));
    let second = w.message(&mut messages);
    assert_eq!((second.payload().text(), second.filter()), (Some("two"), None));
    assert!(!format!("{second:?}").contains("two"), "data is never shown");
}

fn retained_messages_come_to_later_subscribers(w: &World) {
    let broker = w.broker();
    let (alice, bob) = (w.connect(&broker, "alice"), w.connect(&broker, "bob"));
    w.wait(alice.emit(TOPIC, "kept").retain()).unwrap();
    let mut board = w.wait(bob.subscribe(TOPIC).stream::<String>()).unwrap();
    assert_eq!(w.data(&mut board), "kept");
    // An identical subscription stands, so only asking anew brings it again.
    w.wait(bob.subscribe(TOPIC)).unwrap();
    w.wait(alice.emit(TOPIC, "news")).unwrap();
    assert_eq!(w.data(&mut board), "news");
    w.wait(bob.subscribe(TOPIC).refresh()).unwrap();
    assert_eq!(w.data(&mut board), "kept");
}

fn own_messages_come_back_where_the_broker_sends_them(w: &World) {
    let broker = w.broker();
    let (alice, bob) = (w.connect(&broker, "alice"), w.connect(&broker, "bob"));
    let mut own = w.wait(alice.subscribe(TOPIC).stream::<String>()).unwrap();
    w.wait(alice.emit(TOPIC, "with echo")).unwrap();
    w.wait(alice.emit(TOPIC, "without echo").echo(false)).unwrap();
    w.wait(bob.emit(TOPIC, "from another")).unwrap();
    if !w.profile.rules().hides_own_messages {
        assert_eq!(w.data(&mut own), "with echo");
    }
    assert_eq!(w.data(&mut own), "from another");
}

fn a_pattern_hears_every_topic_of_its_room(w: &World) {
    let broker = w.broker();
    let (alice, bob) = (w.connect(&broker, "alice"), w.connect(&broker, "bob"));
    let mut all = w.wait(bob.app("demo").room("general").subscribe("+").messages()).unwrap();
    for topic in ["demo/general/one", "demo/other/one", "demo/general/two"] {
        w.wait(alice.emit(topic, topic)).unwrap();
    }
    let heard = [w.message(&mut all), w.message(&mut all)];
    assert_eq!(heard.each_ref().map(|message| message.topic()), ["demo/general/+"; 2]);
    assert_eq!(
        heard.map(|message| message.data()),
        ["demo/general/one", "demo/general/two"].map(|s| Ok(s.to_owned()))
    );
}

const HYDRATED: &str = r##"{
    "tokens": {"t": {"actorTokenId": "ann", "allowedTopics": [{"pattern": "demo/general/#"}]}},
    "dev": {"hydration": {"demo": {"messages": {"text": "earlier"}, "#": 7}}}}"##;

fn a_subscribed_topic_is_hydrated(w: &World) {
    let auth = AuthConfig::from_json(HYDRATED).unwrap();
    let broker = w.broker_with(|broker| broker.auth(auth));
    let client = Client::new("t", w.options(&broker.url()));
    let (tell, told) = channel();
    let handler = client.on_hydration(move |hydration| tell.send(hydration));
    w.wait(client.connect()).unwrap();
    w.wait(client.subscribe(TOPIC)).unwrap();
    let state = w.receive(&told);
    assert_eq!((&*state.topic, state.data.decode()), ("messages", Ok(chat("earlier"))));
    w.wait(client.subscribe("demo/general/numbers")).unwrap();
    let state = w.receive(&told);
    assert_eq!((&*state.topic, state.data.decode()), ("numbers", Ok(7)));
    assert!(client.off(handler));
}

fn what_the_actor_may_not_hear_is_refused(w: &World) {
    let auth = AuthConfig::allow_all().with_actor(NewActor::new("carol").can_subscribe(TOPIC));
    let broker = w.broker_with(|broker| broker.auth(auth));
    let client = w.connect(&broker, "carol");
    w.wait(client.subscribe(TOPIC)).unwrap();
    let refused = w.wait(client.subscribe("demo/secret/messages").messages()).unwrap_err();
    let Error::Server(error) = &refused else { panic!("{refused:?}") };
    assert_eq!((error.code, error.topic.as_deref()), (Some(42940), Some("demo/secret/messages")));
    assert!(!refused.to_string().contains('\u{14}'), "the stray byte of Kraken 0.4: {refused}");
    assert_eq!(client.subscriptions().len(), 1);
}

fn a_stream_can_be_read_to_its_end(w: &World) {
    let broker = w.broker();
    let (alice, bob) = (w.connect(&broker, "alice"), w.connect(&broker, "bob"));
    let mut numbers: TypedMessages<u32> = w.wait(bob.subscribe(TOPIC).stream()).unwrap();
    assert_eq!(numbers.topic(), TOPIC);
    for n in 0..10 {
        w.wait(alice.emit(TOPIC, &n)).unwrap();
    }
    assert_eq!(w.take(&mut numbers, 4), [0, 1, 2, 3]);
    w.until("the rest arrives", || bob.stats().core.messages_received == 10);
    w.wait(bob.unsubscribe(TOPIC)).unwrap();
    assert_eq!(w.rest(numbers), [4, 5, 6, 7, 8, 9]);
}

fn streams_share_one_subscription_and_detach_alone(w: &World) {
    let broker = w.broker();
    let (alice, bob) = (w.connect(&broker, "alice"), w.connect(&broker, "bob"));
    let first = w.wait(bob.subscribe(TOPIC).messages()).unwrap();
    let mut second = w.wait(bob.subscribe(TOPIC).messages()).unwrap();
    assert_eq!(w.frames(&broker, &Expected::from_client("subscribe"), 1).len(), 1);
    drop(first);
    w.wait(alice.emit(TOPIC, "one")).unwrap();
    assert_eq!(w.message(&mut second).payload().text(), Some("one"));
    drop(second);
    assert_eq!(bob.subscriptions().len(), 1);
    w.wait(alice.emit(TOPIC, "two")).unwrap();
    w.until("nobody listens", || bob.stats().messages_unheard == 1);
}

fn unsubscribing_ends_the_stream_after_what_it_holds(w: &World) {
    let broker = w.broker();
    let (alice, bob) = (w.connect(&broker, "alice"), w.connect(&broker, "bob"));
    let mut messages = w.wait(bob.subscribe(TOPIC).messages()).unwrap();
    w.wait(alice.emit(TOPIC, "last")).unwrap();
    w.until("it arrives", || bob.stats().core.messages_received == 1);
    w.wait(bob.app("demo").room("general").unsubscribe("messages")).unwrap();
    assert!(bob.subscriptions().is_empty());
    assert_eq!(w.message(&mut messages).payload().text(), Some("last"));
    assert!(w.wait(messages.next()).is_none() && w.wait(messages.next()).is_none());
    // The broker confirms also what was not subscribed.
    w.wait(bob.unsubscribe(TOPIC)).unwrap();
}

fn a_typed_topic_publishes_streams_and_handles(w: &World) {
    let broker = w.broker();
    let client = w.connect(&broker, "alice");
    let log = Log::watch(&client);
    let room = client.app("demo").room("general");
    let numbers = room.topic::<u32>("numbers");
    assert_eq!((numbers.name(), numbers.room().prefix()), ("numbers", "demo/general"));
    let seen = log.clone();
    numbers.on(move |message| seen.add(format!("number {}", message.data())));
    let mut stream = w.wait(numbers.stream()).unwrap();
    w.wait(numbers.emit(&6)).unwrap();
    w.wait(room.emit("numbers", "seven")).unwrap();
    assert_eq!(w.data(&mut stream), 6);
    assert!(w.wait(stream.next()).unwrap().is_err(), "and the stream goes on");
    w.heard(&log, "number 6");
    w.heard(&log, "error: message on demo/general/numbers: the payload is not of the expected type");
    w.wait(numbers.unsubscribe()).unwrap();
    assert!(w.wait(stream.next()).is_none());
}

fn subscribing_reports_in_every_way(w: &World) {
    let auth = AuthConfig::allow_all().with_actor(NewActor::new("carol").can_subscribe("demo/general/#"));
    let broker = w.broker_with(|broker| broker.auth(auth));
    let client = w.connect(&broker, "carol");
    let log = Log::watch(&client);
    let (tell, told) = channel();
    client.subscribe(TOPIC).callback(move |outcome| tell.send(outcome)).unwrap();
    let subscribed = w.receive(&told).unwrap();
    assert_eq!((&*subscribed.topic, subscribed.load_balanced), (TOPIC, false));
    client.subscribe("demo/secret/messages").send().unwrap();
    w.heard(&log, "error: subscribe refused: unknown_topic (42940) on demo/secret/messages");
    assert!(matches!(client.subscribe("no topic").send(), Err(Error::Misuse(_))));
    assert!(matches!(w.wait(client.subscribe("no topic")), Err(Error::Misuse(_))));
    let (tell, told) = channel();
    client.unsubscribe(TOPIC).callback(move |outcome| tell.send(outcome)).unwrap();
    assert_eq!(w.receive(&told), Ok(()));
}

fn ten_thousand_messages_arrive_in_order(w: &World) {
    const MESSAGES: u32 = 10_000;
    let broker = w.broker_with(|broker| broker.limits(nolag_broker::Limits::NONE));
    let alice = w.connect_with(&broker, "alice", |options| options.publish_rate(None));
    let bob = w.connect(&broker, "bob");
    let mut numbers = w.wait(bob.subscribe(TOPIC).stream::<u32>()).unwrap();
    let (tell, told) = channel();
    let seen = tell.clone();
    bob.on(TOPIC, move |message| seen.send(message.data::<u32>().unwrap()));
    for n in 0..MESSAGES {
        alice.emit(TOPIC, &n).send().unwrap();
    }
    assert_eq!(w.take(&mut numbers, MESSAGES as usize), (0..MESSAGES).collect::<Vec<_>>());
    w.wait(alice.flush());
    // Handlers have heard all of it, too, and in the same order.
    let heard: Vec<u32> = (0..MESSAGES).map(|_| w.receive(&told)).collect();
    assert!(heard.is_sorted(), "out of order");
    assert_eq!(bob.stats().core.messages_dropped, 0);
}
