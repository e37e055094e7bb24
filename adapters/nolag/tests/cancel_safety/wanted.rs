//! A subscription is taken back only if nobody else wants it.

use nolag::{Filter, Messages};
use nolag_broker::{Expected, Fault};

use crate::{
    PATIENCE,
    hand::ByHand,
    soon,
    world::{NEWS, World, at_hand},
};

/// Where one of two futures is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// When both have been polled.
    Polled,
    /// When the broker has been asked.
    Asked,
    /// When both are woken.
    Woken,
}

const MOMENTS: [Moment; 3] = [Moment::Polled, Moment::Asked, Moment::Woken];

/// Keeps the broker's answers until they are wanted.
async fn hold_answers(world: &World) {
    world.broker.fault(Fault::hold().on_reply("subscribed").actor("alice")).await;
}

async fn asked(world: &World, times: usize) {
    let asked = Expected::from_client("subscribe").actor("alice").times(times).within(PATIENCE);
    world.broker.recorder().expect(asked).await;
}

/// What bob says reaches a stream, once.
async fn assert_heard(world: &World, stream: &mut Messages) {
    assert_eq!(world.subscribed().await, [NEWS]);
    for number in 1..=3 {
        world.bob_says(number).await;
        assert_eq!(soon(stream.next()).await.unwrap().data(), Ok(number));
    }
    world.settle().await;
    assert_eq!((at_hand(stream), world.delivered().await), (None, 3));
}

#[tokio::test]
async fn of_two_that_subscribe_together_either_can_be_dropped() {
    for moment in MOMENTS {
        for first_goes in [true, false] {
            let mut world = World::new().await;
            world.mark().await;
            hold_answers(&world).await;
            let make = || ByHand::new(world.alice.subscribe(NEWS).messages());
            let (mut first, mut second) = (make(), make());
            assert!(first.poll().is_pending() && second.poll().is_pending());
            let (goes, mut stays) = if first_goes { (first, second) } else { (second, first) };
            let mut goes = Some(goes).filter(|_| moment != Moment::Polled);
            asked(&world, 1).await;
            goes = goes.filter(|_| moment != Moment::Asked);
            world.broker.clear_faults().await;
            stays.woken().await;
            drop(goes);
            assert_heard(&world, &mut stays.end().await.unwrap()).await;
            assert_eq!(world.sent().await, ["subscribe"], "{moment:?}");
        }
    }
}

#[tokio::test]
async fn of_two_that_subscribe_together_both_can_be_dropped() {
    for (moment, times) in [(Moment::Polled, 0), (Moment::Asked, 1)] {
        let mut world = World::new().await;
        world.mark().await;
        hold_answers(&world).await;
        let make = || ByHand::new(world.alice.subscribe(NEWS).messages());
        let (mut first, mut second) = (make(), make());
        assert!(first.poll().is_pending() && second.poll().is_pending());
        if moment == Moment::Asked {
            asked(&world, times).await;
        }
        drop(first);
        // So that each drop is taken in by itself.
        world.barrier().await;
        drop(second);
        world.broker.clear_faults().await;
        world.settle().await;
        assert_eq!(world.subscribed().await, Vec::<String>::new());
        assert_eq!(world.sent().await, ["subscribe", "unsubscribe"], "{moment:?}");
    }
}

#[tokio::test]
async fn a_subscribe_right_after_a_dropped_one_stands() {
    for moment in [Moment::Polled, Moment::Asked] {
        let mut world = World::new().await;
        world.mark().await;
        hold_answers(&world).await;
        let mut dropped = ByHand::new(world.alice.subscribe(NEWS).messages());
        assert!(dropped.poll().is_pending());
        if moment == Moment::Asked {
            asked(&world, 1).await;
        }
        drop(dropped);
        let mut next = ByHand::new(world.alice.subscribe(NEWS).messages());
        assert!(next.poll().is_pending());
        world.broker.clear_faults().await;
        let mut stream = next.end().await.unwrap();
        world.settle().await;
        assert_heard(&world, &mut stream).await;
    }
}

