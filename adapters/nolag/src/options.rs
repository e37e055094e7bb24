//! How a client behaves.

use std::{fmt, time::Duration};

use nolag_core::{Config, OfflinePolicy, OverflowPolicy, ResendPolicy, Token, TokenSource, wire::QoS};

use crate::address::without_secrets;

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
    #[cfg(feature = "tls")]
    pub(crate) root_certificates: Vec<Vec<u8>>,
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
            #[cfg(feature = "tls")]
            root_certificates: Vec::new(),
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

    /// Failed attempts in a row before the client gives up. 0: never reconnect. `None`: never give up. Default: 10.
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

    /// How often a heartbeat leaves; zero: never. Default: 30 s.
    ///
    /// Without heartbeats the broker does not notice a revoked token, and the client does not notice a dead
    /// connection before it sends something.
    #[must_use]
    pub fn heartbeat_interval(mut self, interval: Duration) -> Self {
        self.config.heartbeat_interval = (!interval.is_zero()).then_some(interval);
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

    /// How often a WebSocket ping leaves; zero: never. Default: 20 s.
    ///
    /// Pings keep the broker's idle timer (60 s) calm where heartbeats are off or rarer.
    #[must_use]
    pub fn websocket_ping_interval(mut self, interval: Duration) -> Self {
        self.websocket_ping_interval = interval;
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

    /// Trusts these root certificates too: PEM text with one or more certificates. Can be called several times.
    ///
    /// For brokers whose certificate a private authority signed. Text without a usable certificate is reported by
    /// [`Client::connect`](crate::Client::connect).
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn root_certificates(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.root_certificates.push(pem.as_ref().to_vec());
        self
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

/// Shows the address without credentials, and of certificates nothing.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("url", &without_secrets(&self.url))
            .field("reconnect", &self.reconnect)
            .field("config", &self.config)
            .field("websocket_ping_interval", &self.websocket_ping_interval)
            .field("max_inbound_size", &self.max_inbound_size)
            .field("drain_timeout", &self.drain_timeout)
            .finish_non_exhaustive()
    }
}
