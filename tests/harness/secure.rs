//! TLS for scenarios: certificates of an authority of our own, and a client that sees every byte and how the connection ends.

use super::{Response, TIMEOUT, until};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, PKCS_ECDSA_P256_SHA256,
    PublicKeyData, SignatureAlgorithm,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// An authority, and the files of the certificates that it signed.
pub struct Authority {
    issuer: Arc<CertifiedIssuer<'static, KeyPair>>,
    /// Where the files are: `ca.pem`, and `NAME.pem` with `NAME.key` of each certificate.
    pub folder: tempfile::TempDir,
}

impl Authority {
    /// A new one.
    pub fn new() -> Self {
        Self::named("an authority of the scenarios")
    }

    /// The same by another name.
    pub fn named(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer: Arc::new(issuer), folder }
    }

    /// Signs a certificate for these names, in files of this name; says what `tls.certificates` has for it.
    pub fn sign(&self, file: &str, names: &[&str]) -> String {
        self.sign_with(file, names, |_| {})
    }

    /// The same with something of one's own in it.
    pub fn sign_with(
        &self,
        file: &str,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> String {
        let names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, file);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &**self.issuer).unwrap();
        std::fs::write(self.path(&format!("{file}.pem")), certificate.pem()).unwrap();
        write_key(&self.path(&format!("{file}.key")), &key.serialize_pem());
        self.names(file)
    }

    /// Signs requests for certificates: by name, PKCS#10 with a P-256 key, and the seconds of validity.
    pub fn signer(&self) -> super::acme_ca::CaSigner {
        let issuer = self.issuer.clone();
        Box::new(move |name, request, seconds| {
            let at = request.windows(4).position(|it| it == [0x03, 0x42, 0x00, 0x04]).unwrap() + 3;
            let key = RequestedKey(request[at..at + 65].to_vec());
            let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            let epoch = rcgen::date_time_ymd(1970, 1, 1);
            let from = super::acme_ca::issued_at();
            params.not_before = epoch + Duration::from_secs(u64::try_from(from).unwrap());
            params.not_after = epoch + Duration::from_secs(u64::try_from(from + seconds).unwrap());
            params.signed_by(&key, &**issuer).unwrap().pem()
        })
    }

    /// The entry of `tls.certificates` for these files.
    pub fn names(&self, file: &str) -> String {
        let at = |ending: &str| self.path(&format!("{file}.{ending}"));
        format!("{{ cert = {:?}, key = {:?} }}", at("pem"), at("key"))
    }

    /// A file of its folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The settings of a client that trusts it.
    pub fn trusting(&self) -> Trusting {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        Trusting { roots: Arc::new(roots), own: None, only: None, config: OnceLock::new() }
    }
}

/// The public key of a request.
struct RequestedKey(Vec<u8>);

impl PublicKeyData for RequestedKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

