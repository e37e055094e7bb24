//! The typed views of values that frames carry unread: members, lobby snapshots, restored subscriptions, filters.

use std::collections::BTreeMap;

use nolag_core::wire::{
    Filter, LobbyMembers, PresenceEntry, QoS, RawValue, RestoredSubscription, ServerFrame,
};

use crate::{
    compare::differences,
    leniency::{presence_entry, text_as_str},
    value::{Fields, Id, Value, Values},
};

/// Compares the views of `frame` with its recorded fields and appends one sentence for each difference.
pub(crate) fn check(
    values: &mut Values,
    frame: &ServerFrame<'_>,
    recorded: &Fields,
    reasons: &mut Vec<String>,
) {
    let found = match (frame, recorded.get("data"), recorded.get("presence")) {
        (ServerFrame::PresenceList { data, .. }, Some(list), _) => presence_list(values, *data, *list),
        (ServerFrame::LobbySubscribed { presence, .. }, _, Some(rooms))
        | (ServerFrame::LobbyPresenceList { presence, .. }, _, Some(rooms)) => {
            lobby(values, *presence, *rooms)
        }
        (ServerFrame::Auth(reply), ..) => {
            match (reply.restored_subscriptions, recorded.get("restoredSubscriptions")) {
                (Some(raw), Some(list)) => restored(values, raw, *list),
                _ => Vec::new(),
            }
        }
        (ServerFrame::FiltersUpdated { filters, .. }, ..) => match recorded.get("filters") {
            Some(list) => filters_updated(values, *filters, *list),
            None => Vec::new(),
        },
        _ => Vec::new(),
    };
    reasons.extend(found);
}

fn presence_list(values: &mut Values, raw: RawValue<'_>, list: Id) -> Vec<String> {
    let Some(items) = values.items(list).map(<[Id]>::to_vec) else {
        return vec![format!("field \"data\": expected a list of members, got {}", values.show(list))];
    };
    let entries: Vec<PresenceEntry<'_>> = PresenceEntry::parse_list(raw).collect();
    members(values, "data", &items, &entries)
}

