//! Laws for any bytes as an origin's head. Run by the fuzzer, and with small inputs as a test of `wire`.

use larder_wire::http1::response::{ParsedResponse, parse};
use larder_wire::http1::write;
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
            Err(_) => assert!(whole.is_err(), "refused at {cut}, but accepted whole"),
        }
    }
    // A method decides where the body ends, and not whether the head is sound.
    let of_head = read(raw, "HEAD");
    assert_eq!(whole.is_ok(), of_head.is_ok());
    if let Ok(Some((head, _))) = of_head {
        assert_eq!(Framing::Empty, head.framing);
    }
    if let Ok(Some((head, length))) = whole {
        assert!(length <= raw.len().min(LIMIT), "more than there is was read");
        assert!(raw[..length].windows(2).all(|it| (it[1] == b'\n') == (it[0] == b'\r')), "a bare CR or LF");
        assert!((100..=599).contains(&head.status) && head.fields.len() <= MAX_FIELDS);
        assert!(head.fields.get_all("Content-Length").count() <= 1);
        assert!(head.framing != Framing::Close || !head.keep_alive);
        for it in head.fields.iter() {
            assert!(!it.name.is_empty() && it.name.bytes().all(|it| it.is_ascii_graphic() && it != b':'));
            assert!(
                it.value.iter().all(|it| *it == b'\t' || *it >= b' ' && *it != 0x7f),
                "a control character"
            );
        }
        is_read_again(&head);
    }
}

fn read(raw: &[u8], method: &str) -> Result<Option<(ResponseHead, usize)>, BadResponse> {
    Ok(match parse(raw, LIMIT, method)? {
        ParsedResponse::Head(head, length) => Some((head, length)),
        ParsedResponse::Partial => None,
    })
}

/// The forwarded bytes parse to the same value.
fn is_read_again(head: &ResponseHead) {
    let mut raw = Vec::new();
    write::status_line(head.status, &mut raw);
    raw.extend_from_slice(head.fields.text());
    raw.extend_from_slice(b"\r\n");
    match parse(&raw, raw.len(), "GET") {
        Ok(ParsedResponse::Head(again, length)) => {
            assert_eq!(length, raw.len());
            assert_eq!((head.status, head.framing), (again.status, again.framing));
            assert_eq!(head.fields, again.fields);
        }
        other => panic!("{:?}: {other:?}", String::from_utf8_lossy(&raw)),
    }
}
