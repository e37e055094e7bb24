//! Bounded buffers between the core and the streams of the application.

use std::{
    collections::{HashMap, VecDeque},
    mem,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Poll, Waker},
};

use foldhash::fast::RandomState;

use super::lock;
use crate::message::Message;

/// Bytes that one stream may hold, whatever the number of messages; a single message may be larger.
const MAX_STREAM_BYTES: usize = 4 << 20;

/// What one stream has not yet given to the application.
///
/// The pump puts messages in one by one; the reader takes all that are there at once and hands them on from a queue of its
/// own, so that the two seldom meet at the lock. What the reader has taken counts as long as it is not handed on.
#[derive(Debug)]
pub(crate) struct StreamBuffer {
    topic: Arc<str>,
    capacity: usize,
    inner: Mutex<Inner>,
    /// Messages not handed on, and their bytes.
    count: AtomicUsize,
    bytes: AtomicUsize,
    /// A message waits for room.
    blocked: AtomicBool,
    /// The stream was dropped.
    detached: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    queue: VecDeque<Message>,
    /// No more will come.
    ended: bool,
    waker: Option<Waker>,
}

/// The streams that are open.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    by_topic: HashMap<Arc<str>, Vec<Arc<StreamBuffer>>, RandomState>,
    /// Those that end once the messages already received have been handed out.
    ending: Vec<Arc<StreamBuffer>>,
}

impl StreamBuffer {
    pub(crate) fn new(topic: &str, capacity: usize) -> Arc<Self> {
        Arc::new(Self {
            topic: topic.into(),
            capacity: capacity.max(1),
            inner: Mutex::default(),
            count: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            blocked: AtomicBool::new(false),
            detached: AtomicBool::new(false),
        })
    }

    pub(crate) fn topic(&self) -> &str {
        &self.topic
    }

    /// The next message, and whether room was made that something waits for. `taken` is the reader's own queue.
    pub(crate) fn poll(&self, taken: &mut VecDeque<Message>, waker: &Waker) -> (Poll<Option<Message>>, bool) {
        if taken.is_empty() {
            let mut inner = lock(&self.inner);
            if inner.queue.is_empty() {
                if inner.ended {
                    return (Poll::Ready(None), false);
                }
                // It is the application's, and may call the client when it is dropped.
                let former = inner.waker.replace(waker.clone());
                drop(inner);
                drop(former);
                return (Poll::Pending, false);
            }
            mem::swap(taken, &mut inner.queue);
        }
        let message = taken.pop_front();
        let bytes = message.as_ref().map_or(0, Message::bytes);
        // Before the look at `blocked`: whoever sets it looks at these once more afterwards.
        let count = self.count.fetch_sub(1, Ordering::SeqCst) - 1;
        let bytes = self.bytes.fetch_sub(bytes, Ordering::SeqCst) - bytes;
        let half_empty = count <= self.capacity / 2 && bytes <= MAX_STREAM_BYTES / 2;
        let unblocked = half_empty && self.is_blocked() && self.blocked.swap(false, Ordering::SeqCst);
        (Poll::Ready(message), unblocked)
    }

    /// The stream is gone. Says whether something waited for room.
    pub(crate) fn detach(&self) -> bool {
        let mut inner = lock(&self.inner);
        self.detached.store(true, Ordering::SeqCst);
        let queue = mem::take(&mut inner.queue);
        // The buffer itself goes later, and under a lock.
        let former = inner.waker.take();
        drop(inner);
        drop((queue, former));
        self.blocked.swap(false, Ordering::SeqCst)
    }

    pub(super) fn is_detached(&self) -> bool {
        self.detached.load(Ordering::SeqCst)
    }

    /// Whether one more message fits; if not, [`poll`](Self::poll) will tell when to ask again.
    pub(super) fn has_room(&self) -> bool {
        if self.has_room_now() {
            return true;
        }
        self.blocked.store(true, Ordering::SeqCst);
        // The reader may have made room before it could see that somebody waits.
        let room = self.has_room_now();
        if room {
            self.blocked.store(false, Ordering::SeqCst);
        }
        room
    }

    fn has_room_now(&self) -> bool {
        let full = self.count.load(Ordering::SeqCst) >= self.capacity
            || self.bytes.load(Ordering::SeqCst) >= MAX_STREAM_BYTES;
        !full || self.is_detached()
    }

    fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::SeqCst)
    }

    pub(super) fn push(&self, message: Message) -> Option<Waker> {
        let mut inner = lock(&self.inner);
        if self.is_detached() {
            drop(inner);
            return None;
        }
        self.count.fetch_add(1, Ordering::SeqCst);
        self.bytes.fetch_add(message.bytes(), Ordering::SeqCst);
        inner.queue.push_back(message);
        inner.waker.take()
    }

    fn end(&self) -> Option<Waker> {
        let mut inner = lock(&self.inner);
        inner.ended = true;
        inner.waker.take()
    }
}

