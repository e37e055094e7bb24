//! What errors say, and what they carry.

use std::{error::Error as _, io};

use nolag_core::{Error, TransportError, TransportErrorKind};

#[test]
fn a_transport_error_gives_its_cause() {
    let cause = io::Error::new(io::ErrorKind::ConnectionRefused, "port 1 refuses");
    let error = TransportError::new(TransportErrorKind::Connect, cause.to_string()).with_cause(cause);
    assert_eq!(error.to_string(), "cannot connect: port 1 refuses");
    let error = Error::Transport(error);
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>()).unwrap();
    assert_eq!(source.kind(), io::ErrorKind::ConnectionRefused);
    assert!(Error::from(TransportError::new(TransportErrorKind::Io, "")).source().is_none());
}

#[test]
fn transport_errors_are_equal_when_they_say_the_same() {
    let error = |words: &str| TransportError::new(TransportErrorKind::Proxy(Some(407)), words);
    assert_eq!(error("denied"), error("denied").with_cause(io::Error::other("denied")));
    assert_ne!(error("denied"), error("busy"));
    assert_eq!(error("denied").to_string(), "the proxy does not connect to the broker, HTTP 407: denied");
}
