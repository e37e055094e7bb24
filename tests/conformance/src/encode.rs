//! Mode `encode`: what a recorded client sent is what our encoder sends for the same intent.

use bytes::BytesMut;
use nolag_core::wire::ClientFrame;

use crate::{
    client_fields::{Unnamed, intent},
    compare::differences,
    mode::{Verdict, malformed},
    trace::Message,
    value::Values,
};

/// Checks one client message.
pub(crate) fn check_message(message: &Message) -> Result<(), Verdict> {
    let bytes = message.body.to_message_pack().map_err(Verdict::NotOurs)?;
    let decoded = ClientFrame::decode(&bytes);
    if message.malformed {
        return Err(malformed(&bytes, decoded));
    }
    if bytes.is_empty() {
        return match decoded {
            Ok(frame @ ClientFrame::Heartbeat) if encode(&frame).is_empty() => Ok(()),
            other => Err(Verdict::wrong(format!("the empty message is a heartbeat, got {other:?}"))),
        };
    }
    let mut values = Values::default();
    let id = match values.read(&bytes) {
        Ok(id) => id,
        Err(broken) if decoded.is_err() => return Err(Verdict::NotOurs(broken.to_string())),
        Err(broken) => return Err(Verdict::wrong(format!("decoded, although it is {broken}"))),
    };
    let expected = intent(&mut values, id, Unnamed::LeftOut).map_err(Verdict::NotOurs)?;
    let frame = decoded.map_err(|error| Verdict::wrong(format!("well-formed, but refused: {error}")))?;
    let encoded = values
        .read(&encode(&frame))
        .map_err(|broken| Verdict::wrong(format!("encoded again it is {broken}")))?;
    let got = intent(&mut values, encoded, Unnamed::Kept)
        .map_err(|reason| Verdict::wrong(format!("encoded again it is no client frame: {reason}")))?;
    match differences(&values, &expected, &got) {
        same if same.is_empty() => Ok(()),
        different => Err(Verdict::Wrong(different)),
    }
}

fn encode(frame: &ClientFrame<'_>) -> BytesMut {
    let mut out = BytesMut::new();
    frame.encode(&mut out);
    out
}
