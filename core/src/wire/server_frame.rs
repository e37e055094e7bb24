//! Frames that brokers send.

use alloc::vec::Vec;

use bytes::BytesMut;

use super::{Filter, FrameMap, Key, QoS, RawValue, Text, WireError, map::MapWriter};

/// A frame from a broker (protocol-facts §4).
///
/// `decode` is lenient, as the reader of a network must be: unknown types become [`Unknown`](Self::Unknown), unknown
/// fields are skipped, a known field of another type counts as absent, and a name of another type is kept as it is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ServerFrame<'a> {
    /// `auth`: the answer to the handshake.
    Auth(AuthReply<'a>),
    /// `disconnect`: the broker is about to close.
    Disconnect {
        /// Why, for example `token_expired`.
        reason: Option<&'a str>,
    },
    /// `error`.
    Error(ErrorFrame<'a>),
    /// `filtersUpdated`: confirms `setFilters`.
    FiltersUpdated {
        /// The topic as sent.
        topic: Text<'a>,
        /// The list as sent; see [`Filter::parse_list`].
        filters: RawValue<'a>,
    },
    /// The empty message: answers a heartbeat.
    Heartbeat,
    /// `hydration`: a webhook's answer for a topic just subscribed.
    Hydration {
        /// The bare topic name, without app and room.
        topic: Text<'a>,
        /// What the webhook returned.
        data: RawValue<'a>,
    },
    /// `lobbyPresence`: somebody joined, changed or left in one of a lobby's rooms.
    LobbyPresence(LobbyEvent<'a>),
    /// `lobbyPresenceList`: answers `getLobbyPresence`.
    LobbyPresenceList {
        /// The lobby's slug as sent.
        lobby_id: Text<'a>,
        /// Rooms, actors and presence; see [`LobbyMembers`].
        presence: RawValue<'a>,
    },
    /// `lobbySubscribed`: confirms `lobbySubscribe` with a snapshot, which can be empty at first.
    LobbySubscribed {
        /// The lobby's slug as sent.
        lobby_id: Text<'a>,
        /// Rooms, actors and presence; see [`LobbyMembers`].
        presence: RawValue<'a>,
    },
    /// `lobbyUnsubscribed`.
    LobbyUnsubscribed {
        /// The lobby's slug as sent.
        lobby_id: Text<'a>,
    },
    /// `message`: a delivery.
    Message(Message<'a>),
    /// `presence`: somebody joined, changed or left in the room where this connection is present.
    Presence(PresenceEvent<'a>),
    /// `presenceList`: answers `getPresence`.
    PresenceList {
        /// The room's slug as sent; absent for a request without one.
        room_id: Option<Text<'a>>,
        /// The members; see [`PresenceEntry::parse_list`].
        data: RawValue<'a>,
    },
    /// `published`: a publish with a `msgRef` was accepted.
    Published {
        /// The topic as sent.
        topic: Text<'a>,
        /// The reference as sent.
        msg_ref: Text<'a>,
    },
    /// `reauth`: the answer to a fresh token.
    Reauth {
        /// Whether it was accepted.
        success: bool,
        /// Why not, for example `actor_mismatch`.
        error: Option<&'a str>,
        /// When the new token expires, in Unix seconds.
        auth_expires_at: Option<u64>,
    },
    /// `replayEnd`.
    ReplayEnd {
        /// Messages replayed. Documents call it `count`; both are read.
        replayed: u64,
    },
    /// `replayStart`.
    ReplayStart {
        /// Messages that will follow.
        count: u64,
        /// Documented, never seen.
        oldest_timestamp: Option<RawValue<'a>>,
        /// Documented, never seen.
        newest_timestamp: Option<RawValue<'a>>,
    },
    /// `subscribed`.
    Subscribed {
        /// The topic as sent.
        topic: Text<'a>,
        /// Whether the subscription shares its messages with a group.
        load_balance: bool,
    },
    /// A type that this crate does not know.
    Unknown {
        /// The text under `type`.
        frame_type: &'a str,
    },
    /// `unsubscribed`.
    Unsubscribed {
        /// The topic as sent.
        topic: Text<'a>,
    },
}

/// Fields of the `auth` reply (protocol-facts §2.2).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AuthReply<'a> {
    /// Whether the token was accepted.
    pub success: bool,
    /// Why not, for example `access_denied`.
    pub error: Option<&'a str>,
    /// The actor's id.
    pub actor_token_id: Option<&'a str>,
    /// The actor's project.
    pub project_id: Option<&'a str>,
    /// For example `user` or `agent`; new types may appear.
    pub actor_type: Option<&'a str>,
    /// The version in force; absent means 1.
    pub protocol_version: Option<u32>,
    /// Subscriptions that the broker restored; see [`RestoredSubscription::parse_list`].
    pub restored_subscriptions: Option<RawValue<'a>>,
}

/// Fields of `error` (protocol-facts §5).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ErrorFrame<'a> {
    /// The machine name, for example `unknown_topic`.
    pub error: &'a str,
    /// The number, for example 42940.
    pub code: Option<u32>,
    /// The topic that it is about.
    pub topic: Option<Text<'a>>,
    /// Advice for people.
    pub hint: Option<&'a str>,
    /// The publish that it is about.
    pub msg_ref: Option<Text<'a>>,
    /// The limit that was passed, in bytes.
    pub max_size_bytes: Option<u64>,
    /// More about the fault.
    pub detail: Option<Text<'a>>,
    /// The lobby that it is about.
    pub lobby_id: Option<Text<'a>>,
}

/// Fields of `message`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Message<'a> {
    /// The pattern as subscribed. Some deliveries of 0.4 carry a broker-internal topic instead.
    pub topic: Text<'a>,
    /// The payload.
    pub data: RawValue<'a>,
    /// Present when the broker records messages.
    pub msg_id: Option<&'a str>,
    /// Whether the broker wants an `ack`.
    pub requires_ack: Option<bool>,
    /// The filter it was published with. Old brokers write `#` where there is none.
    pub filter: Option<&'a str>,
    /// Only in and right after a replay.
    pub is_replay: Option<bool>,
    /// Who sent it, from 0.10 on.
    pub from: Option<&'a str>,
    /// `actor` or `server`, from 0.10 on.
    pub from_type: Option<&'a str>,
}

/// Fields of `presence`, flattened from its `data` map.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PresenceEvent<'a> {
    /// `join`, `update`, `leave` or `waking`.
    pub event: &'a str,
    /// Who.
    pub actor_token_id: Option<&'a str>,
    /// The presence; absent on `leave`.
    pub presence: Option<RawValue<'a>>,
    /// For persistent presence.
    pub status: Option<&'a str>,
    /// For persistent presence.
    pub capabilities: Option<RawValue<'a>>,
    /// For persistent presence.
    pub advertisement_version: Option<RawValue<'a>>,
}

