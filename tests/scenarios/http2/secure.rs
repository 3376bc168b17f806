//! HTTP/2 over TLS, which client and server agree on in the handshake (RFC 9113 §3.2). `tls` tests TLS itself.

use super::origin;
use crate::harness::secure::Authority;
use crate::harness::{Larder, Origin};
use std::process::Command;

/// larder in front of `origin` with TLS, and the authority of its certificate.
pub fn larder(origin: &Origin) -> (Authority, Larder) {
    let authority = Authority::new();
    let certificate = authority.sign("one", &["localhost", "127.0.0.1"]);
    let config = format!(
        "listen = [\"https://127.0.0.1:0\"]\nworkers = 1\n[tls]\ncertificates = [{certificate}]\n[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"http://{}\"] }}\n",
        origin.address
    );
    (authority, Larder::configured(config))
}

/// curl's result for `path`: the HTTP version, and the body.
fn curl(larder: &Larder, path: &str, arguments: &[&str]) -> (String, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let body = folder.path().join("body");
    let output = Command::new("curl")
        .args(["-sk", "--max-time", "30", "-w", "%{http_version} %{response_code}", "-o"])
        .arg(&body)
        .args(arguments)
        .arg(format!("https://{}{path}", larder.address))
        .output()
        .expect("tests/install has curl");
    (String::from_utf8_lossy(&output.stdout).into_owned(), std::fs::read(body).unwrap_or_default())
}

#[test]
fn a_tls_client_that_offers_h2_gets_it_and_other_clients_get_http1() {
    let origin = origin();
    let (_authority, larder) = larder(&origin);
    for (arguments, version) in [(["--http2"], "2"), (["--http1.1"], "1.1"), (["--no-alpn"], "1.1")] {
        for (path, length) in [("/kept", 4), ("/large", 3_000_000), ("/stream", 3_000_000)] {
            let (report, body) = curl(&larder, path, &arguments);
            assert_eq!((format!("{version} 200"), length), (report, body.len()), "{arguments:?} {path}");
        }
    }
    assert_eq!(2 + 3, origin.requests(), "what is kept is kept for both");
    assert_eq!((3, 9), (larder.counter("http2_requests"), larder.counter("requests")));
}

#[test]
fn a_large_body_arrives_as_it_was_sent() {
    let origin = origin();
    let (_authority, larder) = larder(&origin);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("upload");
    let body: String = (0..2_000_000).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
    std::fs::write(&path, &body).unwrap();
    let (report, got) =
        curl(&larder, "/upload", &["--http2", "--data-binary", &format!("@{}", path.display())]);
    assert_eq!("2 200", report);
    assert!(got == body.as_bytes(), "{} of {} bytes came back", got.len(), body.len());
}
