//! On everything else: a client that blocks, on threads for that.

use std::{
    fmt,
    io::{self, Read as _},
    time::Duration,
};
#[cfg(feature = "tls")]
use std::{io::Write as _, sync::Arc};

use nolag_core::{TransportError, TransportErrorKind};
#[cfg(feature = "tls")]
use nolag_http::ureq::unversioned::transport::{Buffers, LazyBuffers, TransportAdapter};
use nolag_http::ureq::{
    Agent, AsSendBody, Body, Error, Proxy,
    config::{AutoHeaderValue, Config},
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::{
            ConnectProxyConnector, ConnectionDetails, Connector, NextTimeout, TcpConnector, Transport,
        },
    },
};
use tungstenite::http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, header};

use super::{Answer, ApiError, BoxFuture, Exchange, Failed, Http, JSON, Setup};
use crate::transport::fault;

/// What blocks.
pub(super) type Work = Box<dyn FnOnce() -> Result<Answer, TransportError> + Send>;

pub(super) struct Ureq {
    agent: Agent,
    headers: HeaderMap,
    max_inbound_size: usize,
    unblock: fn(Work) -> BoxFuture<Result<Answer, TransportError>>,
}

impl Ureq {
    /// A client whose work is done by `unblock`.
    pub(super) fn new(
        setup: Setup,
        unblock: fn(Work) -> BoxFuture<Result<Answer, TransportError>>,
    ) -> Result<Self, ApiError> {
        let proxy = setup.proxy.as_deref().map(Proxy::new).transpose();
        // Without its words: they could repeat the password.
        let proxy =
            proxy.map_err(|_| ApiError::Misuse { what: "proxy", reason: "it cannot be used".into() })?;
        let config = Config::builder()
            .proxy(proxy)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .accept(AutoHeaderValue::None)
            .accept_encoding(AutoHeaderValue::None)
            .user_agent(AutoHeaderValue::None)
            // Shorter than servers wait, so that a request does not meet a connection that is just being closed.
            .max_idle_age(Duration::from_secs(15))
            .build();
        let connect = Connect {
            proxy: ConnectProxyConnector::default(),
            tcp: TcpConnector::default(),
            #[cfg(feature = "tls")]
            tls: setup.tls.ok(),
        };
        Ok(Self {
            agent: Agent::with_parts(config, connect, Resolve(DefaultResolver::default())),
            headers: setup.headers,
            max_inbound_size: setup.max_inbound_size,
            unblock,
        })
    }
}

impl Http for Ureq {
    fn send(&self, exchange: Exchange) -> BoxFuture<Result<Answer, Failed>> {
        let (agent, headers, max) = (self.agent.clone(), self.headers.clone(), self.max_inbound_size);
        let sending = (self.unblock)(Box::new(move || send(&agent, headers, exchange, max)));
        Box::pin(async { sending.await.map_err(Failed::There) })
    }
}

/// Sends a request and reads its answer on this thread.
fn send(
    agent: &Agent,
    mut headers: HeaderMap,
    exchange: Exchange,
    max: usize,
) -> Result<Answer, TransportError> {
    let method = exchange.method;
    if exchange.body.is_some() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    }
    // One that posts nothing says so.
    let body = exchange.body.or_else(|| (method == Method::POST).then(String::new));
    let mut request = Request::new(());
    *request.method_mut() = method;
    *request.headers_mut() = headers;
    // The base was checked, and what follows it is percent-encoded.
    let uri = exchange.url.parse::<Uri>();
    *request.uri_mut() = uri.map_err(|error| failure(Error::Http(error.into())))?;
    let response = match body {
        Some(body) => run(agent, request.map(|()| body), exchange.timeout),
        None => run(agent, request, exchange.timeout),
    };
    let response = response.map_err(failure)?;
    let mut answer = Answer::new(response.status().as_u16(), response.headers());
    let one_more = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    let read = response.into_body().into_reader().take(one_more).read_to_end(&mut answer.body);
    read.map_err(|error| failure(Error::from(error)))?;
    answer.cut = answer.body.len() > max;
    answer.body.truncate(max);
    Ok(answer)
}

fn run(agent: &Agent, request: Request<impl AsSendBody>, timeout: Duration) -> Result<Response<Body>, Error> {
    agent.run(agent.configure_request(request).timeout_global(Some(timeout)).build())
}

