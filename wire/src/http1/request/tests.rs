//! The corpus: raw heads with their results. Tables first, then laws that hold for any bytes.

use super::*;
use crate::message::Request;
use Reject::{
    BothLengths, ContentLength, Expectation, HeadTooLarge, Host, HostMismatch, LineEnd, RequestLine,
    TargetTooLong, TransferEncoding, UnknownCoding,
};
use larder_semantics::scheme::Scheme;
use proptest::prelude::*;

const LIMITS: HeadLimits = HeadLimits { head: 16 * 1024, target: 256, scheme: Scheme::Http };

/// Reads `raw`, which is a whole head and nothing else.
#[track_caller]
fn read(raw: &[u8]) -> Result<Request, Reject> {
    let text = String::from_utf8_lossy(raw);
    let mut storage = FieldStorage::new();
    match parse(raw, &LIMITS, &mut storage)? {
        ParsedRequest::Head(head, length) => {
            assert_eq!(raw.len(), length, "{text:?}");
            Ok(head.to_owned())
        }
        ParsedRequest::Partial => panic!("{text:?} is not whole"),
    }
}

/// A request line before a plain `Host: a`: the target that is understood, or why not.
#[track_caller]
fn line(line: impl AsRef<[u8]>, expected: Result<&str, Reject>) {
    let raw = [line.as_ref(), b"\r\nHost: a\r\n\r\n"].concat();
    let found = read(&raw).map(|it| it.target);
    assert_eq!(expected.map(str::to_owned), found, "{:?}", String::from_utf8_lossy(&raw));
}

/// Field lines, each with its CRLF, behind a plain `POST / HTTP/1.1` and `Host: a`.
#[track_caller]
fn fields(fields: impl AsRef<[u8]>, expected: Result<Framing, Reject>) {
    let raw = [b"POST / HTTP/1.1\r\nHost: a\r\n", fields.as_ref(), b"\r\n"].concat();
    assert_eq!(expected, read(&raw).map(|it| it.framing), "{:?}", String::from_utf8_lossy(&raw));
}

/// A whole head that is refused.
#[track_caller]
fn refused(raw: impl AsRef<[u8]>, why: Reject) {
    let raw = raw.as_ref();
    assert_eq!(Err(why), read(raw).map(|it| it.target), "{:?}", String::from_utf8_lossy(raw));
}

#[test]
fn request_lines() {
    use Reject::Version;
    line("GET / HTTP/1.1", Ok("/"));
    line("GET / HTTP/1.0", Ok("/"));
    line("BREW /pot HTTP/1.1", Ok("/pot"));
    line("brew / HTTP/1.1", Ok("/"));
    for method in ["get", "Post", "PURGe"] {
        line(format!("{method} / HTTP/1.1"), Err(Reject::MethodCase));
    }
    line("!#$%&'*+-.^_`|~9 / HTTP/1.1", Ok("/"));
    line("GET  / HTTP/1.1", Err(RequestLine));
    line("GET /  HTTP/1.1", Err(RequestLine));
    line("GET / HTTP/1.1 ", Err(RequestLine));
    line(" GET / HTTP/1.1", Err(RequestLine));
    line("\tGET / HTTP/1.1", Err(RequestLine));
    line("GET\t/ HTTP/1.1", Err(RequestLine));
    line("GET /\tHTTP/1.1", Err(RequestLine));
    line("GET / a HTTP/1.1", Err(RequestLine));
    line("GET /a b HTTP/1.1", Err(RequestLine));
    line("GET /", Err(RequestLine));
    line("GET / ", Err(RequestLine));
    line("GET", Err(RequestLine));
    line("", Err(RequestLine));
    line("GET HTTP/1.1", Err(RequestLine));
    line("/ HTTP/1.1", Err(RequestLine));
    line(" / HTTP/1.1", Err(RequestLine));
    line("GET / http/1.1", Err(RequestLine));
    line("GET / Http/1.1", Err(RequestLine));
    line("GET / HTTP/1", Err(RequestLine));
    line("GET / HTTP/1.10", Err(RequestLine));
    line("GET / HTTP/01.1", Err(RequestLine));
    line("GET / HTTP/1,1", Err(RequestLine));
    line("GET / HTTP /1.1", Err(RequestLine));
    line("GET / HTTPS/1.1", Err(RequestLine));
    line("GET / HTTP/A.1", Err(RequestLine));
    line("GET / HTTP/1.1x", Err(RequestLine));
    line("GET / HTTP/1.2", Err(Version));
    line("GET / HTTP/1.9", Err(Version));
    line("GET / HTTP/0.9", Err(Version));
    line("GET / HTTP/2.0", Err(Version));
    line("GET / HTTP/3.0", Err(Version));
    refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Version);
    line("G(T / HTTP/1.1", Err(RequestLine));
    line("G:T / HTTP/1.1", Err(RequestLine));
    line(b"G\xc3\x89T / HTTP/1.1", Err(RequestLine));
    line("GET, / HTTP/1.1", Err(RequestLine));
    line("\"GET\" / HTTP/1.1", Err(RequestLine));
}

