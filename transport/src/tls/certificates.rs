//! Certificates with their keys: read from PEM files, checked, and selected by the name that a client requests.

use super::ocsp;
use super::unknown_names::UnknownNames;
use larder_semantics::certificate_renewal::Validity;
use larder_semantics::date;
use larder_stdx::clock::WallTime;
use larder_stdx::error::plain;
use rustls::SupportedCipherSuite;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use x509_parser::objects::{oid_registry, oid2abbrev};
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, GeneralName, X509Certificate};

/// The most bytes of a file.
const LONGEST: u64 = 1 << 20;

/// The files of one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate with its chain, PEM.
    pub cert: PathBuf,
    /// Its key, PEM: PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
    /// The OCSP response of its CA, DER.
    pub ocsp: Option<PathBuf>,
}

/// One of the files of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificatePart {
    /// The certificate.
    Cert,
    /// Its key.
    Key,
    /// Its OCSP response.
    Ocsp,
}

/// An error in a certificate: the file, and one sentence that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateError(pub CertificatePart, pub String);

impl From<CertificateError> for String {
    fn from(it: CertificateError) -> Self {
        it.1
    }
}

/// A certificate with its key.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// Its names, lower case; with `*.` for a wildcard of one label.
    pub names: Vec<String>,
    /// The start of its validity, seconds since the Unix epoch.
    pub from: i64,
    /// The end of its validity, seconds since the Unix epoch.
    pub until: i64,
    /// Its file.
    pub file: String,
    /// The names of its issuer: organization and common name.
    pub issuer: String,
    /// The handshakes in which it is sent.
    scope: CertificateScope,
    key: Arc<CertifiedKey>,
}

/// The handshakes in which a certificate is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CertificateScope {
    /// For its names; the first one also for every name without a certificate.
    Any,
    /// For its names; the first one also if the client names none.
    ItsNames,
}

/// The rest of its lifetime below which a certificate is warned of when it is read, seconds.
const EXPIRES_SOON: i64 = 14 * 86_400;

impl Certificate {
    /// Reads one, and returns warnings about it, each in one sentence; `now` in seconds since the Unix epoch.
    ///
    /// # Errors
    /// The file, and the error in it.
    pub fn read(files: &CertificateFiles, now: i64) -> Result<(Self, Vec<String>), CertificateError> {
        let read = |part, path: &Path| read_file(path).map_err(|it| CertificateError(part, it));
        let (chain, key) =
            (read(CertificatePart::Cert, &files.cert)?, read(CertificatePart::Key, &files.key)?);
        let ocsp = files.ocsp.as_deref().map(|it| read(CertificatePart::Ocsp, it)).transpose()?;
        if let (Some(path), Some(ocsp)) = (&files.ocsp, &ocsp) {
            ocsp::check(ocsp)
                .map_err(|it| CertificateError(CertificatePart::Ocsp, format!("{} {it}", path.display())))?;
        }
        let file = files.cert.display().to_string();
        let it = Self::of_pem(&chain, &key, ocsp, &file, &files.key.display().to_string())?;
        let mut odd = Vec::new();
        let day = |at: i64| date::format(WallTime(u64::try_from(at).unwrap_or(0)))[5..16].to_owned();
        if it.until < now {
            odd.push(format!("{file} expired on {}; clients reject it.", day(it.until)));
        } else if it.until - now < EXPIRES_SOON {
            odd.push(format!("{file} expires on {}; renew it.", day(it.until)));
        }
        if it.from > now {
            let from = day(it.from);
            odd.push(format!(
                "{file} is not valid before {from}, by the clock of this machine; clients reject it until then."
            ));
        }
        let mode = std::fs::metadata(&files.key).map_or(0, |it| it.permissions().mode());
        if mode & 0o004 != 0 {
            let key = files.key.display();
            odd.push(format!(
                "{key} is a private key that every user of this machine can read; run chmod 600."
            ));
        }
        Ok((it, odd))
    }

