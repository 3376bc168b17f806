//! Laws for any bytes as the head of an application's response. Run by the fuzzer, and with small inputs as a test of `wire`.

use larder_wire::cgi_head::parse;
use larder_wire::http1::response::ParsedResponse;
use larder_wire::message::{BadResponse, Framing, MAX_FIELDS, ResponseHead};

const LIMIT: usize = 4096;

/// Panics where a law is broken.
pub fn check(raw: &[u8]) {
    let whole = read(raw, "GET");
    for cut in (0..raw.len()).step_by(1 + raw.len() / 200) {
        match read(&raw[..cut], "GET") {
            Ok(None) => {}
            Ok(head) => {
                assert_eq!(format!("{whole:?}"), format!("{:?}", Ok::<_, BadResponse>(head)), "cut at {cut}")
            }
            Err(_) => assert!(whole.is_err(), "rejected at {cut}, but accepted whole"),
        }
    }
    if let Ok(Some((head, _))) = read(raw, "HEAD") {
        assert_eq!(Framing::Empty, head.framing);
    }
    let Ok(Some((head, length))) = whole else { return };
    assert!(length <= raw.len().min(LIMIT), "more than there is was read");
    assert!((200..=599).contains(&head.status) && head.fields.len() <= MAX_FIELDS);
    assert!(head.framing != Framing::Chunked && !head.keep_alive);
    assert!(head.fields.get_all("Content-Length").count() <= 1);
    assert!(!head.fields.contains("Transfer-Encoding") && !head.fields.contains("Status"));
    for it in head.fields.iter() {
        assert!(!it.name.is_empty() && it.name.bytes().all(|it| it.is_ascii_graphic() && it != b':'));
        assert!(it.value.iter().all(|it| *it == b'\t' || *it >= b' ' && *it != 0x7f), "a control character");
    }
    // What is sent on reads as what was understood.
    let mut again = format!("Status: {}\r\n", head.status).into_bytes();
    again.extend_from_slice(head.fields.text());
    again.extend_from_slice(b"\r\n");
    match parse(&again, again.len() + 1, "GET") {
        Ok(ParsedResponse::Head(other, length)) => {
            assert_eq!(length, again.len());
            assert_eq!((head.status, head.framing), (other.status, other.framing));
            assert_eq!(head.fields, other.fields);
        }
        other => panic!("{:?}: {other:?}", String::from_utf8_lossy(&again)),
    }
}

fn read(raw: &[u8], method: &str) -> Result<Option<(ResponseHead, usize)>, BadResponse> {
    Ok(match parse(raw, LIMIT, method)? {
        ParsedResponse::Head(head, length) => Some((head, length)),
        ParsedResponse::Partial => None,
    })
}
