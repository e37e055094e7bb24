//! On tokio.

use std::{error::Error, io, iter, time::Duration};

use nolag_core::{TransportError, TransportErrorKind};
use nolag_http::reqwest::{self, Client, ClientBuilder, redirect, retry};
use tokio::runtime::Handle;
use tungstenite::http::{HeaderValue, Method, header};

use super::{Answer, ApiError, BoxFuture, Exchange, Http, JSON, Setup};

pub(super) struct Reqwest {
    client: Client,
    max_inbound_size: usize,
    proxied: bool,
}

impl Reqwest {
    pub(super) fn new(setup: Setup) -> Result<Self, ApiError> {
        let unusable =
            |error: reqwest::Error| ApiError::Misuse { what: "option", reason: root_cause(&error).into() };
        let proxied = setup.proxy.is_some();
        let mut builder = ClientBuilder::new()
            .default_headers(setup.headers)
            .http1_only()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            // Shorter than servers wait, so that a request does not meet a connection that is just being closed.
            .pool_idle_timeout(Duration::from_secs(15));
        if let Some(proxy) = setup.proxy {
            builder = builder.proxy(reqwest::Proxy::all(proxy).map_err(unusable)?);
        }
        #[cfg(feature = "tls")]
        {
            builder = builder.tls_backend_preconfigured((*setup.tls?).clone());
        }
        Ok(Self {
            client: builder.build().map_err(unusable)?,
            max_inbound_size: setup.max_inbound_size,
            proxied,
        })
    }
}

impl Http for Reqwest {
    fn check_place(&self) -> Result<(), ApiError> {
        match Handle::try_current() {
            Ok(_) => Ok(()),
            Err(_) => Err(ApiError::Misuse {
                what: "runtime",
                reason: "there is no tokio runtime around the call; await it inside one, built with enable_all(), or \
                         choose something else to run on with ApiOptions::runtime()"
                    .into(),
            }),
        }
    }

    fn send(&self, exchange: Exchange) -> BoxFuture<Result<Answer, TransportError>> {
        let (client, max, proxied) = (self.client.clone(), self.max_inbound_size, self.proxied);
        Box::pin(async move {
            let post = exchange.method == Method::POST;
            let mut request = client.request(exchange.method, exchange.url).timeout(exchange.timeout);
            match exchange.body {
                Some(body) => {
                    request = request.header(header::CONTENT_TYPE, HeaderValue::from_static(JSON)).body(body)
                }
                None if post => {
                    request = request.header(header::CONTENT_LENGTH, HeaderValue::from_static("0"))
                }
                None => {}
            }
            let failed = |error| failure(error, proxied);
            let mut response = request.send().await.map_err(failed)?;
            let mut answer = Answer::new(response.status().as_u16(), response.headers());
            while let Some(part) = response.chunk().await.map_err(failed)? {
                let room = max - answer.body.len();
                answer.body.extend_from_slice(&part[..part.len().min(room)]);
                if part.len() > room {
                    answer.cut = true;
                    break;
                }
            }
            Ok(answer)
        })
    }
}

/// What went wrong, and how far the request had come: one whose connection could not be opened was not sent.
fn failure(error: reqwest::Error, proxied: bool) -> TransportError {
    let error = error.without_url();
    let kind = if causes(&error).any(is_tls) {
        TransportErrorKind::Tls
    } else if error.is_timeout() {
        TransportErrorKind::Timeout
    } else if error.is_dns() {
        TransportErrorKind::Resolve
    } else if error.is_connect() && proxied && !causes(&error).any(|cause| cause.is::<io::Error>()) {
        // The network did its part.
        TransportErrorKind::Proxy(None)
    } else if error.is_connect() {
        TransportErrorKind::Connect
    } else {
        TransportErrorKind::Io
    };
    TransportError::new(kind, root_cause(&error)).with_cause(error)
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    iter::successors(error.source(), |error| (**error).source())
}

/// An error of I/O does not give what it wraps as its source.
fn is_tls(error: &(dyn Error + 'static)) -> bool {
    #[cfg(feature = "tls")]
    if error.is::<rustls::Error>() {
        return true;
    }
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    wrapped.is_some_and(|inner| is_tls(inner))
}

/// The words of the innermost cause; those around it say only that something failed.
fn root_cause(error: &reqwest::Error) -> String {
    causes(error).last().map_or_else(|| error.to_string(), ToString::to_string)
}
