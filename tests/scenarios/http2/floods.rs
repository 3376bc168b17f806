//! Statement 5: a client whose requests cost it nothing is disconnected, a request of another client waits for less than a second of CPU of each worker, and memory
//! does not grow.

use crate::harness::http2::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, Http2, PADDED, PING, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, block, frame, request,
};
use crate::harness::origin::Script;
use crate::harness::{Larder, Origin, until};

const CALM: u32 = 11;
const MEBIBYTE: u64 = 1 << 20;

/// An origin whose `/slow` answers nothing.
fn larder() -> (Origin, Larder) {
    let origin = Origin::scripted(|it| match it.target() {
        "/kept" => vec![Script::Send(
            b"HTTP/1.1 200 OK\r\nCache-Control: max-age=6000\r\nContent-Length: 4\r\n\r\nkept".to_vec(),
        )],
        _ => vec![],
    });
    let larder = Larder::before(&origin, "");
    assert_eq!("kept", larder.get("/kept").text());
    (origin, larder)
}

/// Sends what `flood` makes over four connections.
#[track_caller]
fn check(flood: impl FnMut(u32) -> Vec<u8>) {
    check_connections(4, flood);
}

/// Sends what `flood` makes, 200 times at most, while another client sends requests. The attackers' connections end with ENHANCE_YOUR_CALM.
#[track_caller]
fn check_connections(count: u64, mut flood: impl FnMut(u32) -> Vec<u8>) {
    let (_origin, larder) = larder();
    let before = larder.resident();
    let mut attackers: Vec<_> = (0..count).map(|_| Http2::connect(&larder)).collect();
    let mut other = Http2::connect(&larder);
    let mut longest = 0;
    for round in 0..200 {
        for it in &mut attackers {
            it.send(flood(round));
        }
        if round % 20 == 0 {
            let begun = larder.processor_time();
            assert_eq!("kept", other.get("/kept").text());
            longest = longest.max(larder.processor_time() - begun);
        }
    }
    // Two workers, of which each may use a second.
    assert!(longest < 2000, "{longest} ms of CPU until the answer of another client");
    for it in &mut attackers {
        it.rest();
        assert!(it.goaway.is_none_or(|it| it == CALM), "{:?}", it.goaway);
    }
    assert_eq!("kept", other.get("/kept").text());
    let grown = larder.resident().saturating_sub(before);
    assert!(grown < 64 * MEBIBYTE, "{grown} bytes more");
    assert_eq!(count, larder.counter("http2_floods"));
}

#[test]
fn rapid_resets() {
    let head = block(&request("GET", "/slow", &[]));
    check(|round| {
        let ids = (0..100).map(|it| (round * 100 + it) * 2 + 1);
        let one = |id| {
            let reset = frame(RST_STREAM, 0, id, &8u32.to_be_bytes());
            [frame(HEADERS, END_STREAM | END_HEADERS, id, &head), reset].concat()
        };
        ids.flat_map(one).collect()
    });
}

#[test]
fn streams_that_we_are_made_to_reset() {
    let head = block(&request("GET", "/slow", &[]));
    check(|round| {
        let ids = (0..100).map(|it| (round * 100 + it) * 2 + 1);
        let one = |id| {
            let broken = frame(WINDOW_UPDATE, 0, id, &[0; 4]);
            [frame(HEADERS, END_STREAM | END_HEADERS, id, &head), broken].concat()
        };
        ids.flat_map(one).collect()
    });
}

#[test]
fn continuations_without_an_end() {
    check(|round| match round {
        0 => frame(HEADERS, END_STREAM, 1, &block(&request("GET", "/", &[]))),
        _ => frame(CONTINUATION, 0, 1, &block(&[("x", &"y".repeat(1000))])),
    });
}

#[test]
fn continuations_without_a_byte() {
    check(|round| match round {
        0 => frame(HEADERS, END_STREAM, 1, &[]),
        _ => frame(CONTINUATION, 0, 1, &[]).repeat(100),
    });
}

#[test]
fn pings() {
    check(|_| frame(PING, 0, 0, b"12345678").repeat(100));
}

#[test]
fn settings() {
    check(|_| frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 255, 255]).repeat(100));
}

/// A frame has room for 2,730 changes of the window of each open stream.
#[test]
fn settings_that_change_the_window_of_many_streams() {
    let head = block(&request("GET", "/slow", &[]));
    let windows: Vec<u8> =
        (0..2730u32).flat_map(|it| [&[0, 4][..], &(65_535 - it % 2).to_be_bytes()].concat()).collect();
    check_connections(30, |round| match round {
        0 => (0..100).flat_map(|it| frame(HEADERS, END_STREAM | END_HEADERS, it * 2 + 1, &head)).collect(),
        _ => frame(SETTINGS, 0, 0, &windows),
    });
}

