//! Payloads as JSON, without losing anything.
//!
//! MessagePack knows more than JSON does. What JSON cannot say is written as an object with one key:
//!
//! | MessagePack | JSON |
//! |---|---|
//! | bytes | `{"$bin": "base64"}` |
//! | map with keys that are no text, or that stand twice | `{"$map": [[key, value], …]}` |
//! | extension | `{"$ext": [type, "base64"]}` |
//! | NaN, infinities | `{"$float": "nan"}`, `"inf"`, `"-inf"` |
//! | what is nested too deeply for JSON readers | `{"$msgpack": "base64"}` |
//!
//! A map that looks like one of these is written as `$map`. Integers are exact. Reading takes the same notation.

use std::{collections::HashSet, fmt};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use nolag::Payload;
use rmpv::Value;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
    ser::SerializeMap as _,
};

const BIN: &str = "$bin";
const EXT: &str = "$ext";
const FLOAT: &str = "$float";
const MAP: &str = "$map";
const MSGPACK: &str = "$msgpack";
const TAGS: [&str; 5] = [BIN, EXT, FLOAT, MAP, MSGPACK];

/// Nesting that is written as JSON. Readers commonly stop at 128, and the data stands inside other objects.
const MAX_JSON_DEPTH: usize = 100;

/// Why text is no payload. For people, without the text itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotAPayload(String);

impl fmt::Display for NotAPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// MessagePack that serializes as JSON.
#[derive(Debug, Clone)]
pub(crate) struct Json(Content);

#[derive(Debug, Clone)]
enum Content {
    Value(Value),
    /// Too deep, or not understood.
    Packed(Vec<u8>),
}

impl Json {
    /// Reads one MessagePack value.
    pub(crate) fn from_msgpack(mut bytes: &[u8]) -> Self {
        let packed = bytes;
        match rmpv::decode::read_value(&mut bytes) {
            Ok(value) if bytes.is_empty() && json_depth(&value) <= MAX_JSON_DEPTH => {
                Self(Content::Value(value))
            }
            _ => Self(Content::Packed(packed.into())),
        }
    }
}

/// The JSON text.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// Reads JSON text as MessagePack.
pub(crate) fn parse(text: &str) -> Result<Vec<u8>, NotAPayload> {
    let FromJson(value) = serde_json::from_str(text).map_err(|error| NotAPayload(error.to_string()))?;
    if let Some(number) = oversized_integer(text) {
        return Err(NotAPayload(format!(
            "the number {number} does not fit into 64 bits; write it as text, or with a fraction if it may be rounded"
        )));
    }
    Ok(pack(&value))
}

/// Text as MessagePack.
pub(crate) fn pack_text(text: &str) -> Vec<u8> {
    pack(&Value::from(text))
}

fn pack(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Writing to a vector cannot fail.
    let _ = rmpv::encode::write_value(&mut bytes, value);
    bytes
}

/// How deep the JSON of a value nests.
fn json_depth(value: &Value) -> usize {
    let deepest = |values: &mut dyn Iterator<Item = &Value>| values.map(json_depth).max().unwrap_or(0);
    match value {
        Value::Array(items) => 1 + deepest(&mut items.iter()),
        Value::Map(entries) => {
            let wrapping = if plain_keys(entries).is_some() { 1 } else { 3 };
            wrapping + deepest(&mut entries.iter().flat_map(|(key, value)| [key, value]))
        }
        Value::Ext(..) => 2,
        Value::Binary(_) | Value::F32(_) | Value::F64(_) | Value::String(_) => 1,
        Value::Boolean(_) | Value::Integer(_) | Value::Nil => 0,
    }
}

/// The keys, if the map can be a JSON object.
fn plain_keys(entries: &[(Value, Value)]) -> Option<Vec<&str>> {
    let keys = entries.iter().map(|(key, _)| key.as_str()).collect::<Option<Vec<_>>>()?;
    let looks_tagged = matches!(keys.as_slice(), [key] if TAGS.contains(key));
    let distinct = keys.iter().collect::<HashSet<_>>().len() == keys.len();
    (distinct && !looks_tagged).then_some(keys)
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Content::Value(value) => ToJson(value).serialize(serializer),
            Content::Packed(bytes) => tagged(serializer, MSGPACK, BASE64.encode(bytes)),
        }
    }
}

struct ToJson<'a>(&'a Value);

