//! `POST /v1/publish`: messages that a server publishes without a connection.

use bytes::Bytes;
use nolag_core::wire::FrameMap;
use serde_json::json;

use super::{
    BrokerCore,
    publish::{Published, with_filter},
};
use crate::{
    ApiRequest, ApiResponse,
    auth::Resolved,
    control::{BatchMessage, KeyFault, MAX_BODY_BYTES, PublishRefusal, read_batch},
    payload,
};

/// A message of a batch that nothing speaks against.
struct Accepted {
    resolved: Resolved,
    data: Bytes,
    filter: Option<String>,
    retain: bool,
}

impl BrokerCore {
    /// Publishes all messages of a batch, in order, or none. The checks are in Kraken's order.
    pub(super) fn publish_batch(&mut self, request: &ApiRequest<'_>) -> ApiResponse {
        match self.accept_batch(request) {
            Ok(batch) => {
                let ids: Vec<_> =
                    batch.into_iter().map(|message| json!({"id": self.publish_one(message)})).collect();
                ApiResponse::json(200, &json!({"messages": ids}))
            }
            Err(refusal) => {
                let is_too_fast = refusal.code == 42910;
                let is_method = refusal.status == 405;
                let mut response = ApiResponse::from(refusal);
                if is_too_fast {
                    response = response.header("retry-after", "1");
                }
                if is_method {
                    response = response.header("allow", "POST");
                }
                response
            }
        }
    }

    fn accept_batch(&mut self, request: &ApiRequest<'_>) -> Result<Vec<Accepted>, PublishRefusal> {
        let refuse = |status, code, message: &str| Err(PublishRefusal::new(status, code, message));
        if request.method != "POST" {
            return refuse(405, 40500, "method_not_allowed");
        }
        match self.control.check_key(request) {
            Err(KeyFault::Missing) => return refuse(401, 40100, "missing_api_key"),
            Err(KeyFault::Invalid) => return refuse(401, 40100, "invalid_api_key"),
            Ok(()) => {}
        }
        if request.body.len() > MAX_BODY_BYTES {
            return refuse(413, 41300, "body_too_large");
        }
        let batch = read_batch(request.body)?;
        // A batch is short.
        let count = u32::try_from(batch.len()).unwrap_or(u32::MAX);
        let (second, limit) = (self.unix_now(), self.limits.http_publishes_per_second);
        if limit.is_some_and(|limit| !self.http_publishes.count_all(second, count, limit)) {
            return refuse(429, 42910, "rate_limit_exceeded");
        }
        if self.quota_exceeded {
            return refuse(429, 42920, "monthly_quota_exceeded");
        }
        let mut targets = Vec::with_capacity(batch.len());
        for (index, message) in batch.iter().enumerate() {
            let unknown = || PublishRefusal::new(404, 42940, "unknown_topic").at(index);
            targets.push(self.control.target(message).ok_or_else(unknown)?);
        }
        let messages = batch.into_iter().zip(targets).enumerate();
        messages
            .map(|(index, (message, target))| {
                self.accept_message_of_batch(message, target).map_err(|refusal| refusal.at(index))
            })
            .collect()
    }

    fn accept_message_of_batch(
        &self,
        message: BatchMessage,
        resolved: Resolved,
    ) -> Result<Accepted, PublishRefusal> {
        let packed = payload::pack_json(&message.filters);
        let filter = match FrameMap::parse(&packed) {
            Ok(map) => self.publish_filter(&map),
            Err(_) => Err("not readable"),
        };
        let filter = filter.map_err(|_| PublishRefusal::new(400, 42960, "invalid_filter"))?;
        let data = payload::pack_json(&message.data);
        if self.limits.max_data_bytes.is_some_and(|max| data.len() > max) {
            return Err(PublishRefusal::new(413, 42930, "message_too_large"));
        }
        Ok(Accepted { resolved, data, filter, retain: message.retain })
    }

    /// Publishes one message. Returns its id, which it also has if messages carry none.
    fn publish_one(&mut self, message: Accepted) -> String {
        let Accepted { resolved, data, filter, retain } = message;
        let id = self.random.uuid();
        let message = Published {
            topic: with_filter(resolved.base, filter),
            data,
            msg_id: self.record_messages.then(|| id.clone()),
            sender: self.control.api_key_id().into(),
            sender_type: "server",
            hidden_from: None,
        };
        let (message, number) = self.keep(message, resolved.room_id, retain);
        self.deliver(&message, number);
        id
    }
}
