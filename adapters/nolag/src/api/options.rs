//! How the REST client behaves.

#[cfg(feature = "tls")]
use std::sync::Arc;
use std::{fmt, time::Duration};

use crate::{options::CLOUD_URL as CLOUD_BROKER, runtime::Runtime, transport::without_secrets};
#[cfg(feature = "tls")]
use crate::{options::Roots, transport::TlsOptions};

/// How a [`NoLagApi`](crate::NoLagApi) behaves. Every option has a default; [`ApiOptions::default`] talks to the NoLag
/// cloud.
///
/// ```
/// use std::time::Duration;
/// use nolag::ApiOptions;
///
/// let options = ApiOptions::new("http://localhost:8080/v1").timeout(Duration::from_secs(5)).retries(0);
/// ```
///
/// What cannot be used is reported by every call, as [`ApiError::Misuse`](super::ApiError::Misuse).
#[derive(Clone)]
pub struct ApiOptions {
    pub(super) base_url: String,
    pub(super) broker_url: String,
    pub(super) runtime: Option<Runtime>,
    pub(super) timeout: Duration,
    pub(super) retries: u32,
    pub(super) retry_interval: Duration,
    pub(super) max_inbound_size: usize,
    pub(super) headers: Vec<(String, String)>,
    pub(super) proxy: Option<String>,
    #[cfg(feature = "tls")]
    pub(super) tls: TlsOptions,
}

impl Default for ApiOptions {
    fn default() -> Self {
        Self::new(super::CLOUD_URL)
    }
}

impl ApiOptions {
    /// The defaults, for the control plane at this address: `http://` or `https://`, with its path, which is usually `/v1`,
    /// and without a query, for example `http://localhost:8080/v1`. Over `http://` the API key can be read on the way.
    ///
    /// It is ASCII, with other characters percent-encoded and in hosts as `xn--…`, and has no steps such as `..`.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            broker_url: CLOUD_BROKER.into(),
            runtime: Runtime::default_of_crate(),
            timeout: Duration::from_secs(30),
            retries: 2,
            retry_interval: Duration::from_millis(500),
            max_inbound_size: 16 << 20,
            headers: Vec::new(),
            proxy: None,
            #[cfg(feature = "tls")]
            tls: TlsOptions::default(),
        }
    }

    /// The broker that [`publish`](crate::NoLagApi::publish) goes to, at the address that clients connect to: the one of
    /// [`Options::new`](crate::Options::new). Default: the cloud's.
    ///
    /// `ws://` and `wss://` stand for `http://` and `https://`, which can be given too, and `/ws` at the end is left
    /// out.
    #[must_use]
    pub fn broker_url(mut self, url: impl Into<String>) -> Self {
        self.broker_url = url.into();
        self
    }

    /// What calls run on. Default: tokio; without the crate feature `tokio` there is no default, and every call reports
    /// that none was chosen.
    #[must_use]
    pub fn runtime(mut self, runtime: Runtime) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// How long a call may take, from name resolution to the last byte of the answer, with everything that is
    /// [retried](Self::retries). Default: 30 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How often a call is tried again, where that is safe and may help. Default: 2.
    ///
    /// Anything is tried again when the connection could not be opened, and when the server answered 429, unless the
    /// month's quota is used up. What can be repeated without harm, which is everything but creating, granting and
    /// publishing, is also tried again when the connection failed later, and after 408, 502, 503 and 504. So nothing is
    /// created twice.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// The pause before the first of the [retries](Self::retries). Default: 500 ms.
    ///
    /// Each later one is twice as long, up to 8 s (or this, if it is longer); half of each is random. A server that asks
    /// for more with `Retry-After` gets it. A pause for which the [time of the call](Self::timeout) does not suffice is
    /// not made: the error is reported at once, with
    /// [`retry_after`](super::ApiError::retry_after).
    #[must_use]
    pub fn retry_interval(mut self, interval: Duration) -> Self {
        self.retry_interval = interval;
        self
    }

    /// The largest answer in bytes. A larger one is [`ApiError::Decode`](super::ApiError::Decode). Default: 16 MiB.
    #[must_use]
    pub fn max_inbound_size(mut self, bytes: usize) -> Self {
        self.max_inbound_size = bytes;
        self
    }

    /// Sends this header with every request, for gateways in front of the control plane. Can be called several times, also
    /// with the same name: then all values are sent.
    ///
    /// Values are treated as secrets: this crate shows them in no trace and no error, also where a server repeats one of 6
    /// characters or more. The crate below it on other runtimes than tokio logs them at `TRACE`: see the
    /// [module](crate::api#secrets). `Accept` and `User-Agent` replace the client's own, and are no secrets;
    /// `Authorization`, which has the key, and headers about the connection and the body cannot be given.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Goes through an HTTP proxy: `http://host:port` or `http://user:password@host:port`, with special characters
    /// percent-encoded. Default: none; the environment is not consulted.
    ///
    /// The way to an `https://` server is opened with `CONNECT`, and a proxy that does not open it is
    /// [`TransportErrorKind::Proxy`](crate::TransportErrorKind::Proxy). For an `http://` server it depends on the runtime: on
    /// tokio the proxy is asked for the whole address (`GET http://host/v1/apps`), sees the key, and answers itself when it
    /// refuses; elsewhere it is asked for `CONNECT` here too, which some proxies allow for port 443 only.
    #[must_use]
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.proxy = Some(url.into());
        self
    }

    /// Which root certificates are trusted, besides those of [`root_certificates`](Self::root_certificates). Default:
    /// [`Roots::default`].
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn roots(mut self, roots: Roots) -> Self {
        self.tls.change().roots = roots;
        self
    }

    /// Trusts these root certificates too: PEM text with one or more certificates. Can be called several times.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn root_certificates(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.tls.change().extra_roots.push(pem.as_ref().to_vec());
        self
    }

    /// Shows this certificate to servers that ask for one: PEM texts, the chain with the client's own certificate first,
    /// and its private key (PKCS #8, PKCS #1 or SEC1). Default: none.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn client_certificate(mut self, chain_pem: impl AsRef<[u8]>, key_pem: impl AsRef<[u8]>) -> Self {
        self.tls.change().identity = Some((chain_pem.as_ref().to_vec(), key_pem.as_ref().to_vec()));
        self
    }

    /// Whose cryptography TLS uses. Default: as [`Options::crypto_provider`](crate::Options::crypto_provider).
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn crypto_provider(mut self, provider: impl Into<Arc<rustls::crypto::CryptoProvider>>) -> Self {
        self.tls.change().provider = Some(provider.into());
        self
    }
}

/// Shows addresses without credentials, and of headers, proxy and certificates only what is no secret.
impl fmt::Debug for ApiOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        let mut shown = f.debug_struct("ApiOptions");
        shown
            .field("base_url", &without_secrets(&self.base_url))
            .field("broker_url", &without_secrets(&self.broker_url))
            .field("runtime", &self.runtime)
            .field("timeout", &self.timeout)
            .field("retries", &self.retries)
            .field("retry_interval", &self.retry_interval)
            .field("max_inbound_size", &self.max_inbound_size)
            .field("headers", &headers)
            .field("proxy", &self.proxy.as_deref().map(without_secrets));
        #[cfg(feature = "tls")]
        shown.field("tls", &self.tls);
        shown.finish_non_exhaustive()
    }
}
