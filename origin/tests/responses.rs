//! Responses of origins, complete, broken or hostile: each case is distinguished, and none affects the next.

mod scripted;

use larder_origin::OriginLimits;
use scripted::{Scripted, client, fetch, limits, run, told};
use std::time::Duration;

/// The first connection answers its first request with `answer` and closes; any other request or connection is
/// answered with `200 next`. Expects `first` of the first request, and that the next is answered rightly.
#[track_caller]
fn check_with(
    limits: OriginLimits,
    method: &'static str,
    answer: &'static str,
    first: &str,
) -> larder_counters::Counters {
    let scripted = Scripted::tcp(move |number, mut peer| {
        if number == 0 {
            peer.head();
            peer.send(answer);
            return;
        }
        while !peer.head().is_empty() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext");
        }
    });
    let (origin, counters) = client(&scripted, limits);
    run(async {
        let request = scripted::request(method, larder_wire::message::Framing::Empty);
        assert_eq!(first, told(origin.send(request).await).await, "{answer:?}");
        assert_eq!("200 next", fetch(&origin).await, "after {answer:?}");
    });
    drop(origin);
    std::sync::Arc::into_inner(counters).expect("the origin gave its counters back")
}

#[track_caller]
fn check(answer: &'static str, first: &str) {
    check_with(limits(), "GET", answer, first);
}

#[test]
fn whole() {
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "200 hello");
    check("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "200 ");
    check(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
        "200 hello",
    );
    check("HTTP/1.1 204 No Content\r\n\r\n", "204 ");
    check("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "304 ");
    check("HTTP/1.0 200 OK\r\n\r\nhello", "200 hello");
    check("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", "200 hello");
    check("HTTP/1.1 200 OK\r\n\r\n", "200 ");
    check_with(limits(), "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "200 ");
}

#[test]
fn cut_short() {
    check("", "Disconnected");
    check("HTT", "Disconnected");
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", "Disconnected");
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", "200 hell Disconnected");
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "200  Disconnected");
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhell", "200 hell Disconnected");
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "200 hello Disconnected");
    check(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        "200 hello Disconnected",
    );
    check(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: 1\r\n",
        "200 hello Disconnected",
    );
}

#[test]
fn broken_chunks() {
    let chunked = |body: &str| -> &'static str {
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}").leak()
    };
    check(chunked("zz\r\n"), "200  BadBody");
    check(chunked("-1\r\nh"), "200  BadBody");
    check(chunked("5\nhello"), "200  BadBody");
    check(chunked("ffffffffffffffffff\r\nhello"), "200  BadBody");
    // What came before the break in the same read is not handed out.
    check(chunked("5\r\nhelloXX0\r\n\r\n"), "200  BadBody");
}

#[test]
fn garbage() {
    check("hello, this is no HTTP", "BadHead(StatusLine)");
    check("\x16\x03\x01\x02", "BadHead(StatusLine)");
    check("HTTP/2 200\r\n\r\n", "BadHead(StatusLine)");
    check("HTTP/1.1 2x0 OK\r\n\r\n", "BadHead(StatusLine)");
    check("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "BadHead(Field)");
    check("HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n", "BadHead(Field)");
    check("HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello", "BadHead(Length)");
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "BadHead(Length)");
    check(
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "BadHead(Length)",
    );
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "BadHead(TransferEncoding)");
    check("HTTP/1.1 101 Switching Protocols\r\n\r\n", "BadHead(StatusLine)");
}

#[test]
fn heads_are_bounded() {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(2000)).leak();
    check(long, "200 ");
    check_with(OriginLimits { head_size: 2000, ..limits() }, "GET", long, "BadHead(TooLarge)");
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(100_000)).leak();
    check(endless, "BadHead(TooLarge)");
}

#[test]
fn interim_responses_come_in_order() {
    check(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n\
         HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "100 103 103 200 hello",
    );
    check("HTTP/1.1 103 Early Hints\r\n\r\n", "103 Disconnected");
}

#[test]
fn interim_responses_are_bounded() {
    let flood = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(1000).leak();
    let counters =
        check_with(OriginLimits { interim: 3, ..limits() }, "GET", flood, "103 103 103 InterimFlood");
    assert_eq!(1, counters.origin_interim_flood.get());
}

