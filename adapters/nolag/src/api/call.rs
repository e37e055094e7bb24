//! One call: its attempts, and the pauses between them.

use std::{
    fmt,
    future::{Future, poll_fn},
    hash::{BuildHasher as _, Hasher as _, RandomState},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nolag_core::{
    Instant, Token, TransportErrorKind,
    rest::{Call, Service, StatusError},
};
use tungstenite::http;

use super::{
    ApiError, ApiOptions,
    http::{self as client, Exchange, Failed, Http, Setup},
};
use crate::{
    runtime::{self, BoxFuture, Driver},
    trace::debug,
};

/// A call of a [`NoLagApi`](crate::NoLagApi); `T` is the answer. Await it, or with [`Runtime::Blocking`] on any thread
/// `wait()` for it. Nothing happens before that.
///
/// # Outcome
/// The answer, or an [`ApiError`], which says whose fault it is. It comes within the
/// [timeout](crate::ApiOptions::timeout).
///
/// # Cancel safety
/// Dropping it before its first poll does nothing. Dropping it later ends it, with no more attempts; the server may have
/// done what was asked or not. Except on tokio, a request that is under way is not broken off.
///
/// [`Runtime::Blocking`]: crate::Runtime
#[must_use = "nothing happens before this is awaited"]
pub struct ApiCall<T> {
    attempts: BoxFuture<Result<T, ApiError>>,
    /// What errors call it, as in `POST /apps`.
    pub(crate) request: Box<str>,
    /// It ends by itself before that.
    #[cfg_attr(not(feature = "blocking"), allow(dead_code, reason = "it is for waiting on threads"))]
    pub(crate) limit: Duration,
}

impl<T> ApiCall<T> {
    pub(super) fn new(shared: &Arc<Shared>, call: Result<Call<T>, ApiError>) -> Self
    where
        T: Send + 'static,
    {
        let call = call.map(|call| shared.secrets.iter().cloned().fold(call, Call::hiding));
        let request = match &call {
            Ok(call) => call.request().name(),
            Err(_) => "".into(),
        };
        let limit = shared.timeout.saturating_add(Duration::from_secs(5));
        let shared = shared.clone();
        Self { attempts: Box::pin(async move { shared.attempts(&call?).await }), request, limit }
    }
}

impl<T> Future for ApiCall<T> {
    type Output = Result<T, ApiError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.attempts.as_mut().poll(cx)
    }
}

impl<T> fmt::Debug for ApiCall<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ApiCall").field(&self.request).finish()
    }
}

/// What the calls of a client share.
pub(super) struct Shared {
    driver: Arc<dyn Driver>,
    http: Result<Box<dyn Http>, ApiError>,
    control_plane: Result<String, ApiError>,
    broker: Result<String, ApiError>,
    /// What no error shows: the key and the values of headers.
    secrets: Vec<Token>,
    timeout: Duration,
    retries: u32,
    retry_interval: Duration,
}

/// Pauses do not grow beyond this.
const MAX_PAUSE: Duration = Duration::from_secs(8);

/// Longer than anybody waits, and not too long for any clock.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);

impl Shared {
    pub(super) fn new(key: Token, options: &ApiOptions) -> Self {
        Self {
            driver: runtime::driver(options.runtime),
            http: Setup::new(key.expose(), options).and_then(|setup| client::client(options.runtime, setup)),
            control_plane: client::service("base_url", &options.base_url, options),
            broker: client::service("broker_url", &http_url_of(&options.broker_url), options),
            secrets: client::secret_headers(options).map(Token::new).chain([key]).collect(),
            timeout: options.timeout.min(MAX_TIMEOUT),
            retries: options.retries,
            retry_interval: options.retry_interval,
        }
    }

    async fn attempts<T>(&self, call: &Call<T>) -> Result<T, ApiError> {
        let sender = self.http.as_deref().map_err(ApiError::clone)?;
        let request = call.request();
        let end = self.driver.now() + self.timeout;
        let mut attempt = 0;
        loop {
            debug!(?request, attempt, "request");
            let error = match self.attempt(sender, call, end).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            debug!(?request, attempt, %error, "request failed");
            if attempt >= self.retries || !request.may_retry(&error) {
                return Err(error);
            }
            let at = self.driver.now() + self.pause(attempt, error.retry_after());
            if at >= end {
                return Err(error);
            }
            let mut timer = self.driver.timer();
            poll_fn(|cx| timer.poll_at(at, cx)).await;
            attempt += 1;
        }
    }

