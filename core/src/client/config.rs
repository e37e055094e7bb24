//! How a client behaves: policy as plain data.

use alloc::string::String;
use core::time::Duration;

use crate::{
    Token,
    error::{Error, Misuse},
    wire::QoS,
};

/// Everything a [`ClientCore`](super::ClientCore) needs to know. Fields may be changed after [`new`](Self::new).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Where the actor's token comes from.
    pub token: TokenSource,
    /// Names this client instance to the broker: 1 to 64 of `A–Z a–z 0–9 _ -`, stable across restarts and used by one
    /// client at a time. With it the broker restores subscriptions on reconnect. Default: none.
    pub client_id: Option<String>,
    /// Shown in the broker's logs. Default: none.
    pub project_id: Option<String>,
    /// QoS of subscriptions and publishes that name none. Default: 1.
    pub qos: QoS,
    /// Whether subscriptions that do not say share their messages with a group. Default: no.
    pub load_balance: bool,
    /// The group of load-balanced subscriptions that name none. Default: the actor's id.
    pub load_balance_group: Option<String>,
    /// How often a heartbeat leaves. `None` or zero: never. Default: 30 s. Brokers end connections that are silent for
    /// 60 s, and only a heartbeat makes them check whether a token is still valid.
    pub heartbeat_interval: Option<Duration>,
    /// How long a heartbeat's echo (or anything else) may take. Default: 10 s.
    pub heartbeat_timeout: Duration,
    /// How long opening a connection may take, up to the WebSocket upgrade. Default: 10 s.
    pub connect_timeout: Duration,
    /// How long a token provider may take. Default: 30 s.
    pub token_timeout: Duration,
    /// How long the broker may take to answer `auth`. Default: 10 s.
    pub auth_timeout: Duration,
    /// How long the broker may take to answer anything else. Default: 10 s.
    pub operation_timeout: Duration,
    /// When and how often to reconnect.
    pub reconnect: ReconnectPolicy,
    /// Whether the first attempt of [`connect`](super::ClientCore::connect) is retried like a lost connection instead
    /// of being reported at once. Default: no.
    pub retry_first_connect: bool,
    /// Tracked publishes that the broker takes per second and connection; what is more waits. `None` turns pacing off:
    /// what comes too soon is then refused by the broker and tried again a second later. Default: 50, the limit of every
    /// known broker. Untracked publishes count, but the broker does not say when it has seen them.
    pub publish_rate: Option<u32>,
    /// What happens to publishes while there is no session. Default: they are refused.
    pub offline: OfflinePolicy,
    /// What happens to publishes that were sent and not confirmed when the connection is lost. Default: their outcome is
    /// unknown.
    pub resend: ResendPolicy,
    /// How message acks are gathered.
    pub acks: AckPolicy,
    /// What is bounded, and by how much.
    pub limits: Limits,
    /// What happens when the application stays behind for longer than [`Limits::max_pause`].
    pub overflow: OverflowPolicy,
}

/// Where tokens come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// The application is asked with [`Action::NeedToken`](super::Action::NeedToken) whenever a fresh one is needed: to
    /// connect, unless the last is known to be good for another while, and ahead of its expiry.
    Provider,
    /// Always this one. When the broker does not accept it any more there is no point in reconnecting.
    Static(Token),
}

/// When and how often to reconnect.
///
/// After a loss the first attempt comes within [`first`](Self::first). The n-th failure in a row is followed by a delay
/// of `interval` × 1.5ⁿ⁻¹, at most [`cap`](Self::cap), of which half is fixed and half random.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReconnectPolicy {
    /// Failures in a row before giving up. `Some(0)`: never reconnect. `None`: never give up. Default: 10.
    pub max_attempts: Option<u32>,
    /// Upper bound of the random delay before the first attempt. Default: 1 s.
    pub first: Duration,
    /// Delay after the first failure. Default: 5 s.
    pub interval: Duration,
    /// Longest delay, also used when the broker says that it is full. Default: 60 s.
    pub cap: Duration,
    /// How long a session must have lasted for the count of failures to start anew. Default: 30 s.
    pub stable_after: Duration,
}

