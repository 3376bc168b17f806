//! Slow or stalled clients of HTTP/2: the waits and their limits.

use crate::harness::http2::{END_STREAM, Http2, PING, frame, request};
use crate::harness::origin::{Gate, Script, response};
use crate::harness::{Larder, Origin, until};

/// One answer, to whatever is asked; to `/slow` not before the gate is open.
fn origin(gate: &std::sync::Arc<Gate>) -> Origin {
    let gate = gate.clone();
    Origin::scripted(move |it| {
        let answer = Script::Send(response("HTTP/1.1 200 OK\nCache-Control: no-store\n\nhere"));
        match it.target().starts_with("/slow") {
            true => vec![Script::Gate(gate.clone()), answer],
            false => vec![answer],
        }
    })
}

/// Two bodies come, a byte and 2,000 bytes in each second.
#[test]
fn a_body_that_drips_is_cut_off() {
    let origin = origin(&Gate::new());
    let larder = Larder::before_with(&origin, "", "[limits]\nmin_rate = \"1KiB\"\n");
    // A second is one that the test lets pass: on a busy machine the quick body would be slow, too.
    larder.hold();
    let mut client = Http2::connect(&larder);
    let length = [("content-length", "100000")];
    let [drips, goes] = [(), ()].map(|()| client.head(&request("POST", "/up", &length), 0));
    let mut sent = 0;
    while larder.counter("client_body_timeouts") == 0 {
        assert!(sent < 60_000, "the window of ten seconds is over");
        let received = larder.counter("client_bytes_received");
        client.data(drips, b"x", 0);
        client.data(goes, &[b'y'; 2_000], 0);
        sent += 2_000;
        until("it came", || larder.counter("client_bytes_received") >= received + 2_001);
        larder.pass(1_000);
    }
    assert_eq!(408, client.answer(drips).status);
    (sent..100_000).step_by(2_000).for_each(|_| client.data(goes, &[b'y'; 2_000], 0));
    client.data(goes, b"", END_STREAM);
    assert_eq!("here", client.answer(goes).text());
    assert_eq!(1, larder.counter("client_body_timeouts"));
}

/// What comes for many streams that let nothing be sent is left with the application, but for a piece or two of each.
#[test]
fn a_body_that_no_client_takes_is_not_fetched() {
    const STREAMS: u64 = 100;
    let origin =
        Origin::new(|_| format!("HTTP/1.1 200 OK\nCache-Control: no-store\n\n{}", "x".repeat(2_000_000)));
    let larder = Larder::before(&origin, "");
    let mut client = Http2::with_settings(&larder, &[(4, 0)]);
    let ids: Vec<_> = (0..STREAMS).map(|it| client.send_get(&format!("/{it}"))).collect();
    for id in &ids {
        client.until(*id, |it| it.status == 200);
    }
    let received = || larder.counter("origin_bytes_received");
    let mut before = received();
    until("nothing more is fetched", || {
        (0..20).all(|_| received() == std::mem::replace(&mut before, received()))
    });
    assert!(before < STREAMS * 150_000, "{before} bytes");
    // It goes on as its client takes it.
    client.allow(ids[7], 3_000_000);
    assert_eq!(2_000_000, client.answer(ids[7]).body.len());
}

/// Whose credit is used up by what nobody reads owes nothing.
#[test]
fn an_upload_without_credit_does_not_time_out() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let larder = Larder::before_with(&origin, "", "[limits]\nbody_timeout = \"300ms\"\n");
    let mut client = Http2::connect(&larder);
    let gets: Vec<_> =
        (0..8).map(|at| client.head(&request("GET", &format!("/slow/{at}"), &[]), 0)).collect();
    // What has arrived of a body is read before its origin is asked, and nothing more of a GET's before its answer.
    until("each has reached the origin", || gate.waiting() == 8);
    for id in gets {
        (0..8).for_each(|_| client.data(id, &[b'x'; 16_384], 0));
    }
    let starved = client.head(&request("POST", "/up", &[]), 0);
    for count in 1..=2 {
        let mut other = Http2::connect(&larder);
        let silent = other.head(&request("POST", "/up", &[]), 0);
        assert_eq!(408, other.answer(silent).status);
        assert_eq!(count, larder.counter("client_body_timeouts"));
    }
    client.send(frame(PING, 0, 0, b"12345678"));
    while client.read().expect("it is answered").kind != PING {}
    assert_eq!(None, client.so_far(starved).reset);
    gate.open();
}