    async fn attempt<T>(&self, sender: &dyn Http, call: &Call<T>, end: Instant) -> Result<T, ApiError> {
        let request = call.request();
        let base = match request.service {
            Service::Broker => &self.broker,
            _ => &self.control_plane,
        };
        let method = http::Method::from_bytes(request.method.as_str().as_bytes());
        let method = method.map_err(|_| ApiError::Misuse { what: "method", reason: "is none".into() })?;
        let exchange = Exchange {
            method,
            url: request.url(base.as_deref().map_err(ApiError::clone)?),
            body: request.body.clone(),
            timeout: end.saturating_since(self.driver.now()),
        };
        let answer = sender.send(exchange).await.map_err(|failed| match failed {
            Failed::Here(error) => error,
            Failed::There(mut error) => {
                if error.kind == TransportErrorKind::Timeout {
                    error.detail = format!("there was no answer within {:?}", self.timeout).into();
                }
                request.failed(error)
            }
        })?;
        if answer.cut && (200..300).contains(&answer.status) {
            return Err(ApiError::Decode {
                request: request.name(),
                status: answer.status,
                reason: format!("it has more than {} bytes", answer.body.len()).into(),
                body: None,
            });
        }
        call.parse(answer.status, &answer.body).map_err(|mut error| {
            if let ApiError::Status(error) = &mut error {
                error.hint = self.hint(request.service, error);
            }
            match &answer.retry_after {
                Some(header) => error.with_retry_after_at(header, since_1970()),
                None => error,
            }
        })
    }

    /// What may be wrong when something other than a control plane answers.
    fn hint(&self, service: Service, error: &StatusError) -> Option<Box<str>> {
        let base = self.control_plane.as_deref().ok().filter(|_| service == Service::ControlPlane)?;
        let base = base.trim_end_matches('/');
        // Control planes give their errors an id.
        let missing = error.status == 404 && error.id.is_none() && !base.ends_with("/v1");
        missing.then(|| format!("is the base URL {base}/v1?").into())
    }

    /// How long to wait after a failed attempt: as long as the server asks and twice as long as last time, half of it
    /// random, so that many clients do not come back at once.
    fn pause(&self, attempt: u32, retry_after: Option<Duration>) -> Duration {
        let longest = MAX_PAUSE.max(self.retry_interval);
        let half = self.retry_interval.saturating_mul(1 << attempt.min(16)).min(longest) / 2;
        let random = RandomState::new().build_hasher().finish();
        let part = f64::from(u32::try_from(random >> 32).unwrap_or(u32::MAX)) / f64::from(u32::MAX);
        half.max(retry_after.unwrap_or_default()).saturating_add(half.mul_f64(part))
    }
}

/// The time in UTC, for what servers say in dates.
fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The address for HTTP of a broker whose address for WebSockets is this.
fn http_url_of(broker: &str) -> String {
    let url = match broker.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("ws") => format!("http://{rest}"),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("wss") => format!("https://{rest}"),
        _ => broker.into(),
    };
    let url = url.strip_suffix('/').unwrap_or(&url);
    url.strip_suffix("/ws").unwrap_or(url).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_has_the_same_address_for_http() {
        assert_eq!(http_url_of("wss://broker.nolag.app/ws"), "https://broker.nolag.app");
        assert_eq!(http_url_of("ws://localhost:8080/ws/"), "http://localhost:8080");
        assert_eq!(http_url_of("WS://localhost:8080"), "http://localhost:8080");
        assert_eq!(http_url_of("https://example.com/nolag"), "https://example.com/nolag");
    }

    #[test]
    fn pauses_double_and_are_as_long_as_the_server_asks() {
        let shared = Shared::new("key".into(), &ApiOptions::default().retry_interval(Duration::from_secs(1)));
        let secs =
            |attempt, asked: Option<u64>| shared.pause(attempt, asked.map(Duration::from_secs)).as_secs_f64();
        for _ in 0..100 {
            assert!((0.5..=1.0).contains(&secs(0, None)));
            assert!((1.0..=2.0).contains(&secs(1, None)));
            assert!((4.0..=8.0).contains(&secs(40, None)));
            assert!((20.0..=20.5).contains(&secs(0, Some(20))));
        }
    }
}
