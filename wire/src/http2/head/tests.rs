//! Malformed requests, and the content of well-formed ones.

use super::super::hpack::{HpackDecoder, encode};
use super::*;

const LIMITS: HeadLimits = HeadLimits { head: 4096, target: 64, scheme: Scheme::Http };

/// Reads a section of `name: value` lines.
fn with<T>(text: &str, end_stream: bool, see: impl FnOnce(Result<RequestHead<'_>, Reject>) -> T) -> T {
    let mut section = Section::default();
    section.begin(LIMITS.head);
    fill(text, &mut section);
    let mut storage = FieldStorage::new();
    see(parse(&section, end_stream, &LIMITS, &mut storage))
}

fn fill(text: &str, section: &mut Section) {
    let mut block = Vec::new();
    for line in text.split('|').filter(|it| !it.is_empty()) {
        let at = 1 + line[1..].find(':').unwrap();
        let (name, value) = (&line[..at], line[at + 1..].strip_prefix(' ').unwrap_or(&line[at + 1..]));
        // By hand: the encoder writes names in lower case.
        block.extend_from_slice(&[0, u8::try_from(name.len()).unwrap()]);
        block.extend_from_slice(name.as_bytes());
        let mut field = Vec::new();
        encode::field(b"age", value.as_bytes(), &mut field);
        block.extend_from_slice(&field[2..]); // Behind the name.
    }
    HpackDecoder::new(4096).decode(&block, section).unwrap();
}

/// `text` stands behind the pseudo-fields of a GET.
#[track_caller]
fn check(text: &str, expect: Result<&str, Reject>) {
    whole(&format!(":method: GET|:scheme: http|:path: /a|:authority: a.example|{text}"), expect);
}

#[track_caller]
fn whole(text: &str, expect: Result<&str, Reject>) {
    with(text, true, |got| {
        let got = got.map(|it| format!("{} {} {}", it.method, it.authority, it.target));
        assert_eq!(expect, got.as_deref().map_err(|it| *it), "{text}");
    });
}

const FINE: Result<&str, Reject> = Ok("GET a.example /a");

#[test]
fn pseudo_fields_are_there_once_and_first() {
    check("", FINE);
    check("x: y|accept: */*", FINE);
    for bad in [":method: GET", ":path: /", "x: y|:path: /", ":status: 200", ":protocol: websocket"] {
        check(bad, Err(Reject::Pseudo));
    }
    whole(":scheme: http|:path: /|:authority: a", Err(Reject::Pseudo));
    whole(":method: GET|:path: /|:authority: a", Err(Reject::Pseudo));
    whole(":method: GET|:scheme: http|:authority: a", Err(Reject::Pseudo));
    whole(":method: G T|:scheme: http|:path: /|:authority: a", Err(Reject::Pseudo));
    whole(":method: get|:scheme: http|:path: /|:authority: a", Err(Reject::MethodCase));
    whole(":method: |:scheme: http|:path: /|:authority: a", Err(Reject::Pseudo));
    whole(":method: GET|:scheme: ftp|:path: /|:authority: a", Err(Reject::Pseudo));
    whole(":method: GET|:scheme: https|:path: /|:authority: a", Err(Reject::NotSecured));
}

#[test]
fn paths_are_those_of_http1() {
    let path = |path: &str, expect: Result<&str, Reject>| {
        whole(&format!(":method: GET|:scheme: http|:path: {path}|:authority: a"), expect);
    };
    path("/a?b=%20", Ok("GET a /a?b=%20"));
    for bad in ["", "a", "*", "http://b/", "/a#b", "/\u{e9}", "/a b", "/a\tb"] {
        path(bad, Err(Reject::Target));
    }
    path(&format!("/{}", "x".repeat(64)), Err(Reject::TargetTooLong));
    whole(":method: OPTIONS|:scheme: http|:path: *|:authority: a", Ok("OPTIONS a *"));
}

#[test]
fn the_authority_is_one() {
    check("host: a.example", FINE);
    check("host: A.example:80", FINE);
    check("host: b.example", Err(Reject::HostMismatch));
    check("host: a.example|host: a.example", Err(Reject::Host));
    let authority = |text: &str, expect: Result<&str, Reject>| {
        whole(&format!(":method: GET|:scheme: http|:path: /|{text}"), expect);
    };
    authority("host: b", Ok("GET b /"));
    authority("", Err(Reject::Host));
    authority(":authority: ", Err(Reject::Host));
    authority(":authority: me@a", Err(Reject::Host));
    authority(":authority: a,b", Err(Reject::Host));
    authority(":authority: a/b", Err(Reject::Host));
}

#[test]
fn the_authority_is_found_as_host() {
    with(":method: GET|:scheme: http|:path: /|:authority: a:1|x: y", true, |got| {
        let fields: Vec<_> =
            got.unwrap().fields.iter().map(|it| (it.name.to_owned(), it.value.to_owned())).collect();
        assert_eq!(vec![("x".to_owned(), b"y".to_vec()), ("host".to_owned(), b"a:1".to_vec())], fields);
    });
}

#[test]
fn connect_names_an_authority_alone() {
    whole(":method: CONNECT|:authority: a:443", Ok("CONNECT a:443 a:443"));
    whole(":method: CONNECT|:authority: a", Err(Reject::Target));
    whole(":method: CONNECT", Err(Reject::Pseudo));
    whole(":method: CONNECT|:scheme: http|:path: /|:authority: a:443", Err(Reject::Pseudo));
}

/// RFC 8441 §4.
#[test]
fn connect_with_a_protocol_is_a_request_for_it() {
    const WHOLE: &str = ":method: CONNECT|:protocol: websocket|:scheme: http|:path: /chat?a|:authority: a";
    for end_stream in [false, true] {
        with(&format!("{WHOLE}|sec-websocket-version: 13"), end_stream, |got| {
            let got = got.unwrap();
            assert_eq!(("GET", "a", "/chat?a"), (got.method, got.authority, got.target));
            assert_eq!((Some("websocket"), Framing::Empty), (got.protocol, got.framing));
        });
    }
    // All of them are there, once; no other method has it.
    for missing in [":protocol: websocket|", ":scheme: http|", ":path: /chat?a|"] {
        whole(&WHOLE.replace(missing, ""), Err(Reject::Pseudo));
    }
    whole(&WHOLE.replace("|:authority: a", ""), Err(Reject::Host));
    whole(&format!("{WHOLE}|:protocol: websocket"), Err(Reject::Pseudo));
    whole(&format!("{WHOLE}|x: y|:protocol: websocket"), Err(Reject::Pseudo));
    whole(&WHOLE.replace("CONNECT", "GET"), Err(Reject::Pseudo));
    whole(&WHOLE.replace("CONNECT", "connect"), Err(Reject::MethodCase));
    for bad in ["", "web socket", "websocket, h2c", "websocket/13", "h2c\u{e9}"] {
        whole(&WHOLE.replace("websocket", bad), Err(Reject::Pseudo));
    }
    whole(&WHOLE.replace("http|", "https|"), Err(Reject::NotSecured));
    whole(&WHOLE.replace("http|", "ws|"), Err(Reject::Pseudo));
    for bad in ["a:443", "*", "", "http://b/", "/#"] {
        whole(&WHOLE.replace("/chat?a", bad), Err(Reject::Target));
    }
    whole(&format!("{WHOLE}|host: b"), Err(Reject::HostMismatch));
    // It has no body whose length there could be, and is no upgrade of HTTP/1.1.
    whole(&format!("{WHOLE}|content-length: 0"), Err(Reject::ContentLength));
    whole(&format!("{WHOLE}|upgrade: websocket"), Err(Reject::ConnectionField));
    whole(&format!("{WHOLE}|connection: upgrade"), Err(Reject::ConnectionField));
}

#[test]
fn connection_fields_are_rejected() {
    check("te: trailers", FINE);
    for bad in
        ["connection: close", "keep-alive: 1", "proxy-connection: x", "upgrade: h2c", "te: gzip", "te: "]
    {
        check(bad, Err(Reject::ConnectionField));
    }
    check("transfer-encoding: chunked", Err(Reject::ConnectionField));
}

#[test]
fn names_and_values_are_those_of_fields() {
    check("x: a b", FINE);
    for bad in ["X: y", "x y: z", "x: a\rb", "x: a\nb", "x: a\0b", "x: y ", "x:  y"] {
        check(bad, Err(Reject::Field));
    }
}

#[test]
fn lengths_agree_with_the_end_of_the_stream() {
    check("content-length: 0", FINE);
    check("content-length: 1", Err(Reject::ContentLength));
    for bad in ["1, 1", "+1", "", "-1", "0x1", "1|content-length: 1"] {
        check(&format!("content-length: {bad}"), Err(Reject::ContentLength));
    }
    let post = ":method: POST|:scheme: http|:path: /|:authority: a|";
    let framing = |text: &str| with(&format!("{post}{text}"), false, |it| it.map(|it| it.framing));
    assert_eq!(Ok(Framing::Chunked), framing(""));
    assert_eq!(Ok(Framing::Length(7)), framing("content-length: 7"));
    assert_eq!(Ok(Framing::Chunked), framing("content-length: 0"));
    let announces = |text: &str, end_stream| {
        with(&format!("{post}{text}"), end_stream, |it| {
            it.unwrap().fields.iter().any(|it| it.name == "transfer-encoding" && it.value == b"chunked")
        })
    };
    let cases = [("", false), ("", true), ("content-length: 7", false), ("content-length: 0", false)];
    assert_eq!([true, false, false, false], cases.map(|(text, end_stream)| announces(text, end_stream)));
    with(&format!("{post}expect: 100-continue"), false, |it| assert!(it.unwrap().expects_continue));
    with(&format!("{post}expect: x"), false, |it| assert_eq!(Reject::Expectation, it.unwrap_err()));
}

#[test]
fn large_heads_are_refused() {
    check(&format!("x: {}", "y".repeat(200)), FINE);
    check(&format!("a: {0}|b: {0}", "y".repeat(120)).repeat(20), Err(Reject::HeadTooLarge));
}

#[test]
fn trailers_have_no_pseudo_fields() {
    let trailers = |text: &str| {
        let mut section = Section::default();
        section.begin(4096);
        fill(text, &mut section);
        trailers(&section).map(|it| String::from_utf8(it.text().to_vec()).unwrap())
    };
    assert_eq!(Ok("x: y\r\n".to_owned()), trailers("x: y|content-length: 1"));
    assert_eq!(Err(Reject::Pseudo), trailers("x: y|:path: /"));
    assert_eq!(Err(Reject::ConnectionField), trailers("connection: x"));
    assert_eq!(Err(Reject::Field), trailers("X: y"));
}
