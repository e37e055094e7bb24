//! Watching the status.

use futures_util::StreamExt;
use nolag::{Status, StatusWatch};
use nolag_broker::Fault;

use crate::{
    case::{Case, drop_them},
    hand::{ByHand, Plan},
    soon, until,
    world::{NEWS, World},
};

drop_them!();

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("StatusWatch::next", |plan| {
            next(plan, async |plan, watch| plan.follow(watch.next()).await.done().map(Option::unwrap))
        }),
        Case::new("Stream for StatusWatch", |plan| {
            next(plan, async |plan, watch| {
                plan.follow(StreamExt::next(watch)).await.done().map(Option::unwrap)
            })
        }),
        Case::new("StatusWatch::wait_for", wait_for),
    ]
}

/// What a dropped call has not told is told by the next.
async fn next(plan: Plan, call: impl AsyncFn(Plan, &mut StatusWatch) -> Option<Status>) -> bool {
    let world = World::new().await;
    let mut watch = world.alice.watch_status();
    assert_eq!(soon(watch.next()).await, Some(Status::Connected));
    lose_connection(&world).await;
    let told = call(plan, &mut watch).await;
    let told_next = match told {
        Some(status) => status,
        None => soon(watch.next()).await.unwrap(),
    };
    assert_eq!(told_next, Status::Reconnecting);
    world.broker.clear_faults().await;
    assert_eq!(soon(watch.next()).await, Some(Status::Connected));
    world.settle().await;
    told.is_some()
}

/// A dropped wait has no effect on the next.
async fn wait_for(plan: Plan) -> bool {
    let world = World::new().await;
    let mut watch = world.alice.watch_status();
    lose_connection(&world).await;
    let end = plan.follow(watch.wait_for(Status::Reconnecting)).await;
    if !end.is_done() {
        assert!(soon(watch.wait_for(Status::Reconnecting)).await);
    }
    world.broker.clear_faults().await;
    assert!(soon(watch.wait_for(Status::Connected)).await);
    world.settle().await;
    let done = end.done();
    assert!(done != Some(false));
    done.is_some()
}

/// From the next time on that others run, alice has no connection and gets none.
async fn lose_connection(world: &World) {
    world.broker.fault(Fault::hold().on("auth")).await;
    world.broker.fault(Fault::cut().on("publish").actor("alice").times(1)).await;
    world.alice.emit(NEWS, &1).send().unwrap();
}

#[tokio::test]
async fn a_dropped_wait_hides_nothing() {
    let world = World::new().await;
    let mut watch = world.alice.watch_status();
    let mut wait = ByHand::new(watch.wait_for(Status::Disconnected));
    assert!(wait.poll().is_pending());
    drop(wait);
    // She stands there already.
    assert!(soon(watch.wait_for(Status::Connected)).await);
}

#[tokio::test]
async fn a_status_that_was_left_and_came_back_is_told_again() {
    let world = World::new().await;
    let mut watch = world.alice.watch_status();
    assert_eq!(soon(watch.next()).await, Some(Status::Connected));
    world.broker.cut_all().await;
    until("again", || world.alice.stats().core.sessions == 2).await;
    world.restored().await;
    assert_eq!(soon(watch.next()).await, Some(Status::Connected), "it was another one meanwhile");
    let mut next = ByHand::new(watch.next());
    assert!(next.poll().is_pending(), "and is not any more");
}
