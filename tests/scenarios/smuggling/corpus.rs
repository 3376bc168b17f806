//! Raw requests with their expected results.

/// The expected result of a case.
pub enum Expect {
    /// One of these statuses and a close; nothing reaches the origin.
    Refused(&'static [u16]),
    /// The origin answers these, told by the beginning of `METHOD TARGET HTTP/1.1 BODY-LENGTH HOST`.
    Passed(Vec<&'static str>),
}

/// One case.
pub struct Case {
    pub name: String,
    pub raw: Vec<u8>,
    pub expect: Expect,
    /// The connection closes after the last answer.
    pub closes: bool,
}

const BAD: &[u16] = &[400];
const BAD_OR_UNKNOWN: &[u16] = &[400, 501];

/// All cases.
pub fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    request_lines(&mut all);
    hosts(&mut all);
    lengths(&mut all);
    codings(&mut all);
    field_lines(&mut all);
    chunks(&mut all);
    accepted(&mut all);
    all
}

fn refuse(all: &mut Vec<Case>, statuses: &'static [u16], raw: impl Into<Vec<u8>>) {
    let raw = raw.into();
    let name = String::from_utf8_lossy(&raw).escape_debug().take(200).collect();
    all.push(Case { name, raw, expect: Expect::Refused(statuses), closes: true });
}

fn accept(all: &mut Vec<Case>, raw: impl Into<Vec<u8>>, lines: &[&'static str]) {
    let raw = raw.into();
    let name = String::from_utf8_lossy(&raw).escape_debug().take(200).collect();
    all.push(Case { name, raw, expect: Expect::Passed(lines.to_vec()), closes: false });
}

fn accept_and_close(all: &mut Vec<Case>, raw: impl Into<Vec<u8>>, lines: &[&'static str]) {
    accept(all, raw, lines);
    all.last_mut().unwrap().closes = true;
}

fn request_lines(all: &mut Vec<Case>) {
    for method in ["get", "Get", "gET", "post", "propfind"] {
        refuse(all, &[501], format!("{method} /a HTTP/1.1\r\nHost: h\r\n\r\n"));
    }
    for line in [
        "GET /",
        "GET",
        "",
        " GET / HTTP/1.1",
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET\t/\tHTTP/1.1",
        "GET /a b HTTP/1.1",
        "GET / http/1.1",
        "GET / HTTP/11",
        "GET / HTTP/1,1",
        "GET / HTTP/1.1x",
        "GET / HTTP/1.",
        "GET / HTTP/01.1",
        "GET / HTTP/1.10",
        "GET / XTTP/1.1",
        "G@T / HTTP/1.1",
        "GET\x01 / HTTP/1.1",
        "(GET) / HTTP/1.1",
        "GET x HTTP/1.1",
        "GET ?q HTTP/1.1",
        "GET * HTTP/1.1",
        "GET /#top HTTP/1.1",
        "GET /\x7f HTTP/1.1",
        "GET /\x01 HTTP/1.1",
        "GET http:///x HTTP/1.1",
        "GET http://u:p@h/x HTTP/1.1",
        "GET http://other/x HTTP/1.1",
        "GET h:80 HTTP/1.1",
        "GET http:/x HTTP/1.1",
        "GET \\x HTTP/1.1",
        ": / HTTP/1.1",
    ] {
        refuse(all, BAD, format!("{line}\r\nHost: h\r\n\r\n"));
    }
    for line in ["GET https://h/x HTTP/1.1", "GET HTTPS://h:443/x HTTP/1.1", "POST https://h HTTP/1.1"] {
        refuse(all, &[421], format!("{line}\r\nHost: h\r\n\r\n"));
    }
    for version in ["HTTP/2.0", "HTTP/0.9", "HTTP/1.2", "HTTP/3.0", "HTTP/9.9"] {
        refuse(all, &[505], format!("GET / {version}\r\nHost: h\r\n\r\n"));
    }
    // Nearly the preface of HTTP/2.
    refuse(all, &[400, 505], "PRI * HTTP/2.0\r\nHost: h\r\n\r\nSM\r\n\r\n");
    refuse(all, BAD, b"GET /\0 HTTP/1.1\r\nHost: h\r\n\r\n");
    refuse(all, BAD, b"GET /\xc3\xa9 HTTP/1.1\r\nHost: h\r\n\r\n");
    refuse(all, BAD, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03");
    refuse(all, BAD, b"\0\0\0\0");
    refuse(all, BAD, "\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n");
    refuse(all, BAD, "\nGET / HTTP/1.1\r\nHost: h\r\n\r\n");
    refuse(all, BAD, "GET / HTTP/1.1\nHost: h\n\n");
    refuse(all, BAD, "GET / HTTP/1.1\rHost: h\r\r");
    refuse(all, BAD, "GET / HTTP/1.1\r\r\nHost: h\r\n\r\n");
    refuse(all, BAD, "GET / HTTP/1.1\r\nHost: h\r\n\n");
    refuse(all, BAD, "GET / HTTP/1.1\r\nHost: h\n\r\n");
    refuse(all, &[414], format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "a".repeat(9000)));
    refuse(all, &[431], format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "a".repeat(20_000)));
    refuse(all, &[431], format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "X: y\r\n".repeat(500)));
}

fn hosts(all: &mut Vec<Case>) {
    refuse(all, BAD, "GET / HTTP/1.1\r\n\r\n");
    for lines in [
        "Host: h\r\nHost: h",
        "Host: h\r\nHost: x",
        "Host:",
        "Host: ",
        "Host: h x",
        "Host: h/x",
        "Host: u@h",
        "Host: h,x",
        "Host: h:99999",
        "Host: h:x",
        "Host: h:-1",
        "Host: [::1",
        "Host: ::1]",
        "Host: h?x",
        "Host: h#x",
        "Host: h\\x",
        "Host: http://h",
        "Host : h",
        "Host: h\0",
        "Host: \x01",
        "Host: h\r\n x",
        "Host: h%zz",
        "Host: <h>",
    ] {
        refuse(all, BAD, format!("GET / HTTP/1.1\r\n{lines}\r\n\r\n"));
    }
}

fn lengths(all: &mut Vec<Case>) {
    for value in [
        "+5",
        "-5",
        "5 5",
        "0x5",
        "5,5",
        "5, 5",
        "5,6",
        "5,",
        ",5",
        "18446744073709551616",
        "18446744073709551615",
        "9223372036854775808",
        "99999999999999999999999999",
        "",
        " ",
        "5;",
        "5\t6",
        "1e1",
        "5.0",
        "five",
        "\u{665}",
        "5\u{b2}",
        "\"5\"",
        "5\0",
        "5\x0b",
        "0x0",
        "-0",
        "+0",
        "_5",
        "5_0",
    ] {
        refuse(all, BAD, format!("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: {value}\r\n\r\nhello"));
    }
    for lines in [
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 0\r\nContent-Length: 5",
        "Content-Length: 5\r\ncontent-length: 5",
        "Content-Length : 5",
        "Content-Length\t: 5",
        "Content-Length\r\n: 5",
        "Content-Length:\r\n 5",
        "Content-Length: 5\r\n 0",
        "Content-Length: 5\r\n\t",
        "Content-Length\0: 5",
        "\x0bContent-Length: 5",
    ] {
        refuse(all, BAD, format!("POST /x HTTP/1.1\r\nHost: h\r\n{lines}\r\n\r\nhello"));
    }
    // Folded onto the request line, or before any field.
    refuse(all, BAD, "POST /x HTTP/1.1\r\n Content-Length: 5\r\nHost: h\r\n\r\nhello");
    refuse(all, &[413], "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 9223372036854775807\r\n\r\nhello");
    refuse(
        all,
        &[413],
        "POST /x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n",
    );
}

fn codings(all: &mut Vec<Case>) {
    const BODY: &str = "0\r\n\r\n";
    for lines in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 0\r\nTransfer-Encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 5",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: chunked\r\nTransfer-encoding: x",
        "Transfer-Encoding: x\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunkedx",
        "Transfer-Encoding: chunked;q=1",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding: \x0bchunked",
        "Transfer-Encoding: chunked\x0b",
        "Transfer-Encoding: chunked\0",
        "Transfer-Encoding: , chunked",
        "Transfer-Encoding: chunked,",
        "Transfer-Encoding:",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding\t: chunked",
        "Transfer-Encoding:\r\n chunked",
        "Transfer-Encoding: chunk\r\n ed",
        "X: y\rTransfer-Encoding: chunked",
        "X: y\nTransfer-Encoding: chunked",
        "X: y\0Transfer-Encoding: chunked",
        " Transfer-Encoding: chunked",
        "\x01Transfer-Encoding: chunked",
        "Transfer-Encoding: cow, chunked;x",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked, gzip",
        "Transfer-Encoding: identity, chunked",
        "Transfer-Encoding: \u{212a}chunked",
    ] {
        refuse(all, BAD_OR_UNKNOWN, format!("POST /x HTTP/1.1\r\nHost: h\r\n{lines}\r\n\r\n{BODY}"));
    }
    refuse(all, BAD, format!("POST /x HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{BODY}"));
    refuse(
        all,
        BAD,
        format!("POST /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n{BODY}"),
    );
    refuse(
        all,
        &[501],
        format!("POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n{BODY}"),
    );
}

