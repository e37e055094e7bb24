//! Standard output is data, standard error is talk.

use std::{
    borrow::Cow,
    fmt,
    io::{self, IsTerminal, Write},
};

use jiff::Timestamp;
use serde::Serialize;

use crate::exit::Failure;

/// The version of the JSON lines. Fields are only ever added.
const SCHEMA: u8 = 1;

/// Standard output. Every line is written at once, so that whoever reads it sees it at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    json: bool,
    pretty: bool,
    terminal: bool,
}

/// One line of `--json`.
#[derive(Serialize)]
struct Line<'a, T> {
    v: u8,
    event: &'a str,
    at: String,
    #[serde(flatten)]
    fields: T,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, pretty: false, terminal: io::stdout().is_terminal() }
    }

    /// Whether JSON is written over several lines.
    pub(crate) fn pretty(self, pretty: bool) -> Self {
        Self { pretty, ..self }
    }

    /// Whether lines are JSON objects.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Writes a line for people. Control characters cannot reach a terminal.
    pub(crate) fn line(self, text: impl fmt::Display) -> Result<(), Failure> {
        let mut text = text.to_string();
        if self.terminal {
            text = escape_raw(&text).into_owned();
        }
        text.push('\n');
        write(text.as_bytes())
    }

    /// Writes an event as a line of JSON.
    pub(crate) fn event(self, event: &str, fields: impl Serialize) -> Result<(), Failure> {
        self.json(&Line { v: SCHEMA, event, at: now(), fields })
    }

    /// Writes a value as JSON, with nothing around it.
    pub(crate) fn json(self, value: &impl Serialize) -> Result<(), Failure> {
        let mut text = self.to_json(value)?;
        if self.terminal {
            text = escape_json(&text).into_owned();
        }
        text.push('\n');
        write(text.as_bytes())
    }

    /// Writes bytes as they are, and `end`. On a terminal control characters are escaped.
    pub(crate) fn raw(self, bytes: &[u8], end: &str) -> Result<(), Failure> {
        let all = [bytes, end.as_bytes()].concat();
        match self.terminal {
            true => write(escape_raw(&String::from_utf8_lossy(&all)).as_bytes()),
            false => write(&all),
        }
    }

    /// The JSON text, on one line unless it is for people.
    pub(crate) fn to_json(self, value: &impl Serialize) -> Result<String, Failure> {
        let text =
            if self.pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
        // Only a map with keys that are no text cannot be JSON, and there is none.
        Ok(text.map_err(io::Error::from)?)
    }
}

fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(())
}

/// Says something on standard error. If nobody can hear it, so be it.
pub(crate) fn say(text: impl fmt::Display) {
    let mut text = text.to_string();
    if io::stderr().is_terminal() {
        text = escape_raw(&text).into_owned();
    }
    text.push('\n');
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Now, in RFC 3339 with milliseconds.
fn now() -> String {
    format!("{:.3}", Timestamp::now())
}

/// Escapes in text for people what could repaint a terminal; lines and tabs stay.
fn escape_raw(text: &str) -> Cow<'_, str> {
    replace(text, |c| {
        (is_dangerous(c) && !matches!(c, '\n' | '\t')).then(|| format!("\\u{{{:x}}}", u32::from(c)))
    })
}

/// Escapes the same in JSON, where such characters stand in texts only, except for the line feeds between lines. The
/// JSON means what it meant.
fn escape_json(text: &str) -> Cow<'_, str> {
    replace(text, |c| (is_dangerous(c) && c != '\n').then(|| format!("\\u{:04x}", u32::from(c))))
}

/// Control characters, and those that turn the direction of the text around them.
pub(crate) fn is_dangerous(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn replace(text: &str, mut escape: impl FnMut(char) -> Option<String>) -> Cow<'_, str> {
    if !text.chars().any(is_dangerous) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match escape(c) {
            Some(escaped) => safe.push_str(&escaped),
            None => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_get_no_control_characters() {
        assert_eq!(escape_raw("a\u{1b}[2Jb\tc\nd\re"), "a\\u{1b}[2Jb\tc\nd\\u{d}e");
        assert_eq!(escape_raw("\u{9b}\u{202e}"), "\\u{9b}\\u{202e}");
        assert_eq!(escape_raw("grüße ✓"), "grüße ✓");
    }

    #[test]
    fn escaped_json_means_the_same() {
        let text = serde_json::to_string("a\u{1b}\u{7f}\u{9b}\u{202e}z").unwrap();
        let escaped = escape_json(&text);
        assert!(!escaped.chars().any(is_dangerous), "{escaped}");
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), "a\u{1b}\u{7f}\u{9b}\u{202e}z");
    }

    #[test]
    fn times_are_rfc_3339_with_milliseconds() {
        let now = now();
        assert_eq!(now.len(), "2026-01-02T03:04:05.678Z".len(), "{now}");
        assert!(now.ends_with('Z') && now.as_bytes()[19] == b'.', "{now}");
    }
}
