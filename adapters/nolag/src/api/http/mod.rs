//! The one thing that HTTP clients do here: send a request, give back the answer. Each runtime has its own.

#[cfg(feature = "tokio")]
mod reqwest;
#[cfg(any(feature = "async-std", feature = "smol", feature = "blocking"))]
mod ureq;

#[cfg(feature = "tls")]
use std::sync::Arc;
use std::{
    net::{Ipv4Addr, Ipv6Addr},
    time::Duration,
};

#[cfg(feature = "blocking")]
use nolag_core::TransportErrorKind;
use nolag_core::{Misuse, TransportError};
use tungstenite::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};

use super::{ApiError, options::ApiOptions};
#[cfg(feature = "tls")]
use crate::transport::trust_nobody;
#[cfg(feature = "blocking")]
use crate::{runtime::thread, transport::fault};
use crate::{
    runtime::{BoxFuture, Runtime},
    transport::{Address, Proxy, headers, without_secrets},
};

/// The type of every body.
const JSON: &str = "application/json";

/// Sends requests.
pub(super) trait Http: Send + Sync {
    /// Sends one, without following redirects, and reads the answer.
    fn send(&self, exchange: Exchange) -> BoxFuture<Result<Answer, Failed>>;
}

/// Why there is no answer.
pub(super) enum Failed {
    /// This is no place to send from, and nothing was sent.
    #[cfg_attr(not(feature = "tokio"), allow(dead_code, reason = "the others can send from anywhere"))]
    Here(ApiError),
    /// The network's fault.
    #[cfg_attr(
        not(any(feature = "tokio", feature = "async-std", feature = "smol", feature = "blocking")),
        allow(dead_code, reason = "there is no runtime")
    )]
    There(TransportError),
}

/// What to send.
#[cfg_attr(
    not(any(feature = "tokio", feature = "async-std", feature = "smol", feature = "blocking")),
    allow(dead_code, reason = "there is no runtime")
)]
pub(super) struct Exchange {
    pub(super) method: Method,
    pub(super) url: String,
    /// JSON.
    pub(super) body: Option<String>,
    /// Until the last byte of the answer.
    pub(super) timeout: Duration,
}

/// What came.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) retry_after: Option<String>,
    /// As much of it as is wanted.
    pub(super) body: Vec<u8>,
    /// Whether there was more.
    pub(super) cut: bool,
}

impl Answer {
    /// One whose body is yet to be read.
    #[cfg_attr(
        not(any(feature = "tokio", feature = "async-std", feature = "smol", feature = "blocking")),
        allow(dead_code, reason = "there is no runtime")
    )]
    fn new(status: u16, headers: &HeaderMap) -> Self {
        let retry_after = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        Self { status, retry_after: retry_after.map(String::from), body: Vec::new(), cut: false }
    }
}

/// What all requests have in common.
#[cfg_attr(
    not(any(feature = "tokio", feature = "async-std", feature = "smol", feature = "blocking")),
    allow(dead_code, reason = "there is no runtime")
)]
pub(super) struct Setup {
    headers: HeaderMap,
    /// Checked.
    proxy: Option<String>,
    max_inbound_size: usize,
    #[cfg(feature = "tls")]
    tls: Result<Arc<rustls::ClientConfig>, ApiError>,
}

impl Setup {
    /// Checks and puts together what the options say.
    pub(super) fn new(key: &str, options: &ApiOptions) -> Result<Self, ApiError> {
        if let Some(proxy) = &options.proxy {
            Proxy::parse(proxy).map_err(misuse)?;
        }
        Ok(Self {
            headers: common_headers(key, options)?,
            proxy: options.proxy.clone(),
            max_inbound_size: options.max_inbound_size,
            // What is wrong with it is told to those who need it: see `service`.
            #[cfg(feature = "tls")]
            tls: options
                .tls
                .client_config()
                .or_else(|_| trust_nobody(&options.tls).map(Arc::new))
                .map_err(misuse),
        })
    }
}

/// The base URL of a service, checked.
pub(super) fn service(what: &'static str, url: &str, options: &ApiOptions) -> Result<String, ApiError> {
    let address = Address::parse_http(url).map_err(|error| misused(what, error.to_string()))?;
    if let Some(fault) = ambiguity(url, &address.uri) {
        return Err(misused(what, format!("address {:?}: {fault}", without_secrets(url))));
    }
    #[cfg(feature = "tls")]
    if address.tls {
        options.tls.client_config().map_err(misuse)?;
    }
    let _ = options;
    Ok(url.into())
}