impl Serialize for ToJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Nil => serializer.serialize_unit(),
            Value::Boolean(value) => serializer.serialize_bool(*value),
            Value::Integer(value) => match (value.as_u64(), value.as_i64()) {
                (Some(value), _) => serializer.serialize_u64(value),
                (None, value) => serializer.serialize_i64(value.unwrap_or_default()),
            },
            Value::F32(value) => float(serializer, f64::from(*value)),
            Value::F64(value) => float(serializer, *value),
            Value::String(text) => match text.as_str() {
                Some(text) => serializer.serialize_str(text),
                // Text that is not UTF-8 is no text.
                None => tagged(serializer, BIN, BASE64.encode(text.as_bytes())),
            },
            Value::Binary(bytes) => tagged(serializer, BIN, BASE64.encode(bytes)),
            Value::Array(items) => serializer.collect_seq(items.iter().map(ToJson)),
            Value::Map(entries) => match plain_keys(entries) {
                Some(keys) => {
                    let values = entries.iter().map(|(_, value)| ToJson(value));
                    serializer.collect_map(keys.into_iter().zip(values))
                }
                None => {
                    let pairs = entries.iter().map(|(key, value)| [ToJson(key), ToJson(value)]);
                    tagged(serializer, MAP, pairs.collect::<Vec<_>>())
                }
            },
            Value::Ext(kind, data) => tagged(serializer, EXT, (kind, BASE64.encode(data))),
        }
    }
}

fn tagged<S: Serializer>(serializer: S, tag: &str, content: impl Serialize) -> Result<S::Ok, S::Error> {
    let mut object = serializer.serialize_map(Some(1))?;
    object.serialize_entry(tag, &content)?;
    object.end()
}

fn float<S: Serializer>(serializer: S, value: f64) -> Result<S::Ok, S::Error> {
    if value.is_finite() {
        return serializer.serialize_f64(value);
    }
    let name = if value.is_nan() {
        "nan"
    } else if value > 0.0 {
        "inf"
    } else {
        "-inf"
    };
    tagged(serializer, FLOAT, name)
}

struct FromJson(Value);

impl<'de> Deserialize<'de> for FromJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor).map(Self)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Nil)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(FromJson(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut entries: Vec<(Value, Value)> = Vec::new();
        let mut keys = HashSet::new();
        while let Some(key) = object.next_key::<String>()? {
            let FromJson(value) = object.next_value()?;
            if !keys.insert(key.clone()) {
                return Err(A::Error::custom(format!("the key {key:?} stands twice")));
            }
            entries.push((key.into(), value));
        }
        if let [(tag, content)] = entries.as_slice()
            && let Some(tag) = tag.as_str().filter(|tag| TAGS.contains(tag))
        {
            return untag(tag, content).map_err(A::Error::custom);
        }
        Ok(Value::Map(entries))
    }
}

/// The value that a tagged object stands for.
fn untag(tag: &str, content: &Value) -> Result<Value, String> {
    let base64 = |content: &Value| content.as_str().and_then(|text| BASE64.decode(text).ok());
    let expected = match tag {
        BIN => {
            if let Some(bytes) = base64(content) {
                return Ok(Value::Binary(bytes));
            }
            "base64 text"
        }
        EXT => {
            if let Some([kind, data]) = content.as_array().map(Vec::as_slice)
                && let Some(kind) = kind.as_i64().and_then(|kind| i8::try_from(kind).ok())
                && let Some(data) = base64(data)
            {
                return Ok(Value::Ext(kind, data));
            }
            "[type from -128 to 127, base64 text]"
        }
        FLOAT => match content.as_str() {
            Some("nan") => return Ok(f64::NAN.into()),
            Some("inf") => return Ok(f64::INFINITY.into()),
            Some("-inf") => return Ok(f64::NEG_INFINITY.into()),
            _ => "\"nan\", \"inf\" or \"-inf\"",
        },
        MAP => {
            let pair = |item: &Value| match item.as_array().map(Vec::as_slice) {
                Some([key, value]) => Some((key.clone(), value.clone())),
                _ => None,
            };
            if let Some(entries) = content.as_array().and_then(|items| items.iter().map(pair).collect()) {
                return Ok(Value::Map(entries));
            }
            "a list of [key, value]"
        }
        _ => {
            if let Some(bytes) = base64(content)
                && Payload::from_msgpack(bytes.clone()).is_ok()
                && let Ok(value) = rmpv::decode::read_value(&mut bytes.as_slice())
            {
                return Ok(value);
            }
            "base64 text of one MessagePack value"
        }
    };
    Err(format!("{tag} wants {expected}"))
}

