//! How a client behaves.

use std::{fmt, sync::Arc, time::Duration};

use nolag_core::{
    Config, Error, Misuse, OfflinePolicy, OverflowPolicy, ResendPolicy, Token, TokenSource,
    wire::{Dump, QoS},
};

#[cfg(feature = "tls")]
use crate::transport::TlsOptions;
use crate::{
    runtime::{self, Runtime},
    transport::without_secrets,
};

/// Where the NoLag cloud listens.
pub const CLOUD_URL: &str = "wss://broker.nolag.app/ws";

/// How a [`Client`](crate::Client) behaves. Every option has a default; [`Options::default`] connects to the NoLag
/// cloud.
///
/// ```
/// use std::time::Duration;
/// use nolag::{Options, QoS};
///
/// let options = Options::new("ws://localhost:8080/ws")
///     .max_reconnect_attempts(None)
///     .heartbeat_interval(Duration::from_secs(15))
///     .qos(QoS::AtLeastOnce)
///     .load_balance(true)
///     .load_balance_group("workers");
/// ```
///
/// There is no `debug` switch: with the crate feature `tracing` the client writes what it does as `tracing` events
/// of level `DEBUG`, without payloads and tokens.
#[doc(alias("NoLagOptions", "debug"))]
#[derive(Clone)]
pub struct Options {
    pub(crate) url: String,
    pub(crate) reconnect: bool,
    pub(crate) config: Config,
    pub(crate) websocket_ping_interval: Duration,
    pub(crate) max_inbound_size: usize,
    pub(crate) drain_timeout: Duration,
    pub(crate) runtime: Option<Runtime>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) proxy: Option<String>,
    pub(crate) tcp_nodelay: bool,
    pub(crate) read_buffer_size: usize,
    pub(crate) frame_dump: Option<Arc<FrameDump>>,
    #[cfg(feature = "tls")]
    pub(crate) tls: TlsOptions,
}

/// Shorter intervals would do nothing else.
const SHORTEST: Duration = Duration::from_millis(1);

/// Which way a frame goes, for [`Options::frame_dump`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the broker.
    Received,
    /// To the broker.
    Sent,
}

/// What is shown each frame.
pub(crate) type FrameDump = dyn Fn(Direction, Dump<'_>) + Send + Sync;

/// Root certificates, for [`Options::roots`].
#[cfg(feature = "tls")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Roots {
    /// Mozilla's, compiled in: what browsers trust. Crate feature `webpki-roots`.
    #[cfg(feature = "webpki-roots")]
    Bundled,
    /// Those of the operating system, read when the client is made. Crate feature `native-roots`.
    #[cfg(feature = "native-roots")]
    Native,
    /// Only those of [`Options::root_certificates`].
    Custom,
}

/// [`Bundled`](Self::Bundled) with the crate feature `webpki-roots`, else [`Custom`](Self::Custom).
#[cfg(feature = "tls")]
impl Default for Roots {
    fn default() -> Self {
        #[cfg(feature = "webpki-roots")]
        return Self::Bundled;
        #[cfg(not(feature = "webpki-roots"))]
        Self::Custom
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new(CLOUD_URL)
    }
}

