//! A law: for any requests on a connection, and any division of the bytes, each request is answered once, in order, with
//! its own bytes.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod support;

use proptest::prelude::*;
use std::net::Shutdown;
use std::sync::LazyLock;
use support::Server;

static SERVER: LazyLock<Server> = LazyLock::new(Server::new);

/// One request and its answer.
fn exchange() -> impl Strategy<Value = (String, String)> {
    let page = |body: String| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    // Every body looks like a request: one that is mistaken for the next is answered, and found out.
    let body = prop_oneof![Just(0_usize), 1..60_usize, 10_000..40_000_usize]
        .prop_map(|it| "GET /fast/hidden HTTP/1.1\r\nHost: a\r\n\r\n".repeat(it / 30 + 1)[..it].to_owned());
    let begin = |body: &str| body.get(..body.len().min(20)).unwrap_or_default().to_owned();
    let chunked = |body: &str, size: usize| {
        let chunks = body.as_bytes().chunks(size);
        let chunks = chunks.map(|it| format!("{:x}\r\n{}\r\n", it.len(), String::from_utf8_lossy(it)));
        chunks.chain(["0\r\n\r\n".to_owned()]).collect::<String>()
    };
    prop_oneof![
        4 => (0..1000_u32).prop_map(move |it| (get(&format!("/fast{it}")), page(format!("/fast{it}")))),
        2 => (0..1000_u32).prop_map(move |it| (get(&format!("/slow{it}")), page(format!("/slow{it}")))),
        1 => Just((
            get("/stream"),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n0\r\n\
             X-Sum: 3\r\n\r\n".to_owned(),
        )),
        1 => body.clone().prop_map(move |body| (
            format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len()),
            page(format!("{}:{}:", body.len(), begin(&body))),
        )),
        1 => (body.clone(), 1..5000_usize).prop_map(move |(body, size)| (
            format!("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{}", chunked(&body, size)),
            page(format!("{}:{}:", body.len(), begin(&body))),
        )),
        1 => (body.clone(), 1..5000_usize).prop_map(move |(body, size)| (
            format!("POST /slow HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{}", chunked(&body, size)),
            page("/slow".to_owned()),
        )),
        1 => body.prop_map(move |body| (
            format!("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len()),
            page("/slow".to_owned()),
        )),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_is_answered_once_and_in_order(
        exchanges in prop::collection::vec(exchange(), 1..30),
        cuts in prop::collection::vec(1..3000_usize, 1..20),
    ) {
        let (requests, answers): (Vec<_>, Vec<_>) = exchanges.into_iter().unzip();
        let (requests, answers) = (requests.concat(), answers.concat());
        let mut peer = SERVER.connect();
        peer.stream.set_nodelay(true).unwrap();
        let mut speaker = peer.stream.try_clone().unwrap();
        let writer = std::thread::spawn(move || {
            use std::io::Write;
            let mut rest = requests.as_bytes();
            for cut in cuts.into_iter().cycle() {
                let (now, later) = rest.split_at(cut.min(rest.len()));
                speaker.write_all(now).unwrap();
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            speaker.shutdown(Shutdown::Write).unwrap();
        });
        let heard = peer.rest();
        writer.join().unwrap();
        prop_assert_eq!(answers, heard);
    }
}