/// What happens to publishes while there is no session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OfflinePolicy {
    /// They are queued while the client connects or reconnects, and sent in order when it has.
    Queue {
        /// Messages that may wait; more are refused.
        max_messages: usize,
        /// Their bytes; more are refused.
        max_bytes: usize,
        /// How long one may wait without a session; then it ends as [`Outcome::Expired`](super::Outcome::Expired), or as
        /// unknown if it was sent before.
        max_age: Option<Duration>,
    },
    /// They are refused with [`Rejection::NotConnected`](crate::Rejection::NotConnected).
    #[default]
    Refuse,
}

/// What happens to publishes that were sent and not confirmed when the connection is lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResendPolicy {
    /// They are sent again on the next connection, in order and before newer ones; subscribers may see them twice. One on
    /// which the broker closes the connection (1009, 1011) is resent alone, and refused when it happens again.
    AtLeastOnce,
    /// They end as [`Outcome::Unknown`](super::Outcome::Unknown), and the application decides.
    #[default]
    ReportUnknown,
}

/// How message acks are gathered into one frame.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AckPolicy {
    /// Acks sent together at the latest. Default: 64.
    pub max_batch: usize,
    /// How long an ack may wait for others. Default: 50 ms.
    pub max_delay: Duration,
}

/// What is bounded, and by how much.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Operations without an outcome. Default: 65,536.
    pub max_pending: usize,
    /// Bytes waiting to be sent, and of publishes without an outcome. Default: 32 MiB.
    pub max_outbound_bytes: usize,
    /// Received messages that the application has not taken. Default: 4,096.
    pub max_inbound_messages: usize,
    /// Their retained bytes. Default: 8 MiB.
    pub max_inbound_bytes: usize,
    /// How long reading may stop because the application is behind; brokers cut readers that stall for 30 s.
    /// Default: 10 s.
    pub max_pause: Duration,
}

/// Which messages go when the application stays behind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OverflowPolicy {
    /// The newest message is dropped.
    DropNewest,
    /// The oldest message is dropped.
    #[default]
    DropOldest,
}

impl Config {
    /// The defaults, with this token.
    pub fn new(token: impl Into<Token>) -> Self {
        Self::with_source(TokenSource::Static(token.into()))
    }

    /// The defaults, with tokens that are asked for with [`Action::NeedToken`](super::Action::NeedToken).
    pub fn with_token_provider() -> Self {
        Self::with_source(TokenSource::Provider)
    }

    fn with_source(token: TokenSource) -> Self {
        Self {
            token,
            client_id: None,
            project_id: None,
            qos: QoS::default(),
            load_balance: false,
            load_balance_group: None,
            heartbeat_interval: Some(Duration::from_secs(30)),
            heartbeat_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(10),
            token_timeout: Duration::from_secs(30),
            auth_timeout: Duration::from_secs(10),
            operation_timeout: Duration::from_secs(10),
            reconnect: ReconnectPolicy::default(),
            retry_first_connect: false,
            publish_rate: Some(50),
            offline: OfflinePolicy::default(),
            resend: ResendPolicy::default(),
            acks: AckPolicy::default(),
            limits: Limits::default(),
            overflow: OverflowPolicy::default(),
        }
    }

    /// Checks what can be wrong whatever the broker says.
    ///
    /// # Errors
    /// [`Misuse::NoToken`] and [`Misuse::InvalidClientId`].
    pub fn check(&self) -> Result<(), Error> {
        if matches!(&self.token, TokenSource::Static(token) if token.expose().is_empty()) {
            return Err(Misuse::NoToken.into());
        }
        if let Some(id) = &self.client_id {
            let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
            if id.is_empty() || id.len() > 64 || !id.bytes().all(allowed) {
                return Err(Misuse::InvalidClientId(id.as_str().into()).into());
            }
        }
        Ok(())
    }
}

impl Default for ReconnectPolicy {
    fn default() -> Self {
        Self {
            max_attempts: Some(10),
            first: Duration::from_secs(1),
            interval: Duration::from_secs(5),
            cap: Duration::from_secs(60),
            stable_after: Duration::from_secs(30),
        }
    }
}

impl ReconnectPolicy {
    /// Never reconnect.
    pub fn never() -> Self {
        Self { max_attempts: Some(0), ..Self::default() }
    }
}

impl Default for AckPolicy {
    fn default() -> Self {
        Self { max_batch: 64, max_delay: Duration::from_millis(50) }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_pending: 65_536,
            max_outbound_bytes: 32 << 20,
            max_inbound_messages: 4096,
            max_inbound_bytes: 8 << 20,
            max_pause: Duration::from_secs(10),
        }
    }
}