impl Options {
    /// The defaults, for the broker at this address: `ws://` or `wss://`, with the path, for example
    /// `ws://localhost:8080/ws`.
    ///
    /// An address that cannot be used is reported by [`Client::connect`](crate::Client::connect).
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            reconnect: true,
            // The client puts its own token there.
            config: Config::new(Token::new("")),
            websocket_ping_interval: Duration::from_secs(20),
            max_inbound_size: 16 << 20,
            drain_timeout: Duration::from_secs(5),
            runtime: Runtime::default_of_crate(),
            headers: Vec::new(),
            proxy: None,
            tcp_nodelay: true,
            read_buffer_size: 8 << 10,
            frame_dump: None,
            #[cfg(feature = "tls")]
            tls: TlsOptions::default(),
        }
    }

    /// The address, as it was given.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether a lost connection is made anew. Default: yes.
    ///
    /// `false` is the same as [`max_reconnect_attempts(0)`](Self::max_reconnect_attempts).
    #[must_use]
    pub fn reconnect(mut self, reconnect: bool) -> Self {
        self.reconnect = reconnect;
        self
    }

    /// The delay after the first failed attempt to reconnect. Default: 5 s.
    ///
    /// Later delays grow by half, up to 60 s; half of each is random, so that many clients do not come back at once.
    /// The very first attempt after a loss comes within a second (or within this interval, if it is shorter).
    #[must_use]
    pub fn reconnect_interval(mut self, interval: Duration) -> Self {
        self.config.reconnect.interval = interval;
        self.config.reconnect.first = interval.min(Duration::from_secs(1));
        self
    }

    /// Failed attempts to reconnect in a row before the client gives up. 0: never reconnect. `None`: never give up.
    /// Default: 10.
    ///
    /// A first attempt that is [retried](Self::retry_first_connect) is not counted: it is no reconnect.
    #[must_use]
    pub fn max_reconnect_attempts(mut self, attempts: impl Into<Option<u32>>) -> Self {
        self.config.reconnect.max_attempts = attempts.into();
        self
    }

    /// How long a session must have lasted for the count of failed attempts to start anew. Default: 30 s.
    #[must_use]
    pub fn reconnect_stable_after(mut self, duration: Duration) -> Self {
        self.config.reconnect.stable_after = duration;
        self
    }

    /// Whether the first attempt of [`connect`](crate::Client::connect) is retried like a lost connection instead of
    /// being reported at once. Default: no. A denied token is never retried.
    #[must_use]
    pub fn retry_first_connect(mut self, retry: bool) -> Self {
        self.config.retry_first_connect = retry;
        self
    }

    /// How often a heartbeat leaves, every millisecond at most; zero: never. Default: 30 s.
    ///
    /// Without heartbeats the broker does not notice a revoked token, and the client does not notice a dead
    /// connection before it sends something.
    #[must_use]
    pub fn heartbeat_interval(mut self, interval: Duration) -> Self {
        self.config.heartbeat_interval = (!interval.is_zero()).then_some(interval.max(SHORTEST));
        self
    }

    /// How long a heartbeat may go unanswered before the connection counts as dead. Default: 10 s.
    #[must_use]
    pub fn heartbeat_timeout(mut self, timeout: Duration) -> Self {
        self.config.heartbeat_timeout = timeout;
        self
    }

    /// QoS of subscriptions and messages that name none. Default: 1.
    ///
    /// It applies to the broker's inner hop and promises nothing on the connection to the client.
    #[must_use]
    pub fn qos(mut self, qos: QoS) -> Self {
        self.config.qos = qos;
        self
    }

    /// Whether subscriptions that do not say share their messages with a group. Default: no.
    #[must_use]
    pub fn load_balance(mut self, load_balance: bool) -> Self {
        self.config.load_balance = load_balance;
        self
    }

    /// The group of load-balanced subscriptions that name none. Default: the actor's id.
    #[must_use]
    pub fn load_balance_group(mut self, group: impl Into<String>) -> Self {
        self.config.load_balance_group = Some(group.into());
        self
    }

    /// Names this client to the broker: 1 to 64 of `A–Z a–z 0–9 _ -`, the same after a restart, and used by one
    /// client at a time. With it the broker restores subscriptions on reconnect. Default: none.
    ///
    /// An id that breaks these rules is reported by [`Client::connect`](crate::Client::connect).
    #[must_use]
    pub fn client_id(mut self, id: impl Into<String>) -> Self {
        self.config.client_id = Some(id.into());
        self
    }

    /// Shown in the broker's logs. Default: none.
    #[must_use]
    pub fn project_id(mut self, id: impl Into<String>) -> Self {
        self.config.project_id = Some(id.into());
        self
    }

    /// How long opening a connection may take: name resolution, TCP, TLS and the WebSocket upgrade together.
    /// Default: 10 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.config.connect_timeout = timeout;
        self
    }

    /// How long the broker may take to answer, also to the token. Default: 10 s.
    #[must_use]
    pub fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.config.operation_timeout = timeout;
        self.config.auth_timeout = timeout;
        self
    }

    /// How often a WebSocket ping leaves, every millisecond at most; zero: never. Default: 20 s.
    ///
    /// Pings keep the broker's idle timer (60 s) calm where heartbeats are off or rarer.
    #[must_use]
    pub fn websocket_ping_interval(mut self, interval: Duration) -> Self {
        self.websocket_ping_interval = if interval.is_zero() { interval } else { interval.max(SHORTEST) };
        self
    }

    /// The largest inbound WebSocket message in bytes; a larger one ends the connection. Default: 16 MiB.
    #[must_use]
    pub fn max_inbound_size(mut self, bytes: usize) -> Self {
        self.max_inbound_size = bytes;
        self
    }

    /// How many received messages, and how many bytes of them, wait for the application before the client stops
    /// reading. Default: 4,096 messages, 8 MiB.
    ///
    /// Streams and the queue of the handlers hold a little more each.
    #[must_use]
    pub fn inbound_limits(mut self, messages: usize, bytes: usize) -> Self {
        self.config.limits.max_inbound_messages = messages.max(1);
        self.config.limits.max_inbound_bytes = bytes.max(1);
        self
    }

    /// How many acknowledgements of messages are sent together at most, and how long one may wait for others. Default: 64
    /// and 50 ms. `(1, Duration::ZERO)` sends each at once.
    #[must_use]
    pub fn ack_batch(mut self, messages: usize, delay: Duration) -> Self {
        self.config.acks.max_batch = messages.max(1);
        self.config.acks.max_delay = delay;
        self
    }

    /// How long the client may stop reading because the application is behind. Default: 10 s; brokers cut connections
    /// that stall for 30 s.
    ///
    /// After that it reads on and drops waiting messages ([`overflow`](Self::overflow)), which is told to
    /// [`on_error`](crate::Client::on_error) as [`Lagged`](crate::ErrorEvent::Lagged).
    #[must_use]
    pub fn max_pause(mut self, duration: Duration) -> Self {
        self.config.limits.max_pause = duration;
        self
    }

    /// Which messages go when the application stays behind for longer than [`max_pause`](Self::max_pause). Default: the
    /// oldest.
    #[must_use]
    pub fn overflow(mut self, policy: OverflowPolicy) -> Self {
        self.config.overflow = policy;
        self
    }

    /// How long a token provider may take. Default: 30 s.
    #[must_use]
    pub fn token_timeout(mut self, timeout: Duration) -> Self {
        self.config.token_timeout = timeout;
        self
    }

    /// How many operations, and how many bytes to be sent, may be under way before more are refused with
    /// [`Rejection::Full`](crate::Rejection::Full). Default: 65,536 operations, 32 MiB.
    ///
    /// An operation with a callback is under way until the callback has been called, which waits for slow handlers.
    #[must_use]
    pub fn outbound_limits(mut self, operations: usize, bytes: usize) -> Self {
        self.config.limits.max_pending = operations;
        self.config.limits.max_outbound_bytes = bytes;
        self
    }

    /// Messages that leave per second; what is more waits for its turn, in order. `None`: as fast as the network takes
    /// them, for brokers without a limit; others refuse what comes too soon, and it is tried again a second later.
    /// Default: 50, the limit of every known broker.
    #[must_use]
    pub fn publish_rate(mut self, per_second: impl Into<Option<u32>>) -> Self {
        self.config.publish_rate = per_second.into();
        self
    }

    /// Accepts messages while the client connects or reconnects, and sends them in order when a session stands. Default:
    /// they are refused with [`Rejection::NotConnected`](crate::Rejection::NotConnected).
    ///
    /// At most so many messages and bytes wait; more are refused with [`Rejection::Full`](crate::Rejection::Full). A
    /// message that has waited for `max_age` ends as [`EmitError::Expired`](crate::EmitError::Expired); `None`: it waits
    /// until the client gives up or leaves. [`Emit::expires_in`](crate::Emit::expires_in) says it for one message.
    ///
    /// The queue is in memory: it ends with the process.
    #[must_use]
    pub fn offline_queue(
        mut self,
        messages: usize,
        bytes: usize,
        max_age: impl Into<Option<Duration>>,
    ) -> Self {
        self.config.offline =
            OfflinePolicy::Queue { max_messages: messages, max_bytes: bytes, max_age: max_age.into() };
        self
    }

    /// Whether messages that were sent and not confirmed when the connection was lost are sent again on the next one, in
    /// order and before newer ones. Subscribers may then see a message twice. Default: no; such a message ends as
    /// [`EmitError::Unknown`](crate::EmitError::Unknown).
    ///
    /// A message on which the broker closes the connection twice is refused, so that it does not hold up the others.
    #[must_use]
    pub fn resend_unconfirmed(mut self, resend: bool) -> Self {
        self.config.resend = if resend { ResendPolicy::AtLeastOnce } else { ResendPolicy::ReportUnknown };
        self
    }

    /// How long leaving may take to finish what was accepted, and after that how long
    /// [`close`](crate::Client::close) waits for handlers. Default: 5 s.
    #[must_use]
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain_timeout = timeout;
        self
    }

    /// What the client runs on. Default: tokio; without the crate feature `tokio` there is no default, and
    /// [`connect`](crate::Client::connect) reports that none was chosen.
    #[must_use]
    pub fn runtime(mut self, runtime: Runtime) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Sends this header with the WebSocket upgrade, for gateways in front of the broker. Can be called several times.
    ///
    /// Values are treated as secrets: they are in no error and no log of this crate (see [the crate's page](crate#secrets)
    /// for that of the library below it). Headers of the handshake itself (`Host`, `Connection`, `Upgrade`,
    /// `Sec-WebSocket-…`), those that announce a body (`Content-Length`, `Transfer-Encoding`, `Expect` and the like) and
    /// what is no header are reported by [`connect`](crate::Client::connect).
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Goes through an HTTP proxy: `http://host:port` or `http://user:password@host:port`, with special characters
    /// percent-encoded. The proxy is asked for a way to the broker (`CONNECT`), and resolves its name. Default: none;
    /// the environment is not consulted.
    ///
    /// A proxy that denies ends the attempt to connect as
    /// [`TransportErrorKind::Proxy`](crate::TransportErrorKind::Proxy).
    #[must_use]
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.proxy = Some(url.into());
        self
    }

    /// Whether small writes leave at once (`TCP_NODELAY`). Default: yes, because messages are small and waiting for more
    /// of them only adds delay.
    #[must_use]
    pub fn tcp_nodelay(mut self, nodelay: bool) -> Self {
        self.tcp_nodelay = nodelay;
        self
    }

    /// How many bytes are read at once, from 1 to 16 Mi; each connection holds that much. Default: 8 KiB. Larger ones take fewer system
    /// calls where much is received; larger messages are received whatever its size.
    #[must_use]
    pub fn read_buffer_size(mut self, bytes: usize) -> Self {
        self.read_buffer_size = bytes.clamp(1, 16 << 20);
        self
    }

    /// Calls `dump` with each frame as it leaves or comes, for debugging. A [`Dump`](crate::Dump) shows itself as a line
    /// without tokens and payloads. Default: nothing is called.
    ///
    /// It is called by the task that moves bytes, in order, and holds it up for as long as it takes: it must not wait for
    /// anything. A panic is reported to [`on_error`](crate::Client::on_error).
    ///
    /// ```
    /// use nolag::{Direction, Options};
    ///
    /// let options = Options::default().frame_dump(|direction, frame| match direction {
    ///     Direction::Sent => eprintln!("> {frame}"),
    ///     Direction::Received => eprintln!("< {frame}"),
    /// });
    /// ```
    #[must_use]
    pub fn frame_dump(mut self, dump: impl Fn(Direction, Dump<'_>) + Send + Sync + 'static) -> Self {
        self.frame_dump = Some(Arc::new(dump));
        self
    }

    /// Which root certificates are trusted, besides those of [`root_certificates`](Self::root_certificates). Default:
    /// [`Roots::default`].
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn roots(mut self, roots: Roots) -> Self {
        self.tls.change().roots = roots;
        self
    }

    /// Trusts these root certificates too: PEM text with one or more certificates. Can be called several times.
    ///
    /// For brokers whose certificate a private authority signed. Text without a usable certificate is reported by
    /// [`Client::connect`](crate::Client::connect).
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn root_certificates(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.tls.change().extra_roots.push(pem.as_ref().to_vec());
        self
    }

    /// Shows this certificate to servers that ask for one: PEM texts, the chain with the client's own certificate first,
    /// and its private key (PKCS #8, PKCS #1 or SEC1). Default: none.
    ///
    /// What cannot be used is reported by [`Client::connect`](crate::Client::connect), without quoting the key.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn client_certificate(mut self, chain_pem: impl AsRef<[u8]>, key_pem: impl AsRef<[u8]>) -> Self {
        self.tls.change().identity = Some((chain_pem.as_ref().to_vec(), key_pem.as_ref().to_vec()));
        self
    }

    /// Whose cryptography TLS uses. Default: the one that the process has installed
    /// ([`CryptoProvider::install_default`](rustls::crypto::CryptoProvider::install_default)), else ring (crate feature
    /// `ring`), else AWS-LC (crate feature `aws-lc-rs`).
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn crypto_provider(mut self, provider: impl Into<Arc<rustls::crypto::CryptoProvider>>) -> Self {
        self.tls.change().provider = Some(provider.into());
        self
    }

    /// How long opening a connection may take.
    pub(crate) fn opening_limit(&self) -> Duration {
        self.config.connect_timeout
    }

    pub(crate) fn check_runtime(&self) -> Result<(), Error> {
        match self.runtime {
            Some(_) => Ok(()),
            None => {
                Err(Misuse::InvalidOption { option: "runtime", reason: runtime::NONE_CHOSEN.into() }.into())
            }
        }
    }

    /// The core's configuration with everything put together.
    pub(crate) fn config(&self, token: TokenSource) -> Config {
        let mut config = self.config.clone();
        config.token = token;
        if !self.reconnect {
            config.reconnect.max_attempts = Some(0);
        }
        config
    }
}

/// Shows the address without credentials, and of headers, proxy and certificates only what is no secret.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        let mut shown = f.debug_struct("Options");
        shown
            .field("url", &without_secrets(&self.url))
            .field("runtime", &self.runtime)
            .field("reconnect", &self.reconnect)
            .field("config", &self.config)
            .field("websocket_ping_interval", &self.websocket_ping_interval)
            .field("max_inbound_size", &self.max_inbound_size)
            .field("drain_timeout", &self.drain_timeout)
            .field("headers", &headers)
            .field("proxy", &self.proxy.as_deref().map(without_secrets))
            .field("tcp_nodelay", &self.tcp_nodelay)
            .field("read_buffer_size", &self.read_buffer_size)
            .field("frame_dump", &self.frame_dump.is_some());
        #[cfg(feature = "tls")]
        shown.field("tls", &self.tls);
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(any(feature = "blocking", feature = "smol", feature = "async-std"))]
    fn without_a_runtime_it_says_which_call_is_missing() {
        let options = Options { runtime: None, ..Options::default() };
        let error = options.check_runtime().unwrap_err().to_string();
        assert!(error.contains("Options::runtime(Runtime::"), "{error}");
    }
}
