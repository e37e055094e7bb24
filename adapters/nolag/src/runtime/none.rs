//! No runtime: for clients whose options name none, which never connect.

use std::{
    io,
    net::SocketAddr,
    task::{Context, Poll},
    time,
};

use nolag_core::Instant;

use super::{BoxFuture, Driver, Timer};
use crate::transport::Io;

/// Knows the time and nothing else.
pub(crate) struct NoRuntime {
    origin: time::Instant,
}

impl NoRuntime {
    pub(crate) fn new() -> Self {
        Self { origin: time::Instant::now() }
    }
}

impl Driver for NoRuntime {
    fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }

    fn timer(&self) -> Box<dyn Timer> {
        Box::new(Never)
    }

    fn spawn(&self, _: BoxFuture<()>) -> bool {
        false
    }

    fn resolve(&self, _: &str, _: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }

    fn connect(&self, _: SocketAddr, _: bool) -> BoxFuture<io::Result<Box<dyn Io>>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }

    fn lost(&self, _: bool) -> &'static str {
        "the client has no runtime"
    }
}

/// Nobody could wake a task: what has to wait does not.
struct Never;

impl Timer for Never {
    fn poll_at(&mut self, _: Instant, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}
