//! A client with nothing but the WebSocket library: what any client takes at least.

use bytes::Bytes;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{self, Message},
};

use crate::{
    Error, Result,
    frames::{self, Fields},
};

/// A connection after the handshake.
pub(crate) struct Bare(WebSocketStream<TcpStream>);

impl Bare {
    /// Connects to an address of this crate's own servers and authenticates.
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let host = url.strip_prefix("ws://").and_then(|rest| rest.split('/').next());
        let host = host.ok_or_else(|| Error::other(format!("not ws://: {url}")))?;
        let stream = TcpStream::connect(host).await?;
        stream.set_nodelay(true)?;
        let (socket, _) = client_async(url, stream).await?;
        let mut bare = Self(socket);
        bare.send(|out| frames::auth(out, "bench")).await?;
        bare.expect(|fields| fields.kind == b"auth" && !fields.refused).await?;
        Ok(bare)
    }

    pub(crate) async fn subscribe(&mut self, topic: &str) -> Result<()> {
        self.send(|out| frames::subscribe(out, topic)).await?;
        self.expect(|fields| fields.kind == b"subscribed").await
    }

    /// Writes one frame and flushes.
    pub(crate) async fn send(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        self.feed(write).await?;
        self.flush().await
    }

    /// Writes one frame.
    pub(crate) async fn feed(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let mut frame = Vec::with_capacity(512);
        write(&mut frame);
        Ok(self.0.feed(Message::Binary(frame.into())).await?)
    }

    pub(crate) async fn flush(&mut self) -> Result<()> {
        Ok(self.0.flush().await?)
    }

    /// The next binary message.
    pub(crate) async fn next(&mut self) -> Result<Bytes> {
        loop {
            if let Some(frame) = binary(self.0.next().await)? {
                return Ok(frame);
            }
        }
    }

    /// The next binary message, if it is there.
    pub(crate) fn try_next(&mut self) -> Result<Option<Bytes>> {
        match self.0.next().now_or_never() {
            Some(message) => binary(message),
            None => Ok(None),
        }
    }

    /// Waits for an answer that is as wanted.
    pub(crate) async fn expect(&mut self, wanted: impl Fn(&Fields<'_>) -> bool) -> Result<()> {
        let frame = self.next().await?;
        match frames::read(&frame) {
            Some(fields) if wanted(&fields) => Ok(()),
            _ => Err(Error::other("a server answered otherwise than expected")),
        }
    }
}

fn binary(message: Option<Result<Message, tungstenite::Error>>) -> Result<Option<Bytes>> {
    match message {
        Some(Ok(Message::Binary(frame))) => Ok(Some(frame)),
        Some(Ok(Message::Close(_))) | None => Err(Error::other("a server closed the connection")),
        Some(Ok(_)) => Ok(None),
        Some(Err(error)) => Err(error.into()),
    }
}
