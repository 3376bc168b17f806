//! Laws for any bytes as a client's field section over HTTP/3, and on its QPACK streams. Run by the fuzzer, and with small inputs as
//! a test of `wire`.

use larder_semantics::scheme::Scheme;
use larder_wire::http2::hpack::Section;
use larder_wire::http3::head::{parse, trailers};
use larder_wire::http3::qpack::{DecoderInstructions, EncoderInstructions, decode, encode};
use larder_wire::message::{FieldStorage, Framing, HeadLimits, MAX_FIELDS};

const LIMITS: HeadLimits = HeadLimits { head: 4096, target: 1024, scheme: Scheme::Https };

/// Panics where a law is broken.
pub fn check(raw: &[u8]) {
    let _ = EncoderInstructions::default().read(raw);
    let _ = DecoderInstructions::default().read(raw);
    let mut section = Section::default();
    section.begin(LIMITS.head);
    if decode(raw, &mut section).is_err() {
        return;
    }
    let bytes: usize = section.iter().map(|(name, value)| name.len() + value.len()).sum();
    assert!(section.iter().len() <= MAX_FIELDS && bytes <= LIMITS.head);
    for end_stream in [false, true] {
        let mut storage = FieldStorage::new();
        if let Ok(head) = parse(&section, end_stream, &LIMITS, &mut storage) {
            assert!(head.target.is_ascii() && !head.authority.is_empty());
            assert_eq!(end_stream, head.framing == Framing::Empty);
            for it in head.fields {
                assert!(
                    it.name.bytes().all(|it| it.is_ascii_graphic() && it != b':' && !it.is_ascii_uppercase())
                );
                assert!(it.value.iter().all(|it| *it == b'\t' || *it >= b' ' && *it != 0x7f));
                assert!(!["connection", "upgrade", "keep-alive"].contains(&it.name));
            }
        }
    }
    let _ = trailers(&section);
    if section.flaw().is_none() {
        let mut block = vec![0, 0];
        section.iter().for_each(|(name, value)| encode::field(name, value, &mut block));
        let mut again = Section::default();
        again.begin(usize::MAX);
        decode(&block, &mut again).unwrap();
        assert!(section.iter().eq(again.iter()));
    }
}
