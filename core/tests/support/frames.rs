//! Frames of every kind with fields of every kind.

#![allow(dead_code, reason = "each test binary uses its own part")]

use nolag_core::{
    SecretStr,
    wire::{
        Auth, AuthReply, ClientFrame, ErrorFrame, Filter, LobbyEvent, Message, PresenceEvent, Publish, QoS,
        RawValue, ServerFrame, Subscribe, Text,
    },
};
use proptest::{collection::vec, prelude::*, sample::Index};
use rmpv::Value;

/// Every kind of frame that clients send.
pub(crate) const CLIENT_KINDS: [&str; 14] = [
    "Ack",
    "Auth",
    "BatchAck",
    "GetLobbyPresence",
    "GetPresence",
    "Heartbeat",
    "LobbySubscribe",
    "LobbyUnsubscribe",
    "Presence",
    "Publish",
    "Reauth",
    "SetFilters",
    "Subscribe",
    "Unsubscribe",
];

/// Which kind a frame is. Clippy refuses this when a kind is missing; the new one then needs a line here, one in
/// [`CLIENT_KINDS`], and a way to make it.
#[deny(clippy::wildcard_enum_match_arm, clippy::match_wildcard_for_single_variants)]
pub(crate) fn client_kind(frame: &ClientFrame<'_>) -> &'static str {
    match frame {
        ClientFrame::Ack { .. } => "Ack",
        ClientFrame::Auth { .. } => "Auth",
        ClientFrame::BatchAck { .. } => "BatchAck",
        ClientFrame::GetLobbyPresence { .. } => "GetLobbyPresence",
        ClientFrame::GetPresence { .. } => "GetPresence",
        ClientFrame::Heartbeat { .. } => "Heartbeat",
        ClientFrame::LobbySubscribe { .. } => "LobbySubscribe",
        ClientFrame::LobbyUnsubscribe { .. } => "LobbyUnsubscribe",
        ClientFrame::Presence { .. } => "Presence",
        ClientFrame::Publish { .. } => "Publish",
        ClientFrame::Reauth { .. } => "Reauth",
        ClientFrame::SetFilters { .. } => "SetFilters",
        ClientFrame::Subscribe { .. } => "Subscribe",
        ClientFrame::Unsubscribe { .. } => "Unsubscribe",
        _ => panic!("a kind that no property knows: {frame:?}"),
    }
}

/// Every kind of frame that brokers send, and one that no broker does.
pub(crate) const SERVER_KINDS: [&str; 20] = [
    "Auth",
    "Disconnect",
    "Error",
    "FiltersUpdated",
    "Heartbeat",
    "Hydration",
    "LobbyPresence",
    "LobbyPresenceList",
    "LobbySubscribed",
    "LobbyUnsubscribed",
    "Message",
    "Presence",
    "PresenceList",
    "Published",
    "Reauth",
    "ReplayEnd",
    "ReplayStart",
    "Subscribed",
    "Unknown",
    "Unsubscribed",
];

/// Which kind a frame is. Clippy refuses this when a kind is missing; the new one then needs a line here, one in
/// [`SERVER_KINDS`], and a way to make it.
#[deny(clippy::wildcard_enum_match_arm, clippy::match_wildcard_for_single_variants)]
pub(crate) fn server_kind(frame: &ServerFrame<'_>) -> &'static str {
    match frame {
        ServerFrame::Auth { .. } => "Auth",
        ServerFrame::Disconnect { .. } => "Disconnect",
        ServerFrame::Error { .. } => "Error",
        ServerFrame::FiltersUpdated { .. } => "FiltersUpdated",
        ServerFrame::Heartbeat { .. } => "Heartbeat",
        ServerFrame::Hydration { .. } => "Hydration",
        ServerFrame::LobbyPresence { .. } => "LobbyPresence",
        ServerFrame::LobbyPresenceList { .. } => "LobbyPresenceList",
        ServerFrame::LobbySubscribed { .. } => "LobbySubscribed",
        ServerFrame::LobbyUnsubscribed { .. } => "LobbyUnsubscribed",
        ServerFrame::Message { .. } => "Message",
        ServerFrame::Presence { .. } => "Presence",
        ServerFrame::PresenceList { .. } => "PresenceList",
        ServerFrame::Published { .. } => "Published",
        ServerFrame::Reauth { .. } => "Reauth",
        ServerFrame::ReplayEnd { .. } => "ReplayEnd",
        ServerFrame::ReplayStart { .. } => "ReplayStart",
        ServerFrame::Subscribed { .. } => "Subscribed",
        ServerFrame::Unknown { .. } => "Unknown",
        ServerFrame::Unsubscribed { .. } => "Unsubscribed",
        _ => panic!("a kind that no property knows: {frame:?}"),
    }
}

/// What the fields of a generated frame are taken from.
#[derive(Debug)]
pub(crate) struct Pool {
    texts: Vec<String>,
    /// Encoded values of every kind.
    values: Vec<Vec<u8>>,
    /// Encoded values that are neither text nor nil, as brokers echo them in place of names.
    odd_names: Vec<Vec<u8>>,
    numbers: Vec<u64>,
    picks: Vec<Index>,
}

/// Takes fields from a pool, one after the other.
pub(crate) struct Draw<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) at: usize,
}