fn field_lines(all: &mut Vec<Case>) {
    for line in [
        "Foo",
        ": bar",
        "Foo : bar",
        "Foo\t: bar",
        "F oo: bar",
        "F(oo: bar",
        "F\"oo: bar",
        "F/oo: bar",
        "F{oo: bar",
        "F\x01oo: bar",
        "F\x7foo: bar",
        "Foo: b\rar",
        "Foo: b\nar",
        "Foo: b\0ar",
        "Foo: b\x01ar",
        "Foo: b\x08ar",
        "Foo: b\x7far",
        "Foo: bar\r\n baz",
        "Foo: bar\r\n\tbaz",
        "Foo: bar\r\n ",
        "Foo: bar\r",
        "Foo: \r",
        "\u{e9}: bar",
        "Foo[]: bar",
        "Foo=bar",
        "[Foo]: bar",
        "Foo;: bar",
    ] {
        refuse(all, BAD, format!("GET / HTTP/1.1\r\nHost: h\r\n{line}\r\n\r\n"));
    }
    refuse(all, &[417], "POST /x HTTP/1.1\r\nHost: h\r\nExpect: 200-ok\r\nContent-Length: 5\r\n\r\nhello");
}

fn chunks(all: &mut Vec<Case>) {
    for body in [
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhelloo\r\n0\r\n\r\n",
        "5\r\nhell\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "\r\n5\r\nhello\r\n0\r\n\r\n",
        "g\r\nhello\r\n0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "5\r\r\nhello\r\n0\r\n\r\n",
        "\r\n0\r\n\r\n",
        "FFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n",
        "FFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n",
        "8000000000000000\r\nhello\r\n0\r\n\r\n",
        "00000000000000000005\r\nhello\r\n0\r\n\r\n",
        "10000000000000005\r\nhello\r\n0\r\n\r\n",
        "5;\x01\r\nhello\r\n0\r\n\r\n",
        "5;a\nb\r\nhello\r\n0\r\n\r\n",
        "5;a=\"b\r\nhello\r\n0\r\n\r\n",
        "5;\0\r\nhello\r\n0\r\n\r\n",
        "5 x\r\nhello\r\n0\r\n\r\n",
        "5_0\r\nhello\r\n0\r\n\r\n",
        "5,\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\n\n",
        "5\r\nhello\r\n0\r\n\n",
        "5\r\nhello\r\n0\n\r\n",
        "5\r\nhello\r\n0\r\n",
        "5\r\nhello\r\n0\r\nFoo : bar\r\n\r\n",
        "5\r\nhello\r\n0\r\n Foo: bar\r\n\r\n",
        "5\r\nhello\r\n0\r\nFoo: b\0\r\n\r\n",
        "5\r\nhello\r\n0\r\nFoo: bar\n\r\n",
        "5\r\nhello\r\n0\r\n: bar\r\n\r\n",
        "5\r\nhello\r\n0\r\nFoo\r\n\r\n",
        "5\r\nhello\r\n-0\r\n\r\n",
        "0;\n\r\n\r\n",
        "5\r\nhello\0\r\n0\r\n\r\n",
        "\u{665}\r\nhello\r\n0\r\n\r\n",
        "5\u{a0}\r\nhello\r\n0\r\n\r\n",
    ] {
        refuse(all, BAD, format!("POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{body}"));
    }
    let long = "x".repeat(2000);
    refuse(
        all,
        BAD,
        format!(
            "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;{long}\r\nhello\r\n0\r\n\r\n"
        ),
    );
}

