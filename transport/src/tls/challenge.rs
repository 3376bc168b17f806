//! Handshakes by which a CA validates a name (TLS-ALPN-01, RFC 8737): they get a certificate of their own, and end at once. Every other
//! client gets the certificates of the configuration.

use super::ServerTls;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ServerConfig, version};
use std::collections::HashMap;
use std::sync::Arc;

/// The protocol of validations.
const PROTOCOL: &[u8] = b"acme-tls/1";

/// The settings for validations, by name in lower case.
pub(crate) type ChallengeConfigs = HashMap<String, Arc<ServerConfig>>;

impl ServerTls {
    /// Answers validations of a name, lower case, with this certificate (DER) and its key (PKCS#8, DER) until [`Self::end_challenge`]. Every
    /// handshake that begins after the return gets the answer.
    ///
    /// # Errors
    /// One sentence.
    pub fn answer_challenge(&self, name: &str, certificate: &[u8], key: &[u8]) -> Result<(), String> {
        let config = config(certificate, key)?;
        self.challenges.rcu(|all| {
            let mut all = ChallengeConfigs::clone(all);
            all.insert(name.to_owned(), config.clone());
            all
        });
        Ok(())
    }

    /// Ends the answers for a name.
    pub fn end_challenge(&self, name: &str) {
        self.challenges.rcu(|all| {
            let mut all = ChallengeConfigs::clone(all);
            all.remove(name);
            all
        });
    }

    pub(crate) fn challenges(&self) -> Arc<ChallengeConfigs> {
        self.challenges.load_full()
    }
}

/// The settings for a validation; `None` for other clients: a CA offers this protocol alone (RFC 8737 section 3).
pub(super) fn chosen(
    all: &ChallengeConfigs,
    hello: &ClientHello<'_>,
    name: &str,
) -> Option<Arc<ServerConfig>> {
    let mut offered = hello.alpn()?;
    let is_validation = offered.next() == Some(PROTOCOL) && offered.next().is_none();
    all.get(name).filter(|_| is_validation).cloned()
}

/// The settings for one name. Sessions are not kept: they would be resumed without a certificate.
fn config(certificate: &[u8], key: &[u8]) -> Result<Arc<ServerConfig>, String> {
    let refused = |it: rustls::Error| format!("the certificate for the challenge cannot be used: {it}");
    let key = PrivateKeyDer::try_from(key.to_vec()).map_err(str::to_owned)?;
    let key = ring::sign::any_supported_type(&key).map_err(refused)?;
    // It is not checked as other certificates are: its critical extension (RFC 8737 section 3) is unknown to the check.
    let certified = CertifiedKey::new(vec![CertificateDer::from(certificate.to_vec())], key);
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(refused)?;
    let resolver = Arc::new(SingleCertAndKey::from(certified));
    let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}
