//! Limits of one route: the size of a request body, and the deadlines of its transfer and of the response. The other routes
//! keep those of the server.

use crate::harness::http2::{DATA, END_HEADERS, END_STREAM, HEADERS, Http2, block, frame, request};
use crate::harness::origin::{Script, response};
use crate::harness::{Client, Larder, Origin, until};

/// Routes with limits of their own, of which `top` sets those of the server.
fn larder(origin: &Origin, top: &str) -> Larder {
    let to = format!("proxy = {{ to = [\"{}\"] }}", origin.url());
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n{top}\n[[site]]\nhosts = [\"h\"]\n\
         [[site.route]]\npath = \"/upload/*\"\nbody_size = \"100KiB\"\n{to}\n\
         [[site.route]]\npath = \"/tiny/*\"\nbody_size = \"100B\"\n{to}\n\
         [[site.route]]\npath = \"/patient/*\"\nbody_timeout = \"1h\"\nwrite_timeout = \"1h\"\nmin_rate = \"0\"\n{to}\n\
         [[site.route]]\npath = \"/hasty/*\"\nbody_timeout = \"1s\"\nwrite_timeout = \"1s\"\n{to}\n\
         [[site.route]]\n{to}\n\
         [[site]]\nhosts = [\"site\"]\nbody_size = \"2KiB\"\n[[site.route]]\npath = \"/own/*\"\nbody_size = \"3KiB\"\n{to}\n[[site.route]]\n{to}\n"
    ))
}

/// The length of the body that came.
fn counting() -> Origin {
    Origin::new(|it| format!("HTTP/1.1 200 OK\nCache-Control: no-store\n\n{} bytes", it.body.len()))
}

#[test]
fn a_route_has_a_body_size_of_its_own() {
    let origin = counting();
    let larder = larder(&origin, "[limits]\nbody_size = \"1KiB\"");
    let post = |host: &str, target: &str, lines: &str, size: usize| {
        let mut client = larder.client();
        let body = "x".repeat(size);
        client.send(format!(
            "POST {target} HTTP/1.1\r\nHost: {host}\r\n{lines}Content-Length: {size}\r\n\r\n{body}"
        ));
        client.read_for("POST")
    };
    for (host, target, fits) in [
        ("h", "/", 1024),
        ("h", "/upload/a", 100 * 1024),
        ("h", "/tiny/a", 100),
        ("site", "/", 2048),
        ("site", "/own/a", 3072),
    ] {
        let it = post(host, target, "", fits);
        assert_eq!((200, format!("{fits} bytes")), (it.status, it.text()), "{host}{target}");
        let asked = origin.requests();
        let it = post(host, target, "", fits + 1);
        assert_eq!((413, Some("close")), (it.status, it.field("connection")), "{host}{target}");
        let it = post(host, target, "Expect: 100-continue\r\n", fits + 1);
        assert_eq!((413, 0), (it.status, it.interim.len()), "{host}{target} is not asked for its body");
        assert_eq!(asked, origin.requests());
    }
    assert_eq!(10, larder.counter("body_too_large"));
}

#[test]
fn a_chunked_body_is_rejected_when_it_exceeds_the_limit_of_its_route() {
    let origin = counting();
    let larder = larder(&origin, "[limits]\nbody_size = \"1KiB\"");
    let chunked = |target: &str, chunks: usize| {
        let mut client = larder.client();
        client.send(format!("POST {target} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"));
        for _ in 0..chunks {
            client.send(format!("32\r\n{}\r\n", "x".repeat(50)));
        }
        client.send("0\r\n\r\n");
        client.read_for("POST").status
    };
    assert_eq!([200, 413], [chunked("/tiny/a", 2), chunked("/tiny/a", 3)]);
    assert_eq!([200, 413], [chunked("/upload/a", 1000), chunked("/upload/a", 3000)]);
    assert_eq!([200, 413], [chunked("/", 20), chunked("/", 21)]);
}

/// A connection has requests of several routes; each has the limit of its own.
#[test]
fn a_limit_ends_with_its_request() {
    let larder = larder(&counting(), "[limits]\nbody_size = \"1KiB\"");
    let mut client = larder.client();
    for (target, size, status) in
        [("/tiny/a", 100, 200), ("/upload/a", 90_000, 200), ("/", 1000, 200), ("/", 2000, 413)]
    {
        assert_eq!(status, client.request("POST", target, "", &"x".repeat(size)).status, "{target}");
    }
}

#[test]
fn a_stream_has_the_body_size_of_its_route() {
    let origin = counting();
    let larder = larder(&origin, "[limits]\nbody_size = \"1KiB\"");
    let mut client = Http2::connect(&larder);
    let mut post = |target: &str, size: usize, announced: bool| {
        let length = size.to_string();
        let fields = if announced { vec![("content-length", length.as_str())] } else { Vec::new() };
        let id = client.head(&request("POST", target, &fields), 0);
        let mut left = size;
        while left > 0 {
            let part = left.min(10_000);
            client.data(id, &vec![b'x'; part], if left == part { END_STREAM } else { 0 });
            left -= part;
        }
        let it = client.answer(id);
        (it.status, it.text())
    };
    for announced in [true, false] {
        for (target, fits) in [("/", 1024), ("/tiny/a", 100), ("/upload/a", 60_000)] {
            let (status, text) = post(target, fits, announced);
            assert_eq!(200, status, "{target}");
            assert!(!announced || text == format!("{fits} bytes"), "{text}");
        }
        for (target, exceeds) in [("/", 1025), ("/tiny/a", 101)] {
            assert_eq!(413, post(target, exceeds, announced).0, "{target}");
        }
    }
    // A declared length is rejected without a byte of the body.
    let id = client.head(&request("POST", "/upload/a", &[("content-length", "102401")]), 0);
    assert_eq!(413, client.answer(id).status);
    assert_eq!(5, larder.counter("body_too_large"));
}

