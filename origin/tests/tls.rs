//! Origins with TLS: their identity, the offered protocols, reused connections, and truncated bodies.

mod scripted;

use larder_counters::Counters;
use larder_origin::{
    Membership, OriginAddress, OriginError, OriginLimits, OriginPool, OriginSecurity, OriginTls, Protocol,
    TlsSettings,
};
use larder_stdx::circuit_breaker::BreakerSettings;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use scripted::{fetch, limits, run};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A certificate authority, and the folder with its files.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    /// A certificate and its key for `name`, as files as well.
    fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.file(&format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(self.file(&format!("{name}.key")), key.serialize_pem()).unwrap();
        (certificate, key)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn settings(&self) -> TlsSettings {
        TlsSettings { ca: Some(self.file("ca.pem")), ..TlsSettings::default() }
    }
}

/// A server's script for a connection after the handshake.
type Script = dyn Fn(usize, &mut Peer) + Send + Sync;

struct Peer {
    stream: rustls::StreamOwned<ServerConnection, TcpStream>,
    go: Arc<Mutex<Receiver<()>>>,
}

impl Peer {
    /// Reads to the empty line; "" where the connection ended.
    fn head(&mut self) -> String {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            match self.stream.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                _ => return String::new(),
            }
        }
        String::from_utf8(head).unwrap()
    }

    fn send(&mut self, text: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(text.as_ref());
        let _ = self.stream.flush();
    }

    /// Says that it has said all.
    fn close(&mut self) {
        self.stream.conn.send_close_notify();
        let _ = self.stream.flush();
    }
}

struct Server {
    port: u16,
    /// The name that each handshake asked for.
    asked: Arc<Mutex<Vec<Option<String>>>>,
    go: Sender<()>,
}

impl Server {
    fn new(authority: &Authority, name: &str, mutual: bool, script: Box<Script>) -> Self {
        let (certificate, key) = authority.issue(name);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let builder = match mutual {
            false => builder.unwrap().with_no_client_auth(),
            true => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.issuer.der().clone()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.unwrap().with_client_cert_verifier(verifier.unwrap())
            }
        };
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = Arc::new(builder.with_single_cert(vec![certificate.der().clone()], key).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (go, gone) = channel();
        let (gone, script, all) = (Arc::new(Mutex::new(gone)), Arc::new(script), asked.clone());
        std::thread::spawn(move || {
            for (number, socket) in listener.incoming().flatten().enumerate() {
                socket.set_nodelay(true).unwrap();
                let session = ServerConnection::new(config.clone()).unwrap();
                let mut stream = rustls::StreamOwned::new(session, socket);
                let (script, go, all) = (script.clone(), gone.clone(), all.clone());
                std::thread::spawn(move || {
                    while stream.conn.is_handshaking() {
                        if stream.conn.complete_io(&mut stream.sock).is_err() {
                            return;
                        }
                    }
                    all.lock().unwrap().push(stream.conn.server_name().map(str::to_owned));
                    script(number, &mut Peer { stream, go });
                });
            }
        });
        Self { port, asked, go }
    }

    /// One that answers every request.
    fn obliging(authority: &Authority, name: &str) -> Self {
        Self::new(authority, name, false, Box::new(obliging))
    }

