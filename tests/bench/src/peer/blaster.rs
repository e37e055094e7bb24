//! A broker that does the least a client needs, as fast as a socket goes.

use bytes::Bytes;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_tungstenite::{
    WebSocketStream, accept_async,
    tungstenite::{
        Message,
        protocol::frame::{
            FrameHeader,
            coding::{Data, OpCode},
        },
    },
};

use crate::{
    Result,
    frames::{self, FIRST},
    works::{COUNT, START},
};

/// Messages that are written at once, unless there are more topics.
const BATCH: usize = 4096;
/// And bytes of them.
const BATCH_BYTES: usize = 4 << 20;
/// Bytes that one message of each topic may take together; of more topics only some get messages.
const MOST_BYTES: usize = 64 << 20;

/// Answers one client. A publish to [`START`] floods it with messages of the topics that it has subscribed to, until it
/// says something or leaves; a number says of how many topics. One to [`COUNT`] is answered with the number of publishes before it.
pub(super) async fn serve(stream: TcpStream, size: usize, seed: u64) -> Result<()> {
    let socket = accept_async(stream).await?;
    let mut session = Session { socket, topics: Vec::new(), publishes: 0, reply: Vec::new() };
    while let Some(message) = session.socket.next().await {
        let mut next = Some(message);
        // What has arrived together is answered together.
        while let Some(message) = next {
            if let Message::Binary(frame) = message?
                && let Then::Blast { topics } = session.answer(&frame).await?
            {
                let mut chosen = session.topics;
                fastrand::Rng::with_seed(seed).shuffle(&mut chosen);
                chosen.truncate(topics);
                return blast(session.socket.into_inner(), &chosen, size).await;
            }
            next = session.socket.next().now_or_never().flatten();
        }
        session.socket.flush().await?;
    }
    Ok(())
}

enum Then {
    /// Messages of so many topics.
    Blast {
        topics: usize,
    },
    GoOn,
}

struct Session {
    socket: WebSocketStream<TcpStream>,
    topics: Vec<String>,
    publishes: u64,
    reply: Vec<u8>,
}

impl Session {
    async fn answer(&mut self, frame: &[u8]) -> Result<Then> {
        let Some(fields) = frames::read(frame) else {
            // A heartbeat.
            self.feed(|_| ()).await?;
            return Ok(Then::GoOn);
        };
        let topic = std::str::from_utf8(fields.topic).unwrap_or_default();
        match fields.kind {
            b"auth" => self.feed(frames::auth_reply).await?,
            b"subscribe" => {
                self.topics.push(topic.to_owned());
                self.feed(|out| frames::subscribed(out, topic)).await?;
            }
            b"publish" if topic == START => {
                self.socket.flush().await?;
                let topics = frames::number(fields.data).checked_sub(FIRST);
                let topics = topics.and_then(|topics| topics.try_into().ok()).unwrap_or(usize::MAX);
                return Ok(Then::Blast { topics });
            }
            b"publish" => {
                let msg_ref = std::str::from_utf8(fields.msg_ref).unwrap_or_default();
                if !msg_ref.is_empty() {
                    self.feed(|out| frames::published(out, topic, msg_ref)).await?;
                }
                if topic == COUNT {
                    let count = frames::payload("", FIRST + self.publishes);
                    self.feed(|out| frames::message(out, topic, &count)).await?;
                } else if !fields.no_echo {
                    self.feed(|out| frames::message(out, topic, fields.data)).await?;
                }
                self.publishes += 1;
            }
            _ => {}
        }
        Ok(Then::GoOn)
    }

    async fn feed(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        self.reply.clear();
        write(&mut self.reply);
        Ok(self.socket.feed(Message::Binary(Bytes::copy_from_slice(&self.reply))).await?)
    }
}

/// Writes messages, encoded ahead, in batches of a megabyte and more.
async fn blast(mut stream: TcpStream, topics: &[String], size: usize) -> Result<()> {
    let mut batch = Batch::new(topics, size);
    let (mut from, mut to) = stream.split();
    let writing = async {
        loop {
            to.write_all(batch.next()).await?;
        }
    };
    let mut said = [0];
    tokio::select! {
        result = writing => result,
        // The clients of this crate say nothing any more, until they leave.
        _ = from.read(&mut said) => Ok(()),
    }
}

struct Batch {
    bytes: Vec<u8>,
    /// Where payloads end, with the number that changes.
    ends: Vec<usize>,
    next: u64,
}

impl Batch {
    /// Each topic comes equally often, in this order.
    fn new(topics: &[String], size: usize) -> Self {
        let (mut bytes, mut ends, mut frame) = (Vec::new(), Vec::new(), Vec::new());
        while !topics.is_empty() && ends.len() < BATCH && bytes.len() < BATCH_BYTES {
            for topic in topics {
                let text = frames::padding(frames::payload_for(size, topic));
                let data = frames::payload(&text, FIRST);
                frame.clear();
                frames::message(&mut frame, topic, &data);
                let header = FrameHeader { opcode: OpCode::Data(Data::Binary), ..FrameHeader::default() };
                // Writing to a vector cannot fail.
                let _ = header.format(frame.len() as u64, &mut bytes);
                let end = find(&frame, &data).unwrap_or_default() + data.len();
                ends.push(bytes.len() + end);
                bytes.extend_from_slice(&frame);
                if bytes.len() >= MOST_BYTES {
                    break;
                }
            }
        }
        Self { bytes, ends, next: FIRST }
    }

    /// The same messages with the numbers that follow.
    fn next(&mut self) -> &[u8] {
        for end in &self.ends {
            frames::renumber(&mut self.bytes[..*end], self.next);
            self.next += 1;
        }
        &self.bytes
    }
}

fn find(frame: &[u8], data: &[u8]) -> Option<usize> {
    frame.windows(data.len()).position(|window| window == data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_every_topic_equally_often_and_numbers_go_on() {
        let topics: Vec<String> = (0..3).map(|n| format!("bench/room/{n}")).collect();
        let mut batch = Batch::new(&topics, 300);
        let mut expected = FIRST;
        for _ in 0..2 {
            let mut rest = batch.next();
            let mut seen = [0; 3];
            while !rest.is_empty() {
                // A head of four bytes: the frame has more than 125.
                assert_eq!(rest[..4], [0x82, 126, 1, 44]);
                let fields = frames::read(&rest[4..304]).unwrap();
                assert_eq!((fields.kind, frames::number(fields.data)), (&b"message"[..], expected));
                seen[usize::from(fields.topic[11] - b'0')] += 1;
                expected += 1;
                rest = &rest[304..];
            }
            assert!(seen[0] >= BATCH / 3 && seen.iter().all(|count| *count == seen[0]));
        }
    }
}
