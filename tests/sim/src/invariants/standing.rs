//! What stands at the end, when nothing has gone wrong for a while.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use nolag_broker::ConnectionInfo;
use nolag_core::{Status, wire::Filter};

use super::at_end;
use crate::{
    ClientId, Violation, World,
    chatter::{Wanted, hall, topic},
};

/// Who should have what.
pub(crate) struct Expected {
    pub(crate) actor: String,
    /// The room group that its lobby shows.
    pub(crate) group: usize,
    pub(crate) wanted: Rc<RefCell<Wanted>>,
}

type Topics = BTreeMap<String, (Option<Vec<String>>, bool)>;

/// Some time after the last fault, subscriptions, presence and lobbies of every client equal what its application asked
/// for: as the client says, and as the broker does; and what the client knows of others is what the broker knows.
pub(crate) fn what_was_asked_for_stands(world: &World, expected: &[Expected]) -> Result<(), Violation> {
    let connections: Vec<ConnectionInfo> = world.broker().connections().collect();
    for (client, expected) in world.clients().zip(expected) {
        check(world, client, expected, &connections)
            .map_err(|detail| at_end("what_was_asked_for_stands", world, client, detail))?;
    }
    Ok(())
}

fn check(world: &World, client: ClientId, expected: &Expected, all: &[ConnectionInfo]) -> Result<(), String> {
    let (core, broker, wanted) = (world.core(client), world.broker(), expected.wanted.borrow());
    let same = |what: &str, found: &dyn std::fmt::Debug, asked: &dyn std::fmt::Debug| {
        let (found, asked) = (format!("{found:?}"), format!("{asked:?}"));
        if found == asked { Ok(()) } else { Err(format!("{what}: asked for {asked}, found {found}")) }
    };
    if core.status() != Status::Connected {
        return Err(format!("{:?}: {}", core.status(), core.explain()));
    }
    let mut own = all.iter().filter(|info| info.actor_id.as_deref() == Some(&expected.actor));
    let (Some(connection), None) = (own.next(), own.next()) else {
        return Err("the broker has not exactly one connection of its actor".into());
    };

    let asked: Topics = wanted
        .topics
        .iter()
        .map(|(topic, (filters, shared))| {
            let filters = (!filters.is_empty()).then(|| filters.iter().cloned().collect());
            (topic.clone(), (filters, *shared))
        })
        .collect();
    let mut live = true;
    let in_core: Topics = core
        .subscriptions()
        .map(|subscription| {
            live &= subscription.live;
            let filters: BTreeSet<String> = subscription.options.filters.iter().map(text).collect();
            let filters = (!filters.is_empty()).then(|| filters.into_iter().collect());
            (subscription.topic.to_string(), (filters, subscription.options.load_balance == Some(true)))
        })
        .collect();
    same("subscriptions of the client", &in_core, &asked)?;
    if !live {
        return Err(format!("not every subscription is live: {}", core.explain()));
    }
    let at_broker: Topics = broker
        .subscriptions_of(connection.id)
        .map(|subscription| (subscription.topic, (subscription.filters, subscription.group.is_some())))
        .collect();
    same("subscriptions at the broker", &at_broker, &asked)?;

    let present = broker.presence_of(connection.id).map(|(room, data)| (room, &data[..]));
    match &wanted.presence {
        Some((room, data)) => {
            let asked = Some((room.as_str(), data.as_msgpack()));
            same("presence at the broker", &present, &asked)?;
            same("presence room of the client", &core.presence_room(), &Some(room))?;
            let members: BTreeMap<&str, _> =
                broker.present_in(room).map(|(actor, data)| (actor, &data[..])).collect();
            let known: Vec<_> = core.presence().collect();
            let known: BTreeMap<&str, _> =
                known.iter().map(|member| (&*member.actor_id, member.presence.as_msgpack())).collect();
            same("members that the client knows", &known, &members)?;
        }
        None => same("presence room of the client", &core.presence_room(), &None::<&str>)?,
    }

    let lobbies: Vec<&str> = broker.lobbies_of(connection.id).collect();
    same("lobbies at the broker", &lobbies, &wanted.lobby.iter().map(String::as_str).collect::<Vec<_>>())?;
    if let Some(lobby) = &wanted.lobby {
        let rooms = [topic(expected.group, "chat"), hall(expected.group, 0), hall(expected.group, 1)];
        let snapshot = core.lobby(lobby).unwrap_or_default();
        for room in rooms.iter().skip(1) {
            let members: BTreeSet<&str> = broker.present_in(room).map(|(actor, _)| actor).collect();
            let known: BTreeSet<&str> =
                snapshot.get(room).into_iter().flatten().map(|member| &*member.actor_id).collect();
            same(&format!("members of {room} in the lobby"), &known, &members)?;
        }
    }
    Ok(())
}

fn text(filter: &Filter) -> String {
    match filter {
        Filter::Value(value) => value.clone(),
        Filter::All(values) => nolag_core::wire::canonical_group(values.iter().map(String::as_str)),
    }
}
