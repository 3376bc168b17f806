//! `[::]:PORT` is every interface of both families: HTTP and TLS, addresses in logs, access rules and limits.

use crate::harness::secure::Authority;
use crate::harness::{Client, Larder, until};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

/// Whether this machine has `::1`.
fn has_ipv6() -> bool {
    let has = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    if !has {
        eprintln!("skipped: this machine has no IPv6");
    }
    has
}

fn configured(listen: &str, top: &str, route: &str) -> Larder {
    Larder::configured(format!(
        "listen = [\"{listen}\"]\nworkers = 2\n[log]\naccess = \"access.log\"\nformat = \"{{client}} {{target}}\"\n{top}\n\
         [[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\nrespond = {{ body = \"for {{client}}\" }}\n{route}\n"
    ))
}

/// The addresses of this machine at the port of `[::]:0`.
fn both(larder: &Larder) -> [SocketAddr; 2] {
    let port = larder.address.port();
    [(Ipv6Addr::LOCALHOST, port).into(), (Ipv4Addr::LOCALHOST, port).into()]
}

#[test]
fn every_interface_serves_both_families_and_names_their_clients() {
    if !has_ipv6() {
        return;
    }
    let larder = configured("[::]:0", "", "access = { deny = [\"127.0.0.0/8\"] }");
    let [six, four] = both(&larder);
    let mut answers = [six, four].map(|it| Client::connect(it).get("/x"));
    assert_eq!([200, 403], answers.each_ref().map(|it| it.status));
    assert_eq!("for ::1", answers[0].text());
    let log = larder.folder.path().join("access.log");
    until("the log has both", || std::fs::read_to_string(&log).is_ok_and(|it| it.lines().count() == 2));
    let text = std::fs::read_to_string(&log).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(["127.0.0.1 /x", "::1 /x"], lines[..]);

    let larder = configured("[::]:0", "", "access = { allow_when = 'client == \"127.0.0.1\"' }");
    answers = both(&larder).map(|it| Client::connect(it).get("/x"));
    assert_eq!([403, 200], answers.each_ref().map(|it| it.status));
    assert_eq!("for 127.0.0.1", answers[1].text());
}

#[test]
fn tls_is_served_to_both_families() {
    if !has_ipv6() {
        return;
    }
    let authority = Authority::new();
    let tls = format!("[tls]\ncertificates = [{}]", authority.sign("a", &["a.test"]));
    let larder = configured("https://[::]:0", &tls, "");
    for (at, expect) in both(&larder).into_iter().zip(["for ::1", "for 127.0.0.1"]) {
        let mut client = authority.trusting().connect(at, "a.test").unwrap();
        assert_eq!(expect, client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").read().text());
    }
}

/// A client of IPv6 chooses its address within its network at will.
#[test]
fn a_limit_counts_a_network_of_64_bits_as_one_client() {
    if !has_ipv6() {
        return;
    }
    let top = "[clients]\ntrusted = [\"::1\"]";
    let larder = configured("[::]:0", top, "access = { limit = { rate = \"1/h\" } }");
    let [six, four] = both(&larder);
    let status = |at, client: &str| {
        Client::connect(at).get_with("/", &format!("X-Forwarded-For: {client}\r\n")).status
    };
    assert_eq!(200, status(six, "2001:db8::1"));
    assert_eq!(429, status(six, "2001:db8::2"), "the same /64");
    assert_eq!(200, status(six, "2001:db8:0:1::1"), "another /64");
    // The proxy is trusted as `::1` only: the others are the one client 127.0.0.1.
    assert_eq!([200, 429], ["192.0.2.1", "192.0.2.2"].map(|it| status(four, it)));
}

/// nginx needs both lines; the start failed because the first address had the port of the second.
#[test]
fn addresses_of_both_families_may_share_a_port() {
    if !has_ipv6() {
        return;
    }
    let authority = Authority::new();
    let tls = format!("[tls]\ncertificates = [{}]", authority.sign("a", &["a.test"]));
    let port = configured("https://[::]:0", &tls, "").address.port();
    for listen in [["0.0.0.0", "[::]"], ["[::]", "0.0.0.0"], ["0.0.0.0", "127.0.0.1"]] {
        let [one, other] = listen.map(|it| format!("https://{it}:{port}"));
        let larder = configured(&format!("{one}\", \"{other}"), &tls, "");
        let all = if listen.contains(&"[::]") { &both(&larder)[..] } else { &both(&larder)[1..] };
        for at in all {
            let mut client = authority.trusting().connect(*at, "a.test").unwrap();
            let expect = format!("for {}", at.ip());
            assert_eq!(expect, client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").read().text());
        }
    }
}
