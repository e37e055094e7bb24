//! Inputs to start from: the recordings of `traces`, in the form that each target reads.

use std::{fs, io, path::Path};

use super::{client, commands, world};
use crate::trace::{Body, Message, Peer, Trace, What};

/// Longest input that is made.
const LONGEST: usize = 4096;

/// Inputs for a target from a directory of recordings, without repetitions.
///
/// # Errors
/// When the directory or a file in it cannot be read.
pub fn of(target: &str, traces: &Path) -> io::Result<Vec<Vec<u8>>> {
    let mut paths: Vec<_> =
        fs::read_dir(traces)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    let mut seeds = match target {
        "auth_file" => files(),
        "rest_parse" => answers(),
        _ => Vec::new(),
    };
    for path in paths {
        let content = fs::read(&path)?;
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") if target == "auth_file" => seeds.push(content),
            Some("jsonl") => {
                let trace = Trace::parse(&content);
                match target {
                    "decode_frame" | "roundtrip_frame" => seeds.extend(messages(&trace).map(bytes)),
                    "client_ops" => seeds.extend([
                        script(&trace, client_begins(0, 0), client_hears),
                        script(&trace, client_begins(0x62, 0x2c), client_hears),
                    ]),
                    "client_vs_broker" => seeds.extend([
                        script(&trace, broker_begins(0, 0, 0), broker_is_told),
                        script(&trace, broker_begins(1, 0x38, 0x14), broker_is_told),
                        script(&trace, broker_begins(2, 0x1c, 0x41), broker_is_told),
                    ]),
                    "trace_reader" => seeds.push(content),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    seeds.iter_mut().for_each(|seed| seed.truncate(LONGEST));
    seeds.sort();
    seeds.dedup();
    Ok(seeds)
}

fn messages(trace: &Trace) -> impl Iterator<Item = &Message> {
    trace.lines.iter().filter_map(|line| match &line.what {
        What::Message(message) => Some(message),
        What::Event { .. } => None,
    })
}

fn bytes(message: &Message) -> Vec<u8> {
    match &message.body {
        Body::Binary(bytes) => bytes.clone(),
        Body::Text(_) => message.body.to_message_pack().unwrap_or_default(),
    }
}

/// A script that begins with `start` and in which each message becomes some steps.
fn script(trace: &Trace, start: Vec<u8>, steps: fn(&Message, &mut Vec<u8>)) -> Vec<u8> {
    let mut script = start;
    for message in messages(trace) {
        let before = script.len();
        steps(message, &mut script);
        if script.len() > LONGEST {
            script.truncate(before);
            break;
        }
    }
    script
}

/// A client with every default that is about to hear a message.
pub(super) fn heard_by_client(frame: &[u8]) -> Vec<u8> {
    let mut script = client_begins(0, 0);
    client_message(frame, &mut script);
    script
}

/// A broker that hears a message from outside, after a greeting.
pub(super) fn said_to_broker(frame: &[u8]) -> Vec<u8> {
    let mut script = broker_begins(1, 0, 0);
    raw(b"\x82\xa4type\xa4auth\xa5token\xa1t", &mut script);
    raw(frame, &mut script);
    script
}

/// An answer of the control plane; `status` is 200 or refused.
pub(super) fn answer(status: u8, id: &str, body: &[u8]) -> Vec<u8> {
    let index = if status == 200 { 0 } else { 4 };
    [&[index, id.len() as u8], id.as_bytes(), body].concat()
}

/// A client in this configuration and within these limits, connected and subscribed to each topic, which then hears more
/// than it is asked for.
fn client_begins(how: u8, limits: u8) -> Vec<u8> {
    use client::Step;
    use commands::Kind;
    let mut script = vec![how, limits, 1];
    let command = |kind: Kind, arguments: &[u8], script: &mut Vec<u8>| {
        script.extend([Step::Command as u8, kind as u8]);
        script.extend(arguments);
    };
    command(Kind::Connect, &[], &mut script);
    script.extend([Step::PollAll as u8, Step::Opened as u8, Step::PollAll as u8, Step::Serve as u8]);
    for topic in 0..4 {
        command(Kind::Subscribe, &[topic, 0, 0], &mut script);
    }
    command(Kind::Publish, &[0, 1, 0], &mut script);
    command(Kind::SetPresence, &[0, 1], &mut script);
    command(Kind::LobbySubscribe, &[0], &mut script);
    script.extend([Step::PollAll as u8, Step::Serve as u8, Step::PollAll as u8]);
    // A message of ten letters without an id, and 32 more of it.
    script.extend([Step::Frame as u8, 0, 6, 0, 0, 10, 0, 0, 0, 0, 3, Step::Again as u8, 5]);
    script.push(Step::PollAll as u8);
    script
}

fn client_hears(message: &Message, script: &mut Vec<u8>) {
    use client::Step;
    let frame = bytes(message);
    match message.from {
        Peer::Broker => client_message(&frame, script),
        Peer::Client => client_command(&frame, script),
    }
    if frame.len() % 9 == 3 {
        // Lost before anything more was sent.
        script.extend([Step::Closed as u8, frame.len() as u8, Step::Due as u8, Step::PollAll as u8]);
        script.extend([Step::Opened as u8, Step::PollTransmit as u8, 0, Step::Serve as u8]);
    }
    script.extend([Step::PollAll as u8, Step::Serve as u8]);
}

fn client_message(frame: &[u8], script: &mut Vec<u8>) {
    script.push(client::Step::Bytes as u8);
    long_block(frame, script);
}

/// A command of the kind that led to this message.
fn client_command(frame: &[u8], script: &mut Vec<u8>) {
    script.push(client::Step::Command as u8);
    command_like(frame, script);
}

fn command_like(frame: &[u8], script: &mut Vec<u8>) {
    use commands::Kind;
    use nolag_core::wire::ClientFrame;
    let topic = |topic: &str| commands::TOPICS.iter().position(|known| *known == topic).unwrap_or(0) as u8;
    let room = |room: &str| commands::ROOMS.iter().position(|known| *known == room).unwrap_or(0) as u8;
    match ClientFrame::decode(frame) {
        Ok(ClientFrame::Subscribe(subscribe)) => {
            let how = if subscribe.load_balance { 6 } else { 0 };
            script.extend([
                Kind::Subscribe as u8,
                topic(subscribe.topic),
                subscribe.filters.len() as u8 & 3,
                how,
            ]);
        }
        Ok(ClientFrame::Unsubscribe { topic: name }) => script.extend([Kind::Unsubscribe as u8, topic(name)]),
        Ok(ClientFrame::SetFilters { topic: name, filters }) => {
            script.extend([Kind::SetFilters as u8, topic(name), filters.len() as u8 & 7]);
        }
        Ok(ClientFrame::Publish(publish)) => {
            let how = if publish.filter.is_some() { 32 } else { 0 } | u8::from(publish.retain) << 1;
            // Of 10 or 200 bytes.
            let payload = if frame.len().is_multiple_of(3) { 150 } else { 1 };
            script.extend([Kind::Publish as u8, topic(publish.topic), payload, how]);
            if publish.filter.is_some() {
                script.push(0);
            }
        }
        Ok(ClientFrame::Presence { room_id, .. }) => {
            script.extend([Kind::SetPresence as u8, room(room_id.unwrap_or_default()), 1]);
        }
        Ok(ClientFrame::GetPresence { room_id }) => {
            script.extend([Kind::FetchPresence as u8, room(room_id.unwrap_or_default())]);
        }
        Ok(ClientFrame::LobbySubscribe { .. }) => script.extend([Kind::LobbySubscribe as u8, 0]),
        Ok(ClientFrame::LobbyUnsubscribe { .. }) => script.extend([Kind::LobbyUnsubscribe as u8, 0]),
        Ok(ClientFrame::GetLobbyPresence { .. }) => script.extend([Kind::FetchLobby as u8, 0]),
        _ => script.push(Kind::Connect as u8),
    }
}

/// Both clients connected, in this profile, with these options and within these limits.
fn broker_begins(profile: u8, how: u8, limits: u8) -> Vec<u8> {
    use commands::Kind;
    use world::Step;
    let mut script = vec![profile, how, limits];
    for peer in 0..2 {
        script.extend([Step::Command as u8, peer, Kind::Connect as u8, Step::DeliverAll as u8]);
    }
    script
}

/// What a client said is said by one of ours and from outside; now and then something happens to the network.
fn broker_is_told(message: &Message, script: &mut Vec<u8>) {
    use world::Step;
    if message.from == Peer::Broker {
        return;
    }
    let frame = bytes(message);
    let peer = (message.conn & 1) as u8;
    let unanswered = frame.len() % 5 == 2;
    if unanswered {
        script.extend([Step::Hold as u8, peer]);
    }
    script.extend([Step::Command as u8, peer]);
    command_like(&frame, script);
    if unanswered {
        // Until it is given up; then the answer comes after all.
        script.extend([Step::DeliverAll as u8, Step::Pass as u8, 10, Step::Release as u8, peer]);
    }
    if frame.len() % 7 == 3 {
        script.extend([
            Step::DeliverUp as u8,
            peer,
            2,
            Step::Cut as u8,
            peer,
            frame.len() as u8,
            Step::Pass as u8,
            5,
        ]);
    }
    if frame.len() % 11 == 5 {
        script.extend([Step::Quota as u8, 1, Step::DeliverAll as u8, Step::Quota as u8, 0]);
    }
    script.push(Step::DeliverAll as u8);
    if frame.len() < 200 {
        raw(&frame, script);
    }
}

fn raw(frame: &[u8], script: &mut Vec<u8>) {
    script.push(world::Step::Raw as u8);
    long_block(frame, script);
}

/// As [`Input::long_block`](super::input::Input::long_block) reads it; one that is too long for that must be the last.
fn long_block(block: &[u8], script: &mut Vec<u8>) {
    script.extend(u16::try_from(block.len()).unwrap_or(u16::MAX).to_be_bytes());
    script.extend(block);
}

/// Answers of control planes and brokers, good and bad.
fn answers() -> Vec<Vec<u8>> {
    let bodies: [&str; 14] = [
        r#"{"appId":"a1","projectId":"p","name":"chat","slug":"chat-a3f9","status":"active","topics":["messages"],"config":{"autoProvisionRooms":true},"hydrationWebhook":{"url":"https://example.org","headers":{"x":"y"}}}"#,
        r#"{"data":[{"appId":"a1"},{"appId":2}],"pagination":{"total":2,"page":1,"pageCount":1}}"#,
        r#"[{"roomId":"r1","appId":"a1","roomType":"static","isEnabled":false,"metadata":null}]"#,
        r#"{"data":[],"meta":{"total":"7","page":2,"totalPages":3}}"#,
        r#"{"actorTokenId":"t1","accessToken":"at_live_0123456789ab.secret","name":"web","actorType":"device","expiresAt":"2026-01-01T00:00:00Z"}"#,
        r#"{"roomActorAccessId":"g1","permission":"pubSub","actorType":"user","topics":["jobs"],"isActive":true}"#,
        r#"{"accessScopeId":"s1","slug":"berth-4","name":"Berth 4","isActive":true}"#,
        r#"{"messages":[{"id":"m1"},{"id":2}]}"#,
        r#"{"id":"e1","message":"no such app","timestamp":"2026-01-01T00:00:00Z"}"#,
        r#"{"statusCode":422,"message":["name is empty","slug is taken"],"error":"Unprocessable Entity"}"#,
        r#"{"error":{"code":42910,"message":"rate_limit_exceeded","index":3}}"#,
        r#"{"success":false}"#,
        "<html><body>502 Bad Gateway nlg_live_0123456789ab.secret</body></html>",
        "",
    ];
    let ids = ["a1", "..", "a/b?c#d", "é ü\u{0}", "general", ""];
    let each = bodies
        .iter()
        .enumerate()
        .flat_map(|(n, body)| [200, 0].map(|status| answer(status, ids[n % ids.len()], body.as_bytes())));
    each.collect()
}

/// Auth files and saved states, good and bad.
fn files() -> Vec<Vec<u8>> {
    let texts: [&str; 12] = [
        r#"{"tokens":{"at_live_1.secret":{"actorTokenId":"a1","projectId":"p","organizationId":"o","actorType":"agent","maxConnections":2,"scopeSlug":"s","allowedTopics":[{"pattern":"a/r/#","permission":"subscribe","topic":"x","app_id":"y","room_id":"z","room_slug":"r"}],"allowedLobbies":[{"lobby_slug":"l","lobby_id":"l-1"}],"activeSubscriptions":["a/r/t",{"topic":"a/r/u","qos":1}]}}}"#,
        r#"{"tokens":{},"dev":{"signingKeys":[{"id":"sk_live_1","secret":"hush","projectId":"p"}],"hydration":{"demo":{"chat":[1],"":null}}}}"#,
        r#"{"tokens":{"t":{"actorTokenId":"a","allowedTopics":[{"pattern":"x","permission":"rw"}]}}}"#,
        r#"{"tokens":{"secret":1}}"#,
        r#"{"tokens":{"t":"secret"}}"#,
        r#"{"tokens":"secret"}"#,
        r#""secret""#,
        r#"{"tokens":{"t":{"allowedTopics":[]}}}"#,
        r#"{"tokens":{},"dev":{"signingKeys":[{"id":""}]}}"#,
        r#"{"version":1,"revision":0,"apps":[],"actors":[],"scopes":[]}"#,
        r#"{"version":2,"revision":0,"apps":[],"actors":[],"scopes":[]}"#,
        r#"{"tokens":"#,
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).chain([saved_state()]).collect()
}

/// What a broker saves after some changes.
fn saved_state() -> Vec<u8> {
    use nolag_broker::{ApiRequest, AuthConfig, BrokerConfig, BrokerCore, Instant};
    let auth = AuthConfig::seed_world();
    let mut broker = BrokerCore::new(BrokerConfig { auth, ..BrokerConfig::default() }, Instant::ZERO);
    let key = format!("Bearer {}", BrokerConfig::DEV_API_KEY);
    for (path, body) in [
        (
            "/v1/apps",
            r#"{"name":"yard","topics":["trucks"],"hydrationWebhook":{"url":"https://example.org"}}"#,
        ),
        ("/v1/scopes", r#"{"slug":"berth-4","name":"Berth 4"}"#),
        ("/v1/actors", r#"{"name":"kiosk","actorType":"device"}"#),
        ("/v1/apps/demo-app/rooms", r#"{"name":"gate","slug":"gate"}"#),
        ("/v1/apps/demo-app/rooms/room-general/actors", r#"{"actorType":"user","permission":"pubSub"}"#),
    ] {
        let (method, query, authorization) = ("POST", "", Some(key.as_str()));
        let request = ApiRequest { method, path, query, authorization, body: body.as_bytes() };
        drop(broker.handle_api(Instant::ZERO, &request));
    }
    broker.saved_control().into_bytes()
}
