//! TLS at the front: certificates by name, versions, sessions, clients' certificates, new certificates at run time, and
//! clients that do not speak TLS.

use crate::harness::command;
use crate::harness::origin::Script;
use crate::harness::secure::{Authority, End, Trusting, counts, der};
use crate::harness::{Client, Larder, Origin, until};
use rustls::version::{TLS12, TLS13};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

mod failures;
mod shown;
mod sites;

/// larder before `origin` by TLS, with these certificates and more of `[tls]`.
fn before(origin: &Origin, certificates: &[String], more: &str) -> Larder {
    let url = format!("http://{}", origin.address);
    let list = certificates.join(", ");
    Larder::configured(format!(
        "listen = [\"https://127.0.0.1:0\"]\nworkers = 2\n[tls]\ncertificates = [{list}]\n{more}\n[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{url}\"] }}\n"
    ))
}

fn pages() -> Origin {
    Origin::new(|it| {
        let size: usize = it.target().trim_start_matches('/').parse().unwrap_or(5);
        let body: String = (0..size).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
        format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {size}\r\n\r\n{body}")
    })
}

/// The output of `openssl s_client`.
fn openssl(larder: &Larder, arguments: &[&str], sends: &str) -> String {
    let at = larder.address.to_string();
    let mut child = Command::new("openssl")
        .args(["s_client", "-connect", &at])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tests/install has openssl");
    child.stdin.take().unwrap().write_all(sends.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned()
}

#[test]
fn each_name_has_its_certificate() {
    let (authority, origin) = (Authority::new(), pages());
    let first = authority.sign("one", &["one.test", "127.0.0.1"]);
    let second = authority.sign("two", &["*.two.test", "three.test"]);
    let larder = before(&origin, &[first, second], "");
    for (name, file) in
        [("one.test", "one"), ("a.two.test", "two"), ("three.test", "two"), ("127.0.0.1", "one")]
    {
        let mut it = authority.trusting().connect(larder.address, name).unwrap();
        assert_eq!(der(&authority.path(&format!("{file}.pem"))), it.shown(), "{name}");
        assert_eq!(200, it.get("/").status);
    }
    // A star stands for one label; who asks for what is of nobody is shown the first.
    for name in ["two.test", "a.b.two.test", "four.test"] {
        assert!(authority.trusting().connect(larder.address, name).is_err(), "{name}");
        let output = openssl(&larder, &["-servername", name], "Q");
        assert!(output.contains("subject=CN = one"), "{name}: {output}");
    }
    counts(&larder, "tls_failed_refused", 3);
    counts(&larder, "tls_unknown_names", 3);
}

#[test]
fn both_versions_are_accepted_and_sessions_resumed() {
    let (authority, origin) = (Authority::new(), pages());
    let larder = before(&origin, &[authority.sign("one", &["one.test"])], "");
    for (version, counter) in [(&TLS12, "tls_12"), (&TLS13, "tls_13")] {
        let client = authority.trusting().only(version);
        for resumed in [false, true] {
            let mut it = client.connect(larder.address, "one.test").unwrap();
            assert_eq!("aaaaa".len(), it.get("/").body.len());
            assert_eq!(resumed, it.is_resumed(), "{version:?}");
        }
        assert_eq!(2, larder.counter(counter));
    }
    assert_eq!((2, 2), (larder.counter("tls_handshakes"), larder.counter("tls_resumed")));
    assert!(larder.counter("tls_expires_seconds") > 0);
}

#[test]
fn openssl_agrees_on_version_cipher_and_extensions() {
    let (authority, origin) = (Authority::new(), pages());
    let larder = before(&origin, &[authority.sign("one", &["one.test"])], "");
    let output = openssl(&larder, &["-tls1_3", "-alpn", "http/1.1"], "Q");
    assert!(output.contains("TLSv1.3") && output.contains("ALPN protocol: http/1.1"), "{output}");
    let output = openssl(&larder, &["-tls1_2"], "Q");
    assert!(output.contains("Secure Renegotiation IS supported"), "{output}");
    assert!(
        output.contains("Compression: NONE") && output.contains("Extended master secret: yes"),
        "{output}"
    );
    let reused = openssl(&larder, &["-tls1_2", "-reconnect"], "Q").matches("Reused, TLSv1.2").count();
    assert_eq!(5, reused);
    // By a session of the server's where the client wants no ticket.
    let reused = openssl(&larder, &["-tls1_2", "-reconnect", "-no_ticket"], "Q").matches("Reused").count();
    assert_eq!(5, reused);
    for old in ["-tls1", "-tls1_1"] {
        let output = openssl(&larder, &[old, "-cipher", "DEFAULT@SECLEVEL=0"], "Q");
        assert!(output.contains("SSL alert number"), "{old}: {output}");
    }
    counts(&larder, "tls_failed_version", 2);
    let output = openssl(&larder, &["-tls1_2", "-cipher", "AES128-SHA"], "Q");
    assert!(output.contains("SSL alert number 40"), "{output}");
    counts(&larder, "tls_failed_cipher", 1);
    openssl(&larder, &["-alpn", "ftp"], "Q");
    counts(&larder, "tls_failed_protocol", 1);
}

#[test]
fn the_lowest_version_is_obeyed() {
    let (authority, origin) = (Authority::new(), pages());
    let larder = before(&origin, &[authority.sign("one", &["one.test"])], "min_version = \"1.3\"");
    assert!(authority.trusting().only(&TLS12).connect(larder.address, "one.test").is_err());
    assert_eq!(200, authority.trusting().connect(larder.address, "one.test").unwrap().get("/").status);
    assert_eq!(1, larder.counter("tls_failed_version"));
}

#[test]
fn clients_show_certificates_where_they_are_asked_to() {
    let (authority, other, origin) = (Authority::new(), Authority::new(), pages());
    let certificate = authority.sign("one", &["one.test"]);
    authority.sign("me", &["me.test"]);
    other.sign("them", &["them.test"]);
    let ca = authority.path("ca.pem");
    let check = |larder: &Larder, client: &Trusting, served: bool| {
        // The client is done before the server has looked at its certificate: a request tells.
        let it = client.connect(larder.address, "one.test").and_then(|mut it| {
            it.stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")?;
            let mut some = [0; 12];
            it.stream.read_exact(&mut some).map(|()| some)
        });
        assert_eq!(served, it.is_ok_and(|it| it == *b"HTTP/1.1 200"));
    };
    for version in [&TLS12, &TLS13] {
        let none = authority.trusting().only(version);
        let good = none.clone().showing(&authority, "me");
        let bad = none.clone().showing(&other, "them");
        let larder = before(
            &origin,
            std::slice::from_ref(&certificate),
            &format!("client_auth = \"required\"\nclient_ca = {ca:?}"),
        );
        check(&larder, &good, true);
        check(&larder, &none, false);
        check(&larder, &bad, false);
        counts(&larder, "tls_failed_certificate", 2);
        let larder = before(
            &origin,
            std::slice::from_ref(&certificate),
            &format!("client_auth = \"optional\"\nclient_ca = {ca:?}"),
        );
        check(&larder, &good, true);
        check(&larder, &none, true);
        check(&larder, &bad, false);
    }
}

/// Whoever withdraws an authority by replacing the file has done it.
#[test]
fn the_client_ca_is_replaced_while_larder_serves() {
    let (authority, other, origin) = (Authority::new(), Authority::new(), pages());
    let certificate = authority.sign("one", &["one.test"]);
    authority.sign("me", &["me.test"]);
    let ca = authority.path("clients.pem");
    std::fs::copy(authority.path("ca.pem"), &ca).unwrap();
    let larder = before(
        &origin,
        std::slice::from_ref(&certificate),
        &format!("client_auth = \"required\"\nclient_ca = {ca:?}"),
    );
    let me = authority.trusting().showing(&authority, "me");
    let is_served = || {
        // A new one each time, so that nothing is resumed.
        let it = me.clone().only(&TLS13).connect(larder.address, "one.test").and_then(|mut it| {
            it.stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")?;
            let mut some = [0; 12];
            it.stream.read_exact(&mut some).map(|()| some)
        });
        it.is_ok_and(|it| it == *b"HTTP/1.1 200")
    };
    assert!(is_served());
    std::fs::copy(other.path("ca.pem"), &ca).unwrap();
    until("it is taken over", || !is_served());
}

#[test]
fn new_certificates_are_taken_while_it_serves() {
    let (authority, origin) = (Authority::new(), pages());
    let larder = before(&origin, &[authority.sign("one", &["one.test"])], "");
    let before = der(&authority.path("one.pem"));
    let mut old = authority.trusting().connect(larder.address, "one.test").unwrap();
    assert_eq!((before.clone(), 200), (old.shown(), old.get("/").status));
    let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let load = {
        let (stop, served, client, address) =
            (stop.clone(), served.clone(), authority.trusting(), larder.address);
        std::thread::spawn(move || {
            while !stop.load(SeqCst) {
                assert_eq!(200, client.connect(address, "one.test").unwrap().get("/").status);
                served.fetch_add(1, SeqCst);
            }
        })
    };
    // Without a certificate that fits the key, the ones before stay.
    let key = std::fs::read(authority.path("one.key")).unwrap();
    authority.sign("one", &["one.test"]);
    let (new, new_key) = (der(&authority.path("one.pem")), std::fs::read(authority.path("one.key")).unwrap());
    std::fs::write(authority.path("one.key"), key).unwrap();
    counts(&larder, "config_rejections", 1);
    assert_eq!(before, authority.trusting().connect(larder.address, "one.test").unwrap().shown());
    std::fs::write(authority.path("one.key"), new_key).unwrap();
    until("the new one is shown", || {
        authority.trusting().connect(larder.address, "one.test").unwrap().shown() == new
    });
    let so_far = served.load(SeqCst);
    until("it continues to serve", || served.load(SeqCst) > so_far);
    stop.store(true, SeqCst);
    load.join().unwrap();
    assert_eq!(200, old.get("/").status, "the connection goes on");
}

/// At a reload as at a look at the files.
#[test]
fn a_broken_key_leaves_the_one_before_in_use() {
    let (authority, origin) = (Authority::new(), pages());
    let log = "[log]\nerror = \"error.log\"";
    let larder = before(&origin, &[authority.sign("one", &["one.test"])], log);
    let is_served =
        || authority.trusting().connect(larder.address, "one.test").unwrap().get("/").status == 200;
    let key = std::fs::read(authority.path("one.key")).unwrap();
    std::fs::write(authority.path("one.key"), &key[..key.len() / 2]).unwrap();
    counts(&larder, "config_rejections", 1);
    let health = || larder.admin_get("/api/v1/health").text();
    let logged = || larder.error_log();
    until("it is shown", || health().contains("one.key"));
    until("it is logged", || logged().contains(" certificates-rejected "));
    assert!(is_served());
    larder.signal(libc::SIGHUP);
    counts(&larder, "config_rejections", 2);
    assert!(is_served() && health().contains("one.key"), "{}", health());
    std::fs::write(authority.path("one.key"), &key).unwrap();
    until("it is read", || !health().contains("one.key"));
    assert!(is_served());
}

#[test]
fn a_rejected_reload_changes_no_certificate_and_the_files_in_use_are_still_watched() {
    let (authority, origin) = (Authority::new(), pages());
    let one = authority.sign("one", &["one.test"]);
    let larder = before(&origin, std::slice::from_ref(&one), "[log]\nerror = \"error.log\"");
    let (old, text) = (der(&authority.path("one.pem")), std::fs::read_to_string(larder.config()).unwrap());
    let shown = || authority.trusting().connect(larder.address, "one.test").unwrap().shown();
    // The certificate can be read, and a log cannot be opened.
    let other = authority.sign("other", &["one.test"]);
    let no_log = text.replace(&one, &other).replace("\"error.log\"", "\"missing/error.log\"");
    // The certificate cannot be read.
    let no_file = text.replace("one.pem", "missing.pem").replace("one.key", "missing.key");
    for (number, rejected) in [no_log, no_file].iter().enumerate() {
        std::fs::write(larder.config(), rejected).unwrap();
        larder.signal(libc::SIGHUP);
        counts(&larder, "config_rejections", number as u64 + 1);
        assert_ne!(text, *rejected);
        assert!(shown() == old, "{rejected}");
    }
    authority.sign("one", &["one.test"]);
    let new = der(&authority.path("one.pem"));
    until("the renewed certificate is in use", || shown() == new);
}

#[test]
fn a_connection_without_tls_is_rejected() {
    let (authority, origin) = (Authority::new(), pages());
    let larder = before(&origin, &[authority.sign("one", &["one.test"])], "");
    let plain = Client::connect(larder.address).get("/");
    assert_eq!((400, true), (plain.status, plain.complete));
    assert!(plain.text().contains("requires HTTPS"), "{}", plain.text());
    counts(&larder, "tls_failed_plain", 1);
    let raw = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(larder.address).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    };
    for (number, garbage) in
        [&[0u8; 64][..], &[0x80; 300], b"\x16\x03\x01\x00\x05hello", &[0xff; 100_000]].iter().enumerate()
    {
        let answer = raw(garbage);
        assert!(answer.is_empty() || answer[0] == 21, "an alert: {answer:?}");
        counts(&larder, "tls_failed_malformed", number as u64 + 1);
    }
    let mut half = TcpStream::connect(larder.address).unwrap();
    half.write_all(b"\x16\x03\x01\x02\x00\x01").unwrap();
    drop(half);
    counts(&larder, "tls_failed_cut", 1);
    // The others notice nothing.
    assert_eq!(200, authority.trusting().connect(larder.address, "one.test").unwrap().get("/").status);
}

