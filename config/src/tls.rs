//! The TLS settings.

use crate::access::KeyUrl;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use larder_stdx::secret::Secret;
use larder_transport::tls::HandshakeRules;
use larder_transport::tls::certificates::CertificateFiles;
use std::path::PathBuf;

/// TLS, for the addresses that require it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// Certificates with their keys; the first is for clients without a known name. Empty only with `self_signed` or `acme`.
    pub certificates: Vec<CertificateFiles>,
    /// The rules of handshakes for names of no site.
    pub rules: HandshakeRules,
    /// Whether early data (0-RTT) are accepted over HTTP/3.
    pub early_data: bool,
    /// Whether larder generates an untrusted certificate, for a trial.
    pub self_signed: bool,
    /// Automatic certificates, if configured.
    pub acme: Option<AcmeConfig>,
}

/// The ACME directory of Let's Encrypt, the CA without `tls.acme.ca`.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// Automatic certificates (ACME, RFC 8555).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeConfig {
    /// The contact for the CAs.
    pub email: Option<String>,
    /// The names in lower case, sorted, without duplicates; each gets a certificate of its own.
    pub names: Vec<String>,
    /// The folder of accounts, keys and certificates.
    pub folder: PathBuf,
    /// The CAs in the order in which they are asked; never empty.
    pub authorities: Vec<AcmeAuthority>,
    /// The ways in which a CA can validate a name here, the better one first; never empty.
    pub challenges: Vec<AcmeChallenge>,
    /// The secret of the nodes that request certificates together through the fleet; `None` without a fleet.
    pub fleet_key: Option<Secret>,
}

/// A way in which a CA validates a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// HTTP-01 (RFC 8555 section 8.3): a request without TLS to port 80.
    Http01,
    /// TLS-ALPN-01 (RFC 8737): a handshake at port 443.
    TlsAlpn01,
}

impl AcmeChallenge {
    /// Its type (RFC 8555 section 9.7.8).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AcmeChallenge::Http01 => "http-01",
            AcmeChallenge::TlsAlpn01 => "tls-alpn-01",
        }
    }
}

/// A CA with the ACME protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeAuthority {
    /// Its directory, with the file of its trusted certificates.
    pub directory: KeyUrl,
    /// The profile of certificates, if not its default.
    pub profile: Option<String>,
    /// The account at the CA outside of ACME.
    pub binding: Option<ExternalBinding>,
}

/// The credentials of an account outside of ACME (RFC 8555 section 7.3.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalBinding {
    /// The key identifier.
    pub id: String,
    /// The MAC key: base64url.
    pub key: Secret,
}

impl ExternalBinding {
    /// The bytes of the MAC key; `None` if it is not base64url. CAs print it with and without padding.
    #[must_use]
    pub fn key(&self) -> Option<Vec<u8>> {
        let text = self.key.expose().trim().trim_end_matches('=').replace('+', "-").replace('/', "_");
        URL_SAFE_NO_PAD.decode(text).ok().filter(|it| !it.is_empty())
    }
}
