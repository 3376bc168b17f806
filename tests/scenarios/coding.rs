//! Compressed forms of stored responses: for any coding of the origin and any that the client accepts, the content is the
//! same, the fields describe it, and the origin is asked once.

mod heads;
mod lies;
mod lower_tiers;
mod passed;

use crate::harness::origin::{Gate, Received, Script};
use crate::harness::{Client, Larder, Memcached, Origin, Response, tiers, until};
use larder_gateway::coding::codec::{self, CodecLevels};
use larder_semantics::coding::Coding;
use std::sync::Arc;

const LEVELS: CodecLevels = CodecLevels { gzip: 6, brotli: 5, zstd: 3 };

const COMPRESS: &str = "compress = { enabled = true }";

/// The page that every origin here has.
fn page() -> Vec<u8> {
    let lines = (0..120).map(|it| format!("<li>{it}: soup of the day, bread, {}</li>\n", it * 7919 % 1000));
    format!("<!doctype html>\n<ul>\n{}</ul>\n", lines.collect::<String>()).into_bytes()
}

fn coded(name: &str, plain: &[u8]) -> Vec<u8> {
    match name {
        "identity" => plain.to_vec(),
        // What larder does not know, it must not touch: it need not be what it says it is.
        "x-unknown" => plain.iter().rev().copied().collect(),
        "deflate" => zlib(plain),
        "gzip, br" => over(Coding::Brotli, &coded("gzip", plain)),
        "br, deflate, gzip" => over(Coding::Gzip, &zlib(&coded("br", plain))),
        _ => codec::encode(Coding::of(name.as_bytes()), LEVELS, plain)
            .unwrap()
            .unwrap_or_else(|| plain.to_vec()),
    }
}

/// In that coding, whether it becomes smaller or not.
fn over(coding: Coding, bytes: &[u8]) -> Vec<u8> {
    codec::encode_within(coding, LEVELS, bytes, 2 * bytes.len()).unwrap().unwrap()
}

/// A gzip without its head and tail: what some call `deflate`.
fn raw_deflate(plain: &[u8]) -> Vec<u8> {
    let gzip = over(Coding::Gzip, plain);
    gzip[10..gzip.len() - 8].to_vec()
}

/// RFC 1950.
fn zlib(plain: &[u8]) -> Vec<u8> {
    let (a, b) = plain.iter().fold((1, 0), |(a, b), it| {
        let a = (a + u32::from(*it)) % 65_521;
        (a, (b + a) % 65_521)
    });
    [&[0x78, 0x9c][..], &raw_deflate(plain), &(b << 16 | a).to_be_bytes()].concat()
}

/// The coding, or codings, of that name.
fn coding_of(name: &str) -> Coding {
    Coding::over(name.split(", ").map(|it| Coding::of(it.as_bytes())))
}

pub(super) fn decoded(response: &Response) -> Vec<u8> {
    match response.field("content-encoding") {
        None => response.body.clone(),
        Some("x-unknown") => response.body.iter().rev().copied().collect(),
        Some(name) => codec::decode(coding_of(name), &response.body, 8 << 20)
            .unwrap_or_else(|it| panic!("{it:?}: {response:?}")),
    }
}

