//! TLS towards an origin: its identity, the handshake, and a stream through it. Other modules decide when a connection is
//! opened, and how long that may take.
//!
//! rustls implements the protocol without sockets; this module moves its bytes. A connection that ends without the other
//! side's `close_notify` is an error here. So a third party cannot truncate a body that lasts until the connection closes.

use crate::socket::RawSocket;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The usual files of the system's trusted certificates; the first existing one is used.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt", // Debian, Arch, Alpine
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem", // openSUSE
    "/etc/ssl/cert.pem",
];

/// HTTP/2 in a handshake (RFC 9113 §3.2).
const HTTP2: &[u8] = b"h2";

/// The identity of an origin, and of larder towards it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TlsSettings {
    /// A PEM file with the trusted certificates; without it, the system's are trusted.
    pub ca: Option<PathBuf>,
    /// Any certificate is accepted.
    pub unverified: bool,
    /// PEM files with larder's own certificate and its key.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// TLS for connections to origins: read once, used by all workers, which share resumable sessions.
#[derive(Clone, Debug)]
pub struct OriginTls {
    http1: Arc<ClientConfig>,
    /// The same, with HTTP/2 offered first.
    both: Arc<ClientConfig>,
}

/// The protocols that are offered to an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AlpnOffer {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, otherwise HTTP/1.1.
    Both,
}

impl OriginTls {
    /// Reads the files.
    ///
    /// # Errors
    /// One sentence that names the faulty file.
    pub fn new(settings: &TlsSettings) -> Result<Self, String> {
        let mut config = client_config(settings)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut http2_first = config.clone();
        http2_first.alpn_protocols.insert(0, HTTP2.to_vec());
        Ok(Self { http1: Arc::new(config), both: Arc::new(http2_first) })
    }

    /// Whether an origin's certificate can be for this host.
    #[must_use]
    pub fn is_name(host: &str) -> bool {
        ServerName::try_from(host).is_ok()
    }

    /// The handshake with `host` over a connected socket.
    ///
    /// # Errors
    /// In words: the other side has the wrong identity, or does not speak TLS.
    pub(crate) async fn shake_hands(
        &self,
        host: &str,
        offers: AlpnOffer,
        socket: RawSocket,
    ) -> Result<TlsStream, String> {
        let name = ServerName::try_from(host.to_owned()).map_err(|it| it.to_string())?;
        let config = match offers {
            AlpnOffer::Http1 => &self.http1,
            AlpnOffer::Both => &self.both,
        };
        let session = ClientConnection::new(config.clone(), name).map_err(|it| it.to_string())?;
        let mut stream = TlsStream { socket, session };
        match poll_fn(|cx| stream.poll_handshake(cx)).await {
            Ok(()) => Ok(stream),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err("the connection was closed during the TLS handshake".to_owned())
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The settings of rustls for a server with this identity: for servers of other protocols, too. Reads the files.
///
/// # Errors
/// One sentence that names the faulty file.
pub fn client_config(settings: &TlsSettings) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|it| it.to_string())?;
    let builder = match settings.unverified {
        true => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
        }
        false => builder.with_root_certificates(roots(settings.ca.as_deref())?),
    };
    match &settings.own {
        None => Ok(builder.with_no_client_auth()),
        Some((certificate, key)) => {
            let chain = certificates(certificate)?;
            check_regular_file(key)?;
            let client_certificate = PrivateKeyDer::from_pem_file(key)
                .map_err(|it| unread(key, "not a private key in PEM: ", &it))?;
            let wrong = |it| format!("{}: does not match its key: {it}", certificate.display());
            builder.with_client_auth_cert(chain, client_certificate).map_err(wrong)
        }
    }
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(file) => {
            for it in certificates(file)? {
                roots.add(it).map_err(|it| format!("{}: {it}", file.display()))?;
            }
        }
        None => {
            let file = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
            let file = file.or_else(|| BUNDLES.iter().map(PathBuf::from).find(|it| it.exists()));
            let missing = "the system has no trust store; set tls.ca";
            // Some system certificates are too unusual for rustls: those are left out.
            roots.add_parsable_certificates(certificates(&file.ok_or(missing)?)?);
        }
    }
    Ok(roots)
}

