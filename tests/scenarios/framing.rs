//! Statements 3 and 19: each way of answering leaves the connection at the next request, or closes it. Every body is a
//! request itself: a server that parses it as one is detected.

use crate::harness::{Client, Larder, Origin};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

const TRAP: &str = "GET /trap HTTP/1.1\r\nHost: h\r\n\r\n";

/// How a body comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Length,
    /// More than is thrown away for the sake of a connection.
    Long,
    Chunked,
    LongChunked,
    Expect,
    ExpectChunked,
}

const BODIES: [Body; 6] =
    [Body::Length, Body::Long, Body::Chunked, Body::LongChunked, Body::Expect, Body::ExpectChunked];

impl Body {
    fn bytes(self) -> Vec<u8> {
        let trap = TRAP.repeat(if matches!(self, Body::Long | Body::LongChunked) { 12_000 } else { 3 });
        match self {
            Body::Length | Body::Long | Body::Expect => trap.into_bytes(),
            Body::Chunked | Body::LongChunked | Body::ExpectChunked => {
                let mut out = Vec::new();
                for part in trap.as_bytes().chunks(1021) {
                    out.extend_from_slice(format!("{:x};x=\"y\"\r\n", part.len()).as_bytes());
                    out.extend_from_slice(part);
                    out.extend_from_slice(b"\r\n");
                }
                out.extend_from_slice(b"0\r\nX-Sum: 1\r\n\r\n");
                out
            }
        }
    }

    fn lines(self) -> String {
        match self {
            Body::Length | Body::Long => format!("Content-Length: {}\r\n", self.bytes().len()),
            Body::Expect => format!("Expect: 100-continue\r\nContent-Length: {}\r\n", self.bytes().len()),
            Body::Chunked | Body::LongChunked => "Transfer-Encoding: chunked\r\n".to_owned(),
            Body::ExpectChunked => "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n".to_owned(),
        }
    }

    fn expects(self) -> bool {
        matches!(self, Body::Expect | Body::ExpectChunked)
    }
}

/// Asks `method target` with each kind of body, and `next` behind it. The first answer has `status`; the second is
/// `next`'s, or there is none and the connection is closed. Says how often it lived on.
#[track_caller]
fn check(
    address: SocketAddr,
    host: &str,
    method: &str,
    target: &str,
    status: u16,
    next: (&str, u16, &str),
) -> usize {
    let mut lived = 0;
    for body in BODIES {
        for version in ["1.1", "1.0"] {
            if version == "1.0" && !matches!(body, Body::Length | Body::Long) {
                continue;
            }
            let what = format!("{method} {target} {body:?} HTTP/{version}");
            let mut client = Client::connect(address);
            let keep = if version == "1.0" { "Connection: keep-alive\r\n" } else { "" };
            client.send(format!(
                "{method} {target} HTTP/{version}\r\nHost: {host}\r\n{keep}{}\r\n",
                body.lines()
            ));
            let behind = format!("GET {} HTTP/1.1\r\nHost: {host}\r\n\r\n", next.0);
            let mut report = true;
            if !body.expects() {
                // Beside the reading: an answer may come before the body is taken.
                let mut writer = client.stream.try_clone().unwrap();
                let all = [&body.bytes(), behind.as_bytes()].concat();
                std::thread::spawn(move || {
                    let _ = writer.write_all(&all);
                });
            }
            if body.expects() && client.is_told_to_continue() {
                client.send([&body.bytes(), behind.as_bytes()].concat());
            } else if body.expects() {
                report = false;
            }
            let first = client.read_for(method);
            assert_eq!((status, true), (first.status, first.complete), "{what}: {first:?}");
            if !report {
                // Not told to go on: the client sends its body or its next request, as it likes.
                assert_eq!(Some("close"), first.field("connection"), "{what}: {first:?}");
            }
            if first.field("connection") == Some("close") {
                assert!(client.is_closed(), "{what}: said close and went on");
                continue;
            }
            let second = client.read();
            if second.status == 0 {
                continue;
            }
            assert_eq!((next.1, true), (second.status, second.complete), "{what}: {second:?}");
            assert!(second.text().contains(next.2), "{what}: {second:?}");
            lived += 1;
        }
    }
    lived
}