#[test]
fn a_handshake_has_a_deadline() {
    let (authority, origin) = (Authority::new(), pages());
    let larder = before(&origin, &[authority.sign("one", &["one.test"])], "");
    let mut silent = TcpStream::connect(larder.address).unwrap();
    let mut slow = TcpStream::connect(larder.address).unwrap();
    slow.write_all(b"\x16\x03\x01\x02\x00\x01").unwrap();
    until("both are there", || larder.counter("connections_open") == 2);
    larder.pass(11_000);
    for it in [&mut silent, &mut slow] {
        assert_eq!(0, it.read(&mut [0; 10]).unwrap_or(0));
    }
    counts(&larder, "tls_failed_timeout", 2);
    counts(&larder, "connections_open", 0);
}

#[test]
fn only_a_complete_response_ends_with_a_close_notify() {
    let authority = Authority::new();
    let origin = Origin::scripted(|it| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\n";
        match it.target() {
            "/short" => {
                vec![Script::Send(format!("{head}Content-Length: 50\r\n\r\nabc").into()), Script::Close]
            }
            "/chunks" => {
                let text = format!("{head}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
                vec![Script::Send(text.into()), Script::Close]
            }
            _ => vec![Script::Send(format!("{head}Content-Length: 3\r\n\r\nabc").into())],
        }
    });
    let larder = before(&origin, &[authority.sign("one", &["one.test"])], "");
    let check = |version: &str, target: &str, lines: &str, expect: End| {
        let mut it = authority.trusting().connect(larder.address, "one.test").unwrap();
        it.send(format!("GET {target} HTTP/1.{version}\r\nHost: h\r\n{lines}\r\n"));
        let (bytes, end) = it.rest();
        let is_begun = bytes.starts_with(b"HTTP/1.1 200");
        assert!(end == End::Cut || is_begun, "{}", String::from_utf8_lossy(&bytes));
        assert_eq!(expect, end, "{target} {version}");
    };
    check("1", "/whole", "Connection: close\r\n", End::Said);
    check("1", "/short", "", End::Cut);
    check("1", "/chunks", "", End::Cut);
    check("0", "/whole", "", End::Said);
    check("0", "/chunks", "", End::Cut);
    // Who is idle for too long is told so.
    let mut idle = authority.trusting().connect(larder.address, "one.test").unwrap();
    assert_eq!(200, idle.get("/whole").status);
    // It rests from when larder has seen that its answer is sent.
    until("it has rested for too long", || {
        larder.pass(61_000);
        larder.counter("client_idle_timeouts") == 1
    });
    assert_eq!((Vec::new(), End::Said), idle.rest());
}

