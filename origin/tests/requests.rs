//! Requests to origins: bodies complete or visibly truncated, safe repetitions only, and sending and receiving at once.

mod scripted;

use bytes::Bytes;
use larder_origin::{OriginError, OriginLimits, OriginPool};
use larder_semantics::field::FieldList;
use larder_wire::message::Framing;
use scripted::{Peer, Scripted, client, fetch, get, limits, request, run, told};
use std::rc::Rc;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

#[test]
fn bodies_as_they_arrive() {
    let scripted = Scripted::tcp(|_, mut peer| {
        for chunked in [false, true] {
            let head = peer.head();
            let body = if chunked { peer.head() } else { peer.exactly(11) };
            peer.report(head + &body);
            peer.send(OK);
        }
    });
    let (origin, _) = client(&scripted, limits());
    run(async {
        for framing in [Framing::Length(11), Framing::Chunked] {
            let exchange = origin.send(request("POST", framing)).await.unwrap();
            for piece in ["hello", "", " world"] {
                exchange.write(bytes(piece)).await.unwrap();
            }
            let mut trailers = FieldList::new();
            trailers.push("Digest", "x");
            trailers.push("Content-Length", "3");
            exchange.write_end(Some(&trailers)).await.unwrap();
            assert_eq!("200 ok", told(Ok(exchange)).await);
        }
        let head = "POST / HTTP/1.1\r\nHost: a\r\n";
        assert_eq!(format!("{head}Content-Length: 11\r\n\r\nhello world"), scripted.reported());
        let chunks = "5\r\nhello\r\n6\r\n world\r\n0\r\nDigest: x\r\n\r\n";
        assert_eq!(format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunks}"), scripted.reported());
    });
}

/// An upload that stops: the origin sees all that was written, no end, and a close.
#[test]
fn an_upload_that_stops_is_seen_to_be_cut_short() {
    let scripted = Scripted::tcp(|_, mut peer| {
        peer.head();
        let rest = peer.rest();
        peer.report(rest);
    });
    let (origin, counters) = client(&scripted, limits());
    run(async {
        for (framing, seen) in [(Framing::Length(11), "hello"), (Framing::Chunked, "5\r\nhello\r\n")] {
            let exchange = origin.send(request("POST", framing)).await.unwrap();
            exchange.write(bytes("hello")).await.unwrap();
            drop(exchange);
            assert_eq!(seen, scripted.reported());
        }
        // An end that comes too early is none.
        let exchange = origin.send(request("POST", Framing::Length(11))).await.unwrap();
        exchange.write(bytes("hello")).await.unwrap();
        assert_eq!(Err(OriginError::Disconnected), exchange.write_end(None).await);
        assert_eq!("hello", scripted.reported());
        // What is more than announced is not sent, since it would be the next request.
        let exchange = origin.send(request("POST", Framing::Length(5))).await.unwrap();
        exchange.write(bytes("hell")).await.unwrap();
        assert_eq!(Err(OriginError::Disconnected), exchange.write(bytes("o, GET / HTTP/1.1")).await);
        assert_eq!("hell", scripted.reported());
        assert_eq!(0, origin.idle_connections());
        assert_eq!(0, counters.origin_bad_responses.get(), "none of it was the origin's fault");
    });
}

/// Connection 0 serves one request, then reads `more` bytes after the head of the next and closes; the others serve
/// one request each.
fn dies_on_its_second_request(more: usize, reset: bool) -> Scripted {
    Scripted::tcp(move |number, mut peer| {
        peer.head();
        if number > 0 {
            peer.exactly(more);
        }
        peer.send(OK);
        if number == 0 {
            peer.head();
            peer.exactly(more);
            if reset {
                peer.reset();
            }
        } else {
            peer.rest();
        }
    })
}

#[test]
fn a_request_that_met_a_dying_connection_is_repeated() {
    for method in ["GET", "DELETE", "OPTIONS"] {
        for reset in [false, true] {
            let scripted = dies_on_its_second_request(0, reset);
            let (origin, counters) = client(&scripted, limits());
            run(async {
                assert_eq!("200 ok", fetch(&origin).await);
                assert_eq!("200 ok", told(origin.send(request(method, Framing::Empty)).await).await);
            });
            let counted = (counters.origin_connects.get(), counters.origin_retries.get());
            assert_eq!((2, 1), counted, "{method} {reset}");
        }
    }
}