/// A response with `body` in `coding`, in one of the three framings.
fn framed(coding: &str, framing: &str, fields: &str, body: &[u8]) -> Vec<Script> {
    let mut head = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n{fields}");
    if coding != "identity" {
        head.push_str(&format!("Content-Encoding: {coding}\r\n"));
    }
    let mut bytes = match framing {
        "length" => format!("{head}Content-Length: {}\r\n\r\n", body.len()).into_bytes(),
        "chunked" => format!("{head}Transfer-Encoding: chunked\r\n\r\n").into_bytes(),
        _ => format!("{head}Connection: close\r\n\r\n").into_bytes(),
    };
    if framing == "chunked" {
        for chunk in body.chunks(1000) {
            bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
    } else {
        bytes.extend_from_slice(body);
    }
    let mut script = vec![Script::Send(bytes)];
    if framing == "close" {
        script.push(Script::Close);
    }
    script
}

const HTML: &str = "Content-Type: text/html\r\nETag: \"one\"\r\n";

/// An origin that sends one coding whatever it is asked for: `/CODING/FRAMING/…`.
fn stubborn() -> Origin {
    Origin::scripted(|request: &Received| {
        let mut parts = request.target().split('/').skip(1);
        let coding = parts.next().unwrap().replace('+', ", ");
        framed(&coding, parts.next().unwrap(), HTML, &coded(&coding, &page()))
    })
}

fn accept(client: &str) -> String {
    if client == "none" { String::new() } else { format!("Accept-Encoding: {client}\r\n") }
}

/// Whether `client` accepts the coding of a response; `None` where it accepts none at all.
fn accepts(client: &str, response: &Response) -> bool {
    let coding = response.field("content-encoding").unwrap_or("identity");
    let q = |name: &str| {
        client.split(", ").find_map(|it| {
            let (found, q) = it.split_once(";q=").unwrap_or((it, "1"));
            (found == name).then(|| q != "0")
        })
    };
    match (client, coding) {
        ("none" | "*", it) => it == "identity",
        (_, "identity") => q("identity").or(q("*")).unwrap_or(true),
        (_, it) => it.split(", ").all(|it| q(it).or(q("*")).unwrap_or(false)),
    }
}

const CLIENTS: [&str; 11] = [
    "none",
    "gzip",
    "br",
    "zstd",
    "gzip, deflate, br, zstd",
    "identity",
    "deflate",
    "*",
    "identity;q=0, gzip",
    "gzip;q=0.2, br;q=0.8, identity;q=0.5",
    "*;q=0",
];

/// The checks on every response with the page.
#[track_caller]
fn check(origin: &str, client: &str, response: &Response) {
    let case = || format!("origin {origin}, client {client}: {response:?}");
    assert!(response.complete && response.status == 200, "{}", case());
    assert!(page() == decoded(response), "{}", case());
    if origin == "x-unknown" {
        assert_eq!(Some(origin), response.field("content-encoding"), "{}", case());
        return;
    }
    if client != "*;q=0" {
        // Only what is neither there nor can be made is sent all the same.
        let served = accepts(client, response);
        // What arrives is not coded on its way.
        let passed_on = client == "identity;q=0, gzip" && origin != "gzip" && !response.is_hit();
        assert!(served || passed_on, "{}", case());
    }
    assert_eq!(Some("Accept-Encoding"), response.field("vary"), "{}", case());
    let as_stored = response.field("content-encoding").unwrap_or("identity") == origin;
    let tag = if as_stored { "\"one\"" } else { "W/\"one\"" };
    assert_eq!(Some(tag), response.field("etag"), "{}", case());
    if let Some(length) = response.field("content-length") {
        assert_eq!(response.body.len().to_string(), length, "{}", case());
    }
}

#[test]
fn every_coding_of_an_origin_suits_every_client() {
    let origin = stubborn();
    let larder = Larder::before(&origin, COMPRESS);
    let mut client = larder.client();
    for coding in ["identity", "gzip", "br", "zstd", "deflate", "x-unknown", "gzip, br", "br, deflate, gzip"]
    {
        for framing in ["length", "chunked", "close"] {
            for (number, accepted) in CLIENTS.into_iter().enumerate() {
                let target = format!("/{}/{framing}/{number}", coding.replace(", ", "+"));
                let before = origin.requests();
                for turn in 0..4 {
                    let response = client.get_with(&target, &accept(accepted));
                    check(coding, accepted, &response);
                    assert_eq!(
                        turn > 0,
                        response.is_hit(),
                        "{coding} {framing} {accepted} {turn}: {response:?}"
                    );
                }
                assert_eq!(1, origin.requests() - before, "{coding} {framing} {accepted}");
            }
        }
    }
}

/// Without the two bytes before and the four behind.
#[test]
fn a_raw_deflate_is_decoded_as_browsers_do() {
    let origin = Origin::scripted(|_: &Received| framed("deflate", "chunked", HTML, &raw_deflate(&page())));
    let larder = Larder::before(&origin, COMPRESS);
    for _ in 0..3 {
        let response = larder.get("/");
        assert_eq!(None, response.field("content-encoding"));
        assert!(page() == response.body, "{response:?}");
    }
    assert_eq!(1, origin.requests());
}

#[test]
fn one_stored_response_serves_every_client() {
    let origin = stubborn();
    let larder = Larder::before(&origin, COMPRESS);
    let mut client = larder.client();
    for coding in ["identity", "gzip", "br", "zstd"] {
        for (number, first) in CLIENTS.into_iter().enumerate() {
            let target = format!("/{coding}/length/{number}");
            check(coding, first, &client.get_with(&target, &accept(first)));
            for accepted in CLIENTS {
                for _ in 0..2 {
                    let response = client.get_with(&target, &accept(accepted));
                    check(coding, accepted, &response);
                    assert!(response.is_hit(), "{coding}, {first}, then {accepted}: {response:?}");
                }
            }
        }
    }
    assert_eq!(4 * CLIENTS.len(), origin.requests());
}

/// GETs until the response has this coding.
#[track_caller]
pub(super) fn until_coded(client: &mut Client, target: &str, lines: &str, coding: &str) -> Response {
    let mut last = client.get_with(target, lines);
    until(coding, || {
        last = client.get_with(target, lines);
        last.field("content-encoding") == Some(coding)
    });
    last
}

#[test]
fn a_browser_gets_the_smallest_form_once_it_is_made() {
    let origin = stubborn();
    let larder = Larder::before(&origin, COMPRESS);
    let mut client = larder.client();
    let target = "/identity/length/0";
    let browser = "Accept-Encoding: gzip, deflate, br, zstd\r\n";
    let plain = client.get_with(target, browser);
    assert_eq!(None, plain.field("content-encoding"), "nothing else is there yet");
    let zstd = until_coded(&mut client, target, browser, "zstd");
    assert!(zstd.body.len() < plain.body.len() / 2 && decoded(&zstd) == page());
    assert!(zstd.is_hit());
    for (lines, coding) in [("gzip, br", "br"), ("gzip", "gzip"), ("br;q=0.1, gzip;q=0.2", "gzip")] {
        until_coded(&mut client, target, &format!("Accept-Encoding: {lines}\r\n"), coding);
    }
    assert_eq!(1, origin.requests());
    assert_eq!(3, larder.counter("coding_made"));
    assert!(larder.counter("coding_hits") >= 3);
    assert!(larder.counter("coding_bytes_made") < larder.counter("coding_bytes_read"));
    assert_eq!(None, client.get_with(target, "").field("content-encoding"), "others get what is stored");
}

#[test]
fn a_head_request_has_the_fields_of_get() {
    let origin = stubborn();
    let larder = Larder::before(&origin, COMPRESS);
    let mut client = larder.client();
    for (coding, accepted) in
        [("identity", "gzip"), ("gzip", "gzip"), ("gzip", "identity"), ("identity", "br")]
    {
        let target = format!("/{coding}/length/{accepted}");
        let lines = accept(accepted);
        client.get_with(&target, &lines);
        match accepted {
            "identity" => drop(client.get_with(&target, &lines)),
            _ => drop(until_coded(&mut client, &target, &lines, accepted)),
        }
        let get = client.get_with(&target, &lines);
        let head = client.request("HEAD", &target, &lines, "");
        let about = |it: &Response| {
            let mut fields = it.fields.clone();
            fields.retain(|it| it.0 != "Date" && it.0 != "Age");
            (it.status, fields)
        };
        assert_eq!(about(&get), about(&head), "{coding} {accepted}");
        assert!(head.body.is_empty());
    }
}

#[test]
fn conditions_hold_for_every_form() {
    let origin = stubborn();
    let larder = Larder::before(&origin, COMPRESS);
    let mut client = larder.client();
    for coding in ["identity", "gzip"] {
        let target = format!("/{coding}/length/0");
        client.get_with(&target, "Accept-Encoding: gzip\r\n");
        until_coded(&mut client, &target, "Accept-Encoding: gzip\r\n", "gzip");
        for accepted in ["gzip", "identity", "none", "br", "identity;q=0, gzip"] {
            let form = client.get_with(&target, &accept(accepted));
            let tag = form.field("etag").unwrap().to_owned();
            let get = |client: &mut Client, lines: &str| {
                client.get_with(&target, &format!("{}{lines}\r\n", accept(accepted)))
            };
            for known in [&*tag, "\"one\"", "W/\"one\"", "\"other\", W/\"one\"", "*"] {
                let response = get(&mut client, &format!("If-None-Match: {known}"));
                assert_eq!(304, response.status, "{coding} {accepted} {known}");
                assert_eq!(Some("Accept-Encoding"), response.field("vary"));
                assert!(response.field("etag").is_some_and(|it| it.ends_with("\"one\"")), "{response:?}");
                assert_eq!((None, 0), (response.field("content-encoding"), response.body.len()));
            }
            let other = get(&mut client, "If-None-Match: \"two\"");
            check(coding, accepted, &other);
            assert_eq!(412, get(&mut client, "If-Match: \"two\"").status);
            let same = get(&mut client, "If-Match: \"one\"");
            // A strong comparison is about the bytes of the form that is served.
            let is_stored = same.status == 412 || same.field("etag") == Some("\"one\"");
            assert!(is_stored, "{coding} {accepted}: {same:?}");
        }
    }
    assert_eq!(2, origin.requests());
}

#[test]
fn ranges_are_of_the_stored_bytes_or_there_are_none() {
    let origin = stubborn();
    let larder = Larder::before(&origin, COMPRESS);
    let mut client = larder.client();
    let whole = page();
    let target = "/identity/length/0";
    until_coded(&mut client, target, "Accept-Encoding: gzip\r\n", "gzip");
    let mut get = |lines: &str| client.get_with(target, &format!("Range: bytes=10-99\r\n{lines}"));
    for lines in ["", "Accept-Encoding: gzip\r\n", "Accept-Encoding: gzip\r\nIf-Range: \"one\"\r\n"] {
        let part = get(lines);
        assert_eq!((206, None), (part.status, part.field("content-encoding")), "{part:?}");
        assert!(part.body == whole[10..100] && part.field("etag") == Some("\"one\""));
    }
    // Who does not accept the plain form gets a coded one, and that whole.
    let refused = get("Accept-Encoding: gzip, identity;q=0\r\n");
    assert_eq!((200, Some("gzip")), (refused.status, refused.field("content-encoding")));
    // The tag of a coded form is weak, and a date is the same for all forms: neither tells which bytes are held.
    for tag in ["W/\"one\"", "\"two\"", "Sun, 06 Nov 1994 08:49:37 GMT"] {
        assert_eq!(200, get(&format!("Accept-Encoding: gzip\r\nIf-Range: {tag}\r\n")).status, "{tag}");
    }
    let target = "/gzip/length/1";
    let coded = client.get_with(target, "Accept-Encoding: gzip\r\n");
    let part = client.get_with(target, "Accept-Encoding: gzip\r\nRange: bytes=10-99\r\n");
    assert_eq!((206, Some("gzip")), (part.status, part.field("content-encoding")));
    assert!(part.body == coded.body[10..100]);
    let plain = client.get_with(target, "Accept-Encoding: identity\r\nRange: bytes=10-99\r\n");
    assert!(plain.status == 200 && plain.body == whole, "{plain:?}");
}

#[test]
fn a_date_is_no_strong_validator_among_forms() {
    let origin = Origin::scripted(|_| {
        let fields = "Content-Type: text/html\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        framed("identity", "length", fields, &page())
    });
    let range = "Range: bytes=0-9\r\nIf-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    for (cache, status) in [("", 206), (COMPRESS, 200)] {
        let larder = Larder::before(&origin, cache);
        larder.get("/");
        assert_eq!(status, larder.client().get_with("/", range).status, "{cache}");
    }
}