    /// Parses one from the text of its files, which messages call `file` and `key_file`.
    ///
    /// # Errors
    /// The file, and the error in it.
    pub fn of_pem(
        chain: &[u8],
        key: &[u8],
        ocsp: Option<Vec<u8>>,
        file: &str,
        key_file: &str,
    ) -> Result<Self, CertificateError> {
        let of_cert = |it: String| CertificateError(CertificatePart::Cert, it);
        let of_key = |it: String| CertificateError(CertificatePart::Key, it);
        let certs: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let certs = certs.map_err(|it| of_cert(format!("{file} is damaged PEM: {it}.")))?;
        let Some(first) = certs.first() else {
            return Err(of_cert(PemContent::Certificate.lacks(chain, file)));
        };
        let CertificateFacts { names, issuer, validity: Validity { from, until } } =
            facts(first, file).map_err(of_cert)?;
        let key = private_key(key, key_file).map_err(of_key)?;
        let key = ring::sign::any_supported_type(&key).map_err(|_| {
            of_key(format!("{key_file} has an unsupported key type; use RSA, P-256, P-384 or Ed25519."))
        })?;
        let mut key = CertifiedKey::new(certs, key);
        key.keys_match().map_err(|_| {
            of_key(format!("{key_file} does not match {file}: it is the key of another certificate."))
        })?;
        key.ocsp = ocsp;
        let scope = CertificateScope::Any;
        Ok(Self { names, from, until, file: file.to_owned(), issuer, scope, key: Arc::new(key) })
    }
}

impl Certificate {
    /// The same, not sent for names that it does not have.
    #[must_use]
    pub fn for_its_names(self) -> Self {
        Self { scope: CertificateScope::ItsNames, ..self }
    }

    /// Its validity.
    #[must_use]
    pub fn validity(&self) -> Validity {
        Validity { from: self.from, until: self.until }
    }

    /// It without its chain, DER.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        self.key.cert.first().map_or(&[], |it| it.as_ref())
    }

    /// Its SHA-256, as shown by browsers.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let SupportedCipherSuite::Tls13(suite) = ring::cipher_suite::TLS13_AES_128_GCM_SHA256 else {
            return String::new();
        };
        let bytes = self.key.cert.first().map(|it| suite.common.hash_provider.hash(it));
        let bytes = bytes.as_ref().map_or(&[][..], |it| it.as_ref());
        bytes.iter().map(|it| format!("{it:02X}")).collect::<Vec<_>>().join(":")
    }
}

/// A file of certificates or keys.
///
/// # Errors
/// One sentence.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let about = std::fs::metadata(path).map_err(|it| unreadable(path, &it))?;
    // Opening a pipe would wait for its writer.
    if !about.is_file() {
        let what = if about.is_dir() { "is a directory" } else { "is not a regular file" };
        return Err(format!("{} {what}; expected a PEM file, or a DER file for OCSP.", path.display()));
    }
    if about.len() > LONGEST {
        return Err(format!("{} is larger than 1 MiB, which is not a certificate or key.", path.display()));
    }
    std::fs::read(path).map_err(|it| unreadable(path, &it))
}

fn unreadable(path: &Path, error: &std::io::Error) -> String {
    let why = plain(error);
    match error.kind() {
        ErrorKind::PermissionDenied => {
            format!("{}: {why}; the user of the larder process must be able to read it.", path.display())
        }
        _ => format!("{}: {why}.", path.display()),
    }
}

/// The expected content of a file.
#[derive(Clone, Copy)]
enum PemContent {
    Certificate,
    Key,
}

impl PemContent {
    /// The actual content of a file, in one sentence.
    fn lacks(self, text: &[u8], file: &str) -> String {
        let (what, other, mark, openssl) = match self {
            PemContent::Certificate => ("certificate", "private key", "CERTIFICATE", "x509"),
            PemContent::Key => ("private key", "certificate", "PRIVATE KEY", "pkey"),
        };
        let others = match self {
            PemContent::Certificate => &b"PRIVATE KEY-----"[..],
            PemContent::Key => b"-----BEGIN CERTIFICATE-----",
        };
        if text.trim_ascii().is_empty() {
            format!("{file} is empty; expected a {what} in PEM.")
        } else if text.windows(others.len()).any(|it| it == others) {
            format!(
                "{file} contains no {what} but a {other}: `cert` is the certificate, `key` its private key."
            )
        } else if text[0] == 0x30 {
            format!(
                "{file} is DER, expected PEM: convert it with `openssl {openssl} -inform der -in {file}`."
            )
        } else {
            format!("{file} contains no {what}: in PEM, it follows a line -----BEGIN {mark}-----.")
        }
    }
}

