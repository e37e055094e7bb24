//! The broker over real sockets.

mod control;
mod sockets;
mod test_broker;

use std::{future::Future, time::Duration};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{net::TcpStream, time};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Message, protocol::frame::coding::CloseCode},
};

pub(crate) const TOPIC: &str = "demo/general/messages";

/// Longer than anything here takes, so that a failure is a failure and not a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Client(pub(crate) WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Client {
    pub(crate) async fn open(url: &str) -> Self {
        Self(connect_async(url).await.unwrap().0)
    }

    pub(crate) async fn connect(url: &str, token: &str) -> Self {
        let mut client = Self::open(url).await;
        client.send(json!({"type": "auth", "token": token, "protocolVersion": 2})).await;
        let reply = client.next().await;
        assert_eq!(reply["success"], true, "{reply}");
        client
    }

    pub(crate) async fn subscriber(url: &str, token: &str) -> Self {
        let mut client = Self::connect(url, token).await;
        client.send(json!({"type": "subscribe", "topic": TOPIC})).await;
        assert_eq!(client.next().await["type"], "subscribed");
        client
    }

    pub(crate) async fn send(&mut self, frame: Value) {
        self.0.send(Message::Binary(rmp_serde::to_vec(&frame).unwrap().into())).await.unwrap();
    }

    pub(crate) async fn send_heartbeat(&mut self) {
        self.0.send(Message::Binary([].as_slice().into())).await.unwrap();
    }

    pub(crate) async fn message(&mut self) -> Option<Result<Message, tokio_tungstenite::tungstenite::Error>> {
        time::timeout(PATIENCE, self.0.next()).await.expect("nothing came in time")
    }

    pub(crate) async fn next(&mut self) -> Value {
        match self.message().await {
            Some(Ok(Message::Binary(frame))) => rmp_serde::from_slice(&frame).unwrap(),
            other => panic!("expected a frame, not {other:?}"),
        }
    }

    /// The code of the close frame, or `None` when the connection ended without one.
    pub(crate) async fn closed(&mut self) -> Option<CloseCode> {
        loop {
            match self.message().await {
                Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }
}

/// Asks again and again until it is so.
pub(crate) async fn until<F: Future<Output = bool>>(mut condition: impl FnMut() -> F) {
    let asking = async {
        while !condition().await {
            time::sleep(Duration::from_millis(20)).await;
        }
    };
    time::timeout(PATIENCE, asking).await.expect("the condition did not become true in time");
}
