//! Written and omitted fields.

use super::*;

#[track_caller]
fn wrote(write: impl Fn(&mut Vec<u8>), expected: &str) {
    let mut out = Vec::new();
    write(&mut out);
    assert_eq!(expected, String::from_utf8_lossy(&out));
}

#[test]
fn status_lines() {
    for status in 100..=999 {
        wrote(|out| status_line(status, out), &format!("HTTP/1.1 {status} {}\r\n", reason(status)));
    }
    assert_eq!("OK", reason(200));
    assert_eq!("Content Too Large", reason(413));
    assert_eq!("Unprocessable Content", reason(422));
    assert_eq!("", reason(299));
}

#[test]
fn a_bug_elsewhere_splits_nothing() {
    wrote(|out| request_line("GET", "/a?b", out), "GET /a?b HTTP/1.1\r\n");
    wrote(|out| request_line("GET ", "/a b\r\n\u{e9}\x7f", out), "GET /a%20b%0D%0A%C3%A9%7F HTTP/1.1\r\n");
    wrote(|out| field("A", b"b", out), "A: b\r\n");
    wrote(|out| field("A", b"b\r\nEvil: c\0", out), "A: b  Evil: c \r\n");
}
