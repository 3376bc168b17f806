//! The section `[tls]`: relations between its values and the addresses, and the validity of its files, which are read
//! again when they are used.

use super::{ConfigCheck, RoutePath, Source};
use crate::SiteConfig;
use crate::problem::Problem;
use crate::tls::TlsConfig;
use larder_stdx::clock;
use larder_transport::listener::{Listen, ListenerAddress};
use larder_transport::tls::certificates::{Certificate, CertificateError, CertificateFiles, CertificatePart};
use larder_transport::tls::{ClientAuth, HandshakeRules, MinTlsVersion};

impl ConfigCheck {
    /// TLS, if an address requires it.
    pub(super) fn tls(&mut self, listen: &[ListenerAddress]) -> Option<TlsConfig> {
        let is_wanted = listen.iter().any(|it| matches!(it.at, Listen::Tls(_)));
        let self_signed = self.flag("tls.self_signed");
        let mut covered = Vec::new();
        let certificates = self.certificates(is_wanted, &mut covered);
        let client = self.client_auth(is_wanted);
        if !is_wanted {
            if !certificates.is_empty() {
                self.warn_certificates(
                    "no address of listen uses TLS; add for example listen = [\"https://0.0.0.0:8443\"]",
                );
            }
            if self_signed {
                self.warn(
                    "tls.self_signed",
                    "no address of listen uses TLS; add for example --listen https://127.0.0.1:8443",
                );
            }
            if self.has_acme() {
                let text = "no address of listen uses TLS; add for example listen = [\"http://0.0.0.0:80\", \"https://0.0.0.0:443\"]";
                let source = self.acme_source();
                self.warnings.push(Problem { source, key: "tls.acme".to_owned(), text: text.to_owned() });
            }
            return None;
        }
        let acme = self.acme(listen, &covered);
        if certificates.is_empty() && !self_signed && acme.is_none() && self.is_sound() {
            let text = "an https address requires a certificate; add [[tls.certificates]] or [tls.acme], or try --tls-self-signed";
            self.problem(self.source("listen"), "listen", text);
        }
        let rules = HandshakeRules { min_version: least(&self.text("tls.min_version")), client };
        let early_data = self.early_data(&rules);
        Some(TlsConfig { certificates, rules, early_data, self_signed, acme })
    }

    /// Whether early data are accepted.
    fn early_data(&mut self, rules: &HandshakeRules) -> bool {
        let is_on = self.flag("tls.early_data");
        if is_on && !self.flag("http3") {
            self.warn(
                "tls.early_data",
                "has no effect without http3 = true: over TCP, larder accepts no early data",
            );
        } else if is_on && rules.client != ClientAuth::Off {
            self.warn("tls.early_data", "has no effect while tls.client_auth requests certificates");
        }
        is_on
    }

    /// The rules of handshakes of a site; `None` without rules of its own.
    pub(super) fn site_tls(&mut self, site: &str, listen: &[ListenerAddress]) -> Option<HandshakeRules> {
        let key = |name: &str| format!("{site}.tls.{name}");
        let [version, auth, ca] = ["min_version", "client_auth", "client_ca"].map(key);
        let given = [&version, &auth, &ca].into_iter().find(|it| self.values.given.contains_key(*it))?;
        let source = self.source(given);
        if !listen.iter().any(|it| matches!(it.at, Listen::Tls(_))) {
            let text = "no address of listen uses TLS; add for example listen = [\"https://0.0.0.0:8443\"]";
            let key = "site.tls".to_owned();
            self.warnings.push(Problem { source: source.clone(), key, text: text.to_owned() });
        }
        let or_all = |own: &str, all: &str| {
            Some(self.text(own)).filter(|it| !it.is_empty()).unwrap_or_else(|| self.text(all))
        };
        let (mode, version) = (or_all(&auth, "tls.client_auth"), or_all(&version, "tls.min_version"));
        let file = self.path(&ca).or_else(|| self.path("tls.client_ca"));
        let client = match (mode.as_str(), file) {
            ("optional", Some(ca)) => ClientAuth::Optional(ca),
            ("required", Some(ca)) => ClientAuth::Required(ca),
            ("optional" | "required", None) => {
                let text = "client certificates are requested; set the CA that signs them with client_ca";
                self.problem(self.source(&auth), "site.tls.client_auth", text);
                return None;
            }
            _ => ClientAuth::Off,
        };
        if client == ClientAuth::Off && self.values.given.contains_key(&ca) {
            let (source, key) = (self.source(&ca), "site.tls.client_ca".to_owned());
            let text = "has no effect while client_auth is \"off\"".to_owned();
            self.warnings.push(Problem { source, key, text });
        }
        if let Err(why) = client.check() {
            let at = if self.values.given.contains_key(&ca) { ca } else { auth };
            self.problem(self.source(&at), "site.tls.client_ca", why.trim_end_matches('.'));
        }
        Some(HandshakeRules { min_version: least(&version), client })
    }

    /// Warns of sites that are not served over HTTP/3: a handshake over QUIC begins before the name is known, so that client certificates
    /// are requested for all sites or for none.
    pub(super) fn sites_without_http3(&mut self, sites: &[SiteConfig], tls: Option<&TlsConfig>) {
        let Some(all) = tls.map(|it| &it.rules.client) else { return };
        let differs = |it: &&SiteConfig| it.tls.as_ref().is_some_and(|rules| rules.client != *all);
        let names: Vec<_> = sites.iter().filter(differs).filter_map(|it| it.hosts.first()).collect();
        if let Some(first) = names.first() {
            let more = match names.len() {
                1 => String::new(),
                count => format!(" and {} more", count - 1),
            };
            let text = format!(
                "the site of {first}{more} is not served over HTTP/3, since its client certificates have rules of their own: requests get \
                 421, and browsers use HTTP/2"
            );
            self.warn("http3", &text);
        }
    }

