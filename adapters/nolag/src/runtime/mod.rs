//! What the engine needs from an async runtime, and nothing else.

#[cfg(feature = "tokio")]
pub(crate) mod tokio;

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll},
};

use futures_core::Stream;
use futures_sink::Sink;
use nolag_core::{Instant, TransportError, TransportErrorKind};
use tungstenite::{Error as WsError, Message as WsMessage, protocol::WebSocketConfig};

use crate::{address::Address, options::Options};

pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// An async runtime.
pub(crate) trait Runtime: Send + Sync + 'static {
    /// The time, monotonic, from an origin of its own.
    fn now(&self) -> Instant;

    /// A timer that is not set.
    fn timer(&self) -> Box<dyn Timer>;

    /// Starts a task. `false`, without running it, where there is no runtime.
    fn spawn(&self, task: BoxFuture<()>) -> bool;

    /// Resolves, connects, encrypts and upgrades.
    fn connect(&self, dial: Arc<Dial>) -> BoxFuture<Result<Box<dyn Socket>, TransportError>>;
}

/// Wakes a task in time.
pub(crate) trait Timer: Send {
    /// `Ready` at or after `at`; otherwise wakes the task then.
    fn poll_at(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()>;
}

/// An open WebSocket connection.
pub(crate) trait Socket:
    Stream<Item = Result<WsMessage, WsError>> + Sink<WsMessage, Error = WsError> + Send + Unpin
{
    /// Bytes received so far, whole messages or not.
    fn bytes_read(&self) -> u64;
}

/// Everything that opening a connection takes.
pub(crate) struct Dial {
    pub(crate) address: Address,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
    pub(crate) websocket: WebSocketConfig,
    /// Of the latest attempt.
    pub(crate) phase: Phase,
}

/// How far an attempt to connect has come, for the message that says that it took too long.
#[derive(Debug, Default)]
pub(crate) struct Phase(AtomicU8);

impl Phase {
    const WORDS: [&str; 4] = [
        "while the host name was being resolved",
        "while the TCP connection was being opened",
        "during the TLS handshake",
        "while waiting for the WebSocket upgrade",
    ];

    pub(crate) fn resolving(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    pub(crate) fn opening(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    #[cfg(feature = "tls")]
    pub(crate) fn encrypting(&self) {
        self.0.store(2, Ordering::Relaxed);
    }

    pub(crate) fn upgrading(&self) {
        self.0.store(3, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> &'static str {
        Self::WORDS.get(usize::from(self.0.load(Ordering::Relaxed))).copied().unwrap_or_default()
    }
}

impl Dial {
    /// Checks and puts together what the options say.
    pub(crate) fn new(options: &Options) -> Result<Self, nolag_core::Error> {
        let address = Address::parse(&options.url)?;
        Ok(Self {
            #[cfg(feature = "tls")]
            tls: if address.tls {
                Some(crate::tls::client_config(&options.root_certificates)?)
            } else {
                None
            },
            address,
            websocket: websocket_config(options),
            phase: Phase::default(),
        })
    }
}

fn websocket_config(options: &Options) -> WebSocketConfig {
    WebSocketConfig::default()
        // The default of 128 KiB is allocated at once for each connection.
        .read_buffer_size(8 << 10)
        .write_buffer_size(32 << 10)
        .max_message_size(Some(options.max_inbound_size))
        .max_frame_size(Some(options.max_inbound_size))
}

/// Why an upgrade failed.
pub(crate) fn upgrade_error(error: WsError) -> TransportError {
    match error {
        WsError::Http(response) => {
            let status = response.status();
            let detail = status.canonical_reason().unwrap_or_default();
            TransportError::new(TransportErrorKind::Upgrade(Some(status.as_u16())), detail)
        }
        WsError::Io(error) => TransportError::new(TransportErrorKind::Io, error.to_string()),
        error => TransportError::new(TransportErrorKind::Upgrade(None), error.to_string()),
    }
}