#[test]
fn bodies_arrive_byte_by_byte() {
    let (authority, origin) = (Authority::new(), pages());
    let larder = before(&origin, &[authority.sign("one", &["one.test"])], "");
    for version in [&TLS12, &TLS13] {
        let mut it = authority.trusting().only(version).connect(larder.address, "one.test").unwrap();
        for size in [1, 1795, 16_383, 16_384, 16_385, 70_000, 5_000_000] {
            for _ in 0..2 {
                let body = it.get(&format!("/{size}")).body;
                assert_eq!(size, body.len());
                assert!(body.iter().enumerate().all(|(at, it)| *it == b'a' + (at % 23) as u8), "{size}");
            }
        }
        // Pipelined, and read only when all were asked for.
        let asked = "GET /1795 HTTP/1.1\r\nHost: h\r\n\r\n".repeat(200);
        it.send(&asked);
        for _ in 0..200 {
            assert_eq!(1795, it.read().body.len());
        }
    }
    assert!(larder.counter("cache_hits") > 400);
}

#[test]
fn a_slow_reader_takes_little_memory_and_gets_the_whole_body() {
    const SIZE: usize = 20_000_000;
    let (authority, origin) = (Authority::new(), pages());
    let larder = before(&origin, &[authority.sign("one", &["one.test"])], "");
    let mut it = authority.trusting().connect(larder.address, "one.test").unwrap();
    assert_eq!(SIZE, it.get(&format!("/{SIZE}")).body.len());
    it.send(format!("GET /{SIZE} HTTP/1.1\r\nHost: h\r\n\r\n"));
    // The kernel's buffers are full, and what larder has sealed beyond waits with it.
    let sent = || larder.counter("client_bytes_sent");
    let mut before = 0;
    until("it sends no more", || std::mem::replace(&mut before, sent()) == before);
    assert_eq!(SIZE, it.read().body.len());
}

