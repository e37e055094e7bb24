//! Watching a world: everything that can be seen of it passes one function.

use std::{
    fmt,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use nolag_core::{Action, ClientCore, Event, Instant, Message, OpId, TransportEventKind};

use crate::{ClientId, Command, Fault};

/// When and to whom something happened.
pub struct Moment<'a> {
    /// The world's time.
    pub now: Instant,
    /// What the client takes for the time.
    pub clock: Instant,
    /// Whose client.
    pub client: ClientId,
    /// That client, after it happened.
    pub core: &'a ClientCore,
}

/// Something that happened.
#[derive(Debug)]
pub enum Observation<'a> {
    /// The client accepted a command.
    Accepted(OpId, &'a Command),
    /// The client told its application something.
    Told(&'a Event),
    /// The client handed its application a message.
    Received(&'a Message),
    /// The client wanted something done.
    Acted(&'a Action),
    /// The client handed a frame to its transport.
    Transmitted(&'a [u8]),
    /// The client is about to be told what happened to its transport.
    Transport(&'a TransportEventKind),
    /// The broker is about to receive a frame of this client.
    BrokerReceived(&'a [u8]),
    /// The broker has sent this client a frame.
    BrokerSent(&'a [u8]),
    /// Something goes wrong on purpose.
    Fault(&'a Fault),
    /// Everything that the client wanted at this moment is done.
    Settled,
}

/// An invariant that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The invariant's name.
    pub invariant: &'static str,
    /// Whose client broke it.
    pub client: ClientId,
    /// The world's time.
    pub at: Instant,
    /// What was seen.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { invariant, client, at, detail } = self;
        write!(f, "{invariant} does not hold for client {client} at {at:?}: {detail}")
    }
}

impl std::error::Error for Violation {}

/// Something that watches a world.
pub trait Observer {
    /// Sees one thing. An error stops the world.
    ///
    /// # Errors
    /// What must not happen.
    fn observe(&mut self, moment: &Moment<'_>, what: &Observation<'_>) -> Result<(), Violation>;
}

/// Everything that happened, as a digest, and as text if wanted.
///
/// Of each client there is one digest for each kind of output, because a client promises nothing about the order in
/// which outputs of different kinds are polled.
#[derive(Debug, Default)]
pub(crate) struct History {
    digests: Vec<[DefaultHasher; 4]>,
    text: Option<String>,
}

impl History {
    pub(crate) fn in_words() -> Self {
        Self { text: Some(String::new()), ..Self::default() }
    }

    pub(crate) fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    pub(crate) fn has_words(&self) -> bool {
        self.text.is_some()
    }

    /// Adds a line, if there is a text.
    pub(crate) fn line(&mut self, now: Instant, what: fmt::Arguments<'_>) {
        if let Some(text) = &mut self.text {
            // Writing to a String cannot fail.
            let _ = fmt::Write::write_fmt(text, format_args!("{now:?} {what}\n"));
        }
    }

    /// Adds an output to the digest of its kind.
    pub(crate) fn digest(&mut self, client: ClientId, kind: usize, now: Instant, bytes: &[u8]) {
        if self.digests.len() <= client.index() {
            self.digests.resize_with(client.index() + 1, Default::default);
        }
        let hasher = &mut self.digests[client.index()][kind];
        now.as_micros().hash(hasher);
        bytes.hash(hasher);
    }

    /// One number for everything so far.
    pub(crate) fn sum(&self) -> u64 {
        let mut all = DefaultHasher::new();
        for hasher in self.digests.iter().flatten() {
            hasher.finish().hash(&mut all);
        }
        all.finish()
    }
}
