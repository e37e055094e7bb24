//! tokio.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_io::{AsyncRead, AsyncWrite};
use nolag_core::Instant;
use tokio::{
    io::{AsyncRead as TokioRead, AsyncWrite as TokioWrite, ReadBuf},
    net::{TcpStream, lookup_host},
    runtime::Handle,
    task::JoinHandle,
    time,
};

use super::{Alarm, BoxFuture, Driver, Sleep, Timer};
use crate::{engine::lock, transport::Io};

/// The tokio runtime around the calls that spawn.
pub(crate) struct Tokio {
    origin: time::Instant,
    latest: Latest,
}

/// The runtime that was given a task last, for those who wait outside.
type Latest = Arc<Mutex<Option<Handle>>>;

impl Tokio {
    pub(crate) fn new() -> Self {
        Self { origin: time::Instant::now(), latest: Latest::default() }
    }
}

impl Driver for Tokio {
    fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }

    fn timer(&self) -> Box<dyn Timer> {
        let sleep = TokioSleep { origin: self.origin, latest: self.latest.clone(), sleeper: Sleeper::Unset };
        Box::new(Alarm { sleep, set: None })
    }

    fn spawn(&self, task: BoxFuture<()>) -> bool {
        match Handle::try_current() {
            Ok(runtime) => {
                runtime.spawn(task);
                *lock(&self.latest) = Some(runtime);
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
    latest: Latest,
    sleeper: Sleeper,
}

/// Who sleeps.
enum Sleeper {
    Unset,
    /// The task that asks.
    Here(Pin<Box<time::Sleep>>),
    /// A task of the latest runtime, for somebody outside.
    There(JoinHandle<()>),
}

impl Sleep for TokioSleep {
    fn set(&mut self, at: Instant) {
        let deadline = self.origin + Duration::from_micros(at.as_micros());
        if let Sleeper::Here(sleep) = &mut self.sleeper {
            sleep.as_mut().reset(deadline);
            return;
        }
        self.stop();
        self.sleeper = if Handle::try_current().is_ok() {
            Sleeper::Here(Box::pin(time::sleep_until(deadline)))
        } else {
            match &*lock(&self.latest) {
                Some(runtime) => {
                    Sleeper::There(runtime.spawn(async move { time::sleep_until(deadline).await }))
                }
                None => Sleeper::Unset,
            }
        };
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.sleeper {
            Sleeper::Here(sleep) => sleep.as_mut().poll(cx),
            // When the runtime ends before the time comes, nothing is left to wait for.
            Sleeper::There(task) => Pin::new(task).poll(cx).map(drop),
            // There never was a runtime, so nothing is there to wait for.
            Sleeper::Unset => Poll::Ready(()),
        }
    }
}

impl TokioSleep {
    fn stop(&self) {
        if let Sleeper::There(task) = &self.sleeper {
            task.abort();
        }
    }
}

impl Drop for TokioSleep {
    fn drop(&mut self) {
        self.stop();
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

    /// Polls outside tokio.
    fn poll(timer: &mut dyn Timer, at: Instant) -> Poll<()> {
        timer.poll_at(at, &mut Context::from_waker(std::task::Waker::noop()))
    }

    #[test]
    fn outside_tokio_the_latest_runtime_keeps_the_time() {
        let driver = Tokio::new();
        let mut timer = driver.timer();
        let hour = driver.now() + Duration::from_secs(3600);
        assert!(poll(&mut *timer, hour).is_ready(), "there never was a runtime to wait for");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let tasks = runtime.metrics();
        runtime.block_on(async { assert!(driver.spawn(Box::pin(async {}))) });
        runtime.block_on(tokio::task::yield_now());
        assert!(poll(&mut *timer, hour).is_pending());
        assert_eq!(tasks.num_alive_tasks(), 1);
        // Of several deadlines the last one counts, and nothing is left of the others.
        let soon = driver.now() + Duration::from_millis(2);
        assert!(poll(&mut *timer, soon).is_pending());
        runtime.block_on(std::future::poll_fn(|cx| timer.poll_at(soon, cx)));
        assert!(driver.now() >= soon);
        assert!(poll(&mut *timer, hour).is_pending());
        drop(timer);
        runtime.block_on(tokio::task::yield_now());
        assert_eq!(tasks.num_alive_tasks(), 0);
        // When the runtime is gone nothing is left to wait for.
        let mut timer = driver.timer();
        assert!(poll(&mut *timer, hour).is_pending());
        drop(runtime);
        assert!(poll(&mut *timer, hour).is_ready());
    }

    #[tokio::test]
    async fn small_writes_leave_at_once_or_not() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        for nodelay in [true, false] {
            let stream = Stream::connect(listener.local_addr().unwrap(), nodelay).await.unwrap();
            assert_eq!(stream.0.nodelay().unwrap(), nodelay);
        }
    }
}
