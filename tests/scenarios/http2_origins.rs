//! HTTP/2 towards origins: connections are shared, a processed request is never sent twice, and a
//! truncated response is truncated for every client.

use crate::harness::command::run;
use crate::harness::http2::{END_STREAM, Http2, request};
use crate::harness::http2_origin::{CANCEL, Http2Origin, NO_ERROR, Peer, REFUSED_STREAM};
use crate::harness::origin::{Behind, Gate};
use crate::harness::secure::Authority;
use crate::harness::{Larder, until};

fn stats(larder: &Larder) -> serde_json::Value {
    serde_json::from_str(&larder.admin_get("/api/v1/stats").text()).unwrap()
}

/// One worker, so that connections can be counted.
fn before(origin: &Http2Origin, proxy: &str, cache: &str) -> Larder {
    before_all(&[origin], proxy, cache)
}

fn before_all(origins: &[&Http2Origin], proxy: &str, cache: &str) -> Larder {
    let urls: Vec<String> = origins.iter().map(|it| format!("{:?}", it.url())).collect();
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         proxy = {{ to = [{}]{proxy} }}\ncache = {{ {cache} }}\n",
        urls.join(", ")
    );
    Larder::start(crate::harness::server::Setup { config, env: Vec::new() })
}

#[test]
fn requests_share_a_connection() {
    let origin = Http2Origin::echoing_paths();
    let larder = before(&origin, "", "");
    let mut client = larder.client();
    for number in 0..300 {
        assert_eq!(format!("/{number}"), client.get(&format!("/{number}")).text());
    }
    let mut client = Http2::connect(&larder);
    let streams: Vec<u32> = (0..50).map(|it| client.send_get(&format!("/s{it}"))).collect();
    for (number, stream) in streams.into_iter().enumerate() {
        assert_eq!(format!("/s{number}"), client.answer(stream).text());
    }
    assert_eq!((1, 350), (origin.connections(), origin.received().len()));
    assert_eq!(1, larder.counter("origin_http2_connects"));
    assert_eq!(350, larder.counter("origin_http2_streams"));
    assert_eq!(349, larder.counter("origin_reuses"));
}

#[test]
fn an_http2_origin_gets_the_fields_of_the_request() {
    let origin = Http2Origin::echoing_paths();
    let larder = before(&origin, "", "");
    let mut client = larder.client();
    client.send("DELETE /a?b HTTP/1.1\r\nHost: Example.com\r\nTE: trailers\r\nConnection: x-y\r\nX-Y: 1\r\nCookie: a=b\r\n\r\n");
    assert_eq!("/a?b", client.read().text());
    let asked = origin.received().remove(0);
    assert_eq!((Some("DELETE"), Some("http")), (asked.field(":method"), asked.field(":scheme")));
    assert_eq!((Some("example.com"), None), (asked.field(":authority"), asked.field("host")));
    assert_eq!(Some("a=b"), asked.field("cookie"));
    assert!(asked.field("connection").is_none() && asked.field("x-y").is_none() && asked.ended);
}

#[test]
fn no_more_streams_than_an_origin_allows() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Http2Origin::start(&[(3, 2)], move |peer| {
        let mut open = Vec::new();
        while let Some(asked) = peer.asked() {
            open.push(asked.stream);
            if open.len() < 2 {
                // One that is alone is answered, too.
                peer.stream.set_read_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
                open.extend(peer.asked().map(|it| it.stream));
                peer.stream.set_read_timeout(Some(crate::harness::TIMEOUT)).unwrap();
            }
            held.pass();
            open.drain(..).for_each(|it| peer.answer(it, &[("cache-control", "no-store")], b"x"));
        }
    });
    let larder = before(&origin, "", "");
    let mut client = Http2::connect(&larder);
    let streams: Vec<u32> = (0..6).map(|it| client.send_get(&format!("/{it}"))).collect();
    until("all are asked", || origin.received().len() == 6);
    assert_eq!(3, origin.connections());
    for connection in 0..origin.connections() {
        assert!(origin.received().iter().filter(|it| it.connection == connection).count() <= 2);
    }
    gate.open();
    for stream in streams {
        assert_eq!("x", client.answer(stream).text());
    }
}