#[test]
fn the_origin_gets_one_accept_encoding_and_its_vary_splits_no_entry() {
    let origin = Origin::scripted(|request: &Received| {
        let asked = request.field("accept-encoding").unwrap_or("");
        let coding = if asked.contains("gzip") { "gzip" } else { "identity" };
        let fields = format!("{HTML}Vary: Accept-Encoding\r\n");
        framed(coding, "length", &fields, &coded(coding, &page()))
    });
    let larder = Larder::before(&origin, COMPRESS);
    let mut client = larder.client();
    for (number, (sent, asked)) in [
        ("GZIP;q=0.3,deflate,  br", "gzip, br"),
        ("gzip, deflate, br, zstd", "gzip, br, zstd"),
        ("none", "identity"),
        ("deflate", "identity"),
        ("br;q=0, zstd", "zstd"),
    ]
    .into_iter()
    .enumerate()
    {
        let target = format!("/{number}");
        client.get_with(&target, &accept(sent));
        assert_eq!(Some(asked), origin.received().last().unwrap().field("accept-encoding"), "{sent}");
        for accepted in CLIENTS {
            let response = client.get_with(&target, &accept(accepted));
            assert!(
                response.is_hit() && decoded(&response) == page(),
                "{sent} then {accepted}: {response:?}"
            );
        }
    }
    assert_eq!(5, origin.requests());
}

