//! The functions that the application registered.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use foldhash::fast::RandomState;
use nolag_core::{LobbyChange, PresenceChange};

use super::lane::Lane;
use crate::{
    event::{Disconnected, ErrorEvent, Hydration, Reconnected, ReplayEvent, Restored},
    handler::{HandlerId, Work},
    message::Message,
};

/// One registered function.
pub(crate) struct Entry<E> {
    id: HandlerId,
    live: AtomicBool,
    /// Of a handler with a task of its own.
    pub(super) lane: Option<Arc<Lane<E>>>,
    pub(super) call: Mutex<HandlerFn<E>>,
}

pub(crate) type HandlerFn<E> = Box<dyn FnMut(E) -> Work + Send>;

/// The functions for one kind of event, in the order of registration. Cloned for each event, so it is shared.
pub(crate) type List<E> = Arc<Vec<Arc<Entry<E>>>>;

/// Something that was removed and is to be dropped where no lock is held.
pub(crate) trait Removed: Send {}

impl<T: Send> Removed for T {}

/// All registered functions.
#[derive(Default)]
pub(crate) struct Handlers {
    last_id: u64,
    pub(crate) topics: HashMap<Arc<str>, List<Message>, RandomState>,
    pub(crate) any: List<Message>,
    pub(crate) connect: List<()>,
    pub(crate) reconnect: List<Reconnected>,
    pub(crate) disconnect: List<Disconnected>,
    pub(crate) error: List<ErrorEvent>,
    pub(crate) hydration: List<Hydration>,
    pub(crate) lobby: List<LobbyChange>,
    pub(crate) presence: List<PresenceChange>,
    pub(crate) replay: List<ReplayEvent>,
    pub(crate) restored: List<Restored>,
}

impl<E> Entry<E> {
    /// Whether it was not removed meanwhile.
    pub(super) fn is_live(&self) -> bool {
        self.live.load(Ordering::Acquire)
    }
}

impl Handlers {
    pub(crate) fn add<E: Send + 'static>(
        &mut self,
        list: impl FnOnce(&mut Self) -> &mut List<E>,
        call: HandlerFn<E>,
        spawned: bool,
    ) -> HandlerId {
        self.last_id += 1;
        let id = HandlerId(self.last_id);
        let lane = spawned.then(Arc::default);
        let entry = Entry { id, live: AtomicBool::new(true), lane, call: Mutex::new(call) };
        Arc::make_mut(list(self)).push(Arc::new(entry));
        id
    }

    pub(crate) fn topic(&mut self, topic: &str) -> &mut List<Message> {
        if !self.topics.contains_key(topic) {
            self.topics.insert(topic.into(), List::default());
        }
        self.topics.entry(topic.into()).or_default()
    }

    /// Removes one function, wherever it is registered.
    pub(crate) fn remove(&mut self, id: HandlerId) -> Option<Box<dyn Removed>> {
        let found = remove_from(&mut self.any, id)
            .or_else(|| remove_from(&mut self.connect, id))
            .or_else(|| remove_from(&mut self.reconnect, id))
            .or_else(|| remove_from(&mut self.disconnect, id))
            .or_else(|| remove_from(&mut self.error, id))
            .or_else(|| remove_from(&mut self.hydration, id))
            .or_else(|| remove_from(&mut self.lobby, id))
            .or_else(|| remove_from(&mut self.presence, id))
            .or_else(|| remove_from(&mut self.replay, id))
            .or_else(|| remove_from(&mut self.restored, id))
            .or_else(|| self.topics.values_mut().find_map(|list| remove_from(list, id)));
        self.topics.retain(|_, list| !list.is_empty());
        found
    }

    pub(crate) fn remove_topic(&mut self, topic: &str) -> List<Message> {
        retire(self.topics.remove(topic).unwrap_or_default())
    }

    pub(crate) fn remove_any(&mut self) -> List<Message> {
        retire(std::mem::take(&mut self.any))
    }

    /// Whether anybody listens to messages of this topic.
    pub(super) fn hear(&self, topic: &str) -> bool {
        !self.any.is_empty() || self.topics.contains_key(topic)
    }
}

pub(crate) fn remove_from<E: Send + 'static>(list: &mut List<E>, id: HandlerId) -> Option<Box<dyn Removed>> {
    let index = list.iter().position(|entry| entry.id == id)?;
    let entry = Arc::make_mut(list).remove(index);
    entry.live.store(false, Ordering::Release);
    Some(Box::new(entry))
}

fn retire<E>(list: List<E>) -> List<E> {
    list.iter().for_each(|entry| entry.live.store(false, Ordering::Release));
    list
}
