//! Raw heads of origins with their results. Tables first, then laws that hold for any bytes.

use super::*;
use BadResponse::{Length, StatusLine, TooLarge, TransferEncoding};
use proptest::prelude::*;

const LIMIT: usize = 16 * 1024;

#[track_caller]
fn read(raw: impl AsRef<[u8]>, method: &str) -> Result<ResponseHead, BadResponse> {
    let raw = raw.as_ref();
    match parse(raw, LIMIT, method)? {
        ParsedResponse::Head(head, length) => {
            assert_eq!(raw.len(), length, "{:?}", String::from_utf8_lossy(raw));
            Ok(head)
        }
        ParsedResponse::Partial => panic!("{:?} is not whole", String::from_utf8_lossy(raw)),
    }
}

#[track_caller]
fn line(line: impl AsRef<[u8]>, expected: Result<u16, BadResponse>) {
    let raw = [line.as_ref(), b"\r\n\r\n"].concat();
    assert_eq!(expected, read(&raw, "GET").map(|it| it.status), "{:?}", String::from_utf8_lossy(&raw));
}

/// The framing of a response to `method` with this status and these field lines (each with its CRLF), and
/// whether the connection lives on.
#[track_caller]
fn framed(method: &str, status: u16, fields: &str, expected: Result<(Framing, bool), BadResponse>) {
    let raw = format!("HTTP/1.1 {status} X\r\n{fields}\r\n");
    assert_eq!(expected, read(&raw, method).map(|it| (it.framing, it.keep_alive)), "{method} {raw:?}");
}

#[track_caller]
fn refused(raw: impl AsRef<[u8]>, why: BadResponse) {
    let raw = raw.as_ref();
    assert_eq!(Err(why), read(raw, "GET").map(|it| it.status), "{:?}", String::from_utf8_lossy(raw));
}

#[test]
fn status_lines() {
    line("HTTP/1.1 200 OK", Ok(200));
    line("HTTP/1.0 200 OK", Ok(200));
    line("HTTP/1.1 200 ", Ok(200));
    line("HTTP/1.1 200", Ok(200));
    line("HTTP/1.1 299 a b\tc", Ok(299));
    line(b"HTTP/1.1 200 \xc3\xa9", Ok(200));
    line("HTTP/1.1 100 Continue", Ok(100));
    line("HTTP/1.1 999 x", Err(StatusLine));
    line("HTTP/1.1 600 x", Err(StatusLine));
    line("HTTP/1.1 599 x", Ok(599));
    for it in [
        "HTTP/1.1 099 x",
        "HTTP/1.1 000 x",
        "HTTP/1.1 99 x",
        "HTTP/1.1 2000 x",
        "HTTP/1.1 20 OK",
        "HTTP/1.1 -20 x",
        "HTTP/1.1 2x0 x",
        "HTTP/1.1 200OK",
        "HTTP/1.1  200 OK",
        "HTTP/1.1\t200 OK",
        "HTTP/1.1 200\tOK",
        "HTTP/1.1",
        "HTTP/1.1 ",
        "HTTP/1.2 200 OK",
        "HTTP/2.0 200 OK",
        "HTTP/2 200",
        "HTTP/1 200 OK",
        "http/1.1 200 OK",
        "HTTPS/1.1 200 OK",
        "ICY 200 OK",
        "200 OK",
        "",
        " HTTP/1.1 200 OK",
        "HTTP/1.1 200 \x01",
        "HTTP/1.1 200 \x7f",
        "HTTP/1.1 2\u{665}0 x",
        "GET / HTTP/1.1",
        "<html>",
        "\r\nHTTP/1.1 200 OK",
        "HTTP/1.10 200 OK",
    ] {
        line(it, Err(StatusLine));
    }
}

#[test]
fn field_lines() {
    use BadResponse::Field;
    for fields in [
        "A : b\r\n",
        " A: b\r\n",
        "A: b\r\n c\r\n",
        "A: b\r\n\tc\r\n",
        "A:\r\n b\r\n",
        ": b\r\n",
        "A\r\n",
        "A b: c\r\n",
        "A: b\0\r\n",
        "A: b\rc\r\n",
        "A: \x01\r\n",
        "A: b\x7f\r\n",
        "A\0: b\r\n",
        "\0\r\n",
        "A: b\n",
        "A: b\nC: d\r\n",
        "A: b\r\r\n",
        "\u{e9}: b\r\n",
        "Content-Length : 5\r\n",
        "Transfer-Encoding\t: chunked\r\n",
        "A: b\x0b\r\n",
        "A\n: b\r\n",
    ] {
        refused(format!("HTTP/1.1 200 OK\r\n{fields}\r\n"), Field);
    }
    refused("HTTP/1.1 200 OK\n\n", Field);
    refused("HTTP/1.1 200 OK\nA: b\r\n\r\n", Field);
    refused("HTTP/1.1 200 OK\r\nA: b\r\n\n", Field);
    let head = read("HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nset-cookie:\t b \r\nC:\r\n\r\n", "GET").unwrap();
    assert_eq!(b"Set-Cookie: a\r\nset-cookie: b\r\nC: \r\n", head.fields.text());
}

