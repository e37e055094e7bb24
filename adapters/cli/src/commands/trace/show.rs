//! `nolag trace show`: recordings for people and scripts.

use std::{
    borrow::Cow,
    fmt::Write as _,
    fs::File,
    io::{self, BufRead, BufReader, Read as _},
};

use nolag::Dump;
use nolag_conformance::trace::{Body, Header, Line, Message, Peer, What};
use nolag_core::wire::{FrameMap, Key};
use serde::Serialize;
use serde_json::{Map, Value as Json};

use super::{cannot_read, file::hex, redact::Redactor};
use crate::{
    args::trace::{Direction, ShowArgs},
    exit::{Exit, Failure, Outcome},
    output::{Output, say},
    payload,
};

/// The longest line: the longest message in hex, and something around it.
const LONGEST_LINE: u64 = (128 << 20) + (64 << 10);

/// Bytes in a row of a hex dump.
const ROW: usize = 16;

/// A line of `--json`.
#[derive(Serialize)]
struct Shown<'a, T> {
    v: u8,
    event: &'a str,
    line: usize,
    #[serde(flatten)]
    rest: T,
}

#[derive(Serialize)]
struct ShownFrame<'a> {
    t: f64,
    conn: u64,
    direction: &'a str,
    r#type: &'a str,
    size: usize,
    text: bool,
    summary: &'a str,
    /// What is in it; nothing for what is no MessagePack.
    #[serde(skip_serializing_if = "Option::is_none")]
    frame: Option<payload::Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

#[derive(Serialize)]
struct ShownEvent<'a> {
    t: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    conn: Option<u64>,
    name: &'a str,
    details: Map<String, Json>,
}

#[derive(Serialize)]
struct Bad<'a> {
    reason: &'a str,
}

#[derive(Serialize)]
struct ShownHeader<'a> {
    header: &'a Map<String, Json>,
}

pub(super) fn run(args: ShowArgs) -> Outcome {
    let file = File::open(&args.file).map_err(|error| cannot_read(&args.file, &error))?;
    let mut input = BufReader::new(file);
    let mut show = Show { output: Output::new(args.json), redactor: Redactor::default(), args: &args };
    let (mut number, mut bad) = (0, 0);
    loop {
        let line = next_line(&mut input).map_err(|error| cannot_read(&args.file, &error))?;
        // A file without a line has no header.
        let Some(line) = line.or_else(|| (number == 0).then(|| Ok(Vec::new()))) else { break };
        number += 1;
        let read = line.and_then(|line| match number {
            1 => Header::parse(&line).map(Entry::Header),
            _ => Line::parse(number, &line).map(Entry::Line),
        });
        match read {
            Ok(Entry::Header(header)) => show.header(header)?,
            Ok(Entry::Line(line)) => show.line(&line)?,
            Err(reason) => {
                bad += 1;
                show.bad(number, &reason)?;
            }
        }
    }
    match bad {
        0 => Ok(Exit::Done),
        1 => Err(Failure::data(format!("1 line of {} is no trace", args.file.display()))),
        bad => Err(Failure::data(format!("{bad} lines of {} are no trace", args.file.display()))),
    }
}

enum Entry {
    Header(Header),
    Line(Line),
}

/// The next line, without its line feed; `Err` inside if it is too long to be one.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Result<Vec<u8>, String>>> {
    let mut line = Vec::new();
    let len = input.take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(Some(Ok(line)));
    }
    if (len as u64) < LONGEST_LINE {
        return Ok((len > 0).then_some(Ok(line)));
    }
    input.skip_until(b'\n')?;
    Ok(Some(Err(format!("longer than {LONGEST_LINE} bytes"))))
}

struct Show<'a> {
    args: &'a ShowArgs,
    output: Output,
    redactor: Redactor,
}

impl Show<'_> {
    fn header(&mut self, header: Header) -> Result<(), Failure> {
        let keys = self.redactor.keys(&header.keys);
        if !self.args.types.is_empty() || self.args.direction.is_some() {
            return Ok(());
        }
        if self.output.is_json() {
            return self.json(1, "header", ShownHeader { header: &keys });
        }
        let about = keys.get("about").and_then(Json::as_str).unwrap_or_default();
        self.output.line(format_args!("# {}: {about}", self.redactor.words(&header.scenario)))
    }

    fn line(&mut self, line: &Line) -> Result<(), Failure> {
        match &line.what {
            What::Event { name, conn, keys } => {
                let details = event_details(&mut self.redactor, keys);
                if self.args.direction.is_some() || !self.is_wanted(name) {
                    return Ok(());
                }
                if self.output.is_json() {
                    let event = ShownEvent { t: line.at, conn: *conn, name, details };
                    return self.json(line.number, "event", event);
                }
                self.output.line(event_line(line.at, *conn, name, &details))
            }
            What::Message(message) => {
                let frame = Frame::new(&mut self.redactor, message);
                let direction = match message.from {
                    Peer::Broker => Direction::In,
                    Peer::Client => Direction::Out,
                };
                if self.args.direction.is_some_and(|wanted| wanted != direction)
                    || !self.is_wanted(&frame.name)
                {
                    return Ok(());
                }
                self.frame(line, message, &frame, direction)
            }
        }
    }

    fn frame(
        &self,
        line: &Line,
        message: &Message,
        frame: &Frame<'_>,
        direction: Direction,
    ) -> Result<(), Failure> {
        let content = frame.packed.as_deref().map(payload::Json::from_msgpack);
        if self.output.is_json() {
            let shown = ShownFrame {
                t: line.at,
                conn: message.conn,
                direction: if direction == Direction::In { "in" } else { "out" },
                r#type: &frame.name,
                size: frame.size,
                text: frame.is_text,
                summary: &frame.summary,
                frame: content,
                hex: self.args.raw.then(|| hex(&frame.bytes)),
            };
            return self.json(line.number, "frame", shown);
        }
        self.output.line(frame.line(line.at, message))?;
        if self.args.raw {
            if let Some(content) = content {
                self.output.line(format_args!("          {content}"))?;
            }
            for (n, row) in frame.bytes.chunks(ROW).enumerate() {
                self.output.line(hex_row(n * ROW, row))?;
            }
        }
        Ok(())
    }

    fn bad(&self, number: usize, reason: &str) -> Result<(), Failure> {
        let reason = self.redactor.words(reason);
        if self.output.is_json() {
            return self.json(number, "bad", Bad { reason: &reason });
        }
        say(format_args!("{}:{number}: {reason}", self.args.file.display()));
        Ok(())
    }

    fn is_wanted(&self, name: &str) -> bool {
        self.args.types.is_empty() || self.args.types.iter().any(|wanted| wanted == name)
    }

    fn json(&self, line: usize, event: &str, rest: impl Serialize) -> Result<(), Failure> {
        self.output.json(&Shown { v: 1, event, line, rest })
    }
}

