//! Laws for any bytes as a client's head. Run by the fuzzer, and with small inputs as a test of `wire`.

use larder_semantics::field::{Field, FieldList};
use larder_semantics::scheme::Scheme;
use larder_wire::http1::request::{ParsedRequest, parse};
use larder_wire::http1::write;
use larder_wire::message::fields::strip_hop_by_hop;
use larder_wire::message::{FieldStorage, HeadLimits, MAX_FIELDS, Reject, Request};

const LIMITS: HeadLimits = HeadLimits { head: 4096, target: 1024, scheme: Scheme::Http };

/// Panics where a law is broken.
pub fn check(raw: &[u8]) {
    let whole = read(raw);
    for cut in cuts(raw.len()) {
        match read(&raw[..cut]) {
            Ok(None) => {}
            Ok(head) => {
                assert_eq!(format!("{whole:?}"), format!("{:?}", Ok::<_, Reject>(head)), "cut at {cut}")
            }
            Err(_) => assert!(whole.is_err(), "refused at {cut}, but accepted whole"),
        }
    }
    if let Ok(Some((head, length))) = whole {
        assert!(length <= raw.len().min(LIMITS.head), "more than there is was read");
        assert!(head.target.len() <= LIMITS.target && head.fields.len() <= MAX_FIELDS);
        assert!(raw[..length].windows(2).all(|it| (it[1] == b'\n') == (it[0] == b'\r')), "a bare CR or LF");
        fields_are_clean(&head.fields);
        is_read_again(&head);
        assert_framing_fields_removed(&head.fields.view());
    } else if matches!(whole, Ok(None)) {
        assert!(raw.len() < LIMITS.head, "an incomplete head is over the limit");
    }
}

fn read(raw: &[u8]) -> Result<Option<(Request, usize)>, Reject> {
    let mut storage = FieldStorage::new();
    Ok(match parse(raw, &LIMITS, &mut storage)? {
        ParsedRequest::Head(head, length) => Some((head.to_owned(), length)),
        ParsedRequest::Partial => None,
    })
}

/// Every place to cut a short input, and some of a long one.
fn cuts(length: usize) -> impl Iterator<Item = usize> {
    (0..length).step_by(1 + length / 200)
}

fn fields_are_clean(fields: &FieldList) {
    for it in fields.iter() {
        assert!(!it.name.is_empty() && it.name.bytes().all(|it| it.is_ascii_graphic() && it != b':'));
        assert!(it.value.iter().all(|it| *it == b'\t' || *it >= b' ' && *it != 0x7f), "a control character");
        assert_eq!(it.value.trim_ascii(), it.value);
    }
}

/// The forwarded bytes parse to the same value.
fn is_read_again(head: &Request) {
    let mut raw = Vec::new();
    write::request_line(&head.method, &head.target, &mut raw);
    if !head.fields.contains("Host") {
        write::field(
            "Host",
            if head.authority.is_empty() { b"a" } else { head.authority.as_bytes() },
            &mut raw,
        );
    }
    raw.extend_from_slice(head.fields.text());
    raw.extend_from_slice(b"\r\n");
    let mut storage = FieldStorage::new();
    let roomy = HeadLimits { head: raw.len() + 1, target: LIMITS.target, scheme: Scheme::Http };
    match parse(&raw, &roomy, &mut storage) {
        Ok(ParsedRequest::Head(again, length)) => {
            assert_eq!(length, raw.len());
            assert_eq!(
                (&*head.method, &*head.target, head.framing),
                (again.method, again.target, again.framing)
            );
        }
        // HTTP/1.0 ignores what HTTP/1.1 must understand; and a Host line may be one too many.
        Err(Reject::Expectation) if head.version == larder_wire::message::Version::Http10 => {}
        Err(Reject::HeadTooLarge) if head.fields.len() == MAX_FIELDS => {}
        other => panic!("{:?}: {other:?}", String::from_utf8_lossy(&raw)),
    }
}

fn assert_framing_fields_removed(fields: &[Field<'_>]) {
    let kept = strip_hop_by_hop(fields);
    for name in ["Content-Length", "Transfer-Encoding", "Connection", "TE", "Upgrade"] {
        assert!(!kept.contains(name), "{name} is passed on");
    }
}
