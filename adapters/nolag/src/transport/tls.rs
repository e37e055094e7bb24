//! TLS: whom to trust, and who we are.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use futures_rustls::TlsConnector;
use nolag_core::{Misuse, TransportError, TransportErrorKind};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};

use super::{Io, fault, invalid};
use crate::options::Roots;

/// What [`Options`](crate::Options) say about TLS.
#[derive(Clone)]
pub(crate) struct TlsOptions {
    chosen: Chosen,
    /// What is made of it, once for all clones: roots are large.
    built: Arc<OnceLock<Arc<ClientConfig>>>,
}

#[derive(Clone, Default)]
pub(crate) struct Chosen {
    pub(crate) provider: Option<Arc<CryptoProvider>>,
    pub(crate) roots: Roots,
    /// PEM texts.
    pub(crate) extra_roots: Vec<Vec<u8>>,
    /// PEM texts: a chain and its key.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Default for TlsOptions {
    fn default() -> Self {
        static DEFAULT: OnceLock<Arc<OnceLock<Arc<ClientConfig>>>> = OnceLock::new();
        Self { chosen: Chosen::default(), built: DEFAULT.get_or_init(Arc::default).clone() }
    }
}

impl TlsOptions {
    /// Chooses something else.
    pub(crate) fn change(&mut self) -> &mut Chosen {
        self.built = Arc::default();
        &mut self.chosen
    }

    /// The configuration that they ask for.
    pub(crate) fn client_config(&self) -> Result<Arc<ClientConfig>, Misuse> {
        if let Some(built) = self.built.get() {
            return Ok(built.clone());
        }
        let config = Arc::new(build(&self.chosen)?);
        Ok(self.built.get_or_init(|| config).clone())
    }
}

/// Shows that a key is there, not the key.
impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsOptions")
            .field("roots", &self.chosen.roots)
            .field("extra_roots", &self.chosen.extra_roots.len())
            .field("identity", &self.chosen.identity.is_some())
            .finish_non_exhaustive()
    }
}

/// TLS to one server.
pub(super) struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    pub(super) fn new(options: &TlsOptions, host: &str) -> Result<Self, Misuse> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| Misuse::InvalidUrl {
            url: host.into(),
            reason: "the host name cannot be in a certificate".into(),
        })?;
        Ok(Self { config: options.client_config()?, name })
    }

    /// Performs the handshake, which checks the server's certificate.
    pub(super) async fn encrypt(&self, stream: Box<dyn Io>) -> Result<Box<dyn Io>, TransportError> {
        let connector = TlsConnector::from(self.config.clone());
        let stream = connector.connect(self.name.clone(), stream).await;
        Ok(Box::new(stream.map_err(|error| fault(TransportErrorKind::Tls, "", error))?))
    }
}

/// For what cannot be without a configuration where there is none to use: every server is refused.
#[cfg(feature = "rest")]
pub(crate) fn trust_nobody(options: &TlsOptions) -> Result<ClientConfig, Misuse> {
    let config = ClientConfig::builder_with_provider(provider(&options.chosen)?)
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid("crypto_provider", error.to_string()))?;
    Ok(config.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn build(options: &Chosen) -> Result<ClientConfig, Misuse> {
    let provider = provider(options)?;
    let roots = roots(options)?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid("crypto_provider", error.to_string()))?
        .with_root_certificates(roots);
    match &options.identity {
        None => Ok(config.with_no_client_auth()),
        Some((chain, key)) => {
            let refuse = |reason: &str| invalid("client_certificate", reason);
            let chain = certificates(chain).map_err(|reason| refuse(&format!("its chain: {reason}")))?;
            // What is wrong with a key is not said in words that may hold a part of it.
            let key =
                PrivateKeyDer::from_pem_slice(key).map_err(|_| refuse("its key holds no usable PEM key"))?;
            config.with_client_auth_cert(chain, key).map_err(|error| refuse(&error.to_string()))
        }
    }
}

/// The one given, else the process's, else the one compiled in.
fn provider(options: &Chosen) -> Result<Arc<CryptoProvider>, Misuse> {
    if let Some(provider) = options.provider.clone().or_else(|| CryptoProvider::get_default().cloned()) {
        return Ok(provider);
    }
    #[cfg(feature = "ring")]
    return Ok(Arc::new(rustls::crypto::ring::default_provider()));
    #[cfg(all(feature = "aws-lc-rs", not(feature = "ring")))]
    return Ok(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    #[cfg(not(any(feature = "ring", feature = "aws-lc-rs")))]
    Err(invalid(
        "crypto_provider",
        "none was given, the process has none, and neither crate feature `ring` nor `aws-lc-rs` is on",
    ))
}

fn roots(options: &Chosen) -> Result<RootCertStore, Misuse> {
    let mut roots = RootCertStore::empty();
    match options.roots {
        #[cfg(feature = "webpki-roots")]
        Roots::Bundled => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        #[cfg(feature = "native-roots")]
        Roots::Native => {
            let found = rustls_native_certs::load_native_certs();
            // Some of a system's certificates may be beyond use; only all of them are a fault.
            let (added, _) = roots.add_parsable_certificates(found.certs);
            if added == 0 {
                let reason = found.errors.first().map_or_else(String::new, |error| format!(": {error}"));
                return Err(invalid("roots", format!("this system has no usable root certificates{reason}")));
            }
        }
        Roots::Custom => {}
    }
    for pem in &options.extra_roots {
        let refuse = |reason: &str| invalid("root_certificates", reason);
        for certificate in certificates(pem).map_err(|reason| refuse(&reason))? {
            roots.add(certificate).map_err(|error| refuse(&error.to_string()))?;
        }
    }
    if roots.is_empty() {
        return Err(invalid(
            "root_certificates",
            "nobody is trusted; give the certificate of an authority, or enable the crate feature `webpki-roots` or `native-roots`",
        ));
    }
    Ok(roots)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    // The error quotes what it could not read, which may be a private key.
    let found =
        found.map_err(|_| String::from("the text is no PEM: is each BEGIN and END on a line of its own?"))?;
    if found.is_empty() { Err("the text holds no PEM certificate".into()) } else { Ok(found) }
}
