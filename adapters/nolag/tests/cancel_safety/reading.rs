//! Streams of messages.

use futures_util::StreamExt;
use nolag::{Messages, TypedMessages};

use crate::{
    case::{Case, drop_them},
    hand::Plan,
    soon,
    world::{NEWS, World},
};

drop_them!();

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("Messages::next", |plan| {
            messages(plan, async |plan, stream| {
                plan.follow(stream.next()).await.done().map(|message| message.unwrap().data().unwrap())
            })
        }),
        Case::new("Stream for Messages", |plan| {
            messages(plan, async |plan, stream| {
                let message = plan.follow(StreamExt::next(stream)).await.done();
                message.map(|message| message.unwrap().data().unwrap())
            })
        }),
        Case::new("TypedMessages::next", |plan| {
            typed(plan, async |plan, stream| {
                plan.follow(stream.next()).await.done().map(|message| message.unwrap().unwrap().into_data())
            })
        }),
        Case::new("Stream for TypedMessages", |plan| {
            typed(plan, async |plan, stream| {
                let message = plan.follow(StreamExt::next(stream)).await.done();
                message.map(|message| message.unwrap().unwrap().into_data())
            })
        }),
    ]
}

async fn messages(plan: Plan, call: impl AsyncFn(Plan, &mut Messages) -> Option<u32>) -> bool {
    let mut world = World::new().await;
    let mut stream = soon(world.alice.subscribe(NEWS).messages()).await.unwrap();
    messages_come(&mut world).await;
    let first = call(plan, &mut stream).await;
    nothing_was_taken(&world, first).await;
    let mut heard: Vec<u32> = first.into_iter().collect();
    while heard.len() < 3 {
        heard.push(soon(stream.next()).await.unwrap().data().unwrap());
    }
    all_was_heard(&world, &heard).await;
    first.is_some()
}

async fn typed(plan: Plan, call: impl AsyncFn(Plan, &mut TypedMessages<u32>) -> Option<u32>) -> bool {
    let mut world = World::new().await;
    let mut stream = soon(world.alice.subscribe(NEWS).stream()).await.unwrap();
    messages_come(&mut world).await;
    let first = call(plan, &mut stream).await;
    nothing_was_taken(&world, first).await;
    let mut heard: Vec<u32> = first.into_iter().collect();
    while heard.len() < 3 {
        heard.push(soon(stream.next()).await.unwrap().unwrap().into_data());
    }
    all_was_heard(&world, &heard).await;
    first.is_some()
}

/// From the next time on that others run, messages reach alice.
async fn messages_come(world: &mut World) {
    world.mark().await;
    for number in 1..=3 {
        world.bob.emit(NEWS, &number).send().unwrap();
    }
}

/// What no call has returned is not acknowledged.
async fn nothing_was_taken(world: &World, first: Option<u32>) {
    soon(world.bob.flush()).await;
    world.settle().await;
    assert_eq!((world.delivered().await, world.acks().await.len()), (3, first.into_iter().len()));
}

/// Each message once and in order, and each acknowledged.
async fn all_was_heard(world: &World, heard: &[u32]) {
    assert_eq!(heard, [1, 2, 3]);
    world.settle().await;
    let mut acks = world.acks().await;
    acks.sort_unstable();
    acks.dedup();
    assert_eq!(acks.len(), 3, "{acks:?}");
}