#[test]
fn a_refused_stream_is_sent_again_with_any_method() {
    let origin = Http2Origin::start(&[], |peer| {
        let mut refused = false;
        while let Some(asked) = peer.asked() {
            if peer.number == 0 && !std::mem::replace(&mut refused, true) {
                peer.upload(asked.stream, |it| !it.bytes.is_empty());
                peer.reset(asked.stream, REFUSED_STREAM);
                continue;
            }
            let body = peer.upload(asked.stream, |_| false).bytes;
            peer.answer(asked.stream, &[], &body);
        }
    });
    let larder = before(&origin, "", "");
    let mut client = larder.client();
    client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
    let response = client.read();
    assert_eq!((200, "hello"), (response.status, &*response.text()));
    assert_eq!((2, 1), (origin.received().len(), larder.counter("origin_http2_refused")));
    assert_eq!(1, larder.counter("origin_retries"));
}

#[test]
fn streams_beyond_the_goaway_are_sent_elsewhere_and_the_rest_continues() {
    let origin = Http2Origin::start(&[], |peer| {
        if peer.number > 0 {
            while let Some(asked) = peer.asked() {
                peer.answer(asked.stream, &[], b"second");
            }
            return;
        }
        let (first, other) = (peer.asked().unwrap(), peer.asked().unwrap());
        assert!(first.stream < other.stream);
        peer.goaway(first.stream, NO_ERROR);
        peer.answer(first.stream, &[], b"first");
        assert!(peer.asked().is_none(), "nothing more begins here");
    });
    let larder = before(&origin, "", "");
    let mut client = Http2::connect(&larder);
    let (first, other) = (client.send_get("/a"), client.head(&request("POST", "/b", &[]), END_STREAM));
    // Which of them comes first at the origin is nobody's promise.
    let mut texts = [client.answer(first).text(), client.answer(other).text()];
    texts.sort();
    assert_eq!(["first", "second"], texts);
    assert_eq!("second", client.get("/c").text());
    assert_eq!(2, origin.connections());
}

#[test]
fn a_post_whose_connection_dies_is_sent_once_and_a_get_twice() {
    let origin = Http2Origin::start(&[], |peer| {
        while let Some(asked) = peer.asked() {
            match (asked.path(), peer.number) {
                ("/die", 0 | 1) => return,
                _ => peer.answer(asked.stream, &[("cache-control", "no-store")], b"x"),
            }
        }
    });
    let larder = before(&origin, "", "");
    assert_eq!(200, larder.get("/").status);
    assert_eq!(502, larder.get("/die").status, "it is repeated once, and the origin dies again");
    assert_eq!(200, larder.get("/").status);
    let asked = origin.received().iter().filter(|it| it.path() == "/die").count();
    assert_eq!(2, asked);
    let once = Http2Origin::start(&[], |peer| {
        while let Some(asked) = peer.asked() {
            match asked.field(":method") {
                Some("POST") => return,
                _ => peer.answer(asked.stream, &[("cache-control", "no-store")], b"x"),
            }
        }
    });
    let larder = before(&once, "", "");
    assert_eq!(200, larder.get("/").status);
    let mut client = larder.client();
    client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(502, client.read().status);
    assert_eq!(1, once.received().iter().filter(|it| it.path() == "/a").count());
}

