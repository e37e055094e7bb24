//! Reading recordings: one JSON object per line, as `traces/README.md` describes.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value as Json};

/// Longest message that a compact line may stand for. Brokers cut far below this.
const LONGEST_MESSAGE: u64 = 64 << 20;

/// One recording. Lines that could not be read are problems; the others are still there.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// The first line.
    pub header: Header,
    /// Every other line that could be read.
    pub lines: Vec<Line>,
    /// What is wrong with the recording itself.
    pub problems: Vec<Problem>,
    /// Where the file lies; files that the header names lie there too.
    pub directory: PathBuf,
}

/// The first line of a recording.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Header {
    /// The recording's name.
    pub scenario: String,
    /// All keys as they stand there, for those who replay the session.
    pub keys: Map<String, Json>,
}

/// A line after the header.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its number in the file; the header is line 1.
    pub number: usize,
    /// Seconds since the first connection opened.
    pub at: f64,
    /// What happened.
    pub what: What,
}

/// What a line records.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// Anything but a message: opened, closed, or something about the broker.
    Event {
        /// Its name, for example `open`.
        name: String,
        /// The connection, when it is about one.
        conn: Option<u64>,
        /// All keys of the line.
        keys: Map<String, Json>,
    },
    /// A WebSocket message.
    Message(Message),
}

/// A recorded WebSocket message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The connection.
    pub conn: u64,
    /// Who sent it.
    pub from: Peer,
    /// What it holds.
    pub body: Body,
    /// Whether the recording declares it undecodable.
    pub malformed: bool,
}

/// The sender of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// `s2c`.
    Broker,
    /// `c2s`.
    Client,
}

/// The content of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// A binary message: MessagePack.
    Binary(Vec<u8>),
    /// A text message: JSON.
    Text(String),
}

impl Body {
    /// The message as MessagePack; a text message is converted from JSON.
    ///
    /// # Errors
    /// Why the text is not JSON.
    pub fn to_message_pack(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::Binary(bytes) => Ok(bytes.clone()),
            Self::Text(text) => {
                let json: Json =
                    serde_json::from_str(text).map_err(|error| format!("text is not JSON: {error}"))?;
                rmp_serde::to_vec(&json).map_err(|error| format!("JSON does not fit MessagePack: {error}"))
            }
        }
    }
}

/// Something wrong with one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, counted from 1; 0 means the file as a whole.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

impl Trace {
    /// Reads a file.
    pub fn load(path: &Path) -> Self {
        let directory = path.parent().map(Path::to_owned).unwrap_or_default();
        match fs::read(path) {
            Ok(bytes) => Self { directory, ..Self::parse(&bytes) },
            Err(error) => Self {
                problems: vec![Problem { line: 0, reason: format!("cannot be read: {error}") }],
                ..Self::default()
            },
        }
    }

    /// Reads the content of a file.
    pub fn parse(content: &[u8]) -> Self {
        let mut trace = Self::default();
        let content = content.strip_suffix(b"\n").unwrap_or(content);
        for (index, line) in content.split(|byte| *byte == b'\n').enumerate() {
            let number = index + 1;
            let read = match index {
                0 => Header::parse(line).map(|header| trace.header = header),
                _ => Line::parse(number, line).map(|line| trace.lines.push(line)),
            };
            if let Err(reason) = read {
                trace.problems.push(Problem { line: number, reason });
            }
        }
        trace
    }

    /// The messages that `peer` sent, with their line numbers.
    pub fn messages_from(&self, peer: Peer) -> impl Iterator<Item = (usize, &Message)> {
        self.lines.iter().filter_map(move |line| match &line.what {
            What::Message(message) if message.from == peer => Some((line.number, message)),
            _ => None,
        })
    }
}

impl Header {
    /// Reads the first line of a recording, without its line feed.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        let keys = object(line)?;
        Ok(Self { scenario: text(&keys, "scenario")?.to_owned(), keys })
    }
}

impl Line {
    /// Reads any other line of a recording, without its line feed.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(number: usize, line: &[u8]) -> Result<Self, String> {
        parse_line(number, object(line)?)
    }
}

fn object(line: &[u8]) -> Result<Map<String, Json>, String> {
    match serde_json::from_slice(line) {
        Ok(Json::Object(keys)) => Ok(keys),
        Ok(_) => Err("not a JSON object".to_owned()),
        Err(error) => Err(format!("not JSON: {error}")),
    }
}

fn parse_line(number: usize, keys: Map<String, Json>) -> Result<Line, String> {
    let at = key(&keys, "t")?.as_f64().ok_or("key \"t\" is not a number")?;
    if keys.contains_key("event") {
        let name = text(&keys, "event")?.to_owned();
        let needs_conn = matches!(name.as_str(), "open" | "close");
        let conn = if needs_conn || keys.contains_key("conn") { Some(uint(&keys, "conn")?) } else { None };
        return Ok(Line { number, at, what: What::Event { name, conn, keys } });
    }
    let from = match text(&keys, "dir")? {
        "c2s" => Peer::Client,
        "s2c" => Peer::Broker,
        other => return Err(format!("key \"dir\" is {other:?}, not \"c2s\" or \"s2c\"")),
    };
    let malformed = match keys.get("malformed") {
        None => false,
        Some(flag) => flag.as_bool().ok_or("key \"malformed\" is not a boolean")?,
    };
    let message = Message { conn: uint(&keys, "conn")?, from, body: body(&keys)?, malformed };
    Ok(Line { number, at, what: What::Message(message) })
}