    /// The rules of handshakes of each site, those of all sites where it has none of its own; nothing if no site has some.
    pub(super) fn all_site_tls(sites: &mut [SiteConfig], tls: Option<&TlsConfig>) {
        if sites.iter().any(|it| it.tls.is_some()) {
            let all = tls.map(|it| it.rules.clone()).unwrap_or_default();
            for site in sites {
                site.tls.get_or_insert_with(|| all.clone());
            }
        }
    }

    /// The certificates; their files are checked if they are used. `covered` gets their names.
    fn certificates(&mut self, are_used: bool, covered: &mut Vec<String>) -> Vec<CertificateFiles> {
        let mut certificates = Vec::new();
        for at in 0..self.values.count("tls.certificates") {
            let key = |name: &str| format!("tls.certificates[{at}].{name}");
            let (cert, key_file, ocsp) =
                (self.path(&key("cert")), self.path(&key("key")), self.path(&key("ocsp")));
            match (cert, key_file) {
                (Some(cert), Some(key)) => {
                    let files = CertificateFiles { cert, key, ocsp };
                    if are_used {
                        covered.extend(self.look_into(at, &files));
                    }
                    certificates.push(files);
                }
                (cert, _) => {
                    let missing = if cert.is_none() { "cert" } else { "key" };
                    let source = self.values.sections.get(&format!("tls.certificates[{at}]")).cloned();
                    let text = "missing; a certificate requires cert = \"chain.pem\" and key = \"key.pem\"";
                    let source = source.unwrap_or(Source::Default);
                    self.problem(source, &format!("tls.certificates.{missing}"), text);
                }
            }
        }
        certificates
    }

    /// Reads the files of a certificate as the server does; returns its names.
    fn look_into(&mut self, at: usize, files: &CertificateFiles) -> Vec<String> {
        let now = i64::try_from(clock::wall().0).unwrap_or(i64::MAX);
        let CertificateError(part, why) = match Certificate::read(files, now) {
            Ok((certificate, odd)) => {
                let source = self.source(&format!("tls.certificates[{at}].cert"));
                for why in odd {
                    let text = why.trim_end_matches('.').to_owned();
                    self.warnings.push(Problem {
                        source: source.clone(),
                        key: "tls.certificates".to_owned(),
                        text,
                    });
                }
                return certificate.names;
            }
            Err(error) => error,
        };
        let name = match part {
            CertificatePart::Cert => "cert",
            CertificatePart::Key => "key",
            CertificatePart::Ocsp => "ocsp",
        };
        let source = self.source(&format!("tls.certificates[{at}].{name}"));
        self.problem(source, &format!("tls.certificates.{name}"), why.trim_end_matches('.'));
        Vec::new()
    }

    /// The policy for client certificates; their CAs are checked if they are used.
    fn client_auth(&mut self, is_used: bool) -> ClientAuth {
        let client = match (self.text("tls.client_auth").as_str(), self.path("tls.client_ca")) {
            ("optional", Some(ca)) => ClientAuth::Optional(ca),
            ("required", Some(ca)) => ClientAuth::Required(ca),
            ("optional" | "required", None) => {
                let text = "client certificates are requested; set the CA that signs them with client_ca";
                self.problem(self.source("tls.client_auth"), "tls.client_auth", text);
                ClientAuth::Off
            }
            (_, ca) => {
                if ca.is_some() {
                    let text = "has no effect while tls.client_auth is \"off\"";
                    self.warn("tls.client_ca", text);
                }
                ClientAuth::Off
            }
        };
        if is_used && let Err(why) = client.check() {
            self.problem(self.source("tls.client_ca"), "tls.client_ca", why.trim_end_matches('.'));
        }
        client
    }

    /// Whether a route's origins get the certificates of clients; with a warning if clients are not asked for one.
    pub(super) fn sends_certificate(&mut self, at: &RoutePath) -> bool {
        let given = at.key("client_cert");
        let tells = self.flag(&given);
        let of_site = self.text(&at.of_site("tls.client_auth"));
        let auth = if of_site.is_empty() { self.text("tls.client_auth") } else { of_site };
        if tells && auth == "off" && self.texts("clients.trusted").is_empty() {
            let (key, text) = ("site.route.client_cert", "has no effect while tls.client_auth is \"off\"");
            let source = self.source(&given);
            self.warnings.push(Problem { source, key: key.to_owned(), text: text.to_owned() });
        }
        tells
    }

    pub(super) fn warn(&mut self, key: &str, text: &str) {
        let source = self.source(key);
        self.warnings.push(Problem { source, key: key.to_owned(), text: text.to_owned() });
    }

    /// Warns once of a value that several routes inherit.
    pub(super) fn warn_of(&mut self, source: Source, key: &str, text: &str) {
        let warning = Problem { source, key: key.to_owned(), text: text.to_owned() };
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    fn warn_certificates(&mut self, text: &str) {
        let source = self.values.sections.get("tls.certificates[0]").cloned().unwrap_or(Source::Default);
        self.warnings.push(Problem { source, key: "tls.certificates".to_owned(), text: text.to_owned() });
    }
}

fn least(version: &str) -> MinTlsVersion {
    if version == "1.3" { MinTlsVersion::Tls13 } else { MinTlsVersion::Tls12 }
}