#[tokio::test]
async fn a_dropped_subscribe_leaves_what_was_sent_to_be() {
    for moment in MOMENTS {
        let mut world = World::new().await;
        world.mark().await;
        hold_answers(&world).await;
        // Nobody waits for this one, and it is wanted all the same.
        world.alice.subscribe(NEWS).send().unwrap();
        let mut dropped = Some(ByHand::new(world.alice.subscribe(NEWS).into_future()));
        assert!(dropped.as_mut().is_some_and(|dropped| dropped.poll().is_pending()));
        dropped = dropped.filter(|_| moment != Moment::Polled);
        asked(&world, 1).await;
        dropped = dropped.filter(|_| moment != Moment::Asked);
        world.broker.clear_faults().await;
        if let Some(dropped) = &mut dropped {
            dropped.woken().await;
        }
        drop(dropped);
        world.settle().await;
        assert_eq!(world.sent().await, ["subscribe"], "{moment:?}");
        let mut stream = soon(world.alice.subscribe(NEWS).messages()).await.unwrap();
        assert_heard(&world, &mut stream).await;
    }
}

#[tokio::test]
async fn a_dropped_refresh_leaves_what_stands() {
    for moment in MOMENTS {
        let mut world = World::new().await;
        let mut stream = soon(world.alice.subscribe(NEWS).messages()).await.unwrap();
        world.mark().await;
        hold_answers(&world).await;
        let mut refresh = Some(ByHand::new(world.alice.subscribe(NEWS).refresh().messages()));
        assert!(refresh.as_mut().is_some_and(|refresh| refresh.poll().is_pending()));
        refresh = refresh.filter(|_| moment != Moment::Polled);
        asked(&world, 2).await;
        refresh = refresh.filter(|_| moment != Moment::Asked);
        world.broker.clear_faults().await;
        if let Some(refresh) = &mut refresh {
            refresh.woken().await;
        }
        drop(refresh);
        world.settle().await;
        assert_heard(&world, &mut stream).await;
        assert_eq!(world.sent().await, ["subscribe"], "{moment:?}");
    }
}

/// Subscribes with other options than those that stand, and drops that.
async fn dropped_change(moment: Moment) {
    let mut world = World::new().await;
    let mut stream = soon(world.alice.subscribe(NEWS).messages()).await.unwrap();
    world.mark().await;
    hold_answers(&world).await;
    let mut change = Some(ByHand::new(world.alice.subscribe(NEWS).filters(["vip"]).messages()));
    assert!(change.as_mut().is_some_and(|change| change.poll().is_pending()));
    change = change.filter(|_| moment != Moment::Polled);
    // Dropped at once, it is on its way with what puts the options back behind it.
    asked(&world, if moment == Moment::Polled { 3 } else { 2 }).await;
    change = change.filter(|_| moment != Moment::Asked);
    world.broker.clear_faults().await;
    if let Some(change) = &mut change {
        change.woken().await;
    }
    drop(change);
    world.settle().await;
    assert_eq!(world.alice.subscriptions()[0].options.filters, Vec::<Filter>::new(), "{moment:?}");
    assert_heard(&world, &mut stream).await;
}

#[tokio::test]
async fn a_dropped_change_of_options_leaves_those_that_stood() {
    for moment in MOMENTS {
        dropped_change(moment).await;
    }
}

#[tokio::test]
async fn a_dropped_subscribe_that_was_ended_meanwhile_is_ended_once() {
    let mut world = World::new().await;
    world.mark().await;
    let mut subscribe = ByHand::new(world.alice.subscribe(NEWS).messages());
    assert!(subscribe.poll().is_pending());
    let mut end = ByHand::new(world.alice.unsubscribe(NEWS).into_future());
    assert!(end.poll().is_pending());
    drop((subscribe, end));
    world.settle().await;
    assert_eq!(world.subscribed().await, Vec::<String>::new());
    assert_eq!(world.sent().await, ["subscribe", "unsubscribe"]);
}

#[tokio::test]
async fn a_dropped_subscribe_that_was_replaced_meanwhile_leaves_its_successor() {
    let mut world = World::new().await;
    world.mark().await;
    let mut first = ByHand::new(world.alice.subscribe(NEWS).messages());
    let mut end = ByHand::new(world.alice.unsubscribe(NEWS).into_future());
    let mut second = ByHand::new(world.alice.subscribe(NEWS).messages());
    assert!(first.poll().is_pending() && end.poll().is_pending() && second.poll().is_pending());
    drop((first, end));
    assert_heard(&world, &mut second.end().await.unwrap()).await;
    assert_eq!(world.sent().await, ["subscribe", "unsubscribe", "subscribe"]);
}
