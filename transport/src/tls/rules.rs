//! The rules of handshakes: those of all sites, and those of some, chosen by the name in the ClientHello. A connection keeps the
//! rules of its handshake, and the requests on it are compared with them: the name alone is the client's own claim.

use super::{ChallengeConfigs, ClientAuth, MinTlsVersion, challenge};
use rustls::ServerConfig;
use rustls::server::Acceptor;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The rules of a handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandshakeRules {
    /// The lowest version.
    pub min_version: MinTlsVersion,
    /// The policy for client certificates.
    pub client: ClientAuth,
}

/// The rules of handshakes with the CAs of client certificates as they were read. Its connections share it.
#[derive(Debug)]
pub struct AgreedRules {
    rules: HandshakeRules,
    /// The content of the file of CAs; empty without one.
    authorities: Vec<u8>,
    is_withdrawn: AtomicBool,
}

impl AgreedRules {
    pub(super) fn new(rules: HandshakeRules, authorities: Vec<u8>) -> Self {
        Self { rules, authorities, is_withdrawn: AtomicBool::new(false) }
    }

    /// The content of the file of CAs.
    pub(super) fn authorities(&self) -> &[u8] {
        &self.authorities
    }

    /// Whether a reload has replaced them: by other rules, or by other CAs in the same file.
    #[must_use]
    pub fn is_withdrawn(&self) -> bool {
        self.is_withdrawn.load(Ordering::Relaxed)
    }
}

impl Deref for AgreedRules {
    type Target = HandshakeRules;

    fn deref(&self) -> &HandshakeRules {
        &self.rules
    }
}

impl PartialEq for AgreedRules {
    fn eq(&self, other: &Self) -> bool {
        self.rules == other.rules && self.authorities == other.authorities
    }
}

impl Eq for AgreedRules {}

/// The names of a site in a ClientHello, lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamePattern {
    /// Only this name.
    Exact(String),
    /// Every name that ends with this, which begins with a dot.
    Below(String),
    /// Every name without another pattern, and no name.
    Any,
}

impl NamePattern {
    /// How closely it matches a name; 0 is not at all. As for the host of a request.
    fn strength(&self, name: &str) -> usize {
        match self {
            NamePattern::Exact(it) if it == name => usize::MAX,
            NamePattern::Below(rest) if name.len() > rest.len() && name.ends_with(rest.as_str()) => {
                rest.len() + 1
            }
            NamePattern::Any => 1,
            NamePattern::Exact(_) | NamePattern::Below(_) => 0,
        }
    }
}

/// The rules of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsRules {
    /// Those for names of no site.
    pub all: HandshakeRules,
    /// Those of each site; empty if no site has rules of its own.
    pub sites: Vec<(Vec<NamePattern>, HandshakeRules)>,
    /// Whether early data are accepted over QUIC.
    pub early_data: bool,
}

impl TlsRules {
    /// Each of the different rules once; those of all sites first. Every one has session keys of its own, so that a session
    /// is never resumed under other rules than those of its handshake (CVE-2025-23419 of nginx).
    pub(super) fn different(&self) -> Vec<&HandshakeRules> {
        let mut different = vec![&self.all];
        for (_, rules) in &self.sites {
            if !different.contains(&rules) {
                different.push(rules);
            }
        }
        different
    }

    /// The rules for a name; empty without one.
    fn of(&self, name: &str) -> &HandshakeRules {
        let strength = |it: &[NamePattern]| it.iter().map(|it| it.strength(name)).max().unwrap_or(0);
        let all = self.sites.iter().map(|(names, rules)| (strength(names), rules));
        // The first of the strongest: `max_by_key` would return the last.
        all.rev().max_by_key(|it| it.0).filter(|it| it.0 > 0).map_or(&self.all, |it| it.1)
    }
}

/// rustls's settings under each of the rules.
pub(crate) struct RuledConfigs {
    pub(super) rules: TlsRules,
    /// Those of all sites first.
    pub(super) configs: Vec<(Arc<AgreedRules>, Arc<ServerConfig>)>,
}

impl RuledConfigs {
    /// These rules, if they are in force unchanged: their connections keep their rights.
    pub(super) fn agreed(&self, rules: &AgreedRules) -> Option<Arc<AgreedRules>> {
        self.configs.iter().find(|it| *it.0 == *rules).map(|it| it.0.clone())
    }

    /// Withdraws the rules that `next` does not have.
    pub(super) fn withdraw_unless_in(&self, next: &RuledConfigs) {
        for (rules, _) in self.configs.iter().filter(|it| next.agreed(&it.0).is_none()) {
            rules.is_withdrawn.store(true, Ordering::Relaxed);
        }
    }

    /// The settings for all sites, and for a handshake whose name is not known yet.
    pub fn first(&self) -> (Arc<AgreedRules>, Arc<ServerConfig>) {
        self.configs[0].clone()
    }

    /// Whether early data are accepted over QUIC.
    pub fn early_data(&self) -> bool {
        self.rules.early_data
    }

    /// Whether the name in the ClientHello chooses the settings.
    pub fn depends_on_name(&self) -> bool {
        self.configs.len() > 1
    }

    fn of(&self, name: &str) -> (Arc<AgreedRules>, Arc<ServerConfig>) {
        let rules = self.rules.of(name);
        self.configs.iter().find(|it| it.0.rules == *rules).unwrap_or(&self.configs[0]).clone()
    }
}

/// A handshake whose ClientHello has not arrived completely.
pub(crate) struct AwaitedHello {
    configs: Arc<RuledConfigs>,
    challenges: Arc<ChallengeConfigs>,
    hello: Acceptor,
}