impl<'a> Draw<'a> {
    fn pick(&mut self) -> &'a Index {
        self.at += 1;
        &self.pool.picks[self.at % self.pool.picks.len()]
    }

    fn one<T>(&mut self, from: &'a [T]) -> &'a T {
        self.pick().get(from)
    }

    pub(crate) fn bool(&mut self) -> bool {
        self.pick().index(2) == 0
    }

    fn some<T>(&mut self, value: T) -> Option<T> {
        self.bool().then_some(value)
    }

    fn str(&mut self) -> &'a str {
        self.one(&self.pool.texts).as_str()
    }

    fn strs(&mut self) -> Vec<&'a str> {
        (0..self.pick().index(4)).map(|_| self.str()).collect()
    }

    fn value(&mut self) -> RawValue<'a> {
        RawValue::parse(self.one(&self.pool.values).as_slice()).expect("a value")
    }

    fn present(&mut self) -> Option<RawValue<'a>> {
        let value = self.value();
        self.some(value).filter(|value| !value.is_nil())
    }

    fn name(&mut self) -> Text<'a> {
        match self.bool() {
            true => Text::Str(self.str()),
            false => {
                Text::Other(RawValue::parse(self.one(&self.pool.odd_names).as_slice()).expect("a value"))
            }
        }
    }

    fn number(&mut self) -> u64 {
        *self.one(&self.pool.numbers)
    }

    fn qos(&mut self) -> Option<QoS> {
        QoS::try_from(self.pick().index(4) as u8).ok()
    }

    fn filters(&mut self) -> Vec<Filter> {
        let mut filter = || match self.bool() {
            true => Filter::from(self.str()),
            false => Filter::All((0..2 + self.pick().index(3)).map(|_| self.str().into()).collect()),
        };
        let (first, second) = (filter(), filter());
        match self.pick().index(3) {
            0 => vec![],
            1 => vec![first],
            _ => vec![first, second],
        }
    }

    pub(crate) fn opt_str(&mut self) -> Option<&'a str> {
        let text = self.str();
        self.some(text)
    }

    fn opt_name(&mut self) -> Option<Text<'a>> {
        let name = self.name();
        self.some(name)
    }

    pub(crate) fn opt_bool(&mut self) -> Option<bool> {
        let value = self.bool();
        self.some(value)
    }

    fn opt_number(&mut self) -> Option<u64> {
        let number = self.number();
        self.some(number)
    }

    pub(crate) fn client_frame(&mut self) -> ClientFrame<'a> {
        let kind = self.one(&CLIENT_KINDS);
        self.client_frame_of(kind)
    }

    pub(crate) fn client_frame_of(&mut self, kind: &str) -> ClientFrame<'a> {
        match kind {
            "Ack" => ClientFrame::Ack { msg_id: self.str() },
            "Auth" => ClientFrame::Auth(Auth {
                token: SecretStr::new(self.str()),
                protocol_version: self.opt_number().map(|n| (n as u32).max(1)),
                reconnect: self.bool(),
                client_id: self.opt_str(),
                project_id: self.opt_str(),
                load_balance: self.bool(),
                load_balance_group: self.opt_str(),
            }),
            "BatchAck" => ClientFrame::BatchAck { msg_ids: self.strs() },
            "GetLobbyPresence" => ClientFrame::GetLobbyPresence { lobby_id: self.str() },
            "GetPresence" => ClientFrame::GetPresence { room_id: self.opt_str() },
            "Heartbeat" => ClientFrame::Heartbeat,
            "LobbySubscribe" => ClientFrame::LobbySubscribe { lobby_id: self.str() },
            "LobbyUnsubscribe" => ClientFrame::LobbyUnsubscribe { lobby_id: self.str() },
            "Presence" => ClientFrame::Presence { room_id: self.opt_str(), data: self.value() },
            "Publish" => ClientFrame::Publish(Publish {
                topic: self.str(),
                data: self.value(),
                qos: self.qos(),
                retain: self.bool(),
                echo: self.bool(),
                filter: self.opt_str(),
                filters: self.strs(),
                msg_ref: self.opt_str().filter(|text| !text.is_empty()),
            }),
            "Reauth" => ClientFrame::Reauth { token: SecretStr::new(self.str()) },
            "SetFilters" => ClientFrame::SetFilters { topic: self.str(), filters: self.filters() },
            "Subscribe" => ClientFrame::Subscribe(Subscribe {
                topic: self.str(),
                qos: self.qos(),
                filters: self.filters(),
                load_balance: self.bool(),
                load_balance_group: self.opt_str(),
            }),
            "Unsubscribe" => ClientFrame::Unsubscribe { topic: self.str() },
            other => panic!("no way to make {other}"),
        }
    }

    pub(crate) fn server_frame(&mut self) -> ServerFrame<'a> {
        let kind = self.one(&SERVER_KINDS);
        self.server_frame_of(kind)
    }

    pub(crate) fn server_frame_of(&mut self, kind: &str) -> ServerFrame<'a> {
        match kind {
            "Auth" => ServerFrame::Auth(AuthReply {
                success: self.bool(),
                error: self.opt_str(),
                actor_token_id: self.opt_str(),
                project_id: self.opt_str(),
                actor_type: self.opt_str(),
                protocol_version: self.opt_number().map(|n| n as u32),
                restored_subscriptions: Some(self.value()),
            }),
            "Disconnect" => ServerFrame::Disconnect { reason: self.opt_str() },
            "Error" => ServerFrame::Error(ErrorFrame {
                error: self.str(),
                code: self.opt_number().map(|n| n as u32),
                topic: self.opt_name(),
                hint: self.opt_str(),
                msg_ref: self.opt_name(),
                max_size_bytes: self.opt_number(),
                detail: self.opt_name(),
                lobby_id: self.opt_name(),
            }),
            "FiltersUpdated" => ServerFrame::FiltersUpdated { topic: self.name(), filters: self.value() },
            "Heartbeat" => ServerFrame::Heartbeat,
            "Hydration" => ServerFrame::Hydration { topic: self.name(), data: self.value() },
            "LobbyPresence" => ServerFrame::LobbyPresence(LobbyEvent {
                event: self.str(),
                lobby_id: self.opt_name(),
                room_id: self.opt_name(),
                actor_id: self.opt_str(),
                data: self.value(),
            }),
            "LobbyPresenceList" => {
                ServerFrame::LobbyPresenceList { lobby_id: self.name(), presence: self.value() }
            }
            "LobbySubscribed" => {
                ServerFrame::LobbySubscribed { lobby_id: self.name(), presence: self.value() }
            }
            "LobbyUnsubscribed" => ServerFrame::LobbyUnsubscribed { lobby_id: self.name() },
            "Message" => ServerFrame::Message(Message {
                topic: self.name(),
                data: self.value(),
                msg_id: self.opt_str(),
                requires_ack: self.opt_bool(),
                filter: self.opt_str(),
                is_replay: self.opt_bool(),
                from: self.opt_str(),
                from_type: self.opt_str(),
            }),
            "Presence" => ServerFrame::Presence(PresenceEvent {
                event: self.str(),
                actor_token_id: self.opt_str(),
                presence: Some(self.value()),
                status: self.opt_str(),
                capabilities: Some(self.value()),
                advertisement_version: Some(self.value()),
            }),
            "PresenceList" => ServerFrame::PresenceList { room_id: self.opt_name(), data: self.value() },
            "Published" => ServerFrame::Published { topic: self.name(), msg_ref: self.name() },
            "Reauth" => ServerFrame::Reauth {
                success: self.bool(),
                error: self.opt_str(),
                auth_expires_at: self.opt_number(),
            },
            "ReplayEnd" => ServerFrame::ReplayEnd { replayed: self.number() },
            "ReplayStart" => ServerFrame::ReplayStart {
                count: self.number(),
                oldest_timestamp: self.present(),
                newest_timestamp: self.present(),
            },
            "Subscribed" => ServerFrame::Subscribed { topic: self.name(), load_balance: self.bool() },
            "Unknown" => ServerFrame::Unknown { frame_type: "frameOfTomorrow" },
            "Unsubscribed" => ServerFrame::Unsubscribed { topic: self.name() },
            other => panic!("no way to make {other}"),
        }
    }
}

