//! Every way in which a frame may come back different from the codec and still be the same frame.
//!
//! Nothing else in this crate forgives a difference. The rules are also printed by `nolag-conformance traces --help`.

use crate::value::{Fields, Id, Value, Values};

/// A declared difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Where it applies.
    pub mode: &'static str,
    /// What may differ.
    pub what: &'static str,
    /// Why that loses nothing.
    pub why: &'static str,
}

/// The rules. Those on numbers and order are the nature of [`Values`], those on defaults and unnamed fields the table of
/// [`client_fields`](crate::client_fields), the one on malformed messages is in [`mode`](crate::mode), the rest is below.
pub const RULES: &[Rule] = &[
    Rule {
        mode: "both",
        what: "widths of numbers and the order of map keys",
        why: "MessagePack gives them no meaning; brokers send the shortest form and sort keys",
    },
    Rule {
        mode: "both",
        what: "a bin that holds UTF-8 equals the same str in names and text fields, never in payloads",
        why: "Kraken does not distinguish the two",
    },
    Rule {
        mode: "encode",
        what: "optional fields that are nil or at their default equal absent ones",
        why: "brokers assume exactly these values for absent fields",
    },
    Rule {
        mode: "encode",
        what: "fields that the protocol does not name are left out",
        why: "brokers ignore them",
    },
    Rule {
        mode: "both",
        what: "a message marked malformed may decode if bad UTF-8 in parts that are passed on unread is its only defect",
        why: "payloads are relayed without being read; each broker judges their text itself",
    },
    Rule {
        mode: "decode",
        what: "nil equals absent, except in payloads, presence and lists",
        why: "brokers write nil for what they do not know, such as projectId",
    },
    Rule {
        mode: "decode",
        what: "replayEnd: `count` equals `replayed`",
        why: "documents and brokers name the same number differently",
    },
    Rule {
        mode: "decode",
        what: "presence: `actorTokenId` equals `actor_token_id`",
        why: "events and lists name the same id differently",
    },
    Rule {
        mode: "decode",
        what: "subscribed: an absent `loadBalance` equals false",
        why: "a subscription is not load-balanced unless asked for",
    },
];

/// Fields whose value is passed on as it is: payloads, presence, and lists that have their own typed views.
const UNREAD: &[&str] =
    &["advertisementVersion", "capabilities", "data", "filters", "presence", "restoredSubscriptions"];

/// The text rule: a `bin` of UTF-8 becomes the `str`, in lists of text as well.
pub fn text_as_str(values: &mut Values, id: Id) -> Id {
    if let Some(items) = values.items(id) {
        let items: Vec<Id> = items.to_vec();
        // Filter lists nest once; deeper values are no filters and stay as they are.
        let items = items.into_iter().map(|item| match values.items(item).map(<[Id]>::to_vec) {
            Some(group) => {
                let group = group.into_iter().map(|item| leaf_as_str(values, item)).collect();
                values.add(Value::List(group))
            }
            None => leaf_as_str(values, item),
        });
        let items = items.collect();
        return values.add(Value::List(items));
    }
    leaf_as_str(values, id)
}

fn leaf_as_str(values: &mut Values, id: Id) -> Id {
    match values.get(id) {
        Value::Binary(bytes) if std::str::from_utf8(bytes).is_ok() => {
            let text = Value::Text(bytes.clone());
            values.add(text)
        }
        _ => id,
    }
}

/// The rules of `decode`, applied alike to a recorded frame and to what the codec made of it.
pub fn server_frame(values: &mut Values, frame_type: &str, mut fields: Fields) -> Fields {
    named_fields(values, &mut fields);
    match frame_type {
        "presence" => {
            if let Some(mut event) = fields.get("data").and_then(|data| values.fields(*data)) {
                rename(&mut event, "actorTokenId", "actor_token_id");
                named_fields(values, &mut event);
                // Flattened, so that a difference is reported by the name of the field.
                fields.remove("data");
                fields.extend(event.into_iter().map(|(name, id)| (format!("data.{name}"), id)));
            }
        }
        "replayEnd" => rename(&mut fields, "count", "replayed"),
        "subscribed" => {
            fields.entry("loadBalance".to_owned()).or_insert_with(|| values.add(Value::Bool(false)));
        }
        _ => {}
    }
    fields
}

/// A member in a list or snapshot: both spellings of the id, nil as absent except for the presence.
pub fn presence_entry(values: &mut Values, mut fields: Fields) -> Fields {
    rename(&mut fields, "actor_token_id", "actorTokenId");
    named_fields(values, &mut fields);
    fields
}

fn named_fields(values: &mut Values, fields: &mut Fields) {
    fields.retain(|name, id| {
        if UNREAD.contains(&name.as_str()) {
            return true;
        }
        *id = leaf_as_str(values, *id);
        *values.get(*id) != Value::Nil
    });
}

fn rename(fields: &mut Fields, from: &str, to: &str) {
    if !fields.contains_key(to)
        && let Some(id) = fields.remove(from)
    {
        fields.insert(to.to_owned(), id);
    }
}
