//! What clients and broker have sent each other, and what a test expects of it.

use std::{collections::VecDeque, fmt, time::Duration};

use bytes::Bytes;
use nolag_core::{
    Instant,
    wire::{FrameMap, Key, Kind, RawValue},
};

use crate::{ConnectionId, Direction, Effect, Fault, topic};

/// Most frames that are kept.
const MAX_FRAMES: usize = 10_000;

/// Bytes of kept frames.
const MAX_BYTES: usize = 16 << 20;

/// One frame that a client sent, or that the broker meant to send.
///
/// Its texts never hold a token; [`bytes`](Self::bytes) does.
#[derive(Clone, PartialEq, Eq)]
pub struct RecordedFrame {
    /// When.
    pub at: Instant,
    /// On which connection.
    pub conn: ConnectionId,
    /// The connection's actor at that time.
    pub actor_id: Option<String>,
    /// Which way.
    pub direction: Direction,
    /// What stands under `type`; `heartbeat` for the empty message, and empty for what is no frame.
    pub frame_type: String,
    /// The topic that it names.
    pub topic: Option<String>,
    /// The fault that struck it.
    pub fault: Option<String>,
    bytes: Bytes,
}

impl RecordedFrame {
    pub(crate) fn new(
        at: Instant,
        conn: ConnectionId,
        actor_id: Option<String>,
        direction: Direction,
        frame: &[u8],
        fault: Option<&Effect>,
    ) -> Self {
        let map = FrameMap::parse(frame).ok();
        let text = |key| map.as_ref().and_then(|map| map.str(key)).map(String::from);
        let frame_type = if frame.is_empty() { Some("heartbeat".into()) } else { text(Key::Type) };
        let topic = text(Key::Topic);
        let fault = fault.map(|effect| Fault::new(effect.clone()).to_string());
        let (frame_type, bytes) = (frame_type.unwrap_or_default(), Bytes::copy_from_slice(frame));
        Self { at, conn, actor_id, direction, frame_type, topic, fault, bytes }
    }

    /// The message as it was sent: MessagePack, also where the client sent JSON.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    fn size(&self) -> usize {
        256 + self.bytes.len()
    }
}