/// What HTTP clients would understand in different ways, or not at all.
fn ambiguity(url: &str, uri: &Uri) -> Option<&'static str> {
    let host = uri.host().unwrap_or_default();
    let port = uri.authority().and_then(|authority| authority.as_str().strip_prefix(host));
    if url.contains(['?', '#']) {
        Some("it has a query or a fragment")
    } else if !url.is_ascii() {
        Some("it is not ASCII; percent-encode its path, and write its host as xn--…")
    } else if url.contains('\\') {
        Some("it has a backslash")
    } else if !is_host(host) || !port.is_some_and(|port| port.is_empty() || port.starts_with(':')) {
        Some("its host is neither a name nor an IP address")
    } else if uri.path().split('/').any(is_step) {
        Some("its path has steps such as ..")
    } else {
        None
    }
}

fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[') {
        return address.strip_suffix(']').is_some_and(|address| address.parse::<Ipv6Addr>().is_ok());
    }
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    // What ends in a number is an address, and not one in an old way of writing.
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    let numeric = hex.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
        || last.bytes().all(|byte| byte.is_ascii_digit());
    !host.is_empty() && host.bytes().all(of_name) && (!numeric || host.parse::<Ipv4Addr>().is_ok())
}

/// Whether a segment of a path is `.` or `..`.
fn is_step(segment: &str) -> bool {
    matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
}

/// The values of the headers that were given, without those that say nothing secret.
pub(super) fn secret_headers(options: &ApiOptions) -> impl Iterator<Item = &str> {
    let plain = |name: &str| {
        [header::ACCEPT, header::USER_AGENT].iter().any(|header| name.eq_ignore_ascii_case(header.as_str()))
    };
    options.headers.iter().filter(move |(name, _)| !plain(name)).map(|(_, value)| value.as_str())
}

fn misused(what: &'static str, reason: impl Into<Box<str>>) -> ApiError {
    ApiError::Misuse { what, reason: reason.into() }
}

/// What the caller did wrong, in the words of this API.
pub(super) fn misuse(error: Misuse) -> ApiError {
    match error {
        Misuse::InvalidOption { option, reason } => ApiError::Misuse { what: option, reason },
        other => ApiError::Misuse { what: "option", reason: other.to_string().into() },
    }
}

fn common_headers(key: &str, options: &ApiOptions) -> Result<HeaderMap, ApiError> {
    const USER_AGENT: &str = concat!("nolag-rust/", env!("CARGO_PKG_VERSION"));

    let bad_key = |reason: &str| ApiError::Misuse { what: "api_key", reason: reason.into() };
    if key.is_empty() {
        return Err(bad_key("is empty"));
    }
    let authorization = HeaderValue::try_from(format!("Bearer {key}"));
    let mut authorization = authorization.map_err(|_| bad_key("holds characters that no key has"))?;
    authorization.set_sensitive(true);

    let mut headers = headers(&options.headers, of_the_request, "the request itself").map_err(misuse)?;
    headers.insert(header::AUTHORIZATION, authorization);
    for (name, value) in [(header::ACCEPT, JSON), (header::USER_AGENT, USER_AGENT)] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    Ok(headers)
}

fn of_the_request(header: &str) -> bool {
    const RESERVED: [HeaderName; 10] = [
        header::ACCEPT_ENCODING,
        header::AUTHORIZATION,
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::CONTENT_TYPE,
        header::EXPECT,
        header::HOST,
        header::TE,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ];
    RESERVED.iter().any(|reserved| reserved == header)
}

/// The client of a runtime.
pub(super) fn client(runtime: Option<Runtime>, setup: Setup) -> Result<Box<dyn Http>, ApiError> {
    match runtime {
        #[cfg(feature = "tokio")]
        Some(Runtime::Tokio) => Ok(Box::new(reqwest::Reqwest::new(setup)?)),
        #[cfg(feature = "async-std")]
        Some(Runtime::AsyncStd) => {
            let unblock = |work| Box::pin(async_std::task::spawn_blocking(work)) as BoxFuture<_>;
            Ok(Box::new(ureq::Ureq::new(setup, unblock)?))
        }
        #[cfg(feature = "smol")]
        Some(Runtime::Smol) => {
            let unblock = |work| Box::pin(smol::unblock(work)) as BoxFuture<_>;
            Ok(Box::new(ureq::Ureq::new(setup, unblock)?))
        }
        #[cfg(feature = "blocking")]
        Some(Runtime::Blocking) => {
            let unblock = |work| {
                let thread = thread::run("nolag-api", work);
                let no_thread = |error| Err(fault(TransportErrorKind::Io, "", error));
                Box::pin(async move { thread.await.unwrap_or_else(no_thread) }) as BoxFuture<_>
            };
            Ok(Box::new(ureq::Ureq::new(setup, unblock)?))
        }
        None => {
            let _ = setup;
            Err(ApiError::Misuse {
                what: "runtime",
                reason: "none was chosen, and the crate feature `tokio` with its default is off".into(),
            })
        }
    }
}
