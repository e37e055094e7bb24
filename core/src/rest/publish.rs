//! Publishing over HTTP, through the broker and without a connection.

use alloc::{format, string::String, vec::Vec};

use serde::Serialize;
use serde_json::Value;

use super::{
    ApiError, Call, Json, Method, Path, Service, check,
    error::misuse,
    json::{scalar, value},
};
use crate::wire::{MAX_FILTERS, is_valid_filter};

/// Messages per batch.
pub const MAX_BATCH: usize = 100;

/// Bytes of a batch, as JSON.
pub const MAX_BATCH_BYTES: usize = 2 * 1024 * 1024;

/// Publishes 1 to [`MAX_BATCH`] messages, in order, or none of them if one is refused. Their senders are shown as the
/// server, not as an actor.
///
/// The request goes to the broker, not to the control plane, with the project's API key; brokers before Kraken 0.10 do not
/// know it. The answer has the ids of the messages, in order.
///
/// # Errors
/// [`ApiError::Misuse`] for a batch, an id, a topic or a filter that no broker takes.
pub fn batch(messages: &[BatchMessage]) -> Result<Call<Vec<String>>, ApiError> {
    if messages.is_empty() || messages.len() > MAX_BATCH {
        return Err(misuse("messages", format!("has {}, a batch takes 1 to {MAX_BATCH}", messages.len())));
    }
    messages.iter().try_for_each(BatchMessage::check)?;
    let mut call =
        Call::new(Method::Post, Path::new("/v1/publish"), message_ids).body(&Batch { messages })?;
    call.request.service = Service::Broker;
    match &call.request.body {
        Some(body) if body.len() > MAX_BATCH_BYTES => Err(misuse(
            "messages",
            format!("has {} bytes as JSON, a batch takes {MAX_BATCH_BYTES}", body.len()),
        )),
        _ => Ok(call),
    }
}

#[derive(Serialize)]
struct Batch<'m> {
    messages: &'m [BatchMessage],
}

fn message_ids(body: &[u8]) -> Result<Vec<String>, String> {
    let answer = value(body)?;
    let Some(messages) = answer["messages"].as_array() else {
        return Err("there are no messages".into());
    };
    let id = |message: &Value| Some(String::from(scalar(&message["id"])?));
    messages.iter().map(id).collect::<Option<_>>().ok_or_else(|| "a message has no id".into())
}

body! {
    /// A message of a [`batch`]. App, room and scope are named by id, not by slug.
    BatchMessage(app_id: String, room_id: String, topic: String, data: Json) {
        /// The scope whose actors get it; without, those that have none.
        scope_id: text,
        /// Routes it to subscribers of exactly this filter, and to those without filters.
        filter: text,
        /// Routes it to subscribers of the same group of filters, and to those without filters.
        filters: texts,
        /// Quality of service on the broker's inner hop: a [`QoS`](crate::wire::QoS), or its number.
        qos: value(u8),
        /// Keeps it for later subscribers.
        retain: flag,
    }
}

impl BatchMessage {
    /// A message with this data, any JSON.
    pub fn new(
        app_id: impl Into<String>,
        room_id: impl Into<String>,
        topic: impl Into<String>,
        data: impl Into<Value>,
    ) -> Self {
        Self::with(app_id.into(), room_id.into(), topic.into(), Json(data.into()))
    }

    fn check(&self) -> Result<(), ApiError> {
        check::id("app id", &self.app_id)?;
        check::id("room id", &self.room_id)?;
        check::topic(&self.topic)?;
        self.scope_id.as_deref().map_or(Ok(()), |id| check::id("scope id", id))?;
        if let Some(qos @ 3..) = self.qos {
            return Err(misuse("qos", format!("is {qos}, at most 2")));
        }
        let filters = self.filters.as_deref().unwrap_or_default();
        if self.filter.is_some() && self.filters.is_some() {
            return Err(misuse("filters", "stand beside a filter; a message has either"));
        }
        if filters.len() > MAX_FILTERS {
            return Err(misuse("filters", format!("are {}, at most {MAX_FILTERS}", filters.len())));
        }
        match self.filter.iter().chain(filters).find(|filter| !is_valid_filter(filter)) {
            Some(filter) => Err(misuse("filter", format!("{filter:?} is empty or holds one of / # + |"))),
            None => Ok(()),
        }
    }
}
