//! Challenges of CAs, and the answers of this node to them: for orders of its own and for those of other nodes.

use super::{AcmeFailure, FailureKind};
use crate::overlay::Overlays;
use larder_transport::tls::ServerTls;
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The most bytes of a token: those of CAs have about 40.
const LONGEST_TOKEN: usize = 256;

/// The bytes of a digest: SHA-256.
const DIGEST: usize = 32;

/// The answer to a challenge.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum ChallengeAnswer {
    /// HTTP-01 (RFC 8555 section 8.3).
    Http {
        /// The token of the challenge.
        token: String,
        /// The key authorization.
        text: String,
    },
    /// TLS-ALPN-01 (RFC 8737 section 3).
    Handshake {
        /// The digest of the key authorization.
        digest: Vec<u8>,
    },
}

/// Challenges that the workers answer; until this is dropped.
pub(super) struct PublishedChallenges {
    overlays: Arc<Overlays>,
    /// `None` without an address with TLS.
    tls: Option<Arc<ServerTls>>,
    tokens: Vec<String>,
    /// Those of handshakes.
    names: Vec<String>,
}

impl PublishedChallenges {
    /// None yet.
    pub fn new(overlays: Arc<Overlays>, tls: Option<Arc<ServerTls>>) -> Self {
        Self { overlays, tls, tokens: Vec::new(), names: Vec::new() }
    }

    /// Answers a challenge for `name` from now on.
    ///
    /// # Errors
    /// Why that is not possible.
    pub fn answer(&mut self, name: &str, answer: &ChallengeAnswer) -> Result<(), AcmeFailure> {
        match answer {
            ChallengeAnswer::Http { token, text } => self.publish(token, text),
            ChallengeAnswer::Handshake { digest } => self.certify(name, digest),
        }
    }

    /// Answers HTTP-01.
    fn publish(&mut self, token: &str, text: &str) -> Result<(), AcmeFailure> {
        let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"-_".contains(&it);
        if !(1..=LONGEST_TOKEN).contains(&token.len()) || !token.bytes().all(is_plain) {
            let why = "the token of the challenge is not base64url".to_owned();
            return Err(AcmeFailure::new(FailureKind::Unusable, why));
        }
        self.overlays.answer_challenge(token, text);
        self.tokens.push(token.to_owned());
        Ok(())
    }

    /// Answers TLS-ALPN-01: a certificate with the digest of the key authorization (RFC 8737 section 3).
    fn certify(&mut self, name: &str, digest: &[u8]) -> Result<(), AcmeFailure> {
        if digest.len() != DIGEST {
            let why = "the digest of the challenge has not 32 bytes".to_owned();
            return Err(AcmeFailure::new(FailureKind::Unusable, why));
        }
        let own = |why: String| AcmeFailure::new(FailureKind::Own, why);
        let unusable = |it: rcgen::Error| own(format!("no certificate for the challenge can be made: {it}"));
        let tls = self.tls.as_ref().ok_or_else(|| own("no address uses TLS any more".to_owned()))?;
        let mut params = CertificateParams::new([name.to_owned()]).map_err(unusable)?;
        params.custom_extensions.push(CustomExtension::new_acme_identifier(digest));
        let key = KeyPair::generate().map_err(unusable)?;
        let certificate = params.self_signed(&key).map_err(unusable)?;
        tls.answer_challenge(name, certificate.der(), &key.serialize_der()).map_err(own)?;
        self.names.push(name.to_owned());
        Ok(())
    }
}

impl Drop for PublishedChallenges {
    fn drop(&mut self) {
        self.tokens.iter().for_each(|it| self.overlays.end_challenge(it));
        let tls = self.tls.iter();
        tls.for_each(|tls| self.names.iter().for_each(|it| tls.end_challenge(it)));
    }
}