/// One member in a `presenceList` or a lobby snapshot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PresenceEntry<'a> {
    /// Who.
    pub actor_token_id: &'a str,
    /// The presence.
    pub presence: RawValue<'a>,
    /// Since when, in Unix seconds; absent for persistent entries that are offline.
    pub joined_at: Option<u64>,
    /// For example `online`.
    pub status: Option<&'a str>,
}

impl<'a> PresenceEntry<'a> {
    /// Reads the list of a `presenceList`; entries without an actor are skipped.
    pub fn parse_list(data: RawValue<'a>) -> impl Iterator<Item = Self> {
        data.items().into_iter().flatten().filter_map(Self::parse)
    }

    fn parse(value: RawValue<'a>) -> Option<Self> {
        let map = FrameMap::from_value(value)?;
        Some(Self {
            actor_token_id: map.str(Key::ActorTokenId).or_else(|| map.str(Key::ActorTokenIdSnake))?,
            presence: map.get(Key::Presence).unwrap_or(RawValue::NIL),
            joined_at: map.uint(Key::JoinedAt),
            status: map.str(Key::Status),
        })
    }
}

/// Reads a lobby snapshot: room slug → actor → entry.
#[derive(Debug, Clone, Copy)]
pub struct LobbyMembers<'a>(pub RawValue<'a>);