#[test]
fn a_validation_asks_for_the_coding_that_is_stored_and_keeps_the_forms() {
    let origin = Origin::scripted(|request: &Received| {
        if request.field("if-none-match").is_some() {
            let lines = "HTTP/1.1 304 Not Modified\r\nETag: \"one\"\r\nX-New: yes\r\nCache-Control: max-age=600\r\n\r\n";
            return vec![Script::Send(lines.into())];
        }
        framed("identity", "length", HTML, &page())
    });
    let larder = Larder::before(&origin, COMPRESS);
    let mut client = larder.client();
    let lines = "Accept-Encoding: br, gzip\r\n";
    until_coded(&mut client, "/", lines, "br");
    larder.advance(700);
    let validated = client.get_with("/", lines);
    assert_eq!(Some("identity"), origin.received()[1].field("accept-encoding"));
    assert_eq!(Some("\"one\""), origin.received()[1].field("if-none-match"));
    assert_eq!((Some("br"), Some("yes")), (validated.field("content-encoding"), validated.field("x-new")));
    assert!(decoded(&validated) == page());
    let hit = client.get_with("/", lines);
    assert!(hit.is_hit() && hit.field("content-encoding") == Some("br") && hit.field("x-new") == Some("yes"));
    assert_eq!((2, 1), (origin.requests(), larder.counter("coding_made")));
}

