//! HTTP proxies: `CONNECT` opens a way to the broker through them.

use std::{fmt, future::poll_fn, io, pin::Pin};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use nolag_core::{Misuse, TransportError, TransportErrorKind};
use tungstenite::http::{StatusCode, Uri};

use super::{
    Io, fault,
    head::{end_of_head, is_interim, status_of},
    invalid,
};

/// The largest answer of a proxy, headers included.
const MAX_ANSWER: usize = 8 << 10;

/// A proxy and who we are to it.
pub(crate) struct Proxy {
    pub(super) host: String,
    pub(super) port: u16,
    /// The value of `Proxy-Authorization`.
    credentials: Option<String>,
}

impl Proxy {
    /// `http://host:port`, or `http://user:password@host:port` with percent-encoding. Nothing of it is repeated in
    /// errors: it may hold a password.
    pub(crate) fn parse(url: &str) -> Result<Self, Misuse> {
        let refuse = |reason: &str| invalid("proxy", reason);
        let scheme = url.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://"));
        let rest = scheme.map(|scheme| &url[scheme.len()..]);
        let rest = rest.ok_or_else(|| refuse("it must start with http://"))?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (user, authority) = match rest.rsplit_once('@') {
            Some((user, authority)) => (Some(user), authority),
            None => (None, rest),
        };
        let uri: Uri = authority.parse().map_err(|_| refuse("it is not http://host:port"))?;
        let known = uri.authority().filter(|known| known.as_str() == authority);
        let known = known.ok_or_else(|| refuse("it is not http://host:port"))?;
        let host = known.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = known.as_str().strip_prefix(known.host()).and_then(|rest| rest.strip_prefix(':'));
        let port = port.and_then(|port| port.parse().ok()).ok_or_else(|| refuse("it names no port"))?;
        if host.is_empty() {
            return Err(refuse("it has no host"));
        }
        let credentials = match user {
            Some(user) => {
                let (name, password) = user.split_once(':').unwrap_or((user, ""));
                let decode = |text| {
                    decode(text).ok_or_else(|| refuse("its user or password has a % that encodes nothing"))
                };
                let (name, password) = (decode(name)?, decode(password)?);
                if name.contains(&b':') {
                    return Err(refuse("its user name holds a colon"));
                }
                Some(format!("Basic {}", STANDARD.encode([&name[..], b":", &password].concat())))
            }
            None => None,
        };
        Ok(Self { host, port, credentials })
    }

    /// Asks for a way to the broker. After it the stream is one to the broker.
    pub(super) async fn open_way(
        &self,
        stream: &mut Box<dyn Io>,
        host: &str,
        port: u16,
    ) -> Result<(), TransportError> {
        let authority =
            if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let mut request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n");
        if let Some(credentials) = &self.credentials {
            request.push_str("Proxy-Authorization: ");
            request.push_str(credentials);
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        let failed = |error| fault(TransportErrorKind::Proxy(None), "", error);
        write_all(stream, request.as_bytes()).await.map_err(failed)?;
        let status = read_status(stream).await.map_err(failed)?;
        if status.is_success() {
            return Ok(());
        }
        let reason = match status {
            StatusCode::PROXY_AUTHENTICATION_REQUIRED if self.credentials.is_some() => {
                "it does not accept the user and password"
            }
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                "it wants a user and password; give them in its address"
            }
            status => status.canonical_reason().unwrap_or_default(),
        };
        Err(TransportError::new(TransportErrorKind::Proxy(Some(status.as_u16())), reason))
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("host", &self.host).field("port", &self.port).finish_non_exhaustive()
    }
}

async fn write_all(stream: &mut Box<dyn Io>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match poll_fn(|cx| Pin::new(&mut **stream).poll_write(cx, bytes)).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => bytes = &bytes[written..],
        }
    }
    poll_fn(|cx| Pin::new(&mut **stream).poll_flush(cx)).await
}