#[allow(clippy::too_many_lines, reason = "a table")]
fn accepted(all: &mut Vec<Case>) {
    accept(
        all,
        "GET /a|b{c}[d]^\"<>\\`?q[]=|&r=%41 HTTP/1.1\r\nHost: h\r\n\r\n",
        &["GET /a|b{c}[d]^\"<>\\`?q[]=|&r=%41 HTTP/1.1 0 h"],
    );
    accept(all, "GET /a%zz%?q|=%4 HTTP/1.1\r\nHost: h\r\n\r\n", &["GET /a%zz%?q|=%4 HTTP/1.1 0 h"]);
    accept(all, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n", &["GET /a HTTP/1.1 0 h"]);
    accept(all, "\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n", &["GET /a HTTP/1.1 0 h"]);
    accept(all, "brew /a HTTP/1.1\r\nHost: h\r\n\r\n", &["brew /a HTTP/1.1 0 h"]);
    accept(all, "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", &["OPTIONS * HTTP/1.1 0 h"]);
    accept(
        all,
        "GET //a/../%2e?x=%0d%0aHost:y HTTP/1.1\r\nHost: h\r\n\r\n",
        &["GET //a/../%2e?x=%0d%0aHost:y HTTP/1.1 0 h"],
    );
    accept(all, "GET http://h/a?b HTTP/1.1\r\nHost: h\r\n\r\n", &["GET /a?b HTTP/1.1 0 h"]);
    accept(all, "GET HTTP://H HTTP/1.1\r\nHost: h\r\n\r\n", &["GET / HTTP/1.1 0 "]);
    accept(all, "GET /a HTTP/1.1\r\nHost:h\r\n\r\n", &["GET /a HTTP/1.1 0 h"]);
    accept(all, "GET /a HTTP/1.1\r\nHost:\t h \t\r\n\r\n", &["GET /a HTTP/1.1 0 h"]);
    accept(all, "GET /a HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", &["GET /a HTTP/1.1 0 [::1]"]);
    accept(all, "FROB /a HTTP/1.1\r\nHost: h\r\n\r\n", &["FROB /a HTTP/1.1 0 h"]);
    accept(all, "GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", &["GET /a HTTP/1.1 0 h"]);
    accept(all, "GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", &["GET /a HTTP/1.1 0 h"]);
    accept(all, "POST /a HTTP/1.1\r\nHost: h\r\ncOnTeNt-LeNgTh:5\t \r\n\r\nhello", &["POST /a HTTP/1.1 5 h"]);
    accept(
        all,
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: ChUnKeD\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        &["POST /a HTTP/1.1 "],
    );
    accept(
        all,
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked \r\n\r\n0\r\n\r\n",
        &["POST /a HTTP/1.1 5 h"],
    );
    accept(
        all,
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0005;a=\"\\\"b\";c\r\nhello\r\n000\r\nX-T: 1\r\nContent-Length: 9\r\n\r\n",
        &["POST /a HTTP/1.1 "],
    );
    // What looks like a request within a body is a body.
    accept(
        all,
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 35\r\n\r\nGET /inner HTTP/1.1\r\nHost: evil\r\n\r\n\r\n".replace("\r\n\r\n\r\n", "\r\n\r\n"),
        &["POST /a HTTP/1.1 35 h"],
    );
    accept(
        all,
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n23\r\nGET /inner HTTP/1.1\r\nHost: evil\r\n\r\n\r\n0\r\n\r\n",
        &["POST /a HTTP/1.1 "],
    );
    // A name that is framing only for a gateway interface behind us: dropped.
    accept(
        all,
        "GET /a HTTP/1.1\r\nHost: h\r\nTransfer_Encoding: chunked\r\nContent_Length: 5\r\n\r\n",
        &["GET /a HTTP/1.1 0 h"],
    );
    // What `Connection` names is not what frames.
    accept(
        all,
        "POST /a HTTP/1.1\r\nHost: h\r\nConnection: Content-Length, Host\r\nContent-Length: 5\r\n\r\nhello",
        &["POST /a HTTP/1.1 5 h"],
    );
    accept(
        all,
        "POST /a HTTP/1.1\r\nHost: h\r\nConnection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        &["POST /a HTTP/1.1 "],
    );
    accept(
        all,
        "GET /a HTTP/1.1\r\nHost: h\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nConnection: Upgrade, HTTP2-Settings\r\n\r\n",
        &["GET /a HTTP/1.1 0 h"],
    );
    accept(
        all,
        "GET /a HTTP/1.1\r\nHost: h\r\nKeep-Alive: 5\r\nTE: trailers\r\nTrailer: X\r\nProxy-Connection: close\r\n\r\n",
        &["GET /a HTTP/1.1 0 h"],
    );
    accept(
        all,
        "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nHEAD /2 HTTP/1.1\r\nHost: h\r\n\r\nPOST /3 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab",
        &["GET /1 HTTP/1.1 0 h", "HEAD /2", "POST /3 HTTP/1.1 2 h"],
    );
    accept_and_close(
        all,
        "GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
        &["GET /a HTTP/1.1 0 h"],
    );
    accept_and_close(
        all,
        "GET /a HTTP/1.1\r\nHost: h\r\nConnection: x, CLOSE\r\n\r\n",
        &["GET /a HTTP/1.1 0 h"],
    );
    accept_and_close(all, "GET /a HTTP/1.0\r\nHost: h\r\n\r\n", &["GET /a HTTP/1.1 0 h"]);
    accept_and_close(
        all,
        "POST /a HTTP/1.0\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
        &["POST /a HTTP/1.1 5 h"],
    );
    accept(all, "GET /a HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n", &["GET /a HTTP/1.1 0 h"]);
}
