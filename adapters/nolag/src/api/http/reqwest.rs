//! On tokio.

use std::{
    any::Any,
    error::Error,
    future::{Future, poll_fn},
    io, iter,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::pin,
    sync::{Mutex, PoisonError},
    task::Poll,
    time::Duration,
};

use nolag_core::{TransportError, TransportErrorKind};
use nolag_http::reqwest::{self, Client, ClientBuilder, redirect, retry};
use tokio::runtime::{Handle, Id};
use tungstenite::http::{HeaderMap, HeaderValue, Method, header};

use super::{Answer, ApiError, BoxFuture, Exchange, Failed, Http, JSON, Setup, misused};

pub(super) struct Reqwest {
    setup: Setup,
    /// The client of the runtime that sent last. The connections that it keeps are moved by tasks of that runtime, so that
    /// in another one they could stand still.
    client: Mutex<Option<(Id, Client)>>,
}

impl Reqwest {
    pub(super) fn new(setup: Setup) -> Result<Self, ApiError> {
        // What cannot be used is told now.
        build(&setup)?;
        Ok(Self { setup, client: Mutex::default() })
    }

    fn client(&self) -> Result<Client, ApiError> {
        let runtime = Handle::try_current().map_err(|_| misused("runtime", NO_RUNTIME))?.id();
        let mut kept = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((of, client)) if *of == runtime => Ok(client.clone()),
            _ => {
                let client = build(&self.setup)?;
                *kept = Some((runtime, client.clone()));
                Ok(client)
            }
        }
    }
}

fn build(setup: &Setup) -> Result<Client, ApiError> {
    let unusable = |error: reqwest::Error| misused("option", root_cause(&error));
    let mut builder = ClientBuilder::new()
        .http1_only()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        // Shorter than servers wait, so that a request does not meet a connection that is just being closed.
        .pool_idle_timeout(Duration::from_secs(15));
    if let Some(proxy) = &setup.proxy {
        builder = builder.proxy(reqwest::Proxy::all(proxy).map_err(unusable)?);
    }
    #[cfg(feature = "tls")]
    {
        let tls = setup.tls.as_deref().map_err(ApiError::clone)?;
        builder = builder.tls_backend_preconfigured(tls.clone());
    }
    builder.build().map_err(unusable)
}

const NO_RUNTIME: &str = "there is no tokio runtime around the call; await it inside one, built with enable_all(), or \
                          choose something else to run on with ApiOptions::runtime()";

const NOT_ENABLED: &str =
    "the tokio runtime around the call has no I/O or no timers; build it with enable_all()";

impl Http for Reqwest {
    fn send(&self, exchange: Exchange) -> BoxFuture<Result<Answer, Failed>> {
        let client = match self.client() {
            Ok(client) => client,
            Err(error) => return Box::pin(async { Err(Failed::Here(error)) }),
        };
        // All values of a header: as defaults of the client only one of them would be sent.
        let headers = self.setup.headers.clone();
        let (max, proxied) = (self.setup.max_inbound_size, self.setup.proxy.is_some());
        Box::pin(async move {
            let sending = send(client, headers, exchange, max);
            match in_full_runtime(sending).await {
                Some(answer) => answer.map_err(|error| Failed::There(failure(error, proxied))),
                None => Err(Failed::Here(misused("runtime", NOT_ENABLED))),
            }
        })
    }
}

async fn send(
    client: Client,
    headers: HeaderMap,
    exchange: Exchange,
    max: usize,
) -> Result<Answer, reqwest::Error> {
    let post = exchange.method == Method::POST;
    let mut request =
        client.request(exchange.method, exchange.url).headers(headers).timeout(exchange.timeout);
    match exchange.body {
        Some(body) => {
            request = request.header(header::CONTENT_TYPE, HeaderValue::from_static(JSON)).body(body)
        }
        None if post => request = request.header(header::CONTENT_LENGTH, HeaderValue::from_static("0")),
        None => {}
    }
    let mut response = request.send().await?;
    let mut answer = Answer::new(response.status().as_u16(), response.headers());
    while let Some(part) = response.chunk().await? {
        let room = max - answer.body.len();
        answer.body.extend_from_slice(&part[..part.len().min(room)]);
        if part.len() > room {
            answer.cut = true;
            break;
        }
    }
    Ok(answer)
}

/// What comes of it; `None` if the runtime was built without I/O or timers, which nobody can ask it before: it panics.
async fn in_full_runtime<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
        match polled {
            Ok(polled) => polled.map(Some),
            Err(panic) if is_about_the_runtime(&*panic) => Poll::Ready(None),
            Err(panic) => resume_unwind(panic),
        }
    })
    .await
}

fn is_about_the_runtime(panic: &(dyn Any + Send)) -> bool {
    let words = panic.downcast_ref::<&str>().copied();
    let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    words.is_some_and(|words| words.contains("A Tokio 1.x context was found, but"))
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