#[test]
fn an_upload_whose_origin_dies_is_sent_to_another_where_that_does_no_harm() {
    for (method, status) in [("PUT", 200), ("POST", 502)] {
        let dies = Http2Origin::start(&[], |peer| {
            let asked = peer.asked().unwrap();
            peer.upload(asked.stream, |it| it.bytes.len() >= 3);
        });
        let echoes = Http2Origin::start(&[], |peer| {
            while let Some(asked) = peer.asked() {
                let body = peer.upload(asked.stream, |_| false).bytes;
                peer.answer(asked.stream, &[], &body);
            }
        });
        let larder = before_all(&[&dies, &echoes], ", balance = \"round_robin\"", "");
        for number in 0..2 {
            let mut client = larder.client();
            client.send(format!(
                "{method} /{number} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
            ));
            let asked = |it: &Http2Origin| it.received().len();
            until("it is asked", || asked(&dies) + asked(&echoes) > number);
            let is_dead = asked(&dies) == 1;
            client.send("6\r\ndefghi\r\n0\r\n\r\n");
            let answer = client.read();
            let expect = if is_dead { status } else { 200 };
            assert_eq!(expect, answer.status, "{method}");
            assert!(expect != 200 || answer.body == b"abcdefghi", "{answer:?}");
            if is_dead {
                break;
            }
        }
        assert_eq!(1, dies.received().len());
        assert_eq!(u64::from(status == 200), larder.counter("origin_retries_elsewhere"));
    }
}

/// An origin that begins with three bytes of five, or of nobody knows how many, and then does this.
fn cutting(then: fn(&mut Peer, u32)) -> Http2Origin {
    Http2Origin::start(&[], move |peer| {
        while let Some(asked) = peer.asked() {
            let length = ("content-length", if asked.path() == "/known" { "5" } else { "" });
            let fields: Vec<_> = [(":status", "200"), ("cache-control", "max-age=60"), length]
                .into_iter()
                .filter(|it| !it.1.is_empty())
                .collect();
            peer.head(asked.stream, &fields, 0);
            peer.data(asked.stream, b"abc", 0);
            then(peer, asked.stream);
        }
    })
}

#[test]
fn a_truncated_response_is_truncated_for_the_client_and_never_stored() {
    let ways: [fn(&mut Peer, u32); 5] = [
        |peer, stream| peer.reset(stream, 2),
        |peer, stream| peer.reset(stream, NO_ERROR),
        |peer, stream| peer.reset(stream, CANCEL),
        |peer, _| drop(peer.stream.shutdown(std::net::Shutdown::Both)),
        |peer, _| peer.send([0, 0, 1, 0, 0, 0, 0, 0, 0, 0]), // DATA of no stream.
    ];
    for then in ways {
        let origin = cutting(then);
        let larder = before(&origin, "", "");
        for path in ["/known", "/unknown"] {
            for time in 1..=2 {
                let answer = Http2::connect(&larder).get(path);
                assert!(!answer.complete, "{path}, {time}: {answer:?}");
                let asked = origin.received().iter().filter(|it| it.path() == path).count();
                assert!(asked >= time, "{path}: it was stored");
            }
        }
    }
}

