//! Row P6: the client of a request. A trusted proxy in front names it; any other client is taken for itself.

use crate::harness::{Larder, Origin, until};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// An origin that answers with the client's identity in the request.
pub fn telling() -> Origin {
    Origin::new(|it| {
        let report = it.head.lines().skip(1).filter(|line| {
            let name = line.split(':').next().unwrap().to_ascii_lowercase();
            name.starts_with("x-forwarded") || name == "forwarded" || name.ends_with("-ip")
        });
        let report: Vec<_> = report.map(str::trim).collect();
        format!("HTTP/1.1 200 OK\nCache-Control: no-store\n\n{}", report.join("|"))
    })
}

fn larder(origin: &Origin, route: &str, top: &str) -> Larder {
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[log]\naccess = \"access.log\"\nformat = \"{{client}} {{target}}\"\n{top}\n\
         [[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n{route}\nproxy = {{ to = [\"{}\"] }}\n",
        origin.url()
    ))
}

const BY_US: &str = "[clients]\ntrusted = [\"127.0.0.0/8\", \"10.0.0.0/8\"]\n";
const WAY: &str = "X-Forwarded-Proto: http|X-Forwarded-Host: h";

/// Asks with `lines`: the origin is told `told`, the access log names `client`.
#[track_caller]
fn check(larder: &Larder, lines: &str, report: &str, client: &str) {
    let told_now = larder.client().get_with("/page", lines).text();
    assert_eq!(report, told_now, "{lines}");
    let path = larder.folder.path().join("access.log");
    // It is written at a tick of the worker.
    until("the log has it", || std::fs::read_to_string(&path).is_ok_and(|it| it.ends_with("/page\n")));
    let log = std::fs::read_to_string(&path).unwrap();
    assert_eq!(format!("{client} /page"), log.lines().last().unwrap(), "{lines}");
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
}

#[test]
fn only_a_trusted_peer_may_name_the_client() {
    let origin = telling();
    let larder = larder(&origin, "", "");
    let own = format!("X-Forwarded-For: 127.0.0.1|{WAY}");
    for lines in [
        "",
        "X-Forwarded-For: 192.0.2.7\r\n",
        "X-Forwarded-For: evil\r\nX-Real-IP: evil\r\nTrue-Client-IP: evil\r\n",
        "Forwarded: for=192.0.2.7\r\n",
        "Connection: X-Forwarded-For\r\nX-Forwarded-For: 192.0.2.7\r\n",
    ] {
        check(&larder, lines, &own, "127.0.0.1");
    }
}

#[test]
fn a_trusted_proxy_names_the_client() {
    let origin = telling();
    let larder = larder(&origin, "", BY_US);
    let report = |who: &str| format!("X-Forwarded-For: {who}|{WAY}");
    check(&larder, "", &report("127.0.0.1"), "127.0.0.1");
    check(&larder, "X-Forwarded-For: 192.0.2.7\r\n", &report("192.0.2.7, 127.0.0.1"), "192.0.2.7");
    // What stands before is the client's own word.
    check(&larder, "X-Forwarded-For: 127.0.0.1, 192.0.2.7\r\n", &report("192.0.2.7, 127.0.0.1"), "192.0.2.7");
    check(
        &larder,
        "X-Forwarded-For: evil, 2001:db8::1\r\nX-Forwarded-For: 10.0.0.9\r\n",
        &report("2001:db8::1, 10.0.0.9, 127.0.0.1"),
        "2001:db8::1",
    );
    check(&larder, "X-Forwarded-For: 192.0.2.7, unknown\r\n", &report("127.0.0.1"), "127.0.0.1");
    check(&larder, "Forwarded: for=192.0.2.7\r\n", &report("127.0.0.1"), "127.0.0.1");
    let more = "X-Forwarded-For: 192.0.2.7\r\nX-Real-IP: 192.0.2.7\r\n";
    check(&larder, more, &format!("X-Real-IP: 192.0.2.7|{}", report("192.0.2.7, 127.0.0.1")), "192.0.2.7");
}