#[test]
fn targets() {
    use Reject::Target;
    line("GET /a/b?c=d&e HTTP/1.1", Ok("/a/b?c=d&e"));
    line("GET /%2e%2E/%zz%00% HTTP/1.1", Ok("/%2e%2E/%zz%00%"));
    line("GET //b/../c HTTP/1.1", Ok("//b/../c"));
    line("GET /a|b HTTP/1.1", Ok("/a|b"));
    line("GET /a#b HTTP/1.1", Err(Target));
    line("GET # HTTP/1.1", Err(Target));
    line("GET a HTTP/1.1", Err(Target));
    line("GET ?a HTTP/1.1", Err(Target));
    line("GET ../a HTTP/1.1", Err(Target));
    line(b"GET /\xc3\xa9 HTTP/1.1", Err(Target));
    line(b"GET /\x80 HTTP/1.1", Err(Target));
    line(b"GET /\xff HTTP/1.1", Err(Target));
    line("GET /\x7f HTTP/1.1", Err(Target));
    line("GET /\x01 HTTP/1.1", Err(Target));
    line("GET /\x0b HTTP/1.1", Err(Target));
    line("GET /\x0c HTTP/1.1", Err(Target));
    line("GET /\0 HTTP/1.1", Err(LineEnd));
    line("GET /\r HTTP/1.1", Err(LineEnd));
    line("GET /\n HTTP/1.1", Err(LineEnd));
    line("OPTIONS * HTTP/1.1", Ok("*"));
    line("GET * HTTP/1.1", Err(Target));
    line("OPTIONS ** HTTP/1.1", Err(Target));
    line("OPTIONS http://a HTTP/1.1", Ok("*"));
    line("OPTIONS http://a/ HTTP/1.1", Ok("/"));
    line("CONNECT a:80 HTTP/1.1", Ok("a:80"));
    line("CONNECT b:80 HTTP/1.1", Err(HostMismatch));
    line("CONNECT [::1] HTTP/1.1", Err(Target));
    line("CONNECT a HTTP/1.1", Err(Target));
    line("CONNECT a: HTTP/1.1", Err(Target));
    line("CONNECT :80 HTTP/1.1", Err(Target));
    line("CONNECT / HTTP/1.1", Err(Target));
    line("CONNECT http://a/ HTTP/1.1", Err(Target));
    line("CONNECT u@a:80 HTTP/1.1", Err(Target));
    line("GET a:80 HTTP/1.1", Err(Target));
}

