//! The cipher suites of TLS, which note their use over QUIC: quinn does not pass on the one that a handshake negotiated.

use super::session::name_of_suite;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::crypto::{CipherSuiteCommon, CryptoProvider, ring};
use rustls::quic::{Algorithm, HeaderProtectionKey, PacketKey};
use rustls::{SupportedCipherSuite, Tls13CipherSuite};
use std::cell::Cell;
use std::sync::LazyLock;

thread_local! {
    /// The suite for which this thread has last derived keys. A step of a handshake is one call that does not wait, and the
    /// keys of the negotiated suite are the last ones.
    static LAST: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// The suite, by its IANA name, for which this thread has derived keys since the last call.
pub(crate) fn last() -> Option<&'static str> {
    LAST.take()
}

/// The provider of larder's handshakes.
pub(super) fn provider() -> CryptoProvider {
    static SUITES: LazyLock<Vec<SupportedCipherSuite>> =
        LazyLock::new(|| ring::default_provider().cipher_suites.into_iter().map(recording).collect());
    CryptoProvider { cipher_suites: SUITES.clone(), ..ring::default_provider() }
}

fn recording(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    let SupportedCipherSuite::Tls13(all @ Tls13CipherSuite { quic: Some(of), .. }) = suite else {
        return suite;
    };
    let CipherSuiteCommon { suite, hash_provider, confidentiality_limit } = all.common;
    let (name, of) = (name_of_suite(suite), *of);
    // rustls wants references for ever: this happens once for each suite.
    SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
        common: CipherSuiteCommon { suite, hash_provider, confidentiality_limit },
        hkdf_provider: all.hkdf_provider,
        aead_alg: all.aead_alg,
        quic: Some(Box::leak(Box::new(NotedAlgorithm { name, of }))),
    })))
}

/// The algorithm of a suite, which notes its name.
struct NotedAlgorithm {
    name: &'static str,
    of: &'static dyn Algorithm,
}

impl Algorithm for NotedAlgorithm {
    fn packet_key(&self, key: AeadKey, iv: Iv) -> Box<dyn PacketKey> {
        LAST.set(Some(self.name));
        self.of.packet_key(key, iv)
    }

    fn header_protection_key(&self, key: AeadKey) -> Box<dyn HeaderProtectionKey> {
        self.of.header_protection_key(key)
    }

    fn aead_key_len(&self) -> usize {
        self.of.aead_key_len()
    }

    fn fips(&self) -> bool {
        self.of.fips()
    }
}
