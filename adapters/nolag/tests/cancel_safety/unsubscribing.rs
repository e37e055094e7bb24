//! Ending subscriptions.

use nolag::Unsubscribe;

use crate::{
    case::{Case, drop_them},
    hand::Plan,
    soon,
    world::{NEWS, World},
};

drop_them!();

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("Client::unsubscribe", |plan| unsubscribe(plan, |world| world.alice.unsubscribe(NEWS))),
        Case::new("Room::unsubscribe", |plan| unsubscribe(plan, |world| world.room().unsubscribe("news"))),
        Case::new("Topic::unsubscribe", |plan| {
            unsubscribe(plan, |world| world.room().topic::<u32>("news").unsubscribe())
        }),
    ]
}

/// Polled once, the subscription and its streams end.
async fn unsubscribe(plan: Plan, make: fn(&World) -> Unsubscribe) -> bool {
    let mut world = World::new().await;
    let mut stream = soon(world.alice.subscribe(NEWS).messages()).await.unwrap();
    world.mark().await;
    let end = plan.follow(make(&world)).await;
    world.settle().await;
    if end.is_unpolled() {
        assert_eq!((world.subscribed().await, world.sent().await), (vec![NEWS.to_owned()], vec![]));
        world.bob_says(1).await;
        assert_eq!(soon(stream.next()).await.unwrap().data(), Ok(1));
        return false;
    }
    assert_eq!((world.subscribed().await, world.sent().await), (vec![], vec!["unsubscribe".to_owned()]));
    world.bob_says(1).await;
    assert!(soon(stream.next()).await.is_none());
    world.settle().await;
    assert_eq!(world.delivered().await, 0);
    end.done().map(Result::unwrap).is_some()
}