#[test]
fn absolute_targets() {
    use Reject::{NotSecured, Target};
    line("GET http://a/b?c HTTP/1.1", Ok("/b?c"));
    line("GET HTTP://A/b HTTP/1.1", Ok("/b"));
    line("GET http://a HTTP/1.1", Ok("/"));
    line("GET https://a/ HTTP/1.1", Err(NotSecured));
    line("GET HTTPS://a:443/b?c HTTP/1.1", Err(NotSecured));
    line("OPTIONS https://a HTTP/1.1", Err(NotSecured));
    line("CONNECT https://a/ HTTP/1.1", Err(Target));
    line("GET http://a:80/ HTTP/1.1", Ok("/"));
    line("GET http://a:/ HTTP/1.1", Ok("/"));
    line("GET http://a//b HTTP/1.1", Ok("//b"));
    line("GET http://a?c HTTP/1.1", Err(Target));
    line("GET http:///b HTTP/1.1", Err(Target));
    line("GET http:/b HTTP/1.1", Err(Target));
    line("GET http:a/b HTTP/1.1", Err(Target));
    line("GET ftp://a/b HTTP/1.1", Err(Target));
    line("GET file:///etc/passwd HTTP/1.1", Err(Target));
    line("GET http://u@a/b HTTP/1.1", Err(Target));
    line("GET http://u:p@a/b HTTP/1.1", Err(Target));
    line("GET http://a:b/ HTTP/1.1", Err(Target));
    line("GET http://a:65536/ HTTP/1.1", Err(Target));
    line("GET http://a,b/ HTTP/1.1", Err(Target));
    line("GET http://a\\b/ HTTP/1.1", Err(Target));
    line("GET http://a/#b HTTP/1.1", Err(Target));
    line("GET http://b/ HTTP/1.1", Err(HostMismatch));
    line("GET http://a.b/ HTTP/1.1", Err(HostMismatch));
    line("GET http://a:81/ HTTP/1.1", Err(HostMismatch));
    line("GET http://a:443/ HTTP/1.1", Err(HostMismatch));
    refused("GET http://a/ HTTP/1.1\r\n\r\n", Host);
    refused("GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", Host);
    refused("GET http://a80/ HTTP/1.1\r\nHost: a\r\n\r\n", HostMismatch);
}

#[test]
fn over_tls_an_absolute_form_is_https() {
    let read = |line: &str| {
        let text = format!("{line}\r\nHost: a\r\n\r\n");
        let limits = HeadLimits { scheme: Scheme::Https, ..LIMITS };
        match parse(text.as_bytes(), &limits, &mut FieldStorage::new()) {
            Ok(ParsedRequest::Head(it, _)) => Ok((it.scheme, it.authority.to_owned(), it.target.to_owned())),
            Ok(ParsedRequest::Partial) => panic!("{line} is whole"),
            Err(reject) => Err(reject),
        }
    };
    let at = |authority: &str| Ok((Scheme::Https, authority.to_owned(), "/b".to_owned()));
    assert_eq!(at("a"), read("GET /b HTTP/1.1"));
    assert_eq!(at("a"), read("GET https://a/b HTTP/1.1"));
    assert_eq!(at("A:443"), read("GET HTTPS://A:443/b HTTP/1.1"));
    assert_eq!(Err(Reject::HostMismatch), read("GET https://a:80/b HTTP/1.1"));
    for line in ["GET http://a/b HTTP/1.1", "GET HTTP://a:443/b HTTP/1.1", "OPTIONS http://a HTTP/1.1"] {
        assert_eq!((Err(Reject::Secured), 421), (read(line), Reject::Secured.status()), "{line}");
    }
}

#[test]
fn hosts() {
    #[track_caller]
    fn host(value: &str, expected: Result<&str, Reject>) {
        let raw = format!("GET / HTTP/1.1\r\nHost:{value}\r\n\r\n");
        assert_eq!(expected.map(str::to_owned), read(raw.as_bytes()).map(|it| it.authority), "{raw:?}");
    }
    host("a", Ok("a"));
    host(" \t WWW.Example.com:8080 \t", Ok("WWW.Example.com:8080"));
    host("a_b-c.d~", Ok("a_b-c.d~"));
    host("127.0.0.1:80", Ok("127.0.0.1:80"));
    host("[::1]", Ok("[::1]"));
    host("[2001:db8::1]:8080", Ok("[2001:db8::1]:8080"));
    host("a%41", Ok("a%41"));
    host("a:", Ok("a:"));
    for value in [
        "",
        " ",
        ":80",
        "a b",
        "a,b",
        "a, a",
        "a/b",
        "a/",
        "/",
        "u@a",
        "u:p@a",
        "a?b",
        "a#b",
        "a\\b",
        "a:b",
        "a:80:80",
        "a:65536",
        "a:99999999999999999999",
        "a:+80",
        "a: 80",
        "a :80",
        "::1",
        "[::1",
        "::1]",
        "[::1]x",
        "[::1]:x",
        "[]",
        "[a]",
        "[fe80::1%25eth0]",
        "[v1.a]",
        "a%",
        "a%4",
        "a%zz",
        "a\tb",
        "http://a",
        "a<b",
        "a\"b",
        "a|b",
        "a;\u{e9}",
    ] {
        host(value, Err(Host));
    }
    refused("GET / HTTP/1.1\r\n\r\n", Host);
    refused("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", Host);
    refused("GET / HTTP/1.1\r\nHost: a\r\nhOST: b\r\n\r\n", Host);
    refused("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", Host);
    refused("GET / HTTP/1.0\r\nHost:\r\n\r\n", Host);
    assert_eq!("", read(b"GET / HTTP/1.0\r\n\r\n").unwrap().authority);
    assert_eq!("b:81", read(b"GET http://b:81/ HTTP/1.0\r\n\r\n").unwrap().authority);
}

