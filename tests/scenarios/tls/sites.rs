//! TLS settings of one site: versions and client certificates by the name in the handshake, and requests on connections that
//! were made for another site.

use super::pages;
use crate::harness::secure::{Authority, Trusting};
use crate::harness::{Larder, Origin, until};
use rustls::version::{TLS12, TLS13};
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

/// Four sites: without settings of its own, with client certificates, with TLS 1.3 only, and with both in `top`.
fn config(authority: &Authority, origin: &Origin, closed: &str) -> String {
    let certificate = authority.path("one");
    let (cert, key) = (certificate.with_extension("pem"), certificate.with_extension("key"));
    let to = format!(
        "proxy = {{ to = [\"http://{}\"] }}\ncache = {{ purge = {{ method = true }} }}",
        origin.address
    );
    format!(
        "listen = [\"https://127.0.0.1:0\", \"http://127.0.0.1:0\"]\nworkers = 1\n[tls]\ncertificates = [{{ cert = {cert:?}, key = {key:?} }}]\n\
         [[site]]\nhosts = [\"open.test\"]\n[[site.route]]\n{to}\n\
         [[site]]\nhosts = [\"closed.test\", \"*.closed.test\"]\n{closed}\n[[site.route]]\n{to}\n\
         [[site]]\nhosts = [\"modern.test\"]\nredirect_https = true\ntls = {{ min_version = \"1.3\" }}\n[[site.route]]\n{to}\n"
    )
}

/// The certificates, and larder with these sites.
fn larder(origin: &Origin) -> (Authority, Larder) {
    let authority = Authority::new();
    authority.sign("one", &["open.test", "closed.test", "sub.closed.test", "modern.test", "127.0.0.1"]);
    authority.sign("me", &["me.test"]);
    let closed = requires(&authority);
    let larder = Larder::configured(config(&authority, origin, &closed));
    (authority, larder)
}

fn requires(authority: &Authority) -> String {
    format!("tls = {{ client_auth = \"required\", client_ca = {:?} }}", authority.path("ca.pem"))
}

/// The status of a request for `host` on a connection that is made for `name`; `None` where there is no answer.
fn status(larder: &Larder, how: &Trusting, name: &str, head: &str) -> Option<u16> {
    let mut it = how.connect(larder.address, name).ok()?;
    it.stream.write_all(format!("{head}\r\n\r\n").as_bytes()).ok()?;
    let mut some = [0; 12];
    it.stream.read_exact(&mut some).ok()?;
    std::str::from_utf8(&some[9..]).unwrap().parse().ok()
}

fn get(larder: &Larder, how: &Trusting, name: &str, host: &str) -> Option<u16> {
    status(larder, how, name, &format!("GET / HTTP/1.1\r\nHost: {host}"))
}

#[test]
fn each_site_has_its_versions_and_client_certificates() {
    let origin = pages();
    let (authority, larder) = larder(&origin);
    for version in [&TLS12, &TLS13] {
        let none = authority.trusting().only(version);
        let me = none.clone().showing(&authority, "me");
        assert_eq!(Some(200), get(&larder, &none, "open.test", "open.test"));
        for name in ["closed.test", "sub.closed.test"] {
            assert_eq!(None, get(&larder, &none, name, name), "{name} without a certificate");
            assert_eq!(Some(200), get(&larder, &me, name, name), "{name} with one");
        }
        let is_modern = version.version == rustls::ProtocolVersion::TLSv1_3;
        assert_eq!(is_modern.then_some(200), get(&larder, &none, "modern.test", "modern.test"));
    }
    let other = Authority::new();
    other.sign("me", &["me.test"]);
    let stranger = authority.trusting().showing(&other, "me");
    assert_eq!(None, get(&larder, &stranger, "closed.test", "closed.test"), "of another CA");
}

/// The name of the handshake is one that the client chose; the page is stored, so that this holds for hits, too.
#[test]
fn a_request_on_the_connection_of_another_site_is_misdirected() {
    let origin = pages();
    let (authority, larder) = larder(&origin);
    let none = authority.trusting();
    let me = none.clone().showing(&authority, "me");
    for _ in 0..2 {
        assert_eq!(Some(200), get(&larder, &me, "closed.test", "closed.test"));
    }
    assert_eq!(1, origin.requests());
    for host in ["closed.test", "CLOSED.test", "closed.test:443", "sub.closed.test", "modern.test"] {
        for name in ["open.test", "127.0.0.1"] {
            assert_eq!(Some(421), get(&larder, &none, name, host), "{host} for {name}");
            assert_eq!(Some(421), get(&larder, &me, name, host), "a certificate that was not requested");
        }
    }
    assert_eq!(Some(421), get(&larder, &me, "closed.test", "open.test"));
    assert_eq!(Some(421), get(&larder, &none, "modern.test", "closed.test"));
    assert_eq!(Some(200), get(&larder, &me, "sub.closed.test", "closed.test"), "the same site");
    assert_eq!(Some(200), get(&larder, &none, "127.0.0.1", "open.test"), "the settings of all sites");
    for head in
        ["PURGE / HTTP/1.1\r\nHost: closed.test", "POST / HTTP/1.1\r\nContent-Length: 0\r\nHost: closed.test"]
    {
        assert_eq!(Some(421), status(&larder, &none, "open.test", head), "{head}");
    }
    let whole = status(&larder, &none, "open.test", "GET https://closed.test/ HTTP/1.1\r\nHost: closed.test");
    assert_eq!(Some(421), whole, "a target with a host");
    assert_eq!(2, origin.requests(), "the pages of two sites, and no refused request");
    // The next request of the connection is judged by itself.
    let mut it = none.connect(larder.address, "open.test").unwrap();
    for (host, expect) in [("open.test", 200), ("closed.test", 421), ("open.test", 200)] {
        it.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(expect, it.read().status, "{host}");
    }
}

