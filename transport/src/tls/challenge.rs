//! Handshakes by which a CA validates a name (TLS-ALPN-01, RFC 8737): they get a certificate of their own, and end at once. Every other
//! client gets the certificates of the configuration.

use super::ServerTls;
use super::certificates::{Certificate, Names};
use rustls::crypto::ring;
use rustls::server::{ClientHello, NoServerSessionStorage};
use rustls::{ServerConfig, version};
use std::collections::HashMap;
use std::sync::Arc;

/// The protocol of validations.
const PROTOCOL: &[u8] = b"acme-tls/1";

/// The settings for validations, by name in lower case.
pub(crate) type ChallengeConfigs = HashMap<String, Arc<ServerConfig>>;

impl ServerTls {
    /// Answers validations of a name, lower case, with this certificate until [`Self::end_challenge`]. Every handshake that begins after the
    /// return gets the answer.
    ///
    /// # Errors
    /// One sentence.
    pub fn answer_challenge(&self, name: &str, certificate: &Certificate) -> Result<(), String> {
        let config = config(certificate)?;
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
fn config(certificate: &Certificate) -> Result<Arc<ServerConfig>, String> {
    let refused = |it: rustls::Error| format!("The TLS configuration is invalid: {it}.");
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(refused)?;
    let names = Names::of(std::slice::from_ref(certificate));
    let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::new(names));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}
