//! Exit codes, and the errors that lead to them.

use std::{
    fmt,
    io::{self, ErrorKind},
    process::ExitCode,
};

use nolag::{Error, Misuse, NoLagApiError, Op, ProtocolError, Rejection, TransportErrorKind};

/// What the exit code says. Documented in [`HELP`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    Internal = 1,
    Usage = 2,
    Unreachable = 3,
    Denied = 4,
    Refused = 5,
    NotReached = 6,
    Data = 7,
    SomeFailed = 8,
    Interrupted = 130,
}

/// The exit codes, for the help of every command.
pub(crate) const HELP: &str = "\
Exit codes:
    0  done: the goal was met
    1  a fault inside the command; `trace replay`: it differs from the recording
    2  usage or configuration, also an address that is taken
    3  could not connect, or the connection was lost for good
    4  the token or the API key was refused, or a limit is reached
    5  the broker refused this topic or operation
    6  timed out, or --count was not reached
    7  the data is not usable, for example invalid JSON
    8  some of many messages failed
  130  interrupted before the goal was met";

/// The errors by which the broker says that a limit is reached, not that the operation is wrong.
const LIMIT_CODES: [u32; 2] = [42910, 42920];

/// The close code of an organization that is at its connection limit.
const CONNECTION_LIMIT: u16 = 4002;

/// The end of a command that did not meet its goal, or that nobody listens to any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// One line for people; `None` when there is nothing to say, or all was said.
    pub(crate) message: Option<String>,
}

/// How a command ends.
pub(crate) type Outcome = Result<Exit, Failure>;

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: Some(message.into()) }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(crate) fn data(message: impl Into<String>) -> Self {
        Self::new(Exit::Data, message)
    }

    /// What the client library reports about an operation.
    pub(crate) fn client(error: &Error) -> Self {
        let mut message = error.to_string();
        if let Some(advice) = advice(error) {
            message = format!("{message}; {advice}");
        }
        Self::new(exit_for(error), message)
    }

    /// What opening the connection to `url` reports.
    pub(crate) fn connect(error: &Error, url: &str) -> Self {
        let failure = Self::client(error);
        match error {
            // The address itself is at fault, and is named; or it has not been needed yet.
            Error::Misuse(_) | Error::Rejected(Rejection::TokenUnavailable(_)) => failure,
            _ => Self { message: failure.message.map(|message| format!("{url}: {message}")), ..failure },
        }
    }

    /// What the control plane at `url`, which the option `option` gave, reports.
    pub(crate) fn api(error: &NoLagApiError, url: &str, option: &str) -> Self {
        let mut message = match error {
            NoLagApiError::Misuse { what, reason } => {
                let what = match *what {
                    "api_key" => "the API key",
                    "base_url" | "broker_url" => option,
                    what => what,
                };
                format!("{what}: {reason}")
            }
            NoLagApiError::Decode { .. } | NoLagApiError::Transport { .. } => format!("{url}: {error}"),
            _ => error.to_string(),
        };
        if let Some(advice) = api_advice(error, option) {
            message = format!("{message}; {advice}");
        }
        Self::new(exit_for_api(error), message)
    }

    pub(crate) fn during(self, what: impl fmt::Display) -> Self {
        Self { message: self.message.map(|message| format!("{what}: {message}")), ..self }
    }
}

/// Standard output cannot be written. That its reader has seen enough is no failure.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe => Self { exit: Exit::Done, message: None },
            _ => Self::new(Exit::Internal, format!("cannot write to standard output: {error}")),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

fn exit_for(error: &Error) -> Exit {
    match error {
        Error::Misuse(Misuse::DataTooLarge { .. } | Misuse::Encode(_) | Misuse::Extension) => Exit::Data,
        Error::Misuse(Misuse::InvalidPayload(_)) => Exit::Data,
        Error::Misuse(_) | Error::Rejected(Rejection::TokenUnavailable(_)) => Exit::Usage,
        Error::Protocol(ProtocolError::Timeout { op: Op::Connect, .. }) => Exit::Unreachable,
        Error::Protocol(ProtocolError::Timeout { .. }) => Exit::NotReached,
        Error::Server(error) if error.op == Some(Op::Connect) => Exit::Denied,
        Error::Server(error) if error.code.is_some_and(|code| LIMIT_CODES.contains(&code)) => Exit::Denied,
        Error::Server(_) => Exit::Refused,
        Error::Transport(error) if error.kind == TransportErrorKind::Closed(Some(CONNECTION_LIMIT)) => {
            Exit::Denied
        }
        Error::Protocol(_) | Error::Transport(_) => Exit::Unreachable,
        Error::Rejected(Rejection::Closing | Rejection::Disconnected | Rejection::NotConnected) => {
            Exit::Unreachable
        }
        _ => Exit::Internal,
    }
}