pub(crate) fn encoded(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    rmpv::encode::write_value(&mut out, value).expect("a vector takes everything");
    out
}

/// Text of every length class and with every kind of character, among it what the protocol itself uses.
pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => any::<String>(),
        1 => vec(any::<char>(), 0..400).prop_map(String::from_iter),
        8 => prop::sample::select(vec!["", "type", "auth", "#", "\0", "a/b/c", "null", "\u{14}", "🚢"])
            .prop_map(String::from),
    ]
}

pub(crate) fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Nil),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f32>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
        vec(any::<u8>(), 0..300).prop_map(Value::from),
        (any::<i8>(), vec(any::<u8>(), 0..40)).prop_map(|(kind, bytes)| Value::Ext(kind, bytes)),
    ]
}

pub(crate) fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 24, 20, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..20).prop_map(Value::Array),
            vec((inner.clone(), inner), 0..20).prop_map(Value::Map),
        ]
    })
}

pub(crate) fn pool() -> impl Strategy<Value = Pool> {
    let odd = scalar().prop_filter("text and nil are ordinary", |value| !value.is_str() && !value.is_nil());
    (
        vec(text(), 1..8),
        vec(value().prop_map(|value| encoded(&value)), 1..4),
        vec(odd.prop_map(|value| encoded(&value)), 1..4),
        vec(prop_oneof![any::<u64>(), 0..300u64], 1..4),
        vec(any::<Index>(), 30),
    )
        .prop_map(|(texts, values, odd_names, numbers, picks)| Pool {
            texts,
            values,
            odd_names,
            numbers,
            picks,
        })
}
