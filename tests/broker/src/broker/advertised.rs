//! Presence that outlives its connection: what actors advertised with `persistent: true`.

use std::collections::BTreeMap;

use bytes::Bytes;

/// Bytes of advertised presence; above it the oldest goes first.
const MAX_BYTES: usize = 16 << 20;

/// The last persistent presence of each actor in each room. It is bounded to 16 MiB.
#[derive(Debug, Default)]
pub(super) struct Advertised {
    /// By room and actor.
    records: BTreeMap<(String, String), Record>,
    /// By age: number of the record → its key.
    ages: BTreeMap<u64, (String, String)>,
    advertised: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Record {
    number: u64,
    presence: Bytes,
    status: &'static str,
}

impl Advertised {
    pub(super) fn advertise(&mut self, room_id: &str, actor_id: &str, presence: Bytes) {
        let key = (String::from(room_id), String::from(actor_id));
        self.remove(&key);
        self.advertised += 1;
        self.bytes += size(&key, &presence);
        self.ages.insert(self.advertised, key.clone());
        self.records.insert(key, Record { number: self.advertised, presence, status: "online" });
        while self.bytes > MAX_BYTES {
            let Some((_, key)) = self.ages.first_key_value() else { break };
            self.remove(&key.clone());
        }
    }

    pub(super) fn offline(&mut self, room_id: &str, actor_id: &str) {
        if let Some(record) = self.records.get_mut(&(room_id.into(), actor_id.into())) {
            record.status = "offline";
        }
    }

    /// A publish in a room wakes those who are offline there. Nobody is called; they only count as waking.
    pub(super) fn wake(&mut self, room_id: &str) {
        let from = (String::from(room_id), String::new());
        for (_, record) in self.records.range_mut(from..).take_while(|((room, _), _)| room == room_id) {
            if record.status == "offline" {
                record.status = "waking";
            }
        }
    }

    /// Actor, presence and status of each record of a room.
    pub(super) fn in_room(&self, room_id: &str) -> impl Iterator<Item = (&str, &Bytes, &'static str)> {
        let from = (String::from(room_id), String::new());
        let records = self.records.range(from..).take_while(move |((room, _), _)| room == room_id);
        records.map(|((_, actor_id), record)| (actor_id.as_str(), &record.presence, record.status))
    }

    /// Drops the records of a room.
    pub(super) fn forget_room(&mut self, room_id: &str) {
        let actors: Vec<String> = self.in_room(room_id).map(|(actor_id, ..)| actor_id.into()).collect();
        actors.into_iter().for_each(|actor_id| self.remove(&(room_id.into(), actor_id)));
    }

    fn remove(&mut self, key: &(String, String)) {
        if let Some(record) = self.records.remove(key) {
            self.ages.remove(&record.number);
            self.bytes -= size(key, &record.presence);
        }
    }
}

fn size((room_id, actor_id): &(String, String), presence: &Bytes) -> usize {
    256 + 2 * (room_id.len() + actor_id.len()) + presence.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_presence_goes_first_when_there_is_too_much() {
        let mut advertised = Advertised::default();
        for n in 0..40 {
            advertised.advertise("room", &format!("actor {n:02}"), Bytes::from(vec![0xc0; 1 << 20]));
        }
        let left: Vec<_> = advertised.in_room("room").map(|(actor_id, ..)| actor_id).collect();
        assert!((10..=16).contains(&left.len()), "{left:?}");
        assert_eq!(left.last(), Some(&"actor 39"));
        assert!(advertised.bytes <= MAX_BYTES);
    }

    #[test]
    fn only_who_is_offline_is_woken() {
        let mut advertised = Advertised::default();
        advertised.advertise("room", "here", Bytes::from_static(&[0xc0]));
        advertised.advertise("room", "away", Bytes::from_static(&[0xc0]));
        advertised.advertise("room 2", "away", Bytes::from_static(&[0xc0]));
        advertised.offline("room", "away");
        advertised.offline("room 2", "away");
        advertised.wake("room");
        let statuses = |room| advertised.in_room(room).map(|(.., status)| status).collect::<Vec<_>>();
        assert_eq!((statuses("room"), statuses("room 2")), (vec!["waking", "online"], vec!["offline"]));
    }
}
