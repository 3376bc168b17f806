//! HTTP/3 with Chromium, an implementation of QUIC that shares no code with larder.

use crate::harness::secure::Authority;
use crate::harness::server::Setup;
use crate::harness::{Larder, Origin};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::{KeyPair, PublicKeyData as _};
use ring::digest::{SHA256, digest};
use std::process::{Command, Stdio};

/// Reports the protocol of the page itself, and that of a request of its script.
const PAGE: &str = "<!doctype html><title>page</title><p id=p></p><script>\
    const of = (it) => it.nextHopProtocol;\
    const show = () => document.getElementById('p').textContent = [performance.getEntriesByType('navigation'), \
    performance.getEntriesByName(location.origin + '/data')].map(([it]) => of(it)).join(' ');\
    fetch('/data').then((it) => it.text()).then(show);</script>";

#[test]
fn chromium_loads_a_page() {
    let origin = Origin::new(|it| {
        let body = if it.target() == "/data" { "data" } else { PAGE };
        format!("HTTP/1.1 200 OK\nContent-Type: text/html\nCache-Control: max-age=60\n\n{body}")
    });
    let authority = Authority::new();
    let certificate = authority.sign("one", &["localhost"]);
    let config = format!(
        "listen = [\"https://127.0.0.1:0\"]\nhttp3 = true\nworkers = 2\n[tls]\ncertificates = [{certificate}]\nearly_data = true\n\
         [[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy.to = {:?}\n",
        origin.url()
    );
    let larder = Larder::start(Setup { config, env: Vec::new() });
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
