//! Does one piece of work so many times and nothing else, for tools that count instructions: see
//! `tests/instructions.sh`.
#![allow(missing_docs, unused_crate_dependencies, reason = "a bench")]

mod common;

use std::{env, hint::black_box};

use bytes::BytesMut;
use common::{Client, TOPIC, message_frame, minimal, payload, text, untracked};

const SIZE: usize = 300;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (work, times) = match arguments.as_slice() {
        [work, times] => (work.as_str(), times.parse().expect("a number")),
        // Run by `cargo bench`, where there is nothing to count.
        _ => return println!("instructions: see tests/instructions.sh"),
    };
    match work {
        "decode-by-hand" => {
            let frame = message_frame(TOPIC, SIZE);
            for _ in 0..times {
                black_box(minimal::decode(black_box(&frame)));
            }
        }
        "receive" => {
            let (mut client, frame) = (Client::subscribed(&[TOPIC.into()]), message_frame(TOPIC, SIZE));
            for _ in 0..times {
                black_box(client.deliver(black_box(&frame)));
            }
        }
        "encode-by-hand" => {
            let (data, mut out) = (text(SIZE), BytesMut::with_capacity(1 << 12));
            for _ in 0..times {
                minimal::encode_publish(&mut out, black_box(TOPIC), black_box(&data), None);
                black_box(&out);
            }
        }
        "publish" => {
            let (mut client, payload) = (Client::connected(), payload(SIZE));
            for _ in 0..times {
                black_box(client.publish(untracked(black_box(&payload))));
                black_box(client.events());
            }
        }
        other => panic!("there is no work named {other}"),
    }
}