    fn origin(
        &self,
        host: &str,
        name: &str,
        settings: &TlsSettings,
        limits: OriginLimits,
    ) -> (Rc<OriginPool>, Arc<Counters>) {
        let counters = Arc::new(Counters::default());
        let membership = Membership {
            name: "it".to_owned(),
            tls: Some(OriginSecurity { tls: OriginTls::new(settings).unwrap(), name: name.to_owned() }),
            protocol: Protocol::Http1,
            outlier_state: Arc::default(),
            weight: 1,
            ejection: BreakerSettings::OFF,
            drained: false,
            preamble: None,
        };
        let address = OriginAddress::Tcp(host.to_owned(), self.port);
        (OriginPool::in_group(address, limits, counters.clone(), membership), counters)
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn obliging(_: usize, peer: &mut Peer) {
    while !peer.head().is_empty() {
        peer.send(OK);
    }
}

fn long() -> OriginLimits {
    OriginLimits { handshake: Duration::from_secs(10), ..limits() }
}

#[test]
fn an_origin_is_verified_by_its_certificate_and_its_connection_is_reused() {
    let authority = Authority::new();
    let server = Server::obliging(&authority, "app.test");
    let (origin, counters) = server.origin("127.0.0.1", "app.test", &authority.settings(), long());
    run(async {
        for _ in 0..100 {
            assert_eq!("200 ok", fetch(&origin).await);
        }
    });
    // Its tickets came behind the handshake, and are not taken for an answer.
    assert_eq!(
        (1, 99, 0),
        (counters.origin_connects.get(), counters.origin_reuses.get(), counters.origin_surplus.get())
    );
    assert_eq!(vec![Some("app.test".to_owned())], *server.asked.lock().unwrap());
}

#[test]
fn an_origin_with_a_wrong_certificate_gets_no_request() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = Server::obliging(&authority, "app.test");
    let says = |name: &str, settings: &TlsSettings| {
        let (origin, counters) = server.origin("127.0.0.1", name, settings, long());
        let mut found = String::new();
        run(async { found = fetch(&origin).await });
        assert_eq!((1, 0), (counters.origin_tls_failures.get(), counters.origin_requests.get()), "{found}");
        found
    };
    let found = says("other.test", &authority.settings());
    assert!(found.contains("not valid for name"), "{found}");
    let found = says("app.test", &other.settings());
    assert!(found.starts_with("Tls(\"invalid peer certificate: "), "{found}");
    let anybody = TlsSettings { unverified: true, ..TlsSettings::default() };
    let (origin, _) = server.origin("127.0.0.1", "other.test", &anybody, long());
    run(async { assert_eq!("200 ok", fetch(&origin).await) });
}

#[test]
fn a_certificate_may_be_for_an_ip_address() {
    let authority = Authority::new();
    let server = Server::obliging(&authority, "127.0.0.1");
    let (origin, _) = server.origin("127.0.0.1", "127.0.0.1", &authority.settings(), long());
    run(async { assert_eq!("200 ok", fetch(&origin).await) });
    assert_eq!(vec![None], *server.asked.lock().unwrap(), "an address is no name (RFC 6066 section 3)");
}

#[test]
fn an_origin_may_require_a_client_certificate() {
    let authority = Authority::new();
    let server = Server::new(&authority, "app.test", true, Box::new(obliging));
    authority.issue("larder.test");
    let own = Some((authority.file("larder.test.pem"), authority.file("larder.test.key")));
    let known = TlsSettings { own, ..authority.settings() };
    let (origin, _) = server.origin("127.0.0.1", "app.test", &known, long());
    run(async { assert_eq!("200 ok", fetch(&origin).await) });
    let (origin, _) = server.origin("127.0.0.1", "app.test", &authority.settings(), long());
    run(async { assert_ne!("200 ok", fetch(&origin).await) });
}

#[test]
fn a_body_until_the_end_is_complete_only_with_a_close_notify() {
    let authority = Authority::new();
    for (closes, expect) in [(true, "200 all of it"), (false, "200 all of it Disconnected")] {
        let script = move |_: usize, peer: &mut Peer| {
            peer.head();
            peer.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it");
            if closes {
                peer.close();
            }
        };
        let server = Server::new(&authority, "app.test", false, Box::new(script));
        let (origin, _) = server.origin("127.0.0.1", "app.test", &authority.settings(), long());
        run(async { assert_eq!(expect, fetch(&origin).await) });
    }
}

#[test]
fn a_large_body_comes_whole_and_a_large_one_goes() {
    let authority = Authority::new();
    let script = |_: usize, peer: &mut Peer| {
        let length = 3 << 20;
        while !peer.head().is_empty() {
            let mut sent = vec![0; length];
            peer.stream.read_exact(&mut sent).unwrap();
            assert!(sent.iter().all(|it| *it == b'u'));
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"));
            peer.send(vec![b'd'; length]);
        }
    };
    let server = Server::new(&authority, "app.test", false, Box::new(script));
    let (origin, _) = server.origin("127.0.0.1", "app.test", &authority.settings(), long());
    run(async {
        for _ in 0..2 {
            let length = 3u64 << 20;
            let request = scripted::request("POST", larder_wire::message::Framing::Length(length));
            let exchange = origin.send(request).await.unwrap();
            for _ in 0..length >> 16 {
                exchange.write(vec![b'u'; 1 << 16].into()).await.unwrap();
            }
            exchange.write_end(None).await.unwrap();
            assert_eq!(200, exchange.head().await.unwrap().status);
            let (body, end) = scripted::body(&exchange).await;
            assert!(end == Ok(()) && body.len() as u64 == length && body.bytes().all(|it| it == b'd'));
        }
    });
}

#[test]
fn an_unsolicited_response_answers_no_request() {
    let authority = Authority::new();
    let script = |_: usize, peer: &mut Peer| {
        peer.head();
        // In one record: rustls has it before anybody looks.
        peer.send(format!("{OK}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"));
        peer.head();
        peer.send(OK);
    };
    let server = Server::new(&authority, "app.test", false, Box::new(script));
    let (origin, counters) = server.origin("127.0.0.1", "app.test", &authority.settings(), long());
    run(async {
        for _ in 0..3 {
            assert_eq!("200 ok", fetch(&origin).await);
        }
    });
    assert_eq!((3, 3), (counters.origin_connects.get(), counters.origin_surplus.get()));
}

#[test]
fn a_connection_that_was_closed_meanwhile_is_not_used() {
    let authority = Authority::new();
    let script = |_: usize, peer: &mut Peer| {
        peer.head();
        peer.send(OK);
        peer.close();
        let _ = peer.go.lock().unwrap().recv();
    };
    let server = Server::new(&authority, "app.test", false, Box::new(script));
    let (origin, counters) = server.origin("127.0.0.1", "app.test", &authority.settings(), long());
    run(async {
        for _ in 0..3 {
            assert_eq!("200 ok", fetch(&origin).await);
        }
    });
    assert_eq!(3, counters.origin_connects.get());
    let _ = server.go.send(());
}

#[test]
fn a_tls_handshake_without_an_answer_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let authority = Authority::new();
    let mut server = Server::obliging(&authority, "app.test");
    server.port = port;
    let short = OriginLimits { handshake: Duration::from_millis(30), ..limits() };
    let (origin, counters) = server.origin("127.0.0.1", "app.test", &authority.settings(), short);
    run(async { assert_eq!(Some(OriginError::ConnectTimeout), origin.send(scripted::get()).await.err()) });
    assert_eq!(1, counters.origin_timeouts.get());
}

