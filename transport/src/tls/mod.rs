//! TLS for clients: the state that all connections share. The source of certificates is `certificates`; the bytes of one
//! connection are in `session`, and its I/O is in `client_socket`.
//!
//! The protocol is rustls's (docs/decisions/0141): TLS 1.2 and 1.3, key exchange with forward secrecy, AEAD ciphers only;
//! no renegotiation, no compression, and early data over QUIC alone (`early`).

pub mod certificates;
mod challenge;
mod early_data_sessions;
mod hello;
mod ocsp;
pub(crate) mod quic_suites;
mod resumable_sessions;
mod rules;
pub(crate) mod session;
mod tickets;
pub mod unknown_names;

pub(crate) use challenge::ChallengeConfigs;
pub(crate) use early_data_sessions::{EarlyPromises, NoTickets};
pub use rules::{AgreedRules, HandshakeRules, NamePattern, TlsRules};
pub(crate) use rules::{AwaitedHello, RuledConfigs};

use arc_swap::ArcSwap;
use certificates::{Certificate, CertificateResolver};
use early_data_sessions::EarlySessions;
use resumable_sessions::{ResumableSessions, SessionState};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::{ProtocolVersion, RootCertStore, ServerConfig, SupportedProtocolVersion, version};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use unknown_names::UnknownNames;

/// The protocols over TLS, in order of preference.
const PROTOCOLS: [&[u8]; 2] = [HTTP2, b"http/1.1"];
const HTTP2: &[u8] = b"h2";

/// The lowest supported version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinTlsVersion {
    /// TLS 1.2 and 1.3.
    #[default]
    Tls12,
    /// TLS 1.3 alone.
    Tls13,
}

/// The policy for client certificates, with the file of CAs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// Not requested.
    #[default]
    Off,
    /// Optional; an invalid one is rejected.
    Optional(PathBuf),
    /// Required.
    Required(PathBuf),
}

impl ClientAuth {
    /// The file of CAs, if any.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            ClientAuth::Off => None,
            ClientAuth::Optional(file) | ClientAuth::Required(file) => Some(file),
        }
    }

    /// Reads the file of CAs, if any, as for connections.
    ///
    /// # Errors
    /// One sentence: the file, and the error in it.
    pub fn check(&self) -> Result<(), String> {
        let text = self.file().map(certificates::read_file).transpose()?.unwrap_or_default();
        verifier(self, &text, Arc::new(ring::default_provider())).map(drop)
    }
}

/// The result of a TLS handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secured {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// The suite, by its IANA name.
    pub cipher: &'static str,
    /// The requested name; empty if there was none.
    pub name: Box<str>,
    /// The negotiated protocol.
    pub protocol: AlpnProtocol,
    /// The subject of the verified client certificate; empty without one.
    pub client: Box<str>,
    /// That certificate, DER.
    pub certificate: Option<Box<[u8]>>,
    /// The rules under which it was made.
    pub rules: Arc<AgreedRules>,
}

impl Secured {
    /// Whether the handshake was one under `rules`, and their CAs are still those of then. QUIC has no version below TLS 1.3, so that of the rules does not matter.
    #[must_use]
    pub fn satisfies(&self, rules: &HandshakeRules) -> bool {
        let is_quic = self.protocol == AlpnProtocol::Http3;
        !self.rules.is_withdrawn()
            && self.rules.client == rules.client
            && (is_quic || self.rules.min_version == rules.min_version)
    }
}

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlpnProtocol {
    /// HTTP/1.1, also if the client offers none.
    Http1,
    /// HTTP/2.
    Http2,
    /// HTTP/3, over QUIC.
    Http3,
}

impl AlpnProtocol {
    fn of(alpn: Option<&[u8]>) -> Self {
        match alpn {
            Some(HTTP2) => AlpnProtocol::Http2,
            Some(_) | None => AlpnProtocol::Http1,
        }
    }
}

/// The TLS settings for new connections; shared by all workers, and replaced as a whole on reload. Existing connections
/// keep theirs.
pub struct ServerTls {
    configs: ArcSwap<RuledConfigs>,
    sessions: ResumableSessions,
    early_sessions: EarlySessions,
    /// Those for validations by CAs; usually empty.
    challenges: ArcSwap<ChallengeConfigs>,
    /// Held while they are replaced.
    replacing: Mutex<()>,
    unknown_names: Arc<UnknownNames>,
}

impl ServerTls {
    /// With these certificates, the first for clients without a known name.
    ///
    /// # Errors
    /// One sentence.
    pub fn new(certificates: &[Certificate], rules: TlsRules) -> Result<Arc<Self>, String> {
        let sessions = ResumableSessions::new()?;
        let unknown_names = Arc::<UnknownNames>::default();
        let configs = ArcSwap::from_pointee(ruled(certificates, rules, None, &sessions, &unknown_names)?);
        let (early_sessions, challenges, replacing) = Default::default();
        Ok(Arc::new(Self { configs, sessions, early_sessions, challenges, replacing, unknown_names }))
    }

