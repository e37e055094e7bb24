//! Apps and rooms: shorter names for topics.

use std::{fmt, sync::Arc};

use nolag_core::{Misuse, Payload, check_segment};
use serde::Serialize;

use crate::{
    client::Client,
    emit::Emit,
    handler::{HandlerId, HandlerReturn, Work},
    message::Message,
    request::{Ask, Request, done},
    subscribe::{Subscribe, Unsubscribe},
    topic::Topic,
};

/// One app of a client, from [`Client::app`].
#[derive(Clone)]
pub struct App {
    client: Client,
    name: Arc<str>,
}

/// One room of an app, from [`App::room`]. Its methods take the name of a topic within the room; otherwise they are
/// those of [`Client`].
///
/// A name that breaks the rules (`A–Z a–z 0–9 _ : -`, at most 100) is reported by what is done with it.
#[derive(Clone)]
pub struct Room {
    client: Client,
    app: Arc<str>,
    name: Arc<str>,
    prefix: Arc<str>,
}

impl App {
    pub(crate) fn new(client: Client, name: String) -> Self {
        Self { client, name: name.into() }
    }

    /// The room with this slug.
    #[doc(alias = "set_room")]
    pub fn room(&self, room: impl Into<String>) -> Room {
        let name = room.into();
        let prefix = format!("{}/{name}", self.name);
        Room { client: self.client.clone(), app: self.name.clone(), name: name.into(), prefix: prefix.into() }
    }

    /// The app's slug.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

impl Room {
    /// What stands before the names of topics: `app/room`.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The app's slug.
    pub fn app(&self) -> &str {
        &self.app
    }

    /// The room's slug.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// A topic of this room whose messages are all of type `T`.
    pub fn topic<T>(&self, topic: impl Into<String>) -> Topic<T> {
        Topic::new(self.clone(), topic.into())
    }

    /// Subscribes to a topic. `+` stands for any topic of the room. So does `#` by the rules, but Kraken confirms it and
    /// then delivers nothing.
    pub fn subscribe(&self, topic: impl AsRef<str>) -> Subscribe {
        Subscribe::new(self.client.handle.clone(), self.pattern(topic.as_ref()))
    }

    /// Ends the subscription to a topic, see [`Client::unsubscribe`].
    pub fn unsubscribe(&self, topic: impl AsRef<str>) -> Unsubscribe {
        let ask = self.pattern(topic.as_ref()).map(Ask::Unsubscribe);
        Request::new(self.client.handle.clone(), ask, done)
    }

    /// Publishes to a topic, see [`Client::emit`].
    #[doc(alias = "publish")]
    pub fn emit<T: Serialize + ?Sized>(&self, topic: impl AsRef<str>, data: &T) -> Emit {
        self.emit_encoded(topic.as_ref(), Payload::encode(data))
    }

    /// Publishes data that is encoded already.
    pub fn emit_payload(&self, topic: impl AsRef<str>, payload: Payload) -> Emit {
        self.emit_encoded(topic.as_ref(), Ok(payload))
    }

    /// This room, whose handlers get tasks of their own when they are registered through what is returned here; see
    /// [`Client::spawned`].
    #[must_use]
    pub fn spawned(&self) -> Self {
        Self { client: self.client.spawned(), ..self.clone() }
    }

    /// Calls `handler` with each message of the topic, see [`Client::on`].
    pub fn on<F, R, Kind>(&self, topic: impl AsRef<str>, handler: F) -> HandlerId
    where
        F: FnMut(Message) -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        self.client.on(self.full(topic.as_ref()), handler)
    }

    /// Removes a handler, see [`Client::off`].
    pub fn off(&self, handler: HandlerId) -> bool {
        self.client.off(handler)
    }

    /// Removes all handlers of a topic; says how many there were.
    pub fn off_all(&self, topic: impl AsRef<str>) -> usize {
        self.client.off_all(self.full(topic.as_ref()))
    }

    pub(crate) fn on_work(
        &self,
        topic: &str,
        call: impl FnMut(Message) -> Work + Send + 'static,
    ) -> HandlerId {
        self.client.add_handler(|handlers| handlers.topic(&self.full(topic)), Box::new(call))
    }

    fn emit_encoded(&self, topic: &str, payload: Result<Payload, Misuse>) -> Emit {
        Emit::new(self.client.handle.clone(), self.topic_to_publish(topic), payload)
    }

    /// The topic with its prefix, if it can be published to.
    pub(crate) fn topic_to_publish(&self, topic: &str) -> Result<Arc<str>, (Arc<str>, Misuse)> {
        let full = self.full(topic).into();
        match self.check_prefix().and_then(|()| check_segment(topic)) {
            Ok(()) => Ok(full),
            Err(error) => Err((full, error)),
        }
    }

    /// The topic with its prefix, if it can be subscribed.
    pub(crate) fn pattern(&self, topic: &str) -> Result<String, Misuse> {
        self.check_prefix()?;
        if !matches!(topic, "+" | "#") {
            check_segment(topic)?;
        }
        Ok(self.full(topic))
    }

    /// Names hold no slashes, or `room("a/b")` would mean a topic of another room.
    pub(crate) fn check_prefix(&self) -> Result<(), Misuse> {
        check_segment(&self.app)?;
        check_segment(&self.name)
    }

    fn full(&self, topic: &str) -> String {
        format!("{}/{topic}", self.prefix)
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