/// The first integer in valid JSON that no 64 bits hold: a reader would round it.
fn oversized_integer(json: &str) -> Option<&str> {
    let bytes = json.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += 1;
                while bytes.get(at).is_some_and(|byte| *byte != b'"') {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                let number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
                let len = bytes[at..].iter().take_while(|byte| number(byte)).count();
                let text = &json[at..at + len];
                let integer = !text.contains(['.', 'e', 'E']);
                if integer && text.parse::<u64>().is_err() && text.parse::<i64>().is_err() {
                    return Some(text);
                }
                at += len;
            }
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn print(value: &Value) -> String {
        Json::from_msgpack(&pack(value)).to_string()
    }

    fn read(text: &str) -> Value {
        let bytes = parse(text).unwrap();
        rmpv::decode::read_value(&mut bytes.as_slice()).unwrap()
    }

    #[test]
    fn what_json_knows_is_plain_json() {
        for json in [
            "null",
            "true",
            "18446744073709551615",
            "-9223372036854775808",
            "9007199254740993",
            "0.1",
            "-0.0",
            "1e300",
            r#""text\n✓""#,
            r#"{"b":1,"a":[{},[]]}"#,
        ] {
            assert_eq!(print(&read(json)).replace("e+", "e"), json);
        }
    }

    #[test]
    fn what_json_does_not_know_is_tagged() {
        let map = |entries: Vec<(Value, Value)>| Value::Map(entries);
        for (value, json) in [
            (Value::Binary(vec![0xff, 0]), r#"{"$bin":"/wA="}"#),
            (map(vec![(1.into(), Value::Nil)]), r#"{"$map":[[1,null]]}"#),
            (map(vec![("$bin".into(), "x".into())]), r#"{"$map":[["$bin","x"]]}"#),
            (map(vec![("a".into(), 1.into()), ("a".into(), 2.into())]), r#"{"$map":[["a",1],["a",2]]}"#),
            (Value::Ext(-1, vec![0; 4]), r#"{"$ext":[-1,"AAAAAA=="]}"#),
            (f64::NEG_INFINITY.into(), r#"{"$float":"-inf"}"#),
        ] {
            assert_eq!(print(&value), json);
            assert_eq!(read(json), value);
        }
        assert_eq!(print(&f64::NAN.into()), r#"{"$float":"nan"}"#);
        assert!(read(r#"{"$float":"nan"}"#).as_f64().unwrap().is_nan());
        // Other keys with a dollar mean themselves.
        assert_eq!(print(&read(r#"{"$set":1}"#)), r#"{"$set":1}"#);
    }

    #[test]
    fn deep_nesting_is_kept_as_msgpack() {
        let deep = (0..500).fold(Value::Nil, |inner, _| Value::Array(vec![inner]));
        let json = print(&deep);
        assert!(json.starts_with(r#"{"$msgpack":"#));
        assert_eq!(read(&json), deep);
        let shallow = (0..90).fold(Value::Nil, |inner, _| Value::Array(vec![inner]));
        assert!(print(&shallow).starts_with("[["));
    }

    #[test]
    fn undecodable_bytes_are_still_shown() {
        assert_eq!(Json::from_msgpack(&[0x91]).to_string(), r#"{"$msgpack":"kQ=="}"#);
    }

    #[test]
    fn doubtful_json_is_refused_with_the_reason() {
        for (json, reason) in [
            ("hello", "expected value"),
            ("{\"a\":1} x", "trailing characters"),
            ("[18446744073709551616]", "18446744073709551616 does not fit"),
            (r#"{"s":"123\"","n":-9223372036854775809}"#, "-9223372036854775809"),
            (r#"{"a":1,"a":2}"#, "\"a\" stands twice"),
            (r#"{"$bin":"*"}"#, "$bin wants base64"),
            (r#"{"$ext":[200,""]}"#, "$ext wants"),
            (r#"{"$float":1}"#, "$float wants"),
            (r#"{"$map":{"a":1}}"#, "$map wants"),
            (r#"{"$msgpack":"wQ=="}"#, "$msgpack wants"),
        ] {
            let error = parse(json).unwrap_err().to_string();
            assert!(error.contains(reason), "{json}: {error}");
        }
        assert!(parse(r#"{"s":"99999999999999999999999"}"#).is_ok());
        assert!(parse("1e30").is_ok());
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Nil),
            any::<bool>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-300_i64..300).prop_map(Value::from),
            // NaN is not equal to itself, and has its own test.
            any::<f64>().prop_filter("NaN", |float| !float.is_nan()).prop_map(Value::from),
            Just(Value::from(f64::INFINITY)),
            any::<String>().prop_map(Value::from),
            prop_oneof![Just("$bin"), Just("$ext"), Just("$map"), Just("$msgpack"), Just("a")]
                .prop_map(Value::from),
            proptest::collection::vec(any::<u8>(), 0..20).prop_map(Value::Binary),
            (any::<i8>(), proptest::collection::vec(any::<u8>(), 0..20))
                .prop_map(|(kind, data)| Value::Ext(kind, data)),
        ];
        leaf.prop_recursive(6, 64, 6, |inner| {
            let entry = (inner.clone(), inner.clone());
            let text_entry = (prop_oneof!["[a-c$]{0,2}", "\\$bin"].prop_map(Value::from), inner.clone());
            prop_oneof![
                proptest::collection::vec(inner, 0..6).prop_map(Value::Array),
                proptest::collection::vec(entry, 0..6).prop_map(Value::Map),
                proptest::collection::vec(text_entry, 0..6).prop_map(Value::Map),
            ]
        })
    }

    proptest! {
        #[test]
        fn reading_what_was_printed_gives_the_value_back(value in value()) {
            prop_assert_eq!(read(&print(&value)), value);
        }

        #[test]
        fn any_bytes_are_printed_as_json(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let json = Json::from_msgpack(&bytes).to_string();
            prop_assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "{}", json);
        }

        #[test]
        fn single_precision_prints_exactly(float in any::<f32>().prop_filter("NaN", |float| !float.is_nan())) {
            prop_assert_eq!(read(&print(&Value::F32(float))), Value::F64(float.into()));
        }
    }
}