#[test]
fn field_lines() {
    use Reject::Field;
    fields("A: b\r\n", Ok(Framing::Empty));
    fields("A:\r\n", Ok(Framing::Empty));
    fields("A: \t \r\n", Ok(Framing::Empty));
    fields(b"A: \x80\xff\tb\r\n", Ok(Framing::Empty));
    fields("A : b\r\n", Err(Field));
    fields("A\t: b\r\n", Err(Field));
    fields("Content-Length : 5\r\n", Err(Field));
    fields("Transfer-Encoding : chunked\r\n", Err(Field));
    fields(" A: b\r\n", Err(Field));
    fields("A: b\r\n c\r\n", Err(Field));
    fields("A: b\r\n\tc\r\n", Err(Field));
    fields("A:\r\n chunked\r\n", Err(Field));
    fields("Transfer-Encoding:\r\n chunked\r\n", Err(Field));
    fields("A: b\r\n \r\n", Err(Field));
    fields(": b\r\n", Err(Field));
    fields(" : b\r\n", Err(Field));
    fields("A\r\n", Err(Field));
    fields("A b: c\r\n", Err(Field));
    fields("A(b): c\r\n", Err(Field));
    fields("\"A\": c\r\n", Err(Field));
    fields("A,b: c\r\n", Err(Field));
    fields("A/b: c\r\n", Err(Field));
    fields("A[b]: c\r\n", Err(Field));
    fields("A@b: c\r\n", Err(Field));
    fields(b"\xc3\xa9: c\r\n", Err(Field));
    fields(b"A\x80: c\r\n", Err(Field));
    fields(b"\xef\xbb\xbfA: c\r\n", Err(Field));
    fields("A\x01: c\r\n", Err(Field));
    fields("A\x7f: c\r\n", Err(Field));
    fields("A: \x01\r\n", Err(Field));
    fields("A: b\x08\r\n", Err(Field));
    fields("A: b\x0bc\r\n", Err(Field));
    fields("A: b\x0cc\r\n", Err(Field));
    fields("A: b\x1bc\r\n", Err(Field));
    fields("A: b\x7fc\r\n", Err(Field));
    refused("GET / HTTP/1.1\r\n Host: a\r\n\r\n", Field);
    refused("GET / HTTP/1.1\r\n \r\nHost: a\r\n\r\n", Field);
}