    /// Sets the settings for new connections. Sessions are kept under the same rules if these request no client
    /// certificates: otherwise one represents a certificate that was shown once, and must not outlive a change of CAs. Connections
    /// under rules or CAs that change are no longer answered ([`Secured::satisfies`]).
    ///
    /// # Errors
    /// One sentence; the old ones stay.
    pub fn replace(&self, certificates: &[Certificate], rules: TlsRules) -> Result<(), String> {
        let _one = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.configs();
        let next = ruled(certificates, rules, Some(&before), &self.sessions, &self.unknown_names)?;
        before.withdraw_unless_in(&next);
        self.configs.store(Arc::new(next));
        Ok(())
    }

    /// The names that clients requested and no certificate has.
    pub fn unknown_names(&self) -> Arc<UnknownNames> {
        self.unknown_names.clone()
    }

    /// The keys of tickets, for a process that replaces this one: secret bytes. Without those under rules that request client
    /// certificates, as for [`Self::replace`].
    pub fn ticket_keys(&self) -> Vec<u8> {
        self.sessions.ticket_keys()
    }

    /// Continues with the ticket keys of the process that this one replaces ([`Self::ticket_keys`]).
    ///
    /// # Errors
    /// The end of a sentence about them: this process continues with its own.
    pub fn take_ticket_keys(&self, keys: &[u8]) -> Result<(), &'static str> {
        self.sessions.take_ticket_keys(keys)
    }

    /// The sessions of clients that may send early data, with these promises.
    pub(crate) fn early_sessions(&self, promises: EarlyPromises) -> Arc<ServerSessionMemoryCache> {
        self.early_sessions.with(promises)
    }

    pub(crate) fn configs(&self) -> Arc<RuledConfigs> {
        self.configs.load_full()
    }
}

/// The settings under each of the rules.
fn ruled(
    certificates: &[Certificate],
    rules: TlsRules,
    before: Option<&RuledConfigs>,
    sessions: &ResumableSessions,
    unknown_names: &Arc<UnknownNames>,
) -> Result<RuledConfigs, String> {
    let mut configs = Vec::new();
    for it in rules.different() {
        let authorities = it.client.file().map(certificates::read_file).transpose()?.unwrap_or_default();
        let agreed = AgreedRules::new(it.clone(), authorities);
        let made = config(certificates, &agreed, sessions.of(it)?, unknown_names)?;
        let kept = before.and_then(|it| it.agreed(&agreed));
        configs.push((kept.unwrap_or_else(|| Arc::new(agreed)), Arc::new(made)));
    }
    Ok(RuledConfigs { rules, configs })
}

fn config(
    certificates: &[Certificate],
    rules: &AgreedRules,
    sessions: SessionState,
    unknown_names: &Arc<UnknownNames>,
) -> Result<ServerConfig, String> {
    const BOTH: &[&SupportedProtocolVersion] = &[&version::TLS13, &version::TLS12];
    let versions = if rules.min_version == MinTlsVersion::Tls13 { &BOTH[..1] } else { BOTH };
    let provider = Arc::new(quic_suites::provider());
    let refused = |it: rustls::Error| format!("The TLS configuration is invalid: {it}.");
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .map_err(refused)?;
    let builder = match verifier(&rules.client, rules.authorities(), provider)? {
        None => builder.with_no_client_auth(),
        Some(verifier) => builder.with_client_cert_verifier(verifier),
    };
    let resolver = CertificateResolver::of(certificates, unknown_names.clone());
    let mut config = builder.with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = PROTOCOLS.iter().map(|it| it.to_vec()).collect();
    config.ticketer = sessions.tickets;
    config.session_storage = sessions.storage;
    Ok(config)
}

/// The verifier of client certificates by the CAs in `text`; `None` if they are not requested.
fn verifier(
    client: &ClientAuth,
    text: &[u8],
    provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
    let (ClientAuth::Optional(path) | ClientAuth::Required(path)) = client else { return Ok(None) };
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities(path, text)?), provider);
    let builder = match client {
        ClientAuth::Optional(_) => builder.allow_unauthenticated(),
        _ => builder,
    };
    builder.build().map(Some).map_err(|it| format!("{}: {it}.", path.display()))
}

fn authorities(path: &Path, text: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for it in CertificateDer::pem_slice_iter(text) {
        let added = it.map_err(|it| it.to_string()).and_then(|it| roots.add(it).map_err(|it| it.to_string()));
        added.map_err(|why| format!("{} is not a list of certificates: {why}.", path.display()))?;
    }
    match roots.is_empty() {
        true => Err(format!(
            "{} contains no certificate; tls.client_ca requires a PEM file of certificates.",
            path.display()
        )),
        false => Ok(roots),
    }
}

/// The name of a version in logs.
fn name_of(version: Option<ProtocolVersion>) -> &'static str {
    match version {
        Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
        _ => "TLSv1.2",
    }
}