impl<'a> LobbyMembers<'a> {
    /// Each room with its members, in wire order; rooms and actors that are not text are skipped.
    pub fn rooms(self) -> impl Iterator<Item = (&'a str, Vec<PresenceEntry<'a>>)> {
        self.0.entries().into_iter().flatten().filter_map(|(room, members)| {
            let entries = members.entries()?.filter_map(|(_, entry)| PresenceEntry::parse(entry));
            Some((room.as_str()?, entries.collect()))
        })
    }
}

/// Fields of `lobbyPresence`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LobbyEvent<'a> {
    /// `join`, `update` or `leave`.
    pub event: &'a str,
    /// The lobby's id, not its slug, on Kraken.
    pub lobby_id: Option<Text<'a>>,
    /// The room's slug, or its id when no grant names the slug.
    pub room_id: Option<Text<'a>>,
    /// Who.
    pub actor_id: Option<&'a str>,
    /// The bare presence; `{}` on leave.
    pub data: RawValue<'a>,
}

/// One entry of `restoredSubscriptions`, in any of its four shapes (protocol-facts §13).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredSubscription<'a> {
    /// The topic as a client would write it: `pattern`, else `name`, else `topic`, because next to a `pattern` the
    /// `topic` is the broker's internal one.
    pub topic: &'a str,
    /// Absent means what the broker assumes.
    pub qos: Option<QoS>,
    /// Empty means unfiltered.
    pub filters: Vec<Filter>,
    /// Whether it shares its messages with a group.
    pub load_balance: bool,
    /// The group; from a control plane it is already prefixed.
    pub load_balance_group: Option<&'a str>,
    /// Which shape it came in.
    pub origin: RestoredFrom,
}

/// The shapes of a [`RestoredSubscription`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestoredFrom {
    /// A map with `name`: the old form.
    Name,
    /// A map with `pattern`: from a control plane.
    Pattern,
    /// Just the topic.
    Plain,
    /// A map with `topic`: from the broker's memory.
    Topic,
}

impl<'a> RestoredSubscription<'a> {
    /// Reads the list of an `auth` reply; entries of no known shape, or with filters that are none, are skipped.
    pub fn parse_list(list: RawValue<'a>) -> impl Iterator<Item = Self> {
        list.items().into_iter().flatten().filter_map(Self::parse)
    }

    fn parse(value: RawValue<'a>) -> Option<Self> {
        if let Some(topic) = value.as_str() {
            let filters = Vec::new();
            let origin = RestoredFrom::Plain;
            return Some(Self {
                topic,
                qos: None,
                filters,
                load_balance: false,
                load_balance_group: None,
                origin,
            });
        }
        let map = FrameMap::from_value(value)?;
        let shapes = [
            (Key::Pattern, RestoredFrom::Pattern),
            (Key::Name, RestoredFrom::Name),
            (Key::Topic, RestoredFrom::Topic),
        ];
        let (topic, origin) = shapes.into_iter().find_map(|(key, origin)| Some((map.str(key)?, origin)))?;
        let level = map.uint(Key::Qos).and_then(|n| u8::try_from(n).ok());
        Some(Self {
            topic,
            qos: level.and_then(|n| QoS::try_from(n).ok()),
            filters: match map.present(Key::Filters) {
                Some(filters) => Filter::parse_list(filters)?,
                None => Vec::new(),
            },
            load_balance: map.bool(Key::LoadBalance).or_else(|| map.bool(Key::LoadBalanceSnake))
                == Some(true),
            load_balance_group: map
                .str(Key::LoadBalanceGroup)
                .or_else(|| map.str(Key::LoadBalanceGroupSnake)),
            origin,
        })
    }