impl Streams {
    pub(crate) fn attach(&mut self, buffer: Arc<StreamBuffer>) {
        let listeners = self.by_topic.entry(buffer.topic.clone()).or_default();
        listeners.retain(|listener| !listener.is_detached());
        listeners.push(buffer);
    }

    /// The open streams of a topic.
    pub(super) fn listeners(&mut self, topic: &str) -> &[Arc<StreamBuffer>] {
        let listeners = self.by_topic.get(topic);
        if listeners.is_some_and(|listeners| listeners.iter().any(|listener| listener.is_detached())) {
            if let Some(listeners) = self.by_topic.get_mut(topic) {
                listeners.retain(|listener| !listener.is_detached());
                if listeners.is_empty() {
                    self.by_topic.remove(topic);
                }
            }
        }
        self.by_topic.get(topic).map_or(&[], Vec::as_slice)
    }

    /// Ends the streams of a topic at once: what they already hold is still handed out. Returns whom to wake.
    pub(crate) fn end(&mut self, topic: &str) -> Vec<Waker> {
        let ended = self.by_topic.remove(topic).unwrap_or_default();
        ended.iter().filter_map(|buffer| buffer.end()).collect()
    }

    /// Ends the streams of a topic after the messages already received.
    pub(super) fn end_later(&mut self, topic: &str) {
        self.ending.extend(self.by_topic.get(topic).into_iter().flatten().cloned());
    }

    /// Ends all streams after the messages already received.
    pub(super) fn end_all_later(&mut self) {
        self.ending.extend(self.by_topic.values().flatten().cloned());
    }

    /// All messages already received were handed out. Returns whom to wake.
    pub(super) fn end_due(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for buffer in mem::take(&mut self.ending) {
            if let Some(listeners) = self.by_topic.get_mut(&buffer.topic) {
                listeners.retain(|listener| !Arc::ptr_eq(listener, &buffer));
                if listeners.is_empty() {
                    self.by_topic.remove(&buffer.topic);
                }
            }
            wakers.extend(buffer.end());
        }
        wakers
    }

    pub(super) fn is_ending(&self) -> bool {
        !self.ending.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use bytes::{Bytes, BytesMut};
    use nolag_core::{
        Action, ClientCore, Config, Instant, TransportEvent, TransportEventKind, TransportId,
        wire::{self, AuthReply, RawValue, ServerFrame, Text},
    };

    use super::*;

    fn frame(frame: &ServerFrame<'_>) -> Bytes {
        let mut out = BytesMut::new();
        frame.encode(&mut out);
        out.freeze()
    }

    fn message() -> Message {
        let now = Instant::ZERO;
        let mut core = ClientCore::new(Config::new("a-token"), 1, now).expect("sound");
        core.connect(now).expect("idle");
        let Some(Action::OpenTransport { id }) = core.poll_action() else { panic!("nothing to open") };
        let handle = |core: &mut ClientCore, id: TransportId, kind| {
            core.handle_transport(now, TransportEvent { id, kind });
        };
        handle(&mut core, id, TransportEventKind::Opened);
        core.poll_transmit(now, &mut BytesMut::new()).expect("auth");
        let reply = AuthReply { success: true, actor_token_id: Some("actor-1"), ..AuthReply::default() };
        handle(&mut core, id, TransportEventKind::Message(frame(&ServerFrame::Auth(reply))));
        let delivery = wire::Message {
            topic: Text::Str("a/b/c"),
            data: RawValue::NIL,
            msg_id: None,
            requires_ack: None,
            filter: None,
            is_replay: None,
            from: None,
            from_type: None,
        };
        handle(&mut core, id, TransportEventKind::Message(frame(&ServerFrame::Message(delivery))));
        Message::new(core.poll_message().expect("a message"), None)
    }

    /// Whoever finds no room is told when there is some, whatever the reader does at that moment.
    #[test]
    fn a_reader_on_another_thread_always_tells_of_room() {
        const MESSAGES: usize = 20_000;
        let message = message();
        for capacity in [1, 2, 7] {
            let buffer = StreamBuffer::new("a/b/c", capacity);
            let (tell, told) = mpsc::channel();
            let reader = thread::spawn({
                let buffer = buffer.clone();
                move || {
                    let mut taken = VecDeque::new();
                    let mut read = 0;
                    while read < MESSAGES {
                        let (polled, made_room) = buffer.poll(&mut taken, Waker::noop());
                        read += usize::from(polled.is_ready());
                        if made_room {
                            tell.send(()).expect("somebody waits");
                        }
                    }
                }
            });
            for _ in 0..MESSAGES {
                while !buffer.has_room() {
                    told.recv_timeout(Duration::from_secs(20)).expect("room is told of");
                }
                assert!(buffer.count.load(Ordering::SeqCst) < capacity);
                drop(buffer.push(message.clone()));
            }
            reader.join().expect("it reads all");
        }
    }
}