#[test]
fn bytes_after_a_response_poison_nothing() {
    let evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    check(format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello{evil}").leak(), "200 hello");
    check(
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n{evil}").leak(),
        "200 hello",
    );
    check(format!("HTTP/1.1 304 Not Modified\r\n\r\n{evil}").leak(), "304 ");
    check_with(limits(), "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "200 ");
}

/// The bytes come after the connection went back to the pool, where reading the response cannot see them.
#[test]
fn bytes_that_come_while_a_connection_is_unused_poison_nothing() {
    let scripted = Scripted::tcp(|number, mut peer| {
        peer.head();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        if number == 0 {
            peer.wait();
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
            peer.report("sent");
        }
        peer.rest();
    });
    let (origin, counters) = client(&scripted, limits());
    run(async {
        assert_eq!("200 hello", fetch(&origin).await);
        assert_eq!(1, origin.idle_connections());
        scripted.go();
        assert_eq!("sent", scripted.reported());
        assert_eq!("200 hello", fetch(&origin).await);
        assert_eq!(2, counters.origin_connects.get());
    });
}

/// An origin that sends a body to HEAD, but so late that the connection was seen to be quiet.
#[test]
fn a_late_body_to_head_poisons_nothing() {
    let scripted = Scripted::tcp(|number, mut peer| {
        let head = peer.head();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 42\r\n\r\n");
        if number == 0 {
            assert!(head.starts_with("HEAD "));
            peer.wait();
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
            peer.rest();
        } else {
            peer.send("x".repeat(42));
            peer.rest();
        }
    });
    let (origin, counters) = client(&scripted, limits());
    run(async {
        let request = scripted::request("HEAD", larder_wire::message::Framing::Empty);
        assert_eq!("200 ", told(origin.send(request).await).await);
        assert_eq!(1, origin.idle_connections());
        let next = origin.send(scripted::get()).await;
        scripted.go();
        assert_eq!(format!("200 {}", "x".repeat(42)), told(next).await);
        assert_eq!(2, counters.origin_connects.get());
    });
}

/// Head and body byte by byte: wherever the network cuts, the same is read.
#[test]
fn a_response_in_pieces_is_the_same_response() {
    let whole = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                 3\r\nhel\r\n2\r\nlo\r\n0\r\nDigest: x\r\n\r\n";
    for step in [1, 2, 3, 5, 50] {
        let scripted = Scripted::tcp(move |_, mut peer| {
            peer.head();
            for piece in whole.as_bytes().chunks(step) {
                peer.send(piece);
                std::thread::yield_now();
            }
            peer.rest();
        });
        let (origin, _) = client(&scripted, limits());
        run(async {
            assert_eq!("103 200 hello", fetch(&origin).await);
            assert_eq!(1, origin.idle_connections());
        });
    }
}

#[test]
fn a_reset_is_no_end() {
    let scripted = Scripted::tcp(|_, mut peer| {
        peer.head();
        peer.send("HTTP/1.1 200 OK\r\n\r\nhel");
        peer.wait();
        peer.reset();
    });
    let (origin, counters) = client(&scripted, limits());
    run(async {
        let exchange = origin.send(scripted::get()).await.unwrap();
        assert_eq!(200, exchange.head().await.unwrap().status);
        assert_eq!(b"hel", &*exchange.next().await.unwrap().unwrap());
        scripted.go();
        assert_eq!(Err(larder_origin::OriginError::Disconnected), exchange.next().await);
        assert_eq!(Err(larder_origin::OriginError::Disconnected), exchange.next().await, "and stays so");
        assert_eq!(1, counters.origin_bad_responses.get());
    });
}

#[test]
fn trailers() {
    let scripted = Scripted::tcp(|_, mut peer| {
        peer.head();
        peer.send(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nDigest: x\r\n\r\n",
        );
        peer.rest();
    });
    let (origin, _) = client(&scripted, limits());
    run(async {
        let exchange = origin.send(scripted::get()).await.unwrap();
        exchange.head().await.unwrap();
        assert_eq!(("hello".to_owned(), Ok(())), scripted::body(&exchange).await);
        assert_eq!(Some(&b"x"[..]), exchange.trailers().unwrap().get("digest"));
        assert_eq!(1, origin.idle_connections(), "and the connection is kept");
    });
}

#[test]
fn a_large_body_arrives_whole_however_it_is_framed() {
    let body: String = (0..200_000).map(|it| format!("{it:06} ")).collect();
    let size = body.len();
    for framing in ["length", "chunked", "close"] {
        let sent = body.clone();
        let scripted = Scripted::tcp(move |_, mut peer| {
            peer.head();
            match framing {
                "length" => peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n{sent}")),
                "close" => peer.send(format!("HTTP/1.1 200 OK\r\n\r\n{sent}")),
                _ => {
                    let mut coded = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
                    for (number, chunk) in sent.as_bytes().chunks(997).enumerate() {
                        let chunk = std::str::from_utf8(chunk).unwrap();
                        coded.push_str(&format!("{:x};n={number}\r\n{chunk}\r\n", chunk.len()));
                    }
                    peer.send(coded + "0\r\n\r\n")
                }
            };
        });
        let (origin, _) =
            client(&scripted, OriginLimits { between_bytes: Duration::from_secs(5), ..limits() });
        run(async {
            let exchange = origin.send(scripted::get()).await.unwrap();
            exchange.head().await.unwrap();
            let (found, end) = scripted::body(&exchange).await;
            assert!(found == body && end.is_ok(), "{framing}: {} bytes, {end:?}", found.len());
        });
    }
}
