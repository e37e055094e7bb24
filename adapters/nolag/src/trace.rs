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
#[cfg(feature = "tracing")]
pub(crate) type Span = ::tracing::Span;

#[cfg(feature = "tracing")]
pub(crate) fn connection_span(transport: nolag_core::TransportId) -> Span {
    ::tracing::debug_span!("connection", ?transport)
}

#[cfg(not(feature = "tracing"))]
#[derive(Clone)]
pub(crate) struct Span;

#[cfg(not(feature = "tracing"))]
pub(crate) fn connection_span(_: nolag_core::TransportId) -> Span {
    Span
}

#[cfg(not(feature = "tracing"))]
impl Span {
    pub(crate) fn none() -> Self {
        Self
    }

    /// What the real one returns is held for as long as the span is entered.
    pub(crate) fn enter(&self) -> impl Sized {}
}
