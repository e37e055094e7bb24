//! Wakers that do something of their own, and futures that are all that is left of their client.

use std::{
    sync::{Arc, mpsc},
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use nolag::{Client, Status};
use tokio::{runtime::Builder, sync::Notify};

use crate::{
    PATIENCE,
    hand::ByHand,
    soon,
    world::{NEWS, World, heard},
};

/// A waker that asks the client when it is woken and when it is dropped, as a task does that owns a client.
struct Asking(Client);

impl Asking {
    fn waker(client: &Client) -> Waker {
        Arc::new(Self(client.clone())).into()
    }

    fn ask(&self) {
        let _ = (self.0.status(), self.0.watch_status());
    }
}

impl Wake for Asking {
    fn wake(self: Arc<Self>) {
        self.ask();
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.ask();
    }
}

/// Fails when the test hangs, as where a lock is taken twice. Between two polls nobody else runs.
fn hangs_nowhere(test: impl AsyncFnOnce() + Send + 'static) {
    hangs_nowhere_in(Builder::new_current_thread(), test);
}

fn hangs_nowhere_in(mut runtime: Builder, test: impl AsyncFnOnce() + Send + 'static) {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        runtime.enable_all().build().unwrap().block_on(test());
        tell.send(()).unwrap();
    });
    told.recv_timeout(PATIENCE / 2).expect("it hangs, or has failed");
}

/// Polls with a waker that nobody else keeps.
fn poll_asking<F: Future + Unpin>(client: &Client, future: &mut F) -> Poll<F::Output> {
    let waker = Asking::waker(client);
    std::pin::Pin::new(future).poll(&mut Context::from_waker(&waker))
}

#[test]
fn a_waker_may_use_the_client_when_it_is_woken() {
    hangs_nowhere(async || {
        let world = World::new().await;
        let alice = &world.alice;
        let mut watch = alice.watch_status();
        let mut stream = soon(alice.subscribe(NEWS).messages()).await.unwrap();
        assert!(soon(watch.next()).await.is_some());
        {
            let (mut next, mut change) = (Box::pin(stream.next()), Box::pin(watch.next()));
            let (mut emit, mut flush) = (alice.emit(NEWS, &1).into_future(), alice.flush());
            assert!(
                poll_asking(alice, &mut next).is_pending() && poll_asking(alice, &mut change).is_pending()
            );
            assert!(
                poll_asking(alice, &mut emit).is_pending() && poll_asking(alice, &mut flush).is_pending()
            );
            world.settle().await;
            assert!(poll_asking(alice, &mut emit).is_ready() && poll_asking(alice, &mut flush).is_ready());
            let mut close = alice.close();
            assert!(poll_asking(alice, &mut close).is_pending());
            soon(close).await;
        }
        assert_eq!(alice.status(), Status::Disconnected);
    });
}

#[test]
fn a_waker_of_an_operation_may_use_the_client_when_it_is_dropped() {
    hangs_nowhere(async || {
        let world = World::new().await;
        let mut emit = world.alice.emit(NEWS, &1).into_future();
        assert!(poll_asking(&world.alice, &mut emit).is_pending());
        // Another waker takes its place.
        assert!(soon(emit).await.is_ok());
    });
}

#[test]
fn a_waker_of_a_dropped_operation_may_use_the_client_when_it_is_dropped() {
    hangs_nowhere(async || {
        let world = World::new().await;
        let mut emit = world.alice.emit(NEWS, &1).into_future();
        assert!(poll_asking(&world.alice, &mut emit).is_pending());
        drop(emit);
        world.settle().await;
    });
}

#[test]
fn a_waker_of_a_watcher_may_use_the_client_when_it_is_dropped() {
    hangs_nowhere(async || {
        let world = World::new().await;
        let mut watch = world.alice.watch_status();
        assert!(soon(watch.next()).await.is_some());
        assert!(poll_asking(&world.alice, &mut Box::pin(watch.next())).is_pending());
        assert!(poll_asking(&world.alice, &mut Box::pin(watch.next())).is_pending());
    });
}

#[test]
fn a_waker_of_a_watcher_that_is_gone_may_use_the_client() {
    hangs_nowhere(async || {
        let world = World::new().await;
        let mut watch = world.alice.watch_status();
        assert!(soon(watch.next()).await.is_some());
        assert!(poll_asking(&world.alice, &mut Box::pin(watch.next())).is_pending());
        drop(watch);
    });
}

#[test]
fn a_waker_of_a_stream_may_use_the_client_when_it_is_dropped() {
    hangs_nowhere(async || {
        let world = World::new().await;
        let mut stream = soon(world.alice.subscribe(NEWS).messages()).await.unwrap();
        assert!(poll_asking(&world.alice, &mut Box::pin(stream.next())).is_pending());
        assert!(poll_asking(&world.alice, &mut Box::pin(stream.next())).is_pending());
        drop(stream);
        // What is left of it goes when the next message comes.
        world.bob_says(1).await;
        world.settle().await;
    });
}