#[test]
fn line_ends() {
    refused("GET / HTTP/1.1\nHost: a\n\n", LineEnd);
    refused("GET / HTTP/1.1\nHost: a\r\n\r\n", LineEnd);
    refused("GET / HTTP/1.1\r\nHost: a\n\r\n", LineEnd);
    refused("GET / HTTP/1.1\r\nHost: a\r\n\n", LineEnd);
    refused("GET / HTTP/1.1\r\nHost: a\n\n", LineEnd);
    refused("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", LineEnd);
    refused("\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", LineEnd);
    refused("\r\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", LineEnd);
    refused("\r\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", LineEnd);
    refused("GET / HTTP/1.1\rHost: a\r\r", LineEnd);
    refused("GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", LineEnd);
    refused("GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", LineEnd);
    refused("GET / HTTP/1.1\r\nHost: a\r\n\r\r\n\r\n", LineEnd);
    fields("A: b\rc\r\n", Err(LineEnd));
    fields("A: b\r\rc\r\n", Err(LineEnd));
    fields("A: b\nContent-Length: 5\r\n", Err(LineEnd));
    fields("A: b\rContent-Length: 5\r\n", Err(LineEnd));
    fields("A\r: b\r\n", Err(LineEnd));
    fields("A:\rb\r\n", Err(LineEnd));
    fields("A: b\0c\r\n", Err(LineEnd));
    fields("A\0: b\r\n", Err(LineEnd));
    fields("\0\r\n", Err(LineEnd));
    fields("Content-Length: 5\0\r\n", Err(LineEnd));
    fields("Transfer-Encoding: chunked\0\r\n", Err(LineEnd));
    fields("Transfer-Encoding: \nchunked\r\n", Err(LineEnd));
    assert!(read(b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n").is_ok());
    refused("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", RequestLine);
}

#[test]
fn lengths() {
    fields("Content-Length: 5\r\n", Ok(Framing::Length(5)));
    fields("content-LENGTH:5\r\n", Ok(Framing::Length(5)));
    fields("Content-Length: \t5 \t\r\n", Ok(Framing::Length(5)));
    fields("Content-Length: 0\r\n", Ok(Framing::Empty));
    fields("Content-Length: 005\r\n", Ok(Framing::Length(5)));
    fields("Content-Length: 9223372036854775807\r\n", Ok(Framing::Length(i64::MAX as u64)));
    for value in [
        "",
        "+5",
        "-5",
        "-0",
        "+0",
        "5 5",
        "5\t5",
        "0x5",
        "0X5",
        "5x",
        "x5",
        "5.0",
        "5e0",
        "5,",
        ",5",
        "5,5",
        "5, 5",
        "5,6",
        "5;",
        "\"5\"",
        "'5'",
        "five",
        "5\u{a0}",
        "\u{665}",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "18446744073709551621",
        "99999999999999999999999999999999999999",
        "0b1",
        "0o5",
        "5_000",
        "5'000",
        "1/1",
        "(5)",
        "NaN",
        "null",
        "5\u{b}",
    ] {
        let raw = format!("Content-Length: {value}\r\n");
        let why = if value.contains('\u{b}') { Reject::Field } else { ContentLength };
        fields(raw, Err(why));
    }
    fields("Content-Length: 5\r\nContent-Length: 5\r\n", Err(ContentLength));
    fields("Content-Length: 5\r\nContent-Length: 6\r\n", Err(ContentLength));
    fields("Content-Length: 5\r\nA: b\r\ncontent-length: 0\r\n", Err(ContentLength));
    fields("Content-Length: 0\r\nContent-Length: 5\r\n", Err(ContentLength));
    fields("Content-Length:\r\nContent-Length: 5\r\n", Err(ContentLength));
    // Other names are other fields: forwarded, and without effect on framing.
    fields("Content_Length: 5\r\n", Ok(Framing::Empty));
    fields("X-Content-Length: 5\r\n", Ok(Framing::Empty));
    fields("Content-Lengt: 5\r\n", Ok(Framing::Empty));
}

#[test]
fn codings() {
    fields("Transfer-Encoding: chunked\r\n", Ok(Framing::Chunked));
    fields("transfer-encoding:CHUNKED\r\n", Ok(Framing::Chunked));
    fields("Transfer-Encoding: \t chunked\t \r\n", Ok(Framing::Chunked));
    fields("Transfer_Encoding: chunked\r\n", Ok(Framing::Empty));
    for value in [
        "",
        "identity",
        "gzip",
        "chunked, identity",
        "identity, identity",
        "chunked, chunked",
        "chunked,",
        ",chunked",
        "chunked, gzip",
        "xchunked",
        "chunkedx",
        "chunked;",
        "chunked; a=b",
        "chunked ;a",
        "\"chunked\"",
        "'chunked'",
        "chunke",
        "chunk",
        "cow",
        "chunked chunked",
        "gzip chunked",
        "gzip;q=1, chunked",
        "\u{b}chunked",
        "ch\u{fc}nked",
        "chun ked",
        "gzip, chunked, chunked",
        "x, , chunked",
    ] {
        let why = if value.contains('\u{b}') { Reject::Field } else { TransferEncoding };
        fields(format!("Transfer-Encoding: {value}\r\n"), Err(why));
    }
    fields("Transfer-Encoding: gzip, chunked\r\n", Err(UnknownCoding));
    fields("Transfer-Encoding: identity, chunked\r\n", Err(UnknownCoding));
    fields("Transfer-Encoding: x,deflate,CHUNKED\r\n", Err(UnknownCoding));
    fields("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Err(TransferEncoding));
    fields("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", Err(TransferEncoding));
    fields("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", Err(TransferEncoding));
    fields("Transfer-Encoding:\r\nTransfer-Encoding: chunked\r\n", Err(TransferEncoding));
    refused("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", TransferEncoding);
    refused("POST / HTTP/1.0\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", TransferEncoding);
    fields("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", Err(BothLengths));
    fields("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", Err(BothLengths));
    fields("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", Err(BothLengths));
    fields("Transfer-Encoding: identity\r\nContent-Length: 5\r\n", Err(BothLengths));
    fields("Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n", Err(BothLengths));
    fields("Content-Length: 5\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n", Err(BothLengths));
    refused("POST / HTTP/1.0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", BothLengths);
    // A GET may have a body; whoever reads it decides by the same rules.
    refused(
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        BothLengths,
    );
}

#[test]
fn connections() {
    #[track_caller]
    fn keeps(version: &str, fields: &str, expected: bool) {
        let raw = format!("GET / {version}\r\nHost: a\r\n{fields}\r\n");
        let mut storage = FieldStorage::new();
        match parse(raw.as_bytes(), &LIMITS, &mut storage) {
            Ok(ParsedRequest::Head(head, _)) => assert_eq!(expected, head.keep_alive, "{raw:?}"),
            other => panic!("{raw:?}: {other:?}"),
        }
    }
    keeps("HTTP/1.1", "", true);
    keeps("HTTP/1.1", "Connection: keep-alive\r\n", true);
    keeps("HTTP/1.1", "Connection: upgrade\r\nUpgrade: websocket\r\n", true);
    keeps("HTTP/1.1", "Connection: close\r\n", false);
    keeps("HTTP/1.1", "Connection: CLOSE\r\n", false);
    keeps("HTTP/1.1", "Connection: a, Close ,b\r\n", false);
    keeps("HTTP/1.1", "Connection: keep-alive\r\nConnection: close\r\n", false);
    keeps("HTTP/1.1", "Connection: keep-alive, close\r\n", false);
    keeps("HTTP/1.1", "Connection: closed\r\n", true);
    keeps("HTTP/1.1", "Connection: close x\r\n", false);
    keeps("HTTP/1.1", "Connection: \"close\"\r\n", false);
    keeps("HTTP/1.1", "Proxy-Connection: close\r\n", true);
    keeps("HTTP/1.0", "", false);
    keeps("HTTP/1.0", "Connection: keep-alive\r\n", true);
    keeps("HTTP/1.0", "Connection: Keep-Alive, x\r\n", true);
    keeps("HTTP/1.0", "Connection: keep-alive, close\r\n", false);
    keeps("HTTP/1.0", "Keep-Alive: 300\r\n", false);
    keeps("HTTP/1.0", "Proxy-Connection: keep-alive\r\n", false);
}

#[test]
fn expectations() {
    #[track_caller]
    fn expects(version: &str, fields: &str, expected: Result<bool, Reject>) {
        let raw = format!("POST / {version}\r\nHost: a\r\n{fields}\r\n");
        assert_eq!(expected, read(raw.as_bytes()).map(|it| it.expects_continue), "{raw:?}");
    }
    expects("HTTP/1.1", "Expect: 100-continue\r\nContent-Length: 5\r\n", Ok(true));
    expects("HTTP/1.1", "Expect: 100-Continue\r\nTransfer-Encoding: chunked\r\n", Ok(true));
    expects("HTTP/1.1", "Expect: 100-continue\r\nContent-Length: 0\r\n", Ok(false));
    expects("HTTP/1.1", "Expect: 100-continue\r\n", Ok(false));
    expects("HTTP/1.0", "Expect: 100-continue\r\nContent-Length: 5\r\n", Ok(false));
    expects("HTTP/1.1", "Expect: 200-ok\r\nContent-Length: 5\r\n", Err(Expectation));
    expects("HTTP/1.1", "Expect: 100-continue, x\r\nContent-Length: 5\r\n", Err(Expectation));
    expects("HTTP/1.1", "Expect: 100-continue\r\nExpect: x\r\nContent-Length: 5\r\n", Err(Expectation));
    expects("HTTP/1.1", "Expect:\r\nContent-Length: 5\r\n", Err(Expectation));
}

#[test]
fn bounds() {
    let limits = HeadLimits { head: 64, target: 8, scheme: Scheme::Http };
    let check = |raw: &str, expected: Result<usize, Reject>| {
        let mut storage = FieldStorage::new();
        let found = parse(raw.as_bytes(), &limits, &mut storage).map(|it| match it {
            ParsedRequest::Head(_, length) => length,
            ParsedRequest::Partial => 0,
        });
        assert_eq!(expected, found, "{raw:?}");
    };
    check("GET /1234567 HTTP/1.1\r\nHost: a\r\n\r\n", Ok(34));
    check("GET /12345678 HTTP/1.1\r\nHost: a\r\n\r\n", Err(TargetTooLong));
    check("GET /12345678", Err(TargetTooLong));
    check("GET /1234567", Ok(0));
    check(&format!("GET /{}", "1".repeat(500)), Err(TargetTooLong));
    check(&format!("GET / HTTP/1.1\r\nHost: a\r\nB: {}\r\n\r\n", "c".repeat(32)), Ok(64));
    check(&format!("GET / HTTP/1.1\r\nHost: a\r\nB: {}\r\n\r\n", "c".repeat(33)), Err(HeadTooLarge));
    check(&format!("GET / HTTP/1.1\r\nHost: a\r\nB: {}", "c".repeat(36)), Err(HeadTooLarge));
    check(&format!("GET / HTTP/1.1\r\nHost: a\r\nB: {}", "c".repeat(35)), Ok(0));
    check(&"M".repeat(63), Ok(0));
    check(&"M".repeat(64), Err(HeadTooLarge));
    // What follows the head is not part of it.
    check(&format!("GET / HTTP/1.1\r\nHost: a\r\n\r\n{}", "\0\n".repeat(100)), Ok(27));

    let many = |count: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(count - 1));
    assert!(read(many(MAX_FIELDS).as_bytes()).is_ok());
    refused(many(MAX_FIELDS + 1), HeadTooLarge);
    refused(many(MAX_FIELDS * 10), HeadTooLarge);
}

#[test]
fn a_beginning_that_can_only_be_invalid_is_rejected_at_once() {
    use Reject::Target;
    for (raw, why) in [
        (&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], LineEnd),
        (b"\x16\x03\x01", RequestLine),
        (b"\n", LineEnd),
        (b"\rG", LineEnd),
        (b"\r\n\r\n", RequestLine),
        (b"\r\n ", RequestLine),
        (b" ", RequestLine),
        (b"GET\0", LineEnd),
        (b"{\"jsonrpc\"", RequestLine),
        (b"GET /\x80", Target),
        (b"GET /\r\n", RequestLine),
        (b"GET\r\n", RequestLine),
        (b"GET / \r\n", RequestLine),
        (b"GET / http/1.1\r\n", RequestLine),
        (b"GET / HTTP/1.1\r\nHost: a\n", LineEnd),
        (b"GET / HTTP/1.1\r\nA: b\rc", LineEnd),
    ] {
        match parse(raw, &LIMITS, &mut FieldStorage::new()) {
            Err(it) => assert_eq!(why, it, "{raw:?}"),
            other => panic!("{raw:?}: {other:?}"),
        }
    }
}

#[test]
fn every_reason_has_its_status() {
    for (why, status) in [
        (RequestLine, 400),
        (Reject::Version, 505),
        (TargetTooLong, 414),
        (HeadTooLarge, 431),
        (UnknownCoding, 501),
        (Reject::MethodCase, 501),
        (Expectation, 417),
        (BothLengths, 400),
    ] {
        assert_eq!(status, why.status());
        assert!(why.sentence().ends_with('.'));
    }
}

/// What a parser that is laid out otherwise finds odd: this one knows no more than the bytes.
fn is_clean(head: &[u8]) -> bool {
    let Some(text) = head.strip_suffix(b"\r\n\r\n") else { return false };
    let text = text.strip_prefix(b"\r\n").unwrap_or(text);
    let text = String::from_utf8_lossy(text).into_owned();
    text.split("\r\n").enumerate().all(|(index, line)| {
        let controls = line.chars().any(|it| it != '\t' && it.is_ascii_control());
        let shape = match index {
            0 => {
                let words: Vec<_> = line.split(' ').collect();
                words.len() == 3 && words.iter().all(|it| !it.is_empty()) && words[2].starts_with("HTTP/1.")
            }
            _ => line
                .split_once(':')
                .is_some_and(|(name, _)| !name.is_empty() && name.bytes().all(is_token_byte)),
        };
        shape && !controls
    })
}

/// Bytes that are nearly a head: real parts, oddities, and noise.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        6 => prop::sample::select(vec![
            "GET / HTTP/1.1\r\n", "POST /a?b HTTP/1.1\r\n", "GET http://a/ HTTP/1.1\r\n", "OPTIONS * HTTP/1.0\r\n",
            "Host: a\r\n", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "Connection: close\r\n",
            "Expect: 100-continue\r\n", "A: b\r\n", "\r\n", "\r\n\r\n",
        ]).prop_map(|it| it.as_bytes().to_vec()),
        2 => prop::sample::select(vec![
            "\n", "\r", " ", "\t", ":", "\0", "GET", "/", "HTTP/1.1", "chunked", ",", "5", "\x7f", "#", "Host", "@",
        ]).prop_map(|it| it.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 1..4),
    ];
    prop::collection::vec(part, 0..8).prop_map(|it| it.concat())
}

