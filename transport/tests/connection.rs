//! The HTTP/1.1 server connection over real sockets: answers, order, framing, and every way to end.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod support;

use std::io::{Read, Write};
use std::net::Shutdown;
use support::{FILE, Order, Peer, Server, pattern};

/// Says `request` and compares everything that is heard until the server closes.
#[track_caller]
fn check(request: &str, expect: &str) {
    assert_eq!(expect, Server::new().talk(request), "{request:?}");
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn page(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn one_request_at_each_speed_of_a_half_closed_client() {
    check(&get("/fast"), &page("/fast"));
    check(&get("/slow"), &page("/slow"));
}

#[test]
fn several_are_answered_in_order_at_both_speeds() {
    for count in [1, 2, 15, 16, 17, 100] {
        let name = |at: usize| if at % 5 == 3 { format!("/slow{at}") } else { format!("/fast{at}") };
        let requests: String = (0..count).map(|it| get(&name(it))).collect();
        let pages: String = (0..count).map(|it| page(&name(it))).collect();
        check(&requests, &pages);
    }
}

#[test]
fn more_answers_than_the_socket_takes_wait_for_the_client() {
    let server = Server::new();
    let mut peer = server.connect();
    let target = format!("/fast{}", "x".repeat(900));
    let mut speaker = peer.stream.try_clone().unwrap();
    let count = 20_000;
    let requests = get(&target).repeat(count);
    let writer = std::thread::spawn(move || {
        speaker.write_all(requests.as_bytes()).unwrap();
        speaker.shutdown(Shutdown::Write).unwrap();
    });
    assert!(page(&target).repeat(count) == peer.rest());
    writer.join().unwrap();
    assert_eq!(count as u64, server.counters.requests.get());
}

#[test]
fn a_head_may_come_byte_by_byte() {
    let server = Server::new();
    let mut peer = server.connect();
    peer.stream.set_nodelay(true).unwrap();
    for byte in get("/fast").repeat(2).into_bytes() {
        peer.say([byte]);
    }
    peer.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(page("/fast").repeat(2), peer.rest());
}

#[test]
fn connections_of_both_versions_live_as_long_as_asked() {
    let old = |line: &str| format!("GET /slow HTTP/1.0\r\nHost: a\r\n{line}\r\n");
    let close = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n/slow";
    let keep = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n/slow";
    check(&old("").repeat(2), close);
    check(&old("Connection: keep-alive\r\n").repeat(2), &keep.repeat(2));
    check(&"GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".repeat(2), close);
    let fast = close.replace("slow", "fast");
    check(&"GET /fast HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".repeat(2), &fast);
}

#[test]
fn streams_are_chunked_or_end_with_the_connection() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                   3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n0\r\nX-Sum: 3\r\n\r\n";
    check(&(get("/stream") + &get("/fast")), &(chunked.to_owned() + &page("/fast")));
    check("GET /stream HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nonetwothree");
}

#[test]
fn head_has_no_body() {
    let head = |target: &str| get(target).replace("GET", "HEAD");
    check(
        &(head("/slow") + &get("/fast")),
        &("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n".to_owned() + &page("/fast")),
    );
    check(&(head("/stream") + &get("/fast")), &("HTTP/1.1 200 OK\r\n\r\n".to_owned() + &page("/fast")));
    check(&(head("/short") + &get("/fast")), &{
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n".to_owned() + &page("/fast")
    });
}

#[test]
fn interim_responses_are_sent_only_to_http11_clients() {
    let early = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n";
    let end = "HTTP/1.1 204 No Content\r\n\r\n";
    check(&(get("/interim") + &get("/fast")), &(early.to_owned() + end + &page("/fast")));
    check("GET /interim HTTP/1.0\r\n\r\n", "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
}

fn post(target: &str, lines: &str, body: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n{body}")
}

#[test]
fn request_bodies_are_read_by_their_framing() {
    let next = get("/fast");
    let then = |body: &str| page(body) + &page("/fast");
    check(&(post("/echo", "Content-Length: 5\r\n", "hello") + &next), &then("5:hello:"));
    check(&(post("/echo", "Content-Length: 0\r\n", "") + &next), &then("0::"));
    let chunked =
        post("/echo", "Transfer-Encoding: chunked\r\n", "3\r\nhel\r\n2;a=b\r\nlo\r\n0\r\nX-T: 1\r\n\r\n");
    check(&(chunked + &next), &then("5:hello:X-T: 1"));
    let long = "y".repeat(900_000);
    check(
        &(post("/echo", "Content-Length: 900000\r\n", &long) + &next),
        &then(&format!("900000:{}:", &long[..20])),
    );
    let tiny = "1\r\nz\r\n".repeat(50_000) + "0\r\n\r\n";
    check(
        &(post("/echo", "Transfer-Encoding: chunked\r\n", &tiny) + &next),
        &then(&format!("50000:{}:", "z".repeat(20))),
    );
}

#[test]
fn a_body_that_is_cut_short_malformed_or_too_long_is_no_body() {
    let refused = |status: &str, text: &str| {
        let length = text.len();
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}")
    };
    let chunked = |body: &str| post("/echo", "Transfer-Encoding: chunked\r\n", body);
    check(&post("/echo", "Content-Length: 6\r\n", "hello"), &refused("400 Bad Request", "Closed"));
    check(&chunked("5\r\nhello\r\n"), &refused("400 Bad Request", "Closed"));
    check(&chunked("5\r\nhello!\r\n0\r\n\r\n"), &refused("400 Bad Request", "Malformed"));
    check(&chunked("10000000000000000\r\n"), &refused("400 Bad Request", "Malformed"));
    let over = refused("413 Content Too Large", "TooLarge");
    check(&post("/echo", "Content-Length: 1048577\r\n", ""), &over);
    check(&post("/echo", "Content-Length: 1048577\r\nExpect: 100-continue\r\n", ""), &over);
    check(&chunked(&("80000\r\n".to_owned() + &"x".repeat(0x80000) + "\r\n").repeat(3)), &over);
}

#[test]
fn a_client_that_waits_for_100_continue_gets_it() {
    let server = Server::new();
    let mut peer = server.connect();
    peer.say(post("/echo", "Content-Length: 5\r\nExpect: 100-continue\r\n", ""));
    assert_eq!("HTTP/1.1 100 Continue\r\n\r\n", peer.until("\r\n\r\n"));
    peer.say("hello");
    assert_eq!(page("5:hello:"), peer.until("5:hello:"));
    peer.say(post("/echo", "Content-Length: 5\r\nExpect: 100-continue\r\n", "hello"));
    assert_eq!(page("5:hello:"), peer.until("5:hello:"), "it did not wait");
    peer.say(post("/slow", "Content-Length: 5\r\nExpect: 100-continue\r\n", ""));
    let close = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n/slow";
    assert_eq!(close, peer.rest(), "nobody wanted the body");
}

#[test]
fn an_unread_body_is_never_the_next_request() {
    let hidden = get("/hidden");
    let fields = format!("Content-Length: {}\r\n", hidden.len());
    check(&(post("/slow", &fields, &hidden) + &get("/fast")), &(page("/slow") + &page("/fast")));
    let chunk = format!("{:x}\r\n{hidden}\r\n0\r\n\r\n", hidden.len());
    let chunked = post("/slow", "Transfer-Encoding: chunked\r\n", &chunk);
    check(&(chunked.clone() + &get("/fast")), &(page("/slow") + &page("/fast")));
    check(&(chunked.replace("\r\n0\r\n", "!\n0\r\n") + &get("/fast")), &page("/slow"));
    let close = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n/slow";
    check(&post("/slow", "Content-Length: 700000\r\n", &hidden.repeat(30_000)[..700_000]), close);
}

/// What was answered, without the one `Date` that a refusal has.
#[track_caller]
fn without_date(text: &str) -> String {
    let (before, rest) = text.split_once("\r\nDate: ").unwrap_or_else(|| panic!("no Date: {text}"));
    let (date, after) = rest.split_once("\r\n").unwrap();
    assert!(
        larder_semantics::date::parse(date.as_bytes()).is_some() && !after.contains("\r\nDate: "),
        "{text}"
    );
    format!("{before}\r\n{after}")
}

/// The answer to something that was refused, without its `Date`.
fn error(status: &str, sentence: &str) -> String {
    let page = format!("{status}\n{sentence}\n");
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{page}",
        page.len()
    )
}

