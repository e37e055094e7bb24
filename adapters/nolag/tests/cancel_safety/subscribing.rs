//! Subscribing and unsubscribing.

use nolag::{Messages, StreamFuture, Subscribe, TypedMessages};

use crate::{
    case::{Case, drop_them},
    hand::{ByHand, Plan},
    soon, until,
    world::{NEWS, World},
};

drop_them!();

#[tokio::test]
async fn a_subscribe_that_is_dropped_when_it_is_answered_is_taken_back() {
    let world = World::new().await;
    let mut subscribe = ByHand::new(world.alice.subscribe(NEWS).into_future());
    assert!(subscribe.poll().is_pending());
    subscribe.woken().await;
    drop(subscribe);
    world.settle().await;
    assert_eq!(world.subscribed().await, Vec::<String>::new());
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("Client::subscribe", |plan| subscribe(plan, |world| world.alice.subscribe(NEWS))),
        Case::new("Room::subscribe", |plan| subscribe(plan, |world| world.room().subscribe("news"))),
        Case::new("Topic::subscribe", |plan| {
            subscribe(plan, |world| world.room().topic::<u32>("news").subscribe())
        }),
        Case::new("Topic::stream", |plan| {
            stream(plan, |world| world.room().topic::<u32>("news").stream(), typed)
        }),
        Case::new("Subscribe::stream", |plan| {
            stream(plan, |world| world.alice.subscribe(NEWS).stream::<u32>(), typed)
        }),
        Case::new("Subscribe::messages", |plan| {
            stream(
                plan,
                |world| world.room().subscribe("news").messages(),
                async |stream| soon(stream.next()).await.unwrap().data().unwrap(),
            )
        }),
    ]
}

async fn subscribe(plan: Plan, make: fn(&World) -> Subscribe) -> bool {
    let mut world = World::new().await;
    world.mark().await;
    let end = plan.follow(make(&world)).await;
    let unpolled = end.is_unpolled();
    let Some(subscribed) = end.done() else {
        nothing_is_subscribed(&world, unpolled).await;
        return false;
    };
    assert_eq!(&*subscribed.unwrap().topic, NEWS);
    it_is_subscribed(&world).await;
    world.bob_says(1).await;
    until("the message", || world.alice.stats().messages_unheard == 1).await;
    true
}

async fn stream<S>(plan: Plan, make: fn(&World) -> StreamFuture<S>, next: impl AsyncFn(&mut S) -> u32) -> bool
where
    S: From<Messages> + Send,
{
    let mut world = World::new().await;
    world.mark().await;
    let end = plan.follow(make(&world)).await;
    let unpolled = end.is_unpolled();
    let Some(opened) = end.done() else {
        nothing_is_subscribed(&world, unpolled).await;
        return false;
    };
    it_is_subscribed(&world).await;
    world.bob_says(1).await;
    assert_eq!(next(&mut opened.unwrap()).await, 1);
    true
}

async fn typed(stream: &mut TypedMessages<u32>) -> u32 {
    soon(stream.next()).await.unwrap().unwrap().into_data()
}

/// A dropped subscription is taken back.
async fn nothing_is_subscribed(world: &World, unpolled: bool) {
    world.settle().await;
    let sent = if unpolled { vec![] } else { vec!["subscribe", "unsubscribe"] };
    assert_eq!(
        (world.subscribed().await, world.sent().await),
        (vec![], sent.into_iter().map(String::from).collect())
    );
    world.bob_says(1).await;
    world.settle().await;
    assert_eq!(world.delivered().await, 0);
    // The topic can be subscribed as if nothing had happened.
    let mut stream = soon(world.alice.subscribe(NEWS).messages()).await.unwrap();
    world.bob_says(2).await;
    assert_eq!(soon(stream.next()).await.unwrap().data(), Ok(2));
}

async fn it_is_subscribed(world: &World) {
    world.settle().await;
    assert_eq!(
        (world.subscribed().await, world.sent().await),
        (vec![NEWS.to_owned()], vec!["subscribe".to_owned()])
    );
}
