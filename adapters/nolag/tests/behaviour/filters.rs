//! Changing the filters of a subscription that stands.

use nolag::{Client, Error, ErrorEvent, Filter, Misuse, Room, TypedMessages};
use nolag_broker::TestBroker;
use nolag_core::wire::{ClientFrame, ErrorFrame, RawValue, ServerFrame, Text};

use crate::{Log, connect, options, server::ScriptedServer, soon, until};

fn values<const N: usize>(filters: [&str; N]) -> Vec<Filter> {
    filters.map(Filter::from).to_vec()
}

/// Publishes the name of each filter with that filter, then one without, and tells what arrives before the end.
async fn heard(publisher: &Room, subscriber: &Client, stream: &mut TypedMessages<String>) -> Vec<String> {
    for filter in ["en", "fr", "de"] {
        soon(publisher.emit("news", filter).filter(filter)).await.unwrap();
    }
    soon(publisher.emit("news", "en and fr").filters(["FR", "en"])).await.unwrap();
    soon(publisher.emit("news", "all")).await.unwrap();
    // Behind everything that was published, on the same connection.
    let mut end = soon(subscriber.subscribe("demo/general/end").stream::<String>()).await.unwrap();
    soon(publisher.emit("end", "end")).await.unwrap();
    soon(end.next()).await.unwrap().unwrap();
    let mut heard = Vec::new();
    while let Some(Some(message)) = futures_util::FutureExt::now_or_never(stream.next()) {
        heard.push(message.unwrap().into_data());
    }
    heard
}

#[tokio::test]
async fn filters_change_what_is_delivered() {
    let broker = TestBroker::start().await;
    let (alice, bob) = (connect(&broker, "alice").await, connect(&broker, "bob").await);
    let (news, room) = (alice.app("demo").room("general"), bob.app("demo").room("general"));
    let mut stream = soon(room.subscribe("news").filters(["en"]).stream::<String>()).await.unwrap();
    assert_eq!(heard(&news, &bob, &mut stream).await, ["en"]);

    assert_eq!(soon(room.set_filters("news", ["fr"])).await, Ok(values(["fr"])));
    assert_eq!(heard(&news, &bob, &mut stream).await, ["fr"]);

    let added = vec![String::from("de"), String::from("fr")];
    assert_eq!(soon(bob.add_filters("demo/general/news", added)).await, Ok(values(["fr", "de"])));
    assert_eq!(heard(&news, &bob, &mut stream).await, ["fr", "de"]);

    let both = Filter::All(vec!["en".into(), "fr".into()]);
    let topic = room.topic::<String>("news");
    soon(topic.add_filters([both.clone()])).await.unwrap();
    assert_eq!(soon(topic.remove_filters(["fr", "never there"])).await, Ok(vec!["de".into(), both.clone()]));
    assert_eq!(heard(&news, &bob, &mut stream).await, ["de", "en and fr"]);
    assert_eq!(bob.subscriptions()[0].options.filters, ["de".into(), both]);

    assert_eq!(soon(room.clear_filters("news")).await, Ok(Vec::new()));
    assert_eq!(heard(&news, &bob, &mut stream).await, ["en", "fr", "de", "en and fr", "all"]);
}

#[tokio::test]
async fn changes_that_would_surprise_are_refused_with_advice() {
    let broker = TestBroker::start().await;
    let client = connect(&broker, "alice").await;
    let room = client.app("demo").room("general");
    let misuse = |result: Result<Vec<Filter>, Error>| match result {
        Err(Error::Misuse(misuse)) => misuse,
        other => panic!("{other:?}"),
    };
    let refused = misuse(soon(room.set_filters("news", ["en"])).await);
    assert_eq!(refused, Misuse::NotSubscribed("demo/general/news".into()));
    soon(room.subscribe("news")).await.unwrap();
    let refused = misuse(soon(room.add_filters("news", ["en"])).await);
    assert_eq!(refused, Misuse::Unfiltered("demo/general/news".into()));
    soon(room.set_filters("news", ["en"])).await.unwrap();
    let refused = misuse(soon(room.remove_filters("news", ["en"])).await);
    assert_eq!(refused, Misuse::LastFilter("demo/general/news".into()));
    assert!(refused.to_string().contains("everything"), "{refused}");
    assert_eq!(misuse(soon(room.set_filters("news", ["a/b"])).await), Misuse::InvalidFilter("a/b".into()));
    assert!(matches!(misuse(soon(room.set_filters("a/b", ["en"])).await), Misuse::InvalidTopic { .. }));
    assert_eq!(client.subscriptions()[0].options.filters, values(["en"]));
}

#[tokio::test]
async fn changes_are_made_one_after_the_other_and_told_in_every_way() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()));
    let log = Log::default();
    log.watch(&client);
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let subscribe = client.subscribe("a/b/c").filters(["x"]);
    let (subscribed, _) = tokio::join!(soon(subscribe), peer.confirm_subscribe());
    subscribed.unwrap();
    let seen = log.clone();
    client
        .add_filters("a/b/c", ["y"])
        .callback(move |result| seen.add(format!("added: {result:?}")))
        .unwrap();
    client.remove_filters("a/b/c", ["x"]).send().unwrap();
    for expected in [values(["x", "y"]), values(["y"])] {
        let frame = peer.frame().await;
        let Ok(ClientFrame::SetFilters { topic, filters }) = ClientFrame::decode(&frame) else { panic!() };
        assert_eq!((topic, &filters), ("a/b/c", &expected));
        let mut list = bytes::BytesMut::new();
        Filter::encode_list(&filters, &mut list);
        let filters = RawValue::parse(&list).unwrap();
        peer.send(&ServerFrame::FiltersUpdated { topic: Text::Str(topic), filters }).await;
    }
    log.wait_for(r#"added: Ok([Value("x"), Value("y")])"#).await;
    until("the list", || client.subscriptions()[0].options.filters == values(["y"])).await;

    // A refusal that nobody waits for is an error event, and changes nothing.
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    client.on_error(move |event| tell.send(event).unwrap());
    client.set_filters("a/b/c", ["z"]).send().unwrap();
    peer.frame().await;
    let (error, topic) = ("invalid_filter", Some(Text::Str("a/b/c")));
    peer.send(&ServerFrame::Error(ErrorFrame { error, topic, ..ErrorFrame::default() })).await;
    let event = soon(told.recv()).await.unwrap();
    let ErrorEvent::Operation { topic, .. } = &event else { panic!("{event}") };
    assert_eq!((&**topic, event.server_error().unwrap().error.as_str()), ("a/b/c", "invalid_filter"));
    assert_eq!(client.subscriptions()[0].options.filters, values(["y"]));
}
