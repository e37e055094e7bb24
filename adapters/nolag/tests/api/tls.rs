//! `https://`, and the way there through a proxy.

use std::{
    io::{BufReader, Write as _},
    net::TcpStream,
    sync::{Arc, Mutex},
};

use nolag::{
    ApiOptions, NoLagApi, NoLagApiError, Runtime, TransportErrorKind,
    api::{AppCreate, ListParams},
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_rustls::rustls::{
    ServerConfig, ServerConnection, StreamOwned, crypto::ring, pki_types::PrivateKeyDer,
};

use crate::{
    KEY, PATIENCE, Server, Step, on_every_runtime, run,
    server::{Stream, read_head},
};

/// A server's side of TLS for `localhost`.
struct Identity {
    config: Arc<ServerConfig>,
    /// The root that signed the server's certificate.
    root: String,
}

fn identity() -> Identity {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned(), "nolag.invalid".to_owned()];
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
    Identity { config: Arc::new(config), root: authority.pem() }
}

fn encrypt(config: &Arc<ServerConfig>, mut stream: TcpStream) -> Option<Box<dyn Stream>> {
    let mut connection = ServerConnection::new(config.clone()).unwrap();
    connection.complete_io(&mut stream).ok()?;
    Some(Box::new(StreamOwned::new(connection, stream)))
}

fn options(url: String, runtime: Runtime) -> ApiOptions {
    ApiOptions::new(url).runtime(runtime).timeout(PATIENCE)
}

fn kind<T>(outcome: Result<T, NoLagApiError>) -> TransportErrorKind {
    match outcome.err() {
        Some(NoLagApiError::Transport { error, .. }) => error.kind,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_private_authority_is_trusted_when_asked_to() {
    on_every_runtime(|runtime| {
        let Identity { config, root } = identity();
        let steps = [Step::json(200, "[]"), Step::json(201, r#"{"appId":"a1"}"#), Step::CloseInBody(201)];
        let server = Server::behind(steps, move |stream| encrypt(&config, stream));
        let url = format!("https://localhost:{}/v1", server.address().port());
        let api = NoLagApi::new(KEY, options(url.clone(), runtime).root_certificates(&root));
        run(runtime, api.apps().list(&ListParams::new())).unwrap();
        run(runtime, api.apps().create(&AppCreate::new("x"))).unwrap();
        assert_eq!(server.lines(), ["GET /v1/apps", "POST /v1/apps"], "{runtime:?}");
        // Without a goodbye of TLS it is cut as well.
        assert_eq!(kind(run(runtime, api.apps().create(&AppCreate::new("x")))), TransportErrorKind::Io);
        assert_eq!(server.lines().len(), 3, "{runtime:?}");
    });
}

#[test]
fn a_server_that_is_not_trusted_gets_no_request_and_no_second_chance() {
    on_every_runtime(|runtime| {
        let Identity { config, .. } = identity();
        let server = Server::behind([], move |stream| encrypt(&config, stream));
        let url = format!("https://localhost:{}/v1", server.address().port());
        let root = identity().root;
        let api = NoLagApi::new(KEY, options(url, runtime).root_certificates(root));
        assert_eq!(kind(run(runtime, api.apps().get("a1"))), TransportErrorKind::Tls, "{runtime:?}");
        assert_eq!((server.heard().len(), server.connections()), (0, 1), "{runtime:?}");
    });
}

#[test]
fn certificates_that_cannot_be_used_are_told_when_they_are_needed() {
    on_every_runtime(|runtime| {
        let server = Server::start([Step::json(200, "[]")]);
        let plain = crate::options(&server, runtime).root_certificates("no certificate");
        run(runtime, NoLagApi::new(KEY, plain).apps().list(&ListParams::new())).unwrap();
        let secure = options("https://localhost/v1".into(), runtime).root_certificates("no certificate");
        let error = run(runtime, NoLagApi::new(KEY, secure).apps().get("a1")).unwrap_err();
        assert!(matches!(error, NoLagApiError::Misuse { what: "root_certificates", .. }), "{error:?}");
    });
}

#[test]
fn a_proxy_opens_a_way_and_sees_no_key() {
    on_every_runtime(|runtime| {
        let Identity { config, root } = identity();
        let seen = Arc::new(Mutex::new(String::new()));
        let theirs = seen.clone();
        // The proxy is the server, too.
        let server = Server::behind([Step::json(200, "[]")], move |mut stream| {
            let (line, headers) = read_head(&mut BufReader::with_capacity(1, stream.try_clone().unwrap()))?;
            *theirs.lock().unwrap() = format!("{line}\n{headers:?}");
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            encrypt(&config, stream)
        });
        let proxy = format!("http://m%40e:se%25cret@{}", server.address());
        let options =
            options("https://nolag.invalid/v1".into(), runtime).root_certificates(root).proxy(proxy);
        run(runtime, NoLagApi::new(KEY, options).apps().list(&ListParams::new())).unwrap();
        let seen = seen.lock().unwrap();
        assert!(seen.starts_with("CONNECT nolag.invalid:443 HTTP/1.1\n"), "{runtime:?}: {seen}");
        // m@e:se%cret
        assert!(seen.contains("Basic bUBlOnNlJWNyZXQ="), "{runtime:?}: {seen}");
        assert!(!seen.contains("sesame"), "{runtime:?}: {seen}");
    });
}

#[test]
fn a_proxy_that_denies_is_told_and_not_asked_again() {
    on_every_runtime(|runtime| {
        let server = Server::behind([], |mut stream| {
            read_head(&mut BufReader::with_capacity(1, stream.try_clone().unwrap()))?;
            stream
                .write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
                .unwrap();
            None
        });
        let proxy = format!("http://me:hunter2@{}", server.address());
        let options = options("https://nolag.invalid/v1".into(), runtime).proxy(proxy);
        let error = run(runtime, NoLagApi::new(KEY, options).apps().get("a1")).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        assert!(matches!(kind(Err::<(), _>(error)), TransportErrorKind::Proxy(_)), "{runtime:?}");
        assert_eq!(server.connections(), 1, "{runtime:?}");
    });
}
