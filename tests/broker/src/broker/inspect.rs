//! What connections have, for tests and inspection.

use bytes::Bytes;

use super::{BrokerCore, ConnectionId, connection::Selector, presence::Room};

/// One subscription of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscribedTopic {
    /// As the client wrote it.
    pub topic: String,
    /// What it listens to within the topic, sorted; an AND group in its canonical form. `None`: everything.
    pub filters: Option<Vec<String>>,
    /// The full name of its load-balance group.
    pub group: Option<String>,
}

impl BrokerCore {
    /// What a connection is subscribed to, by topic.
    pub fn subscriptions_of(&self, conn: ConnectionId) -> impl Iterator<Item = SubscribedTopic> {
        let subscriptions = self.connections.get(&conn).into_iter().flat_map(|known| &known.subscriptions);
        subscriptions.map(|(topic, subscription)| {
            let filters: Option<Vec<String>> = subscription
                .live
                .iter()
                .map(|selector| match selector {
                    Selector::All => None,
                    Selector::Filter(filter) => Some(filter.clone()),
                })
                .collect();
            SubscribedTopic { topic: topic.to_string(), filters, group: subscription.group.clone() }
        })
    }

    /// The id of the room where a connection is present, and its packed presence.
    pub fn presence_of(&self, conn: ConnectionId) -> Option<(&str, &Bytes)> {
        let room = self.connections.get(&conn)?.present.as_ref()?.room();
        let (_, member) = self.rooms.members(room).find(|(member, _)| *member == conn)?;
        Some((&room.id, &member.presence))
    }

    /// The actors present in a room, by its id, with their packed presence; the oldest connection first.
    pub fn present_in(&self, room_id: &str) -> impl Iterator<Item = (&str, &Bytes)> {
        let room = Room { id: room_id.into(), scope: None };
        self.rooms.members_in(&room).map(|member| (member.actor_id.as_str(), &member.presence))
    }

    /// The slugs of the lobbies that a connection watches, sorted.
    pub fn lobbies_of(&self, conn: ConnectionId) -> impl Iterator<Item = &str> {
        self.connections.get(&conn).into_iter().flat_map(|known| known.observed.keys()).map(String::as_str)
    }
}
