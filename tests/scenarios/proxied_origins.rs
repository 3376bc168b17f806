//! The PROXY header at the beginning of connections to origins (`proxy.proxy_protocol`): with the address of the client, and
//! connections that carry requests of one client only.

use super::clients::telling;
use crate::harness::nginx::Nginx;
use crate::harness::secure::Authority;
use crate::harness::{Client, Larder, Origin, until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener};

/// larder before `to`, with this version and more keys.
fn larder(to: &str, version: &str, proxy: &str, route: &str, top: &str) -> Larder {
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n{top}\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\n{route}\n\
         [site.route.proxy]\nto = [\"{to}\"]\nproxy_protocol = \"{version}\"\n{proxy}\n"
    );
    Larder::configured(config)
}

/// A larder that requires the header, before an origin that answers with the address it is told.
fn receiving(origin: &Origin, listen: &str, tls: &str) -> Larder {
    Larder::configured(format!(
        "listen = [\"{listen}\"]\nworkers = 1\n{tls}\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy = {{ to = [\"{}\"] }}\n",
        origin.url()
    ))
}

fn from(larder: &Larder, last: u8) -> Client {
    Client::connect_from(Ipv4Addr::new(127, 0, 0, last), larder.address)
}

fn address(client: &mut Client, lines: &str) -> String {
    let text = client.get_with("/", lines).text();
    let report = text.split('|').find_map(|it| it.strip_prefix("X-Forwarded-For: "));
    report.unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[test]
fn an_origin_gets_the_client_of_each_connection() {
    let origin = telling();
    for version in ["v1", "v2"] {
        let behind = receiving(&origin, "http+proxy://127.0.0.1:0", "");
        let url = format!("http://{}", behind.address);
        let larder = larder(&url, version, "", "forwarded = \"off\"", "");
        let mut clients = [2, 3, 4].map(|it| (it, from(&larder, it)));
        // In turn, so that each could get the connection that another has just used.
        for round in 0..3 {
            for (last, client) in &mut clients {
                assert_eq!(format!("127.0.0.{last}"), address(client, ""), "{version}, round {round}");
            }
        }
        assert_eq!((3, 6), (larder.counter("origin_connects"), larder.counter("origin_reuses")));
        // A new connection of the same client has another port, which the header names as well.
        assert_eq!("127.0.0.2", address(&mut from(&larder, 2), ""));
        assert_eq!(4, larder.counter("origin_connects"));
        assert_eq!(4, behind.counter("proxy_headers"));
    }
}

#[test]
fn an_origin_gets_the_client_of_a_trusted_proxy() {
    let origin = telling();
    let behind = receiving(&origin, "http+proxy://127.0.0.1:0", "");
    let top = "clients.trusted = [\"127.0.0.0/8\"]";
    let larder = larder(&format!("http://{}", behind.address), "v2", "", "forwarded = \"off\"", top);
    let mut client = from(&larder, 2);
    for it in ["192.0.2.7", "2001:db8::7", "192.0.2.8"] {
        assert_eq!(it, address(&mut client, &format!("X-Forwarded-For: {it}\r\n")));
    }
}

#[test]
fn the_header_precedes_tls() {
    let (authority, origin) = (Authority::new(), telling());
    let certificate = authority.sign("one", &["127.0.0.1"]);
    let tls = format!("tls.certificates = [{certificate}]");
    let behind = receiving(&origin, "https+proxy://127.0.0.1:0", &tls);
    let ca = format!("tls.ca = {:?}", authority.path("ca.pem"));
    let larder = larder(&format!("https://{}", behind.address), "v2", &ca, "forwarded = \"off\"", "");
    assert_eq!("127.0.0.2", address(&mut from(&larder, 2), ""));
    assert_eq!("127.0.0.3", address(&mut from(&larder, 3), ""));
}

#[test]
fn nginx_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = "server { listen LISTEN proxy_protocol; location / { return 200 $proxy_protocol_addr; } }";
    let _nginx = Nginx::start(folder.path(), server);
    let socket = format!("unix:{}", folder.path().join("nginx.socket").display());
    for version in ["v1", "v2"] {
        let larder = larder(&socket, version, "", "cache = { enabled = false }", "");
        for last in [2, 3] {
            assert_eq!(format!("127.0.0.{last}"), from(&larder, last).get("/").text());
        }
    }
}

