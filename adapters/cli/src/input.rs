//! What is published, and where it comes from.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::PathBuf,
    thread,
};

use nolag::Payload;
use tokio::sync::{mpsc, oneshot};

use crate::{
    args::PubArgs,
    exit::{Exit, Failure},
    payload,
};

/// Most bytes of one message's text. Brokers take less than 1 MB packed, and JSON can be longer than what it means.
const MAX_TEXT: usize = 8 << 20;

/// Lines that are read ahead.
const READ_AHEAD: usize = 64;

/// Where the data comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Argument(String),
    File(PathBuf),
    Stdin,
}

/// One line of input.
#[derive(Debug)]
pub(crate) struct Line {
    /// From 1.
    pub(crate) number: u64,
    pub(crate) text: Result<Vec<u8>, Failure>,
}

/// How text becomes a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Text,
}

impl Source {
    /// The table of where data comes from. What standard output is does not matter.
    pub(crate) fn choose(args: &PubArgs, stdin_is_terminal: bool) -> Result<Self, Failure> {
        match (args.data.as_deref(), &args.file) {
            (Some("-"), _) => Ok(Self::Stdin),
            (Some(_), _) if args.lines => Err(Failure::usage(
                "--lines reads standard input or --file, so there can be no DATA; use - or leave it out",
            )),
            (Some(data), _) => Ok(Self::Argument(data.into())),
            (None, Some(path)) => Ok(Self::File(path.clone())),
            (None, None) if stdin_is_terminal => Err(Failure::usage(
                "no data; for example: nolag pub demo/general/messages '{\"text\":\"hello\"}' (or - to type it in)",
            )),
            (None, None) => Ok(Self::Stdin),
        }
    }

    /// All of it, as one message.
    pub(crate) async fn whole(self) -> Result<Vec<u8>, Failure> {
        let Self::Argument(text) = self else {
            // A thread of its own: nothing can end a read of a terminal, and the process must be able to.
            let (done, result) = oneshot::channel();
            thread::spawn(move || {
                let mut text = Vec::new();
                let read = self.open().and_then(|mut input| {
                    let mut limited = (&mut input).take(MAX_TEXT as u64 + 1);
                    limited.read_to_end(&mut text).map_err(|error| cannot_read(&error))
                });
                let _ = done
                    .send(read.and_then(|_| if text.len() > MAX_TEXT { Err(too_long()) } else { Ok(text) }));
            });
            return result
                .await
                .unwrap_or_else(|_| Err(Failure::new(Exit::Internal, "the reading thread ended")));
        };
        Ok(text.into_bytes())
    }

    /// Its lines, without their line feeds.
    pub(crate) fn lines(self) -> mpsc::Receiver<Line> {
        let (lines, receiver) = mpsc::channel(READ_AHEAD);
        thread::spawn(move || {
            let mut input = match self.open() {
                Ok(input) => input,
                Err(error) => return drop(lines.blocking_send(Line { number: 1, text: Err(error) })),
            };
            for number in 1.. {
                let text = match next_line(&mut input) {
                    Ok(None) => return,
                    Ok(Some(text)) => Ok(text),
                    Err(error) => Err(error),
                };
                let last = text.is_err();
                if lines.blocking_send(Line { number, text }).is_err() || last {
                    return;
                }
            }
        });
        receiver
    }

    fn open(&self) -> Result<Box<dyn BufRead>, Failure> {
        match self {
            Self::Argument(text) => Ok(Box::new(io::Cursor::new(text.clone()))),
            Self::File(path) => match File::open(path) {
                Ok(file) => Ok(Box::new(BufReader::new(file))),
                Err(error) => Err(Failure::data(format!("cannot read {}: {error}", path.display()))),
            },
            Self::Stdin => Ok(Box::new(BufReader::new(io::stdin()))),
        }
    }
}

impl Format {
    /// The payload that `text` stands for; `None` for a blank line of JSON, which stands for nothing.
    pub(crate) fn line(self, text: &[u8]) -> Result<Option<Payload>, Failure> {
        if self == Self::Json && text.trim_ascii().is_empty() {
            return Ok(None);
        }
        self.payload(text).map(Some)
    }

