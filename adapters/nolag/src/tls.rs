//! Whom to trust.

use std::sync::Arc;

use nolag_core::{TransportError, TransportErrorKind};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject as _},
};

/// A configuration that trusts the bundled roots and those in `extra`, each a PEM text.
pub(crate) fn client_config(extra: &[Vec<u8>]) -> Result<Arc<ClientConfig>, TransportError> {
    let fault = |detail: String| TransportError::new(TransportErrorKind::Tls, detail);
    let mut roots = RootCertStore::empty();
    #[cfg(feature = "webpki-roots")]
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    for pem in extra {
        let mut found = false;
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| fault(format!("root certificates: {error}")))?;
            roots.add(certificate).map_err(|error| fault(format!("root certificates: {error}")))?;
            found = true;
        }
        if !found {
            return Err(fault("root certificates: the text holds no PEM certificate".into()));
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| fault(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