/// An origin that keeps the first bytes of each connection.
fn first_bytes(count: usize) -> (String, std::thread::JoinHandle<Vec<Vec<u8>>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        (0..count)
            .map(|_| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut first = Vec::new();
                while !first.ends_with(b"\r\n\r\n")
                    || first.ends_with(b"\r\n\r\n\0\r\nQUIT\n")
                    || first.len() < 20
                {
                    if reader.read_until(b'\n', &mut first).unwrap() == 0 {
                        break;
                    }
                }
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
                    .unwrap();
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let _ = reader.read_to_end(&mut Vec::new());
                first
            })
            .collect()
    });
    (url, thread)
}

/// The bytes themselves; and what is for many clients, or for none, names none.
#[test]
fn a_request_of_larders_own_and_one_of_a_strict_key_name_no_client() {
    let (url, thread) = first_bytes(1);
    let plain = larder(&url, "v1", "", "", "");
    assert_eq!("ok", from(&plain, 2).get("/").text());
    let first = String::from_utf8(thread.join().unwrap().remove(0)).unwrap();
    let (line, rest) = first.split_once("\r\n").unwrap();
    let words: Vec<_> = line.split(' ').collect();
    assert_eq!(["PROXY", "TCP4", "127.0.0.2", "127.0.0.1"], words[..4], "{line}");
    assert!(rest.starts_with("GET / HTTP/1.1\r\n"), "{rest}");

    let (url, thread) = first_bytes(1);
    let strict = larder(&url, "v1", "", "cache = { default_ttl = \"60s\", key = { strict = true } }", "");
    assert_eq!("ok", strict.get("/").text());
    let first = String::from_utf8(thread.join().unwrap().remove(0)).unwrap();
    assert!(first.starts_with("PROXY UNKNOWN\r\nGET / HTTP/1.1\r\n"), "{first}");

    let (url, thread) = first_bytes(1);
    let health = "health = { path = \"/health\", interval = \"1h\" }";
    let _checking = larder(&url, "v2", health, "", "");
    let first = thread.join().unwrap().remove(0);
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0GET /health HTTP/1.1\r\n";
    assert!(first.starts_with(local), "{}", first.escape_ascii());
}

/// What a client does not read stays its own: no other client gets the rest, nor its connection.
#[test]
fn a_connection_of_a_client_that_left_is_not_used_for_another() {
    let origin = telling();
    let behind = receiving(&origin, "http+proxy://127.0.0.1:0", "");
    let larder = larder(&format!("http://{}", behind.address), "v2", "", "forwarded = \"off\"", "");
    drop(address(&mut from(&larder, 2), ""));
    until("it has left", || larder.counter("connections_open") == 0);
    let others: Vec<_> = (3..9).map(|it| address(&mut from(&larder, it), "")).collect();
    assert_eq!((3..9).map(|it| format!("127.0.0.{it}")).collect::<Vec<_>>(), others);
    assert_eq!((7, 0), (larder.counter("origin_connects"), larder.counter("origin_reuses")));
}

#[test]
fn connections_that_clients_share_have_no_header() {
    for (to, more) in [("h2c://127.0.0.1:1", ""), ("https://127.0.0.1:1", "http2 = true")] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("larder.toml");
        let config = format!(
            "[[site]]\nhosts = [\"*\"]\n[[site.route]]\n[site.route.proxy]\nto = [\"{to}\"]\nproxy_protocol = \"v2\"\n{more}\n"
        );
        std::fs::write(&path, config).unwrap();
        let mut check = std::process::Command::new(crate::harness::server::binary());
        let out = check.args(["check", "--config"]).arg(&path).output().unwrap();
        let text = String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout);
        assert!(!out.status.success() && text.contains("an HTTP/2 connection carries several"), "{text}");
    }
}
