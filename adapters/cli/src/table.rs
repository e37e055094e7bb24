//! Objects of the control plane for people: lists as tables, one object as lines of keys and values.

use std::fmt;

use nolag::api::{Actor, App, Room, RoomAccess, Scope};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::Value;

use crate::output::is_dangerous;

/// Something that a list has as rows.
pub(crate) trait Row {
    /// What the columns are.
    const HEADER: &'static [&'static str];

    /// The cells, one for each column.
    fn cells(&self) -> Vec<String>;
}

impl Row for App {
    const HEADER: &'static [&'static str] = &["APP ID", "SLUG", "NAME", "STATUS", "TOPICS"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.app_id.clone(),
            self.slug.clone(),
            self.name.clone(),
            text(self.status.as_ref()),
            self.topics.as_deref().unwrap_or_default().join(", "),
        ]
    }
}

impl Row for Room {
    const HEADER: &'static [&'static str] = &["ROOM ID", "SLUG", "NAME", "STATUS", "TOPICS"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.room_id.clone(),
            self.slug.clone(),
            self.name.clone(),
            self.status.as_ref().map_or_else(|| usable(self.may_be_used()), ToString::to_string),
            self.topics.as_deref().unwrap_or_default().join(", "),
        ]
    }
}

impl Row for Actor {
    const HEADER: &'static [&'static str] = &["ACTOR ID", "NAME", "TYPE", "STATUS", "SCOPE ID"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.actor_token_id.clone(),
            self.name.clone(),
            text(self.actor_type.as_ref()),
            self.status.as_ref().map_or_else(|| usable(self.may_be_used()), ToString::to_string),
            text(self.access_scope_id.as_ref()),
        ]
    }
}

impl Row for RoomAccess {
    const HEADER: &'static [&'static str] =
        &["ACCESS ID", "ACTOR ID", "TYPE", "PERMISSION", "ACTIVE", "EXPIRES", "TOPICS"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.access_id.clone(),
            text(self.actor_token_id.as_ref()),
            text(self.actor_type.as_ref()),
            text(self.permission.as_ref()),
            text(self.is_active.as_ref()),
            text(self.expires_at.as_ref()),
            self.topics.as_deref().unwrap_or_default().join(", "),
        ]
    }
}

impl Row for Scope {
    const HEADER: &'static [&'static str] = &["SCOPE ID", "SLUG", "NAME", "ACTIVE"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.access_scope_id.clone(),
            self.slug.clone(),
            self.name.clone(),
            text(self.is_active.as_ref()),
        ]
    }
}

/// A table, with a line for its header and one for each row.
pub(crate) fn table<T: Row>(rows: &[T]) -> String {
    let header = T::HEADER.iter().map(ToString::to_string).collect();
    aligned(std::iter::once(header).chain(rows.iter().map(Row::cells)).collect())
}

/// An object, given as JSON, as a line for each field, in its order.
pub(crate) fn fields(object: &str) -> serde_json::Result<String> {
    let Fields(fields) = serde_json::from_str(object)?;
    let line = |(key, value): (String, Value)| {
        let value = cell(&key, &value);
        vec![key, value]
    };
    Ok(aligned(fields.into_iter().map(line).collect()))
}

/// Lines with their cells below each other. No text of a server can make a line of its own.
fn aligned(lines: Vec<Vec<String>>) -> String {
    let lines: Vec<Vec<String>> =
        lines.into_iter().map(|cells| cells.iter().map(|cell| safe(cell)).collect()).collect();
    let columns = lines.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column| {
        let cells = lines.iter().filter_map(|cells: &Vec<String>| cells.get(column));
        cells.map(|cell: &String| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |cells: &Vec<String>| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn safe(cell: &str) -> String {
    if cell.is_empty() {
        return "-".into();
    }
    let escape = |c: char| match is_dangerous(c) {
        true => c.escape_unicode().to_string(),
        false => c.to_string(),
    };
    cell.chars().map(escape).collect()
}

fn cell(key: &str, value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        }
        // Its headers may carry credentials. With --json they are there.
        Value::Object(webhook) if key.ends_with("Webhook") => {
            let url = webhook.get("url").and_then(Value::as_str).unwrap_or_default();
            match webhook.get("headers").and_then(Value::as_object).map_or(0, serde_json::Map::len) {
                0 => url.into(),
                count => format!("{url} (headers: {count}, see --json)"),
            }
        }
        other => other.to_string(),
    }
}

fn text(value: Option<&impl ToString>) -> String {
    value.map(ToString::to_string).unwrap_or_default()
}

/// What control planes that have a flag instead would call the status.
fn usable(may_be_used: bool) -> String {
    if may_be_used { "active" } else { "disabled" }.into()
}

/// The fields of a JSON object, in their order.
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pair(&'static str, &'static str);

    impl Row for Pair {
        const HEADER: &'static [&'static str] = &["A", "BB"];

        fn cells(&self) -> Vec<String> {
            vec![self.0.into(), self.1.into()]
        }
    }

    #[test]
    fn columns_stand_below_each_other_and_empty_cells_are_seen() {
        assert_eq!(table(&[Pair("größe", "1"), Pair("", "")]), "A      BB\ngröße  1\n-      -");
        assert_eq!(table::<Pair>(&[]), "A  BB");
    }

    #[test]
    fn no_text_makes_a_line_of_its_own() {
        assert_eq!(table(&[Pair("a\nb\t", "\u{1b}[2J")]).lines().count(), 2);
        assert_eq!(fields(r#"{"name":"x\ny"}"#).unwrap(), "name  x\\u{a}y");
    }

    #[test]
    fn fields_keep_their_order() {
        let object = r#"{"id":"7","about":null,"topics":["a","b"],"config":{"on":true},"n":1.5}"#;
        let lines = "id      7\nabout   -\ntopics  a, b\nconfig  {\"on\":true}\nn       1.5";
        assert_eq!(fields(object).unwrap(), lines);
    }

    #[test]
    fn headers_of_webhooks_are_counted_only() {
        let object =
            r#"{"triggerWebhook":{"url":"https://x.example/","headers":{"authorization":"planted"}}}"#;
        assert_eq!(fields(object).unwrap(), "triggerWebhook  https://x.example/ (headers: 1, see --json)");
    }
}
