//! What a client holds, and what it keeps to itself.

use std::fmt::Write as _;

use nolag_core::{ClientCore, Config, Event, Outcome};

/// Texts that must not be shown.
#[derive(Debug, Default)]
pub(crate) struct Secrets {
    texts: Vec<String>,
    words: String,
}

impl Secrets {
    pub(super) fn new(texts: Vec<String>) -> Self {
        Self { texts, words: String::new() }
    }
}

/// Reports that no command asked for and that wait to be polled, at most.
const MAX_REPORTS: usize = 1024;

/// Message acks that wait, at most.
const MAX_ACKS: usize = 4096;

/// Queues, caches and maps stay within their bounds at every step; see [`nolag_core::Usage`].
pub(crate) fn everything_is_bounded(config: &Config, core: &ClientCore) -> Result<(), String> {
    let (usage, limits) = (core.usage(), &config.limits);
    // Connects, disconnects and what the client restores by itself come on top.
    let own = 64;
    let bounds = [
        ("operations", usage.operations, limits.max_pending + own),
        ("requests", usage.requests, limits.max_pending + own),
        ("outbound bytes", usage.outbound_bytes, 2 * limits.max_outbound_bytes),
        ("inbound messages", usage.inbound_messages, 2 * limits.max_inbound_messages),
        ("inbound bytes", usage.inbound_bytes, 2 * limits.max_inbound_bytes + (1 << 20)),
        ("acks", usage.acks, MAX_ACKS),
        ("events", usage.events, MAX_REPORTS + limits.max_pending + own),
        ("subscriptions", usage.subscriptions, own),
        ("members", usage.members, own),
        ("lobbies", usage.lobbies, own),
    ];
    match bounds.iter().find(|(_, held, bound)| held > bound) {
        Some((what, held, bound)) => Err(format!("{held} {what} are held, more than {bound}")),
        None => Ok(()),
    }
}

/// No event, and so no error in one, shows a token.
pub(crate) fn no_secret_is_told(secrets: &mut Secrets, event: &Event) -> Result<(), String> {
    // What has no words cannot tell.
    if let Event::Done { outcome: Outcome::Acked | Outcome::Sent | Outcome::Expired, .. } = event {
        return Ok(());
    }
    secrets.words.clear();
    let _ = write!(secrets.words, "{event:?}");
    match secrets.texts.iter().any(|text| secrets.words.contains(text.as_str())) {
        true => Err("an event shows a token".into()),
        false => Ok(()),
    }
}