#[test]
fn a_refused_head_gets_a_page_and_a_close_and_nothing_more() {
    let server = Server::new();
    let both = "GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
    let page_of = error("400 Bad Request", "The request has both Content-Length and Transfer-Encoding.");
    assert_eq!(page("/fast") + &page_of, without_date(&server.talk(get("/fast") + both + &get("/fast"))));
    let large = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(5000));
    let page_of = error(
        "431 Request Header Fields Too Large",
        "The request head is too large, or has more than 128 fields.",
    );
    assert_eq!(
        page_of,
        without_date(&server.talk(large.repeat(100))),
        "the client sees it although it sent more"
    );
    let page_of = error("414 URI Too Long", "The request target is too long.");
    assert_eq!(page_of, without_date(&server.talk(get(&"/x".repeat(600)))));
    let counters = &server.counters;
    let counts = [&counters.requests_rejected, &counters.head_too_large, &counters.target_too_long];
    assert_eq!([3, 1, 1], counts.map(|it| it.get()));
    assert_eq!(1, counters.requests.get());
}

#[test]
fn a_response_that_was_cut_short_looks_so() {
    let server = Server::new();
    assert_eq!("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", server.talk(get("/short")));
    assert_eq!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        server.talk(get("/cut"))
    );
    let mut peer = server.connect();
    peer.say("GET /cut HTTP/1.0\r\n\r\n");
    let error = peer.closed().expect_err("only a reset tells it from a whole one");
    assert_eq!(std::io::ErrorKind::ConnectionReset, error.kind());
}

