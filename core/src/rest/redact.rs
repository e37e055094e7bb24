//! What servers and callers wrote, without the secrets in it.

use alloc::{boxed::Box, string::String, vec::Vec};

use crate::Token;

/// What stands in the place of a secret.
const REDACTED: &str = "(redacted)";

/// Shorter ones would be found in any text.
const MIN_SECRET: usize = 6;

/// Most backslashes before a character; JSON in JSON has three.
const MAX_ESCAPES: usize = 4;

/// Takes secrets out of texts: everything that looks like a key or a token, and these.
#[derive(Clone, Copy)]
pub(super) struct Redactor<'a>(pub(super) &'a [Token]);

impl Redactor<'_> {
    /// A server's text, fit for terminals and for keeping: one line, at most `max` characters.
    pub(super) fn line(self, text: &str, max: usize) -> Box<str> {
        let known = self.hide(text);
        let mut out = String::new();
        let mut length = 0;
        let words = known.split(|c: char| c.is_control() || c.is_whitespace());
        for word in words.filter(|word| !word.is_empty()) {
            if length >= max {
                break;
            }
            if !out.is_empty() {
                out.push(' ');
                length += 1;
            }
            let start = out.len();
            redact(word, &mut out);
            length += out[start..].chars().count();
        }
        match out.char_indices().nth(max) {
            Some((end, _)) => out[..end].trim_end().into(),
            None => out.into(),
        }
    }

    /// A text as it is.
    pub(super) fn text(self, text: &str) -> String {
        let mut out = String::new();
        redact(&self.hide(text), &mut out);
        out
    }

    /// A segment of a path. No id begins as keys and tokens do.
    pub(super) fn id(self, segment: &str) -> String {
        let secret = ["at_", "nlg_"].iter().any(|prefix| segment.starts_with(prefix));
        if secret { REDACTED.into() } else { self.text(segment) }
    }

    /// Takes these secrets out.
    fn hide(self, text: &str) -> String {
        let whole = self.0.iter().map(Token::expose);
        // Of a key, what is before the dot only says which one it is.
        let parts = whole.clone().filter_map(|secret| Some(secret.split_once('.')?.1));
        let secrets: Vec<&str> = whole.chain(parts).filter(|secret| secret.len() >= MIN_SECRET).collect();

        let mut out = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let found = secrets.iter().find_map(|secret| matches(secret.as_bytes(), rest.as_bytes()));
            match found.and_then(|length| rest.get(length..)) {
                Some(after) => {
                    out.push_str(REDACTED);
                    rest = after;
                }
                None => {
                    out.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        out
    }
}

/// How much of the text's beginning is the secret, each byte of it as it is, percent-encoded or behind backslashes.
fn matches(secret: &[u8], text: &[u8]) -> Option<usize> {
    let mut rest = text;
    for &byte in secret {
        let mut escapes = 0..MAX_ESCAPES;
        rest = loop {
            match *rest {
                [next, ref after @ ..] if next == byte => break after,
                [b'%', high, low, ref after @ ..] if encoded(high, low) == Some(u32::from(byte)) => {
                    break after;
                }
                [b'\\', ref after @ ..] if escapes.next().is_some() => rest = after,
                _ => return None,
            }
        };
    }
    Some(text.len() - rest.len())
}

fn encoded(high: u8, low: u8) -> Option<u32> {
    Some(char::from(high).to_digit(16)? * 16 + char::from(low).to_digit(16)?)
}

/// Appends a word, with `(redacted)` in the place of every key and token, such as `nlg_live_0123456789ab.secret`.
fn redact(word: &str, out: &mut String) {
    let part_of_token = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '%');
    let mut rest = word;
    while let Some(start) = rest.find(part_of_token) {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let (run, after) = rest.split_at(rest.find(|c| !part_of_token(c)).unwrap_or(rest.len()));
        let id = ["_live_", "_sandbox_"].iter().find_map(|kind| Some(run.split_once(kind)?.1));
        let secret = id.is_some_and(|id| [".", "%2E", "%2e"].iter().any(|dot| id.contains(dot)));
        out.push_str(if secret { REDACTED } else { run });
        rest = after;
    }
    out.push_str(rest);
}
