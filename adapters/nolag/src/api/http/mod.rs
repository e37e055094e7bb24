//! The one thing that HTTP clients do here: send a request, give back the answer. Each runtime has its own.

#[cfg(feature = "tokio")]
mod reqwest;
#[cfg(any(feature = "async-std", feature = "smol", feature = "blocking"))]
mod ureq;

#[cfg(feature = "tls")]
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "blocking")]
use nolag_core::TransportErrorKind;
use nolag_core::{Misuse, TransportError};
use tungstenite::http::{HeaderMap, HeaderName, HeaderValue, Method, header};

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
    /// Whether this is a place to send from.
    fn check_place(&self) -> Result<(), ApiError> {
        Ok(())
    }

    /// Sends one, without following redirects, and reads the answer.
    fn send(&self, exchange: Exchange) -> BoxFuture<Result<Answer, TransportError>>;
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
    let refuse = |reason: String| ApiError::Misuse { what, reason: reason.into() };
    let address = Address::parse_http(url).map_err(|error| refuse(error.to_string()))?;
    if address.uri.query().is_some() || url.contains('#') {
        return Err(refuse(format!("address {:?}: it has a query or a fragment", without_secrets(url))));
    }
    #[cfg(feature = "tls")]
    if address.tls {
        options.tls.client_config().map_err(misuse)?;
    }
    let _ = options;
    Ok(url.into())
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
