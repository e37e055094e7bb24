//! Frames of every kind, whole and damaged: what comes back, and what does not matter.

#[path = "support/cases.rs"]
mod cases;
#[path = "support/frames.rs"]
mod frames;

use bytes::BytesMut;
use cases::cases;
use frames::{
    CLIENT_KINDS, Draw, Pool, SERVER_KINDS, client_kind, encoded, pool, scalar, server_kind, value,
};
use nolag_core::wire::{
    ClientFrame, Dump, FrameMap, LobbyMembers, PresenceEntry, RestoredSubscription, ServerFrame,
};
use proptest::{collection::vec, prelude::*, sample::Index};
use rmpv::Value;

/// One way to damage a message.
#[derive(Debug, Clone)]
enum Damage {
    FlipBit(Index, u8),
    Replace(Index, u8),
    Cut(Index),
    Insert(Index, Vec<u8>),
    Remove(Index),
    /// A part of it stands twice.
    Repeat(Index, usize),
    /// Something in it becomes that many lists of one, each within the other.
    Nest(Index, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<Index>;
    prop_oneof![
        4 => (at(), 0..8_u8).prop_map(|(at, bit)| Damage::FlipBit(at, bit)),
        2 => (at(), any::<u8>()).prop_map(|(at, byte)| Damage::Replace(at, byte)),
        1 => at().prop_map(Damage::Cut),
        2 => (at(), vec(any::<u8>(), 1..6)).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        2 => at().prop_map(Damage::Remove),
        2 => (at(), 1..20_usize).prop_map(|(at, len)| Damage::Repeat(at, len)),
        1 => (at(), 1..5_000_usize).prop_map(|(at, levels)| Damage::Nest(at, levels)),
    ]
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let len = bytes.len();
        match self {
            Self::FlipBit(at, bit) => bytes[at.index(len)] ^= 1 << bit,
            Self::Replace(at, byte) => bytes[at.index(len)] = *byte,
            Self::Cut(at) => bytes.truncate(at.index(len)),
            Self::Insert(at, more) => _ = bytes.splice(at.index(len)..at.index(len), more.iter().copied()),
            Self::Remove(at) => _ = bytes.remove(at.index(len)),
            Self::Repeat(at, most) => {
                let at = at.index(len);
                let part = bytes[at..len.min(at + most)].to_vec();
                bytes.splice(at..at, part);
            }
            Self::Nest(at, levels) => {
                bytes.splice(at.index(len)..at.index(len), std::iter::repeat_n(0x91, *levels));
            }
        }
    }
}

/// A message as its top-level pairs, so that whole fields can be moved, doubled and added.
fn pairs(bytes: &[u8]) -> Vec<(Value, Value)> {
    let mut rest = bytes;
    let Ok(Value::Map(pairs)) = rmpv::decode::read_value(&mut rest) else { panic!("{bytes:02x?} is no map") };
    pairs
}

fn client_bytes(pool: &Pool, kind: Index) -> Vec<u8> {
    let mut out = BytesMut::new();
    Draw { pool, at: 0 }.client_frame_of(CLIENT_KINDS[kind.index(CLIENT_KINDS.len())]).encode(&mut out);
    out.to_vec()
}

fn server_bytes(pool: &Pool, kind: Index) -> Vec<u8> {
    let mut out = BytesMut::new();
    Draw { pool, at: 0 }.server_frame_of(SERVER_KINDS[kind.index(SERVER_KINDS.len())]).encode(&mut out);
    out.to_vec()
}

