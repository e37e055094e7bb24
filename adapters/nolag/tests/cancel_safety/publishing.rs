//! Publishing.

use nolag::{Emit, Emitted, Payload};

use crate::{
    case::{Case, drop_them},
    hand::Plan,
    world::{NEWS, World, heard},
};

drop_them!();

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("Client::emit", |plan| emit(plan, |world| world.alice.emit(NEWS, &1))),
        Case::new("Client::emit_payload", |plan| emit(plan, |world| world.alice.emit_payload(NEWS, one()))),
        Case::new("Room::emit", |plan| emit(plan, |world| world.room().emit("news", &1))),
        Case::new("Room::emit_payload", |plan| emit(plan, |world| world.room().emit_payload("news", one()))),
        Case::new("Topic::emit", |plan| emit(plan, |world| world.room().topic("news").emit(&1))),
        Case::new("Client::emit_many", emit_many),
    ]
}

fn one() -> Payload {
    Payload::encode(&1).unwrap()
}

/// Polled once, a message is published once.
async fn emit(plan: Plan, make: fn(&World) -> Emit) -> bool {
    let mut world = World::new().await;
    let mut bobs = world.bob_listens().await;
    world.mark().await;
    let end = plan.follow(make(&world)).await;
    world.settle().await;
    let published = usize::from(!end.is_unpolled());
    assert_eq!(world.sent().await, vec!["publish"; published]);
    world.bob_says(2).await;
    assert_eq!(heard(&mut bobs, 2).await, [1, 2][1 - published..]);
    let done = end.done();
    assert!(done.is_none() || done == Some(Ok(Emitted::Acked)), "{done:?}");
    done.is_some()
}

/// Polled once, all messages are published, once and in order.
async fn emit_many(plan: Plan) -> bool {
    let mut world = World::new().await;
    let mut bobs = world.bob_listens().await;
    world.mark().await;
    let emits = (1..=3).map(|number| world.alice.emit(NEWS, &number));
    let end = plan.follow(world.alice.emit_many(emits)).await;
    world.settle().await;
    let published = if end.is_unpolled() { 0 } else { 3 };
    assert_eq!(world.sent().await, vec!["publish"; published]);
    world.bob_says(4).await;
    assert_eq!(heard(&mut bobs, 4).await, [1, 2, 3, 4][3 - published..]);
    let done = end.done();
    assert!(done.is_none() || done == Some(vec![Ok(Emitted::Acked); 3]), "{done:?}");
    done.is_some()
}