#[test]
fn a_waker_of_a_flush_may_use_the_client_when_it_is_dropped() {
    hangs_nowhere(async || {
        let world = World::new().await;
        world.alice.emit(NEWS, &1).send().unwrap();
        let mut flush = world.alice.flush();
        assert!(poll_asking(&world.alice, &mut flush).is_pending());
        assert!(poll_asking(&world.alice, &mut flush).is_pending());
        drop(flush);
        world.settle().await;
    });
}

/// A waker that does nothing but exist.
#[derive(Default)]
struct Kept;

impl Wake for Kept {
    fn wake(self: Arc<Self>) {}
}

/// Polls a future that is not ready, and drops it: nobody keeps its waker.
#[track_caller]
fn leaves_no_waker<F: Future>(future: F) {
    let kept = Arc::new(Kept);
    let waker = Waker::from(kept.clone());
    let mut future = Box::pin(future);
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(Arc::strong_count(&kept) > 2, "it did not register");
    drop((future, waker));
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[tokio::test]
async fn a_dropped_flush_leaves_no_waker() {
    let world = World::new().await;
    world.alice.emit(NEWS, &1).send().unwrap();
    leaves_no_waker(world.alice.flush());
}

#[tokio::test]
async fn a_dropped_close_leaves_no_waker() {
    let world = World::new().await;
    world.alice.on_disconnect(|_| std::future::pending());
    world.alice.disconnect();
    world.has_left().await;
    // Only the handler is not done.
    leaves_no_waker(world.alice.close());
}

#[tokio::test]
async fn a_dropped_watch_leaves_no_waker() {
    let world = World::new().await;
    let mut watch = world.alice.watch_status();
    assert!(soon(watch.next()).await.is_some());
    leaves_no_waker(async move { watch.next().await });
}

#[tokio::test]
async fn a_dropped_stream_leaves_no_waker() {
    let world = World::new().await;
    let mut stream = soon(world.alice.subscribe(NEWS).messages()).await.unwrap();
    leaves_no_waker(async move { stream.next().await });
}

/// A waker that, when it is dropped, waits for a message to arrive.
struct Waiting(Client);

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Waiting {
    fn drop(&mut self) {
        while self.0.stats().core.messages_received == 0 {
            thread::yield_now();
        }
    }
}

#[test]
fn a_waker_of_a_stream_may_wait_for_others_when_it_is_dropped() {
    // One thread runs the clients while the other waits.
    let mut runtime = Builder::new_multi_thread();
    runtime.worker_threads(1);
    hangs_nowhere_in(runtime, async || {
        let world = World::new().await;
        let mut stream = soon(world.alice.subscribe(NEWS).messages()).await.unwrap();
        let waker = Arc::new(Waiting(world.alice.clone())).into();
        assert!(Box::pin(stream.next()).as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        world.bob.emit(NEWS, &1).send().unwrap();
        assert_eq!(soon(stream.next()).await.unwrap().data(), Ok(1));
    });
}

#[test]
fn a_close_can_be_polled_outside_the_runtime() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let world = runtime.block_on(World::new());
    let door = Arc::new(Notify::new());
    let waits = door.clone();
    world.alice.on_disconnect(move |_| {
        let waits = waits.clone();
        async move { waits.notified().await }
    });
    let mut close = ByHand::new(world.alice.close());
    assert!(close.poll().is_pending());
    runtime.block_on(world.has_left());
    // Only the handler is not done.
    assert!(close.poll().is_pending());
    door.notify_one();
    loop {
        runtime.block_on(close.woken());
        if close.poll().is_ready() {
            break;
        }
    }
}

#[test]
fn a_close_outside_the_runtime_gives_up_on_a_stuck_handler() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let world = runtime.block_on(World::with(|options| options.drain_timeout(Duration::from_millis(20))));
    world.alice.on_disconnect(|_| std::future::pending());
    let mut close = ByHand::new(world.alice.close());
    while close.poll().is_pending() {
        runtime.block_on(close.woken());
    }
    assert_eq!(world.alice.status(), Status::Disconnected);
}

#[tokio::test]
async fn the_last_future_of_a_client_leaves_after_what_it_has_accepted() {
    let World { broker, alice, bob, .. } = World::new().await;
    let mut bobs = soon(bob.subscribe(NEWS).stream::<u32>()).await.unwrap();
    let (weak, unpolled) = (alice.downgrade(), alice.emit(NEWS, &2).into_future());
    let mut emit = ByHand::new(alice.emit(NEWS, &1).into_future());
    assert!(emit.poll().is_pending());
    drop(alice);
    drop(unpolled);
    // It keeps the client until it is dropped.
    assert!(weak.upgrade().is_some_and(|alice| alice.is_connected()));
    drop(emit);
    assert!(weak.upgrade().is_none());
    soon(async {
        while broker.connections().await.len() > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    soon(bob.emit(NEWS, &3)).await.unwrap();
    assert_eq!(heard(&mut bobs, 3).await, [1, 3]);
}
