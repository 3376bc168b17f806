//! Row P6: the header of the PROXY protocol at the beginning of a connection, and connections without one.

use super::clients::telling;
use crate::harness::http2::Http2;
use crate::harness::secure::{Authority, counts};
use crate::harness::{Client, Larder, Origin, command, until};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpStream};
use std::os::unix::net::UnixStream;

const V1: &[u8] = b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\r\n";

/// A header of version 2.
fn v2(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let length = u16::try_from(block.len()).unwrap().to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &length, block].concat()
}

fn v2_of_v4(client: [u8; 4]) -> Vec<u8> {
    v2(0x21, 0x11, &[&client[..], &[10, 0, 0, 1], &[0xdc, 4, 1, 0xbb]].concat())
}

fn v2_of_v6(client: &str) -> Vec<u8> {
    let client = client.parse::<Ipv6Addr>().unwrap().octets();
    let longest = [0x04, 0x08, 0x00].into_iter().chain([0; 0x800]).collect();
    v2(0x21, 0x21, &[client.to_vec(), vec![0; 16], vec![0xdc, 4, 1, 0xbb], longest].concat())
}

fn larder(origin: &Origin, listen: &str, top: &str) -> Larder {
    Larder::configured(format!(
        "listen = [\"{listen}\"]\nworkers = 1\n[log]\naccess = \"access.log\"\nerror = \"error.log\"\n\
         format = \"{{client}} {{target}} {{tls_version}} {{tls_cipher}} {{tls_name}}\"\n{top}\n[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{}\"] }}\ncache.purge = {{ method = true }}\n",
        origin.url()
    ))
}

const HTTP: &str = "http+proxy://127.0.0.1:0";

