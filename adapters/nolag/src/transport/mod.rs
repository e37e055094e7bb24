//! The way to the broker: what to connect to and how, and the stack of a connection. Everything here is the same for
//! all runtimes; they only resolve names and open TCP connections.

mod address;
mod head;
mod proxy;
#[cfg(feature = "tls")]
mod tls;
mod websocket;

use std::{
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures_io::{AsyncRead, AsyncWrite};
use nolag_core::{Error, Misuse, TransportError, TransportErrorKind};
use tungstenite::{
    client::IntoClientRequest as _,
    handshake::client::Request,
    http::{HeaderMap, HeaderName, HeaderValue, Uri},
    protocol::WebSocketConfig,
};

use crate::{options::Options, runtime::Driver};

pub(crate) use address::{Address, without_secrets};
pub(crate) use proxy::Proxy;
#[cfg(feature = "tls")]
pub(crate) use tls::TlsOptions;
#[cfg(all(feature = "tls", feature = "rest"))]
pub(crate) use tls::trust_nobody;
pub(crate) use websocket::WebSocket;

/// A stream of bytes in both directions: TCP, or TLS over it.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Everything that opening a connection takes.
pub(crate) struct Dial {
    host: String,
    port: u16,
    uri: Uri,
    headers: HeaderMap,
    proxy: Option<Proxy>,
    #[cfg(feature = "tls")]
    tls: Option<tls::Tls>,
    nodelay: bool,
    /// How long opening a connection may take in all.
    limit: Duration,
    websocket: WebSocketConfig,
    /// Of the latest attempt.
    pub(crate) phase: Phase,
}

impl Dial {
    /// Checks and puts together what the options say.
    pub(crate) fn new(options: &Options) -> Result<Self, Error> {
        let address = Address::parse(&options.url)?;
        Ok(Self {
            headers: headers(&options.headers, of_the_handshake, "the WebSocket handshake")?,
            proxy: options.proxy.as_deref().map(Proxy::parse).transpose()?,
            #[cfg(feature = "tls")]
            tls: if address.tls { Some(tls::Tls::new(&options.tls, &address.host)?) } else { None },
            nodelay: options.tcp_nodelay,
            limit: options.opening_limit(),
            websocket: websocket_config(options),
            host: address.host,
            port: address.port,
            uri: address.uri,
            phase: Phase::default(),
        })
    }

    fn request(&self) -> Result<Request, tungstenite::Error> {
        let mut request = self.uri.clone().into_client_request()?;
        request.headers_mut().extend(self.headers.clone());
        Ok(request)
    }
}

/// Resolves, connects, encrypts and upgrades.
pub(crate) async fn open(driver: Arc<dyn Driver>, dial: Arc<Dial>) -> Result<WebSocket, TransportError> {
    let (host, port) = match &dial.proxy {
        Some(proxy) => (&*proxy.host, proxy.port),
        None => (&*dial.host, dial.port),
    };
    let mut stream = connect(&*driver, &dial, host, port).await?;
    if let Some(proxy) = &dial.proxy {
        dial.phase.set(Step::Tunneling);
        proxy.open_way(&mut stream, &dial.host, dial.port).await?;
    }
    #[cfg(feature = "tls")]
    if let Some(tls) = &dial.tls {
        dial.phase.set(Step::Encrypting);
        stream = tls.encrypt(stream).await?;
    }
    dial.phase.set(Step::Upgrading);
    let request = dial.request().map_err(websocket::upgrade_error)?;
    WebSocket::open(stream, request, dial.websocket).await.map_err(websocket::upgrade_error)
}

/// A TCP connection to the first address that takes it.
async fn connect(
    driver: &dyn Driver,
    dial: &Dial,
    host: &str,
    port: u16,
) -> Result<Box<dyn Io>, TransportError> {
    dial.phase.set(Step::Resolving);
    let addresses = match host.parse::<IpAddr>() {
        Ok(address) => vec![(address, port).into()],
        Err(_) => {
            let resolved = driver.resolve(host, port).await;
            resolved.map_err(|error| fault(TransportErrorKind::Resolve, &format!("{host}: "), error))?
        }
    };
    dial.phase.set(Step::Connecting);
    connect_to_one(driver, &addresses, dial.nodelay, dial.limit).await.unwrap_or_else(|| {
        Err(TransportError::new(TransportErrorKind::Resolve, format!("{host} has no address")))
    })
}

/// Tries addresses in turn. Each but the last has its share of the time, so that one that says nothing does not hide one
/// that works. `None` without addresses.
async fn connect_to_one(
    driver: &dyn Driver,
    addresses: &[SocketAddr],
    nodelay: bool,
    limit: Duration,
) -> Option<Result<Box<dyn Io>, TransportError>> {
    let share = limit / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut failure = None;
    for (index, address) in addresses.iter().enumerate() {
        let until = (index + 1 < addresses.len()).then(|| driver.now() + share);
        let mut timer = driver.timer();
        let mut attempt = driver.connect(*address, nodelay);
        let result = poll_fn(|cx| match (attempt.as_mut().poll(cx), until) {
            (Poll::Ready(result), _) => Poll::Ready(result),
            (Poll::Pending, Some(until)) => {
                timer.poll_at(until, cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
            }
            (Poll::Pending, None) => Poll::Pending,
        });
        match result.await {
            Ok(stream) => return Some(Ok(stream)),
            Err(error) => {
                failure = Some(Err(fault(TransportErrorKind::Connect, &format!("{address}: "), error)));
            }
        }
    }
    failure
}

/// A failed read or write as a transport error, with what caused it. The fault is TLS's where TLS says so, at any time:
/// some servers object to a client's certificate only after the handshake.
pub(crate) fn fault(kind: TransportErrorKind, prefix: &str, error: io::Error) -> TransportError {
    #[cfg(feature = "tls")]
    let error = match error.downcast::<rustls::Error>() {
        Ok(error) => {
            return TransportError::new(TransportErrorKind::Tls, error.to_string()).with_cause(error);
        }
        Err(error) => error,
    };
    TransportError::new(kind, format!("{prefix}{error}")).with_cause(error)
}

fn invalid(option: &'static str, reason: impl Into<Box<str>>) -> Misuse {
    Misuse::InvalidOption { option, reason: reason.into() }
}

/// The headers that were given. Those that are `reserved` belong to what the words say.
pub(crate) fn headers(
    given: &[(String, String)],
    reserved: fn(&str) -> bool,
    to: &str,
) -> Result<HeaderMap, Misuse> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let refuse = |reason: &str| invalid("header", format!("{name:?} {reason}"));
        let name: HeaderName = name.parse().map_err(|_| refuse("is no name of a header"))?;
        let mut value: HeaderValue =
            value.parse().map_err(|_| refuse("has a value that no header can have"))?;
        if reserved(name.as_str()) {
            return Err(refuse(&format!("belongs to {to}")));
        }
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

/// Also those that say how a body is sent: the handshake has none, and a gateway that believes them would take frames for
/// it.
fn of_the_handshake(header: &str) -> bool {
    const OURS: [&str; 10] = [
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    OURS.contains(&header) || header.starts_with("sec-websocket-")
}

fn websocket_config(options: &Options) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(options.read_buffer_size)
        // Reached only by many frames at once; the buffer grows by need.
        .write_buffer_size(32 << 10)
        .max_message_size(Some(options.max_inbound_size))
        .max_frame_size(Some(options.max_inbound_size))
}

/// How far an attempt to connect has come, for the message that says that it took too long.
#[derive(Debug, Default)]
pub(crate) struct Phase(AtomicU8);

/// The steps of an attempt to connect.
#[derive(Debug, Clone, Copy)]
enum Step {
    Resolving,
    Connecting,
    Tunneling,
    #[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "there is no TLS"))]
    Encrypting,
    Upgrading,
}

impl Phase {
    const WORDS: [&str; 5] = [
        "while the host name was being resolved",
        "while the TCP connection was being opened",
        "while waiting for the proxy",
        "during the TLS handshake",
        "while waiting for the WebSocket upgrade",
    ];

    fn set(&self, step: Step) {
        self.0.store(step as u8, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> &'static str {
        Self::WORDS.get(usize::from(self.0.load(Ordering::Relaxed))).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::SocketAddr,
        pin::{Pin, pin},
        sync::Mutex,
        task::{Context, Poll, Waker},
    };

    use nolag_core::Instant;

    use super::*;
    use crate::{
        engine::lock,
        runtime::{BoxFuture, Timer},
    };

    /// Knows a host of three addresses, of which only the one with this port takes connections. The others refuse, or say
    /// nothing at all.
    struct Net {
        takes: u16,
        silent: bool,
        tried: Mutex<Vec<u16>>,
    }

    impl Driver for Net {
        fn now(&self) -> Instant {
            Instant::ZERO
        }

        fn timer(&self) -> Box<dyn Timer> {
            Box::new(Leap(self.silent))
        }

        fn spawn(&self, _: BoxFuture<()>) -> bool {
            false
        }

        fn resolve(&self, _: &str, _: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
            let addresses = [1, 2, 3].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
            Box::pin(async move { Ok(addresses.into()) })
        }

        fn connect(&self, address: SocketAddr, _: bool) -> BoxFuture<io::Result<Box<dyn Io>>> {
            lock(&self.tried).push(address.port());
            let (taken, silent) = (address.port() == self.takes, self.silent);
            Box::pin(async move {
                if taken {
                    Ok(Box::new(Nothing) as Box<dyn Io>)
                } else if silent {
                    std::future::pending().await
                } else {
                    Err(io::ErrorKind::ConnectionRefused.into())
                }
            })
        }

        fn lost(&self, _: bool) -> &'static str {
            ""
        }
    }

    /// Time that leaps to where it is awaited, or stands still; never over the half of the default connect timeout.
    struct Leap(bool);

    impl Timer for Leap {
        fn poll_at(&mut self, at: Instant, _: &mut Context<'_>) -> Poll<()> {
            assert!(at <= Instant::ZERO + Duration::from_secs(5), "each address has its share");
            if self.0 { Poll::Ready(()) } else { Poll::Pending }
        }
    }

    struct Nothing;

    impl AsyncRead for Nothing {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Nothing {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    /// Which addresses of a host are tried, and what comes of it.
    fn dial(takes: u16, silent: bool) -> (Vec<u16>, Result<(), TransportError>) {
        let net = Net { takes, silent, tried: Mutex::default() };
        let dial = Dial::new(&Options::new("ws://broker/ws")).unwrap();
        let connected = {
            let connecting = pin!(connect(&net, &dial, "broker", 80));
            match connecting.poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(connected) => connected.map(drop),
                Poll::Pending => panic!("nothing here waits"),
            }
        };
        (lock(&net.tried).clone(), connected)
    }

    #[test]
    fn what_comes_in_is_bounded_by_frame_and_by_message() {
        let config = websocket_config(&Options::new("ws://broker/ws").max_inbound_size(1000));
        assert_eq!((config.max_frame_size, config.max_message_size), (Some(1000), Some(1000)));
        assert_eq!(config.read_buffer_size, 8 << 10);
        for (asked, had) in [(100, 100), (0, 1), (usize::MAX, 16 << 20)] {
            let config = websocket_config(&Options::new("ws://broker/ws").read_buffer_size(asked));
            assert_eq!(config.read_buffer_size, had);
        }
    }

    #[test]
    fn headers_of_the_handshake_are_ours() {
        for name in ["Host", "TE", "Content-Length", "Transfer-Encoding", "Expect", "Sec-WebSocket-Protocol"]
        {
            let error = headers(&[(name.into(), "1".into())], of_the_handshake, "it").unwrap_err();
            assert!(matches!(error, Misuse::InvalidOption { option: "header", .. }), "{name}: {error}");
        }
        assert!(headers(&[("X-Content-Length".into(), "1".into())], of_the_handshake, "it").is_ok());
    }

    #[test]
    fn values_of_headers_are_not_shown() {
        let headers = headers(&[("x-key".into(), "sesame".into())], of_the_handshake, "it").unwrap();
        assert_eq!(headers["x-key"], "sesame");
        assert!(!format!("{headers:?}").contains("sesame"));
    }

    #[test]
    fn the_addresses_of_a_host_are_tried_in_turn() {
        assert_eq!(dial(1, false), (vec![1], Ok(())));
        assert_eq!(dial(3, false), (vec![1, 2, 3], Ok(())));
        let (tried, failed) = dial(9, false);
        let error = failed.unwrap_err();
        assert_eq!((tried, error.kind), (vec![1, 2, 3], TransportErrorKind::Connect));
        assert!(error.detail.starts_with("127.0.0.1:3: "), "{error}");
    }

    #[test]
    fn an_address_that_says_nothing_does_not_hide_the_next() {
        assert_eq!(dial(3, true), (vec![1, 2, 3], Ok(())));
    }
}