#[test]
fn responses_that_must_stay_unencoded_stay_unencoded() {
    let origin = Origin::scripted(|request: &Received| match request.target() {
        "/no-transform" => {
            framed("identity", "length", &format!("{HTML}Cache-Control: no-transform\r\n"), &page())
        }
        "/picture" => framed("identity", "length", "Content-Type: image/png\r\n", &page()),
        "/small" => framed("identity", "length", HTML, b"<p>hello, hello, hello, hello</p>"),
        "/noise" => {
            let mut seed = 7u64;
            let mut next = || {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (seed >> 56) as u8
            };
            framed("identity", "length", HTML, &(0..5000).map(|_| next()).collect::<Vec<_>>())
        }
        "/coded-no-transform" => {
            let fields = format!("{HTML}Cache-Control: no-transform\r\n");
            framed("gzip", "length", &fields, &coded("gzip", &page()))
        }
        _ => framed("identity", "length", HTML, &page()),
    });
    let larder = Larder::before(&origin, COMPRESS);
    let mut client = larder.client();
    let lines = "Accept-Encoding: gzip\r\n";
    for target in ["/no-transform", "/picture", "/small", "/noise"] {
        for _ in 0..5 {
            let response = client.get_with(target, lines);
            assert_eq!(None, response.field("content-encoding"), "{target}");
            if target != "/noise" {
                assert_eq!(None, response.field("vary"), "{target}");
            }
        }
    }
    until("the noise is given up", || larder.counter("coding_no_gain") == 1);
    client.get_with("/noise", lines);
    assert_eq!((0, 1), (larder.counter("coding_made"), larder.counter("coding_no_gain")), "and remembered");
    let coded = client.get_with("/coded-no-transform", "Accept-Encoding: identity\r\n");
    assert_eq!(
        Some("gzip"),
        coded.field("content-encoding"),
        "no-transform is obeyed (RFC 9110 section 7.7)"
    );
    until_coded(&mut client, "/page", lines, "gzip");
    let asked = client.get_with("/page", &format!("{lines}Cache-Control: no-transform\r\n"));
    assert_eq!((None, Some("\"one\"")), (asked.field("content-encoding"), asked.field("etag")));
}

