//! The TLS settings.

use larder_transport::tls::certificates::CertificateFiles;
use larder_transport::tls::{ClientAuth, Least};

/// TLS, for the addresses that require it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// Certificates with their keys; the first is for clients without a known name. Empty only with `self_signed`.
    pub certificates: Vec<CertificateFiles>,
    /// The lowest version.
    pub least: Least,
    /// The policy for client certificates.
    pub client: ClientAuth,
    /// Whether larder generates an untrusted certificate, for a trial.
    pub self_signed: bool,
}