    /// Whether brokers use this shape only for what they did restore. The others are also copied from a token file
    /// without a look at what the actor may subscribe to.
    pub fn is_certain(&self) -> bool {
        matches!(self.origin, RestoredFrom::Pattern | RestoredFrom::Topic)
    }
}

impl<'a> ServerFrame<'a> {
    /// Reads one message.
    ///
    /// # Errors
    /// A [`WireError`] when the bytes are not one complete MessagePack map with a text under `type`.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.is_empty() {
            return Ok(Self::Heartbeat);
        }
        let map = FrameMap::parse(bytes)?;
        let frame_type = map.str(Key::Type).ok_or(WireError::NoType)?;
        let topic = || map.text(Key::Topic).unwrap_or(Text::Str(""));
        let lobby_id = || map.text(Key::LobbyId).unwrap_or(Text::Str(""));
        let value = |key, default| map.get(key).unwrap_or(default);
        Ok(match frame_type {
            // First, because there are so many.
            "message" => Self::Message(Message {
                topic: topic(),
                data: value(Key::Data, RawValue::NIL),
                msg_id: map.str(Key::MsgId),
                requires_ack: map.bool(Key::RequiresAck),
                filter: map.str(Key::Filter),
                is_replay: map.bool(Key::IsReplay),
                from: map.str(Key::From),
                from_type: map.str(Key::FromType),
            }),
            "auth" => Self::Auth(AuthReply {
                success: map.bool(Key::Success) == Some(true),
                error: map.str(Key::Error),
                actor_token_id: map.str(Key::ActorTokenId),
                project_id: map.str(Key::ProjectId),
                actor_type: map.str(Key::ActorType),
                protocol_version: map.uint(Key::ProtocolVersion).and_then(|n| u32::try_from(n).ok()),
                restored_subscriptions: map.get(Key::RestoredSubscriptions),
            }),
            "disconnect" => Self::Disconnect { reason: map.str(Key::Reason) },
            "error" => Self::Error(ErrorFrame {
                error: map.str(Key::Error).unwrap_or("unknown_error"),
                code: map.uint(Key::Code).and_then(|n| u32::try_from(n).ok()),
                topic: map.text(Key::Topic),
                hint: map.str(Key::Hint),
                msg_ref: map.text(Key::MsgRef),
                max_size_bytes: map.uint(Key::MaxSizeBytes),
                detail: map.text(Key::Detail),
                lobby_id: map.text(Key::LobbyId),
            }),
            "filtersUpdated" => {
                Self::FiltersUpdated { topic: topic(), filters: value(Key::Filters, RawValue::EMPTY_LIST) }
            }
            "hydration" => Self::Hydration { topic: topic(), data: value(Key::Data, RawValue::NIL) },
            "lobbyPresence" => Self::LobbyPresence(LobbyEvent {
                event: map.str(Key::Event).unwrap_or(""),
                lobby_id: map.text(Key::LobbyId),
                room_id: map.text(Key::RoomId),
                actor_id: map.str(Key::ActorId),
                data: value(Key::Data, RawValue::EMPTY_MAP),
            }),
            "lobbyPresenceList" => Self::LobbyPresenceList {
                lobby_id: lobby_id(),
                presence: value(Key::Presence, RawValue::EMPTY_MAP),
            },
            "lobbySubscribed" => Self::LobbySubscribed {
                lobby_id: lobby_id(),
                presence: value(Key::Presence, RawValue::EMPTY_MAP),
            },
            "lobbyUnsubscribed" => Self::LobbyUnsubscribed { lobby_id: lobby_id() },
            "presence" => Self::Presence(PresenceEvent::parse(&map)),
            "presenceList" => Self::PresenceList {
                room_id: map.text(Key::RoomId),
                data: value(Key::Data, RawValue::EMPTY_LIST),
            },
            "published" => {
                Self::Published { topic: topic(), msg_ref: map.text(Key::MsgRef).unwrap_or(Text::Str("")) }
            }
            "reauth" => Self::Reauth {
                success: map.bool(Key::Success) == Some(true),
                error: map.str(Key::Error),
                auth_expires_at: map.uint(Key::AuthExpiresAt),
            },
            "replayEnd" => Self::ReplayEnd {
                replayed: map.uint(Key::Replayed).or_else(|| map.uint(Key::Count)).unwrap_or(0),
            },
            "replayStart" => Self::ReplayStart {
                count: map.uint(Key::Count).unwrap_or(0),
                oldest_timestamp: map.present(Key::OldestTimestamp),
                newest_timestamp: map.present(Key::NewestTimestamp),
            },
            "subscribed" => {
                Self::Subscribed { topic: topic(), load_balance: map.bool(Key::LoadBalance) == Some(true) }
            }
            "unsubscribed" => Self::Unsubscribed { topic: topic() },
            _ => Self::Unknown { frame_type },
        })
    }

    /// Appends the frame as one message. Absent fields are left out.
    pub fn encode(&self, out: &mut BytesMut) {
        let mut map = match self {
            Self::Heartbeat => return,
            frame => MapWriter::new(out, frame.type_name()),
        };
        match self {
            Self::Heartbeat | Self::Unknown { .. } => {}
            Self::Auth(reply) => {
                map.bool(Key::Success, reply.success);
                map.opt_str(Key::Error, reply.error);
                map.opt_str(Key::ActorTokenId, reply.actor_token_id);
                map.opt_str(Key::ProjectId, reply.project_id);
                map.opt_str(Key::ActorType, reply.actor_type);
                map.opt_uint(Key::ProtocolVersion, reply.protocol_version.map(u64::from));
                map.opt_value(Key::RestoredSubscriptions, reply.restored_subscriptions);
            }
            Self::Disconnect { reason } => map.opt_str(Key::Reason, *reason),
            Self::Error(error) => {
                map.str(Key::Error, error.error);
                map.opt_uint(Key::Code, error.code.map(u64::from));
                map.opt_text(Key::Topic, error.topic);
                map.opt_str(Key::Hint, error.hint);
                map.opt_text(Key::MsgRef, error.msg_ref);
                map.opt_uint(Key::MaxSizeBytes, error.max_size_bytes);
                map.opt_text(Key::Detail, error.detail);
                map.opt_text(Key::LobbyId, error.lobby_id);
            }
            Self::FiltersUpdated { topic, filters } => {
                map.text(Key::Topic, *topic);
                map.value(Key::Filters, *filters);
            }
            Self::Hydration { topic, data } => {
                map.text(Key::Topic, *topic);
                map.value(Key::Data, *data);
            }
            Self::LobbyPresence(event) => {
                map.str(Key::Event, event.event);
                map.opt_text(Key::LobbyId, event.lobby_id);
                map.opt_text(Key::RoomId, event.room_id);
                map.opt_str(Key::ActorId, event.actor_id);
                map.value(Key::Data, event.data);
            }
            Self::LobbyPresenceList { lobby_id, presence } | Self::LobbySubscribed { lobby_id, presence } => {
                map.text(Key::LobbyId, *lobby_id);
                map.value(Key::Presence, *presence);
            }
            Self::LobbyUnsubscribed { lobby_id } => map.text(Key::LobbyId, *lobby_id),
            Self::Message(message) => {
                map.text(Key::Topic, message.topic);
                map.value(Key::Data, message.data);
                map.opt_str(Key::MsgId, message.msg_id);
                map.opt_bool(Key::RequiresAck, message.requires_ack);
                map.opt_str(Key::Filter, message.filter);
                map.opt_bool(Key::IsReplay, message.is_replay);
                map.opt_str(Key::From, message.from);
                map.opt_str(Key::FromType, message.from_type);
            }
            Self::Presence(event) => {
                map.str(Key::Event, event.event);
                let mut data = BytesMut::new();
                event.encode_data(&mut data);
                // What `encode_data` wrote is one complete map.
                map.value(Key::Data, RawValue::parse(&data).unwrap_or(RawValue::EMPTY_MAP));
            }
            Self::PresenceList { room_id, data } => {
                map.opt_text(Key::RoomId, *room_id);
                map.value(Key::Data, *data);
            }
            Self::Published { topic, msg_ref } => {
                map.text(Key::Topic, *topic);
                map.text(Key::MsgRef, *msg_ref);
            }
            Self::Reauth { success, error, auth_expires_at } => {
                map.bool(Key::Success, *success);
                map.opt_str(Key::Error, *error);
                map.opt_uint(Key::AuthExpiresAt, *auth_expires_at);
            }
            Self::ReplayEnd { replayed } => map.uint(Key::Replayed, *replayed),
            Self::ReplayStart { count, oldest_timestamp, newest_timestamp } => {
                map.uint(Key::Count, *count);
                map.opt_value(Key::OldestTimestamp, *oldest_timestamp);
                map.opt_value(Key::NewestTimestamp, *newest_timestamp);
            }
            Self::Subscribed { topic, load_balance } => {
                map.text(Key::Topic, *topic);
                map.bool(Key::LoadBalance, *load_balance);
            }
            Self::Unsubscribed { topic } => map.text(Key::Topic, *topic),
        }
    }

    /// The text under `type`; empty for the heartbeat.
    pub fn type_name(&self) -> &'a str {
        match self {
            Self::Auth(_) => "auth",
            Self::Disconnect { .. } => "disconnect",
            Self::Error(_) => "error",
            Self::FiltersUpdated { .. } => "filtersUpdated",
            Self::Heartbeat => "",
            Self::Hydration { .. } => "hydration",
            Self::LobbyPresence(_) => "lobbyPresence",
            Self::LobbyPresenceList { .. } => "lobbyPresenceList",
            Self::LobbySubscribed { .. } => "lobbySubscribed",
            Self::LobbyUnsubscribed { .. } => "lobbyUnsubscribed",
            Self::Message(_) => "message",
            Self::Presence(_) => "presence",
            Self::PresenceList { .. } => "presenceList",
            Self::Published { .. } => "published",
            Self::Reauth { .. } => "reauth",
            Self::ReplayEnd { .. } => "replayEnd",
            Self::ReplayStart { .. } => "replayStart",
            Self::Subscribed { .. } => "subscribed",
            Self::Unknown { frame_type } => frame_type,
            Self::Unsubscribed { .. } => "unsubscribed",
        }
    }
}

impl<'a> PresenceEvent<'a> {
    fn parse(frame: &FrameMap<'a>) -> Self {
        let data = frame.get(Key::Data).and_then(FrameMap::from_value);
        let field = |key| data.as_ref().and_then(|data| data.get(key));
        let text = |key| field(key).and_then(RawValue::as_str);
        Self {
            event: frame.str(Key::Event).unwrap_or(""),
            actor_token_id: text(Key::ActorTokenIdSnake).or_else(|| text(Key::ActorTokenId)),
            presence: field(Key::Presence),
            status: text(Key::Status),
            capabilities: field(Key::Capabilities),
            advertisement_version: field(Key::AdvertisementVersion),
        }
    }

    fn encode_data(&self, out: &mut BytesMut) {
        let mut map = MapWriter::nested(out);
        map.opt_str(Key::ActorTokenIdSnake, self.actor_token_id);
        map.opt_value(Key::Presence, self.presence);
        map.opt_str(Key::Status, self.status);
        map.opt_value(Key::Capabilities, self.capabilities);
        map.opt_value(Key::AdvertisementVersion, self.advertisement_version);
    }
}