/// Body and head arrive in one packet: the route is known only after both.
#[test]
fn data_that_arrive_with_their_head_count_for_the_route() {
    let larder = larder(&counting(), "[limits]\nbody_size = \"1KiB\"");
    let mut client = Http2::connect(&larder);
    client.get("/");
    for (id, target, status) in [(3, "/upload/a", 200), (5, "/tiny/a", 413), (7, "/", 413)] {
        let mut bytes = frame(HEADERS, END_HEADERS, id, &block(&request("POST", target, &[])));
        bytes.extend(frame(DATA, END_STREAM, id, &[b'x'; 5000]));
        client.begin_at(id + 2);
        client.send(bytes);
        assert_eq!(status, client.answer(id).status, "{target}");
    }
}

/// The limits of the server: `time` for a body and for a response.
fn deadlines(time: &str) -> String {
    format!("[limits]\nbody_timeout = \"{time}\"\nwrite_timeout = \"{time}\"\nmin_rate = \"0\"")
}

/// A POST whose body has begun.
fn begins(client: &mut Client, target: &str) {
    client.send(format!("POST {target} HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12345"));
}

/// In each case the client that is waited for began before the one that is cut.
#[test]
fn a_body_has_the_timeout_of_its_route() {
    for (time, waits, late) in [("10m", "/", "/hasty/a"), ("1s", "/patient/a", "/")] {
        let larder = larder(&counting(), &deadlines(time));
        let [mut waited, mut cut] = [waits, late].map(|target| {
            let mut client = larder.client();
            begins(&mut client, target);
            client
        });
        assert_eq!(408, cut.read_for("POST").status, "{late} of {time}");
        waited.send("67890");
        assert_eq!("10 bytes", waited.read_for("POST").text(), "{waits} of {time}");
        assert_eq!(1, larder.counter("client_body_timeouts"));
        // The next request of the same connection has the limit of its own route.
        begins(&mut waited, late);
        assert_eq!(408, waited.read_for("POST").status, "{late} of {time}");
    }
}

#[test]
fn a_stream_has_the_body_timeout_of_its_route() {
    let larder = larder(&counting(), "[limits]\nbody_timeout = \"1h\"\nmin_rate = \"0\"");
    let mut client = Http2::connect(&larder);
    let [hasty, plain] = ["/hasty/a", "/"].map(|target| {
        let id = client.head(&request("POST", target, &[("content-length", "10")]), 0);
        client.data(id, b"12345", 0);
        id
    });
    assert_eq!(408, client.answer(hasty).status);
    client.data(plain, b"67890", END_STREAM);
    assert_eq!("10 bytes", client.answer(plain).text());
    assert_eq!(1, larder.counter("client_body_timeouts"));
}

/// The same for a miss and a hit: a stored page is more than the kernel holds for its client.
#[test]
fn a_response_has_the_write_timeout_of_its_route() {
    const LARGE: usize = 20_000_000;
    for (time, waits, late) in [("10m", "/", "/hasty/a"), ("1s", "/patient/a", "/")] {
        let origin = Origin::scripted(|_| {
            let page = format!("HTTP/1.1 200 OK\nCache-Control: max-age=6000\n\n{}", "x".repeat(LARGE));
            vec![Script::Send(response(&page))]
        });
        let larder = larder(&origin, &deadlines(time));
        for pass in 1..=2 {
            let [mut waited, cut] = [waits, late].map(|target| {
                let mut client = larder.client();
                client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
                client.read_raw_head();
                client
            });
            until("the other one is cut", || larder.counter("client_write_timeouts") == pass);
            assert_eq!(LARGE, waited.read_bytes(LARGE).len(), "{waits} of {time}");
            assert_eq!(pass, larder.counter("client_write_timeouts"));
            drop(cut);
        }
    }
}

#[test]
fn a_mistake_in_a_limit_is_named() {
    let check = |line: &str, expect: &str| {
        let config = format!(
            "[[site]]\nhosts = [\"*\"]\n[[site.route]]\n{line}\nproxy = {{ to = [\"http://127.0.0.1:1\"] }}\n"
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("larder.toml");
        std::fs::write(&path, config).unwrap();
        let out = std::process::Command::new(crate::harness::server::binary())
            .args(["check", "--config"])
            .arg(&path)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout);
        assert!(!out.status.success() && text.contains(expect), "{text}");
    };
    check("client_max_body_size = \"1GiB\"", "body_size");
    check("body_size = \"2TB\"", "body_size");
    check("body_timeout = \"1ms\"", "body_timeout");
    check("send_timeout = \"1m\"", "write_timeout");
}
