//! HTTP/3 with Chromium, quic-go, aioquic and libcurl: implementations of QUIC that share no code with larder.

use crate::harness::secure::Authority;
use crate::harness::{Larder, Origin};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::{KeyPair, PublicKeyData as _};
use ring::digest::{SHA256, digest};
use std::path::Path;
use std::process::{Command, Stdio};

/// Reports the protocol of the page itself, and that of a request of its script.
const PAGE: &str = "<!doctype html><title>page</title><p id=p></p><script>\
    const of = (it) => it.nextHopProtocol;\
    const show = () => document.getElementById('p').textContent = [performance.getEntriesByType('navigation'), \
    performance.getEntriesByName(location.origin + '/data')].map(([it]) => of(it)).join(' ');\
    fetch('/data').then((it) => it.text()).then(show);</script>";

/// A larder with early data before `origin`.
fn front(origin: &Origin, authority: &Authority) -> Larder {
    front_with(origin, authority, "early_data = true")
}

fn front_with(origin: &Origin, authority: &Authority, tls: &str) -> Larder {
    let certificate = authority.sign("one", &["localhost"]);
    Larder::configured(format!(
        "listen = [\"https://127.0.0.1:0\"]\nhttp3 = true\nworkers = 2\n[tls]\ncertificates = [{certificate}]\n{tls}\n\
         [[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy.to = {:?}\n",
        origin.url()
    ))
}

#[test]
fn chromium_loads_a_page() {
    let origin = Origin::new(|it| {
        let body = if it.target() == "/data" { "data" } else { PAGE };
        format!("HTTP/1.1 200 OK\nContent-Type: text/html\nCache-Control: max-age=60\n\n{body}")
    });
    let authority = Authority::new();
    let larder = front(&origin, &authority);
    let key = std::fs::read_to_string(authority.path("one.key")).unwrap();
    let key = KeyPair::from_pem(&key).unwrap().subject_public_key_info();
    let place = format!("localhost:{}", larder.address.port());
    let folder = tempfile::tempdir().unwrap();
    let browser = Command::new("chromium")
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ])
        .args(["--disable-background-networking", "--virtual-time-budget=60000", "--dump-dom"])
        .arg("--host-resolver-rules=MAP localhost 127.0.0.1")
        .arg(format!("--user-data-dir={}", folder.path().display()))
        .arg(format!("--origin-to-force-quic-on={place}"))
        .arg(format!(
            "--ignore-certificate-errors-spki-list={}",
            BASE64_STANDARD.encode(digest(&SHA256, &key))
        ))
        .arg(format!("https://{place}/"))
        .stderr(Stdio::null())
        .output()
        .unwrap_or_else(|it| panic!("chromium (Debian's package, see tests/install): {it}"));
    let shown = String::from_utf8_lossy(&browser.stdout);
    assert!(shown.contains("<p id=\"p\">h3 h3</p>"), "{shown}");
    let counter = |name| larder.counter(name);
    assert!(counter("http3_requests") >= 2 && counter("http3_errors") == 0);
    assert!(counter("http3_connections") > 0);
}

/// The lines of `tests/aioquic`. The codes of errors are those of RFC 9000 section 20.1, RFC 9114 section 8.1 and RFC 9204 section 6.
const OF_AIOQUIC: &str = "\
pages: 200 4 200 3000000
after a key update: 200 4 200 3000000
after a migration: 200 4 200 3000000
4 fields of 3,000 bytes: 200 4
60 fields of 3,000 bytes: 431 96
a second connection: 200 4 resumed no early data
DATA before HEADERS: 0x105
a frame of HTTP/2 on a request: 0x105
SETTINGS on a request: 0x105
CANCEL_PUSH on a request: 0x105
a field section that cannot be decoded: 0x200
a second SETTINGS: 0x105
DATA on the control stream: 0x105
HEADERS on the control stream: 0x105
a second control stream: 0x103
a push stream of a client: 0x103
more streams than are permitted: 0x4
";