/// Decodes both ways and reads everything that can be read; what a side accepts, it writes so that it reads the same
/// again.
fn survives(bytes: &[u8]) -> Result<(), TestCaseError> {
    let client = ClientFrame::decode(bytes);
    let server = ServerFrame::decode(bytes);
    // Nor does looking at it.
    let _ = format!("{client:?} {server:?} {}", Dump::new(bytes));
    if let Ok(map) = FrameMap::parse(bytes) {
        let _ = format!("{map:?}");
    }
    if let Ok(frame) = client {
        let mut out = BytesMut::new();
        frame.encode(&mut out);
        prop_assert_eq!(ClientFrame::decode(&out), Ok(frame));
    }
    if let Ok(frame) = server {
        let mut out = BytesMut::new();
        frame.encode(&mut out);
        let again = ServerFrame::decode(&out);
        prop_assert_eq!(again.as_ref(), Ok(&frame));
        match frame {
            ServerFrame::Auth(reply) => {
                let list = reply.restored_subscriptions.into_iter();
                let _ = list.flat_map(RestoredSubscription::parse_list).count();
            }
            ServerFrame::LobbySubscribed { presence, .. }
            | ServerFrame::LobbyPresenceList { presence, .. } => {
                let _ = LobbyMembers(presence).rooms().count();
            }
            ServerFrame::PresenceList { data, .. } => _ = PresenceEntry::parse_list(data).count(),
            _ => {}
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(48))]

    /// A frame of every kind comes back as it was.
    #[test]
    fn every_kind_of_frame_comes_back_as_it_was(pool in pool()) {
        for kind in CLIENT_KINDS {
            let frame = Draw { pool: &pool, at: 0 }.client_frame_of(kind);
            prop_assert_eq!(client_kind(&frame), kind);
            let mut out = BytesMut::new();
            frame.encode(&mut out);
            prop_assert_eq!(ClientFrame::decode(&out), Ok(frame));
        }
        for kind in SERVER_KINDS {
            let frame = Draw { pool: &pool, at: 0 }.server_frame_of(kind);
            prop_assert_eq!(server_kind(&frame), kind);
            let mut out = BytesMut::new();
            frame.encode(&mut out);
            prop_assert_eq!(ServerFrame::decode(&out), Ok(frame));
        }
    }
}

proptest! {
    #![proptest_config(cases(200))]

    /// A damaged frame of any kind is decoded or refused, and what is decoded is something that can be written.
    #[test]
    fn damaged_frames_are_survived(
        pool in pool(), kind in any::<Index>(), ours in any::<bool>(), damages in vec(damage(), 1..4),
    ) {
        let mut bytes = if ours { client_bytes(&pool, kind) } else { server_bytes(&pool, kind) };
        damages.iter().for_each(|damage| damage.apply(&mut bytes));
        survives(&bytes)?;
    }

    /// Whatever stands under the known keys, in whatever order and however often, is decoded or refused, and of a key
    /// that stands twice the last value counts.
    #[test]
    fn fields_of_any_kind_in_any_order_are_survived(
        pool in pool(), kind in any::<Index>(), ours in any::<bool>(), odd in vec((any::<Index>(), value()), 0..4),
        turn in any::<Index>(),
    ) {
        let bytes = if ours { client_bytes(&pool, kind) } else { server_bytes(&pool, kind) };
        prop_assume!(!bytes.is_empty());
        let mut fields = pairs(&bytes);
        for (at, value) in odd {
            let key = fields[at.index(fields.len())].0.clone();
            fields.push((key, value));
        }
        let middle = turn.index(fields.len());
        fields.rotate_left(middle);
        survives(&encoded(&Value::Map(fields.clone())))?;
        // Without the earlier of those that stand twice it says the same.
        let mut last = fields.clone();
        let mut at = 0;
        while at < last.len() {
            match last[at + 1..].iter().any(|(key, _)| *key == last[at].0) {
                true => _ = last.remove(at),
                false => at += 1,
            }
        }
        let (all, last) = (encoded(&Value::Map(fields)), encoded(&Value::Map(last)));
        prop_assert_eq!(ClientFrame::decode(&all), ClientFrame::decode(&last));
        let (all, last) = (ServerFrame::decode(&all), ServerFrame::decode(&last));
        prop_assert_eq!(format!("{all:?}"), format!("{last:?}"));
    }

    /// Keys that the protocol does not know change nothing, whatever they are and wherever they stand.
    #[test]
    fn unknown_keys_are_ignored(
        pool in pool(), kind in any::<Index>(), unknown in vec((any::<Index>(), scalar(), value()), 1..4),
    ) {
        let (client, server) = (client_bytes(&pool, kind), server_bytes(&pool, kind));
        for bytes in [&client, &server] {
            if bytes.is_empty() {
                continue;
            }
            let mut fields = pairs(bytes);
            for (at, key, value) in unknown.clone() {
                // A prefix keeps the generated key from being a known one.
                let key = match key {
                    Value::String(text) => Value::from(format!("?{}", text.as_str().unwrap_or_default())),
                    Value::Binary(bytes) => Value::Binary([b"?", &bytes[..]].concat()),
                    other => other,
                };
                fields.insert(at.index(fields.len() + 1), (key, value));
            }
            let more = encoded(&Value::Map(fields));
            prop_assert_eq!(ClientFrame::decode(&more), ClientFrame::decode(bytes));
            prop_assert_eq!(ServerFrame::decode(&more), ServerFrame::decode(bytes));
        }
    }
}
