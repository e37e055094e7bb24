//! Batches of messages that are published over HTTP: what they look like.

use nolag_core::check_segment;
use serde_json::{Map, Value, json};

use super::{api::ApiResponse, check::shown};

/// Most messages of a batch.
const MAX_MESSAGES: usize = 100;

/// A message of a batch, in the right form. Whether there is such an app, room or topic is another question.
#[derive(Debug)]
pub(crate) struct BatchMessage {
    pub(crate) app_id: String,
    pub(crate) room_id: String,
    pub(crate) topic: String,
    pub(crate) scope_id: Option<String>,
    pub(crate) data: Value,
    /// An object with `filter` and `filters` as they were sent.
    pub(crate) filters: Value,
    pub(crate) retain: bool,
}

/// Why a batch is refused, in the broker's shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PublishRefusal {
    pub(crate) status: u16,
    pub(crate) code: u32,
    pub(crate) message: String,
    /// Which message it is about.
    pub(crate) index: Option<usize>,
}

impl PublishRefusal {
    pub(crate) fn new(status: u16, code: u32, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), index: None }
    }

    pub(crate) fn at(self, index: usize) -> Self {
        Self { index: Some(index), ..self }
    }
}

impl From<PublishRefusal> for ApiResponse {
    fn from(refusal: PublishRefusal) -> Self {
        let mut error = json!({"code": refusal.code, "message": refusal.message});
        if let Some(index) = refusal.index {
            error["index"] = index.into();
        }
        Self::json(refusal.status, &json!({"error": error}))
    }
}

/// Reads a batch.
pub(crate) fn read_batch(body: &[u8]) -> Result<Vec<BatchMessage>, PublishRefusal> {
    let bad = |message: &str| PublishRefusal::new(400, 40000, message);
    let mut batch: Value = serde_json::from_slice(body).map_err(|_| bad("invalid_json"))?;
    let messages = match batch.get_mut("messages").map(Value::take) {
        Some(Value::Array(messages)) if !messages.is_empty() => messages,
        _ => return Err(bad(r#"expected {"messages": [...]}"#)),
    };
    if messages.len() > MAX_MESSAGES {
        return Err(bad("too_many_messages (max 100)"));
    }
    let read = |(index, message)| read_message(message).map_err(|fault| bad(&fault).at(index));
    messages.into_iter().enumerate().map(read).collect()
}

fn read_message(message: Value) -> Result<BatchMessage, String> {
    let Value::Object(mut fields) = message else { return Err("a message must be an object".into()) };
    let app_id = text(&mut fields, "appId")?;
    let room_id = text(&mut fields, "roomId")?;
    let topic = text(&mut fields, "topic")?;
    if check_segment(&topic).is_err() {
        return Err(format!("topic must be 1 to 100 of a-z A-Z 0-9 _ : -, not {}", shown(&topic)));
    }
    let data = fields.remove("data").ok_or("data is required")?;
    let scope_id = match fields.remove("scopeId") {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) => Some(id),
        Some(_) => return Err("scopeId must be a string or null".into()),
    };
    if fields.get("qos").is_some_and(|qos| qos.as_u64().is_none_or(|qos| qos > 2)) {
        return Err("qos must be 0, 1 or 2".into());
    }
    let retain = match fields.get("retain") {
        None => false,
        Some(retain) => retain.as_bool().ok_or("retain must be true or false")?,
    };
    fields.retain(|key, value| matches!(key.as_str(), "filter" | "filters") && !value.is_null());
    Ok(BatchMessage { app_id, room_id, topic, scope_id, data, filters: Value::Object(fields), retain })
}

fn text(fields: &mut Map<String, Value>, key: &str) -> Result<String, String> {
    match fields.remove(key) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        _ => Err(format!("{key} is required, a string that is not empty")),
    }
}