#[test]
fn forwarded_by_rfc_7239() {
    let origin = telling();
    let top = format!("{BY_US}header = \"Forwarded\"\n");
    let larder = larder(&origin, "forwarded = \"forwarded\"", &top);
    check(&larder, "", "Forwarded: for=127.0.0.1;host=\"h\";proto=http", "127.0.0.1");
    check(
        &larder,
        "Forwarded: for=6.6.6.6, For=\"[2001:db8::1]:4711\";proto=https, for=10.0.0.9\r\n",
        "Forwarded: for=\"[2001:db8::1]\";host=\"h\";proto=http, for=10.0.0.9, for=127.0.0.1",
        "2001:db8::1",
    );
    // The other field is not written by these proxies: it is a client's.
    check(
        &larder,
        "X-Forwarded-For: 192.0.2.7\r\n",
        "Forwarded: for=127.0.0.1;host=\"h\";proto=http",
        "127.0.0.1",
    );
}

#[test]
fn the_route_sets_the_forwarded_fields() {
    let origin = telling();
    let both = larder(&origin, "forwarded = \"both\"", "");
    let text = format!("X-Forwarded-For: 127.0.0.1|{WAY}|Forwarded: for=127.0.0.1;host=\"h\";proto=http");
    check(&both, "Forwarded: for=evil\r\n", &text, "127.0.0.1");
    let off = larder(&origin, "forwarded = \"off\"", "");
    check(
        &off,
        "X-Forwarded-For: evil\r\nForwarded: for=evil\r\nX-Forwarded-Host: evil\r\n",
        "",
        "127.0.0.1",
    );
}

/// A Unix socket has no address: whoever connects there may be named as one that is believed.
#[test]
fn a_peer_on_a_unix_socket_is_trusted_if_configured() {
    let origin = telling();
    let fetch = |trusted: &str, lines: &str| {
        let larder = Larder::configured(format!(
            "listen = [\"unix:web.sock\"]\nworkers = 1\n[clients]\ntrusted = [{trusted}]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\n\
             path = \"/*\"\nforwarded = \"both\"\nproxy = {{ to = [\"{}\"] }}\n",
            origin.url()
        ));
        let mut stream = UnixStream::connect(larder.folder.path().join("web.sock")).unwrap();
        write!(stream, "GET /page HTTP/1.1\r\nHost: h\r\n{lines}Connection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.split_once("\r\n\r\n").unwrap().1.to_owned()
    };
    let field = "X-Forwarded-For: 1.1.1.1, 192.0.2.7, 10.0.0.9\r\n";
    let nobody = format!("{WAY}|Forwarded: for=unknown;host=\"h\";proto=http");
    assert_eq!(nobody, fetch("\"127.0.0.0/8\", \"10.0.0.0/8\"", field));
    assert_eq!(nobody, fetch("\"unix\"", ""));
    let known = format!(
        "X-Forwarded-For: 192.0.2.7, 10.0.0.9|{WAY}|Forwarded: for=192.0.2.7;host=\"h\";proto=http, for=10.0.0.9, for=unknown"
    );
    assert_eq!(known, fetch("\"unix\", \"10.0.0.0/8\"", field));
}

/// Who is let in by address is let in by the client's, not by the proxy's.
#[test]
fn a_purge_is_the_client_s() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\npage");
    let larder = larder(&origin, "cache = { purge = { method = true } }", BY_US);
    let purge = |lines: &str| larder.client().request("PURGE", "/page", lines, "").status;
    assert_eq!(200, purge(""));
    assert_eq!(403, purge("X-Forwarded-For: 192.0.2.7\r\n"));
    assert_eq!(403, purge("X-Forwarded-For: 127.0.0.1, 192.0.2.7\r\n"));
}

#[test]
fn a_reload_changes_the_trusted_peers() {
    let origin = telling();
    let larder = larder(&origin, "", "");
    let lines = "X-Forwarded-For: 192.0.2.7\r\n";
    check(&larder, lines, &format!("X-Forwarded-For: 127.0.0.1|{WAY}"), "127.0.0.1");
    let text = std::fs::read_to_string(larder.config()).unwrap();
    std::fs::write(larder.config(), text.replacen("[[site]]", &format!("{BY_US}[[site]]"), 1)).unwrap();
    larder.signal(libc::SIGHUP);
    until("it is read", || larder.client().get_with("/other", lines).text().contains("192.0.2.7, 127.0.0.1"));
}
