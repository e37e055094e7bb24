//! A frame seen as a map: the one place where bytes become fields.

use core::fmt;

use smallvec::SmallVec;

use super::{Filter, RawValue, Text, WireError, value::Kind, write};
use bytes::BytesMut;

macro_rules! keys {
    ($($name:ident = $text:literal),* $(,)?) => {
        /// The map keys that the protocol knows.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Key {
            $(#[doc = concat!("`", $text, "`")] $name,)*
        }

        impl Key {
            const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The key as it stands on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

keys! {
    ActorId = "actorId",
    ActorTokenId = "actorTokenId",
    ActorTokenIdSnake = "actor_token_id",
    ActorType = "actorType",
    Advertisement = "advertisement",
    AdvertisementVersion = "advertisementVersion",
    AuthExpiresAt = "authExpiresAt",
    Capabilities = "capabilities",
    ClientId = "clientId",
    Code = "code",
    Count = "count",
    Data = "data",
    Detail = "detail",
    Echo = "echo",
    Error = "error",
    Event = "event",
    Filter = "filter",
    Filters = "filters",
    From = "from",
    FromType = "fromType",
    Hint = "hint",
    IsReplay = "isReplay",
    JoinedAt = "joinedAt",
    LoadBalance = "loadBalance",
    LoadBalanceGroup = "loadBalanceGroup",
    LoadBalanceGroupSnake = "load_balance_group",
    LoadBalanceSnake = "load_balance",
    LobbyId = "lobbyId",
    MaxSizeBytes = "maxSizeBytes",
    MsgId = "msgId",
    MsgIds = "msgIds",
    MsgRef = "msgRef",
    Name = "name",
    NewestTimestamp = "newestTimestamp",
    OldestTimestamp = "oldestTimestamp",
    Pattern = "pattern",
    Persistent = "persistent",
    Presence = "presence",
    ProjectId = "projectId",
    ProtocolVersion = "protocolVersion",
    Qos = "qos",
    Reason = "reason",
    Reconnect = "reconnect",
    Replayed = "replayed",
    RequiresAck = "requiresAck",
    RestoredSubscriptions = "restoredSubscriptions",
    Retain = "retain",
    RoomId = "roomId",
    Status = "status",
    Success = "success",
    Token = "token",
    Topic = "topic",
    Type = "type",
}

/// Slots of the table of keys: a power of two, and so many more than keys that few keys share one.
const SLOTS: usize = 256;

/// Each key at its slot or, where that is taken, at the next that is free.
static TABLE: [Option<Key>; SLOTS] = {
    let mut table = [None; SLOTS];
    let mut index = 0;
    while index < Key::ALL.len() {
        let mut at = slot(Key::ALL[index].as_str().as_bytes());
        while table[at].is_some() {
            at = (at + 1) % SLOTS;
        }
        table[at] = Some(Key::ALL[index]);
        index += 1;
    }
    table
};

/// Where to look for a key. Frames are read for each message, and comparing with every key is most of that.
#[inline]
const fn slot(text: &[u8]) -> usize {
    match text {
        [] => 0,
        [first, .., last] => (*first as usize * 7 + *last as usize * 31 + text.len() * 13) % SLOTS,
        [only] => *only as usize,
    }
}

impl Key {
    #[inline]
    fn parse(text: &[u8]) -> Option<Self> {
        let mut at = slot(text);
        // The table is never full, so this ends.
        while let Some(key) = TABLE[at] {
            if key.as_str().as_bytes() == text {
                return Some(key);
            }
            at = (at + 1) % SLOTS;
        }
        None
    }
}

/// The known fields of a map, borrowed.
///
/// Unknown keys are skipped, and of a repeated key the last value counts, as in Kraken. Size is bounded by the
/// number of known keys, whatever the peer sends. Typed frames are read from this; a broker that must imitate how
/// Kraken reads each field can use it directly.
#[derive(Clone)]
pub struct FrameMap<'a> {
    fields: SmallVec<[(Key, RawValue<'a>); 12]>,
    /// Of each key, its place among the fields, counted from 1; 0: it is not there.
    places: [u8; Key::ALL.len()],
}

impl<'a> FrameMap<'a> {
    /// Reads one frame: exactly one MessagePack map.
    ///
    /// # Errors
    /// A [`WireError`] when the bytes are not one complete map.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut map = Self::new();
        match RawValue::parse_map(bytes, |key, value| map.insert(key, value))? {
            true => Ok(map),
            false => Err(WireError::NotAMap),
        }
    }

    /// Reads a nested map; `None` when `value` is not a map.
    pub fn from_value(value: RawValue<'a>) -> Option<Self> {
        let mut map = Self::new();
        value.entries()?.for_each(|(key, value)| map.insert(key, value));
        Some(map)
    }

    fn new() -> Self {
        Self { fields: SmallVec::new(), places: [0; Key::ALL.len()] }
    }

    #[inline]
    fn insert(&mut self, key: RawValue<'a>, value: RawValue<'a>) {
        if let Some(key) = key.as_binary().and_then(Key::parse) {
            let place = &mut self.places[key as usize];
            match self.fields.get_mut(usize::from(*place).wrapping_sub(1)) {
                Some(field) => field.1 = value,
                None => {
                    self.fields.push((key, value));
                    *place = self.fields.len() as u8;
                }
            }
        }
    }

    /// The value of `key`, `nil` included.
    pub fn get(&self, key: Key) -> Option<RawValue<'a>> {
        let place = usize::from(self.places[key as usize]);
        self.fields.get(place.wrapping_sub(1)).map(|(_, value)| *value)
    }

    /// The value of `key` unless it is absent or `nil`.
    pub fn present(&self, key: Key) -> Option<RawValue<'a>> {
        self.get(key).filter(|value| !value.is_nil())
    }

    /// The text of `key`; `None` when absent or not text.
    pub fn str(&self, key: Key) -> Option<&'a str> {
        self.get(key)?.as_str()
    }

    /// The value of `key` as what a peer echoes; `None` when absent or `nil`.
    pub fn text(&self, key: Key) -> Option<Text<'a>> {
        self.present(key).map(Text::from)
    }

    /// The boolean of `key`; `None` when absent or not a boolean.
    pub fn bool(&self, key: Key) -> Option<bool> {
        self.get(key)?.as_bool()
    }

    /// The non-negative integer of `key`; `None` when absent or anything else.
    pub fn uint(&self, key: Key) -> Option<u64> {
        self.get(key)?.as_u64()
    }
}