#[track_caller]
fn assert_no_trap(origin: &Origin) {
    let received = origin.received();
    let sprung: Vec<_> = received.iter().filter(|it| it.line().contains("/trap")).collect();
    assert!(sprung.is_empty(), "{sprung:?}");
}

/// An origin with a page that is kept, and `/next`.
fn pages() -> Origin {
    Origin::new(|it| match it.target() {
        "/kept" => "HTTP/1.1 200 OK\nCache-Control: max-age=600\n\nkept".to_owned(),
        "/fails" => "HTTP/1.1 500 No\n\nno".to_owned(),
        "/none" => "HTTP/1.1 204 None\n\n".to_owned(),
        it => format!("HTTP/1.1 200 OK\nCache-Control: no-store\n\nthis is {it}"),
    })
}

const NEXT: (&str, u16, &str) = ("/next", 200, "this is /next");

#[test]
fn responses_of_origins_keep_their_framing() {
    let origin = pages();
    let larder = Larder::before(&origin, "");
    larder.get("/kept");
    for (method, target, status) in [
        ("GET", "/kept", 200),
        ("HEAD", "/kept", 200),
        ("POST", "/page", 200),
        ("PUT", "/fails", 500),
        ("GET", "/none", 204),
        ("FROB", "/x", 200),
        ("DELETE", "/x", 200),
        ("OPTIONS", "*", 200),
    ] {
        check(larder.address, "h", method, target, status, NEXT);
    }
    assert_no_trap(&origin);
}

#[test]
fn responses_of_larder_keep_their_framing() {
    let origin = Origin::scripted(|_| vec![crate::harness::origin::Script::Close]);
    let url = origin.url();
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"h\"]\n\
         [[site.route]]\npath = \"/app/*\"\nproxy = {{ to = [\"{url}\"] }}\n\
         [[site.route]]\npath = \"/static/*\"\nfiles = {{ root = \"public\" }}\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let public = folder.path().join("public/static");
    std::fs::create_dir_all(public.join("folder")).unwrap();
    std::fs::write(public.join("next.txt"), "this is next").unwrap();
    std::fs::write(public.join("large.txt"), "z".repeat(3_000_000)).unwrap();
    let config = config.replace("\"public\"", &format!("{:?}", folder.path().join("public")));
    let larder = Larder::configured(config);
    let next = ("/static/next.txt", 200, "this is next");
    let mut lived = 0;
    for (method, target, status) in [
        ("POST", "/app/x", 502),
        ("GET", "/app/x", 502),
        ("GET", "/nowhere", 404),
        ("POST", "/nowhere", 404),
        ("GET", "/static/next.txt", 200),
        ("HEAD", "/static/next.txt", 200),
        ("GET", "/static/large.txt", 200),
        ("POST", "/static/next.txt", 405),
        ("GET", "/static/none", 404),
        ("GET", "/static/folder", 301),
        ("GET", "/static/../../etc/passwd", 404),
        ("CONNECT", "h:80", 404),
        ("TRACE", "/app/x", 405),
    ] {
        if method == "CONNECT" {
            continue; // Has no body, and always closes.
        }
        lived += check(larder.address, "h", method, target, status, next);
    }
    assert!(lived >= 20, "small bodies are read, not paid for with a connection: {lived}");
    assert_no_trap(&origin);
}

#[test]
fn the_admin() {
    let origin = pages();
    let larder = Larder::before(&origin, "");
    let lines = larder.admin_lines();
    let next = ("/cache/stats", 200, "counters");
    for (method, target, status) in
        [("GET", "/", 400), ("GET", "/none", 404), ("DELETE", "/cache/stats", 405)]
    {
        for body in [Body::Length, Body::Chunked] {
            let mut client = Client::connect(larder.admin);
            client.send(format!("{method} {target} HTTP/1.1\r\n{lines}\r\n{}\r\n", body.lines()));
            client.send(body.bytes()).send(format!("GET {} HTTP/1.1\r\n{lines}\r\n\r\n", next.0));
            let first = client.read();
            assert_eq!(status, first.status, "{first:?}");
            let second = client.read();
            assert!(second.status == 0 || second.text().contains(next.2), "{second:?}");
        }
    }
    // Over its own limit.
    let mut client = Client::connect(larder.admin);
    client.send(format!("POST /cache/explain HTTP/1.1\r\n{lines}\r\n{}\r\n", Body::Long.lines()));
    client.send(Body::Long.bytes()).send(format!("GET {} HTTP/1.1\r\n{lines}\r\n\r\n", next.0));
    let first = client.read();
    assert_eq!(413, first.status, "{first:?}");
    let second = client.read();
    assert!(second.status == 0 || second.text().contains(next.2), "{second:?}");
}