#[test]
fn a_large_file_reaches_a_slow_reader_whole() {
    let server = Server::new();
    let mut peer = server.connect();
    peer.say(get("/file") + &get("/fast"));
    let head = peer.until("\r\n\r\n");
    assert_eq!(format!("HTTP/1.1 200 OK\r\nContent-Length: {FILE}\r\n\r\n"), head);
    let mut all = Vec::new();
    let mut part = vec![0; 1_000_003];
    peer.stream.shutdown(Shutdown::Write).unwrap();
    loop {
        // Others are served in between: the reader is slow, not the server.
        assert_eq!(page("/fast"), server.talk(get("/fast")));
        match peer.read_raw(&mut part) {
            0 => break,
            count => all.extend_from_slice(&part[..count]),
        }
    }
    let next = page("/fast").into_bytes();
    assert!(all.ends_with(&next));
    assert!(pattern(0, FILE) == all[..all.len() - next.len()]);
}

impl Peer {
    /// What was heard and not looked at, then what comes.
    fn read_raw(&mut self, part: &mut [u8]) -> usize {
        match self.take_buffer() {
            held if held.is_empty() => self.stream.read(part).unwrap(),
            held => {
                part[..held.len()].copy_from_slice(&held);
                held.len()
            }
        }
    }
}

#[test]
fn a_disconnected_client_is_counted_and_leaves_other_clients_served() {
    let server = Server::new();
    let mut peer = server.connect();
    peer.say(get("/file"));
    peer.until("\r\n\r\n");
    drop(peer);
    while server.counters.client_aborts.get() == 0 {
        assert_eq!(page("/fast"), server.talk(get("/fast")));
    }
}

#[test]
fn a_panic_ends_one_connection_and_no_other() {
    let server = Server::new();
    let mut other = server.connect();
    for target in ["/panic", "/fast/panic"] {
        assert_eq!("", server.talk(get(target)));
        other.say(get("/fast"));
        assert_eq!(page("/fast"), other.until("/fast"));
    }
    drop(other);
    while server.counters.connections_open.get() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_drain_closes_idle_connections_and_finishes_requests_in_flight() {
    let server = Server::new();
    let mut idle = server.connect();
    idle.say(get("/fast"));
    assert_eq!(page("/fast"), idle.until("/fast"));
    let mut busy = server.connect();
    busy.say(get("/file"));
    busy.until("\r\n\r\n");
    server.order(Order::Drain);
    assert_eq!("", idle.rest(), "closed without a word");
    busy.say(get("/fast"));
    let mut all = busy.take_buffer();
    busy.stream.read_to_end(&mut all).unwrap();
    let last = page("/fast").replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    assert!(all.ends_with(last.as_bytes()), "what arrived before the close is answered, and says so");
    assert_eq!(FILE + last.len(), all.len());
    while server.counters.connections_open.get() > 0 {
        std::thread::yield_now();
    }
    assert!(std::net::TcpStream::connect(server.address).is_err(), "nobody listens");
}