#[test]
fn a_request_body_comes_by_tls() {
    let authority = Authority::new();
    let origin = Origin::new(|it| {
        let length = it.body.len().to_string();
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{length}", length.len())
    });
    let larder = before(&origin, &[authority.sign("one", &["one.test"])], "");
    let mut it = authority.trusting().connect(larder.address, "one.test").unwrap();
    for size in [1, 100_000, 3_000_000] {
        it.send(format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {size}\r\n\r\n{}", "x".repeat(size)));
        assert_eq!(size.to_string(), it.read().text());
        // The body and what comes after it in one record.
        it.send(
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcGET /next HTTP/1.1\r\nHost: h\r\n\r\n",
        );
        assert_eq!("3", it.read().text());
        assert_eq!("0", it.read().text());
    }
}

#[test]
fn the_scheme_is_part_of_the_key_and_sent_to_the_origin() {
    let authority = Authority::new();
    let origin = Origin::new(|it| {
        let proto = it.field("x-forwarded-proto").unwrap_or("").to_owned();
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n";
        format!("{head}Content-Length: {}\r\n\r\n{proto}", proto.len())
    });
    let socket = authority.path("clear.sock");
    let url = format!("http://{}", origin.address);
    let list = authority.sign("one", &["one.test"]);
    let larder = Larder::configured(format!(
        "listen = [\"https://127.0.0.1:0\", \"unix:{}\"]\n[tls]\ncertificates = [{list}]\n[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{url}\"] }}\n",
        socket.display()
    ));
    let clear = || {
        let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        stream.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let mut it = authority.trusting().connect(larder.address, "one.test").unwrap();
    for hit in [false, true] {
        let found = it.get("/a");
        assert_eq!(("https".to_owned(), hit), (found.text(), found.is_hit()));
        let found = clear();
        assert!(found.ends_with("\r\n\r\nhttp"), "{found}");
        assert_eq!(hit, found.contains("; hit"), "{found}");
    }
    it.send("GET https://h/a HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(it.read().is_hit());
    // Either name reaches both.
    let purged = larder.admin_post("/cache/purge", "{\"url\":\"http://h/a\",\"wait\":true}");
    assert_eq!(200, purged.status, "{purged:?}");
    assert!(!it.get("/a").is_hit() && !clear().contains("; hit"));
    it.send("GET http://h/a HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(421, it.read().status);
}

#[test]
fn a_trial_needs_no_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "trial").unwrap();
    let root = folder.path().display().to_string();
    let serve = |listen: &[&str]| {
        let begin = ["serve", &root, "--tls-self-signed", "--admin", "127.0.0.1:0"];
        Larder::command(&[&begin[..], listen].concat())
    };
    // An address is of TLS there, unless it says otherwise.
    for listen in ["https://127.0.0.1:0", "127.0.0.1:0"] {
        let larder = serve(&["--listen", listen]);
        let url = format!("https://localhost:{}/a.txt", larder.address.port());
        let out = Command::new("curl").args(["-sk", &url]).output().expect("tests/install has curl");
        assert_eq!("trial", String::from_utf8_lossy(&out.stdout), "{listen}");
        let output = openssl(&larder, &[], "Q");
        let out = larder.printed();
        assert!(output.contains("larder, for a trial") && out.contains("(SHA-256 "), "{out}{output}");
    }
    let clear = serve(&["--listen", "http://127.0.0.1:0", "--listen", "https://127.0.0.1:0"]);
    assert_eq!("trial", Client::connect(clear.address).get("/a.txt").text());
}

/// A successful OCSP response, whose signed part is a text.
fn ocsp(text: &str) -> Vec<u8> {
    let element = |tag: u8, parts: &[&[u8]]| {
        let content = parts.concat();
        [&[tag, u8::try_from(content.len()).unwrap()], &content[..]].concat()
    };
    let basic =
        element(0x30, &[&element(0x30, &[text.as_bytes()]), &element(0x30, &[]), &element(3, &[&[0]])]);
    let kind = element(6, &[&[0x2b, 6, 1, 5, 5, 7, 48, 1, 1]]);
    let typed = element(0x30, &[&kind, &element(4, &[&basic])]);
    element(0x30, &[&element(0x0a, &[&[0]]), &element(0xa0, &[&typed])])
}

#[test]
fn the_ocsp_response_is_stapled_and_reloaded() {
    let (authority, origin) = (Authority::new(), pages());
    let certificate = authority.sign("one", &["one.test"]);
    let staple = authority.path("one.ocsp");
    std::fs::write(&staple, ocsp("said at first")).unwrap();
    let with_it = certificate.replace(" }", &format!(", ocsp = {staple:?} }}"));
    let larder = before(&origin, &[with_it], "");
    let shown = |version: &str, text: &str| {
        let output = openssl(&larder, &[version, "-status", "-msg", "-servername", "one.test"], "Q");
        let hex: String = text.bytes().map(|it| format!("{it:02x}")).collect();
        (output.split_whitespace().collect::<String>().contains(&hex), output)
    };
    for version in ["-tls1_2", "-tls1_3"] {
        let (is_shown, output) = shown(version, "said at first");
        assert!(is_shown, "{version}: {output}");
    }
    // Nobody who does not ask.
    assert!(!openssl(&larder, &["-tls1_2", "-msg"], "Q").contains("CertificateStatus"));
    std::fs::write(&staple, ocsp("said later")).unwrap();
    until("the new one is stapled", || shown("-tls1_3", "said later").0);
    // What is none is not taken over.
    std::fs::write(&staple, "noise").unwrap();
    until("that is told", || larder.counter("config_rejections") >= 1);
    assert!(shown("-tls1_3", "said later").0);
}

#[test]
fn the_access_log_has_the_tls_facts_of_a_client() {
    let (authority, origin) = (Authority::new(), pages());
    let certificate = authority.sign("one", &["one.test"]);
    let log = authority.path("access.log");
    let format = "{target} {tls_version} {tls_cipher} {tls_name} {tls_client}";
    let url = format!("http://{}", origin.address);
    let ca = authority.path("ca.pem");
    authority.sign_with("me", &["me.test"], |it| {
        it.distinguished_name.push(rcgen::DnType::CommonName, "ann, CN=root");
    });
    let larder = Larder::configured(format!(
        "listen = [\"https://127.0.0.1:0\"]\n[log]\naccess = {log:?}\nformat = {format:?}\n[tls]\ncertificates = [{certificate}]\n\
         client_auth = \"optional\"\nclient_ca = {ca:?}\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{url}\"] }}\n"
    ));
    for (version, target) in [(&TLS12, "/12"), (&TLS13, "/13")] {
        let client = authority.trusting().only(version);
        let shows = client.clone().showing(&authority, "me");
        assert_eq!(200, shows.connect(larder.address, "one.test").unwrap().get("/me").status);
        assert_eq!(200, client.connect(larder.address, "one.test").unwrap().get(target).status);
    }
    let text = || std::fs::read_to_string(&log).unwrap_or_default();
    until("all are told of", || text().lines().count() == 4);
    let text = text();
    for start in ["/12 TLSv1.2 TLS_ECDHE_", "/13 TLSv1.3 TLS_AES_"] {
        assert!(text.lines().any(|it| it.starts_with(start) && it.ends_with(" one.test -")), "{text}");
        let shown = r"CN=ann\x5c,\x20CN\x5c=root";
        assert_eq!(
            2,
            text.lines().filter(|it| it.starts_with("/me ") && it.contains(shown)).count(),
            "{text}"
        );
    }
}

/// With this of `[tls]` both `check` and `run` refuse the configuration, and say this.
#[track_caller]
fn refuses_to_run(folder: &std::path::Path, tls: &str, expect: &str) {
    let site = "[[site]]\nhosts = \"*\"\nroute = [{ proxy = { to = \":1\" } }]\n[admin]\nenabled = false\n";
    let text = format!("listen = \"https://127.0.0.1:0\"\n{tls}\n{site}");
    std::fs::write(folder.join("larder.toml"), text).unwrap();
    for verb in ["check", "run"] {
        let ended = command::run(folder, &[verb]);
        assert!(ended.code == 2 && ended.err.contains(expect), "{verb} {tls}: {ended:?}");
    }
}

#[test]
fn wrong_certificates_are_rejected_with_the_reason() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (good, strange) = (authority.sign("one", &["one.test"]), other.sign("two", &["two.test"]));
    let folder = tempfile::tempdir().unwrap();
    let check = |tls: &str, expect: &str| refuses_to_run(folder.path(), tls, expect);
    let at = |it: &str| authority.path(it);
    check("", "an https address requires a certificate");
    check("[[tls.certificates]]\ncert = \"a\"", "missing; a certificate requires cert");
    check(
        "[[tls.certificates]]\ncert = \"a\"\nkey = \"b\"",
        "larder.toml:3: tls.certificates.cert: ./a: no such file or directory\n",
    );
    let pair = |cert: &std::path::Path, key: &std::path::Path| {
        format!("[tls]\ncertificates = [{{ cert = {cert:?}, key = {key:?} }}]")
    };
    check(&pair(&at("one.pem"), &other.path("two.key")), "is the key of another certificate");
    check(&pair(&at("one.key"), &at("one.key")), "/one.key contains no certificate but a private key");
    check(&pair(&at("one.pem"), &at("one.pem")), "larder.toml:3: tls.certificates.key: ");
    std::fs::write(at("noise"), [7; 300]).unwrap();
    std::fs::write(at("later"), [0x30, 3, 0x0a, 1, 3]).unwrap();
    for (file, expect) in
        [("noise", "/noise is not an OCSP response"), ("later", "asks to retry later (3); fetch it again")]
    {
        let files = format!("cert = {:?}, key = {:?}, ocsp = {:?}", at("one.pem"), at("one.key"), at(file));
        check(&format!("[tls]\ncertificates = [{{ {files} }}]"), expect);
        check(&format!("[tls]\ncertificates = [{{ {files} }}]"), "larder.toml:3: tls.certificates.ocsp: ");
    }
    let folder_as_key = format!("cert = {:?}, key = {:?}", at("one.pem"), folder.path());
    check(&format!("[tls]\ncertificates = [{{ {folder_as_key} }}]"), "is a directory; expected a PEM file");
    let pipe = at("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    check(&pair(&pipe, &at("one.key")), "is not a regular file");
    let encrypted = at("encrypted.key");
    std::fs::write(
        &encrypted,
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    )
    .unwrap();
    check(&pair(&at("one.pem"), &encrypted), "is encrypted");
    check(
        &format!("[tls]\nclient_auth = \"required\"\ncertificates = [{good}]"),
        "set the CA that signs them",
    );
    check(
        &format!(
            "[tls]\nclient_auth = \"required\"\nclient_ca = {:?}\ncertificates = [{strange}]",
            at("one.key")
        ),
        "contains no certificate; tls.client_ca",
    );
}

#[test]
fn a_wrong_certificate_is_reported_with_its_place_by_check_and_reload() {
    let (authority, origin) = (Authority::new(), pages());
    let larder = before(&origin, &[authority.sign("one", &["one.test"])], "");
    let admin = |method: &str, path: &str, body: serde_json::Value| {
        let body = body.to_string();
        let answer = larder.admin_send(method, &format!("/api/v1/config{path}"), &body).read();
        (answer.status, serde_json::from_str::<serde_json::Value>(&answer.text()).unwrap())
    };
    let report: serde_json::Value = serde_json::from_str(&larder.admin_get("/api/v1/config").text()).unwrap();
    let text = report["text"].as_str().unwrap();
    let key = authority.path("one.key").display().to_string();
    std::fs::write(authority.path("none.key"), "no key\n").unwrap();
    let wrong = text.replace(&key, &authority.path("none.key").display().to_string());
    assert_ne!(text, wrong);
    let line = 1 + wrong.lines().position(|it| it.contains("none.key")).unwrap();
    let column = wrong.lines().nth(line - 1).unwrap().find("key = ").unwrap();
    let check = |problem: &serde_json::Value| {
        assert_eq!(
            (&serde_json::json!(line), &serde_json::json!("tls.certificates.key")),
            (&problem["line"], &problem["key"]),
            "{problem}"
        );
        assert!(problem["column"].as_u64().unwrap() as usize > column, "{problem}");
        assert!(
            problem["message"].as_str().unwrap().contains("/none.key contains no private key"),
            "{problem}"
        );
    };
    let (status, checked) = admin("POST", "/check", serde_json::json!({ "text": wrong }));
    assert_eq!((200, &serde_json::json!(false)), (status, &checked["ok"]), "{checked}");
    check(&checked["problems"][0]);
    let (status, put) = admin("PUT", "", serde_json::json!({ "text": wrong, "base": report["hash"] }));
    assert_eq!(422, status, "{put}");
    check(&put["problems"][0]);
    assert_eq!(200, authority.trusting().connect(larder.address, "one.test").unwrap().get("/").status);
}

/// What a session takes is told as what it is: in sum the parts are what the kernel says.
#[test]
fn tls_sessions_are_counted_in_the_reported_memory() {
    const MANY: u64 = 600;
    let (authority, origin) = (Authority::new(), pages());
    // So many handshakes may take longer than the first of these clients may be silent by default.
    let limits = "[limits]\nhead_timeout = \"10m\"";
    let larder = before(&origin, &[authority.sign("one", &["one.test"])], limits);
    let untold = || {
        let text = larder.admin_get("/cache/stats").text();
        let memory = &serde_json::from_str::<serde_json::Value>(&text).unwrap()["memory"];
        memory["rss_bytes"].as_i64().unwrap() - memory["attributed_bytes"].as_i64().unwrap()
    };
    let trusting = authority.trusting();
    let one = || trusting.connect(larder.address, "one.test").unwrap();
    assert_eq!(200, one().get("/").status, "what is made once is there");
    let before = untold();
    let open: Vec<_> = (0..MANY).map(|_| one()).collect();
    counts(&larder, "tls_open", MANY);
    // Some 4.5 KB each were told of by nobody.
    let each = (untold() - before) / MANY as i64;
    assert!(each < 1500, "{each} bytes of each connection are told as nothing");
    drop(open);
    counts(&larder, "tls_open", 0);
    assert_eq!(0, larder.counter("tls_waiting_bytes"));
}

#[test]
fn explain_predicts_the_outcome_for_a_url_of_the_other_scheme() {
    let explain = |larder: &Larder, url: &str| -> serde_json::Value {
        let body = serde_json::json!({ "url": url }).to_string();
        serde_json::from_str(&larder.admin_post("/api/v1/explain", &body).text()).unwrap()
    };
    // Behind "larder refuses it with 421: ".
    let sentence = |explanation: &serde_json::Value| {
        explanation["verdict"]["sentence"].as_str().unwrap().split_once(": ").unwrap().1.to_owned()
    };
    let (authority, origin) = (Authority::new(), pages());
    // In clear alone, as behind a proxy that ends TLS.
    let larder = Larder::before(&origin, "");
    larder.get("/9");
    let mut client = larder.client();
    client.send("GET https://h/9 HTTP/1.1\r\nHost: h\r\n\r\n");
    let seen = client.read();
    let explanation = explain(&larder, "https://h/9");
    assert_eq!(
        (421, 421),
        (u64::from(seen.status), explanation["verdict"]["status"].as_u64().unwrap()),
        "{explanation}"
    );
    assert!(seen.text().contains(&sentence(&explanation)), "{explanation}");
    let change =
        "Explain http://h/9 instead, as requested by a proxy in front of larder that terminates TLS: hit.";
    assert_eq!(change, explanation["change"].as_str().unwrap());
    assert_eq!("hit", explain(&larder, "http://h/9")["verdict"]["name"]);
    // By TLS alone.
    let larder = before(&origin, &[authority.sign("one", &["h"])], "");
    let seen = larder.get("/9");
    let explanation = explain(&larder, &format!("http://h:{}/9", larder.address.port()));
    assert_eq!(
        (400, 400),
        (u64::from(seen.status), explanation["verdict"]["status"].as_u64().unwrap()),
        "{explanation}"
    );
    assert!(seen.text().contains(&sentence(&explanation)), "{explanation}");
    let change =
        format!("Explain https://h:{}/9 instead, the scheme of its listener: miss.", larder.address.port());
    assert_eq!(change, explanation["change"].as_str().unwrap());
}