/// Browsers send requests for several hosts of one certificate on one connection of HTTP/2 (RFC 9113 section 9.1.1).
#[test]
fn a_stream_on_the_connection_of_another_site_is_misdirected() {
    let origin = pages();
    let (authority, larder) = larder(&origin);
    let port = larder.address.port();
    let curl = |name: &str, host: &str, arguments: &[&str]| {
        let resolve = format!("{name}:{port}:127.0.0.1");
        let (ca, field) = (authority.path("ca.pem"), format!("Host: {host}"));
        let output = Command::new("curl")
            .args([
                "-s",
                "--http2",
                "--max-time",
                "30",
                "-o",
                "/dev/null",
                "-w",
                "%{http_version} %{response_code}",
            ])
            .args(["--resolve", &resolve, "-H", &field, "--cacert"])
            .arg(ca)
            .args(arguments)
            .arg(format!("https://{name}:{port}/"))
            .output()
            .expect("tests/install has curl");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let (cert, key) = (authority.path("me.pem"), authority.path("me.key"));
    let shown = ["--cert", cert.to_str().unwrap(), "--key", key.to_str().unwrap()];
    for _ in 0..2 {
        assert_eq!("2 200", curl("closed.test", "closed.test", &shown));
        assert_eq!("2 200", curl("open.test", "open.test", &[]));
    }
    assert_eq!("2 421", curl("open.test", "closed.test", &[]));
    assert_eq!("2 421", curl("open.test", "closed.test", &shown));
    assert_eq!("2 421", curl("closed.test", "open.test", &shown));
    assert_eq!(2, origin.requests());
}

/// nginx resumed a session of one server for another, without its client certificate (CVE-2025-23419).
#[test]
fn a_session_of_one_site_is_not_resumed_for_another() {
    let origin = pages();
    let (authority, larder) = larder(&origin);
    let at = larder.address.to_string();
    let kept = authority.path("session");
    let openssl = |version: &str, name: &str, arguments: &[&str]| {
        let mut child = Command::new("openssl")
            .args(["s_client", "-connect", &at, "-quiet", version, "-servername", name])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("tests/install has openssl");
        let asks = format!("GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
        let _ = child.stdin.take().unwrap().write_all(asks.as_bytes());
        let out = child.wait_with_output().unwrap();
        String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned()
    };
    let session = kept.to_str().unwrap();
    for version in ["-tls1_2", "-tls1_3"] {
        let first = openssl(version, "open.test", &["-sess_out", session]);
        assert!(first.contains("HTTP/1.1 200"), "{first}");
        let resumed = larder.counter("tls_resumed");
        let again = openssl(version, "open.test", &["-sess_in", session]);
        assert!(again.contains("HTTP/1.1 200"), "{again}");
        assert_eq!(resumed + 1, larder.counter("tls_resumed"), "{version}: for the same site");
        openssl(version, "open.test", &["-sess_out", session]);
        let stolen = openssl(version, "closed.test", &["-sess_in", session]);
        assert!(!stolen.contains("HTTP/1.1 200"), "{stolen}");
        assert_eq!(resumed + 1, larder.counter("tls_resumed"), "{version}");
    }
    assert_eq!(0, origin.received().iter().filter(|it| it.field("host") == Some("closed.test")).count());
}

#[test]
fn a_site_with_client_certificates_does_not_answer_without_tls() {
    let origin = pages();
    let (_authority, larder) = larder(&origin);
    let printed = larder.printed();
    let clear = printed.lines().find_map(|it| it.strip_prefix("listening on http://")).unwrap();
    let clear = clear.trim().trim_end_matches('/');
    let fetch = |host: &str, method: &str| {
        let mut client = crate::harness::Client::connect(clear.parse().unwrap());
        client.send(format!("{method} / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client.read_for(method).status
    };
    assert_eq!(
        [200, 403, 403, 308],
        ["open.test", "closed.test", "sub.closed.test", "modern.test"].map(|it| fetch(it, "GET"))
    );
    assert_eq!(403, fetch("closed.test", "PURGE"));
    assert_eq!(1, origin.requests());
}

/// A connection from before a reload has the settings of its handshake.
#[test]
fn a_reload_applies_to_connections_that_are_open() {
    let origin = pages();
    let authority = Authority::new();
    authority.sign("one", &["open.test", "closed.test", "modern.test"]);
    authority.sign("me", &["me.test"]);
    let larder = Larder::configured(config(&authority, &origin, ""));
    let none = authority.trusting();
    let mut before = none.connect(larder.address, "closed.test").unwrap();
    before.send("GET / HTTP/1.1\r\nHost: closed.test\r\n\r\n");
    assert_eq!(200, before.read().status);
    let mut text = std::fs::read_to_string(larder.config()).unwrap();
    text = text.replace("\"*.closed.test\"]\n", &format!("\"*.closed.test\"]\n{}\n", requires(&authority)));
    std::fs::write(larder.config(), text).unwrap();
    larder.signal(libc::SIGHUP);
    until("the new settings", || get(&larder, &none, "closed.test", "closed.test").is_none());
    until("the old connection is refused", || {
        before.send("GET / HTTP/1.1\r\nHost: closed.test\r\n\r\n");
        before.read().status == 421
    });
    let me = none.clone().showing(&authority, "me");
    assert_eq!(Some(200), get(&larder, &me, "closed.test", "closed.test"));
}

/// Of a site, and of all sites.
#[test]
fn other_authorities_in_the_same_file_apply_to_connections_that_are_open() {
    let origin = pages();
    for is_of_site in [true, false] {
        let authority = Authority::new();
        authority.sign("one", &["open.test", "closed.test", "modern.test"]);
        let (before, after) = (Authority::new(), Authority::new());
        for it in [&before, &after] {
            it.sign("me", &["me.test"]);
        }
        let own = requires(&before);
        let text = match is_of_site {
            true => config(&authority, &origin, &own),
            false => {
                let rules = own.trim_start_matches("tls = { ").trim_end_matches(" }").replace(", ", "\n");
                config(&authority, &origin, "")
                    .replace("[tls]\n", &format!("[tls]\n{rules}\n"))
                    .replace("tls = { min_version = \"1.3\" }\n", "")
            }
        };
        let larder = Larder::configured(text);
        let me = authority.trusting().showing(&before, "me");
        let mut kept = me.connect(larder.address, "closed.test").unwrap();
        let mut status_of_kept = || {
            kept.send("GET / HTTP/1.1\r\nHost: closed.test\r\n\r\n");
            kept.read().status
        };
        larder.signal(libc::SIGHUP);
        until("the reload", || larder.counter("config_reloads") == 1);
        assert_eq!(200, status_of_kept(), "a reload that changes nothing");
        std::fs::copy(after.path("ca.pem"), before.path("ca.pem")).unwrap();
        larder.signal(libc::SIGHUP);
        until("the certificate of before is refused", || {
            get(&larder, &me, "closed.test", "closed.test").is_none()
        });
        assert_eq!(421, status_of_kept(), "of a site: {is_of_site}");
        let me = authority.trusting().showing(&after, "me");
        assert_eq!(Some(200), get(&larder, &me, "closed.test", "closed.test"));
    }
}

/// A ClientHello that arrives byte by byte chooses its site as well; one that is none gets its alert.
#[test]
fn a_greeting_in_pieces_chooses_its_site() {
    let origin = pages();
    let (authority, larder) = larder(&origin);
    larder.hold(); // Many pieces take long on a busy machine.
    let me = authority.trusting().showing(&authority, "me");
    for (name, pieces) in [("closed.test", 1), ("open.test", 30), ("closed.test", 100)] {
        let mut stream = std::net::TcpStream::connect(larder.address).unwrap();
        stream.set_nodelay(true).unwrap();
        let server = rustls::pki_types::ServerName::try_from(name).unwrap();
        let mut tls = rustls::ClientConnection::new(std::sync::Arc::new(me.config()), server).unwrap();
        let mut hello = Vec::new();
        tls.write_tls(&mut hello).unwrap();
        for (at, piece) in hello.chunks(pieces).enumerate() {
            stream.write_all(piece).unwrap();
            if at % 30 == 0 {
                until("it is being greeted", || larder.counter("tls_open") > 0);
            }
        }
        while tls.is_handshaking() {
            tls.complete_io(&mut stream).unwrap();
        }
        let mut whole = rustls::StreamOwned::new(tls, stream);
        whole.write_all(format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n").as_bytes()).unwrap();
        let mut some = [0; 12];
        whole.read_exact(&mut some).unwrap();
        assert_eq!(b"HTTP/1.1 200", &some, "{name} in pieces of {pieces}");
    }
    let mut stream = std::net::TcpStream::connect(larder.address).unwrap();
    stream.write_all(&[22, 3, 1, 0, 5, 1, 0, 0, 1, 9]).unwrap();
    let mut alert = Vec::new();
    let _ = stream.read_to_end(&mut alert);
    assert_eq!(Some(&21), alert.first(), "{alert:?}");
}
