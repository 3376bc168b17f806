//! The section `[tls.acme]`: the names that need a certificate, and the CAs. Wildcards need a challenge that larder does not have.

use super::ConfigCheck;
use crate::access::KeyUrl;
use crate::kind::HostPattern;
use crate::problem::{Problem, Source};
use crate::tls::{AcmeAuthority, AcmeChallenge, AcmeConfig, ExternalBinding, LETS_ENCRYPT};
use crate::token;
use larder_stdx::secret::Secret;
use larder_transport::listener::{Listen, ListenerAddress};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The ports at which CAs validate: by HTTP-01 (RFC 8555 section 8.3), and by TLS-ALPN-01 (RFC 8737 section 3).
const HTTP: u16 = 80;
const HTTPS: u16 = 443;

/// The fewest characters of the secret of a fleet: 16 bytes in hexadecimal digits.
const SHORTEST_KEY: usize = 32;

const WILDCARD: &str = "a wildcard needs the DNS-01 challenge, which larder does not have; list the host names that need a certificate, or \
                        get a certificate for the wildcard with another ACME client, and add its files to [[tls.certificates]]";

/// The Baseline Requirements of CAs forbid it.
const UNDERSCORE: &str = "no public CA signs a name with an underscore";

/// Ends of names that are not in the public DNS (RFC 6761, RFC 6762, RFC 8375, and the decision of ICANN on `internal`).
const PRIVATE: [&str; 5] = [".localhost", ".local", ".internal", ".home.arpa", ".invalid"];

impl ConfigCheck {
    /// Whether the section exists, or a flag sets one of its keys.
    pub(super) fn has_acme(&self) -> bool {
        self.values.sections.contains_key("tls.acme")
            || self.values.given.keys().any(|it| it.starts_with("tls.acme."))
    }

    /// Automatic certificates, if configured; `covered` are the names of the certificates from files.
    pub(super) fn acme(&mut self, listen: &[ListenerAddress], covered: &[String]) -> Option<AcmeConfig> {
        if !self.has_acme() {
            return None;
        }
        let names = self.acme_names(covered);
        let authorities = self.authorities();
        let challenges = self.challenges(listen);
        let fleet_key = self.acme_fleet_key();
        let email = Some(self.text("tls.acme.email")).filter(|it| !it.is_empty());
        let folder = self.path("tls.acme.folder").or_else(|| token::state_place("acme"));
        let Some(folder) = folder else {
            let text = "missing; neither HOME nor XDG_STATE_HOME is set";
            self.problem(self.acme_source(), "tls.acme.folder", text);
            return None;
        };
        Some(AcmeConfig { email, names, folder, authorities, challenges, fleet_key })
    }

    /// The place of the section.
    pub(super) fn acme_source(&self) -> Source {
        let section = self.values.sections.get("tls.acme").cloned();
        let given =
            || self.values.given.iter().find(|it| it.0.starts_with("tls.acme.")).map(|it| it.1.1.clone());
        section.or_else(given).unwrap_or_default()
    }

    /// The secret of the nodes of a fleet.
    fn acme_fleet_key(&mut self) -> Option<Secret> {
        const KEY: &str = "tls.acme.fleet_key";
        let key = self.secret(KEY);
        let has_fleet = !self.texts("cache.fleet.servers").is_empty();
        match &key {
            Some(it) if it.expose().trim().chars().count() < SHORTEST_KEY => {
                let text = format!(
                    "shorter than {SHORTEST_KEY} characters; take for example the output of openssl rand -hex 32"
                );
                self.problem(self.source(KEY), KEY, &text);
            }
            Some(_) if !has_fleet => {
                let text = "has no effect without cache.fleet.servers, through which nodes request certificates together";
                self.warn_of(self.source(KEY), KEY, text);
            }
            None if has_fleet && !self.is_wrong(KEY) => {
                let text = "missing; every node of the fleet requests certificates for itself, and a validation that reaches another node fails; \
                            set the same secret on all nodes, such as fleet_key = \"file:/etc/larder/acme-fleet-key\" with the output of \
                            openssl rand -hex 32";
                self.warn_of(self.acme_source(), KEY, text);
            }
            _ => {}
        }
        key.filter(|_| has_fleet)
    }

    fn acme_names(&mut self, covered: &[String]) -> Vec<String> {
        let mut names = BTreeSet::new();
        if self.values.given.contains_key("tls.acme.names") {
            let source = self.source("tls.acme.names");
            for it in self.texts("tls.acme.names") {
                match self.name_problem(&it) {
                    Some(why) => self.problem(source.clone(), "tls.acme.names", &format!("{it:?}: {why}")),
                    None => drop(names.insert(HostPattern::of(&it).to_string())),
                }
            }
        } else {
            for site in 0..self.values.count("site") {
                self.names_of_site(&format!("site[{site}].hosts"), covered, &mut names);
            }
        }
        if names.is_empty() && self.is_sound() {
            let text = "no site has a host name for which a CA can issue a certificate; add one to site.hosts, or set tls.acme.names";
            self.problem(self.acme_source(), "tls.acme", text);
        }
        names.into_iter().collect()
    }

    /// The names of a site that need a certificate.
    fn names_of_site(&mut self, key: &str, covered: &[String], names: &mut BTreeSet<String>) {
        let has = |name: &str| covered.iter().any(|it| it == name);
        for host in self.texts(key) {
            match HostPattern::of(&host) {
                HostPattern::Exact(name) => {
                    let wildcard = name.find('.').map(|dot| format!("*{}", &name[dot..]));
                    let is_covered = has(&name) || wildcard.is_some_and(|it| has(&it));
                    if !is_covered && is_public(&name) {
                        names.insert(name);
                    } else if !is_covered && name.contains('_') {
                        let text = format!("{name:?} gets no certificate by tls.acme: {UNDERSCORE}");
                        self.warn_of(self.source(key), "site.hosts", &text);
                    }
                }
                HostPattern::Below(rest) if !has(&format!("*{rest}")) => {
                    let text = format!(
                        "\"*{rest}\" gets no certificate by tls.acme: {WILDCARD}; or set tls.acme.names"
                    );
                    self.problem(self.source(key), "site.hosts", &text);
                }
                HostPattern::Below(_) | HostPattern::Any => {}
            }
        }
    }