#[test]
fn a_request_that_might_do_something_twice_is_not() {
    let scripted = dies_on_its_second_request(0, false);
    let (origin, counters) = client(&scripted, limits());
    run(async {
        assert_eq!("200 ok", fetch(&origin).await);
        assert_eq!("Disconnected", told(origin.send(request("POST", Framing::Empty)).await).await);
    });
    assert_eq!((1, 0), (counters.origin_connects.get(), counters.origin_retries.get()));
}

#[test]
fn nor_one_whose_body_was_begun() {
    for method in ["POST", "PATCH"] {
        let scripted = dies_on_its_second_request(2, false);
        let (origin, counters) = client(&scripted, limits());
        run(async {
            let first = origin.send(get()).await.unwrap();
            assert_eq!("200 ok", told(Ok(first)).await);
            let exchange = origin.send(request(method, Framing::Length(5))).await.unwrap();
            exchange.write(bytes("he")).await.unwrap();
            assert_eq!(OriginError::Disconnected, exchange.head().await.unwrap_err(), "{method}");
        });
        assert_eq!((1, 0), (counters.origin_connects.get(), counters.origin_retries.get()));
    }
}

/// The origin closed after the head: without its body the request cannot have been acted on.
#[test]
fn a_body_that_was_not_begun_moves_to_the_next_connection() {
    let scripted = Scripted::tcp(|number, mut peer| {
        peer.head();
        if number == 0 {
            peer.send(OK);
            peer.head();
        } else {
            peer.send("HTTP/1.1 100 Continue\r\n\r\n");
            let body = peer.exactly(5);
            peer.report(body);
            peer.send(OK);
            peer.rest();
        }
    });
    let (origin, _) = client(&scripted, limits());
    run(async {
        assert_eq!("200 ok", fetch(&origin).await);
        let exchange = origin.send(request("POST", Framing::Length(5))).await.unwrap();
        assert_eq!(100, exchange.head().await.unwrap().status);
        exchange.write(bytes("hello")).await.unwrap();
        assert_eq!("200 ok", told(Ok(exchange)).await);
        assert_eq!("hello", scripted.reported());
    });
}

#[test]
fn a_fresh_connection_that_dies_is_not_tried_again() {
    let scripted = Scripted::tcp(|_, mut peer| {
        peer.head();
    });
    let (origin, counters) = client(&scripted, limits());
    run(async { assert_eq!("Disconnected", fetch(&origin).await) });
    assert_eq!((1, 0), (counters.origin_connects.get(), counters.origin_retries.get()));
}

#[test]
fn a_repeat_that_meets_the_same_fate_is_the_last() {
    let scripted = Scripted::tcp(|number, mut peer| {
        peer.head();
        if number == 0 {
            peer.send(OK);
            peer.head();
        }
    });
    let (origin, counters) = client(&scripted, limits());
    run(async {
        assert_eq!("200 ok", fetch(&origin).await);
        assert_eq!("Disconnected", fetch(&origin).await);
    });
    assert_eq!((2, 1), (counters.origin_connects.get(), counters.origin_retries.get()));
}

/// Sends a large body while waiting for the head, as the gateway does, until the answer is there.
async fn upload(origin: &Rc<OriginPool>, size: usize) -> String {
    let exchange = origin.send(request("POST", Framing::Length(size as u64))).await.unwrap();
    let piece = Bytes::from(vec![b'x'; 64 * 1024]);
    let mut left = size;
    let response = {
        let mut head = std::pin::pin!(exchange.head());
        loop {
            let part = piece.slice(..left.min(piece.len()));
            left -= part.len();
            if part.is_empty() {
                break head.await;
            }
            tokio::select! {
                biased;
                response = &mut head => break response,
                written = exchange.write(part) => {
                    if written.is_err() {
                        break head.await;
                    }
                }
            }
        }
    };
    match response {
        Ok(response) => format!("{} {}", response.status, scripted::body(&exchange).await.0),
        Err(error) => format!("{error:?}"),
    }
}

