//! Frames that clients send.

use alloc::{string::String, vec::Vec};
use core::fmt;

use bytes::BytesMut;

use super::{Filter, FrameMap, Key, QoS, RawValue, WireError, map::MapWriter, value::Kind};
use crate::SecretStr;

/// A frame from a client (protocol-facts §3).
///
/// `decode` is strict: what it accepts has the types and ranges that the protocol names. Kraken is laxer in places;
/// a broker that imitates it reads [`FrameMap`] instead.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientFrame<'a> {
    /// `ack`: one message was processed. Never answered.
    Ack {
        /// The message's `msgId`.
        msg_id: &'a str,
    },
    /// `auth`: the first frame of a connection.
    Auth(Auth<'a>),
    /// `batchAck`: several messages were processed. Never answered.
    BatchAck {
        /// The messages' `msgId`s.
        msg_ids: Vec<&'a str>,
    },
    /// `getLobbyPresence`: asks for a lobby's snapshot.
    GetLobbyPresence {
        /// The lobby's slug.
        lobby_id: &'a str,
    },
    /// `getPresence`: asks who is in a room.
    GetPresence {
        /// The room's slug; without it the reply is empty.
        room_id: Option<&'a str>,
    },
    /// The empty message.
    Heartbeat,
    /// `lobbySubscribe`.
    LobbySubscribe {
        /// The lobby's slug.
        lobby_id: &'a str,
    },
    /// `lobbyUnsubscribe`.
    LobbyUnsubscribe {
        /// The lobby's slug.
        lobby_id: &'a str,
    },
    /// `presence`: sets this connection's presence in a room.
    Presence {
        /// The room's slug; without it nothing is broadcast.
        room_id: Option<&'a str>,
        /// The presence, normally a map. `nil` is broadcast, it does not leave.
        data: RawValue<'a>,
    },
    /// `publish`.
    Publish(Publish<'a>),
    /// `reauth`: a fresh token for the same actor. Brokers before client tokens ignore it.
    Reauth {
        /// The new token.
        token: SecretStr<'a>,
    },
    /// `setFilters`: replaces the filters of a live subscription.
    SetFilters {
        /// The subscribed topic.
        topic: &'a str,
        /// The whole new list; empty means unfiltered.
        filters: Vec<Filter>,
    },
    /// `subscribe`.
    Subscribe(Subscribe<'a>),
    /// `unsubscribe`. Always confirmed.
    Unsubscribe {
        /// The topic as subscribed.
        topic: &'a str,
    },
}

/// Fields of `auth` (protocol-facts §2.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Auth<'a> {
    /// The actor's token.
    pub token: SecretStr<'a>,
    /// Highest protocol version that the client speaks; absent means 1.
    pub protocol_version: Option<u32>,
    /// Asks the broker to restore subscriptions.
    pub reconnect: bool,
    /// Names the client instance, from 0.8 on: the key of sessions and of restored subscriptions.
    pub client_id: Option<&'a str>,
    /// Only used in a broker's logs.
    pub project_id: Option<&'a str>,
    /// Sent by the Python SDK, ignored by brokers.
    pub load_balance: bool,
    /// Sent by the Python SDK, ignored by brokers.
    pub load_balance_group: Option<&'a str>,
}

/// Fields of `subscribe`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subscribe<'a> {
    /// `app/room/topic`; MQTT wildcards where a grant matches.
    pub topic: &'a str,
    /// Absent means 1.
    pub qos: Option<QoS>,
    /// Empty means unfiltered.
    pub filters: Vec<Filter>,
    /// One member of the group gets each message.
    pub load_balance: bool,
    /// Absent means the actor's id.
    pub load_balance_group: Option<&'a str>,
}