#[test]
fn off_by_default() {
    let origin = stubborn();
    let larder = Larder::before(&origin, "");
    let mut client = larder.client();
    for _ in 0..3 {
        let response = client.get_with("/identity/length/0", "Accept-Encoding: gzip\r\n");
        assert_eq!((None, None), (response.field("content-encoding"), response.field("vary")));
    }
    assert_eq!(Some("gzip"), origin.received()[0].field("accept-encoding"), "as the client sent it");
    assert_eq!(0, larder.counter("coding_made"));
}

#[test]
fn switched_off_by_a_reload_nothing_is_coded_any_more() {
    let origin = stubborn();
    let larder = Larder::before(&origin, COMPRESS);
    let target = "/identity/length/0";
    let browser = "Accept-Encoding: gzip\r\n";
    until_coded(&mut larder.client(), target, browser, "gzip");
    let text = std::fs::read_to_string(larder.config()).unwrap();
    assert!(text.contains(COMPRESS), "{text}");
    std::fs::write(larder.config(), text.replace(COMPRESS, "")).unwrap();
    larder.signal(libc::SIGHUP);
    let plain = |it: &Response| it.field("content-encoding").is_none();
    until("the workers have it", || (0..8).all(|_| plain(&larder.client().get_with(target, browser))));
    let br = larder.client().get_with(target, "Accept-Encoding: br\r\n");
    assert!(plain(&br) && br.is_hit() && br.body == page());
    assert_eq!(1, larder.counter("coding_made"), "and none is made");
}

#[test]
fn passed_responses_go_as_they_came() {
    let origin = Origin::scripted(|request: &Received| {
        let coding = if request.target() == "/gzip" { "gzip" } else { "identity" };
        let fields = format!("{HTML}Cache-Control: no-store\r\n");
        framed(coding, "length", &fields, &coded(coding, &page()))
    });
    let larder = Larder::before(&origin, "compress = { enabled = true, uncached = false }");
    let mut client = larder.client();
    let post = client.request("POST", "/plain", "Accept-Encoding: x, br\r\n", "a=b");
    assert_eq!(Some("x, br"), origin.received()[0].field("accept-encoding"));
    assert_eq!((None, None), (post.field("content-encoding"), post.field("vary")));
    for (target, coding) in [("/plain", None), ("/gzip", Some("gzip"))] {
        let response = client.get_with(target, "Accept-Encoding: gzip\r\n");
        assert_eq!(coding, response.field("content-encoding"));
        assert!(decoded(&response) == page() && response.field("etag") == Some("\"one\""));
    }
}

