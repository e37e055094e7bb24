//! Files that a user of the development broker, or of this crate, gives.

use nolag_broker::{ApiRequest, AuthConfig, BrokerConfig, BrokerCore, Instant};
use nolag_core::SecretStr;
use nolag_core::wire::{Auth, ClientFrame};
use serde_json::Value as Json;

use crate::{
    mode::Mode,
    trace::{Trace, What},
};

/// Reads a text as an auth file and as a state file. What is not UTF-8 is passed over: files are read as text.
///
/// # Panics
/// When one of these does not hold:
///
/// * an error about an auth file is the same for any other token in the place of one that is in it;
/// * every actor of a file that is accepted can connect, unless its token is empty or too long;
/// * a state that is read is saved as it was, one that is refused changes nothing, and the control plane then answers.
pub fn auth_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match AuthConfig::from_json(text) {
        Ok(auth) => connect_actors(auth, text),
        Err(error) => {
            let error = error.to_string();
            for text in with_other_tokens(text) {
                let other = AuthConfig::from_json(&text).expect_err("another token is no remedy");
                assert_eq!(other.to_string(), error, "a token shows");
            }
        }
    }
    load_state(text);
}

/// The same text with another token, for some of its tokens.
fn with_other_tokens(text: &str) -> Vec<String> {
    let replaced = tokens(text).into_iter().filter_map(|token| {
        let quoted = format!("\"{token}\"");
        // Elsewhere the same words could be anything.
        (text.matches(&quoted).count() == 1 && token.is_ascii() && !token.is_empty()).then_some(())?;
        let other = "z".repeat(token.len());
        let text = text.replace(&quoted, &format!("\"{other}\""));
        tokens(&text).contains(&other).then_some(text)
    });
    replaced.collect()
}

/// Some of the tokens of an auth file, also of one where they stand in the wrong place.
fn tokens(text: &str) -> Vec<String> {
    const MOST: usize = 8;
    let document: Json = serde_json::from_str(text).unwrap_or_default();
    let tokens = document.get("tokens").unwrap_or(&document);
    let entries = tokens.as_object().into_iter().flatten();
    let named = entries.flat_map(|(token, entry)| [Some(token.as_str()), entry.as_str()]);
    named.chain([tokens.as_str()]).flatten().map(String::from).take(MOST).collect()
}

fn connect_actors(auth: AuthConfig, text: &str) {
    drop(format!("{auth:?} {:?}", auth.dev()));
    let document: Json = serde_json::from_str(text).unwrap_or_default();
    let entries = document.get("tokens").and_then(Json::as_object).into_iter().flatten();
    let mut broker = BrokerCore::new(BrokerConfig { auth, ..BrokerConfig::default() }, Instant::ZERO);
    for (token, entry) in entries.take(8) {
        let actor_id = entry.get("actorTokenId").and_then(Json::as_str).unwrap_or_default();
        let mut frame = bytes::BytesMut::new();
        ClientFrame::Auth(Auth { token: SecretStr::new(token), ..Auth::default() }).encode(&mut frame);
        let conn = broker.open(Instant::ZERO);
        broker.handle_binary(Instant::ZERO, conn, &frame);
        let info = broker.connections().find(|info| info.id == conn);
        let full = entry.get("maxConnections").is_some();
        let is_actor = info.and_then(|info| info.actor_id).is_some_and(|id| id == actor_id);
        assert!(is_actor || full, "actor {actor_id:?} cannot connect");
        while broker.poll_output().is_some() {}
    }
}

fn load_state(text: &str) {
    let mut broker = BrokerCore::new(BrokerConfig::default(), Instant::ZERO);
    let before = broker.saved_control();
    match broker.load_control(Instant::ZERO, text) {
        Ok(()) => {
            let saved = broker.saved_control();
            broker.load_control(Instant::ZERO, &saved).expect("what was saved is a state");
            assert_eq!(broker.saved_control(), saved);
            for path in ["/v1/apps", "/v1/actors", "/v1/scopes", "/v1/apps/demo/rooms"] {
                let key = format!("Bearer {}", BrokerConfig::DEV_API_KEY);
                let (authorization, query) = (Some(key.as_str()), "limit=100");
                let request = ApiRequest { method: "GET", path, query, authorization, body: b"" };
                let status = broker.handle_api(Instant::ZERO, &request).status;
                assert!(matches!(status, 200 | 404), "{path}: {status}");
            }
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert_eq!(broker.saved_control(), before, "what was refused has changed something");
        }
    }
}

/// Longest message that a compact line of an input may stand for; longer ones are for the tests of [`Trace`].
const LONGEST_MESSAGE: u64 = 1 << 20;

/// Reads the content of a recording, and holds what it says against the codec.
///
/// # Panics
/// When a line is lost: each is the header, a line or a problem, in order and by its number; or when reading the
/// messages in one of the modes that only look at the codec panics.
pub fn trace_reader(bytes: &[u8]) {
    if claims_too_much(bytes) {
        return;
    }
    let trace = Trace::parse(bytes);
    let count = bytes.strip_suffix(b"\n").unwrap_or(bytes).split(|byte| *byte == b'\n').count();
    let header_is_fine = trace.problems.first().is_none_or(|problem| problem.line != 1);
    assert_eq!(trace.lines.len() + trace.problems.len() + usize::from(header_is_fine), count);
    let numbers: Vec<usize> = trace.lines.iter().map(|line| line.number).collect();
    assert!(numbers.iter().all(|number| (2..=count).contains(number)) && numbers.is_sorted());
    assert!(trace.problems.is_sorted_by_key(|problem| problem.line));
    for line in &trace.lines {
        if let What::Message(message) = &line.what {
            drop(message.body.to_message_pack());
        }
    }
    for mode in [Mode::Decode, Mode::Encode] {
        let _ = mode.check(&trace).passed();
    }
}

/// Whether lines of a recording stand for more bytes than a fuzzer has patience for.
fn claims_too_much(bytes: &[u8]) -> bool {
    let claimed = bytes.split(|byte| *byte == b'\n').filter_map(|line| {
        let line: Json = serde_json::from_slice(line).ok()?;
        line.get("times")?.as_u64()
    });
    claimed.fold(0, u64::saturating_add) > LONGEST_MESSAGE
}
