//! Laws for any bytes in place of a header of the PROXY protocol. Run by the fuzzer, and with small inputs as a test of
//! `wire`.

use larder_wire::proxy::{
    ConnectionEnds, ConnectionSource, MOST, ParsedPreamble, PreambleVersion, parse, write,
};

/// Panics where a law is broken.
pub fn check(raw: &[u8]) {
    let whole = parse(raw);
    // Each byte more changes nothing once it is known what it is, and until then it is not known.
    let known = (0..=raw.len()).find(|it| parse(&raw[..*it]) != Ok(ParsedPreamble::Partial));
    let Some(known) = known else {
        assert_eq!(Ok(ParsedPreamble::Partial), whole);
        assert!(raw.len() < MOST, "a beginning has an end");
        return;
    };
    for it in [known, known + 1, known + 107, raw.len()] {
        assert_eq!(whole, parse(&raw[..it.min(raw.len())]), "{known} {it}");
    }
    if let Ok(ParsedPreamble::Header(source, length)) = whole {
        assert_eq!(known, length, "its last byte ends it");
        assert!(length <= MOST);
        let ends = match source {
            ConnectionSource::Client(from) => Some(ConnectionEnds { from, to: from }),
            ConnectionSource::Peer => None,
        };
        for version in [PreambleVersion::V1, PreambleVersion::V2] {
            let mut written = Vec::new();
            write(version, ends, &mut written);
            let Ok(ParsedPreamble::Header(again, length)) = parse(&written) else { panic!("{written:?}") };
            assert_eq!(written.len(), length);
            match (source, again) {
                (ConnectionSource::Client(from), ConnectionSource::Client(again)) => {
                    assert_eq!(
                        (from.ip().to_canonical(), from.port()),
                        (again.ip().to_canonical(), again.port())
                    );
                }
                (source, again) => assert_eq!(source, again),
            }
        }
    }
}
