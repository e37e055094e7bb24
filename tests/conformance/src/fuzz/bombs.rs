//! Inputs made to hurt: nesting, lengths and repetition far beyond what anybody sends.
//!
//! They are made here and not kept in `fuzz/corpus`, where they would take megabytes.

use nolag_core::wire::{MAX_FRAME_BYTES, write};

use super::seeds;

/// Levels of nesting.
const DEPTH: usize = 100_000;

/// How often a key is repeated.
const REPEATED: usize = 10_000;

/// The bombs for a target, each with a name that says what it is.
pub fn of(target: &str) -> Vec<(String, Vec<u8>)> {
    match target {
        "client_ops" => {
            frames().into_iter().map(|(name, frame)| (name, seeds::heard_by_client(&frame))).collect()
        }
        "client_vs_broker" => {
            frames().into_iter().map(|(name, frame)| (name, seeds::said_to_broker(&frame))).collect()
        }
        "decode_frame" | "roundtrip_frame" => frames(),
        "rest_parse" => texts("")
            .into_iter()
            .map(|(name, body)| (name, seeds::answer(200, "a", body.as_bytes())))
            .collect(),
        "auth_file" => texts("").into_iter().map(|(name, text)| (name, text.into_bytes())).collect(),
        "trace_reader" => {
            let header = "{\"scenario\":\"bomb\"}\n";
            let mut bombs: Vec<_> =
                texts(header).into_iter().map(|(name, text)| (name, text.into_bytes())).collect();
            for (name, frame) in frames() {
                let hex: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
                let line = format!("{header}{{\"t\":0,\"conn\":1,\"dir\":\"s2c\",\"hex\":\"{hex}\"}}\n");
                bombs.push((format!("{name}, recorded"), line.into_bytes()));
            }
            bombs
        }
        _ => Vec::new(),
    }
}

/// Messages. Those that lie about a length do so where a reader could believe them and make room.
fn frames() -> Vec<(String, Vec<u8>)> {
    let in_message = |data: &[u8]| {
        let mut frame = map(3);
        text(&mut frame, "type");
        text(&mut frame, "message");
        text(&mut frame, "topic");
        text(&mut frame, "dispatch/north-quay/messages");
        text(&mut frame, "data");
        frame.extend_from_slice(data);
        frame
    };
    let in_publish = |data: &[u8]| {
        let mut frame = map(3);
        text(&mut frame, "type");
        text(&mut frame, "publish");
        text(&mut frame, "topic");
        text(&mut frame, "dispatch/north-quay/messages");
        text(&mut frame, "data");
        frame.extend_from_slice(data);
        frame
    };
    let lists = [vec![0x91; DEPTH], vec![0xc0]].concat();
    let maps = [b"\x81\xc0".repeat(DEPTH), vec![0xc0]].concat();
    let wide = [vec![0xdd, 0, 0x03, 0xff, 0xff], vec![0xc0; 0x0003_ffff]].concat();
    let repeated = |key: &str| {
        let mut frame = vec![0xdf];
        frame.extend_from_slice(&(REPEATED as u32 + 1).to_be_bytes());
        text(&mut frame, "type");
        text(&mut frame, "message");
        for _ in 0..REPEATED {
            text(&mut frame, key);
            text(&mut frame, "x");
        }
        frame
    };
    let mut bombs = vec![
        ("deep lists".to_owned(), lists.clone()),
        ("deep maps".to_owned(), maps.clone()),
        ("deep lists in a message".to_owned(), in_message(&lists)),
        ("deep maps in a message".to_owned(), in_message(&maps)),
        ("deep lists in a publish".to_owned(), in_publish(&lists)),
        ("deep maps in a publish".to_owned(), in_publish(&maps)),
        ("a wide list in a message".to_owned(), in_message(&wide)),
        ("a text of the largest size in a publish".to_owned(), in_publish(&long_text(MAX_FRAME_BYTES - 80))),
        ("a key repeated".to_owned(), repeated("topic")),
        ("an unknown key repeated".to_owned(), repeated("colour")),
        ("the type repeated".to_owned(), repeated("type")),
    ];
    for (what, marker) in
        [("text", 0xdb), ("binary", 0xc6), ("list", 0xdd), ("map", 0xdf), ("extension", 0xc9)]
    {
        let claim = [marker, 0xff, 0xff, 0xff, 0xff];
        bombs.push((format!("a {what} of 4 GiB"), claim.to_vec()));
        bombs.push((format!("a {what} of 4 GiB in a message"), in_message(&claim)));
        bombs.push((format!("a {what} of 4 GiB in a publish"), in_publish(&claim)));
        bombs.push((format!("{what}s of 4 GiB, nested"), claim.repeat(1_000)));
    }
    bombs
}

