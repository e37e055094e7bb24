//! A server that does what a test tells it.

use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt as _, StreamExt as _};
use nolag_core::wire::{AuthReply, ClientFrame, Message, Publish, RawValue, ServerFrame, Text};
use serde::Serialize;
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
};
use tokio_tungstenite::{
    WebSocketStream, accept_async,
    tungstenite::{
        Message as WsMessage,
        protocol::{CloseFrame, frame::coding::CloseCode},
    },
};

use crate::soon;

pub(crate) struct ScriptedServer {
    listener: TcpListener,
}

/// One connection.
pub(crate) struct Peer {
    socket: WebSocketStream<TcpStream>,
    token: String,
}

/// What a client published.
pub(crate) struct Published {
    pub(crate) topic: String,
    pub(crate) data: Bytes,
    pub(crate) msg_ref: Option<String>,
    pub(crate) frame: Bytes,
}

impl ScriptedServer {
    pub(crate) async fn start() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}/ws", self.listener.local_addr().unwrap())
    }

    #[cfg(feature = "tls")]
    pub(crate) fn listener(&self) -> &TcpListener {
        &self.listener
    }

    /// The next connection, before `auth`.
    pub(crate) async fn accept(&self) -> Peer {
        let (stream, _) = soon(self.listener.accept()).await.unwrap();
        Peer { socket: soon(accept_async(stream)).await.unwrap(), token: String::new() }
    }

    /// The next connection, authenticated.
    pub(crate) async fn session(&self) -> Peer {
        let mut peer = self.accept().await;
        peer.authenticate().await;
        peer
    }
}

impl Peer {
    pub(crate) async fn authenticate(&mut self) {
        let frame = self.frame().await;
        let Ok(ClientFrame::Auth(auth)) = ClientFrame::decode(&frame) else { panic!("no auth") };
        self.token = auth.token.expose().to_owned();
        self.send(&ServerFrame::Auth(AuthReply {
            success: true,
            error: None,
            actor_token_id: Some("alice"),
            project_id: Some("project"),
            actor_type: Some("user"),
            protocol_version: Some(2),
            restored_subscriptions: None,
        }))
        .await;
    }

    /// The token that it authenticated with.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The next frame that is no heartbeat. Fails when the connection ends.
    pub(crate) async fn frame(&mut self) -> Bytes {
        self.try_frame().await.expect("the client went away")
    }

    /// The next frame that is no heartbeat; `None` when the connection has ended.
    pub(crate) async fn try_frame(&mut self) -> Option<Bytes> {
        loop {
            match soon(self.socket.next()).await? {
                Ok(WsMessage::Binary(frame)) if !frame.is_empty() => return Some(frame),
                Ok(WsMessage::Close(_)) | Err(_) => {
                    let _ = self.socket.flush().await;
                    return None;
                }
                Ok(_) => {}
            }
        }
    }

    /// Waits for a WebSocket ping.
    pub(crate) async fn ping_received(&mut self) {
        while !matches!(soon(self.socket.next()).await, Some(Ok(WsMessage::Ping(_)))) {}
    }

    pub(crate) async fn send(&mut self, frame: &ServerFrame<'_>) {
        let mut out = BytesMut::new();
        frame.encode(&mut out);
        self.send_bytes(out.freeze()).await;
    }

    pub(crate) async fn send_bytes(&mut self, bytes: Bytes) {
        soon(self.socket.send(WsMessage::Binary(bytes))).await.unwrap();
    }

    pub(crate) async fn send_raw(&mut self, message: WsMessage) {
        soon(self.socket.send(message)).await.unwrap();
    }

    /// Waits for a subscribe and confirms it; tells its topic.
    pub(crate) async fn confirm_subscribe(&mut self) -> String {
        let frame = self.frame().await;
        let Ok(ClientFrame::Subscribe(subscribe)) = ClientFrame::decode(&frame) else {
            panic!("no subscribe: {:?}", ClientFrame::decode(&frame));
        };
        let topic = Text::Str(subscribe.topic);
        self.send(&ServerFrame::Subscribed { topic, load_balance: subscribe.load_balance }).await;
        subscribe.topic.to_owned()
    }

    /// Waits for an unsubscribe and confirms it; tells its topic.
    pub(crate) async fn confirm_unsubscribe(&mut self) -> String {
        let frame = self.frame().await;
        let Ok(ClientFrame::Unsubscribe { topic }) = ClientFrame::decode(&frame) else {
            panic!("no unsubscribe: {:?}", ClientFrame::decode(&frame));
        };
        self.send(&ServerFrame::Unsubscribed { topic: Text::Str(topic) }).await;
        topic.to_owned()
    }