#[test]
fn framings() {
    use Framing::{Chunked, Close, Empty, Length as Bytes};
    framed("GET", 200, "", Ok((Close, false)));
    framed("GET", 200, "Content-Length: 5\r\n", Ok((Bytes(5), true)));
    framed("GET", 200, "Content-Length: 0\r\n", Ok((Empty, true)));
    framed("GET", 200, "Transfer-Encoding: Chunked\r\n", Ok((Chunked, true)));
    framed("GET", 404, "Transfer-Encoding: chunked\r\nConnection: close\r\n", Ok((Chunked, false)));
    framed("GET", 205, "Content-Length: 0\r\n", Ok((Empty, true)));
    framed("HEAD", 200, "", Ok((Empty, true)));
    framed("HEAD", 200, "Content-Length: 5\r\n", Ok((Empty, true)));
    framed("HEAD", 200, "Transfer-Encoding: chunked\r\n", Ok((Empty, true)));
    framed("head", 200, "Content-Length: 5\r\n", Ok((Bytes(5), true)));
    framed("GET", 304, "Content-Length: 5\r\n", Ok((Empty, true)));
    framed("GET", 304, "Transfer-Encoding: chunked\r\n", Ok((Empty, true)));
    framed("GET", 204, "", Ok((Empty, true)));
    framed("GET", 204, "Content-Length: 0\r\n", Ok((Empty, true)));
    framed("GET", 204, "Content-Length: 5\r\n", Ok((Empty, false)));
    framed("GET", 204, "Transfer-Encoding: chunked\r\n", Ok((Empty, false)));
    framed("GET", 100, "", Ok((Empty, true)));
    framed("GET", 103, "Link: a\r\n", Ok((Empty, true)));
    framed("GET", 101, "Upgrade: x\r\nConnection: upgrade\r\n", Ok((Empty, false)));
    framed("GET", 100, "Content-Length: 0\r\n", Ok((Empty, true)));
    framed("GET", 100, "Content-Length: 5\r\n", Err(Length));
    framed("GET", 103, "Transfer-Encoding: chunked\r\n", Err(TransferEncoding));
    framed("CONNECT", 200, "Content-Length: 5\r\n", Ok((Empty, false)));
    framed("CONNECT", 403, "Content-Length: 5\r\n", Ok((Bytes(5), true)));
}

#[test]
fn lengths() {
    use Framing::{Empty, Length as Bytes};
    framed("GET", 200, "Content-Length: 5\r\nContent-Length: 5\r\n", Ok((Bytes(5), true)));
    framed("GET", 200, "Content-Length: 5, 5\r\n", Ok((Bytes(5), true)));
    framed("GET", 200, "Content-Length: 5,5\r\ncontent-length: 05\r\n", Ok((Bytes(5), true)));
    framed("GET", 200, "Content-Length: 0, 0\r\n", Ok((Empty, true)));
    framed("GET", 200, "Content-Length: 9223372036854775807\r\n", Ok((Bytes(i64::MAX as u64), true)));
    for value in [
        "",
        "+5",
        "-5",
        "5 5",
        "0x5",
        "5.0",
        "five",
        "5,",
        ",5",
        "5,6",
        "5, ,5",
        "9223372036854775808",
        "18446744073709551616",
        "18446744073709551621",
        "\"5\"",
        "5;",
        "\u{665}",
    ] {
        framed("GET", 200, &format!("Content-Length: {value}\r\n"), Err(Length));
        framed("HEAD", 200, &format!("Content-Length: {value}\r\n"), Err(Length));
    }
    framed("GET", 200, "Content-Length: 5\r\nContent-Length: 6\r\n", Err(Length));
    framed("GET", 200, "Content-Length: 0\r\nContent-Length: 5\r\n", Err(Length));
    framed("GET", 200, "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", Err(Length));
    framed("GET", 200, "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", Err(Length));
    framed("GET", 200, "Transfer-Encoding: x\r\nContent-Length: 5\r\n", Err(Length));
    let head =
        read("HTTP/1.1 200 OK\r\nA: b\r\ncontent-length: 05\r\nC: d\r\nContent-Length: 5, 5\r\n\r\n", "GET");
    assert_eq!(b"A: b\r\ncontent-length: 5\r\nC: d\r\n", head.unwrap().fields.text());
}