fn private_key(text: &[u8], file: &str) -> Result<PrivateKeyDer<'static>, String> {
    let has = |mark: &[u8]| text.windows(mark.len()).any(|it| it == mark);
    if has(b"ENCRYPTED") {
        return Err(format!(
            "{file} is encrypted, and larder cannot prompt for its passphrase; decrypt it with `openssl pkey -in \
             {file}`."
        ));
    }
    PrivateKeyDer::from_pem_slice(text).map_err(|it| match it {
        pem::Error::NoItemsFound => PemContent::Key.lacks(text, file),
        damaged => format!("{file} is damaged PEM: {damaged}."),
    })
}

/// The subject of a certificate, its attributes in their order, escaped as in RFC 4514 §2.4; `None` if it cannot be
/// parsed.
pub(crate) fn subject(it: &CertificateDer<'_>) -> Option<Box<str>> {
    let (_, it) = X509Certificate::from_der(it).ok()?;
    let mut text = String::new();
    for attribute in it.subject().iter_attributes() {
        let name = oid2abbrev(attribute.attr_type(), oid_registry());
        let name = name.map_or_else(|_| attribute.attr_type().to_string(), str::to_owned);
        text.push_str(if text.is_empty() { "" } else { ", " });
        text.push_str(&name);
        text.push('=');
        for letter in attribute.as_str().unwrap_or("?").chars() {
            text.extend(matches!(letter, ',' | '+' | '=' | '"' | '\\' | '<' | '>' | ';').then_some('\\'));
            text.push(letter);
        }
    }
    Some(text.into())
}

/// The part of a certificate that larder uses.
struct CertificateFacts {
    names: Vec<String>,
    issuer: String,
    validity: Validity,
}

fn facts(it: &CertificateDer<'_>, file: &str) -> Result<CertificateFacts, String> {
    let wrong = || format!("{file}: the first certificate is damaged between BEGIN and END.");
    let (_, it) = X509Certificate::from_der(it).map_err(|_| wrong())?;
    let mut names = Vec::new();
    if let Ok(Some(alternative)) = it.subject_alternative_name() {
        for name in &alternative.value.general_names {
            match name {
                GeneralName::DNSName(name) => names.push(name.to_ascii_lowercase()),
                GeneralName::IPAddress(bytes) => names.extend(address(bytes)),
                _ => {}
            }
        }
    }
    let (from, until) = (it.validity().not_before.timestamp(), it.validity().not_after.timestamp());
    let name = it.issuer();
    let of = |all: &mut dyn Iterator<Item = &AttributeTypeAndValue<'_>>| {
        all.next().and_then(|it| it.as_str().ok()).map(str::to_owned)
    };
    let (organization, common) = (of(&mut name.iter_organization()), of(&mut name.iter_common_name()));
    let issuer = [organization, common].into_iter().flatten().collect::<Vec<_>>().join(", ");
    Ok(CertificateFacts { names, issuer, validity: Validity { from, until } })
}

fn address(bytes: &[u8]) -> Option<String> {
    let four = <[u8; 4]>::try_from(bytes).ok().map(|it| std::net::IpAddr::from(it).to_string());
    four.or_else(|| <[u8; 16]>::try_from(bytes).ok().map(|it| std::net::IpAddr::from(it).to_string()))
}

thread_local! {
    /// The name in the ClientHello of the handshake that this thread is processing. A handshake's step is one call that
    /// does not wait, so that no other one comes between.
    static ASKED: RefCell<Option<HelloNames>> = const { RefCell::new(None) };
}

/// The request of a ClientHello.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HelloNames {
    /// Empty without a name.
    pub name: Box<str>,
    /// Whether a certificate has that name.
    pub known: bool,
}

/// The request of the last ClientHello on this thread, once.
pub(crate) fn hello_names() -> Option<HelloNames> {
    ASKED.take()
}