/// What went wrong. Only where a connection is opened there is more to say; see [`Connect`].
fn failure(error: Error) -> TransportError {
    match error {
        Error::Io(error) => fault(TransportErrorKind::Io, "", error),
        Error::Other(error) => match error.downcast::<TransportError>() {
            Ok(error) => *error,
            Err(error) => fault(TransportErrorKind::Io, "", io::Error::other(error)),
        },
        Error::Timeout(_) => TransportError::new(TransportErrorKind::Timeout, ""),
        Error::ConnectProxyFailed(reason) => TransportError::new(TransportErrorKind::Proxy(None), reason),
        error => TransportError::new(TransportErrorKind::Io, error.to_string()).with_cause(error),
    }
}

/// Says that what failed is that a name has no address.
#[derive(Debug)]
struct Resolve(DefaultResolver);

impl Resolver for Resolve {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let host = uri.host().unwrap_or_default();
        self.0.resolve(uri, config, timeout).map_err(|error| match error {
            Error::Io(error) => other(fault(TransportErrorKind::Resolve, &format!("{host}: "), error)),
            Error::HostNotFound => {
                other(TransportError::new(TransportErrorKind::Resolve, format!("{host} has no address")))
            }
            error => error,
        })
    }
}

fn other(error: TransportError) -> Error {
    Error::Other(Box::new(error))
}

/// Opens connections: through the proxy if there is one, and with the same TLS as the WebSocket has. It says that what
/// failed is opening them, so that nothing was sent.
struct Connect {
    proxy: ConnectProxyConnector,
    tcp: TcpConnector,
    #[cfg(feature = "tls")]
    tls: Option<Arc<rustls::ClientConfig>>,
}

impl Connector for Connect {
    type Out = Box<dyn Transport>;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Self::Out>, Error> {
        let connecting = |error| match error {
            Error::Io(error) => other(fault(TransportErrorKind::Connect, "", error)),
            error => error,
        };
        let tunnel = self.proxy.connect(details, None::<()>).map_err(|error| match error {
            Error::Io(error) => other(fault(TransportErrorKind::Proxy(None), "", error)),
            error => error,
        })?;
        let Some(transport) = self.tcp.connect(details, tunnel).map_err(connecting)? else { return Ok(None) };
        #[cfg(feature = "tls")]
        if let Some(config) = self.tls.as_ref().filter(|_| details.needs_tls()) {
            return Tls::new(config, details, Box::new(transport))
                .map(|tls| Some(Box::new(tls) as Self::Out));
        }
        Ok(Some(Box::new(transport)))
    }
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connect").finish_non_exhaustive()
    }
}

/// TLS over another transport.
#[cfg(feature = "tls")]
struct Tls {
    buffers: LazyBuffers,
    stream: rustls::StreamOwned<rustls::ClientConnection, TransportAdapter>,
}

#[cfg(feature = "tls")]
impl Tls {
    /// Performs the handshake, which checks the server's certificate.
    fn new(
        config: &Arc<rustls::ClientConfig>,
        details: &ConnectionDetails<'_>,
        transport: Box<dyn Transport>,
    ) -> Result<Self, Error> {
        let refused = |error: rustls::Error| {
            other(TransportError::new(TransportErrorKind::Tls, error.to_string()).with_cause(error))
        };
        let host = details.uri.host().unwrap_or_default();
        let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = rustls::pki_types::ServerName::try_from(name)
            .map_err(|error| refused(rustls::Error::General(error.to_string())))?;
        let mut conn = rustls::ClientConnection::new(config.clone(), name).map_err(refused)?;
        let mut sock = TransportAdapter::new(transport, details.current_time.clone());
        sock.set_timeout(details.timeout);
        conn.complete_io(&mut sock).map_err(|error| match Error::from(error) {
            Error::Io(error) => other(fault(TransportErrorKind::Tls, "", error)),
            error => error,
        })?;
        let (input, output) = (details.config.input_buffer_size(), details.config.output_buffer_size());
        let stream = rustls::StreamOwned { conn, sock };
        Ok(Self { buffers: LazyBuffers::new(input, output), stream })
    }
}

#[cfg(feature = "tls")]
impl Transport for Tls {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.sock.set_timeout(timeout);
        Ok(self.stream.write_all(&self.buffers.output()[..amount])?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.sock.set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

#[cfg(feature = "tls")]
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}