#[test]
fn a_thousand_requests_have_a_form_made_once() {
    let origin = stubborn();
    let larder = Larder::before(&origin, COMPRESS);
    larder.get("/identity/length/0");
    let threads: Vec<_> = (0..20)
        .map(|number| {
            let mut client = larder.client();
            std::thread::spawn(move || {
                for turn in 0..50 {
                    // Some can wait for the coded form, some must.
                    let accepted = if (number + turn) % 5 == 0 { "gzip, identity;q=0" } else { "gzip" };
                    let response = client.get_with("/identity/length/0", &accept(accepted));
                    assert!(response.complete && decoded(&response) == page(), "{response:?}");
                    assert!(!accepted.contains(';') || response.field("content-encoding") == Some("gzip"));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|it| it.join().unwrap());
    assert_eq!((1, 1), (larder.counter("coding_made"), origin.requests()));
}

#[test]
fn a_follower_of_a_fill_is_served_in_its_own_coding() {
    let gate = Gate::new();
    let closed = gate.clone();
    let body: Arc<Vec<u8>> = Arc::new(coded("gzip", &page().repeat(50)));
    let sent = body.clone();
    let origin = Origin::scripted(move |_| {
        let Some(Script::Send(mut bytes)) = framed("gzip", "length", HTML, &sent).into_iter().next() else {
            panic!("a response is sent");
        };
        let rest = bytes.split_off(bytes.len() - sent.len() / 2);
        vec![Script::Send(bytes), Script::Gate(closed.clone()), Script::Send(rest)]
    });
    let larder = Larder::before(&origin, COMPRESS);
    let begin = |accepted: &str| {
        let mut client = larder.client();
        client.send(format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", accept(accepted)));
        client
    };
    let mut leader = begin("gzip");
    until("the origin has sent half", || gate.waiting() == 1);
    let mut followers = [begin("identity"), begin("gzip, br"), begin("br")];
    until("they follow", || larder.counter("requests_collapsed") == 3);
    gate.open();
    assert!(leader.read().body == **body);
    let expect = [None, Some("gzip"), None];
    for (follower, coding) in followers.iter_mut().zip(expect) {
        let response = follower.read();
        assert_eq!(coding, response.field("content-encoding"));
        assert!(response.complete && decoded(&response) == page().repeat(50));
    }
    assert_eq!((1, 2), (origin.requests(), larder.counter("decoding_streams")));
}

#[test]
fn other_codings_can_be_named() {
    let origin = stubborn();
    let cache = "compress = { enabled = true, codings = [\"gzip\"], min_size = \"100KiB\" }";
    let larder = Larder::before(&origin, cache);
    let mut client = larder.client();
    for _ in 0..3 {
        let small = client.get_with("/identity/length/0", "Accept-Encoding: gzip\r\n");
        assert_eq!(None, small.field("content-encoding"));
    }
    let larder = Larder::before(&origin, "compress = { enabled = true, codings = [\"gzip\"] }");
    until_coded(
        &mut larder.client(),
        "/identity/length/0",
        "Accept-Encoding: zstd, br, gzip;q=0.1\r\n",
        "gzip",
    );
}

#[test]
fn larder_without_coder_threads_makes_no_coding_and_serves_every_client() {
    let origin = stubborn();
    let larder = Larder::before_with(&origin, COMPRESS, "cache.compress.workers = 0");
    let mut client = larder.client();
    for coding in ["identity", "gzip", "br", "zstd"] {
        for accepted in ["gzip", "identity", "none", "br, zstd"] {
            for framing in ["length", "chunked"] {
                let target = format!("/{coding}/{framing}/{accepted}").replace(", ", "-");
                for turn in 0..3 {
                    let response = client.get_with(&target, &accept(accepted));
                    check(coding, accepted, &response);
                    assert_eq!(turn > 0, response.is_hit());
                }
                let head = client.request("HEAD", &target, &accept(accepted), "");
                assert_eq!(200, head.status);
            }
        }
    }
    assert_eq!(0, larder.counter("coding_made"));
    assert!(larder.counter("coding_queue_full") > 0 && larder.counter("decoding_streams") > 0);
}

#[test]
fn a_response_too_large_for_a_decoded_copy_is_decoded_in_transit() {
    let origin = stubborn();
    let larder = Larder::before(&origin, "compress = { enabled = true, max_size = \"4KiB\" }");
    let mut client = larder.client();
    for coding in ["gzip", "br", "zstd"] {
        let target = format!("/{coding}/length/0");
        for turn in 0..4 {
            let response = client.get_with(&target, "Accept-Encoding: identity\r\n");
            check(coding, "identity", &response);
            assert_eq!((turn > 0, None), (response.is_hit(), response.field("content-length")));
        }
        check(coding, coding, &client.get_with(&target, &accept(coding)));
        // HTTP/1.0 has no chunks: the end of the connection is the end.
        let mut old = larder.client();
        old.send(format!("GET {target} HTTP/1.0\r\nHost: h\r\nAccept-Encoding: identity\r\n\r\n"));
        assert!(page() == old.read().body, "{coding}");
    }
    assert_eq!(
        (0, 3),
        (larder.counter("coding_made"), larder.counter("decoding_too_large")),
        "and remembered"
    );
    assert_eq!(3, origin.requests());
}

#[test]
fn a_response_with_trailers_is_decoded_with_them() {
    let origin = Origin::scripted(|_| {
        let fields = format!("{HTML}Trailer: X-Sum\r\n");
        let Some(Script::Send(mut bytes)) =
            framed("gzip", "chunked", &fields, &coded("gzip", &page())).into_iter().next()
        else {
            panic!("a response is sent");
        };
        bytes.truncate(bytes.len() - 2);
        bytes.extend_from_slice(b"X-Sum: 7\r\n\r\n");
        vec![Script::Send(bytes)]
    });
    let larder = Larder::before(&origin, COMPRESS);
    let mut client = larder.client();
    for (turn, accepted) in ["identity", "identity", "gzip", "none"].into_iter().enumerate() {
        let response = client.get_with("/", &accept(accepted));
        assert!(response.complete && decoded(&response) == page(), "{accepted}: {response:?}");
        assert_eq!(accepted == "gzip", response.field("content-encoding") == Some("gzip"));
        assert_eq!(vec![("X-Sum".to_owned(), "7".to_owned())], response.trailers, "{accepted} {turn}");
    }
    assert_eq!(1, origin.requests());
}

#[test]
fn explain_tells_the_forms() {
    let origin = stubborn();
    let larder = Larder::before(&origin, COMPRESS);
    let target = "/identity/length/0";
    until_coded(&mut larder.client(), target, "Accept-Encoding: gzip\r\n", "gzip");
    let report = |accepted: &str| {
        let body = format!(
            "{{\"url\":\"http://h{target}\",\"method\":\"GET\",\"headers\":[[\"Accept-Encoding\",\"{accepted}\"]]}}"
        );
        let mut client = Client::connect(larder.admin);
        let (lines, length) = (larder.admin_lines(), body.len());
        client.send(format!(
            "POST /cache/explain HTTP/1.1\r\n{lines}\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        let value: serde_json::Value = serde_json::from_str(&client.read().text()).unwrap();
        value["stored"]["forms"].as_str().unwrap().to_owned()
    };
    let gzip = report("gzip");
    assert!(
        gzip.starts_with("stored plain; made of it: gzip (")
            && gzip.ends_with("; this request receives gzip")
    );
    assert!(
        report("gzip, br").ends_with("; this request receives gzip and has br made"),
        "{}",
        report("gzip, br")
    );
    assert!(report("identity").ends_with("; this request receives the stored encoding"));
    assert!(report("br, identity;q=0").ends_with("; this request waits for br"));
}
