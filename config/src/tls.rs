//! The TLS settings.

use larder_transport::tls::HandshakeRules;
use larder_transport::tls::certificates::CertificateFiles;

/// TLS, for the addresses that require it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// Certificates with their keys; the first is for clients without a known name. Empty only with `self_signed`.
    pub certificates: Vec<CertificateFiles>,
    /// The rules of handshakes for names of no site.
    pub rules: HandshakeRules,
    /// Whether larder generates an untrusted certificate, for a trial.
    pub self_signed: bool,
}