const TOO_LARGE: &str = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno";

#[test]
fn an_early_answer_is_heard_while_the_body_is_sent() {
    let scripted = Scripted::tcp(|_, mut peer| {
        peer.head();
        peer.exactly(1000);
        peer.send(TOO_LARGE);
        peer.wait(); // and takes no more
    });
    let (origin, _) = client(&scripted, limits());
    run(async {
        assert_eq!("413 no", upload(&origin, 100 << 20).await);
        assert_eq!(0, origin.idle_connections(), "the rest of the body is still owed");
        scripted.go();
    });
}

#[test]
fn an_early_answer_is_heard_even_if_the_origin_closes_at_once() {
    let scripted = Scripted::tcp(|_, mut peer| {
        peer.head();
        peer.send("HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno");
        peer.report("closed"); // with bytes unread: a reset follows
    });
    let (origin, _) = client(&scripted, limits());
    run(async {
        let exchange = origin.send(request("POST", Framing::Length(10))).await.unwrap();
        assert_eq!("closed", scripted.reported());
        let _ = exchange.write(bytes("hello")).await;
        let _ = exchange.write(bytes("hello")).await;
        assert_eq!("413 no", told(Ok(exchange)).await);
    });
}

#[test]
fn a_large_upload_arrives_whole() {
    let scripted = Scripted::tcp(|_, mut peer: Peer| {
        peer.head();
        let body = peer.exactly(20 << 20);
        assert!(body == "x".repeat(20 << 20));
        peer.send(OK);
        peer.rest();
    });
    let (origin, counters) = client(&scripted, limits());
    run(async {
        assert_eq!("200 ok", upload(&origin, 20 << 20).await);
        assert_eq!(1, origin.idle_connections());
    });
    assert!(counters.origin_bytes_sent.get() > 20 << 20);
}

/// An answer that ends before the request does: the connection is kept only once the request is whole.
#[test]
fn an_answer_before_the_end_of_the_request() {
    let scripted = Scripted::tcp(|_, mut peer| {
        while !peer.head().is_empty() {
            peer.send(OK);
            peer.head(); // the chunks and the last
        }
    });
    let (origin, counters) = client(&scripted, limits());
    run(async {
        for _ in 0..2 {
            let exchange = origin.send(request("POST", Framing::Chunked)).await.unwrap();
            exchange.write(bytes("hello")).await.unwrap();
            assert_eq!(200, exchange.head().await.unwrap().status);
            assert_eq!("ok", scripted::body(&exchange).await.0);
            assert_eq!(0, origin.idle_connections());
            exchange.write_end(None).await.unwrap();
            assert_eq!(1, origin.idle_connections());
        }
    });
    assert_eq!(1, counters.origin_connects.get());
}

/// A future that is dropped while it writes has handed its bytes over: none is lost, none is sent twice.
#[test]
fn a_dropped_write_loses_nothing() {
    let scripted = Scripted::tcp(|_, mut peer| {
        peer.head();
        peer.wait();
        let body = peer.exactly(32 << 20);
        let expect = "x".repeat((32 << 20) - 2) + "yz";
        peer.report(if body == expect { "whole" } else { "torn" });
        peer.send(OK);
        peer.rest();
    });
    let (origin, _) = client(&scripted, OriginLimits { connections: 1, ..limits() });
    run(async {
        let size = 32_usize << 20;
        let exchange = origin.send(request("PUT", Framing::Length(size as u64))).await.unwrap();
        {
            let mut write = std::pin::pin!(exchange.write(Bytes::from(vec![b'x'; size - 2])));
            let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(write.as_mut().poll(cx))).await;
            assert!(polled.is_pending(), "32 MiB do not fit into socket buffers");
        }
        scripted.go();
        exchange.write(bytes("yz")).await.unwrap();
        assert_eq!("200 ok", told(Ok(exchange)).await);
        assert_eq!("whole", scripted.reported());
    });
}