/// Fields of `publish`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish<'a> {
    /// `app/room/topic`.
    pub topic: &'a str,
    /// The payload. Its packed size is what the broker limits.
    pub data: RawValue<'a>,
    /// Absent means 1.
    pub qos: Option<QoS>,
    /// Keeps the message for later subscribers.
    pub retain: bool,
    /// `false` spares this connection its own copy.
    pub echo: bool,
    /// Routes to subscribers of exactly this filter; wins over `filters`.
    pub filter: Option<&'a str>,
    /// Routes to subscribers of the same AND group.
    pub filters: Vec<&'a str>,
    /// Asks for `published` and is echoed in errors. Not empty.
    pub msg_ref: Option<&'a str>,
}

impl<'a> Publish<'a> {
    /// A publish with every option at its default.
    pub fn new(topic: &'a str, data: RawValue<'a>) -> Self {
        Self {
            topic,
            data,
            qos: None,
            retain: false,
            echo: true,
            filter: None,
            filters: Vec::new(),
            msg_ref: None,
        }
    }
}

impl<'a> ClientFrame<'a> {
    /// Reads one message. Unknown fields are skipped.
    ///
    /// # Errors
    /// A [`FrameError`] when the bytes are not a MessagePack map, the type is unknown, a required field is missing, or
    /// a known field has another type or is out of its range.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FrameError> {
        if bytes.is_empty() {
            return Ok(Self::Heartbeat);
        }
        let fields = Fields(FrameMap::parse(bytes)?);
        let frame_type = fields.0.str(Key::Type).ok_or(WireError::NoType)?;
        Ok(match frame_type {
            "ack" => Self::Ack { msg_id: fields.required_str(Key::MsgId)? },
            "auth" => Self::Auth(Auth {
                token: SecretStr::new(fields.required_str(Key::Token)?),
                protocol_version: fields.version()?,
                reconnect: fields.bool(Key::Reconnect, false)?,
                client_id: fields.str(Key::ClientId)?,
                project_id: fields.str(Key::ProjectId)?,
                load_balance: fields.bool(Key::LoadBalance, false)?,
                load_balance_group: fields.str(Key::LoadBalanceGroup)?,
            }),
            "batchAck" => Self::BatchAck { msg_ids: fields.required_strs(Key::MsgIds)? },
            "getLobbyPresence" => Self::GetLobbyPresence { lobby_id: fields.required_str(Key::LobbyId)? },
            "getPresence" => Self::GetPresence { room_id: fields.str(Key::RoomId)? },
            "lobbySubscribe" => Self::LobbySubscribe { lobby_id: fields.required_str(Key::LobbyId)? },
            "lobbyUnsubscribe" => Self::LobbyUnsubscribe { lobby_id: fields.required_str(Key::LobbyId)? },
            "presence" => {
                Self::Presence { room_id: fields.str(Key::RoomId)?, data: fields.required(Key::Data)? }
            }
            "publish" => Self::Publish(Publish {
                topic: fields.required_str(Key::Topic)?,
                data: fields.required(Key::Data)?,
                qos: fields.qos()?,
                retain: fields.bool(Key::Retain, false)?,
                echo: fields.bool(Key::Echo, true)?,
                filter: fields.str(Key::Filter)?,
                filters: fields.strs(Key::Filters)?,
                msg_ref: fields.msg_ref()?,
            }),
            "reauth" => Self::Reauth { token: SecretStr::new(fields.required_str(Key::Token)?) },
            "setFilters" => Self::SetFilters {
                topic: fields.required_str(Key::Topic)?,
                filters: fields.required(Key::Filters).and_then(|_| fields.filters())?,
            },
            "subscribe" => Self::Subscribe(Subscribe {
                topic: fields.required_str(Key::Topic)?,
                qos: fields.qos()?,
                filters: fields.filters()?,
                load_balance: fields.bool(Key::LoadBalance, false)?,
                load_balance_group: fields.str(Key::LoadBalanceGroup)?,
            }),
            "unsubscribe" => Self::Unsubscribe { topic: fields.required_str(Key::Topic)? },
            other => return Err(FrameError::UnknownType(other.into())),
        })
    }

    /// Appends the frame as one message. Fields at their default are left out.
    pub fn encode(&self, out: &mut BytesMut) {
        let mut map = match self {
            Self::Heartbeat => return,
            frame => MapWriter::new(out, frame.type_name()),
        };
        match self {
            Self::Heartbeat => {}
            Self::Ack { msg_id } => map.str(Key::MsgId, msg_id),
            Self::Auth(auth) => {
                map.str(Key::Token, auth.token.expose());
                map.opt_uint(Key::ProtocolVersion, auth.protocol_version.map(u64::from));
                map.opt_bool(Key::Reconnect, auth.reconnect.then_some(true));
                map.opt_str(Key::ClientId, auth.client_id);
                map.opt_str(Key::ProjectId, auth.project_id);
                map.opt_bool(Key::LoadBalance, auth.load_balance.then_some(true));
                map.opt_str(Key::LoadBalanceGroup, auth.load_balance_group);
            }
            Self::BatchAck { msg_ids } => map.strs(Key::MsgIds, msg_ids.iter().copied()),
            Self::GetLobbyPresence { lobby_id }
            | Self::LobbySubscribe { lobby_id }
            | Self::LobbyUnsubscribe { lobby_id } => map.str(Key::LobbyId, lobby_id),
            Self::GetPresence { room_id } => map.opt_str(Key::RoomId, *room_id),
            Self::Presence { room_id, data } => {
                map.opt_str(Key::RoomId, *room_id);
                map.value(Key::Data, *data);
            }
            Self::Publish(publish) => {
                map.str(Key::Topic, publish.topic);
                map.value(Key::Data, publish.data);
                map.opt_uint(Key::Qos, publish.qos.map(|qos| qos.as_u8().into()));
                map.opt_bool(Key::Retain, publish.retain.then_some(true));
                map.opt_bool(Key::Echo, (!publish.echo).then_some(false));
                map.opt_str(Key::Filter, publish.filter);
                if !publish.filters.is_empty() {
                    map.strs(Key::Filters, publish.filters.iter().copied());
                }
                map.opt_str(Key::MsgRef, publish.msg_ref);
            }
            Self::Reauth { token } => map.str(Key::Token, token.expose()),
            Self::SetFilters { topic, filters } => {
                map.str(Key::Topic, topic);
                map.filters(Key::Filters, filters);
            }
            Self::Subscribe(subscribe) => {
                map.str(Key::Topic, subscribe.topic);
                map.opt_uint(Key::Qos, subscribe.qos.map(|qos| qos.as_u8().into()));
                if !subscribe.filters.is_empty() {
                    map.filters(Key::Filters, &subscribe.filters);
                }
                map.opt_bool(Key::LoadBalance, subscribe.load_balance.then_some(true));
                map.opt_str(Key::LoadBalanceGroup, subscribe.load_balance_group);
            }
            Self::Unsubscribe { topic } => map.str(Key::Topic, topic),
        }
    }

    /// The text under `type`; empty for the heartbeat.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Ack { .. } => "ack",
            Self::Auth(_) => "auth",
            Self::BatchAck { .. } => "batchAck",
            Self::GetLobbyPresence { .. } => "getLobbyPresence",
            Self::GetPresence { .. } => "getPresence",
            Self::Heartbeat => "",
            Self::LobbySubscribe { .. } => "lobbySubscribe",
            Self::LobbyUnsubscribe { .. } => "lobbyUnsubscribe",
            Self::Presence { .. } => "presence",
            Self::Publish(_) => "publish",
            Self::Reauth { .. } => "reauth",
            Self::SetFilters { .. } => "setFilters",
            Self::Subscribe(_) => "subscribe",
            Self::Unsubscribe { .. } => "unsubscribe",
        }
    }
}

