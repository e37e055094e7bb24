//! What the benches share: frames, the least work that could be done with them, and a client that is connected.
#![allow(dead_code, missing_docs, reason = "each bench uses a part of it")]

pub(crate) mod minimal;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use nolag_core::{
    Action, ClientCore, Config, Event, Instant, Message, Payload, Publish, Subscribe, TransportEvent,
    TransportEventKind, TransportId,
    wire::{self, AuthReply, ClientFrame, RawValue, ServerFrame, Text, write},
};

pub(crate) const TOPIC: &str = "demo/general/messages";

/// A `str` of that many bytes, packed.
pub(crate) fn text(size: usize) -> Bytes {
    let mut out = BytesMut::new();
    write::str(&mut out, &"x".repeat(size));
    out.freeze()
}

pub(crate) fn payload(size: usize) -> Payload {
    Payload::from_msgpack(text(size)).expect("one value")
}

/// What Kraken sends for a message whose data has that size.
pub(crate) fn message_frame(topic: &str, size: usize) -> Bytes {
    let data = text(size);
    encode(&ServerFrame::Message(wire::Message {
        topic: Text::Str(topic),
        data: RawValue::parse(&data).expect("one value"),
        msg_id: None,
        requires_ack: None,
        filter: None,
        is_replay: None,
        from: Some("3f8a2c10-5d7e-4b6a-9c1d-0e2f4a6b8c9d"),
        from_type: Some("actor"),
    }))
}

pub(crate) fn encode(frame: &ServerFrame<'_>) -> Bytes {
    let mut out = BytesMut::new();
    frame.encode(&mut out);
    out.freeze()
}

/// A client in a session.
pub(crate) struct Client {
    pub(crate) core: ClientCore,
    pub(crate) now: Instant,
    transport: TransportId,
    out: BytesMut,
}

impl Client {
    pub(crate) fn connected() -> Self {
        let mut config = Config::new("a-token");
        config.publish_rate = None;
        config.limits.max_pending = usize::MAX;
        config.limits.max_outbound_bytes = usize::MAX;
        let now = Instant::ZERO;
        let mut core = ClientCore::new(config, 7, now).expect("a sound configuration");
        core.connect(now).expect("idle");
        let Some(Action::OpenTransport { id: transport }) = core.poll_action() else {
            panic!("nothing to open")
        };
        let mut client = Self { core, now, transport, out: BytesMut::with_capacity(1 << 16) };
        client.handle(TransportEventKind::Opened);
        client.transmit();
        client.receive(encode(&ServerFrame::Auth(AuthReply {
            success: true,
            actor_token_id: Some("actor-1"),
            protocol_version: Some(2),
            ..AuthReply::default()
        })));
        client.transmit();
        client.events();
        client
    }

    pub(crate) fn subscribed(topics: &[String]) -> Self {
        let mut client = Self::connected();
        for topic in topics {
            client.core.subscribe(client.now, Subscribe::new(topic.as_str())).expect("accepted");
            client.transmit();
            client.receive(encode(&ServerFrame::Subscribed { topic: Text::Str(topic), load_balance: false }));
            client.events();
        }
        client
    }

    pub(crate) fn handle(&mut self, kind: TransportEventKind) {
        self.core.handle_transport(self.now, TransportEvent { id: self.transport, kind });
    }

    pub(crate) fn receive(&mut self, frame: Bytes) {
        self.handle(TransportEventKind::Message(frame));
    }

    /// Bytes in, a message out.
    pub(crate) fn deliver(&mut self, frame: &Bytes) -> Message {
        self.receive(frame.clone());
        self.core.poll_message().expect("a message")
    }

    /// A command in, bytes out, which are gone afterwards.
    pub(crate) fn publish(&mut self, publish: Publish) -> usize {
        self.core.publish(self.now, publish).expect("accepted");
        self.transmit()
    }

    /// A publish from the command to the outcome.
    pub(crate) fn publish_acked(&mut self, publish: Publish) -> Event {
        self.core.publish(self.now, publish).expect("accepted");
        self.core.poll_transmit(self.now, &mut self.out).expect("a frame");
        let Ok(ClientFrame::Publish(sent)) = ClientFrame::decode(&self.out) else { panic!("not a publish") };
        let msg_ref = sent.msg_ref.expect("tracked");
        let mut reply = BytesMut::with_capacity(128);
        ServerFrame::Published { topic: Text::Str(sent.topic), msg_ref: Text::Str(msg_ref) }
            .encode(&mut reply);
        self.out.clear();
        self.receive(reply.freeze());
        self.core.poll_event().expect("the outcome")
    }

    /// Sends everything; says how many bytes that were.
    pub(crate) fn transmit(&mut self) -> usize {
        let mut bytes = 0;
        while let Some(transmit) = self.core.poll_transmit(self.now, &mut self.out) {
            bytes += transmit.len;
            self.out.clear();
        }
        bytes
    }

    pub(crate) fn events(&mut self) -> usize {
        std::iter::from_fn(|| self.core.poll_event()).count()
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
    }
}

/// An untracked publish.
pub(crate) fn untracked(payload: &Payload) -> Publish {
    let mut publish = Publish::new(TOPIC, payload.clone());
    publish.tracked = false;
    publish
}

/// What a broker sends when somebody's presence changes.
pub(crate) fn presence_frame(event: &str, actor: &str, data: &Payload) -> Bytes {
    encode(&ServerFrame::Presence(wire::PresenceEvent {
        event,
        actor_token_id: Some(actor),
        presence: Some(data.raw()),
        status: None,
        capabilities: None,
        advertisement_version: None,
    }))
}