    /// The payload that `text` stands for.
    pub(crate) fn payload(self, text: &[u8]) -> Result<Payload, Failure> {
        let text = str::from_utf8(text).map_err(|_| {
            Failure::data("the data is not UTF-8; bytes are published as JSON {\"$bin\":\"base64\"}")
        })?;
        let packed = match self {
            Self::Text => payload::pack_text(text),
            Self::Json => payload::parse(text).map_err(|error| {
                Failure::data(format!("not valid JSON: {error}; publish text with --string"))
            })?,
        };
        Payload::from_msgpack(packed).map_err(|error| Failure::client(&error.into()))
    }

    /// What empty input stands for when it is allowed.
    pub(crate) fn empty(self) -> &'static [u8] {
        match self {
            Self::Json => b"null",
            Self::Text => b"",
        }
    }
}

fn next_line(input: &mut dyn BufRead) -> Result<Option<Vec<u8>>, Failure> {
    let mut text = Vec::new();
    input.take(MAX_TEXT as u64 + 1).read_until(b'\n', &mut text).map_err(|error| cannot_read(&error))?;
    if text.is_empty() {
        return Ok(None);
    }
    if text.last() == Some(&b'\n') {
        text.pop();
        if text.last() == Some(&b'\r') {
            text.pop();
        }
    } else if text.len() > MAX_TEXT {
        return Err(too_long());
    }
    Ok(Some(text))
}

fn cannot_read(error: &io::Error) -> Failure {
    Failure::data(format!("cannot read the input: {error}"))
}

fn too_long() -> Failure {
    Failure::data(format!("the input has a message of more than {} MB; split it", MAX_TEXT >> 20))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Arguments, Command};

    fn source(args: &[&str], stdin_is_terminal: bool) -> Result<Source, Exit> {
        let Command::Pub(args) = Arguments::parse_from(["nolag", "pub", "a/b/c"].iter().chain(args)).command
        else {
            unreachable!("the arguments are those of pub")
        };
        Source::choose(&args, stdin_is_terminal).map_err(|failure| failure.exit)
    }

    #[test]
    fn the_table_of_where_data_comes_from() {
        let file = || Source::File("f".into());
        for terminal in [true, false] {
            assert_eq!(source(&["1"], terminal), Ok(Source::Argument("1".into())), "DATA");
            assert_eq!(source(&["-5"], terminal), Ok(Source::Argument("-5".into())), "DATA that is negative");
            assert_eq!(source(&["-"], terminal), Ok(Source::Stdin), "-");
            assert_eq!(source(&["--file", "f"], terminal), Ok(file()), "--file");
            assert_eq!(source(&["--file", "f", "--lines"], terminal), Ok(file()), "--file --lines");
            assert_eq!(source(&["-", "--lines"], terminal), Ok(Source::Stdin), "- --lines");
            assert_eq!(source(&["1", "--lines"], terminal), Err(Exit::Usage), "DATA --lines");
        }
        assert_eq!(source(&[], false), Ok(Source::Stdin), "nothing, pipe or file");
        assert_eq!(source(&["--lines"], false), Ok(Source::Stdin), "--lines, pipe or file");
        assert_eq!(source(&[], true), Err(Exit::Usage), "nothing, terminal");
        assert_eq!(source(&["--lines"], true), Err(Exit::Usage), "--lines, terminal");
    }

    #[test]
    fn lines_lose_their_ends_only() {
        let mut input = io::Cursor::new(b"a\r\n\n b \nlast".to_vec());
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut input).unwrap() {
            lines.push(line);
        }
        assert_eq!(lines, [b"a".as_slice(), b"", b" b ", b"last"]);
    }

    #[test]
    fn text_and_json_are_told_apart() {
        let error = Format::Json.payload(b"hello").unwrap_err();
        assert_eq!(error.exit, Exit::Data);
        assert!(error.message.unwrap().contains("--string"));
        assert_eq!(Format::Text.payload(b"hello").unwrap().text(), Some("hello"));
        assert_eq!(Format::Json.payload(b" 7\n").unwrap().decode::<u8>(), Ok(7));
        assert!(Format::Json.line(b"  \r").unwrap().is_none());
        assert_eq!(Format::Text.line(b"").unwrap().unwrap().text(), Some(""));
        assert_eq!(Format::Text.payload(b"\xff").unwrap_err().exit, Exit::Data);
    }
}