    /// Waits for a publish.
    pub(crate) async fn published(&mut self) -> Published {
        let frame = self.frame().await;
        let Ok(ClientFrame::Publish(publish)) = ClientFrame::decode(&frame) else {
            panic!("no publish: {:?}", ClientFrame::decode(&frame));
        };
        let Publish { topic, data, msg_ref, .. } = publish;
        Published {
            topic: topic.to_owned(),
            data: Bytes::copy_from_slice(data.as_bytes()),
            msg_ref: msg_ref.map(str::to_owned),
            frame: frame.clone(),
        }
    }

    /// Confirms a publish.
    pub(crate) async fn ack(&mut self, published: &Published) {
        let msg_ref = Text::Str(published.msg_ref.as_deref().expect("it is tracked"));
        let topic = Text::Str(&published.topic);
        self.send(&ServerFrame::Published { topic, msg_ref }).await;
    }

    /// Waits for a publish and confirms it.
    pub(crate) async fn confirm_publish(&mut self) -> Published {
        let published = self.published().await;
        self.ack(&published).await;
        published
    }

    /// Delivers a message.
    pub(crate) async fn deliver<T: Serialize + ?Sized>(&mut self, topic: &str, data: &T) {
        self.deliver_recorded(topic, data, None).await;
    }

    /// Delivers a message that wants an ack.
    pub(crate) async fn deliver_recorded<T: Serialize + ?Sized>(
        &mut self,
        topic: &str,
        data: &T,
        msg_id: Option<&str>,
    ) {
        let data = nolag::Payload::encode(data).unwrap();
        let message = Message {
            topic: Text::Str(topic),
            data: RawValue::parse(data.as_msgpack()).unwrap(),
            msg_id,
            requires_ack: msg_id.map(|_| true),
            filter: None,
            is_replay: None,
            from: Some("bob"),
            from_type: None,
        };
        self.send(&ServerFrame::Message(message)).await;
    }

    /// Delivers a message byte by byte, one for each heartbeat, while `slowly` says so; then the rest at once.
    pub(crate) async fn trickle(&mut self, topic: &str, data: &str, slowly: impl Fn() -> bool) {
        let data = nolag::Payload::encode(data).unwrap();
        let mut frame = BytesMut::new();
        ServerFrame::Message(Message {
            topic: Text::Str(topic),
            data: RawValue::parse(data.as_msgpack()).unwrap(),
            msg_id: None,
            requires_ack: None,
            filter: None,
            is_replay: None,
            from: None,
            from_type: None,
        })
        .encode(&mut frame);
        // A whole binary WebSocket message with a length of two bytes.
        let length = u16::try_from(frame.len()).unwrap();
        let message = [&[0x82, 126][..], &length.to_be_bytes(), &frame].concat();
        let mut rest = &message[..];
        while slowly() {
            assert!(matches!(soon(self.socket.next()).await, Some(Ok(WsMessage::Binary(_)))), "it gave up");
            let (byte, later) = rest.split_at(1);
            self.socket.get_mut().write_all(byte).await.unwrap();
            rest = later;
        }
        self.socket.get_mut().write_all(rest).await.unwrap();
    }

    /// Waits for acks and tells which messages they name.
    pub(crate) async fn acks(&mut self) -> Vec<String> {
        let frame = self.frame().await;
        match ClientFrame::decode(&frame) {
            Ok(ClientFrame::Ack { msg_id }) => vec![msg_id.to_owned()],
            Ok(ClientFrame::BatchAck { msg_ids }) => msg_ids.into_iter().map(str::to_owned).collect(),
            other => panic!("no ack: {other:?}"),
        }
    }

    /// Ends the connection with a close frame.
    pub(crate) async fn close(mut self, code: u16) {
        let frame = CloseFrame { code: CloseCode::from(code), reason: "".into() };
        let _ = self.socket.close(Some(frame)).await;
        while let Some(Ok(_)) = soon(self.socket.next()).await {}
    }

    /// Cuts the connection without a word.
    pub(crate) fn cut(self) {
        drop(self);
    }

    /// Waits until the client has ended the connection.
    pub(crate) async fn ended(mut self) {
        let frame = self.try_frame().await;
        assert!(frame.is_none(), "the client still talks: {:?}", frame.as_deref().map(ClientFrame::decode));
    }
}
