//! Connecting to the broker that a recording is made of.

use std::{fmt, io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName},
};
use tokio_tungstenite::{
    client_async_with_config,
    tungstenite::{self, http::Uri},
};

use super::relay;
use crate::{connection::shown, exit::Failure};

/// How long a broker may take to accept a connection, all in all.
const PATIENCE: Duration = Duration::from_secs(10);

/// The broker.
pub(super) struct Upstream {
    url: String,
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

/// What a connection to it runs over.
pub(super) type Stream = Box<dyn Io>;

pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Why there is no connection.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The HTTP status that the broker gave, if it came to that.
    pub(super) status: Option<u16>,
    reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl Upstream {
    /// The broker at this address, trusting what browsers trust.
    pub(super) fn new(url: &str) -> Result<Self, Failure> {
        let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        Self::trusting(url, roots)
    }

    fn trusting(url: &str, roots: RootCertStore) -> Result<Self, Failure> {
        let refuse = |reason: &str| Failure::usage(format!("--url: {reason}"));
        let uri: Uri = url.parse().map_err(|error| refuse(&format!("it is not a URL: {error}")))?;
        let secure = match uri.scheme_str() {
            Some("ws") => false,
            Some("wss") => true,
            _ => return Err(refuse("it must start with ws:// or wss://")),
        };
        let authority = uri.authority().filter(|authority| !authority.host().is_empty());
        let authority = authority.ok_or_else(|| refuse("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(refuse("it holds a user name or password, which are not used"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let tls = match secure {
            false => None,
            true => {
                let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                    .with_safe_default_protocol_versions()
                    .map_err(|error| refuse(&error.to_string()))?
                    .with_root_certificates(roots)
                    .with_no_client_auth();
                let name = ServerName::try_from(host.clone())
                    .map_err(|_| refuse("the host name cannot be in a certificate"))?;
                Some((TlsConnector::from(Arc::new(config)), name))
            }
        };
        Ok(Self { url: url.into(), host, port, tls })
    }

    /// The address without what may hold a secret.
    pub(super) fn shown(&self) -> &str {
        shown(&self.url)
    }

    pub(super) async fn connect(&self) -> Result<relay::Socket<Stream>, Refusal> {
        let refusal = |reason: String| Refusal { status: None, reason };
        let connecting = async {
            let stream = self.open().await.map_err(|error| refusal(error.to_string()))?;
            let config = Some(relay::config());
            match client_async_with_config(self.url.as_str(), stream, config).await {
                Ok((socket, _)) => Ok(socket),
                Err(tungstenite::Error::Http(response)) => {
                    let status = response.status();
                    Err(Refusal {
                        status: Some(status.as_u16()),
                        reason: format!("it answers HTTP {status}"),
                    })
                }
                Err(error) => Err(refusal(error.to_string())),
            }
        };
        match timeout(PATIENCE, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err(refusal(format!("no connection after {} s", PATIENCE.as_secs()))),
        }
    }

    async fn open(&self) -> io::Result<Stream> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        // Messages must not wait for one another.
        stream.set_nodelay(true)?;
        Ok(match &self.tls {
            None => Box::new(stream),
            Some((connector, name)) => Box::new(connector.connect(name.clone(), stream).await?),
        })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{SinkExt as _, StreamExt as _};
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use tokio::net::TcpListener;
    use tokio_rustls::{
        TlsAcceptor,
        rustls::{ServerConfig, pki_types::PrivateKeyDer},
    };
    use tokio_tungstenite::{accept_async, tungstenite::Message};

    use super::*;

    fn roots() -> RootCertStore {
        RootCertStore::empty()
    }

    #[test]
    fn addresses_are_checked_and_never_shown_with_a_secret() {
        for bad in ["", "localhost", "http://host/ws", "ws://", "ws://user:hunter2@host/ws", "ws://ho st/ws"]
        {
            let failure = Upstream::trusting(bad, roots()).err().unwrap();
            assert_eq!(failure.exit, crate::exit::Exit::Usage);
            let message = failure.message.unwrap();
            assert!(message.starts_with("--url: ") && !message.contains("hunter2"), "{message}");
        }
        let upstream = Upstream::trusting("wss://[::1]/ws?key=hunter2", roots()).unwrap();
        assert_eq!((upstream.host.as_str(), upstream.port, upstream.shown()), ("::1", 443, "wss://[::1]/ws"));
        assert_eq!(Upstream::trusting("ws://host/ws", roots()).unwrap().port, 80);
    }

    #[tokio::test]
    async fn a_broker_behind_tls_is_reached_if_it_is_trusted() {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = names.signed_by(&key, &authority).unwrap();
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
                let Ok(stream) = acceptor.accept(stream).await else { continue };
                let mut socket = accept_async(stream).await.unwrap();
                while let Some(Ok(message)) = socket.next().await {
                    if message.is_binary() {
                        socket.send(message).await.unwrap();
                    }
                }
            }
        });

        let refusal = Upstream::trusting(&url, roots()).unwrap().connect().await.err().unwrap();
        assert!(refusal.to_string().contains("certificate"), "{refusal}");
        let mut trusted = RootCertStore::empty();
        trusted.add(authority.der().clone()).unwrap();
        let mut socket = Upstream::trusting(&url, trusted).unwrap().connect().await.unwrap();
        socket.send(Message::binary(vec![1, 2, 3])).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::binary(vec![1, 2, 3]));
    }
}
