//! Laws for any bytes as a client's field sections. Run by the fuzzer, and with small inputs as a test of `wire`.

use larder_semantics::scheme::Scheme;
use larder_wire::http2::head::{parse, trailers};
use larder_wire::http2::hpack::{HpackDecoder, Section, TABLE, encode};
use larder_wire::message::{FieldStorage, Framing, HeadLimits, MAX_FIELDS};

const LIMITS: HeadLimits = HeadLimits { head: 4096, target: 1024, scheme: Scheme::Http };

/// Panics where a law is broken. The first byte says how long the first section is, of two over one connection.
pub fn check(raw: &[u8]) {
    let Some((first, rest)) = raw.split_first() else { return };
    let (one, other) = rest.split_at(usize::from(*first).min(rest.len()));
    let (mut decoder, mut section) = (HpackDecoder::new(TABLE), Section::default());
    for block in [one, other] {
        section.begin(LIMITS.head);
        if decoder.decode(block, &mut section).is_err() {
            return;
        }
        let bytes: usize = section.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(section.iter().len() <= MAX_FIELDS && bytes <= LIMITS.head);
        is_clean(&section, block.len() % 2 == 0);
        is_decoded_again(&section);
    }
}

fn is_clean(section: &Section, end_stream: bool) {
    let mut storage = FieldStorage::new();
    if let Ok(head) = parse(section, end_stream, &LIMITS, &mut storage) {
        assert!(head.target.len() <= LIMITS.target.max(LIMITS.head) && head.target.is_ascii());
        assert!(!head.authority.is_empty() && (head.framing == Framing::Empty) == end_stream);
        for it in head.fields {
            assert!(!it.name.is_empty() && it.name.bytes().all(|it| it.is_ascii_graphic() && it != b':'));
            assert!(!it.name.bytes().any(|it| it.is_ascii_uppercase()));
            assert!(
                it.value.iter().all(|it| *it == b'\t' || *it >= b' ' && *it != 0x7f),
                "a control character"
            );
            assert_eq!(it.value.trim_ascii(), it.value);
            assert!(!["connection", "upgrade", "keep-alive"].contains(&it.name));
        }
        // A client's is refused; ours says that a body comes which nothing else announces.
        let codings: Vec<_> = head.fields.iter().filter(|it| it.name == "transfer-encoding").collect();
        let is_announced = head.fields.iter().any(|it| it.name == "content-length");
        let comes = head.framing == Framing::Chunked && !is_announced;
        assert!(codings.len() == usize::from(comes) && codings.iter().all(|it| it.value == b"chunked"));
    }
    let _ = trailers(section);
}

/// The forwarded bytes parse to the same value.
fn is_decoded_again(section: &Section) {
    if section.flaw().is_some() {
        return;
    }
    let mut block = Vec::new();
    section.iter().for_each(|(name, value)| encode::field(name, value, &mut block));
    let mut again = Section::default();
    again.begin(usize::MAX);
    HpackDecoder::new(0).decode(&block, &mut again).unwrap();
    assert!(section.iter().eq(again.iter()));
}
