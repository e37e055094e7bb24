//! `wss://`.

use std::sync::Arc;

use nolag::{Client, Error, Misuse, TransportErrorKind};
use nolag_core::wire::{AuthReply, ClientFrame, ServerFrame};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::net::TcpListener;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer},
};

use crate::{options, soon};

struct TlsServer {
    url: String,
    /// The root that signed the server's certificate.
    root: String,
}

/// Serves sessions on `wss://localhost`, with a certificate of a private authority.
async fn serve() -> TlsServer {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("wss://localhost:{}/ws", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    session(stream).await;
                }
            });
        }
    });
    TlsServer { url, root: authority.pem() }
}

async fn session(stream: tokio_rustls::server::TlsStream<tokio::net::TcpStream>) {
    use futures_util::{SinkExt as _, StreamExt as _};
    use tokio_tungstenite::tungstenite::Message;

    let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
    while let Some(Ok(message)) = socket.next().await {
        let frame = message.into_data();
        let mut out = bytes::BytesMut::new();
        match ClientFrame::decode(&frame) {
            Ok(ClientFrame::Auth(_)) => ServerFrame::Auth(AuthReply {
                success: true,
                error: None,
                actor_token_id: Some("alice"),
                project_id: None,
                actor_type: None,
                protocol_version: Some(2),
                restored_subscriptions: None,
            })
            .encode(&mut out),
            Ok(ClientFrame::Publish(publish)) => {
                let msg_ref = nolag_core::wire::Text::Str(publish.msg_ref.unwrap());
                let topic = nolag_core::wire::Text::Str(publish.topic);
                ServerFrame::Published { topic, msg_ref }.encode(&mut out);
            }
            _ => continue,
        }
        socket.send(Message::Binary(out.freeze())).await.unwrap();
    }
}

async fn failure(client: &Client) -> nolag::TransportError {
    match soon(client.connect()).await.unwrap_err() {
        Error::Transport(error) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused() {
    let server = serve().await;
    let error = failure(&Client::new("token", options(&server.url))).await;
    assert_eq!(error.kind, TransportErrorKind::Tls);
    assert!(error.detail.contains("UnknownIssuer"), "{error}");
}

#[tokio::test]
async fn a_private_authority_can_be_trusted() {
    let server = serve().await;
    let client = Client::new("token", options(&server.url).root_certificates(&server.root));
    soon(client.connect()).await.unwrap();
    soon(client.emit("a/b/c", &vec![1u8; 100_000])).await.unwrap();
    soon(client.close()).await;
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let server = serve().await;
    let url = server.url.replace("localhost", "127.0.0.1");
    let error = failure(&Client::new("token", options(&url).root_certificates(&server.root))).await;
    assert_eq!(error.kind, TransportErrorKind::Tls);
}

#[tokio::test]
async fn a_server_without_tls_is_told() {
    let server = crate::server::ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url().replace("ws://", "wss://")));
    let (error, ()) = tokio::join!(failure(&client), async {
        use tokio::io::AsyncWriteExt as _;
        let (mut stream, _) = server.listener().accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    });
    assert_eq!(error.kind, TransportErrorKind::Tls);
}

#[tokio::test]
async fn text_that_is_no_certificate_is_told_by_connect() {
    let options = options("wss://localhost/ws").root_certificates("my secret notes");
    let error = soon(Client::new("token", options).connect()).await.unwrap_err();
    let expected = Misuse::InvalidOption {
        option: "root_certificates",
        reason: "the text holds no PEM certificate".into(),
    };
    assert_eq!(error, Error::Misuse(expected));
}

#[tokio::test]
async fn a_key_in_a_text_that_is_no_pem_is_not_shown() {
    // As an environment variable may have it: the line ends are gone.
    let pem = "-----BEGIN PRIVATE KEY----- c2VjcmV0IGtleQ== -----END PRIVATE KEY-----\n";
    let as_numbers = format!("{:?}", pem.as_bytes());
    for options in [
        options("wss://localhost/ws").root_certificates(pem),
        options("wss://localhost/ws").client_certificate(pem, pem),
    ] {
        let error = soon(Client::new("token", options).connect()).await.unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(shown.contains("on a line of its own"), "{shown}");
        assert!(!shown.contains("c2Vj") && !shown.contains(&as_numbers[1..20]), "{shown}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_encrypt_in_time_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("wss://localhost:{}/ws", listener.local_addr().unwrap().port());
    let options = options(&url).connect_timeout(std::time::Duration::from_millis(50));
    let error = soon(Client::new("token", options).connect()).await.unwrap_err();
    assert!(error.to_string().ends_with("during the TLS handshake"), "{error}");
}

#[tokio::test]
async fn the_crypto_provider_that_is_given_is_used() {
    let server = serve().await;
    let options = options(&server.url).root_certificates(&server.root);
    // One that can do nothing.
    let mut provider = ring::default_provider();
    provider.cipher_suites.clear();
    let client = Client::new("token", options.clone().crypto_provider(provider));
    let error = soon(client.connect()).await.unwrap_err();
    assert!(
        matches!(&error, Error::Misuse(Misuse::InvalidOption { option: "crypto_provider", .. })),
        "{error}"
    );
    // One that can do less than usual.
    let mut provider = ring::default_provider();
    provider.cipher_suites.truncate(1);
    let client = Client::new("token", options.crypto_provider(provider));
    soon(client.connect()).await.unwrap();
    soon(client.close()).await;
}