#[test]
fn a_length_that_disagrees_is_no_end() {
    for (report, then) in [("5", b"abc" as &'static [u8]), ("2", b"abc")] {
        let origin = Http2Origin::start(&[], move |peer| {
            while let Some(asked) = peer.asked() {
                peer.answer(
                    asked.stream,
                    &[("content-length", report), ("cache-control", "max-age=60")],
                    then,
                );
            }
        });
        let larder = before(&origin, "", "");
        for time in 1..=2 {
            let answer = Http2::connect(&larder).get("/");
            assert!(!answer.complete || answer.status == 502, "{report}: {answer:?}");
            assert!(origin.received().len() >= time);
        }
    }
}

#[test]
fn responses_that_http1_cannot_express_are_refused() {
    let origin = Http2Origin::start(&[], |peer| {
        while let Some(asked) = peer.asked() {
            let odd = match asked.path() {
                "/connection" => ("connection", "close"),
                "/transfer" => ("transfer-encoding", "chunked"),
                "/pseudo" => (":path", "/"),
                "/upper" => ("X-Upper", "1"),
                "/line" => ("x-line", "a\r\nset-cookie: b"),
                "/nul" => ("x-nul", "a\0b"),
                "/space" => ("x space", "a"),
                "/101" => (":status", "101"),
                _ => ("x-fine", "1"),
            };
            let fields = [(":status", "200"), odd];
            let fields = if odd.0 == ":status" { &fields[1..] } else { &fields };
            peer.head(asked.stream, fields, END_STREAM);
        }
    });
    let larder = before(&origin, "", "");
    assert_eq!((200, None), (larder.get("/pseudo").status, larder.get("/pseudo").field(":path")));
    for odd in ["connection", "transfer", "upper", "line", "nul", "space", "101"] {
        let response = larder.get(&format!("/{odd}"));
        assert_eq!((502, None), (response.status, response.field("set-cookie")), "{odd}");
        assert_eq!(Some("1"), larder.get("/fine").field("x-fine"), "after {odd}");
    }
}

#[test]
fn a_client_that_goes_resets_its_stream_alone() {
    let origin = Http2Origin::start(&[], |peer| {
        let slow = peer.asked().unwrap();
        peer.head(slow.stream, &[(":status", "200"), ("cache-control", "no-store")], 0);
        peer.data(slow.stream, b"some", 0);
        while let Some(asked) = peer.asked() {
            peer.data(slow.stream, b"more", 0);
            peer.answer(asked.stream, &[("cache-control", "no-store")], b"x");
        }
    });
    let larder = before(&origin, "", "");
    let mut client = larder.client();
    client.send("POST /slow HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
    assert!(client.read_raw_head().starts_with(b"HTTP/1.1 200"));
    drop(client);
    until("the stream is reset", || {
        larder.get("/");
        origin.resets() == [CANCEL]
    });
    assert_eq!(1, origin.connections());
}

#[test]
fn a_truncated_upload_does_not_end() {
    let origin = Http2Origin::start(&[], |peer| {
        while let Some(asked) = peer.asked() {
            let upload = peer.upload(asked.stream, |_| false);
            assert!(!upload.ended, "{upload:?}");
        }
    });
    let larder = before(&origin, "", "");
    for head in ["Content-Length: 100000\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"] {
        let mut client = larder.client();
        client.send(format!("POST /a HTTP/1.1\r\nHost: h\r\n{head}"));
        until("it was asked", || !origin.received().is_empty());
        drop(client);
    }
    until("both were reset", || origin.resets() == [CANCEL, CANCEL]);
}

#[test]
fn deadlines() {
    let origin = Http2Origin::start(&[], |peer| {
        while let Some(asked) = peer.asked() {
            match asked.path() {
                "/head" => {}
                "/body" => peer.head(asked.stream, &[(":status", "200"), ("content-length", "5")], 0),
                _ => peer.answer(asked.stream, &[("cache-control", "no-store")], b"x"),
            }
        }
    });
    let larder = before(&origin, ", first_byte_timeout = \"2s\", between_bytes_timeout = \"2s\"", "");
    assert_eq!(504, larder.get("/head").status);
    assert!(!Http2::connect(&larder).get("/body").complete);
    assert_eq!("x", larder.get("/").text());
    assert_eq!(2, larder.counter("origin_timeouts"));
}

#[test]
fn a_dead_connection_is_left() {
    let origin = Http2Origin::start(&[], |peer| {
        while let Some(asked) = peer.asked() {
            if peer.is_alive {
                peer.answer(asked.stream, &[("cache-control", "no-store")], b"x");
            }
            peer.is_alive = peer.number > 0;
        }
    });
    let larder = before(&origin, ", connect_timeout = \"2s\"", "");
    assert_eq!("x", larder.get("/").text());
    // Long before its deadline, and on another connection.
    assert_eq!("x", larder.get("/").text());
    assert_eq!((2, 1), (origin.connections(), larder.counter("origin_http2_dead")));
}

#[test]
fn an_unused_connection_is_closed() {
    let origin = Http2Origin::start(&[], |peer| {
        while let Some(asked) = peer.asked() {
            peer.answer(asked.stream, &[("cache-control", "no-store")], b"x");
        }
    });
    let larder = before(&origin, ", idle_timeout = \"50ms\"", "");
    assert_eq!("x", larder.get("/").text());
    until("another is opened", || {
        larder.get("/");
        std::thread::sleep(std::time::Duration::from_millis(1));
        origin.connections() > 1
    });
}

#[test]
fn interim_responses_and_trailers_pass() {
    let origin = Http2Origin::start(&[], |peer| {
        while let Some(asked) = peer.asked() {
            peer.head(asked.stream, &[(":status", "103"), ("x-early", "1")], 0);
            peer.head(asked.stream, &[(":status", "200"), ("cache-control", "max-age=60")], 0);
            peer.data(asked.stream, b"body", 0);
            peer.head(asked.stream, &[("x-sum", "7")], END_STREAM);
        }
    });
    let larder = before(&origin, "", "");
    let answer = Http2::connect(&larder).get("/");
    assert_eq!((200, "body".to_owned(), vec![103]), (answer.status, answer.text(), answer.interim.clone()));
    assert_eq!(vec![("x-sum".to_owned(), "7".to_owned())], answer.trailers);
    assert!(answer.complete && Http2::connect(&larder).get("/").field("age").is_some());
}

#[test]
fn grpc_echoes_in_both_directions_at_once() {
    let origin = Http2Origin::start(&[], |peer| {
        while let Some(asked) = peer.asked() {
            assert_eq!(Some("trailers"), asked.field("te"));
            peer.head(asked.stream, &[(":status", "200"), ("content-type", "application/grpc")], 0);
            let mut echoed = 0;
            loop {
                let upload = peer.upload(asked.stream, |it| it.bytes.len() > echoed);
                let new = upload.bytes[echoed..].to_vec();
                peer.data(asked.stream, &new, 0);
                echoed += new.len();
                if upload.ended {
                    break;
                }
            }
            peer.head(asked.stream, &[("grpc-status", "0"), ("grpc-message", "fine")], END_STREAM);
        }
    });
    let larder = before(&origin, "", "default_ttl = \"60s\"");
    let mut client = Http2::connect(&larder);
    let head =
        request("POST", "/echo.Echo/Talk", &[("content-type", "application/grpc"), ("te", "trailers")]);
    // Unary.
    for _ in 0..2 {
        let stream = client.head(&head, 0);
        client.data(stream, b"\0\0\0\0\x03abc", END_STREAM);
        let answer = client.answer(stream);
        assert_eq!((200, b"\0\0\0\0\x03abc".to_vec()), (answer.status, answer.body));
        assert_eq!(("grpc-status".to_owned(), "0".to_owned()), answer.trailers[0]);
    }
    assert_eq!(2, origin.received().len(), "never from the cache");
    // Each message is answered before the next is sent.
    let stream = client.head(&head, 0);
    for number in 1..=5_usize {
        client.data(stream, b"\0\0\0\0\x01x", 0);
        while client.so_far(stream).body.len() < 6 * number {
            client.read().expect("the answer comes while the request goes on");
        }
    }
    client.data(stream, b"", END_STREAM);
    let answer = client.answer(stream);
    assert!(answer.complete && answer.trailers.iter().any(|it| it.0 == "grpc-message"), "{answer:?}");
    assert_eq!(1, origin.connections());
}

#[test]
fn a_grpc_error_without_a_body() {
    let origin = Http2Origin::start(&[], |peer| {
        while let Some(asked) = peer.asked() {
            let head = [(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", "12")];
            peer.head(asked.stream, &head, END_STREAM);
            peer.reset(asked.stream, NO_ERROR); // It wants no more of the request.
        }
    });
    let larder = before(&origin, "", "");
    let mut client = Http2::connect(&larder);
    let stream = client.head(&request("POST", "/a", &[("content-type", "application/grpc")]), 0);
    while client.so_far(stream).status == 0 {
        client.read().unwrap();
    }
    assert_eq!(Some("12"), client.so_far(stream).field("grpc-status"));
}

#[test]
fn trailers_of_a_request_pass() {
    let origin = Http2Origin::start(&[], |peer| {
        while let Some(asked) = peer.asked() {
            let upload = peer.upload(asked.stream, |_| false);
            let text = format!("{:?}", upload.trailers);
            peer.answer(asked.stream, &[], text.as_bytes());
        }
    });
    let larder = before(&origin, "", "");
    let mut client = larder.client();
    client.send(
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n",
    );
    assert_eq!("[(\"x-sum\", \"7\")]", client.read().text());
}

#[test]
fn an_upload_waits_for_its_origin() {
    let origin = Http2Origin::start(&[], |peer| {
        while let Some(asked) = peer.asked() {
            let length = peer.upload(asked.stream, |_| false).bytes.len();
            peer.answer(asked.stream, &[], length.to_string().as_bytes());
        }
    });
    let larder = before(&origin, "", "");
    let mut client = larder.client();
    let body = vec![b'x'; 1_000_000];
    client.send(format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", body.len())).send(&body);
    assert_eq!("1000000", client.read().text());
}

#[test]
fn an_origin_without_http2_is_replaced_by_another() {
    let fine = Http2Origin::echoing_paths();
    let not = crate::harness::Origin::scripted(|_| {
        vec![crate::harness::origin::Script::Send(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec())]
    });
    let other = not.url().replace("http://", "h2c://");
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         proxy = {{ to = [{:?}, {other:?}], balance = \"round_robin\" }}\n",
        fine.url()
    );
    let larder = Larder::start(crate::harness::server::Setup { config, env: Vec::new() });
    for number in 0..6 {
        assert_eq!(format!("/{number}"), larder.get(&format!("/{number}")).text());
    }
}

#[test]
fn an_origin_with_tls_is_offered_it() {
    let authority = Authority::new();
    let pair = authority.sign("origin", &["localhost"]);
    let ca = authority.path("ca.pem");
    let app = Http2Origin::echoing_paths();
    // larder is the origin: what it speaks passes every case of h2spec.
    let config = format!(
        "listen = [\"https://127.0.0.1:0\"]\nworkers = 1\n[tls]\ncertificates = [{pair}]\n\
         [[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\nproxy.to = {:?}\n",
        app.url()
    );
    let origin = Larder::start(crate::harness::server::Setup { config, env: Vec::new() });
    let port = origin.address.port();
    for (offers, connects, spoken) in [("", 0, "HTTP/1.1"), (", http2 = true", 1, "HTTP/2.0")] {
        let config = format!(
            "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[log]\naccess = \"access.log\"\nformat = \"{{target}} {{origin_protocol}}\"\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
             proxy = {{ to = [\"https://localhost:{port}\"]{offers}, tls = {{ ca = {ca:?} }} }}\n"
        );
        let larder = Larder::start(crate::harness::server::Setup { config, env: Vec::new() });
        assert_eq!(serde_json::Value::Null, stats(&larder)["origins"][0]["protocol"], "nothing is known yet");
        let mut client = larder.client();
        for number in 0..100 {
            assert_eq!(format!("/{number}"), client.get(&format!("/{number}")).text());
        }
        assert_eq!(connects, larder.counter("origin_http2_connects"));
        assert_eq!(1, larder.counter("origin_tls_handshakes"));
        assert_eq!(spoken, stats(&larder)["origins"][0]["protocol"]);
        let read = || std::fs::read_to_string(larder.folder.path().join("access.log")).unwrap_or_default();
        until("all are logged", || read().lines().count() == 100);
        assert!(read().starts_with(&format!("/0 {spoken}\n")), "{}", read());
        for (command, line) in [
            (&["stats"][..], format!("https://localhost:{port} up {spoken} 0 100 ")),
            (&["explain", "http://h/0"], format!("origins https://localhost:{port} up, {spoken}")),
        ] {
            let output =
                run(larder.folder.path(), &[command, &["--admin", &larder.admin.to_string()]].concat()).out;
            let output: Vec<&str> = output.split_whitespace().collect();
            assert!(output.join(" ").contains(&line), "{line}: {output:?}");
        }
    }
}
