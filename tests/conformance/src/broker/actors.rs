//! Who authenticated in a recording that names no auth file, because its tokens are not in it.

use std::collections::BTreeMap;

use bytes::BytesMut;
use nolag_broker::AuthConfig;
use nolag_core::{
    SecretStr,
    wire::{ClientFrame, ServerFrame},
};

use crate::trace::{Body, Message, Peer, Trace, What};

/// A token of ours for each `auth` that the recorded broker accepted, by its line.
#[derive(Debug, Default)]
pub(super) struct Actors(BTreeMap<usize, String>);

impl Actors {
    /// Goes by the broker's answers.
    pub(super) fn of(trace: &Trace, auth: &AuthConfig) -> Self {
        let mut waiting: BTreeMap<u64, usize> = BTreeMap::new();
        let mut found = BTreeMap::new();
        for line in &trace.lines {
            let What::Message(Message { conn, from, body: Body::Binary(bytes), .. }) = &line.what else {
                continue;
            };
            match from {
                Peer::Client => {
                    if let Ok(ClientFrame::Auth(_)) = ClientFrame::decode(bytes) {
                        waiting.insert(*conn, line.number);
                    }
                }
                Peer::Broker => {
                    if let Ok(ServerFrame::Auth(reply)) = ServerFrame::decode(bytes) {
                        let asked = waiting.remove(conn);
                        let actor = reply.actor_token_id.filter(|_| reply.success);
                        let token = actor.and_then(|actor| auth.token_of(actor));
                        found.extend(asked.zip(token));
                    }
                }
            }
        }
        Self(found)
    }

    /// The `auth` of a line with a token that our broker knows; `None` for every other message.
    pub(super) fn with_our_token(&self, line: usize, bytes: &[u8]) -> Option<Vec<u8>> {
        let token = self.0.get(&line)?;
        let Ok(ClientFrame::Auth(mut auth)) = ClientFrame::decode(bytes) else { return None };
        auth.token = SecretStr::new(token);
        let mut out = BytesMut::new();
        ClientFrame::Auth(auth).encode(&mut out);
        Some(out.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::client::{Different, live};

    fn load(name: &str) -> Trace {
        Trace::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("traces").join(name))
    }

    /// The same without its tokens, and without the file that lists them.
    fn redacted(mut trace: Trace) -> Trace {
        trace.header.keys.remove("auth");
        for line in &mut trace.lines {
            if let What::Message(Message { body: Body::Binary(bytes), .. }) = &mut line.what
                && let Ok(ClientFrame::Auth(mut auth)) = ClientFrame::decode(bytes)
            {
                auth.token = SecretStr::new("redacted-1");
                let mut out = BytesMut::new();
                ClientFrame::Auth(auth).encode(&mut out);
                *bytes = out.to_vec();
            }
        }
        trace
    }

    #[test]
    fn recordings_without_tokens_are_lived_like_those_with() {
        for name in ["presence-two-sockets-one-actor.jsonl", "presence-switch-room.jsonl", "rate-limit.jsonl"]
        {
            let trace = load(name);
            let (with, without) = (live(&trace), live(&redacted(trace)));
            assert!(without.outcome.passed(), "{name}: {:?}", without.outcome.findings);
            assert_eq!(with, without, "{name}");
        }
        // Without the right actors our broker could not say who remains.
        let lived = live(&redacted(load("presence-two-sockets-one-actor.jsonl")));
        assert!(lived.different.contains(&Different::PresenceRefetch));
    }
}
