//! Heads of applications, as they are and as they must not be.

use super::*;

fn described(parsed: Result<ParsedResponse, BadResponse>) -> String {
    match parsed {
        Ok(ParsedResponse::Head(head, length)) => {
            let fields: String = head
                .fields
                .iter()
                .map(|it| format!(" {}={}", it.name, String::from_utf8_lossy(it.value)))
                .collect();
            let local = if head.is_local_redirect() { " local" } else { "" };
            format!("{}{local} {:?}{fields} ({length})", head.status, head.framing)
        }
        Ok(ParsedResponse::Partial) => "partial".into(),
        Err(bad) => format!("{bad:?}"),
    }
}

#[track_caller]
fn check(raw: &str, expect: &str) {
    assert_eq!(expect, described(parse(raw.as_bytes(), 200, "GET")), "{raw:?}");
}

#[test]
fn heads() {
    check("Content-Type: text/html\r\n\r\nbody", "200 Close Content-Type=text/html (27)");
    check("Content-Type: text/html\n\nbody", "200 Close Content-Type=text/html (25)");
    check("Status: 404 Not Found\r\nX: 1\r\n\r\n", "404 Close X=1 (31)");
    check("X: 1\nstatus:404\n\n", "404 Close X=1 (17)");
    check("Location: /a\r\n\r\n", "302 local Close Location=/a (16)");
    check("Status: 201 Created\r\nLocation: /a\r\n\r\n", "201 Close Location=/a (37)");
    check("HTTP/1.1 201 Created\r\nX: 1\r\n\r\n", "201 Close X=1 (30)");
    check("HTTP/1.0 200 OK\r\n\r\n", "200 Close (19)");
    check("Content-Length: 007\r\n\r\n", "200 Length(7) Content-Length=7 (23)");
    check("Content-Length: 7\r\ncontent-length: 7\r\n\r\n", "200 Length(7) Content-Length=7 (40)");
    check("Content-Length: 0\r\n\r\n", "200 Empty Content-Length=0 (21)");
    check("Status: 304\r\nETag: \"1\"\r\n\r\nbody", "304 Empty ETag=\"1\" (26)");
    check("Status: 200\r\n\r\n", "200 Close (15)");
    check("X:\r\n\r\n", "200 Close X= (6)");
    check("X: caf\u{e9}\r\n\r\n", "200 Close X=café (12)");
}

/// RFC 3875 §6.2.2: a path and a query, and no other field. Everything else goes to the client.
#[test]
fn local_redirects() {
    check("Location: /a/b?c=%20\n\n", "302 local Close Location=/a/b?c=%20 (22)");
    check(
        "Content-Type: text/html\nLocation: /\n\n",
        "302 local Close Content-Type=text/html Location=/ (37)",
    );
    check("Status: 302\nLocation: /a\n\n", "302 Close Location=/a (26)");
    for head in [
        "Location: /a\nSet-Cookie: a=b",
        "Location: /a\nLocation: /b",
        "Location: //example.com/",
        "Location: https://example.com/a",
        "Location: a",
        "Location:",
        "Location: ?a",
        "Location: /a#b",
        "Location: /a b",
        "Location: /\\example.com",
        "Location: /%zz",
        "Location: /\u{e9}",
    ] {
        let parsed = parse(format!("{head}\n\n").as_bytes(), 200, "GET");
        let Ok(ParsedResponse::Head(parsed, _)) = parsed else { panic!("{head}") };
        assert_eq!((302, false), (parsed.status, parsed.is_local_redirect()), "{head}");
    }
}

#[test]
fn partial_heads() {
    check("", "partial");
    check("Content-Type", "partial");
    check("Content-Type: text/html\r\n", "partial");
    check("Content-Type: text/html\r\n\r", "partial");
    check(&format!("X: {}", "x".repeat(190)), "partial");
    check(&format!("X: {}", "x".repeat(200)), "TooLarge");
}

#[test]
fn a_malformed_cgi_head_is_rejected() {
    check("\r\nX: 1\r\n\r\n", "Field");
    check("<html>\n", "Field");
    check("X: 1\r\n folded\r\n\r\n", "Field");
    check("X : 1\r\n\r\n", "Field");
    check(": 1\r\n\r\n", "Field");
    check("X: a\rb\r\n\r\n", "Field");
    check("X: a\0b\r\n\r\n", "Field");
    check("\0\0\0", "Field");
    check("Status: 99\r\n\r\n", "StatusLine");
    check("Status: 100 Continue\r\n\r\n", "StatusLine");
    check("Status: 600\r\n\r\n", "StatusLine");
    check("Status: 2000\r\n\r\n", "StatusLine");
    check("Status: OK\r\n\r\n", "StatusLine");
    check("Status: 200\r\nStatus: 404\r\n\r\n", "StatusLine");
    check("HTTP/2 200 OK\r\n\r\n", "Field");
    check("HTTP/1.1 abc\r\n\r\n", "StatusLine");
    check("Transfer-Encoding: chunked\r\n\r\n", "TransferEncoding");
    check("Content-Length: +7\r\n\r\n", "Length");
    check("Content-Length: 7\r\nContent-Length: 8\r\n\r\n", "Length");
}

#[test]
fn a_response_to_head_has_no_body() {
    let raw = b"Content-Length: 7\r\n\r\n";
    assert_eq!("200 Empty Content-Length=7 (21)", described(parse(raw, 200, "HEAD")));
}
