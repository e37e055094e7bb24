//! Tracing, or nothing where the feature is off. Never payloads, never tokens.

#[cfg(feature = "tracing")]
macro_rules! debug {
    ($($arg:tt)*) => { ::tracing::debug!($($arg)*) };
}

#[cfg(not(feature = "tracing"))]
macro_rules! debug {
    ($($arg:tt)*) => {};
}

/// Tells a frame's type and size.
#[cfg(feature = "tracing")]
macro_rules! frame {
    ($what:literal, $frame:expr) => {
        if ::tracing::enabled!(::tracing::Level::DEBUG) {
            let frame: &[u8] = $frame;
            let kind = $crate::trace::frame_type(frame);
            ::tracing::debug!(frame = %kind, bytes = frame.len(), $what);
        }
    };
}

#[cfg(not(feature = "tracing"))]
macro_rules! frame {
    ($what:literal, $frame:expr) => {};
}

pub(crate) use {debug, frame};

/// The name under `type`.
#[cfg(feature = "tracing")]
pub(crate) fn frame_type(frame: &[u8]) -> String {
    use nolag_core::wire::{FrameMap, Key};

    if frame.is_empty() {
        return "heartbeat".into();
    }
    let map = FrameMap::parse(frame).ok();
    map.and_then(|map| map.get(Key::Type)?.as_str().map(String::from)).unwrap_or_else(|| "undecodable".into())
}

/// The span of one connection; nothing where the feature is off.
pub(crate) struct ConnectionSpan {
    #[cfg(feature = "tracing")]
    span: ::tracing::Span,
    /// Whether it says whose connection it is.
    knows_actor: bool,
}

#[cfg(feature = "tracing")]
impl ConnectionSpan {
    pub(crate) fn none() -> Self {
        Self { span: ::tracing::Span::none(), knows_actor: true }
    }

    /// Of an attempt to connect; whose it is is known once a session stands.
    pub(crate) fn open(transport: nolag_core::TransportId, attempt: u32) -> Self {
        let actor = ::tracing::field::Empty;
        Self {
            span: ::tracing::debug_span!(parent: None, "connection", ?transport, attempt, actor),
            knows_actor: false,
        }
    }

    pub(crate) fn wants_actor(&self) -> bool {
        !self.knows_actor
    }

    pub(crate) fn tell_actor(&mut self, actor: &str) {
        self.span.record("actor", actor);
        self.knows_actor = true;
    }

    /// What is returned is held for as long as the span is entered.
    pub(crate) fn enter(&self) -> impl Sized + use<> {
        self.span.clone().entered()
    }
}

#[cfg(not(feature = "tracing"))]
impl ConnectionSpan {
    pub(crate) fn none() -> Self {
        Self { knows_actor: true }
    }

    pub(crate) fn open(_: nolag_core::TransportId, _: u32) -> Self {
        Self::none()
    }

    pub(crate) fn wants_actor(&self) -> bool {
        !self.knows_actor
    }

    pub(crate) fn tell_actor(&mut self, _: &str) {}

    pub(crate) fn enter(&self) -> impl Sized + use<> {}
}
