//! The section `[tls]`: relations between its values and the addresses, and the validity of its files, which are read
//! again when they are used.

use super::{ConfigCheck, RoutePath, Source};
use crate::problem::Problem;
use crate::tls::TlsConfig;
use larder_stdx::clock;
use larder_transport::listener::{Entrance, Listen};
use larder_transport::tls::certificates::{Certificate, CertificateError, CertificateFiles, CertificatePart};
use larder_transport::tls::{ClientAuth, Least};

impl ConfigCheck {
    /// TLS, if an address requires it.
    pub(super) fn tls(&mut self, listen: &[Entrance]) -> Option<TlsConfig> {
        let is_wanted = listen.iter().any(|it| matches!(it.at, Listen::Tls(_)));
        let self_signed = self.flag("tls.self_signed");
        let certificates = self.certificates(is_wanted);
        let client = self.client_auth(is_wanted);
        if !is_wanted {
            if !certificates.is_empty() {
                self.warn_certificates(
                    "no address of listen uses TLS; add for example listen = \
                                        [\"https://0.0.0.0:8443\"]",
                );
            }
            if self_signed {
                self.warn(
                    "tls.self_signed",
                    "no address of listen uses TLS; add for example --listen \
                                              https://127.0.0.1:8443",
                );
            }
            return None;
        }
        if certificates.is_empty() && !self_signed && self.is_sound() {
            let text =
                "an https address requires a certificate; add [[tls.certificates]], or try --tls-self-signed";
            self.problem(self.source("listen"), "listen", text);
        }
        let least = match self.text("tls.min_version").as_str() {
            "1.3" => Least::Tls13,
            _ => Least::Tls12,
        };
        Some(TlsConfig { certificates, least, client, self_signed })
    }

    /// The certificates; their files are checked if they are used.
    fn certificates(&mut self, are_used: bool) -> Vec<CertificateFiles> {
        let mut certificates = Vec::new();
        for at in 0..self.values.count("tls.certificates") {
            let key = |name: &str| format!("tls.certificates[{at}].{name}");
            let (cert, key_file, ocsp) =
                (self.path(&key("cert")), self.path(&key("key")), self.path(&key("ocsp")));
            match (cert, key_file) {
                (Some(cert), Some(key)) => {
                    let files = CertificateFiles { cert, key, ocsp };
                    if are_used {
                        self.look_into(at, &files);
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

    /// Reads the files of a certificate as the server does.
    fn look_into(&mut self, at: usize, files: &CertificateFiles) {
        let now = i64::try_from(clock::wall().0).unwrap_or(i64::MAX);
        let Err(CertificateError(part, why)) = Certificate::read(files, now) else { return };
        let name = match part {
            CertificatePart::Cert => "cert",
            CertificatePart::Key => "key",
            CertificatePart::Ocsp => "ocsp",
        };
        let source = self.source(&format!("tls.certificates[{at}].{name}"));
        self.problem(source, &format!("tls.certificates.{name}"), why.trim_end_matches('.'));
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
    pub(super) fn tells_certificate(&mut self, at: &RoutePath) -> bool {
        let given = at.key("client_cert");
        let tells = self.flag(&given);
        if tells && self.text("tls.client_auth") == "off" && self.texts("clients.trusted").is_empty() {
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

    fn warn_certificates(&mut self, text: &str) {
        let source = self.values.sections.get("tls.certificates[0]").cloned().unwrap_or(Source::Default);
        self.warnings.push(Problem { source, key: "tls.certificates".to_owned(), text: text.to_owned() });
    }
}
