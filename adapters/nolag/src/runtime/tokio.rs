//! tokio.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_io::{AsyncRead, AsyncWrite};
use nolag_core::Instant;
use tokio::{
    io::{AsyncRead as TokioRead, AsyncWrite as TokioWrite, ReadBuf},
    net::{TcpStream, lookup_host},
    runtime::Handle,
    time,
};

use super::{Alarm, BoxFuture, Driver, Sleep, Timer};
use crate::transport::Io;

/// The tokio runtime around the calls that spawn.
pub(crate) struct Tokio {
    origin: time::Instant,
}

impl Tokio {
    pub(crate) fn new() -> Self {
        Self { origin: time::Instant::now() }
    }
}

impl Driver for Tokio {
    fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }

    fn timer(&self) -> Box<dyn Timer> {
        Box::new(Alarm { sleep: TokioSleep { origin: self.origin, sleep: None }, set: None })
    }

    fn spawn(&self, task: BoxFuture<()>) -> bool {
        match Handle::try_current() {
            Ok(runtime) => {
                runtime.spawn(task);
                true
            }
            Err(_) => false,
        }
    }

    fn resolve(&self, host: &str, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        let host = host.to_owned();
        Box::pin(async move { Ok(lookup_host((host, port)).await?.collect()) })
    }

    fn connect(&self, address: SocketAddr, nodelay: bool) -> BoxFuture<io::Result<Box<dyn Io>>> {
        Box::pin(async move { Ok(Box::new(Stream::connect(address, nodelay).await?) as Box<dyn Io>) })
    }

    fn lost(&self, polled: bool) -> &'static str {
        if std::thread::panicking() {
            "its task panicked; if that says that I/O or timers are disabled, build the tokio runtime with enable_all()"
        } else if polled {
            "the tokio runtime that ran it has shut down; keep it running, or connect anew in another one"
        } else {
            "there is no tokio runtime to run it; await connect() inside one, built with enable_all(), or choose \
             something else to run on with Options::runtime()"
        }
    }
}

struct TokioSleep {
    origin: time::Instant,
    sleep: Option<Pin<Box<time::Sleep>>>,
}

impl Sleep for TokioSleep {
    fn set(&mut self, at: Instant) {
        let deadline = self.origin + Duration::from_micros(at.as_micros());
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(deadline),
            // A thread outside tokio that waits here has a limit of its own.
            None if Handle::try_current().is_err() => {}
            None => self.sleep = Some(Box::pin(time::sleep_until(deadline))),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

/// tokio's stream with the traits that everything above it uses.
struct Stream(TcpStream);

impl Stream {
    async fn connect(address: SocketAddr, nodelay: bool) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        // A socket that cannot do this still works.
        let _ = stream.set_nodelay(nodelay);
        Ok(Self(stream))
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(buf);
        ready!(Pin::new(&mut self.0).poll_read(cx, &mut buf))?;
        Poll::Ready(Ok(buf.filled().len()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn small_writes_leave_at_once_or_not() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        for nodelay in [true, false] {
            let stream = Stream::connect(listener.local_addr().unwrap(), nodelay).await.unwrap();
            assert_eq!(stream.0.nodelay().unwrap(), nodelay);
        }
    }
}
