//! Tokens from a provider of the application.

use std::{
    future,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use nolag::{Client, Error, FreshToken, Rejection, Status, Token};
use nolag_core::wire::{ClientFrame, ServerFrame};

use crate::{Log, PATIENCE, is_pending, options, server::ScriptedServer, soon, until};

/// `token-1`, `token-2` …
#[derive(Clone, Default)]
struct Mint(Arc<AtomicU32>);

impl Mint {
    fn next(&self) -> String {
        format!("token-{}", self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

#[tokio::test]
async fn every_connection_gets_a_fresh_token() {
    let server = ScriptedServer::start().await;
    let mint = Mint::default();
    let client =
        Client::with_token_provider(move || Ok::<_, std::io::Error>(mint.next()), options(&server.url()));
    let (connected, peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    assert_eq!(peer.token(), "token-1");
    peer.cut();
    assert_eq!(server.session().await.token(), "token-2");
}

#[tokio::test]
async fn a_provider_may_be_async_and_say_how_long_its_token_is_good() {
    let server = ScriptedServer::start().await;
    let mint = Mint::default();
    let provider = move || {
        let token = mint.next();
        async move {
            tokio::task::yield_now().await;
            Ok::<_, String>(FreshToken::new(token).valid_for(Duration::from_secs(3600)))
        }
    };
    let client = Client::with_token_provider(provider, options(&server.url()));
    let (connected, peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    peer.cut();
    // It is good for another while, so nobody is asked.
    assert_eq!(server.session().await.token(), "token-1");
}

#[tokio::test]
async fn a_token_is_replaced_ahead_of_its_end_without_a_reconnect() {
    let server = ScriptedServer::start().await;
    let mint = Mint::default();
    let provider = move || {
        let token = FreshToken::new(mint.next()).valid_for(Duration::from_secs(40));
        future::ready(Ok::<_, String>(token))
    };
    let client = Client::with_token_provider(provider, options(&server.url()));
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    let frame = peer.frame().await;
    let Ok(ClientFrame::Reauth { token }) = ClientFrame::decode(&frame) else { panic!("no reauth") };
    assert_eq!(token.expose(), "token-2");
    peer.send(&ServerFrame::Reauth { success: true, error: None, auth_expires_at: None }).await;
    let (acked, _) = tokio::join!(soon(client.emit("a/b/c", &1)), peer.confirm_publish());
    acked.unwrap();
    assert_eq!(client.stats().core.sessions, 1);
}

#[tokio::test]
async fn a_revoked_token_is_replaced() {
    let server = ScriptedServer::start().await;
    let mint = Mint::default();
    let provider = move || Ok::<_, String>(Token::new(mint.next()));
    let client = Client::with_token_provider(provider, options(&server.url()));
    let (connected, peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    peer.close(4001).await;
    assert_eq!(server.session().await.token(), "token-2");
}

#[tokio::test]
async fn why_there_is_no_token_is_told() {
    let mut calls = 0;
    let provider = move || {
        calls += 1;
        match calls {
            1 => Err("the vault is closed"),
            2 => Ok(""),
            3 => panic!("sesame"),
            _ => Ok("token"),
        }
    };
    let server = ScriptedServer::start().await;
    let client = Client::with_token_provider(provider, options(&server.url()));
    for expected in ["the vault is closed", "it is empty", "its provider panicked"] {
        let error = soon(client.connect()).await.unwrap_err();
        assert_eq!(error, Error::Rejected(Rejection::TokenUnavailable(expected.into())));
        assert_eq!(client.status(), Status::Disconnected);
    }
    let (connected, peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    assert_eq!(peer.token(), "token");
}

#[test]
fn a_provider_that_blocks_is_not_called_again_and_answers_the_latest_question() {
    // More than enough for an attempt each.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(12).enable_all().build().unwrap();
    let (release, released) = std::sync::mpsc::channel();
    let mint = Mint::default();
    let count = mint.clone();
    let provider = move || {
        released.recv_timeout(PATIENCE).map_err(|error| error.to_string())?;
        Ok::<_, String>(mint.next())
    };
    runtime.block_on(async {
        let server = ScriptedServer::start().await;
        let options = options(&server.url())
            .token_timeout(Duration::from_millis(10))
            .retry_first_connect(true)
            .max_reconnect_attempts(None);
        let client = Client::with_token_provider(provider, options);
        let log = Log::default();
        log.watch(&client);
        let connecting = tokio::spawn(client.connect());
        log.wait_for("attempt 6 to connect failed").await;
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        assert!(tasks <= 4, "{tasks} tasks: the pump, the runner, one that asks and one that connects");
        release.send(()).unwrap();
        assert_eq!(server.session().await.token(), "token-1");
        soon(connecting).await.unwrap().unwrap();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    });
}

/// Counts those that are alive.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn stuck(alive: &Arc<AtomicUsize>) -> Client {
    let alive = alive.clone();
    let provider = move || {
        let alive = Alive::new(&alive);
        async move {
            let _alive = alive;
            future::pending::<Result<String, String>>().await
        }
    };
    Client::with_token_provider(provider, options("ws://127.0.0.1:9/ws"))
}

#[tokio::test]
async fn a_provider_is_not_waited_for_when_the_client_goes() {
    for leave in [(|client| client.disconnect()) as fn(Client), drop] {
        let alive = Arc::default();
        let client = stuck(&alive);
        let mut connect = Box::pin(client.connect());
        assert!(is_pending(&mut connect).await);
        until("it was asked", || alive.load(Ordering::SeqCst) == 1).await;
        drop(connect);
        leave(client);
        until("it was dropped", || alive.load(Ordering::SeqCst) == 0).await;
        let tasks = tokio::runtime::Handle::current().metrics();
        until("the tasks end", || tasks.num_alive_tasks() == 0).await;
    }
}

#[tokio::test]
async fn a_token_of_a_provider_is_shown_nowhere() {
    let server = ScriptedServer::start().await;
    let client = Client::with_token_provider(|| Ok::<_, String>("sesame"), options(&server.url()));
    let log = Log::default();
    log.watch(&client);
    let (connected, peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let shown = format!("{client:?} {} {:?}", client.explain(), FreshToken::new("sesame"));
    peer.close(4001).await;
    log.wait_for("disconnect").await;
    for text in [shown, log.entries().concat()] {
        assert!(!text.contains("sesame"), "{text}");
    }
}
