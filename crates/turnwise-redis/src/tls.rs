//! TLS certificates of a client.

use std::fmt;

use redis::{ClientTlsConfig, TlsCertificates};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// Certificates for `rediss://` beyond the system's own: see
/// [`RemoteBuilder::tls`](crate::RemoteBuilder::tls).
///
/// Certificates and keys are PEM. The system's roots are those that `rustls-native-certs` finds;
/// the variables `SSL_CERT_FILE` and `SSL_CERT_DIR` override them.
///
/// # Examples
/// ```no_run
/// use turnwise_redis::{Remote, Tls};
///
/// let tls = Tls::new().trust(std::fs::read("ca.pem")?);
/// let remote = Remote::builder().tls(tls).connect("rediss://redis.example.com:6380/")?;
/// remote.locks().lock("order 7").wait()?.release().wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Tls {
    roots: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Tls {
    /// The system's roots, and no client certificate.
    pub fn new() -> Self {
        Tls::default()
    }

    /// Trusts these roots in place of the system's.
    pub fn trust(self, roots: impl Into<Vec<u8>>) -> Self {
        Tls { roots: Some(roots.into()), ..self }
    }

    /// Presents this chain of certificates to the server, the client's own first: for servers with
    /// `tls-auth-clients yes`.
    pub fn identity(self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        Tls { identity: Some((chain.into(), key.into())), ..self }
    }

    /// Returns the certificates for a connection. Fails if a configured text contains none.
    pub(crate) fn certificates(&self) -> Result<TlsCertificates, &'static str> {
        let none = |pem: &[u8]| CertificateDer::pem_slice_iter(pem).next().is_none();
        if self.roots.as_deref().is_some_and(none) {
            return Err("the roots to trust have no certificate in PEM");
        }
        if self.identity.as_ref().is_some_and(|(chain, _)| none(chain)) {
            return Err("the client's identity has no certificate in PEM");
        }
        let identity = self.identity.clone();
        let client_tls =
            identity.map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
        Ok(TlsCertificates { client_tls, root_cert: self.roots.clone() })
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys are not shown.
        f.debug_struct("Tls")
            .field("own_roots", &self.roots.is_some())
            .field("identity", &self.identity.is_some())
            .finish()
    }
}

/// Installs ring as the process's provider of cryptography, unless there is one.
pub(crate) fn choose_provider() {
    use rustls::crypto::{CryptoProvider, ring};
    if CryptoProvider::get_default().is_none() {
        // Another thread may have been faster.
        let _ = ring::default_provider().install_default();
    }
}