    /// Why a configured name cannot have a certificate.
    fn name_problem(&self, name: &str) -> Option<String> {
        if name.starts_with('*') {
            return Some(WILDCARD.to_owned());
        }
        if is_address(name) {
            return Some("larder requests certificates for host names only, not for addresses".to_owned());
        }
        // A private CA may sign any name.
        let is_private = self.values.count("tls.acme.ca") > 0;
        let why = match name {
            _ if is_private || is_public(name) => return None,
            _ if name.contains('_') => UNDERSCORE,
            _ if name.contains('.') => "it is not a name of the public DNS; for a trial, use tls.self_signed",
            _ => "no public CA signs a name without a dot; for a trial, use tls.self_signed",
        };
        Some(why.to_owned())
    }

    fn authorities(&mut self) -> Vec<AcmeAuthority> {
        let count = self.values.count("tls.acme.ca");
        let mut all: Vec<AcmeAuthority> = Vec::new();
        for at in 0..count {
            let key = |name: &str| format!("tls.acme.ca[{at}].{name}");
            let (directory, root) = (self.text(&key("directory")), self.path(&key("root")));
            let source = self.values.sections.get(&format!("tls.acme.ca[{at}]")).cloned().unwrap_or_default();
            let Some(mut directory) = KeyUrl::parse(&directory) else {
                if !self.is_wrong(&key("directory")) {
                    let text = "missing; the URL of the ACME directory of the CA";
                    self.problem(source, "tls.acme.ca.directory", text);
                }
                continue;
            };
            directory.ca = root;
            if directory.is_exposed() {
                let text = "the CA is not reached by TLS, and an attacker on the network path could prevent certificates";
                self.warn_of(self.source(&key("directory")), "tls.acme.ca.directory", text);
            }
            if all.iter().any(|it| it.directory.url() == directory.url()) {
                self.problem(source.clone(), "tls.acme.ca.directory", "the same CA twice; remove one");
            }
            let profile = Some(self.text(&key("profile"))).filter(|it| !it.is_empty());
            let binding = self.binding(&key("eab_id"), &key("eab_key"));
            all.push(AcmeAuthority { directory, profile, binding });
        }
        if count == 0 {
            let directory = KeyUrl::parse(LETS_ENCRYPT);
            all.extend(directory.map(|directory| AcmeAuthority { directory, profile: None, binding: None }));
        }
        all
    }

    /// The external account at a CA.
    fn binding(&mut self, id_key: &str, key_key: &str) -> Option<ExternalBinding> {
        let id = Some(self.text(id_key)).filter(|it| !it.is_empty());
        match (id, self.secret(key_key)) {
            (Some(id), Some(key)) => {
                let binding = ExternalBinding { id, key };
                if binding.key().is_none() {
                    let text = "it is not base64url, as CAs print the MAC key of an external account";
                    self.problem(self.source(key_key), "tls.acme.ca.eab_key", text);
                }
                Some(binding)
            }
            (Some(_), None) => {
                self.problem(
                    self.source(id_key),
                    "tls.acme.ca.eab_id",
                    "has no effect without eab_key; add it",
                );
                None
            }
            (None, Some(_)) => {
                self.problem(
                    self.source(key_key),
                    "tls.acme.ca.eab_key",
                    "has no effect without eab_id; add it",
                );
                None
            }
            (None, None) => None,
        }
    }

    /// The ways in which a CA can reach larder to validate a name, the better one first.
    fn challenges(&mut self, listen: &[ListenerAddress]) -> Vec<AcmeChallenge> {
        // A port that the system chooses is one that something forwards to.
        let is_at = |port: u16| {
            let fits = move |it: u16| it == port || it == 0;
            listen.iter().any(|it| match it.at {
                Listen::Tcp(address) => port == HTTP && fits(address.port()),
                Listen::Tls(address) => port == HTTPS && fits(address.port()),
                Listen::Unix(_) => false,
            })
        };
        let (http, https) = (is_at(HTTP), is_at(HTTPS));
        if !http && !https {
            let text = "CAs validate a name by a request to its port 80 (HTTP-01) or a handshake at its port 443 (TLS-ALPN-01), of which neither \
                        is in listen; forward one of them to an address of listen";
            let source = self.acme_source();
            self.warnings.push(Problem { source, key: "tls.acme".to_owned(), text: text.to_owned() });
        }
        let is_clear = listen.iter().any(|it| !matches!(it.at, Listen::Tls(_)));
        match (is_clear, http, https) {
            (false, _, _) => vec![AcmeChallenge::TlsAlpn01],
            (true, false, true) => vec![AcmeChallenge::TlsAlpn01, AcmeChallenge::Http01],
            (true, _, _) => vec![AcmeChallenge::Http01, AcmeChallenge::TlsAlpn01],
        }
    }
}

/// Whether a public CA may issue a certificate for a host, as far as its text says.
fn is_public(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    // RFC 5890 section 2.3.1.
    let is_label = |it: &str| !it.contains('_') && !it.starts_with('-') && !it.ends_with('-');
    name.contains('.')
        && name.split('.').all(is_label)
        && !PRIVATE.iter().any(|it| name.ends_with(it))
        && !is_address(&name)
}

fn is_address(name: &str) -> bool {
    name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok()
}
