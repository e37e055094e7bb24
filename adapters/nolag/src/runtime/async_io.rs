//! smol and async-std: both run on the reactor of `async-io`, and differ only in who polls tasks.

use std::{
    future::Future,
    io,
    net::{SocketAddr, TcpStream},
    pin::Pin,
    task::{Context, Poll},
    time::{self, Duration},
};

use async_io::Async;
use nolag_core::Instant;

use super::{Alarm, BoxFuture, Driver, Sleep, Timer, resolve};
use crate::transport::Io;

/// The reactor, and an executor.
pub(crate) struct AsyncIo {
    origin: time::Instant,
    spawn: fn(BoxFuture<()>),
}

impl AsyncIo {
    #[cfg(feature = "smol")]
    pub(crate) fn smol() -> Self {
        Self { origin: time::Instant::now(), spawn: |task| smol::spawn(task).detach() }
    }

    #[cfg(feature = "async-std")]
    pub(crate) fn async_std() -> Self {
        Self { origin: time::Instant::now(), spawn: |task| drop(async_std::task::spawn(task)) }
    }
}

impl Driver for AsyncIo {
    fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }

    fn timer(&self) -> Box<dyn Timer> {
        Box::new(Alarm {
            sleep: AsyncSleep { origin: self.origin, timer: async_io::Timer::never() },
            set: None,
        })
    }

    fn spawn(&self, task: BoxFuture<()>) -> bool {
        (self.spawn)(task);
        true
    }

    fn resolve(&self, host: &str, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        resolve::on_a_thread(host, port)
    }

    fn connect(&self, address: SocketAddr, nodelay: bool) -> BoxFuture<io::Result<Box<dyn Io>>> {
        Box::pin(async move { Ok(Box::new(open(address, nodelay).await?) as Box<dyn Io>) })
    }

    fn lost(&self, _: bool) -> &'static str {
        "its task panicked"
    }
}

async fn open(address: SocketAddr, nodelay: bool) -> io::Result<Async<TcpStream>> {
    let stream = Async::<TcpStream>::connect(address).await?;
    // A socket that cannot do this still works.
    let _ = stream.get_ref().set_nodelay(nodelay);
    Ok(stream)
}

struct AsyncSleep {
    origin: time::Instant,
    timer: async_io::Timer,
}

impl Sleep for AsyncSleep {
    fn set(&mut self, at: Instant) {
        self.timer.set_at(self.origin + Duration::from_micros(at.as_micros()));
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.timer).poll(cx).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_writes_leave_at_once_or_not() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        for nodelay in [true, false] {
            let stream = async_io::block_on(open(listener.local_addr().unwrap(), nodelay)).unwrap();
            assert_eq!(stream.get_ref().nodelay().unwrap(), nodelay);
        }
    }
}
