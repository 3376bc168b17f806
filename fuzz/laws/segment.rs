//! Laws for any bytes in a file of the disk tier. Run by the fuzzer, and with small inputs as a test of `wire`. The seeds
//! stand at offset 64 of file 1, under the seed 0.

use larder_wire::segment::{
    ENTRY, FooterTail, HEADER, ReadRule, RecordHeader, RecordPart, RuleEntry, START, SegmentFile, TAIL,
    VERSION, could_be_record, is_start, start, write_footer,
};

const PLACE: RecordPart = RecordPart { seed: 0, file: 1, offset: 64 };

/// Panics where a law is broken.
pub fn check(raw: &[u8]) {
    for kind in [SegmentFile::Segment, SegmentFile::Journal] {
        assert_eq!(raw.starts_with(&start(kind, VERSION, PLACE)), is_start(kind, VERSION, PLACE, raw));
    }
    assert!(!is_start(SegmentFile::Segment, VERSION, PLACE, &raw[..raw.len().min(START - 1)]));
    if let Some(header) = RecordHeader::read(raw, PLACE) {
        assert!(could_be_record(raw));
        assert!(header.length() >= HEADER as u64);
        assert_eq!(Some(header), RecordHeader::read(&header.write(PLACE), PLACE));
        assert_eq!(None, RecordHeader::read(raw, RecordPart { offset: 80, ..PLACE }), "elsewhere");
    }
    if let ReadRule::Entry(rule, length) = RuleEntry::read(raw, PLACE) {
        assert!(length <= raw.len());
        let mut again = Vec::new();
        assert!(rule.write(PLACE, &mut again));
        assert_eq!(&raw[..length], again);
    }
    check_footer(raw);
}

fn check_footer(raw: &[u8]) {
    let Some((entries, tail)) = raw.len().checked_sub(TAIL).map(|it| raw.split_at(it)) else { return };
    let length = PLACE.offset + raw.len() as u64;
    let Some(tail) = FooterTail::read(tail, PLACE.seed, PLACE.file, length) else { return };
    let size = usize::try_from(tail.count).unwrap() * ENTRY;
    let from = usize::try_from(length - TAIL as u64 - tail.offset).unwrap();
    assert_eq!(size, from);
    let Some(entries) = entries.len().checked_sub(size).map(|it| &entries[it..]) else { return };
    if let Some(entries) = tail.entries(entries, PLACE.seed, PLACE.file) {
        let place = RecordPart { offset: tail.offset, ..PLACE };
        let mut again = Vec::new();
        write_footer(&entries, place, &mut again);
        let (sorted, end) = again.split_at(again.len() - TAIL);
        let tail = FooterTail::read(end, PLACE.seed, PLACE.file, length).unwrap();
        assert_eq!(Some(entries), tail.entries(sorted, PLACE.seed, PLACE.file));
    }
}
