//! Names to addresses where the system offers only a call that blocks.

use std::{
    future::poll_fn,
    io,
    net::{SocketAddr, ToSocketAddrs as _},
    sync::{Arc, Mutex},
    task::{Poll, Waker},
    thread,
};

use super::BoxFuture;
use crate::engine::lock;

#[derive(Default)]
struct Answer {
    addresses: Option<io::Result<Vec<SocketAddr>>>,
    waker: Option<Waker>,
}

/// Asks the system on a thread of its own. The future may be dropped at any time, as when the time for connecting is
/// over; the thread then ends by itself when the system has answered.
pub(super) fn on_a_thread(host: &str, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
    let host = host.to_owned();
    Box::pin(async move {
        let answer = Arc::new(Mutex::new(Answer::default()));
        let theirs = answer.clone();
        thread::Builder::new().name("nolag-resolve".into()).spawn(move || {
            let addresses = (host, port).to_socket_addrs().map(Iterator::collect);
            let mut answer = lock(&theirs);
            answer.addresses = Some(addresses);
            let waker = answer.waker.take();
            drop(answer);
            if let Some(waker) = waker {
                waker.wake();
            }
        })?;
        poll_fn(|cx| {
            let mut answer = lock(&answer);
            match answer.addresses.take() {
                Some(addresses) => Poll::Ready(addresses),
                None => {
                    answer.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    })
}