/// A message as it may be seen.
pub(super) struct Frame<'m> {
    /// Its type; `heartbeat`, or `undecodable`, for what has none.
    pub(super) name: String,
    /// Type and fields; tokens do not show, and payloads only with kind and size.
    summary: String,
    /// The size of the message, not of what is left of it.
    size: usize,
    is_text: bool,
    /// The message without tokens.
    bytes: Cow<'m, [u8]>,
    /// The same as MessagePack, if it is one value.
    packed: Option<Cow<'m, [u8]>>,
}

impl<'m> Frame<'m> {
    pub(super) fn new(redactor: &mut Redactor, message: &'m Message) -> Self {
        match &message.body {
            Body::Binary(bytes) => {
                let redacted = redactor.binary(bytes);
                let packed = (!redacted.malformed && !bytes.is_empty()).then(|| redacted.content.clone());
                Self {
                    name: type_of(&redacted.content),
                    summary: Dump::new(&redacted.content).to_string(),
                    size: bytes.len(),
                    is_text: false,
                    bytes: redacted.content,
                    packed,
                }
            }
            Body::Text(text) => {
                let redacted = redactor.text(text).content.into_owned();
                let packed = Body::Text(redacted.clone()).to_message_pack();
                let (name, summary) = match &packed {
                    Ok(packed) => (type_of(packed), Dump::new(packed).to_string()),
                    Err(reason) => ("undecodable".into(), format!("undecodable: {reason}")),
                };
                Self {
                    name,
                    summary,
                    size: text.len(),
                    is_text: true,
                    bytes: Cow::Owned(redacted.into_bytes()),
                    packed: packed.ok().map(Cow::Owned),
                }
            }
        }
    }

    /// Time, connection, direction, what it is, and its size.
    pub(super) fn line(&self, at: f64, message: &Message) -> String {
        let arrow = match message.from {
            Peer::Broker => "<-",
            Peer::Client => "->",
        };
        let bytes = if self.size == 1 { "byte" } else { "bytes" };
        let text = if self.is_text { "text, " } else { "" };
        format!("{at:>9.3} #{} {arrow} {}  ({text}{} {bytes})", message.conn, self.summary, self.size)
    }
}

fn type_of(message: &[u8]) -> String {
    if message.is_empty() {
        return "heartbeat".into();
    }
    let map = FrameMap::parse(message).ok();
    map.and_then(|map| map.str(Key::Type).map(String::from)).unwrap_or_else(|| "undecodable".into())
}

/// What a line says of an event, without tokens.
pub(super) fn event_details(redactor: &mut Redactor, keys: &Map<String, Json>) -> Map<String, Json> {
    let mut keys = redactor.keys(keys);
    keys.retain(|key, _| !matches!(key.as_str(), "t" | "conn" | "event"));
    // Tokens that were taken out of the broker's file.
    if let Some(Json::Array(removed)) = keys.get_mut("removed") {
        for token in removed {
            *token = Json::String(token.as_str().map(|token| redactor.token(token)).unwrap_or_default());
        }
    }
    keys
}

pub(super) fn event_line(at: f64, conn: Option<u64>, name: &str, details: &Map<String, Json>) -> String {
    let mut line = format!("{at:>9.3} ");
    // Writing to a String cannot fail.
    let _ = match conn {
        Some(conn) => write!(line, "#{conn} -- {name}"),
        None => write!(line, "-- {name}"),
    };
    for (key, value) in details {
        let _ = write!(line, " {key}={value}");
    }
    line
}

fn hex_row(at: usize, row: &[u8]) -> String {
    let mut hex = String::new();
    for byte in row {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x} ");
    }
    let shown = |byte: &u8| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '.' };
    let text: String = row.iter().map(shown).collect();
    format!("          {at:08x}  {hex:<48} {text}")
}