#[test]
fn acknowledgements_of_nothing() {
    check(|_| frame(SETTINGS, ACK, 0, &[]).repeat(100));
}

#[test]
fn window_updates() {
    check(|_| frame(WINDOW_UPDATE, 0, 0, &1u32.to_be_bytes()).repeat(1000));
}

#[test]
fn data_without_a_byte() {
    check(|round| match round {
        0 => frame(HEADERS, END_HEADERS, 1, &block(&request("POST", "/slow", &[]))),
        _ => frame(DATA, 0, 1, &[]).repeat(1000),
    });
}

/// Of padding alone, which costs credit that is given back: on a stream that is open, and on one that was answered before its end.
#[test]
fn padding_without_a_byte() {
    let padding = [&[255][..], &[0; 255]].concat();
    for path in ["/slow", "/kept"] {
        check(|round| match round {
            0 => frame(HEADERS, END_HEADERS, 1, &block(&request("POST", path, &[]))),
            _ => frame(DATA, PADDED, 1, &padding).repeat(100),
        });
    }
}

/// Bodies of requests that wait for their origin: 120 KB each, with eight streams of a hundred connections.
#[test]
fn bodies_that_wait_for_the_origin() {
    let origin = Origin::scripted(|it| match it.target() {
        "/kept" => vec![Script::Send(
            b"HTTP/1.1 200 OK\r\nCache-Control: max-age=6000\r\nContent-Length: 4\r\n\r\nkept".to_vec(),
        )],
        _ => vec![],
    });
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\n\
         proxy = {{ to = [\"{}\"], connections = 1, queue = 2000, queue_timeout = \"10m\" }}\n",
        origin.url()
    ));
    assert_eq!("kept", larder.get("/kept").text());
    let before = larder.resident();
    let head = block(&request("POST", "/slow", &[]));
    let mut clients: Vec<_> = (0..100).map(|_| Http2::connect(&larder)).collect();
    for it in &mut clients {
        for id in (0..8).map(|it| it * 2 + 1) {
            it.send(frame(HEADERS, END_HEADERS, id, &head));
            it.send(frame(DATA, 0, id, &[b'x'; 15_000]).repeat(8));
        }
    }
    until("the last bodies are refused", || larder.counter("unread_bodies") > 300);
    let grown = larder.resident().saturating_sub(before);
    assert!(grown < 64 * MEBIBYTE, "{grown} bytes more");
    assert_eq!("kept", Http2::connect(&larder).get("/kept").text());
}

/// A field of 4,000 bytes that is remembered once and named 16,000 times.
#[test]
fn bombs() {
    let (_origin, larder) = larder();
    let before = larder.resident();
    let mut client = Http2::connect(&larder);
    let mut head = block(&request("GET", "/kept", &[]));
    head.extend_from_slice(b"\x40\x01x\x7f\xa1\x1e");
    head.extend_from_slice(&[b'y'; 4000]);
    client.send(frame(HEADERS, END_STREAM | END_HEADERS, 1, &head));
    assert_eq!("kept", client.answer(1).text());
    let bomb = [&block(&request("GET", "/kept", &[]))[..], &[0xbe; 16_000]].concat();
    client.begin_at(203);
    let begun = larder.processor_time();
    for id in 0..100 {
        let id = 3 + id * 2;
        client.send(frame(HEADERS, END_STREAM | END_HEADERS, id, &bomb));
        assert_eq!(431, client.answer(id).status);
    }
    let used = larder.processor_time() - begun;
    assert!(used < 10_000, "{used} ms of CPU");
    assert_eq!(100, larder.counter("head_too_large"));
    assert_eq!("kept", client.get("/kept").text());
    let grown = larder.resident().saturating_sub(before);
    assert!(grown < 16 * MEBIBYTE, "{grown} bytes more");
}

/// Who lets nothing come is cut off stream by stream, and what waits for it is bounded.
#[test]
fn windows_held_shut() {
    let origin =
        Origin::new(|_| format!("HTTP/1.1 200 OK\nCache-Control: no-store\n\n{}", "x".repeat(8_000_000)));
    let larder = Larder::before_with(&origin, "", "[limits]\nwrite_timeout = \"500ms\"\n");
    let before = larder.resident();
    let mut client = Http2::with_settings(&larder, &[(4, 1)]);
    client.is_generous = false;
    let ids: Vec<_> = (0..50).map(|it| client.send_get(&format!("/{it}"))).collect();
    for id in ids {
        let answer = client.answer(id);
        assert_eq!((Some(8), 1), (answer.reset, answer.body.len()));
    }
    let grown = larder.resident().saturating_sub(before);
    assert!(grown < 64 * MEBIBYTE, "{grown} bytes more");
    assert_eq!(50, larder.counter("client_write_timeouts"));
}
