//! Bounded buffers between the core and the streams of the application.

use std::{
    collections::{HashMap, VecDeque},
    mem,
    sync::{Arc, Mutex},
    task::{Poll, Waker},
};

use super::lock;
use crate::message::Message;

/// Bytes that one stream may hold, whatever the number of messages; a single message may be larger.
const MAX_STREAM_BYTES: usize = 4 << 20;

/// What one stream has not yet given to the application.
#[derive(Debug)]
pub(crate) struct StreamBuffer {
    topic: Arc<str>,
    capacity: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    queue: VecDeque<Message>,
    bytes: usize,
    /// No more will come.
    ended: bool,
    /// The stream was dropped.
    detached: bool,
    /// A message waits for room.
    blocked: bool,
    waker: Option<Waker>,
}

/// The streams that are open.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    by_topic: HashMap<Arc<str>, Vec<Arc<StreamBuffer>>>,
    /// Those that end once the messages already received have been handed out.
    ending: Vec<Arc<StreamBuffer>>,
}

impl StreamBuffer {
    pub(crate) fn new(topic: &str, capacity: usize) -> Arc<Self> {
        Arc::new(Self { topic: topic.into(), capacity: capacity.max(1), inner: Mutex::default() })
    }

    pub(crate) fn topic(&self) -> &str {
        &self.topic
    }

    /// The next message, and whether room was made that something waits for.
    pub(crate) fn poll(&self, waker: &Waker) -> (Poll<Option<Message>>, bool) {
        let mut inner = lock(&self.inner);
        let Some(message) = inner.queue.pop_front() else {
            if inner.ended {
                return (Poll::Ready(None), false);
            }
            // It is the application's, and may call the client when it is dropped.
            let former = inner.waker.replace(waker.clone());
            drop(inner);
            drop(former);
            return (Poll::Pending, false);
        };
        inner.bytes -= message.bytes();
        let half_empty = inner.queue.len() <= self.capacity / 2 && inner.bytes <= MAX_STREAM_BYTES / 2;
        let unblocked = inner.blocked && half_empty;
        if unblocked {
            inner.blocked = false;
        }
        (Poll::Ready(Some(message)), unblocked)
    }

    /// The stream is gone. Says whether something waited for room.
    pub(crate) fn detach(&self) -> bool {
        let mut inner = lock(&self.inner);
        inner.detached = true;
        inner.bytes = 0;
        let queue = mem::take(&mut inner.queue);
        let blocked = mem::take(&mut inner.blocked);
        // The buffer itself goes later, and under a lock.
        let former = inner.waker.take();
        drop(inner);
        drop((queue, former));
        blocked
    }

    pub(super) fn is_detached(&self) -> bool {
        lock(&self.inner).detached
    }

    /// Whether one more message fits; if not, [`poll`](Self::poll) will tell when to ask again.
    pub(super) fn has_room(&self) -> bool {
        let mut inner = lock(&self.inner);
        let room = inner.queue.len() < self.capacity && inner.bytes < MAX_STREAM_BYTES;
        inner.blocked = !room;
        room
    }

    pub(super) fn push(&self, message: Message) -> Option<Waker> {
        let mut inner = lock(&self.inner);
        if inner.detached {
            return None;
        }
        inner.bytes += message.bytes();
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
        let Some(listeners) = self.by_topic.get_mut(topic) else { return &[] };
        listeners.retain(|listener| !listener.is_detached());
        if listeners.is_empty() {
            self.by_topic.remove(topic);
            return &[];
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
