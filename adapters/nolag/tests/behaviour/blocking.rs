//! Clients on threads whose user is on tokio.

use std::{
    sync::Arc,
    task::{Context, Wake},
    time::Duration,
};

use nolag::{Client, Runtime, Status};
use tokio::sync::watch;

use crate::{options, server::ScriptedServer, soon, until};

struct Kept;

impl Wake for Kept {
    fn wake(self: Arc<Self>) {}
}

#[tokio::test]
async fn a_dropped_close_leaves_no_thread_that_would_wake_it() {
    let server = ScriptedServer::start().await;
    let hour = Duration::from_secs(3600);
    let options = options(&server.url()).runtime(Runtime::Blocking).drain_timeout(hour);
    let client = Client::new("token", options);
    // Opens when it is dropped.
    let (gate, waits) = watch::channel(());
    client.on_disconnect(move |_| {
        let mut waits = waits.clone();
        async move { while waits.changed().await.is_ok() {} }
    });
    let (connected, peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    client.disconnect();
    peer.ended().await;
    until("it has left", || client.status() == Status::Disconnected).await;
    let kept = Arc::new(Kept);
    let waker = kept.clone().into();
    let mut close = Box::pin(client.close());
    assert!(close.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop((close, waker));
    until("its waker is gone", || Arc::strong_count(&kept) == 1).await;
    drop(gate);
    soon(client.close()).await;
}