fn write_key(path: &Path, text: &str) {
    use std::os::unix::fs::OpenOptionsExt as _;
    let _ = std::fs::remove_file(path);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// How a client greets.
#[derive(Clone)]
pub struct Trusting {
    roots: Arc<RootCertStore>,
    own: Option<(PathBuf, PathBuf)>,
    only: Option<&'static rustls::SupportedProtocolVersion>,
    config: OnceLock<Arc<ClientConfig>>,
}

impl Trusting {
    /// It trusts this certificate alone, as PEM.
    pub fn only_certificate(pem: &[u8]) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(pem).unwrap()).unwrap();
        Self { roots: Arc::new(roots), own: None, only: None, config: OnceLock::new() }
    }

    /// It shows this certificate of the authority.
    pub fn showing(mut self, authority: &Authority, file: &str) -> Self {
        self.config = OnceLock::new();
        self.own = Some((authority.path(&format!("{file}.pem")), authority.path(&format!("{file}.key"))));
        self
    }

    /// It speaks this version alone.
    pub fn only(mut self, version: &'static rustls::SupportedProtocolVersion) -> Self {
        (self.only, self.config) = (Some(version), OnceLock::new());
        self
    }

    /// The configuration of a rustls client.
    pub fn config(&self) -> ClientConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = match self.only {
            Some(one) => builder.with_protocol_versions(&[one]).unwrap(),
            None => builder.with_safe_default_protocol_versions().unwrap(),
        };
        let builder = builder.with_root_certificates(self.roots.clone());
        match &self.own {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let chain = CertificateDer::pem_file_iter(cert).unwrap().map(Result::unwrap).collect();
                builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap()).unwrap()
            }
        }
    }

    /// Connects and greets, for `name`.
    ///
    /// # Errors
    /// The error of rustls.
    pub fn connect(&self, address: SocketAddr, name: &str) -> std::io::Result<Secure> {
        self.greet(TcpStream::connect(address)?, name)
    }

    /// The same over a connection on which something was sent already.
    ///
    /// # Errors
    /// The error of rustls.
    pub fn greet(&self, mut stream: TcpStream, name: &str) -> std::io::Result<Secure> {
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        // A session is taken up by the very configuration that it was begun with.
        let config = self.config.get_or_init(|| Arc::new(self.config())).clone();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut tls = ClientConnection::new(config, name).unwrap();
        while tls.is_handshaking() {
            tls.complete_io(&mut stream)?;
        }
        Ok(Secure { stream: StreamOwned::new(tls, stream) })
    }
}

/// A connection by TLS.
pub struct Secure {
    /// The connection itself.
    pub stream: StreamOwned<ClientConnection, TcpStream>,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With `close_notify`: the other side says that this is all.
    Said,
    /// Without.
    Cut,
}

impl Secure {
    /// Sends bytes.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.stream.write_all(bytes.as_ref()).unwrap();
        self.stream.flush().unwrap();
        self
    }

    /// Reads to the end, and tells which it was.
    pub fn rest(&mut self) -> (Vec<u8>, End) {
        let mut bytes = Vec::new();
        let end = match self.stream.read_to_end(&mut bytes) {
            Ok(_) => End::Said,
            Err(error) => {
                let cut = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset];
                assert!(cut.contains(&error.kind()), "{error}");
                End::Cut
            }
        };
        (bytes, end)
    }

    /// GETs `target` from `h`, and reads a response whose length is announced.
    pub fn get(&mut self, target: &str) -> Response {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")).read()
    }

    /// Reads one response whose length is announced.
    pub fn read(&mut self) -> Response {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut one = [0; 1];
            self.stream.read_exact(&mut one).unwrap();
            head.push(one[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let fields: Vec<(String, String)> = head
            .lines()
            .skip(1)
            .filter_map(|it| it.split_once(": "))
            .map(|it| (it.0.to_owned(), it.1.to_owned()))
            .collect();
        let length = fields.iter().find(|it| it.0.eq_ignore_ascii_case("content-length"));
        let mut body = vec![0; length.map_or(0, |it| it.1.parse().unwrap())];
        self.stream.read_exact(&mut body).unwrap();
        Response { status, fields, body, trailers: Vec::new(), interim: Vec::new(), complete: true }
    }

    /// The certificate that was shown.
    pub fn shown(&self) -> Vec<u8> {
        self.stream.conn.peer_certificates().unwrap()[0].to_vec()
    }

    /// Whether an earlier session was taken up.
    pub fn is_resumed(&self) -> bool {
        self.stream.conn.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    }
}

/// The DER of a certificate's file.
pub fn der(path: &Path) -> Vec<u8> {
    CertificateDer::from_pem_file(path).unwrap().to_vec()
}

/// Waits until a counter of a larder has a value.
#[track_caller]
pub fn counts(larder: &super::Larder, name: &str, expect: u64) {
    until(&format!("{name} is {expect}"), || larder.counter(name) == expect);
}