fn body(keys: &Map<String, Json>) -> Result<Body, String> {
    if keys.contains_key("text") {
        return Ok(Body::Text(text(keys, "text")?.to_owned()));
    }
    if keys.contains_key("hex") {
        return Ok(Body::Binary(hex(keys, "hex")?));
    }
    if !keys.contains_key("len") {
        return Err("no key \"hex\", \"text\" or \"len\"".to_owned());
    }
    let (len, times) = (uint(keys, "len")?, uint(keys, "times")?);
    let (mut bytes, repeat, tail) = (hex(keys, "head")?, hex(keys, "repeat")?, hex(keys, "tail")?);
    let &[byte] = repeat.as_slice() else {
        return Err("key \"repeat\" is not one byte".to_owned());
    };
    let sum = times.saturating_add((bytes.len() + tail.len()) as u64);
    if sum != len {
        return Err(format!("key \"len\" is {len}, but the parts are {sum} bytes"));
    }
    if len > LONGEST_MESSAGE {
        return Err(format!("key \"len\" is {len}, more than {LONGEST_MESSAGE}"));
    }
    bytes.extend((0..times).map(|_| byte));
    bytes.extend(tail);
    Ok(Body::Binary(bytes))
}

fn key<'k>(keys: &'k Map<String, Json>, name: &str) -> Result<&'k Json, String> {
    keys.get(name).ok_or_else(|| format!("key {name:?} is missing"))
}

fn text<'k>(keys: &'k Map<String, Json>, name: &str) -> Result<&'k str, String> {
    key(keys, name)?.as_str().ok_or_else(|| format!("key {name:?} is not a string"))
}

fn uint(keys: &Map<String, Json>, name: &str) -> Result<u64, String> {
    key(keys, name)?.as_u64().ok_or_else(|| format!("key {name:?} is not a whole number"))
}

fn hex(keys: &Map<String, Json>, name: &str) -> Result<Vec<u8>, String> {
    let digits = text(keys, name)?.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return Err(format!("key {name:?} is not hex: odd number of digits"));
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    digits
        .chunks_exact(2)
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect::<Option<_>>()
        .ok_or_else(|| format!("key {name:?} is not hex"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(line: &str) -> String {
        let trace = Trace::parse(format!("{{\"scenario\":\"x\"}}\n{line}\n").as_bytes());
        let [problem] = trace.problems.as_slice() else { panic!("{line}: {:?}", trace.problems) };
        assert_eq!(problem.line, 2);
        problem.reason.clone()
    }

    #[test]
    fn compact_lines_are_expanded() {
        let line =
            r#"{"t":0,"conn":1,"dir":"c2s","len":6,"head":"0102","repeat":"aa","times":3,"tail":"FF"}"#;
        let trace = Trace::parse(format!("{{\"scenario\":\"x\"}}\n{line}").as_bytes());
        let (number, message) = trace.messages_from(Peer::Client).next().expect("a message");
        assert_eq!((number, &message.body), (2, &Body::Binary(vec![1, 2, 0xaa, 0xaa, 0xaa, 0xff])));
    }

    #[test]
    fn every_fault_of_a_line_is_named() {
        assert!(problem("oops").starts_with("not JSON"));
        assert_eq!(problem("[]"), "not a JSON object");
        assert_eq!(problem(r#"{"conn":1,"dir":"c2s","hex":""}"#), "key \"t\" is missing");
        assert_eq!(problem(r#"{"t":0,"conn":1,"hex":""}"#), "key \"dir\" is missing");
        assert_eq!(problem(r#"{"t":0,"dir":"c2s","hex":""}"#), "key \"conn\" is missing");
        assert_eq!(problem(r#"{"t":0,"conn":1,"dir":"c2s"}"#), "no key \"hex\", \"text\" or \"len\"");
        assert_eq!(
            problem(r#"{"t":0,"conn":1,"dir":"c2s","hex":"8"}"#),
            "key \"hex\" is not hex: odd number of digits"
        );
        assert_eq!(problem(r#"{"t":0,"conn":1,"dir":"c2s","hex":"é"}"#), "key \"hex\" is not hex");
        assert_eq!(problem(r#"{"t":0,"event":"open"}"#), "key \"conn\" is missing");
        let long = r#"{"t":0,"conn":1,"dir":"c2s","len":999999999999,"head":"","repeat":"00","times":999999999999,"tail":""}"#;
        assert!(problem(long).contains("more than"));
    }

    #[test]
    fn a_file_needs_a_header() {
        for content in ["", "\n", "{}\n", "{\"t\":0,\"event\":\"broker-started\"}\n"] {
            assert_eq!(Trace::parse(content.as_bytes()).problems[0].line, 1, "{content:?}");
        }
    }
}
