//! What a broker is started with.

use std::{path::PathBuf, time::Duration};

use nolag_core::{
    Token,
    wire::{MAX_DATA_BYTES, MAX_FRAME_BYTES},
};

use crate::{AuthConfig, Profile, control::DEV_API_KEY};

/// Configuration of a [`BrokerCore`](crate::BrokerCore).
#[derive(Debug, Clone)]
pub struct BrokerConfig {
    /// The broker to imitate.
    pub profile: Profile,
    /// Who may connect and what they may do.
    pub auth: AuthConfig,
    /// Limits; each can be lifted.
    pub limits: Limits,
    /// Whether messages carry `msgId` and `requiresAck`. Real brokers do unless told otherwise.
    pub record_messages: bool,
    /// Whether load-balanced groups get what they missed: Kraken's durable delivery, which is off there by default. It
    /// needs `record_messages`.
    pub durable_delivery: bool,
    /// How long a message stays in the queue of the connection that it is for. Real brokers take a moment, so a
    /// client can meet messages that were on their way when it unsubscribed; 0 delivers at once.
    pub delivery_lag: Duration,
    /// Whether the last 10,000 frames, up to 16 MiB, are kept for
    /// [`BrokerCore::recorded`](crate::BrokerCore::recorded).
    pub record_frames: bool,
    /// Where message ids come from. The same seed and inputs give the same outputs.
    pub seed: u64,
    /// Unix time at [`Instant::ZERO`](nolag_core::Instant::ZERO): the publish limit counts per wall-clock second.
    pub wall_clock: Duration,
    /// The API key of the control plane. What stands before its dot is no secret.
    pub api_key: Token,
    /// Where a [`Server`](crate::Server) keeps what the control plane knows: read at the start, and written after each
    /// change, which is answered once it is written; one that cannot be written is taken back. A file serves one broker at
    /// a time: `FILE.lock` beside it is locked meanwhile. Without, everything is kept in memory. [`BrokerCore`](crate::BrokerCore) alone does no I/O, and ignores it.
    ///
    /// The file is JSON, and for its owner only: tokens are in it as hashes, the API key is not, but webhooks are with
    /// their headers.
    pub state_file: Option<PathBuf>,
}

impl BrokerConfig {
    /// The API key unless another is given.
    pub const DEV_API_KEY: &'static str = DEV_API_KEY;
}

/// Everything at its default: Kraken 0.10, any token welcome, the usual limits, seed 0, started in 1970, the development
/// API key, no file.
impl Default for BrokerConfig {
    fn default() -> Self {
        Self {
            profile: Profile::default(),
            auth: AuthConfig::allow_all(),
            limits: Limits::default(),
            record_messages: true,
            durable_delivery: false,
            delivery_lag: Duration::ZERO,
            record_frames: false,
            seed: 0,
            wall_clock: Duration::ZERO,
            api_key: Token::new(DEV_API_KEY),
            state_file: None,
        }
    }
}

/// Limits, per connection unless they say otherwise. `None` lifts a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Publishes in one wall-clock second; more are refused with 42910.
    pub publishes_per_second: Option<u32>,
    /// Messages over HTTP in one wall-clock second, for all connections together; more are refused with 42910.
    pub http_publishes_per_second: Option<u32>,
    /// Packed bytes of `data`; more is refused with 42930.
    pub max_data_bytes: Option<usize>,
    /// Bytes of one WebSocket message; more closes with 1009.
    pub max_frame_bytes: Option<usize>,
    /// Silence after which the connection is closed with 1000.
    pub idle_timeout: Option<Duration>,
    /// Bytes that may wait in a [`Server`](crate::Server) for a client that reads too slowly; more closes with 1013,
    /// ahead of what waits. The limit and the code are this broker's own: nothing is recorded of real brokers that run
    /// into it.
    pub max_queued_bytes: Option<usize>,
    /// Time after which a [`Server`](crate::Server) cuts a client that takes nothing at all, without a close frame: its
    /// socket takes none either.
    pub stalled_reader_timeout: Option<Duration>,
}

impl Limits {
    /// None of these limits. What bounds memory on purpose stays: a [`Server`](crate::Server) reads no message of more
    /// than 64 MiB, and [`BrokerCore`](crate::BrokerCore) says what it remembers at most.
    pub const NONE: Self = Self {
        publishes_per_second: None,
        http_publishes_per_second: None,
        max_data_bytes: None,
        max_frame_bytes: None,
        idle_timeout: None,
        max_queued_bytes: None,
        stalled_reader_timeout: None,
    };
}

/// The limits of real brokers; 16 MiB may wait for a client, and one that takes nothing is cut after 30 s.
impl Default for Limits {
    fn default() -> Self {
        Self {
            publishes_per_second: Some(50),
            http_publishes_per_second: Some(200),
            max_data_bytes: Some(MAX_DATA_BYTES),
            max_frame_bytes: Some(MAX_FRAME_BYTES),
            idle_timeout: Some(Duration::from_secs(60)),
            max_queued_bytes: Some(16 << 20),
            stalled_reader_timeout: Some(Duration::from_secs(30)),
        }
    }
}
