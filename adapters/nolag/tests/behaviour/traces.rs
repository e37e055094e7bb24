//! What the feature `tracing` writes down, and what it must not.

use std::{
    io,
    sync::{Arc, Mutex},
};

use nolag::Client;

use crate::{options, server::ScriptedServer, soon};

#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn frames_are_named_and_secrets_are_not() {
    let output = Output::default();
    let writer = output.clone();
    // While there is only one subscriber in the process, what other tests reach first on their threads, which have none,
    // counts as switched off for all.
    let _second = tracing::Dispatch::new(tracing_subscriber::fmt().with_writer(io::sink).finish());
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let server = ScriptedServer::start().await;
    let client = Client::new("sesame", options(&server.url()));
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let (stream, _) = tokio::join!(soon(client.subscribe("a/b/c").messages()), peer.confirm_subscribe());
    let (emitted, _) = tokio::join!(soon(client.emit("a/b/c", "whisper")), peer.confirm_publish());
    emitted.unwrap();
    peer.deliver("a/b/c", "murmur").await;
    soon(stream.unwrap().next()).await.unwrap();
    let ((), ()) = tokio::join!(soon(client.close()), peer.ended());
    let text = String::from_utf8(output.0.lock().unwrap().clone()).unwrap();
    for expected in [
        "connection{transport=",
        "attempt=1",
        "actor=\"alice\"",
        "opening",
        "frame=auth",
        "frame=publish",
        "frame=message",
        "closing",
    ] {
        assert!(text.contains(expected), "{expected} is missing in\n{text}");
    }
    for secret in ["sesame", "whisper", "murmur"] {
        assert!(!text.contains(secret), "{secret} is in\n{text}");
    }
}