/// The settings of a handshake.
pub(crate) struct ChosenConfig {
    pub rules: Arc<AgreedRules>,
    pub config: Arc<ServerConfig>,
    /// Whether a CA validates a name: the connection carries no requests.
    pub is_challenge: bool,
}

impl From<(Arc<AgreedRules>, Arc<ServerConfig>)> for ChosenConfig {
    fn from((rules, config): (Arc<AgreedRules>, Arc<ServerConfig>)) -> Self {
        Self { rules, config, is_challenge: false }
    }
}

impl AwaitedHello {
    pub fn new(configs: Arc<RuledConfigs>, challenges: Arc<ChallengeConfigs>) -> Self {
        Self { configs, challenges, hello: Acceptor::default() }
    }

    /// Reads the next received bytes; returns the settings once they are known. For bytes that are no ClientHello those of all
    /// sites: rustls will send their alert.
    pub fn read(&mut self, mut bytes: &[u8]) -> Option<ChosenConfig> {
        while !bytes.is_empty() {
            match self.hello.read_tls(&mut bytes) {
                Ok(count) if count > 0 => {}
                _ => return Some(self.configs.first().into()),
            }
            match self.hello.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let hello = accepted.client_hello();
                    let name = hello.server_name().unwrap_or_default().to_ascii_lowercase();
                    return Some(match challenge::chosen(&self.challenges, &hello, &name) {
                        Some(config) => {
                            ChosenConfig { rules: self.configs.first().0, config, is_challenge: true }
                        }
                        None => self.configs.of(&name).into(),
                    });
                }
                Err(_) => return Some(self.configs.first().into()),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_has_its_rules() {
        let strict = HandshakeRules {
            min_version: MinTlsVersion::Tls13,
            client: ClientAuth::Required("ca.pem".into()),
        };
        let modern = HandshakeRules { min_version: MinTlsVersion::Tls13, client: ClientAuth::Off };
        let plain = HandshakeRules::default();
        let exact = |it: &str| NamePattern::Exact(it.to_owned());
        let mut rules = TlsRules {
            all: plain.clone(),
            sites: vec![
                (vec![exact("a.test"), exact("b.test")], strict.clone()),
                (vec![NamePattern::Below(".b.test".to_owned())], modern.clone()),
                (vec![exact("open.b.test")], plain.clone()),
            ],
            early_data: false,
        };
        assert_eq!(vec![&plain, &strict, &modern], rules.different());
        for (name, expect) in [
            ("a.test", &strict),
            ("b.test", &strict),
            ("c.b.test", &modern),
            ("d.c.b.test", &modern),
            (".b.test", &plain),
            ("open.b.test", &plain),
            ("xb.test", &plain),
            ("", &plain),
        ] {
            assert_eq!(expect, rules.of(name), "{name}");
        }
        rules.sites.push((vec![NamePattern::Any], modern.clone()));
        assert_eq!([&modern, &modern, &strict], ["", "xb.test", "a.test"].map(|it| rules.of(it)));
    }

    /// The choice of a ClientHello for this name and with these protocols: a challenge, or the settings of all sites.
    fn is_challenge(tls: &crate::tls::ServerTls, name: &str, protocols: &[&str]) -> bool {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client =
            rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let roots = rustls::RootCertStore::empty();
        let mut client = client.unwrap().with_root_certificates(roots).with_no_client_auth();
        client.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
        let name = name.to_owned().try_into().unwrap();
        let mut hello = Vec::new();
        let mut client = rustls::ClientConnection::new(Arc::new(client), name).unwrap();
        client.write_tls(&mut hello).unwrap();
        let chosen = AwaitedHello::new(tls.configs(), tls.challenges()).read(&hello).unwrap();
        assert_ne!(chosen.is_challenge, Arc::ptr_eq(&chosen.config, &tls.configs().first().1));
        chosen.is_challenge
    }

    #[test]
    fn only_a_validation_gets_the_certificate_of_a_challenge() {
        let signed = rcgen::generate_simple_self_signed(vec!["a.test".to_owned()]).unwrap();
        let (chain, key) = (signed.cert.pem(), signed.signing_key.serialize_pem());
        let certificate = crate::tls::certificates::Certificate::of_pem(
            chain.as_bytes(),
            key.as_bytes(),
            None,
            "a.pem",
            "a.key",
        );
        let certificate = certificate.unwrap();
        let tls =
            crate::tls::ServerTls::new(std::slice::from_ref(&certificate), TlsRules::default()).unwrap();
        assert!(!is_challenge(&tls, "a.test", &["acme-tls/1"]), "none is expected");
        tls.answer_challenge("a.test", signed.cert.der(), &signed.signing_key.serialize_der()).unwrap();
        assert!(is_challenge(&tls, "a.test", &["acme-tls/1"]));
        assert!(is_challenge(&tls, "A.test", &["acme-tls/1"]));
        for (name, protocols) in [
            ("b.test", &["acme-tls/1"][..]),
            ("a.test", &[]),
            ("a.test", &["h2", "http/1.1"]),
            ("a.test", &["acme-tls/1", "h2"]),
            ("a.test", &["h2", "acme-tls/1"]),
            ("a.test", &["acme-tls/2"]),
            ("127.0.0.1", &["acme-tls/1"]),
        ] {
            assert!(!is_challenge(&tls, name, protocols), "{name} {protocols:?}");
        }
        tls.replace(&[certificate], TlsRules::default()).unwrap();
        assert!(is_challenge(&tls, "a.test", &["acme-tls/1"]), "a reload keeps it");
        tls.end_challenge("a.test");
        assert!(!is_challenge(&tls, "a.test", &["acme-tls/1"]));
    }
}