/// Why a message is not a well-formed client frame.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// A required field is absent.
    Missing(Key),
    /// A field has the right type and a value outside its range.
    OutOfRange(Key),
    /// A type that the protocol does not name.
    UnknownType(String),
    /// Not a MessagePack map with a type.
    Wire(WireError),
    /// A field has another type than the protocol names.
    WrongType(Key),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(key) => write!(f, "required field \"{}\" is missing", key.as_str()),
            Self::OutOfRange(key) => write!(f, "the value of \"{}\" is out of range", key.as_str()),
            Self::UnknownType(name) => write!(f, "unknown frame type {name:?}"),
            Self::Wire(error) => error.fmt(f),
            Self::WrongType(key) => write!(f, "field \"{}\" has the wrong type", key.as_str()),
        }
    }
}

impl core::error::Error for FrameError {}

impl From<WireError> for FrameError {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

/// Strict reading of fields: absent and `nil` are the default, another type is an error.
struct Fields<'a>(FrameMap<'a>);

impl<'a> Fields<'a> {
    fn required(&self, key: Key) -> Result<RawValue<'a>, FrameError> {
        self.0.get(key).ok_or(FrameError::Missing(key))
    }

    fn required_str(&self, key: Key) -> Result<&'a str, FrameError> {
        self.required(key)?.as_str().ok_or(FrameError::WrongType(key))
    }

    fn str(&self, key: Key) -> Result<Option<&'a str>, FrameError> {
        let text = |value: RawValue<'a>| value.as_str().ok_or(FrameError::WrongType(key));
        self.0.present(key).map(text).transpose()
    }

    fn msg_ref(&self) -> Result<Option<&'a str>, FrameError> {
        match self.str(Key::MsgRef)? {
            Some("") => Err(FrameError::OutOfRange(Key::MsgRef)),
            msg_ref => Ok(msg_ref),
        }
    }

    fn bool(&self, key: Key, default: bool) -> Result<bool, FrameError> {
        match self.0.present(key) {
            None => Ok(default),
            Some(value) => value.as_bool().ok_or(FrameError::WrongType(key)),
        }
    }

    fn uint(&self, key: Key) -> Result<Option<u64>, FrameError> {
        match self.0.present(key) {
            None => Ok(None),
            Some(value) if value.kind() != Kind::Integer => Err(FrameError::WrongType(key)),
            Some(value) => value.as_u64().map(Some).ok_or(FrameError::OutOfRange(key)),
        }
    }

    fn qos(&self) -> Result<Option<QoS>, FrameError> {
        let level = |n: u64| u8::try_from(n).ok().and_then(|n| QoS::try_from(n).ok());
        match self.uint(Key::Qos)? {
            None => Ok(None),
            Some(n) => level(n).map(Some).ok_or(FrameError::OutOfRange(Key::Qos)),
        }
    }

    fn version(&self) -> Result<Option<u32>, FrameError> {
        match self.uint(Key::ProtocolVersion)? {
            None => Ok(None),
            Some(n) => match u32::try_from(n) {
                Ok(n) if n >= 1 => Ok(Some(n)),
                _ => Err(FrameError::OutOfRange(Key::ProtocolVersion)),
            },
        }
    }

    fn strs(&self, key: Key) -> Result<Vec<&'a str>, FrameError> {
        let Some(value) = self.0.present(key) else { return Ok(Vec::new()) };
        let texts = value.items().and_then(|items| items.map(RawValue::as_str).collect());
        texts.ok_or(FrameError::WrongType(key))
    }

    fn required_strs(&self, key: Key) -> Result<Vec<&'a str>, FrameError> {
        match self.required(key)?.is_nil() {
            true => Err(FrameError::WrongType(key)),
            false => self.strs(key),
        }
    }

    fn filters(&self) -> Result<Vec<Filter>, FrameError> {
        match self.0.present(Key::Filters) {
            None => Ok(Vec::new()),
            Some(value) => Filter::parse_list(value).ok_or(FrameError::WrongType(Key::Filters)),
        }
    }
}