/// Shows the keys and the kinds of their values, never the values.
impl fmt::Debug for FrameMap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.fields.iter().map(|(key, value)| (key.as_str(), value))).finish()
    }
}

/// Writes one frame, counting its fields as they come.
pub(super) struct MapWriter<'b> {
    out: &'b mut BytesMut,
    header: usize,
    fields: u8,
}

impl<'b> MapWriter<'b> {
    pub(super) fn new(out: &'b mut BytesMut, frame_type: &str) -> Self {
        let mut map = Self::nested(out);
        map.str(Key::Type, frame_type);
        map
    }

    /// A map inside a frame, which has no type.
    pub(super) fn nested(out: &'b mut BytesMut) -> Self {
        let header = out.len();
        write::map_header(out, 0);
        Self { out, header, fields: 0 }
    }

    fn key(&mut self, key: Key) {
        self.fields += 1;
        // No frame has more than 15 fields, so the header always stays one byte.
        self.out[self.header] = 0x80 | self.fields;
        write::str(self.out, key.as_str());
    }

    pub(super) fn str(&mut self, key: Key, value: &str) {
        self.key(key);
        write::str(self.out, value);
    }

    pub(super) fn opt_str(&mut self, key: Key, value: Option<&str>) {
        if let Some(value) = value {
            self.str(key, value);
        }
    }

    pub(super) fn text(&mut self, key: Key, value: Text<'_>) {
        match value {
            Text::Str(value) => self.str(key, value),
            Text::Other(value) => self.value(key, value),
        }
    }

    pub(super) fn opt_text(&mut self, key: Key, value: Option<Text<'_>>) {
        if let Some(value) = value {
            self.text(key, value);
        }
    }

    pub(super) fn bool(&mut self, key: Key, value: bool) {
        self.key(key);
        write::bool(self.out, value);
    }

    pub(super) fn opt_bool(&mut self, key: Key, value: Option<bool>) {
        if let Some(value) = value {
            self.bool(key, value);
        }
    }

    pub(super) fn uint(&mut self, key: Key, value: u64) {
        self.key(key);
        write::uint(self.out, value);
    }

    pub(super) fn opt_uint(&mut self, key: Key, value: Option<u64>) {
        if let Some(value) = value {
            self.uint(key, value);
        }
    }

    pub(super) fn value(&mut self, key: Key, value: RawValue<'_>) {
        self.key(key);
        write::value(self.out, value);
    }

    pub(super) fn opt_value(&mut self, key: Key, value: Option<RawValue<'_>>) {
        if let Some(value) = value {
            self.value(key, value);
        }
    }

    pub(super) fn strs<'s>(&mut self, key: Key, values: impl ExactSizeIterator<Item = &'s str>) {
        self.key(key);
        write::list_header(self.out, values.len());
        for value in values {
            write::str(self.out, value);
        }
    }

    pub(super) fn filters(&mut self, key: Key, filters: &[Filter]) {
        self.key(key);
        Filter::encode_list(filters, self.out);
    }
}

impl<'a> From<RawValue<'a>> for Text<'a> {
    fn from(value: RawValue<'a>) -> Self {
        // A `bin` stays what it was, so that writing the frame again gives the same value.
        match value.as_str() {
            Some(text) if value.kind() == Kind::Text => Self::Str(text),
            _ => Self::Other(value),
        }
    }
}