/// Opening a pipe waits for a writer.
fn check_regular_file(file: &Path) -> Result<(), String> {
    match std::fs::metadata(file) {
        Ok(about) if !about.is_file() => Err(format!("{}: not a regular file", file.display())),
        _ => Ok(()), // A missing file is reported by its reader.
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    check_regular_file(file)?;
    let all = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match all {
        Ok(all) if all.is_empty() => Err(format!("{}: not a certificate in PEM", file.display())),
        Ok(all) => Ok(all),
        Err(error) => Err(unread(file, "", &error)),
    }
}

/// The message about a file that cannot be read, or whose content is `wrong`.
fn unread(file: &Path, wrong: &str, error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => format!("{}: {}", file.display(), larder_stdx::error::plain(error)),
        error => format!("{}: {wrong}{error}", file.display()),
    }
}

/// Accepts any certificate; that its holder has signed the handshake is checked nevertheless.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A stream through TLS.
pub(crate) struct TlsStream {
    socket: RawSocket,
    session: ClientConnection,
}

/// The kind of bytes that arrived without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnsolicitedData {
    /// TLS's own: tickets for later sessions, new keys.
    Nothing,
    /// Data.
    Bytes,
    /// The end.
    End,
}

impl TlsStream {
    /// Whether the other side chose HTTP/2.
    pub(crate) fn speaks_http2(&self) -> bool {
        self.session.alpn_protocol() == Some(HTTP2)
    }

    /// Processes the received bytes, by `read`, which asks the kernel and does not wait: there should be no plain text.
    pub(crate) fn check_idle(
        &mut self,
        mut read: impl FnMut(&RawSocket, &mut [u8]) -> io::Result<usize>,
    ) -> UnsolicitedData {
        loop {
            // First the bytes received already, after the end of the last response.
            match self.session.process_new_packets() {
                Ok(state) if state.plaintext_bytes_to_read() > 0 => return UnsolicitedData::Bytes,
                Ok(state) if state.peer_has_closed() => return UnsolicitedData::End,
                Ok(_) => {}
                Err(_) => return UnsolicitedData::End,
            }
            let mut from = TlsReader(|bytes: &mut [u8]| read(&self.socket, bytes));
            match self.session.read_tls(&mut from) {
                Ok(0) => return UnsolicitedData::End,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return UnsolicitedData::Nothing,
                Err(_) => return UnsolicitedData::End,
            }
        }
    }

    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.session.is_handshaking() {
            ready!(self.poll_send(cx))?;
            if self.session.is_handshaking() && ready!(self.poll_receive(cx))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        self.poll_send(cx)
    }

    /// Writes rustls's output to the socket.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.session.wants_write() {
            let socket = &mut self.socket;
            let mut to = TlsWriter(|bytes: &[u8]| pending_io(Pin::new(&mut *socket).poll_write(cx, bytes)));
            match self.session.write_tls(&mut to) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads the socket's bytes into rustls; 0 is the end.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let socket = &mut self.socket;
        let mut from = TlsReader(|bytes: &mut [u8]| {
            let mut buffer = ReadBuf::new(bytes);
            let read = Pin::new(&mut *socket).poll_read(cx, &mut buffer);
            pending_io(read.map_ok(|()| buffer.filled().len()))
        });
        let length = match self.session.read_tls(&mut from) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            Err(error) => return Poll::Ready(Err(error)),
        };
        if let Err(error) = self.session.process_new_packets() {
            let _ = self.poll_send(cx); // The alert that says why, if there is room for it.
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        Poll::Ready(Ok(length))
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            // Written data may be waiting for room, and only this sends it.
            if let Poll::Ready(Err(error)) = this.poll_send(cx) {
                return Poll::Ready(Err(error));
            }
            match this.session.reader().read(buffer.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => {
                    buffer.advance(read?);
                    return Poll::Ready(Ok(()));
                }
            }
            ready!(this.poll_receive(cx))?;
        }
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        loop {
            // rustls buffers 64 KiB at most before they are sent.
            let sent = this.poll_send(cx)?;
            match this.session.writer().write_vectored(slices)? {
                0 if sent.is_pending() => return Poll::Pending,
                0 => {}
                taken => {
                    let _ = this.poll_send(cx)?;
                    return Poll::Ready(Ok(taken));
                }
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_send(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.session.send_close_notify();
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.socket).poll_shutdown(cx)
    }
}

fn pending_io<T>(polled: Poll<io::Result<T>>) -> io::Result<T> {
    match polled {
        Poll::Ready(done) => done,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

struct TlsReader<F>(F);

impl<F: FnMut(&mut [u8]) -> io::Result<usize>> Read for TlsReader<F> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (self.0)(into)
    }
}

struct TlsWriter<F>(F);

impl<F: FnMut(&[u8]) -> io::Result<usize>> Write for TlsWriter<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (self.0)(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