fn exit_for_api(error: &NoLagApiError) -> Exit {
    match error {
        // Free-form data, and a batch that is too large.
        NoLagApiError::Misuse {
            what: "body" | "config" | "data" | "messages" | "metadata" | "topic_configs",
            ..
        } => Exit::Data,
        NoLagApiError::Misuse { .. } => Exit::Usage,
        NoLagApiError::Status(error) if error.code.is_some_and(|code| LIMIT_CODES.contains(&code)) => {
            Exit::Denied
        }
        NoLagApiError::Status(error) => match error.status {
            401 | 429 => Exit::Denied,
            // What stands in front of the server did not reach it.
            408 | 502..=504 => Exit::Unreachable,
            _ => Exit::Refused,
        },
        NoLagApiError::Decode { .. } | NoLagApiError::Transport { .. } => Exit::Unreachable,
        _ => Exit::Internal,
    }
}

fn api_advice(error: &NoLagApiError, option: &str) -> Option<String> {
    match error {
        NoLagApiError::Status(error) if error.code == Some(42940) => Some(
            "app and room are given by their ids, not their slugs, and the topic is one of the app's".into(),
        ),
        NoLagApiError::Status(error) if matches!(error.status, 300..=399) => Some(format!("check {option}")),
        NoLagApiError::Transport { error, .. } => match error.kind {
            TransportErrorKind::Connect => Some("is the server running? `nolag dev` starts one".into()),
            TransportErrorKind::Resolve => Some(format!("check the host in {option}")),
            TransportErrorKind::Timeout => Some("check host, port and firewall".into()),
            TransportErrorKind::Tls => {
                Some("check the host name and the certificate; plain servers want http://".into())
            }
            _ => None,
        },
        _ => None,
    }
}

/// What to do, where the error itself does not say.
fn advice(error: &Error) -> Option<&'static str> {
    match error {
        Error::Server(error) if error.op == Some(Op::Connect) => {
            Some("check the token, and that it belongs to this broker")
        }
        Error::Server(error) if error.hint.is_none() => match error.code {
            Some(42910) => Some("send more slowly"),
            Some(42940) => Some("check the topic and what the token may do"),
            _ => None,
        },
        Error::Transport(error) => Some(match error.kind {
            TransportErrorKind::Connect => "is the broker running? `nolag dev` starts one",
            TransportErrorKind::Resolve => "check the host in --url",
            TransportErrorKind::Timeout => "check host, port and firewall",
            TransportErrorKind::Tls => "check the host name and the certificate; plain brokers want ws://",
            TransportErrorKind::Upgrade(_) => "check port and path in --url; the path is usually /ws",
            _ => return None,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use nolag::{ServerError, TransportError};

    use super::*;

    #[test]
    fn every_code_is_documented() {
        for exit in [
            Exit::Done,
            Exit::Internal,
            Exit::Usage,
            Exit::Unreachable,
            Exit::Denied,
            Exit::Refused,
            Exit::NotReached,
            Exit::Data,
            Exit::SomeFailed,
            Exit::Interrupted,
        ] {
            let code = (exit as u8).to_string();
            assert!(HELP.lines().any(|line| line.trim_start().starts_with(&format!("{code}  "))), "{code}");
        }
    }

    #[test]
    fn a_refused_token_is_not_a_refused_topic() {
        let denied = Error::from(ServerError::named("access_denied", Op::Connect));
        assert_eq!(Failure::client(&denied).exit, Exit::Denied);
        let refused = Error::from(ServerError::named("unknown_topic", Op::Publish));
        assert_eq!(Failure::client(&refused).exit, Exit::Refused);
    }

    #[test]
    fn transport_faults_come_with_advice_and_address() {
        let error = Error::from(TransportError::new(TransportErrorKind::Connect, "refused"));
        let failure = Failure::connect(&error, "ws://localhost:1/ws");
        assert_eq!(failure.exit, Exit::Unreachable);
        let message = failure.message.unwrap();
        assert!(message.starts_with("ws://localhost:1/ws: ") && message.contains("nolag dev"), "{message}");
    }

    #[test]
    fn a_broken_pipe_is_success() {
        let failure = Failure::from(io::Error::from(ErrorKind::BrokenPipe));
        assert_eq!(failure, Failure { exit: Exit::Done, message: None });
    }
}