/// JSON, after `before`.
fn texts(before: &str) -> Vec<(String, String)> {
    let lists = "[".repeat(DEPTH) + &"]".repeat(DEPTH);
    let maps = "{\"a\":".repeat(DEPTH) + "1" + &"}".repeat(DEPTH);
    // As deep as a JSON reader goes.
    let allowed = "[".repeat(120) + &"]".repeat(120);
    let repeated = |key: &str, value: &str| {
        let entries = vec![format!("\"{key}\":{value}"); REPEATED].join(",");
        format!("{{{entries}}}")
    };
    let all = [
        ("deep lists", lists.clone()),
        ("deep maps", maps.clone()),
        ("deep lists, not closed", "[".repeat(DEPTH)),
        ("lists as deep as allowed", allowed.clone()),
        ("deep lists in a token", format!("{{\"tokens\":{{\"t\":{{\"actorTokenId\":{lists}}}}}}}")),
        (
            "lists as deep as allowed in dev",
            format!("{{\"tokens\":{{}},\"dev\":{{\"hydration\":{{\"a\":{{\"b\":{allowed}}}}}}}}}"),
        ),
        ("deep maps in an app", format!("{{\"appId\":\"a\",\"config\":{maps}}}")),
        ("lists as deep as allowed in an app", format!("{{\"appId\":\"a\",\"config\":{allowed}}}")),
        ("a key repeated", repeated("tokens", "{}")),
        ("an id repeated", repeated("appId", "\"a\"")),
        ("many tokens of one name", format!("{{\"tokens\":{}}}", repeated("t", "{\"actorTokenId\":\"a\"}"))),
        ("a long number", "9".repeat(DEPTH)),
        ("a large exponent", "1e999999999".to_owned()),
        ("a long text", format!("\"{}\"", "x".repeat(MAX_FRAME_BYTES))),
        ("a long text of escapes", format!("\"{}\"", "\\ud800".repeat(DEPTH))),
        ("a compact message of 16 EiB", compact(u64::MAX)),
        ("a compact message of 4 GiB", compact(1 << 32)),
    ];
    all.into_iter().map(|(name, text)| (name.to_owned(), format!("{before}{text}"))).collect()
}

/// A line of a recording that stands for a long message.
fn compact(len: u64) -> String {
    format!(
        "{{\"t\":0,\"conn\":1,\"dir\":\"c2s\",\"len\":{len},\"head\":\"\",\"repeat\":\"00\",\"times\":{len},\"tail\":\"\"}}"
    )
}

fn map(fields: usize) -> Vec<u8> {
    let mut out = bytes::BytesMut::new();
    write::map_header(&mut out, fields);
    out.to_vec()
}

fn text(out: &mut Vec<u8>, text: &str) {
    let mut packed = bytes::BytesMut::new();
    write::str(&mut packed, text);
    out.extend_from_slice(&packed);
}

fn long_text(len: usize) -> Vec<u8> {
    let mut out = Vec::new();
    text(&mut out, &"x".repeat(len));
    out
}
