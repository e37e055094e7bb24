//! What a well-formed client frame is: the fields of each type, their types, ranges and defaults.
//!
//! Written down a second time, independently of the codec, so that the codec can neither refuse a well-formed frame
//! nor forget a field unnoticed.

use crate::{
    compare::show_field,
    leniency::text_as_str,
    value::{Fields, Id, Value, Values},
};

/// What a field may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Any,
    Bool,
    /// Texts and groups of at least two texts.
    Filters,
    NonEmptyText,
    Qos,
    Text,
    Texts,
    Version,
}

/// What the absence of a field means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Absent {
    /// The frame is incomplete.
    Refused,
    /// The same as this value.
    Means(DefaultValue),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DefaultValue {
    Bool(bool),
    EmptyList,
    /// Nothing but absence.
    Nothing,
    One,
}

struct Field {
    name: &'static str,
    shape: Shape,
    absent: Absent,
}

const fn required(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, absent: Absent::Refused }
}

const fn optional(name: &'static str, shape: Shape, default: DefaultValue) -> Field {
    Field { name, shape, absent: Absent::Means(default) }
}

const QOS: Field = optional("qos", Shape::Qos, DefaultValue::One);
const LOAD_BALANCE: Field = optional("loadBalance", Shape::Bool, DefaultValue::Bool(false));
const LOAD_BALANCE_GROUP: Field = optional("loadBalanceGroup", Shape::Text, DefaultValue::Nothing);
const ROOM_ID: Field = optional("roomId", Shape::Text, DefaultValue::Nothing);
const LOBBY: &[Field] = &[required("lobbyId", Shape::Text)];

fn fields_of(frame_type: &str) -> Option<&'static [Field]> {
    Some(match frame_type {
        "ack" => const { &[required("msgId", Shape::Text)] },
        "auth" => {
            const {
                &[
                    required("token", Shape::Text),
                    optional("protocolVersion", Shape::Version, DefaultValue::One),
                    optional("reconnect", Shape::Bool, DefaultValue::Bool(false)),
                    optional("clientId", Shape::Text, DefaultValue::Nothing),
                    optional("projectId", Shape::Text, DefaultValue::Nothing),
                    LOAD_BALANCE,
                    LOAD_BALANCE_GROUP,
                ]
            }
        }
        "batchAck" => const { &[required("msgIds", Shape::Texts)] },
        "getLobbyPresence" | "lobbySubscribe" | "lobbyUnsubscribe" => LOBBY,
        "getPresence" => const { &[ROOM_ID] },
        "presence" => const { &[ROOM_ID, required("data", Shape::Any)] },
        "publish" => {
            const {
                &[
                    required("topic", Shape::Text),
                    required("data", Shape::Any),
                    QOS,
                    optional("retain", Shape::Bool, DefaultValue::Bool(false)),
                    optional("echo", Shape::Bool, DefaultValue::Bool(true)),
                    optional("filter", Shape::Text, DefaultValue::Nothing),
                    optional("filters", Shape::Texts, DefaultValue::EmptyList),
                    optional("msgRef", Shape::NonEmptyText, DefaultValue::Nothing),
                ]
            }
        }
        "reauth" => const { &[required("token", Shape::Text)] },
        "setFilters" => const { &[required("topic", Shape::Text), required("filters", Shape::Filters)] },
        "subscribe" => {
            const {
                &[
                    required("topic", Shape::Text),
                    QOS,
                    optional("filters", Shape::Filters, DefaultValue::EmptyList),
                    LOAD_BALANCE,
                    LOAD_BALANCE_GROUP,
                ]
            }
        }
        "unsubscribe" => const { &[required("topic", Shape::Text)] },
        _ => return None,
    })
}

/// What to do with fields that the protocol does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unnamed {
    /// A recorded client may send them.
    LeftOut,
    /// Our encoder must not.
    Kept,
}

/// The meaning of a client frame: its named fields without those at their default, and its type.
///
/// # Errors
/// Why the frame is not well-formed.
pub fn intent(values: &mut Values, frame: Id, unnamed: Unnamed) -> Result<Fields, String> {
    let mut given = values.fields(frame).ok_or_else(|| format!("not a map: {}", values.show(frame)))?;
    let type_id = given.remove("type").ok_or("no field \"type\"")?;
    let Some(frame_type) = values.as_text(type_id).map(str::to_owned) else {
        return Err(format!("field \"type\" is {}", values.show(type_id)));
    };
    let known = fields_of(&frame_type).ok_or_else(|| format!("unknown type {frame_type:?}"))?;
    let mut intent = Fields::from([("type".to_owned(), values.text(&frame_type))]);
    for field in known {
        let value = given.remove(field.name);
        let value = match field.absent {
            Absent::Refused => {
                Some(value.ok_or_else(|| format!("required field {:?} is missing", field.name))?)
            }
            Absent::Means(_) => value.filter(|id| *values.get(*id) != Value::Nil),
        };
        let Some(mut id) = value else { continue };
        check(values, field, id)?;
        if field.shape != Shape::Any {
            id = text_as_str(values, id);
        }
        if default_of(values, id).map(Absent::Means) != Some(field.absent) {
            intent.insert(field.name.to_owned(), id);
        }
    }
    if unnamed == Unnamed::Kept {
        intent.extend(given);
    }
    Ok(intent)
}

/// The default that this value could be.
fn default_of(values: &Values, id: Id) -> Option<DefaultValue> {
    match values.get(id) {
        Value::Bool(value) => Some(DefaultValue::Bool(*value)),
        Value::Integer(1) => Some(DefaultValue::One),
        Value::List(items) if items.is_empty() => Some(DefaultValue::EmptyList),
        _ => None,
    }
}

fn check(values: &Values, field: &Field, id: Id) -> Result<(), String> {
    let is_text = |id: &Id| values.as_text(*id).is_some();
    let are_texts = |items: &[Id]| items.iter().all(is_text);
    let is_filter =
        |id: &Id| is_text(id) || values.items(*id).is_some_and(|group| group.len() > 1 && are_texts(group));
    let range = |low: i128, high: i128| values.as_integer(id).is_some_and(|n| (low..=high).contains(&n));
    let (fits, wanted) = match field.shape {
        Shape::Any => (true, ""),
        Shape::Bool => (values.as_bool(id).is_some(), "a boolean"),
        Shape::Filters => (
            values.items(id).is_some_and(|items| items.iter().all(is_filter)),
            "a list of texts and groups of at least two texts",
        ),
        Shape::NonEmptyText => {
            (values.as_text(id).is_some_and(|text| !text.is_empty()), "a text that is not empty")
        }
        Shape::Qos => (range(0, 2), "0, 1 or 2"),
        Shape::Text => (is_text(&id), "a text"),
        Shape::Texts => (values.items(id).is_some_and(are_texts), "a list of texts"),
        Shape::Version => (range(1, u32::MAX.into()), "a version from 1 on"),
    };
    match fits {
        true => Ok(()),
        false => {
            Err(format!("field {:?} is {}, not {wanted}", field.name, show_field(values, field.name, id)))
        }
    }
}
