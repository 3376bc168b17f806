//! What the configuration says of TLS.

use larder_transport::tls::certificates::CertificateFiles;
use larder_transport::tls::{ClientAuth, Least};

/// TLS, for the addresses that want it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// Certificates with their keys; the first for who names no name of any. Empty only where `self_signed`.
    pub certificates: Vec<CertificateFiles>,
    /// The lowest version.
    pub least: Least,
    /// Whether clients show certificates.
    pub client: ClientAuth,
    /// Whether larder makes itself a certificate that nobody trusts, for a trial.
    pub self_signed: bool,
}