/// An origin that answers as soon as it has the head, reads `read` bytes more, and then closes or waits.
fn hasty(answer: &'static str, read: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut seen = Vec::new();
                let mut byte = [0];
                while !seen.ends_with(b"\r\n\r\n") {
                    match stream.read(&mut byte) {
                        Ok(1) => seen.push(byte[0]),
                        _ => return,
                    }
                }
                let text = String::from_utf8_lossy(&seen).into_owned();
                if text.contains("/next") {
                    let _ = stream.write_all(
                        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 13\r\n\r\nthis is /next",
                    );
                } else {
                    let _ = stream.write_all(answer.as_bytes());
                    let mut rest = vec![0; read];
                    let _ = stream.read_exact(&mut rest);
                }
                // Waits for larder to close.
                let _ = stream.read(&mut [0]);
            });
        }
    });
    address
}

#[test]
fn an_origin_that_answers_before_the_body_is_there() {
    for (answer, status) in [
        ("HTTP/1.1 403 No\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno", 403),
        ("HTTP/1.1 413 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno", 413),
        (
            "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            200,
        ),
        ("HTTP/1.1 302 Go\r\nConnection: close\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", 302),
    ] {
        for read in [0, 10] {
            let url = format!("http://{}", hasty(answer, read));
            let larder = Larder::configured(format!(
                "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
                 proxy = {{ to = [\"{url}\"] }}\n"
            ));
            check(larder.address, "h", "POST", "/early", status, NEXT);
        }
    }
}

/// Statement 19: a hundred requests in one write, of every kind, each answered in order with its own bytes.
#[test]
fn a_hundred_of_every_kind_in_one_write() {
    let origin = pages();
    let larder = Larder::before(&origin, "");
    larder.get("/kept");
    let kinds = [
        ("GET", "/kept", "", "kept"),
        ("HEAD", "/kept", "", ""),
        ("GET", "/a", "", "this is /a"),
        ("POST", "/b", "Content-Length: 31\r\n\r\nGET /trap HTTP/1.1\r\nHost: h\r\n\r\n", "this is /b"),
        (
            "PUT",
            "/c",
            "Transfer-Encoding: chunked\r\n\r\n1f\r\nGET /trap HTTP/1.1\r\nHost: h\r\n\r\n\r\n0\r\n\r\n",
            "this is /c",
        ),
        ("GET", "/none", "", ""),
        ("GET", "/kept", "Range: bytes=1-2\r\n\r\n", "ep"),
        ("GET", "/fails", "", "no"),
        ("GET", "/kept", "If-None-Match: *\r\n\r\n", ""),
    ];
    let mut text = String::new();
    for number in 0..100 {
        let (method, target, rest, _) = kinds[number % kinds.len()];
        let rest = if rest.is_empty() { "\r\n" } else { rest };
        text.push_str(&format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{rest}"));
    }
    for step in [usize::MAX, 7, 1000] {
        let mut client = larder.client();
        let mut writer = client.stream.try_clone().unwrap();
        let bytes = text.clone().into_bytes();
        let writing = std::thread::spawn(move || {
            for part in bytes.chunks(step.min(bytes.len())) {
                writer.write_all(part).unwrap();
            }
        });
        for number in 0..100 {
            let (method, _, _, body) = kinds[number % kinds.len()];
            let it = client.read_for(method);
            assert!(it.complete && it.text() == body, "{number}: {it:?}");
        }
        writing.join().unwrap();
    }
    assert_no_trap(&origin);
}
