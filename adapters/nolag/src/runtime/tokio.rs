//! tokio.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use nolag_core::{Instant, TransportError, TransportErrorKind};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, lookup_host},
    runtime::Handle,
    time::{self, Sleep},
};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::{BoxFuture, Dial, Runtime, Socket, Timer, upgrade_error};

/// The tokio runtime around the calls that spawn.
pub(crate) struct Tokio {
    origin: time::Instant,
}

impl Tokio {
    pub(crate) fn new() -> Self {
        Self { origin: time::Instant::now() }
    }
}

impl Runtime for Tokio {
    fn now(&self) -> Instant {
        let elapsed = self.origin.elapsed();
        Instant::ZERO + elapsed
    }

    fn timer(&self) -> Box<dyn Timer> {
        Box::new(TokioTimer { origin: self.origin, sleep: None })
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

    fn connect(&self, dial: Arc<Dial>) -> BoxFuture<Result<Box<dyn Socket>, TransportError>> {
        Box::pin(connect(dial))
    }
}

struct TokioTimer {
    origin: time::Instant,
    sleep: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Timer for TokioTimer {
    fn poll_at(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = self.origin + Duration::from_micros(at.as_micros());
        match &mut self.sleep {
            // A timer that is set too early costs one spurious wake-up, setting it anew each time costs more.
            Some((set, sleep)) if *set <= at => {
                if sleep.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                if *set == at {
                    return Poll::Ready(());
                }
                *set = at;
                sleep.as_mut().reset(deadline);
            }
            Some((set, sleep)) => {
                *set = at;
                sleep.as_mut().reset(deadline);
            }
            None => self.sleep = Some((at, Box::pin(time::sleep_until(deadline)))),
        }
        match &mut self.sleep {
            Some((_, sleep)) => sleep.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

async fn connect(dial: Arc<Dial>) -> Result<Box<dyn Socket>, TransportError> {
    let address = &dial.address;
    let fault = |kind| move |error: io::Error| TransportError::new(kind, error.to_string());
    dial.phase.resolving();
    let resolved = lookup_host((address.host.as_str(), address.port))
        .await
        .map_err(fault(TransportErrorKind::Resolve))?;
    let mut failure = TransportError::new(TransportErrorKind::Resolve, "the name has no address");
    let mut connected = None;
    dial.phase.opening();
    for candidate in resolved {
        match TcpStream::connect(candidate).await {
            Ok(stream) => {
                connected = Some(stream);
                break;
            }
            Err(error) => {
                let detail = format!("{candidate}: {error}");
                failure = TransportError::new(TransportErrorKind::Connect, detail);
            }
        }
    }
    let Some(stream) = connected else { return Err(failure) };
    // Messages are small and waiting for more of them only adds delay; a socket that cannot do this still works.
    let _ = stream.set_nodelay(true);
    #[cfg(feature = "tls")]
    if let Some(config) = &dial.tls {
        dial.phase.encrypting();
        let name = rustls::pki_types::ServerName::try_from(address.host.clone()).map_err(|_| {
            TransportError::new(TransportErrorKind::Tls, "the host name cannot be in a certificate")
        })?;
        let connector = tokio_rustls::TlsConnector::from(config.clone());
        let stream = connector.connect(name, stream).await.map_err(fault(TransportErrorKind::Tls))?;
        return upgrade(&dial, stream).await;
    }
    upgrade(&dial, stream).await
}

async fn upgrade<S>(dial: &Dial, stream: S) -> Result<Box<dyn Socket>, TransportError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    dial.phase.upgrading();
    let counted = Counted { inner: stream, read: 0 };
    let (socket, _) = client_async_with_config(dial.address.uri.clone(), counted, Some(dial.websocket))
        .await
        .map_err(upgrade_error)?;
    Ok(Box::new(socket))
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for WebSocketStream<Counted<S>> {
    fn bytes_read(&self) -> u64 {
        self.get_ref().read
    }
}

/// Counts what is read, as proof of life while a large message trickles in.
struct Counted<S> {
    inner: S,
    read: u64,
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.inner).poll_read(cx, buf);
        self.read += (buf.filled().len() - before) as u64;
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