#[test]
fn aioquic_gets_every_response_and_the_codes_of_its_violations() {
    let origin = Origin::new(|it| match it.target() {
        "/kept" => "HTTP/1.1 200 OK\nCache-Control: max-age=6000\n\nkept".to_owned(),
        _ => format!("HTTP/1.1 200 OK\nCache-Control: max-age=6000\n\n{}", "x".repeat(3_000_000)),
    });
    let authority = Authority::new();
    let larder = front_with(&origin, &authority, "");
    let place = Path::new(env!("CARGO_MANIFEST_DIR"));
    let client = Command::new("python3")
        .arg(place.join("../tests/aioquic/client.py"))
        .arg(authority.path("ca.pem"))
        .arg(larder.address.port().to_string())
        .env("PYTHONPATH", place.join("../target/tools/aioquic"))
        .output()
        .expect("tests/install brings aioquic");
    let why = String::from_utf8_lossy(&client.stderr);
    assert_eq!(OF_AIOQUIC, String::from_utf8_lossy(&client.stdout), "{why}");
    assert_eq!(11, larder.counter("http3_errors"));
}

/// Pages that are stored, and for every other URL the body of the request.
fn kept_large_and_echo() -> Origin {
    Origin::new(|it| match it.target() {
        "/kept" => "HTTP/1.1 200 OK\nCache-Control: max-age=6000\n\nkept".to_owned(),
        "/large" => format!("HTTP/1.1 200 OK\nCache-Control: max-age=6000\n\n{}", "x".repeat(3_000_000)),
        _ => {
            format!("HTTP/1.1 200 OK\nCache-Control: no-store\n\n{}", String::from_utf8_lossy(&it.body))
        }
    })
}

/// `tests/quic_go` sends the requests: a page, 3 MB, and an upload that comes back, on two connections.
#[test]
fn quic_go_gets_every_response_and_resumes_with_early_data() {
    let origin = kept_large_and_echo();
    let authority = Authority::new();
    let larder = front(&origin, &authority);
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/quic_go");
    let client = Command::new(program)
        .arg(authority.path("ca.pem"))
        .arg(format!("https://localhost:{}", larder.address.port()))
        .output()
        .expect("tests/install brings quic_go");
    let shown = String::from_utf8_lossy(&client.stdout);
    let why = String::from_utf8_lossy(&client.stderr);
    assert_eq!("HTTP/3.0 kept 3000000 true false\nHTTP/3.0 kept 3000000 true true\n", shown, "{why}");
    let counter = |name| larder.counter(name);
    assert_eq!((2, 6, 0), (counter("http3_connections"), counter("http3_requests"), counter("http3_errors")));
}

/// The lines of `tests/pycurl`: version, status and length of each response.
const OF_LIBCURL: &str = "\
a page: 3 200 4
3 MB: 3 200 3000000
a range: 3 206 200
HEAD: 3 200 0
60 fields of 3,000 bytes: 3 431 96
an upload: 3 200 1000000
the upload comes back: True
on one connection: 3 200 8, connections 1 0
20 at once: 3 200 3000000, connections 1
over TCP: 2 200 4, HTTP/3 is announced: True
";

#[test]
fn libcurl_gets_every_response() {
    let origin = kept_large_and_echo();
    let authority = Authority::new();
    let larder = front_with(&origin, &authority, "");
    let place = Path::new(env!("CARGO_MANIFEST_DIR"));
    let client = Command::new("python3")
        .arg(place.join("../tests/pycurl/client.py"))
        .arg(authority.path("ca.pem"))
        .arg(larder.address.port().to_string())
        .env("PYTHONPATH", place.join("../target/tools/pycurl"))
        .output()
        .expect("tests/install brings pycurl");
    let why = String::from_utf8_lossy(&client.stderr);
    assert_eq!(OF_LIBCURL, String::from_utf8_lossy(&client.stdout), "{why}");
    assert_eq!(0, larder.counter("http3_errors"));
}