#[test]
fn an_origin_without_tls_is_a_handshake_error() {
    let plain = scripted::Scripted::tcp(|_, mut peer| {
        peer.send("HTTP/1.1 400 Bad Request\r\n\r\n");
        peer.rest();
    });
    let OriginAddress::Tcp(_, port) = plain.address else { unreachable!() };
    let authority = Authority::new();
    let mut server = Server::obliging(&authority, "app.test");
    server.port = port;
    let (origin, _) = server.origin("127.0.0.1", "app.test", &authority.settings(), long());
    run(async {
        let Some(error) = origin.send(scripted::get()).await.err() else { panic!("it has no TLS") };
        assert!(
            error.status() == 502 && error.sentence().starts_with("TLS handshake with the origin failed: "),
            "{error:?}"
        );
    });
}

#[test]
fn files_that_are_none_are_named() {
    let authority = Authority::new();
    authority.issue("a.test");
    let empty = authority.file("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let wrong = |settings: TlsSettings, expect: &str| {
        let why = OriginTls::new(&settings).unwrap_err();
        assert!(why.contains(expect), "{why}");
    };
    let of = |ca: &str| TlsSettings { ca: Some(authority.file(ca)), ..TlsSettings::default() };
    wrong(of("missing.pem"), "missing.pem: ");
    wrong(of("empty.pem"), "empty.pem: not a certificate in PEM");
    let own = |key: &str| TlsSettings {
        own: Some((authority.file("a.test.pem"), authority.file(key))),
        ..of("ca.pem")
    };
    wrong(own("a.test.pem"), "a.test.pem: not a private key in PEM");
    authority.issue("b.test");
    wrong(own("b.test.key"), "does not match its key");
}