/// One line: time, connection, actor, direction, the frame without its token and shortened, and the fault.
impl fmt::Display for RecordedFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrow = match self.direction {
            Direction::FromClient => "->",
            Direction::ToClient => "<-",
        };
        let actor = self.actor_id.as_deref().unwrap_or("nobody");
        let millis = self.at.as_micros() / 1000;
        write!(
            f,
            "{:>4}.{:03} {} {actor} {arrow} {}",
            millis / 1000,
            millis % 1000,
            self.conn,
            self.frame_type
        )?;
        let value = RawValue::parse(&self.bytes);
        match value {
            Ok(value) if value.kind() == Kind::Map => {
                let mut out = String::new();
                show(value, 0, &mut out);
                write!(f, " {out}")?;
            }
            _ if self.bytes.is_empty() => {}
            _ => write!(f, "({} bytes that are no frame)", self.bytes.len())?,
        }
        match &self.fault {
            Some(fault) => write!(f, "  [{fault}]"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for RecordedFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Appends a value for people: bounded in length and depth, without tokens, and without a frame's type.
fn show(value: RawValue<'_>, depth: usize, out: &mut String) {
    const LONGEST: usize = 200;
    const DEEPEST: usize = 5;
    if out.len() > LONGEST || depth > DEEPEST {
        return out.push('…');
    }
    if let Some(entries) = value.entries() {
        out.push('{');
        let shown = entries.filter(|(key, _)| depth > 0 || key.as_str() != Some(Key::Type.as_str()));
        for (n, (key, value)) in shown.enumerate() {
            out.push_str(if n == 0 { "" } else { ", " });
            if out.len() > LONGEST {
                out.push('…');
                break;
            }
            show(key, depth + 1, out);
            out.push_str(": ");
            match key.as_str() {
                Some(key) if key == Key::Token.as_str() => out.push_str("(a token)"),
                _ => show(value, depth + 1, out),
            }
        }
        return out.push('}');
    }
    if let Some(items) = value.items() {
        out.push('[');
        for (n, item) in items.enumerate() {
            out.push_str(if n == 0 { "" } else { ", " });
            if out.len() > LONGEST {
                out.push('…');
                break;
            }
            show(item, depth + 1, out);
        }
        return out.push(']');
    }
    match (value.kind(), value.as_str()) {
        (Kind::Text, Some(text)) => {
            let short: String = text.chars().take(80).collect();
            out.push_str(&format!("{short:?}"));
            out.push_str(if short.len() < text.len() { "…" } else { "" });
        }
        (Kind::Bool, _) => out.push_str(if value.as_bool() == Some(true) { "true" } else { "false" }),
        (Kind::Integer, _) => match (value.as_u64(), value.as_i64()) {
            (Some(number), _) => out.push_str(&number.to_string()),
            (None, Some(number)) => out.push_str(&number.to_string()),
            (None, None) => out.push('?'),
        },
        (Kind::Float, _) => out.push_str(&format!("{:?}", value.as_f64().unwrap_or(f64::NAN))),
        (Kind::Nil, _) => out.push_str("nil"),
        (kind, _) => out.push_str(&format!("{kind:?}({} bytes)", value.as_bytes().len())),
    }
}

/// The frames that are kept.
#[derive(Debug)]
pub(crate) struct Recording {
    on: bool,
    frames: VecDeque<RecordedFrame>,
    bytes: usize,
    dropped: u64,
}

impl Recording {
    pub(crate) fn new(on: bool) -> Self {
        Self { on, frames: VecDeque::new(), bytes: 0, dropped: 0 }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    pub(crate) fn push(&mut self, frame: RecordedFrame) {
        self.bytes += frame.size();
        self.frames.push_back(frame);
        while self.frames.len() > MAX_FRAMES || self.bytes > MAX_BYTES {
            let Some(oldest) = self.frames.pop_front() else { break };
            self.bytes -= oldest.size();
            self.dropped += 1;
        }
    }

    pub(crate) fn frames(&self) -> impl Iterator<Item = &RecordedFrame> {
        self.frames.iter()
    }

    /// How many frames there were, also those that are kept no longer.
    pub(crate) fn in_all(&self) -> u64 {
        self.dropped + self.frames.len() as u64
    }
}

/// Frames that a test expects: which ones, how many, and until when.
///
/// ```
/// use std::time::Duration;
/// use nolag_broker::Expected;
///
/// let _three_publishes = Expected::from_client("publish").topic("chat/+/messages").times(3);
/// let _a_quick_reply = Expected::to_client("presenceList").actor("alice").within(Duration::from_millis(200));
/// let _no_more_acks = Expected::to_client("published").times(0);
/// ```
#[derive(Debug, Clone)]
pub struct Expected {
    direction: Direction,
    frame_type: String,
    topic: Option<String>,
    actor: Option<String>,
    times: Option<usize>,
    within: Duration,
}

impl Expected {
    /// At least one frame of this type from a client, within a second.
    pub fn from_client(frame_type: &str) -> Self {
        Self::new(Direction::FromClient, frame_type)
    }

    /// At least one frame of this type to a client, within a second.
    pub fn to_client(frame_type: &str) -> Self {
        Self::new(Direction::ToClient, frame_type)
    }

    fn new(direction: Direction, frame_type: &str) -> Self {
        let (frame_type, within) = (frame_type.into(), Duration::from_secs(1));
        Self { direction, frame_type, topic: None, actor: None, times: None, within }
    }

    /// Only frames whose topic is this one, or falls under this pattern with `+` or `#`.
    #[must_use]
    pub fn topic(mut self, pattern: &str) -> Self {
        self.topic = Some(pattern.into());
        self
    }

    /// Only frames on connections of this actor.
    #[must_use]
    pub fn actor(mut self, actor_id: &str) -> Self {
        self.actor = Some(actor_id.into());
        self
    }

    /// Exactly so many. More than that is a failure as soon as it is seen.
    #[must_use]
    pub fn times(mut self, n: usize) -> Self {
        self.times = Some(n);
        self
    }

    /// How long to wait for them.
    #[must_use]
    pub fn within(mut self, time: Duration) -> Self {
        self.within = time;
        self
    }

    pub(crate) fn patience(&self) -> Duration {
        self.within
    }

    /// Whether a frame is one of those expected. Frames that a fault has struck count as well.
    pub fn matches(&self, frame: &RecordedFrame) -> bool {
        let topic_fits = |pattern: &String| {
            frame.topic.as_ref().is_some_and(|topic| pattern == topic || topic::matches(pattern, topic))
        };
        frame.direction == self.direction
            && frame.frame_type == self.frame_type
            && self.topic.as_ref().is_none_or(topic_fits)
            && self.actor.as_ref().is_none_or(|actor| frame.actor_id.as_ref() == Some(actor))
    }

    /// Whether so many frames are enough: `None` while more may come, and are needed.
    pub(crate) fn verdict(&self, count: usize) -> Option<bool> {
        match self.times {
            None => (count > 0).then_some(true),
            Some(times) if count < times => None,
            Some(times) => Some(count == times),
        }
    }

    /// What to say when it did not come true.
    pub(crate) fn failure(&self, frames: &[RecordedFrame], dropped: u64) -> String {
        let count = frames.iter().filter(|frame| self.matches(frame)).count();
        let mut text = format!("expected {self}, recorded {count}\nrecorded frames:\n");
        if dropped > 0 {
            text.push_str(&format!("  ({dropped} older ones are kept no longer)\n"));
        }
        frames.iter().for_each(|frame| text.push_str(&format!("  {frame}\n")));
        text.push_str(if frames.is_empty() { "  none\n" } else { "" });
        text
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.times {
            Some(times) => write!(f, "{times} × ")?,
            None => f.write_str("at least one ")?,
        }
        let direction = match self.direction {
            Direction::FromClient => "from",
            Direction::ToClient => "to",
        };
        write!(f, "`{}` {direction} {}", self.frame_type, self.actor.as_deref().unwrap_or("a client"))?;
        if let Some(topic) = &self.topic {
            write!(f, " on `{topic}`")?;
        }
        write!(f, " within {:?}", self.within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload;

    fn frame(json: &str) -> RecordedFrame {
        let bytes = payload::from_json(json).unwrap();
        let conn = ConnectionId::from_u64(1);
        RecordedFrame::new(Instant::from_micros(1_234_567), conn, None, Direction::FromClient, &bytes, None)
    }

    #[test]
    fn a_frame_is_one_line_without_its_token() {
        let shown = frame(r#"{"type": "auth", "token": "secret"}"#).to_string();
        assert_eq!(shown, r#"   1.234 #1 nobody -> auth {"token": (a token)}"#);
        let long = format!(
            r#"{{"type": "publish", "topic": "t", "data": [[[[[[[1]]]]]], "{}", -5, null]}}"#,
            "é".repeat(500)
        );
        let shown = frame(&long).to_string();
        assert!(shown.chars().count() < 300 && shown.lines().count() == 1, "{shown}");
    }

    #[test]
    fn bytes_that_are_no_frame_are_said_to_be_so() {
        let conn = ConnectionId::from_u64(1);
        let broken = RecordedFrame::new(
            Instant::ZERO,
            conn,
            None,
            Direction::FromClient,
            &[0xc1],
            Some(&Effect::Drop),
        );
        assert!(broken.to_string().ends_with("(1 bytes that are no frame)  [drop]"), "{broken}");
    }

    #[test]
    fn a_recording_is_bounded_by_count_and_size() {
        let mut recording = Recording::new(true);
        for _ in 0..MAX_FRAMES + 5 {
            recording.push(frame(r#"{"type": "ack"}"#));
        }
        assert_eq!((recording.frames().count(), recording.in_all()), (MAX_FRAMES, MAX_FRAMES as u64 + 5));
        recording.push(frame(&format!(r#"{{"type": "publish", "data": "{}"}}"#, "x".repeat(17 << 20))));
        assert_eq!((recording.frames().count(), recording.bytes), (0, 0));
    }

    #[test]
    fn expectations_pick_frames_and_count_them() {
        let publish = frame(r#"{"type": "publish", "topic": "chat/a/messages"}"#);
        assert!(Expected::from_client("publish").topic("chat/#").matches(&publish));
        assert!(!Expected::from_client("publish").topic("chat/+").matches(&publish));
        assert!(!Expected::to_client("publish").matches(&publish));
        assert!(!Expected::from_client("publish").actor("alice").matches(&publish));
        let twice = Expected::from_client("publish").times(2);
        assert_eq!([0, 1, 2, 3].map(|count| twice.verdict(count)), [None, None, Some(true), Some(false)]);
        assert_eq!(Expected::from_client("publish").verdict(7), Some(true));
        let failure = twice.failure(&[publish], 3);
        for part in ["2 × `publish` from a client within 1s, recorded 1", "(3 older ones", "chat/a/messages"]
        {
            assert!(failure.contains(part), "{failure}");
        }
    }
}
