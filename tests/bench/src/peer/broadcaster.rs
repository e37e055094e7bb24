//! A WebSocket server that gives each message to all who are there: what a fan-out takes at least.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use tokio::{net::TcpStream, sync::mpsc};
use tokio_tungstenite::{accept_async, tungstenite::Message};

use crate::{Result, frames};

/// Whoever has subscribed to something.
#[derive(Clone, Default)]
pub(super) struct Room(Arc<Mutex<Vec<mpsc::UnboundedSender<Bytes>>>>);

impl Room {
    fn join(&self) -> mpsc::UnboundedReceiver<Bytes> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.members().push(sender);
        receiver
    }

    fn tell(&self, frame: &Bytes) {
        self.members().retain(|member| member.send(frame.clone()).is_ok());
    }

    fn members(&self) -> std::sync::MutexGuard<'_, Vec<mpsc::UnboundedSender<Bytes>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers one client, and writes to it what others publish once it has subscribed.
pub(super) async fn serve(stream: TcpStream, room: Room) -> Result<()> {
    let (mut sink, mut stream) = accept_async(stream).await?.split();
    // Nothing comes before it is joined.
    let mut inbox = mpsc::unbounded_channel().1;
    loop {
        // What has come together is written together.
        tokio::select! {
            Some(frame) = inbox.recv() => {
                sink.feed(Message::Binary(frame)).await?;
                while let Ok(frame) = inbox.try_recv() {
                    sink.feed(Message::Binary(frame)).await?;
                }
            }
            message = stream.next() => {
                let Some(message) = message else { return Ok(()) };
                let mut next = Some(message);
                while let Some(message) = next {
                    if let Message::Binary(frame) = message?
                        && let Some(reply) = answer(&frame, &room, &mut inbox)
                    {
                        sink.feed(Message::Binary(reply.into())).await?;
                    }
                    next = stream.next().now_or_never().flatten();
                }
            }
        }
        sink.flush().await?;
    }
}

fn answer(frame: &[u8], room: &Room, inbox: &mut mpsc::UnboundedReceiver<Bytes>) -> Option<Vec<u8>> {
    let fields = frames::read(frame)?;
    let topic = std::str::from_utf8(fields.topic).ok()?;
    let mut out = Vec::with_capacity(frame.len() + 64);
    match fields.kind {
        b"auth" => frames::auth_reply(&mut out),
        b"subscribe" => {
            *inbox = room.join();
            frames::subscribed(&mut out, topic);
        }
        b"publish" => {
            frames::message(&mut out, topic, fields.data);
            room.tell(&out.into());
            return None;
        }
        _ => return None,
    }
    Some(out)
}