/// Reads up to the end of the answer's headers and no further: what follows is the broker's.
async fn read_status(stream: &mut Box<dyn Io>) -> io::Result<StatusCode> {
    let bad = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason);
    let mut answer = Vec::new();
    let mut bytes = 0;
    loop {
        if bytes == MAX_ANSWER {
            return Err(bad("its answer has no end"));
        }
        let mut byte = [0];
        if poll_fn(|cx| Pin::new(&mut **stream).poll_read(cx, &mut byte)).await? == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it closed the connection without an answer",
            ));
        }
        bytes += 1;
        answer.push(byte[0]);
        if answer.len() == 5 && answer != *b"HTTP/" {
            return Err(bad("its answer is not HTTP"));
        }
        if byte == *b"\n" && end_of_head(&answer).is_some() {
            match status_of(&answer) {
                None => return Err(bad("its answer has no status")),
                Some(status) if is_interim(status) => answer.clear(),
                Some(status) => return Ok(status),
            }
        }
    }
}

/// Undoes percent-encoding.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(if byte == b'%' {
            let mut digit = || char::from(bytes.next()?).to_digit(16);
            u8::try_from(digit()? * 16 + digit()?).ok()?
        } else {
            byte
        });
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use std::{
        iter,
        sync::{Arc, Mutex},
        task::{Context, Poll, Waker},
    };

    use futures_io::{AsyncRead, AsyncWrite};

    use super::*;
    use crate::engine::lock;

    /// A proxy that says this, whatever it hears.
    struct Says<I> {
        bytes: I,
        heard: Arc<Mutex<Vec<u8>>>,
    }

    impl<I: Iterator<Item = u8> + Unpin> AsyncRead for Says<I> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            let mut read = 0;
            while read < buf.len() {
                let Some(byte) = self.bytes.next() else { break };
                buf[read] = byte;
                read += 1;
            }
            Poll::Ready(Ok(read))
        }
    }

    impl<I: Unpin> AsyncWrite for Says<I> {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            // Not all at once.
            let taken = buf.len().min(7);
            lock(&self.heard).extend_from_slice(&buf[..taken]);
            Poll::Ready(Ok(taken))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Asks a proxy that says this: what it heard, what became of it, and what of its words is left to be read.
    fn ask(
        proxy: &str,
        host: &str,
        says: impl Iterator<Item = u8> + Send + Unpin + 'static,
    ) -> (String, Result<(), TransportError>, Vec<u8>) {
        let heard = Arc::default();
        let mut stream: Box<dyn Io> = Box::new(Says { bytes: says, heard: Arc::clone(&heard) });
        let proxy = Proxy::parse(proxy).unwrap();
        let cx = &mut Context::from_waker(Waker::noop());
        let Poll::Ready(outcome) = std::pin::pin!(proxy.open_way(&mut stream, host, 443)).poll(cx) else {
            panic!("nothing here waits")
        };
        let mut rest = vec![0; 16];
        let Poll::Ready(left) = Pin::new(&mut *stream).poll_read(cx, &mut rest) else { panic!() };
        rest.truncate(left.unwrap());
        let heard = String::from_utf8(lock(&heard).clone()).unwrap();
        (heard, outcome, rest)
    }

    #[test]
    fn a_way_is_asked_for_by_name_and_what_follows_the_answer_is_the_brokers() {
        let says = "HTTP/1.1 200 Connection established\r\nVia: here\r\n\r\nbroker";
        let (heard, outcome, rest) = ask("http://me:pass@proxy:1", "broker", says.bytes());
        assert_eq!(
            heard,
            "CONNECT broker:443 HTTP/1.1\r\nHost: broker:443\r\nProxy-Authorization: Basic bWU6cGFzcw==\r\n\r\n"
        );
        assert_eq!((outcome, &rest[..]), (Ok(()), &b"broker"[..]));
        let (heard, ..) = ask("http://proxy:1", "::1", says.bytes());
        assert_eq!(heard, "CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n\r\n");
    }

    #[test]
    fn anything_else_than_success_is_told_with_its_status() {
        for status in [101, 300, 302, 307, 403, 407, 500, 503] {
            let says = format!("HTTP/1.1 {status} x\r\nLocation: http://other:1\r\n\r\n");
            let (_, outcome, _) = ask("http://proxy:1", "broker", says.into_bytes().into_iter());
            assert_eq!(outcome.unwrap_err().kind, TransportErrorKind::Proxy(Some(status)), "{status}");
        }
    }

    #[test]
    fn an_answer_may_be_announced_and_end_its_lines_shortly() {
        for says in [
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nbroker",
            "HTTP/1.1 102 x\r\nA: b\r\n\r\nHTTP/1.1 103 y\r\n\r\nHTTP/1.0 200\r\n\r\nbroker",
            "HTTP/1.1 200 OK\nVia: here\n\nbroker",
        ] {
            let (_, outcome, rest) = ask("http://proxy:1", "broker", says.bytes());
            assert_eq!((outcome, &rest[..]), (Ok(()), &b"broker"[..]), "{says:?}");
        }
    }

    #[test]
    fn an_answer_has_an_end_and_is_http() {
        let announcing = "HTTP/1.1 100 Continue\r\n\r\n".bytes().cycle();
        let (_, outcome, _) = ask("http://proxy:1", "broker", announcing);
        assert!(outcome.unwrap_err().detail.contains("has no end"));
        let endless = "HTTP/1.1 200 OK\r\nX: ".bytes().chain(iter::repeat(b'x'));
        let (_, outcome, _) = ask("http://proxy:1", "broker", endless);
        assert!(outcome.unwrap_err().detail.contains("has no end"));
        for says in [
            "",
            "H",
            "HTTP/1.1 200 OK\r\n",
            "SSH-2.0\r\n\r\n",
            "HTTP/1.1\r\n\r\n",
            "HTTP/1.1 x\r\n\r\n",
            "HTTP/junk 200 OK\r\n\r\n",
        ] {
            let (_, outcome, _) = ask("http://proxy:1", "broker", says.bytes());
            assert_eq!(outcome.unwrap_err().kind, TransportErrorKind::Proxy(None), "{says:?}");
        }
    }

    #[test]
    fn a_proxy_has_a_host_a_port_and_perhaps_credentials() {
        let parse = |url| Proxy::parse(url).map(|proxy| (proxy.host, proxy.port, proxy.credentials)).unwrap();
        assert_eq!(parse("http://proxy:3128"), ("proxy".into(), 3128, None));
        assert_eq!(parse("HTTP://proxy:3128"), ("proxy".into(), 3128, None));
        assert_eq!(parse("http://[::1]:80/"), ("::1".into(), 80, None));
        let basic = |text: &str| Some(format!("Basic {}", STANDARD.encode(text)));
        assert_eq!(parse("http://me:secret@proxy:1"), ("proxy".into(), 1, basic("me:secret")));
        assert_eq!(parse("http://m%40e:a%3Ab%25@proxy:1"), ("proxy".into(), 1, basic("m@e:a:b%")));
        assert_eq!(parse("http://me@proxy:1"), ("proxy".into(), 1, basic("me:")));
    }

    #[test]
    fn what_is_no_proxy_is_refused_without_its_password() {
        for bad in [
            "",
            "proxy:3128",
            "https://u:hunter2@proxy:3128",
            "http://u:hunter2@proxy",
            "http://u:hunter2@:3128",
            "http://u:hunter2@",
            "http://u:hunter2@proxy:99999",
            "http://u:hunter2@[::1]x:80",
            "http://u:hunter2@proxy:80/path",
            "http://u:hunter2%@proxy:80",
            "http://u:hunter2%zz@proxy:80",
            "http://a%3Ab:hunter2@proxy:80",
            "http://u:hunter2@pro xy:80",
        ] {
            let error = Proxy::parse(bad).unwrap_err();
            assert!(matches!(error, Misuse::InvalidOption { option: "proxy", .. }), "{bad}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        assert!(!format!("{:?}", Proxy::parse("http://u:hunter2@proxy:80").unwrap()).contains("u:"));
    }
}
