//! Origins that hang, drip or take nothing are cut off in time, and spoil nothing for the next request.

mod scripted;

use bytes::Bytes;
use larder_origin::{OriginError, OriginLimits, TimeLimit};
use larder_wire::message::Framing;
use scripted::{Peer, Scripted, client, fetch, get, limits, request, run, told};
use std::time::Duration;

/// Short for a test, and long enough for the good answer that follows on a busy machine.
const SHORT: Duration = Duration::from_secs(1);

/// Connection 0 behaves as `script` says; others answer `200 ok`. Expects `first` of a GET, one timeout
/// counted, and a right answer to the next GET.
#[track_caller]
fn check(limits: OriginLimits, script: fn(&mut Peer), first: &str) {
    let scripted = Scripted::tcp(move |number, mut peer| {
        peer.head();
        if number == 0 {
            script(&mut peer);
            peer.rest();
            peer.report("closed");
        } else {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let (origin, counters) = client(&scripted, limits);
    run(async {
        assert_eq!(first, fetch(&origin).await);
        assert_eq!("closed", scripted.reported(), "the origin is let go");
        assert_eq!(1, counters.origin_timeouts.get());
        assert_eq!("200 ok", fetch(&origin).await);
    });
}

#[test]
fn no_head() {
    let limits = OriginLimits { first_byte: SHORT, ..limits() };
    check(limits, |_| {}, "Timeout(FirstByte)");
    check(limits, |peer| assert!(peer.send("HTTP/1.1 200 OK\r\nContent-Len")), "Timeout(FirstByte)");
}

#[test]
fn interim_responses_are_no_head() {
    let limits = OriginLimits { first_byte: SHORT, ..limits() };
    check(limits, |peer| assert!(peer.send("HTTP/1.1 103 Early Hints\r\n\r\n")), "103 Timeout(FirstByte)");
}

#[test]
fn silence_within_the_body() {
    let limits = OriginLimits { between_bytes: SHORT, ..limits() };
    check(
        limits,
        |peer| assert!(peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel")),
        "200 hel Timeout(BetweenBytes)",
    );
    check(
        limits,
        |peer| assert!(peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")),
        "200 hello Timeout(BetweenBytes)",
    );
    check(limits, |peer| assert!(peer.send("HTTP/1.1 200 OK\r\n\r\nhel")), "200 hel Timeout(BetweenBytes)");
}

/// Bytes that always come in time one by one, for ever.
fn drip(peer: &mut Peer) {
    while peer.send("x") {
        peer.pause(Duration::from_millis(2));
    }
}

#[test]
fn a_drip_is_cut_by_the_total() {
    let limits = OriginLimits { total: SHORT, ..limits() };
    let scripted = Scripted::tcp(|_, mut peer| {
        peer.head();
        peer.send("HTTP/1.1 200 OK\r\n\r\n");
        drip(&mut peer);
        peer.report("closed");
    });
    let (origin, counters) = client(&scripted, limits);
    run(async {
        let report = fetch(&origin).await;
        assert!(report.starts_with("200 xx") && report.ends_with("x Timeout(Total)"), "{report}");
        assert_eq!("closed", scripted.reported());
        assert_eq!(1, counters.origin_timeouts.get());
    });
}

#[test]
fn a_drip_within_the_head_is_cut() {
    let limits = OriginLimits { first_byte: SHORT, ..limits() };
    check(limits, |peer| assert!(peer.send("HTTP/1.1 200 OK\r\nX: ")), "Timeout(FirstByte)");
    check(
        limits,
        |peer| {
            peer.send("HTTP/1.1 200 OK\r\nX: ");
            drip(peer);
        },
        "Timeout(FirstByte)",
    );
}

/// It never makes us wait, and never ends.
#[test]
fn a_flood_is_cut_by_the_total() {
    let limits = OriginLimits { total: SHORT, ..limits() };
    let scripted = Scripted::tcp(|_, mut peer| {
        peer.head();
        peer.send("HTTP/1.1 200 OK\r\n\r\n");
        while peer.send([b'x'; 65536]) {}
        peer.report("closed");
    });
    let (origin, _) = client(&scripted, limits);
    run(async {
        let exchange = origin.send(get()).await.unwrap();
        exchange.head().await.unwrap();
        let end = loop {
            match exchange.next().await {
                Ok(Some(_)) => {}
                end => break end,
            }
        };
        assert_eq!(Err(OriginError::Timeout(TimeLimit::Total)), end);
        assert_eq!("closed", scripted.reported());
    });
}

#[test]
fn an_origin_that_takes_no_body_is_cut() {
    let scripted = Scripted::tcp(|_, mut peer| {
        peer.head();
        peer.wait();
    });
    let (origin, counters) = client(&scripted, OriginLimits { between_bytes: SHORT, ..limits() });
    run(async {
        let exchange = origin.send(request("POST", Framing::Length(64 << 20))).await.unwrap();
        let written = exchange.write(Bytes::from(vec![b'x'; 64 << 20])).await;
        assert_eq!(Err(OriginError::Timeout(TimeLimit::BetweenBytes)), written);
        assert_eq!("Timeout(BetweenBytes)", told(Ok(exchange)).await);
        assert_eq!(1, counters.origin_timeouts.get(), "counted once");
        scripted.go();
    });
}

/// Whoever reads is told that writing failed, side by side in one task.
#[test]
fn a_reader_learns_that_the_writer_gave_up() {
    for answer in ["", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"] {
        let scripted = Scripted::tcp(move |_, mut peer| {
            peer.head();
            peer.send(answer);
            peer.wait();
        });
        let short = OriginLimits { between_bytes: SHORT, first_byte: SHORT, ..limits() };
        let (origin, counters) = client(&scripted, short);
        run(async {
            let exchange = origin.send(request("POST", Framing::Length(64 << 20))).await.unwrap();
            let read = async {
                exchange.head().await?;
                exchange.next().await?;
                exchange.next().await
            };
            let (read, written) = tokio::join!(read, exchange.write(Bytes::from(vec![b'x'; 64 << 20])));
            assert_eq!(
                (
                    OriginError::Timeout(TimeLimit::BetweenBytes),
                    Err(OriginError::Timeout(TimeLimit::BetweenBytes))
                ),
                (read.unwrap_err(), written)
            );
            assert_eq!(1, counters.origin_timeouts.get());
            scripted.go();
        });
    }
}

/// A complete response stays complete, whatever happens to the rest of the request.
#[test]
fn a_whole_response_outlives_the_failure_of_its_request() {
    let scripted = Scripted::tcp(move |_, mut peer| {
        peer.head();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        peer.wait();
    });
    let (origin, _) = client(&scripted, OriginLimits { between_bytes: SHORT, ..limits() });
    run(async {
        let exchange = origin.send(request("POST", Framing::Length(64 << 20))).await.unwrap();
        assert_eq!(200, exchange.head().await.unwrap().status);
        assert_eq!(b"ok", &*exchange.next().await.unwrap().unwrap());
        let written = exchange.write(Bytes::from(vec![b'x'; 64 << 20])).await;
        assert_eq!(Err(OriginError::Timeout(TimeLimit::BetweenBytes)), written);
        assert_eq!(Ok(None), exchange.next().await);
        scripted.go();
    });
}

/// The wait for the head begins with the end of the request, even if it was begun before.
#[test]
fn the_first_byte_is_awaited_from_the_end_of_the_request() {
    let scripted = Scripted::tcp(|_, mut peer| {
        peer.head();
        peer.rest();
    });
    let (origin, _) = client(&scripted, OriginLimits { first_byte: SHORT, ..limits() });
    run(async {
        let exchange = origin.send(request("POST", Framing::Chunked)).await.unwrap();
        let waited = tokio::time::timeout(3 * SHORT, exchange.head()).await;
        assert!(waited.is_err(), "a slow upload is not the origin's fault");
        let write = async {
            tokio::task::yield_now().await;
            exchange.write_end(None).await
        };
        let (head, written) = tokio::join!(exchange.head(), write);
        assert_eq!(Ok(()), written);
        assert_eq!(OriginError::Timeout(TimeLimit::FirstByte), head.unwrap_err());
    });
}

/// While the body waits for a 100, the origin owes an answer.
#[test]
fn a_100_that_does_not_come_is_not_awaited_for_ever() {
    let scripted = Scripted::tcp(|_, mut peer| {
        peer.head();
        peer.rest();
    });
    let (origin, _) = client(&scripted, OriginLimits { first_byte: SHORT, ..limits() });
    run(async {
        let mut request = request("POST", Framing::Length(5));
        request.fields.push("Expect", "100-continue");
        let exchange = origin.send(request).await.unwrap();
        assert_eq!(OriginError::Timeout(TimeLimit::FirstByte), exchange.head().await.unwrap_err());
    });
}

#[test]
fn no_connection_in_time() {
    // A listener whose queue is full swallows what comes next.
    let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    listener.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let _first = std::net::TcpStream::connect(address).unwrap();
    let counters = std::sync::Arc::<larder_counters::Counters>::default();
    let limits = OriginLimits { connect: SHORT, ..limits() };
    let origin = larder_origin::OriginPool::new(
        larder_origin::OriginAddress::Tcp(address.ip().to_string(), address.port()),
        limits,
        counters.clone(),
    );
    run(async { assert_eq!("ConnectTimeout", fetch(&origin).await) });
    assert_eq!((1, 1), (counters.origin_connect_failures.get(), counters.origin_timeouts.get()));
}
