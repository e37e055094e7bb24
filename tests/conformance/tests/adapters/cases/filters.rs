//! Filters: what a subscription lets through, and changing that.

use nolag::{Client, Error, Filter, Misuse, Room, TypedMessages};

use super::{Case, case};
use crate::world::{TOPIC, World};

pub(super) const CASES: &[Case] = &[
    case!(Every, filters_change_what_is_delivered),
    case!(Every, changes_that_would_surprise_are_refused_with_advice),
];

fn values<const N: usize>(filters: [&str; N]) -> Vec<Filter> {
    filters.map(Filter::from).to_vec()
}

/// Publishes the name of each filter with that filter, then one without, and tells what arrives.
fn heard(
    w: &World,
    publisher: &Room,
    stream: &mut TypedMessages<String>,
    subscriber: &Client,
) -> Vec<String> {
    for filter in ["en", "fr", "de"] {
        w.wait(publisher.emit("messages", filter).filter(filter)).unwrap();
    }
    w.wait(publisher.emit("messages", "en and fr").filters(["FR", "en"])).unwrap();
    w.wait(publisher.emit("messages", "all")).unwrap();
    // Behind everything that was published, on the same connection.
    let mut end = w.wait(subscriber.subscribe("demo/general/end").stream::<String>()).unwrap();
    w.wait(publisher.emit("end", "end")).unwrap();
    assert_eq!(w.data(&mut end), "end");
    let mut heard = Vec::new();
    while let Some(Some(message)) =
        futures_util::FutureExt::now_or_never(futures_util::StreamExt::next(stream))
    {
        heard.push(message.unwrap().into_data());
    }
    heard
}

fn filters_change_what_is_delivered(w: &World) {
    let broker = w.broker();
    let (alice, bob) = (w.connect(&broker, "alice"), w.connect(&broker, "bob"));
    let (news, room) = (alice.app("demo").room("general"), bob.app("demo").room("general"));
    let mut stream = w.wait(room.subscribe("messages").filters(["en"]).stream::<String>()).unwrap();
    assert_eq!(heard(w, &news, &mut stream, &bob), ["en"]);

    assert_eq!(w.wait(room.set_filters("messages", ["fr"])), Ok(values(["fr"])));
    assert_eq!(heard(w, &news, &mut stream, &bob), ["fr"]);

    assert_eq!(w.wait(bob.add_filters(TOPIC, ["de", "fr"])), Ok(values(["fr", "de"])));
    assert_eq!(heard(w, &news, &mut stream, &bob), ["fr", "de"]);

    let both = Filter::All(vec!["en".into(), "fr".into()]);
    let topic = room.topic::<String>("messages");
    w.wait(topic.add_filters([both.clone()])).unwrap();
    assert_eq!(w.wait(topic.remove_filters(["fr", "never there"])), Ok(vec!["de".into(), both.clone()]));
    assert_eq!(heard(w, &news, &mut stream, &bob), ["de", "en and fr"]);
    let subscriptions = bob.subscriptions();
    let messages = subscriptions.iter().find(|subscription| &*subscription.topic == TOPIC).unwrap();
    assert_eq!(messages.options.filters, ["de".into(), both]);

    assert_eq!(w.wait(room.clear_filters("messages")), Ok(Vec::new()));
    assert_eq!(heard(w, &news, &mut stream, &bob), ["en", "fr", "de", "en and fr", "all"]);
}

fn changes_that_would_surprise_are_refused_with_advice(w: &World) {
    let broker = w.broker();
    let client = w.connect(&broker, "alice");
    let room = client.app("demo").room("general");
    let misuse = |result: Result<Vec<Filter>, Error>| match result {
        Err(Error::Misuse(misuse)) => misuse,
        other => panic!("{other:?}"),
    };
    let refused = misuse(w.wait(room.set_filters("messages", ["en"])));
    assert_eq!(refused, Misuse::NotSubscribed(TOPIC.into()));
    w.wait(room.subscribe("messages")).unwrap();
    let refused = misuse(w.wait(room.add_filters("messages", ["en"])));
    assert_eq!(refused, Misuse::Unfiltered(TOPIC.into()));
    w.wait(room.set_filters("messages", ["en"])).unwrap();
    let refused = misuse(w.wait(room.remove_filters("messages", ["en"])));
    assert_eq!(refused, Misuse::LastFilter(TOPIC.into()));
    assert!(refused.to_string().contains("everything"), "{refused}");
    assert_eq!(misuse(w.wait(room.set_filters("messages", ["a/b"]))), Misuse::InvalidFilter("a/b".into()));
    assert_eq!(client.subscriptions()[0].options.filters, values(["en"]));
}
