//! How often core and engine together take memory while messages flow. The client runs on this thread alone and the peer
//! on another, so what is counted here is all that the client does, its WebSocket and its runtime included.
#![allow(unused_crate_dependencies, reason = "a test")]

use std::{
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
};

use allocation_counter::measure;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use nolag::{Client, Emitted, Options, Payload};
use nolag_core::wire::{self, AuthReply, ClientFrame, RawValue, ServerFrame, Text};
use tokio::runtime::{Builder, Runtime};
use tungstenite::{Message as WsMessage, WebSocket};

const TOPIC: &str = "demo/general/messages";

/// Messages before anything is counted.
const WARM_UP: u64 = 2_000;

const TIMES: u64 = 6_000;

fn encode(frame: &ServerFrame<'_>) -> WsMessage {
    let mut out = BytesMut::new();
    frame.encode(&mut out);
    WsMessage::Binary(out.freeze())
}

fn delivery(data: &[u8], msg_id: Option<&str>) -> WsMessage {
    encode(&ServerFrame::Message(wire::Message {
        topic: Text::Str(TOPIC),
        data: RawValue::parse(data).expect("one value"),
        msg_id,
        requires_ack: msg_id.map(|_| true),
        filter: None,
        is_replay: None,
        from: Some("3f8a2c10-5d7e-4b6a-9c1d-0e2f4a6b8c9d"),
        from_type: Some("actor"),
    }))
}

/// Accepts one client. A subscription is followed by all messages at once, with names if they are to be acknowledged;
/// publishes are confirmed.
fn serve(socket: TcpStream, named: bool) {
    let mut socket: WebSocket<TcpStream> = tungstenite::accept(socket).expect("an upgrade");
    let data = payload();
    while let Ok(message) = socket.read() {
        let WsMessage::Binary(bytes) = message else { continue };
        match ClientFrame::decode(&bytes).expect("a frame") {
            ClientFrame::Auth(_) => {
                let reply =
                    AuthReply { success: true, actor_token_id: Some("actor-1"), ..AuthReply::default() };
                socket.send(encode(&ServerFrame::Auth(AuthReply { protocol_version: Some(2), ..reply })))
            }
            ClientFrame::Subscribe(subscribe) => {
                let topic = Text::Str(subscribe.topic);
                let confirmed = socket.send(encode(&ServerFrame::Subscribed { topic, load_balance: false }));
                for n in 0..WARM_UP + TIMES {
                    let name = named.then(|| n.to_string());
                    // The client is gone when it has enough.
                    if socket.write(delivery(data.as_msgpack(), name.as_deref())).is_err() {
                        return;
                    }
                }
                confirmed.and_then(|()| socket.flush())
            }
            ClientFrame::Publish(publish) => match publish.msg_ref {
                Some(msg_ref) => {
                    let (topic, msg_ref) = (Text::Str(publish.topic), Text::Str(msg_ref));
                    socket.send(encode(&ServerFrame::Published { topic, msg_ref }))
                }
                None => Ok(()),
            },
            ClientFrame::Heartbeat => socket.send(WsMessage::Binary(Bytes::new())),
            _ => Ok(()),
        }
        .expect("the client listens");
    }
}

fn payload() -> Payload {
    Payload::encode(&"x".repeat(300)).expect("text")
}

/// A client on this thread, connected to a peer on another.
fn connected(named: bool) -> (Runtime, Client) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("ws://{}/ws", listener.local_addr().expect("an address"));
    thread::spawn(move || serve(listener.accept().expect("a client").0, named));
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let client = runtime.block_on(async {
        let client = Client::new("a-token", Options::new(url).publish_rate(None));
        client.connect().await.expect("a session");
        client
    });
    (runtime, client)
}

/// Allocations of `step`, done so many times, per time.
fn per_time(mut step: impl FnMut(u64)) -> f64 {
    step(WARM_UP);
    let counted = measure(|| step(TIMES));
    counted.count_total as f64 / TIMES as f64
}

fn received(named: bool) -> f64 {
    let (runtime, client) = connected(named);
    let mut messages =
        runtime.block_on(async { client.subscribe(TOPIC).messages().await.expect("confirmed") });
    per_time(|times| {
        runtime.block_on(async {
            for _ in 0..times {
                messages.next().await.expect("a message");
            }
        });
    })
}

#[test]
fn a_received_message_takes_at_most_one_allocation() {
    let each = received(false);
    println!("received: {each:.3}");
    assert!(each <= 1.0, "{each} allocations per message");
}

#[test]
fn a_received_message_that_is_acknowledged_takes_few() {
    let each = received(true);
    println!("received and acknowledged: {each:.3}");
    assert!(each <= 3.0, "{each} allocations per message");
}

#[test]
fn an_acked_publish_takes_at_most_two() {
    let (runtime, client) = connected(false);
    let (topic, payload): (Arc<str>, _) = (TOPIC.into(), payload());
    let each = per_time(|times| {
        runtime.block_on(async {
            for _ in 0..times / 100 {
                let emit = || client.emit_payload(topic.clone(), payload.clone()).into_future();
                let mut window: FuturesUnordered<_> = (0..100).map(|_| emit()).collect();
                while let Some(outcome) = window.next().await {
                    assert_eq!(outcome, Ok(Emitted::Acked));
                }
            }
        });
    });
    println!("acked: {each:.3}");
    // One more is the window's, for each future.
    assert!(each <= 3.0, "{each} allocations per publish");
}

#[test]
fn a_publish_that_nobody_waits_for_takes_at_most_one() {
    let (runtime, client) = connected(false);
    let (topic, payload): (Arc<str>, _) = (TOPIC.into(), payload());
    let each = per_time(|times| {
        runtime.block_on(async {
            for n in 0..times {
                client.emit_payload(topic.clone(), payload.clone()).untracked().send().expect("accepted");
                if n % 50 == 0 {
                    client.flush().await;
                }
            }
        });
    });
    println!("sent: {each:.3}");
    assert!(each <= 1.0, "{each} allocations per publish");
}