/// The certificates by name.
#[derive(Debug)]
pub(crate) struct CertificateResolver {
    exact: HashMap<String, Vec<Arc<CertifiedKey>>>,
    /// By the part after the star, with its dot.
    below: HashMap<String, Vec<Arc<CertifiedKey>>>,
    /// For names without a certificate.
    first: Option<Arc<CertifiedKey>>,
    /// For clients that name none.
    nameless: Option<Arc<CertifiedKey>>,
    unknown_names: Arc<UnknownNames>,
}

impl CertificateResolver {
    pub fn of(certificates: &[Certificate], unknown_names: Arc<UnknownNames>) -> Self {
        let first = certificates.iter().find(|it| it.scope == CertificateScope::Any).map(|it| it.key.clone());
        let nameless = first.clone().or(certificates.first().map(|it| it.key.clone()));
        let (exact, below) = Default::default();
        let mut it = CertificateResolver { exact, below, first, nameless, unknown_names };
        for certificate in certificates {
            for name in &certificate.names {
                let list = match name.strip_prefix('*') {
                    Some(rest) => it.below.entry(rest.to_owned()).or_default(),
                    None => it.exact.entry(name.clone()).or_default(),
                };
                list.push(certificate.key.clone());
            }
        }
        it
    }

    /// Certificates with the name itself before wildcards; `None` if no certificate has it.
    fn named(&self, name: &str) -> Option<&[Arc<CertifiedKey>]> {
        let below = || name.find('.').and_then(|dot| self.below.get(&name[dot..]));
        self.exact.get(name).or_else(below).map(Vec::as_slice)
    }
}

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().unwrap_or_default().to_ascii_lowercase();
        let found = self.named(&name);
        let name_is_missing = name.is_empty();
        if found.is_none() && !name_is_missing {
            self.unknown_names.note(&name);
        }
        ASKED.set(Some(HelloNames { known: found.is_some() || name_is_missing, name: name.into() }));
        // Of several for one name, the first with a signature that the client supports: for RSA and ECDSA.
        let suits = |it: &&Arc<CertifiedKey>| it.key.choose_scheme(hello.signature_schemes()).is_some();
        let found = found.and_then(|all| all.iter().find(suits).or(all.first()));
        let fallback = if name_is_missing { &self.nameless } else { &self.first };
        found.or(fallback.as_ref()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wrong_file_has_its_sentence() {
        let of_cert = |chain: &[u8]| Certificate::of_pem(chain, b"", None, "a.pem", "a.key").unwrap_err();
        let of_key = |key: &[u8]| private_key(key, "a.key").unwrap_err();
        let key = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        let certificate = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (found, expect) in [
            (of_cert(b" \n").1, "a.pem is empty; expected a certificate"),
            (of_cert(key).1, "a.pem contains no certificate but a private key: `cert` is"),
            (of_cert(&[0x30, 0x82]).1, "`openssl x509 -inform der -in a.pem`"),
            (of_cert(b"what").1, "contains no certificate: in PEM, it follows a line"),
            (of_cert(&certificate[..40]).1, "a.pem is damaged PEM: "),
            (of_cert(certificate).1, "a.pem: the first certificate is damaged between BEGIN and END"),
            (of_key(b""), "a.key is empty; expected a private key"),
            (of_key(certificate), "a.key contains no private key but a certificate"),
            (of_key(&[0x30, 0x82]), "`openssl pkey -inform der -in a.key`"),
            (of_key(b"what"), "in PEM, it follows a line -----BEGIN PRIVATE KEY-----"),
            (of_key(&key[..40]), "a.key is damaged PEM: "),
            (of_key(b"-----BEGIN ENCRYPTED PRIVATE KEY-----"), "decrypt it with `openssl pkey -in a.key`"),
            (
                unreadable(Path::new("a.key"), &ErrorKind::PermissionDenied.into()),
                "the user of the larder process must be able to read it",
            ),
            (read_file(Path::new("/")).unwrap_err(), "/ is a directory; expected a PEM file"),
        ] {
            assert!(found.contains(expect), "{found} for {expect}");
            assert!(found.ends_with('.') && found.matches(". ").count() == 0, "{found}");
        }
    }
}