#[test]
fn codings() {
    for value in [
        "",
        "gzip",
        "identity",
        "gzip, chunked",
        "chunked, gzip",
        "chunked, chunked",
        "chunked,",
        ",chunked",
        "xchunked",
        "chunked;a",
        "\"chunked\"",
        "chun ked",
    ] {
        framed("GET", 200, &format!("Transfer-Encoding: {value}\r\n"), Err(TransferEncoding));
    }
    framed("GET", 200, "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Err(TransferEncoding));
    framed("GET", 200, "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", Err(TransferEncoding));
    refused("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", TransferEncoding);
}

#[test]
fn connections() {
    #[track_caller]
    fn keeps(version: &str, fields: &str, expected: bool) {
        let raw = format!("{version} 200 OK\r\nContent-Length: 5\r\n{fields}\r\n");
        assert_eq!(expected, read(&raw, "GET").unwrap().keep_alive, "{raw:?}");
    }
    keeps("HTTP/1.1", "", true);
    keeps("HTTP/1.1", "Connection: close\r\n", false);
    keeps("HTTP/1.1", "Connection: keep-alive, Close\r\n", false);
    keeps("HTTP/1.1", "Connection: a b\r\n", false);
    keeps("HTTP/1.0", "", false);
    keeps("HTTP/1.0", "Connection: Keep-Alive\r\n", true);
    keeps("HTTP/1.0", "Connection: keep-alive\r\nConnection: close\r\n", false);
}

#[test]
fn bounds() {
    let check = |raw: &str, expected: Result<usize, BadResponse>| {
        let found = parse(raw.as_bytes(), 40, "GET").map(|it| match it {
            ParsedResponse::Head(_, length) => length,
            ParsedResponse::Partial => 0,
        });
        assert_eq!(expected, found, "{raw:?}");
    };
    check(&format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "b".repeat(16)), Ok(40));
    check(&format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "b".repeat(17)), Err(TooLarge));
    check(&format!("HTTP/1.1 200 {}", "b".repeat(26)), Ok(0));
    check(&format!("HTTP/1.1 200 {}", "b".repeat(27)), Err(TooLarge));
    check("HTTP/1.1 200 OK\r\n\r\n\n\n\n\0", Ok(19));
    check("", Ok(0));
    check("HTT", Ok(0));
    check("HTX", Err(StatusLine));
    check("\n", Err(StatusLine));
    check("HTTP/1.1 200 OK\r\nA: b\rc", Err(BadResponse::Field));
    check("HTTP/1.1 200 OK\r\nA: \0", Err(BadResponse::Field));
    let many = |count: usize| format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(count));
    assert_eq!(MAX_FIELDS, read(many(MAX_FIELDS), "GET").unwrap().fields.len());
    refused(many(MAX_FIELDS + 1), BadResponse::TooManyFields);
}

/// Bytes that are nearly a head: real parts, oddities, and noise.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        6 => prop::sample::select(vec![
            "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "Connection: close\r\n", "A: b\r\n", "\r\n",
            "\r\n\r\n",
        ]).prop_map(|it| it.as_bytes().to_vec()),
        2 => prop::sample::select(vec!["\n", "\r", " ", "\t", ":", "\0", "HTTP/1.1", ",", "5", "\x7f"])
            .prop_map(|it| it.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 1..4),
    ];
    let line =
        prop::sample::select(vec!["HTTP/1.1 200 OK\r\n", "HTTP/1.0 304 \r\n", "HTTP/1.1 204", "HTTP/1."]);
    (line, prop::collection::vec(part, 0..8))
        .prop_map(|(line, rest)| [line.as_bytes(), &rest.concat()].concat())
}

fn owned_head(parsed: Result<ParsedResponse, BadResponse>) -> Result<Option<(usize, String)>, BadResponse> {
    parsed.map(|it| match it {
        ParsedResponse::Head(head, length) => Some((length, format!("{head:?}"))),
        ParsedResponse::Partial => None,
    })
}

fn outcome(raw: &[u8]) -> Result<Option<(usize, String)>, BadResponse> {
    owned_head(parse(raw, LIMIT, "GET"))
}

proptest! {
    /// What one look finds in order, line by line is as well, whatever follows it.
    #[test]
    fn the_fast_parser_agrees_with_the_line_parser(raw in nearly()) {
        let begun = [b"HTTP/1.1 200 OK\r\n", &raw[..]].concat();
        for it in [&raw, &begun].into_iter().filter(|it| it.starts_with(b"HTTP/1.")) {
            prop_assert_eq!(owned_head(parse_oddly(it, LIMIT, "GET")), outcome(it));
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

    #[test]
    fn arbitrary_bytes_are_answered(raw in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = outcome(&raw);
        let _ = outcome(&[b"HTTP/1.1 200 OK\r\n", &raw[..]].concat());
    }

    /// What was written is read again, and nothing else.
    #[test]
    fn a_written_head_is_parsed_to_the_same(
        status in 200u16..=599,
        lines in prop::collection::vec(("[a-zA-Z0-9!#$%&'*+.^_`|~-]{1,20}x", "([!-~]([ -~]{0,20}[!-~])?)?"), 0..10),
    ) {
        let mut raw = Vec::new();
        super::super::write::status_line(status, &mut raw);
        for (name, value) in &lines {
            super::super::write::field(name, value.as_bytes(), &mut raw);
        }
        raw.extend_from_slice(b"\r\n");
        let head = read(&raw, "GET").unwrap();
        prop_assert_eq!(status, head.status);
        let found: Vec<_> = head.fields.iter()
            .map(|it| (it.name.to_owned(), String::from_utf8_lossy(it.value).into_owned())).collect();
        prop_assert_eq!(lines, found);
    }
}