/// Who the origin is told that asks, by a connection that begins with `header`.
fn asks(larder: &Larder, header: &[u8], lines: &str) -> String {
    let mut client = larder.client();
    let request = format!("GET /page HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
    client.send([header, request.as_bytes()].concat());
    who(&client.read().text())
}

/// The value of `X-Forwarded-For` in what was told.
fn who(report: &str) -> String {
    let mut fields = report.split('|').filter_map(|it| it.strip_prefix("X-Forwarded-For: "));
    fields.next().unwrap_or(report).to_owned()
}

/// Whether larder closes, without a word.
#[track_caller]
fn closes(stream: &mut TcpStream) {
    let mut text = Vec::new();
    stream.set_read_timeout(Some(crate::harness::TIMEOUT)).unwrap();
    match stream.read_to_end(&mut text) {
        Ok(_) => {}
        Err(error) => assert_eq!(std::io::ErrorKind::ConnectionReset, error.kind()),
    }
    assert_eq!("", String::from_utf8_lossy(&text));
}

#[test]
fn the_proxy_header_names_the_client() {
    let origin = telling();
    let larder = larder(&origin, HTTP, "");
    assert_eq!("192.0.2.7", asks(&larder, V1, ""));
    assert_eq!("2001:db8::7", asks(&larder, b"PROXY TCP6 2001:db8::7 ::1 56324 443\r\n", ""));
    assert_eq!("192.0.2.8", asks(&larder, &v2_of_v4([192, 0, 2, 8]), ""));
    assert_eq!("2001:db8::8", asks(&larder, &v2_of_v6("2001:db8::8"), ""));
    // The proxy's own, and those of whom it does not know: its address is all there is.
    for header in
        [v2(0x20, 0, b""), v2(0x21, 0, b""), b"PROXY UNKNOWN\r\n".to_vec(), v2(0x21, 0x31, &[0; 216])]
    {
        assert_eq!("127.0.0.1", asks(&larder, &header, ""));
    }
    assert_eq!(8, larder.counter("proxy_headers"));
    // The field is a client's own word still.
    assert_eq!("192.0.2.7", asks(&larder, V1, "X-Forwarded-For: 6.6.6.6\r\n"));
    let log = || std::fs::read_to_string(larder.folder.path().join("access.log")).unwrap();
    until("the log has all", || log().lines().count() == 9);
    let clients: Vec<String> = log().lines().map(|it| it.split(' ').next().unwrap().to_owned()).collect();
    let (known, own) = (["192.0.2.7", "2001:db8::7", "192.0.2.8", "2001:db8::8"], ["127.0.0.1"; 4]);
    assert_eq!([&known[..], &own, &["192.0.2.7"]].concat(), clients);
    assert!(log().lines().all(|it| it.ends_with("/page - - -")), "{}", log());
}

/// It may come in any pieces, and with anything behind it; one request after the other belongs to the same client.
#[test]
fn a_header_comes_byte_by_byte() {
    let origin = telling();
    let larder = larder(&origin, HTTP, "");
    for header in [V1.to_vec(), v2_of_v4([192, 0, 2, 7]), v2_of_v6("::ffff:192.0.2.7")] {
        let mut client = larder.client();
        for byte in &header {
            client.send([*byte]);
        }
        for byte in b"GET /page HTTP/1.1\r\nHost: h\r\n\r\n" {
            client.send([*byte]);
        }
        assert_eq!("192.0.2.7", who(&client.read().text()));
        assert_eq!("192.0.2.7", who(&client.get("/page").text()), "the next is the same client's");
        // Only the first bytes are a header.
        assert_eq!(400, client.send(V1).read().status);
    }
    let mut client = larder.client();
    let requests = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n";
    client.send([V1, requests].concat());
    assert_eq!(["192.0.2.7"; 2], [0; 2].map(|_| who(&client.read().text())));
}

#[test]
fn a_connection_without_a_proxy_header_is_closed_at_once() {
    let origin = telling();
    let larder = larder(&origin, HTTP, "");
    // Each kind is logged once a second.
    larder.hold();
    let too_long = [v2(0x20, 0, b""), vec![0; 4]].concat();
    let too_long = [&too_long[..14], &[0x10, 0]].concat();
    for (bytes, kind) in [
        (&b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"[..], "missing"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "missing"),
        (b"\x16\x03\x01\x02\x00", "missing"),
        (b"\0", "missing"),
        (b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", "malformed"),
        (b"PROXY TCP4 1.2.3 10.0.0.1 56324 443\r\n", "malformed"),
        (&[b'x'; 120].map(|it| it), "missing"),
        (&too_long, "malformed"),
        (&v2(0x22, 0x11, &[0; 12]), "malformed"),
    ] {
        let name = format!("proxy_{kind}");
        let before = larder.counter(&name);
        let mut client = larder.client();
        client.send(bytes);
        closes(&mut client.stream);
        assert_eq!(before + 1, larder.counter(&name), "{:?}", String::from_utf8_lossy(bytes));
    }
    // Who goes within is counted; who only looks is not.
    let client = larder.client().send(&V1[..20]).stream.try_clone().unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    counts(&larder, "proxy_cut", 1);
    drop(larder.client());
    assert_eq!("192.0.2.7", asks(&larder, V1, ""), "others are served");
    assert_eq!((1, 0), (larder.counter("proxy_cut"), larder.counter("proxy_headers") - 1));
    let log = || std::fs::read_to_string(larder.folder.path().join("error.log")).unwrap();
    let report = |why: &str| {
        let event = format!(" warn proxy-header why={why} from=127.0.0.1:");
        log().lines().filter(|it| it.contains(&event)).count()
    };
    until("the last is logged", || report("cut") == 1);
    assert_eq!([1, 1], ["missing", "malformed"].map(report), "{}", log());
}

#[test]
fn a_header_that_does_not_come_in_time() {
    let origin = telling();
    let larder = larder(&origin, HTTP, "");
    let (mut half, mut nothing) = (larder.client(), larder.client());
    half.send(&V1[..20]);
    counts(&larder, "connections_open", 2);
    larder.pass(9_000);
    half.send(&V1[20..21]);
    larder.pass(2_000);
    closes(&mut half.stream);
    closes(&mut nothing.stream);
    counts(&larder, "proxy_timeout", 2);
    assert_eq!(0, larder.counter("requests"));
}

/// Elsewhere nobody is believed to be a proxy.
#[test]
fn a_plain_listener_reads_no_header() {
    let origin = telling();
    let larder = larder(&origin, "127.0.0.1:0", "");
    for header in [V1.to_vec(), v2_of_v4([192, 0, 2, 7])] {
        let mut client = larder.client();
        client.send([&header[..], b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"].concat());
        assert_eq!(400, client.read().status);
    }
    assert_eq!(0, larder.counter("proxy_headers"));
}

#[test]
fn tls_and_http2_come_behind_it() {
    let (authority, origin) = (Authority::new(), telling());
    let top = format!("[tls]\ncertificates = [{}]", authority.sign("one", &["one.test"]));
    let larder = larder(&origin, "https+proxy://127.0.0.1:0", &top);
    let mut stream = TcpStream::connect(larder.address).unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in v2_of_v4([192, 0, 2, 7]) {
        stream.write_all(&[byte]).unwrap();
    }
    let mut client = authority.trusting().greet(stream, "one.test").unwrap();
    assert_eq!("192.0.2.7", who(&client.get("/page").text()));
    let log = || std::fs::read_to_string(larder.folder.path().join("access.log")).unwrap();
    until("the log has it", || log().ends_with('\n'));
    assert_eq!("192.0.2.7 /page TLSv1.3 TLS_AES_256_GCM_SHA384 one.test\n", log());
    // A handshake without a header is none.
    assert!(authority.trusting().connect(larder.address, "one.test").is_err());
    counts(&larder, "proxy_missing", 1);

    let clear = self::larder(&origin, HTTP, "");
    let mut stream = TcpStream::connect(clear.address).unwrap();
    stream.write_all(V1).unwrap();
    let mut client = Http2::over(stream, &[]);
    assert_eq!("192.0.2.7", who(&client.get("/page").text()));
    assert_eq!(1, clear.counter("http2_connections"));
}

#[test]
fn only_listed_proxies_may_send_a_proxy_header() {
    let origin = telling();
    let top = "[clients]\nproxies = [\"127.0.0.2\"]";
    let larder = larder(&origin, HTTP, top);
    let mut client = larder.client();
    client.send(V1);
    closes(&mut client.stream);
    counts(&larder, "proxy_refused", 1);
    let mut client = Client::connect_from(Ipv4Addr::new(127, 0, 0, 2), larder.address);
    assert_eq!("192.0.2.7", who(&client.send(V1).get("/page").text()));
    let log = || std::fs::read_to_string(larder.folder.path().join("error.log")).unwrap();
    until("it is logged", || log().contains(" warn proxy-header why=refused from=127.0.0.1:"));
    // A reload lets others in.
    let text = std::fs::read_to_string(larder.config()).unwrap();
    std::fs::write(larder.config(), text.replace("127.0.0.2", "127.0.0.0/8")).unwrap();
    larder.signal(libc::SIGHUP);
    until("it is read", || asks(&larder, V1, "") == "192.0.2.7");
}

/// The header's address is the peer's for everything behind: who is believed, and who may purge.
#[test]
fn the_address_of_the_proxy_header_is_the_peer_for_all_rules() {
    let origin = telling();
    let larder = larder(&origin, HTTP, "[clients]\ntrusted = [\"10.0.0.0/8\", \"127.0.0.1\"]");
    let field = "X-Forwarded-For: 6.6.6.6\r\n";
    assert_eq!("192.0.2.7", asks(&larder, V1, field));
    assert_eq!("6.6.6.6, 10.0.0.9", asks(&larder, &v2_of_v4([10, 0, 0, 9]), field));
    assert_eq!("6.6.6.6, 127.0.0.1", asks(&larder, &v2(0x20, 0, b""), field));
    let purge = |header: &[u8]| larder.client().send(header).request("PURGE", "/page", "", "").status;
    assert_eq!([403, 200], [purge(V1), purge(&v2(0x20, 0, b""))]);
}

#[test]
fn over_a_unix_socket() {
    let origin = telling();
    let larder =
        larder(&origin, "unix+proxy:web.sock", "[clients]\nproxies = [\"unix\"]\ntrusted = [\"unix\"]");
    let fetch = |header: &[u8]| {
        let mut stream = UnixStream::connect(larder.folder.path().join("web.sock")).unwrap();
        for byte in header {
            stream.write_all(&[*byte]).unwrap();
        }
        let lines = "X-Forwarded-For: 6.6.6.6\r\nConnection: close\r\n";
        write!(stream, "GET /page HTTP/1.1\r\nHost: h\r\n{lines}\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        who(text.split_once("\r\n\r\n").unwrap().1)
    };
    assert_eq!("192.0.2.7", fetch(V1));
    assert_eq!("2001:db8::7", fetch(&v2_of_v6("2001:db8::7")));
    // Without an address it is whoever connects to the socket, who is believed here.
    assert_eq!("6.6.6.6", fetch(&v2(0x20, 0, b"")));
}

#[test]
fn check_reports_errors_and_warnings_of_proxy_listeners() {
    #[track_caller]
    fn check(top: &str, cache: &str, code: i32, expect: &str) {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "{top}\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"127.0.0.1:9\"] }}\n{cache}\n"
        );
        std::fs::write(folder.path().join("larder.toml"), text).unwrap();
        let ended = command::run(folder.path(), &["check", "-c", "larder.toml"]);
        let outcome = format!("{}{}", ended.out, ended.err);
        assert_eq!(code, ended.code, "{outcome}");
        assert!(outcome.contains(expect), "{outcome}");
        assert!(!expect.is_empty() || !outcome.contains("warning"), "{outcome}");
    }
    let listen = |it: &str| format!("listen = [\"{it}\"]");
    check(&listen("http+proxy://127.0.0.1:8080"), "", 0, "listen   http+proxy://127.0.0.1:8080\n");
    check(&listen("unix+proxy:web.sock"), "", 0, "listen   unix+proxy:web.sock\n");
    check(
        &listen("http+proxy:127.0.0.1:8080"),
        "",
        2,
        "listen: found [\"http+proxy:127.0.0.1:8080\"]; allowed: ADDR:PORT such as ",
    );
    check(&listen("https+proxy://:8443"), "", 2, "an https address requires a certificate");
    check(
        &listen("http+proxy://127.0.0.1:8080\", \"127.0.0.1:8080"),
        "",
        2,
        "listen: duplicate address 127.0.0.1:8080",
    );
    let proxies = |listen: &str, it: &str| format!("listen = [\"{listen}\"]\n[clients]\nproxies = [{it}]");
    check(&proxies(HTTP, "\"10.0.0.0/8\""), "", 0, "");
    check(
        &proxies(HTTP, "\"10.0.0.0/33\""),
        "",
        2,
        "clients.proxies: found [\"10.0.0.0/33\"]; allowed: a network such as",
    );
    check(&proxies(HTTP, ""), "", 2, "an empty list rejects every connection");
    check(
        &proxies("127.0.0.1:80", "\"10.0.0.0/8\""),
        "",
        0,
        "warning: larder.toml:3: clients.proxies: no address of listen requires a PROXY protocol header",
    );
    check(
        &proxies("unix+proxy:a", "\"10.0.0.0/8\""),
        "",
        0,
        "every connection to unix+proxy:a is rejected; \"unix\" allows connections to Unix sockets",
    );
    check(
        "",
        "upgrade = [\"websocket\", \"H2C\"]",
        2,
        "larder.toml:7: site.route.upgrade: \"h2c\" cannot be upgraded to",
    );
    check(
        "",
        "cache = { key = { ignore_host = true } }",
        0,
        "warning: larder.toml:7: cache.key.ignore_host: the first host is \"*\"",
    );
    check(
        "[cache.key]\nignore_host = true",
        "",
        0,
        "warning: larder.toml:2: cache.key.ignore_host: the first host is \"*\"",
    );
}
