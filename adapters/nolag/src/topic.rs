//! Topics whose messages all have one type.

use std::{fmt, marker::PhantomData, sync::Arc};

use nolag_core::{Misuse, Payload};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    context::Room,
    emit::Emit,
    event::ErrorEvent,
    handler::{HandlerId, HandlerReturn, Work},
    message::TypedMessage,
    stream::TypedMessages,
    subscribe::{StreamFuture, Subscribe, Unsubscribe},
};

/// A topic whose messages are all of type `T`, from [`Room::topic`].
pub struct Topic<T> {
    room: Room,
    name: String,
    /// With app and room in front.
    full: Result<Arc<str>, (Arc<str>, Misuse)>,
    data: PhantomData<fn(T) -> T>,
}

impl<T> Topic<T> {
    pub(crate) fn new(room: Room, name: String) -> Self {
        Self { full: room.topic_to_publish(&name), room, name, data: PhantomData }
    }

    /// The room.
    pub fn room(&self) -> &Room {
        &self.room
    }

    /// The name within the room.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Subscribes, see [`Room::subscribe`].
    pub fn subscribe(&self) -> Subscribe {
        self.room.subscribe(&self.name)
    }

    /// Ends the subscription.
    pub fn unsubscribe(&self) -> Unsubscribe {
        self.room.unsubscribe(&self.name)
    }
}

impl<T: Serialize> Topic<T> {
    /// Publishes, see [`Room::emit`].
    pub fn emit(&self, data: &T) -> Emit {
        Emit::new(self.room.client().handle.clone(), self.full.clone(), Payload::encode(data))
    }
}

impl<T: DeserializeOwned + 'static> Topic<T> {
    /// Subscribes and opens a stream, with the defaults of [`Subscribe::stream`].
    pub fn stream(&self) -> StreamFuture<TypedMessages<T>> {
        self.subscribe().stream()
    }

    /// Calls `handler` with each message. A message whose data is not a `T` is told to
    /// [`on_error`](crate::Client::on_error) as [`ErrorEvent::Decode`] instead.
    pub fn on<F, R, Kind>(&self, mut handler: F) -> HandlerId
    where
        F: FnMut(TypedMessage<T>) -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        let client = self.room.client().downgrade();
        self.room.on_work(&self.name, move |message| -> Work {
            let topic = Arc::from(message.topic());
            match TypedMessage::decode(message) {
                Ok(message) => handler(message).into_work().0,
                Err(error) => {
                    if let Some(client) = client.upgrade() {
                        client.report(ErrorEvent::Decode { topic, error });
                    }
                    None
                }
            }
        })
    }
}

impl<T> Clone for Topic<T> {
    fn clone(&self) -> Self {
        let Self { room, name, full, data } = self;
        Self { room: room.clone(), name: name.clone(), full: full.clone(), data: *data }
    }
}

impl<T> fmt::Debug for Topic<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topic").field("room", &self.room).field("name", &self.name).finish_non_exhaustive()
    }
}
