//! Mode `decode`: what a recorded broker sent is read without losing anything.

use bytes::BytesMut;
use nolag_core::wire::ServerFrame;

use crate::{
    compare::differences,
    leniency,
    mode::{Verdict, malformed},
    trace::Message,
    value::Values,
    views,
};

/// Checks one broker message.
pub(crate) fn check_message(message: &Message) -> Result<(), Verdict> {
    let bytes = match message.body.to_message_pack() {
        Ok(bytes) => bytes,
        Err(reason) if message.malformed => return Err(Verdict::NotOurs(reason)),
        Err(reason) => return Err(Verdict::wrong(reason)),
    };
    let decoded = ServerFrame::decode(&bytes);
    if message.malformed {
        return Err(malformed(&bytes, decoded));
    }
    let frame = decoded.map_err(|error| Verdict::wrong(format!("refused: {error}")))?;
    let mut encoded = BytesMut::new();
    frame.encode(&mut encoded);
    match &frame {
        ServerFrame::Heartbeat if bytes.is_empty() && encoded.is_empty() => return Ok(()),
        ServerFrame::Heartbeat => {
            return Err(Verdict::wrong("only the empty message is a heartbeat".to_owned()));
        }
        ServerFrame::Unknown { frame_type } => {
            return Err(Verdict::wrong(format!("unknown type {frame_type:?}")));
        }
        _ => {}
    }
    let values = &mut Values::default();
    let mut fields = |bytes: &[u8], whose: &str| {
        let id = values.read(bytes).map_err(|broken| Verdict::wrong(format!("{whose} is {broken}")))?;
        values.fields(id).ok_or_else(|| Verdict::wrong(format!("{whose} is not a map")))
    };
    let recorded = fields(&bytes, "the message")?;
    let got = fields(&encoded, "the message encoded again")?;

    let expected = leniency::server_frame(values, frame.type_name(), recorded.clone());
    let got = leniency::server_frame(values, frame.type_name(), got);
    let mut reasons = differences(values, &expected, &got);
    views::check(values, &frame, &recorded, &mut reasons);
    if reasons.is_empty() { Ok(()) } else { Err(Verdict::Wrong(reasons)) }
}
