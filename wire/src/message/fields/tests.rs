//! The fields of a head that the next hop gets.

use super::*;

#[track_caller]
fn stripped(fields: &[(&str, &str)], expected: &str) {
    let fields: Vec<_> = fields.iter().map(|(name, value)| Field { name, value: value.as_bytes() }).collect();
    assert_eq!(expected, String::from_utf8_lossy(strip_hop_by_hop(&fields).text()), "{fields:?}");
}

#[test]
fn fields_removed_for_the_next_hop() {
    stripped(&[("A", "1"), ("a", "2")], "A: 1\r\na: 2\r\n");
    for name in [
        "Connection",
        "KEEP-ALIVE",
        "Proxy-Connection",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
        "HTTP2-Settings",
        "Proxy-Authorization",
        "Proxy-Authenticate",
        "Proxy-Authentication-Info",
        "Content-Length",
    ] {
        stripped(&[("A", "1"), (name, "x"), ("B", "2")], "A: 1\r\nB: 2\r\n");
    }
    stripped(&[("A", "1"), ("Connection", "close, a ,b"), ("B", "2"), ("C", "3")], "C: 3\r\n");
    stripped(&[("Connection", "a"), ("connection", "B"), ("A", "1"), ("B", "2"), ("C", "3")], "C: 3\r\n");
    stripped(&[("Connection", "a b,,"), ("A", "1"), ("B", "2")], "A: 1\r\nB: 2\r\n");
    stripped(
        &[
            ("Connection", "host, x-forwarded-for, cookie, set-cookie, cache-control"),
            ("Host", "a"),
            ("Cookie", "c"),
        ],
        "Host: a\r\nCookie: c\r\n",
    );
}

#[test]
fn an_underscore_disguises_nothing() {
    for name in ["Transfer_Encoding", "CONTENT_LENGTH", "x_forwarded-for", "X_Real_IP", "keep_alive"] {
        stripped(&[("A", "1"), (name, "x")], "A: 1\r\n");
    }
    stripped(&[("X_Y", "1"), ("_", "2")], "X_Y: 1\r\n_: 2\r\n");
    stripped(
        &[("X_a-name_that-is_longer-than_any-of_ours", "1")],
        "X_a-name_that-is_longer-than_any-of_ours: 1\r\n",
    );
}

#[test]
fn names_of_the_same_length_pass() {
    for name in ["X-", "Upgrad2", "User-Agent", "Accept-Language", "X-Transfer-Encodi", "Etag"] {
        assert!(!is_hop_by_hop(name), "{name}");
    }
}