fn members(values: &mut Values, place: &str, recorded: &[Id], entries: &[PresenceEntry<'_>]) -> Vec<String> {
    if recorded.len() != entries.len() {
        return vec![format!("{place}: expected {} members, got {}", recorded.len(), entries.len())];
    }
    let mut reasons = Vec::new();
    for (n, (id, entry)) in recorded.iter().zip(entries).enumerate() {
        let Some(fields) = values.fields(*id) else {
            reasons.push(format!("{place}[{n}]: expected a map, got {}", values.show(*id)));
            continue;
        };
        let mut expected = presence_entry(values, fields);
        // The view has a presence in any case; an absent one reads as nil.
        expected.entry("presence".to_owned()).or_insert_with(|| values.add(Value::Nil));
        match entry_fields(values, entry) {
            Ok(got) => {
                let different = differences(values, &expected, &got);
                reasons.extend(different.into_iter().map(|reason| format!("{place}[{n}]: {reason}")));
            }
            Err(reason) => reasons.push(format!("{place}[{n}]: {reason}")),
        }
    }
    reasons
}

fn entry_fields(values: &mut Values, entry: &PresenceEntry<'_>) -> Result<Fields, String> {
    let presence =
        values.read(entry.presence.as_bytes()).map_err(|broken| format!("the presence is {broken}"))?;
    let mut fields = Fields::from([
        ("actorTokenId".to_owned(), values.text(entry.actor_token_id)),
        ("presence".to_owned(), presence),
    ]);
    if let Some(joined_at) = entry.joined_at {
        fields.insert("joinedAt".to_owned(), values.add(Value::Integer(joined_at.into())));
    }
    if let Some(status) = entry.status {
        fields.insert("status".to_owned(), values.text(status));
    }
    Ok(fields)
}

fn lobby(values: &mut Values, raw: RawValue<'_>, rooms: Id) -> Vec<String> {
    let Some(pairs) = values.pairs(rooms).map(<[(Id, Id)]>::to_vec) else {
        return vec![format!("field \"presence\": expected a map of rooms, got {}", values.show(rooms))];
    };
    let mut got: BTreeMap<&str, Vec<PresenceEntry<'_>>> = LobbyMembers(raw).rooms().collect();
    let mut reasons = Vec::new();
    for (room, actors) in pairs {
        let place = format!("presence.{}", values.show(room));
        let entries = values.as_text(room).and_then(|room| got.remove(room));
        let (Some(mut entries), Some(actors)) = (entries, values.pairs(actors).map(<[(Id, Id)]>::to_vec))
        else {
            reasons.push(format!("{place}: expected {}, got nothing", values.show(actors)));
            continue;
        };
        // A snapshot is keyed by actor and has no order.
        let mut recorded: BTreeMap<String, Id> = BTreeMap::new();
        for (actor, entry) in actors {
            match values.as_text(actor) {
                Some(actor) => _ = recorded.insert(actor.to_owned(), entry),
                None => reasons.push(format!("{place}: {} is not an actor", values.show(actor))),
            }
        }
        entries.sort_by_key(|entry| entry.actor_token_id);
        let ids: Vec<Id> = recorded.values().copied().collect();
        reasons.extend(members(values, &place, &ids, &entries));
        let strangers = entries.iter().filter(|entry| !recorded.contains_key(entry.actor_token_id));
        reasons.extend(strangers.map(|entry| format!("{place}: no key {:?}", entry.actor_token_id)));
    }
    reasons.extend(got.keys().map(|room| format!("presence: invented room {room:?}")));
    reasons
}

fn restored(values: &mut Values, raw: RawValue<'_>, list: Id) -> Vec<String> {
    let Some(items) = values.items(list).map(<[Id]>::to_vec) else {
        // `nil` is what a broker without anything to restore may write.
        return match values.get(list) {
            Value::Nil => Vec::new(),
            _ => vec![format!("field \"restoredSubscriptions\": expected a list, got {}", values.show(list))],
        };
    };
    let place = "restoredSubscriptions";
    let mut entries = RestoredSubscription::parse_list(raw);
    let mut reasons = Vec::new();
    for (n, item) in items.iter().enumerate() {
        let Some(expected) = expected_restored(values, *item) else {
            reasons.push(format!("{place}[{n}]: no topic in {}", values.show(*item)));
            continue;
        };
        let Some(entry) = entries.next() else {
            reasons.push(format!("{place}[{n}]: expected a subscription, got nothing"));
            continue;
        };
        let got = got_restored(values, &entry);
        let different = differences(values, &expected, &got);
        reasons.extend(different.into_iter().map(|reason| format!("{place}[{n}]: {reason}")));
    }
    reasons.extend(entries.map(|entry| format!("{place}: invented {:?}", entry.topic)));
    reasons
}

/// What an entry says, by the names of the view. `None` when it names no topic.
fn expected_restored(values: &mut Values, item: Id) -> Option<Fields> {
    let given = match values.as_text(item).map(str::to_owned) {
        Some(topic) => Fields::from([("topic".to_owned(), values.text(&topic))]),
        None => values.fields(item)?,
    };
    let first = |names: &[&str], fits: &dyn Fn(Id) -> bool| {
        names.iter().filter_map(|name| given.get(*name).copied()).find(|id| fits(*id))
    };
    let is_text = |id| values.as_text(id).is_some();
    let topic = first(&["pattern", "name", "topic"], &is_text)?;
    let group = first(&["loadBalanceGroup", "load_balance_group"], &is_text);
    let balance = first(&["loadBalance", "load_balance"], &|id| values.as_bool(id).is_some());
    let qos = first(&["qos"], &|id| values.as_integer(id).is_some_and(|level| (0..=2).contains(&level)));
    let filters = first(&["filters"], &|id| !matches!(values.get(id), Value::Nil));

    let mut fields = Fields::from([("topic".to_owned(), text_as_str(values, topic))]);
    fields.insert("loadBalance".to_owned(), balance.unwrap_or_else(|| values.add(Value::Bool(false))));
    let filters = match filters {
        Some(filters) => text_as_str(values, filters),
        None => values.add(Value::List(Vec::new())),
    };
    fields.insert("filters".to_owned(), filters);
    fields.extend(group.map(|group| ("loadBalanceGroup".to_owned(), text_as_str(values, group))));
    fields.extend(qos.map(|qos| ("qos".to_owned(), qos)));
    Some(fields)
}

fn got_restored(values: &mut Values, entry: &RestoredSubscription<'_>) -> Fields {
    let mut fields = Fields::from([
        ("topic".to_owned(), values.text(entry.topic)),
        ("loadBalance".to_owned(), values.add(Value::Bool(entry.load_balance))),
        ("filters".to_owned(), filter_list(values, &entry.filters)),
    ]);
    let group = entry.load_balance_group.map(|group| values.text(group));
    fields.extend(group.map(|group| ("loadBalanceGroup".to_owned(), group)));
    let qos = entry.qos.map(QoS::as_u8).map(|level| values.add(Value::Integer(level.into())));
    fields.extend(qos.map(|qos| ("qos".to_owned(), qos)));
    fields
}

fn filters_updated(values: &mut Values, raw: RawValue<'_>, list: Id) -> Vec<String> {
    let expected = text_as_str(values, list);
    let got = Filter::parse_list(raw);
    let got = got.map(|filters| filter_list(values, &filters));
    if got == Some(expected) {
        return Vec::new();
    }
    let got = got.map_or_else(|| "no filter list".to_owned(), |id| values.show(id));
    vec![format!("field \"filters\": expected {}, got {got}", values.show(expected))]
}

fn filter_list(values: &mut Values, filters: &[Filter]) -> Id {
    let list = filters.iter().map(|filter| match filter {
        Filter::Value(value) => values.text(value),
        Filter::All(group) => {
            let group = group.iter().map(|value| values.text(value)).collect();
            values.add(Value::List(group))
        }
    });
    let list = list.collect();
    values.add(Value::List(list))
}
