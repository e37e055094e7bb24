//! Connecting, leaving, and waiting for what is under way.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use nolag::{Client, EmitError, Status};
use nolag_broker::{Expected, Fault, TestBroker};

use crate::{
    PATIENCE,
    case::{Case, drop_them},
    hand::{ByHand, End, Plan},
    soon,
    world::{NEWS, World, heard, options},
};

drop_them!();

#[tokio::test]
async fn a_connect_that_is_polled_often_keeps_few_wakers() {
    assert!(connect(Plan::Often).await);
}

#[tokio::test]
async fn a_flush_that_is_polled_often_keeps_few_wakers() {
    let world = World::new().await;
    world.alice.emit(NEWS, &1).send().unwrap();
    assert_eq!(Plan::Often.follow(world.alice.flush()).await, End::Done(()));
}

#[tokio::test]
async fn a_close_that_is_polled_often_keeps_few_wakers() {
    let world = World::new().await;
    assert_eq!(Plan::Often.follow(world.alice.close()).await, End::Done(()));
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("Client::connect", connect),
        Case::new("Client::close", close),
        Case::new("Client::flush", flush),
    ]
}

/// Polled once, the client connects, whether somebody waits for it or not.
async fn connect(plan: Plan) -> bool {
    let broker = TestBroker::start().await;
    let client = Client::new(broker.token("alice"), options(&broker.url()));
    let end = plan.follow(client.connect()).await;
    if end.is_unpolled() {
        assert_eq!(client.status(), Status::Disconnected);
        assert!(broker.connections().await.is_empty());
        // That nothing was started is seen below: there is one `auth` in all.
    } else {
        assert!(soon(client.watch_status().wait_for(Status::Connected)).await);
    }
    soon(client.connect()).await.unwrap();
    soon(client.emit(NEWS, &1)).await.unwrap();
    broker.recorder().expect(Expected::from_client("auth").times(1)).await;
    assert_eq!((broker.connections().await.len(), client.stats().core.sessions), (1, 1));
    end.done().map(Result::unwrap).is_some()
}

/// Polled once, the client leaves after what it has accepted.
async fn close(plan: Plan) -> bool {
    let world = World::new().await;
    let mut bobs = world.bob_listens().await;
    let told = Arc::new(AtomicUsize::new(0));
    let handler = told.clone();
    world.alice.on_disconnect(move |_| {
        let told = handler.clone();
        async move {
            // So that there is something to wait for after the connection is closed.
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            told.fetch_add(1, Ordering::Relaxed);
        }
    });
    world.alice.emit(NEWS, &1).send().unwrap();
    let end = plan.follow(world.alice.close()).await;
    if end.is_unpolled() {
        assert_eq!(world.alice.status(), Status::Connected);
        world.settle().await;
        assert_eq!(world.alice.stats().core.sessions, 1);
    } else {
        if end.is_done() {
            assert_eq!(told.load(Ordering::Relaxed), 1);
        }
        world.comes_back().await;
        assert_eq!(world.alice.stats().core.sessions, 2);
        crate::until("the handler", || told.load(Ordering::Relaxed) == 1).await;
    }
    world.bob_says(2).await;
    assert_eq!(heard(&mut bobs, 2).await, [1, 2]);
    end.is_done()
}

/// Dropped or not, waiting changes nothing.
async fn flush(plan: Plan) -> bool {
    let mut world = World::new().await;
    let mut bobs = world.bob_listens().await;
    world.mark().await;
    for number in [1, 2] {
        world.alice.emit(NEWS, &number).send().unwrap();
    }
    let end = plan.follow(world.alice.flush()).await;
    world.settle().await;
    assert_eq!(world.sent().await, ["publish"; 2]);
    world.bob_says(3).await;
    assert_eq!(heard(&mut bobs, 3).await, [1, 2, 3]);
    end == End::Done(())
}

#[tokio::test]
async fn a_dropped_connect_goes_on_until_it_succeeds() {
    let broker = TestBroker::builder().fault(Fault::cut().on_open().times(3)).start().await;
    let client = Client::new(broker.token("alice"), options(&broker.url()).retry_first_connect(true));
    let mut connect = ByHand::new(client.connect());
    assert!(connect.poll().is_pending());
    drop(connect);
    assert!(soon(client.watch_status().wait_for(Status::Connected)).await);
    assert_eq!(client.stats().core.sessions, 1);
}

#[tokio::test]
async fn a_dropped_connect_leaves_others_their_outcome() {
    for first_goes in [true, false] {
        let broker = TestBroker::start().await;
        let client = Client::new(broker.token("alice"), options(&broker.url()));
        let (mut first, mut second) = (ByHand::new(client.connect()), ByHand::new(client.connect()));
        assert!(first.poll().is_pending() && second.poll().is_pending());
        let (goes, stays) = if first_goes { (first, second) } else { (second, first) };
        drop(goes);
        assert_eq!(stays.end().await, Ok(()));
        assert_eq!(broker.connections().await.len(), 1);
    }
}

#[tokio::test]
async fn a_dropped_connect_can_be_stopped() {
    let broker = TestBroker::builder().fault(Fault::hold().on("auth")).start().await;
    let client = Client::new(broker.token("alice"), options(&broker.url()));
    let mut connect = ByHand::new(client.connect());
    assert!(connect.poll().is_pending());
    broker.recorder().expect(Expected::from_client("auth").within(PATIENCE)).await;
    drop(connect);
    client.disconnect();
    soon(client.close()).await;
    assert_eq!(client.status(), Status::Disconnected);
    broker.clear_faults().await;
    soon(client.connect()).await.unwrap();
}

#[tokio::test]
async fn a_dropped_close_leaves_a_peer_that_says_nothing_any_more() {
    let world = World::with(|options| options.drain_timeout(Duration::from_millis(20))).await;
    world.broker.fault(Fault::silence().on("publish").actor("alice")).await;
    let mut emit = ByHand::new(world.alice.emit(NEWS, &1).into_future());
    assert!(emit.poll().is_pending());
    world.broker.recorder().expect(Expected::from_client("publish").topic(NEWS).within(PATIENCE)).await;
    let mut close = ByHand::new(world.alice.close());
    assert!(close.poll().is_pending());
    drop(close);
    let told = emit.end().await;
    assert!(matches!(told, Err(EmitError::Unknown(_))), "{told:?}");
    world.stands(Status::Disconnected).await;
    world.broker.clear_faults().await;
    soon(world.alice.connect()).await.unwrap();
    world.settle().await;
}

#[tokio::test]
async fn a_dropped_connect_that_fails_is_told() {
    let client = Client::new("token", options("ws://127.0.0.1:9/ws").max_reconnect_attempts(0));
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    client.on_error(move |error| tell.send(error.to_string()).unwrap());
    let mut connect = ByHand::new(client.connect());
    assert!(connect.poll().is_pending());
    drop(connect);
    let told = soon(told.recv()).await.unwrap();
    assert!(told.starts_with("will not connect again by itself"), "{told}");
}

#[tokio::test]
async fn a_connect_that_has_failed_and_is_dropped_is_told() {
    let client = Client::new("token", options("ws://127.0.0.1:9/ws").max_reconnect_attempts(0));
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    client.on_error(move |error| tell.send(error.to_string()).unwrap());
    let mut connect = ByHand::new(client.connect());
    assert!(connect.poll().is_pending());
    connect.woken().await;
    drop(connect);
    let told = soon(told.recv()).await.unwrap();
    assert!(told.starts_with("will not connect again by itself"), "{told}");
}