/// The parsed head, in a form that outlives its buffer.
fn owned_head(parsed: Result<ParsedRequest<'_>, Reject>) -> Result<Option<(usize, String)>, Reject> {
    parsed.map(|it| match it {
        ParsedRequest::Head(head, length) => Some((length, format!("{head:?}"))),
        ParsedRequest::Partial => None,
    })
}

fn outcome(raw: &[u8]) -> Result<Option<(usize, String)>, Reject> {
    owned_head(parse(raw, &LIMITS, &mut FieldStorage::new()))
}

proptest! {
    /// What one look finds in order, line by line is as well, whatever follows it.
    #[test]
    fn the_fast_parser_agrees_with_the_line_parser(raw in nearly()) {
        let begun = [b"GET / HTTP/1.1\r\nHost: a\r\n", &raw[..]].concat();
        for it in [&raw, &begun] {
            prop_assert_eq!(owned_head(parse_oddly(it, &LIMITS, &mut FieldStorage::new())), outcome(it));
        }
    }

    /// Where the input is cut makes no difference: an early answer is the final one.
    #[test]
    fn a_cut_changes_nothing(raw in nearly()) {
        let whole = outcome(&raw);
        for cut in 0..raw.len() {
            match outcome(&raw[..cut]) {
                Ok(None) => {}
                Ok(head) => prop_assert_eq!(&Ok(head), &whole, "cut at {}", cut),
                Err(_) => prop_assert!(whole.is_err(), "refused at {} but then {:?}", cut, whole),
            }
        }
    }

    /// Nothing that is accepted has an odd byte or shape in it.
    #[test]
    fn an_accepted_head_has_no_invalid_bytes(raw in nearly()) {
        if let Ok(Some((length, _))) = outcome(&raw) {
            prop_assert!(is_clean(&raw[..length]));
        }
    }

    #[test]
    fn arbitrary_bytes_are_answered(raw in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = outcome(&raw);
    }

    /// What was written is read again, and nothing else.
    #[test]
    fn a_written_head_is_parsed_to_the_same(
        method in "[A-Z]{1,8}",
        target in "/[!-\"$-~]{0,40}",
        lines in prop::collection::vec(("[a-zA-Z0-9!#$%&'*+.^_`|~-]{1,20}x", "([!-~]([ -~]{0,20}[!-~])?)?"), 0..10),
    ) {
        prop_assume!(method != "CONNECT");
        let mut raw = Vec::new();
        super::super::write::request_line(&method, &target, &mut raw);
        super::super::write::field("Host", b"a", &mut raw);
        for (name, value) in &lines {
            super::super::write::field(name, value.as_bytes(), &mut raw);
        }
        raw.extend_from_slice(b"\r\n");
        let head = read(&raw).unwrap();
        prop_assert_eq!(method, head.method);
        prop_assert_eq!(target, head.target);
        let found: Vec<_> = head.fields.iter().skip(1)
            .map(|it| (it.name.to_owned(), String::from_utf8_lossy(it.value).into_owned())).collect();
        prop_assert_eq!(lines, found);
    }
}

#[test]
fn a_target_stays_as_it_came() {
    for target in ["/a/b-._~!$&'()*+,;=:@%2f%5B?c=d&e/?f", "/a|b{c}[d]^\"<>\\`", "/%2e%2E/%zz%00%?a[]", "/%"]
    {
        let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut storage = FieldStorage::new();
        match parse(head.as_bytes(), &LIMITS, &mut storage) {
            Ok(ParsedRequest::Head(head, _)) => {
                assert_eq!((target, target), (head.target, &*head.to_owned().target))
            }
            other => panic!("{target}: {other:?}"),
        }
    }
}
