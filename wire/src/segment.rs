//! The files of the disk tier: the beginning of a segment, the header of a record, the footer of a sealed segment, and
//! the entries of the purge journal. A snapshot of the RAM tier has the same parts. The content between a record's header
//! and its body is in `envelope`; reading and writing the files is in `store`.
//!
//! Every checksum is xxh3-64 under a secret seed of the directory, mixed with the position of the bytes: bytes from
//! another file or offset, or from a body of an origin, are never taken for a record. All numbers are little-endian.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The version of the formats of the disk tier, and of every record's header; other versions are rejected. A snapshot has versions of
/// its own.
pub const VERSION: u32 = 1;

/// Records begin at multiples of this many bytes, so that 32 bits address 64 GiB.
pub const UNIT: u64 = 16;

/// Bytes of the beginning of a segment, and of the journal.
pub const START: usize = 64;

/// Bytes of a record's header.
pub const HEADER: usize = 80;

/// Bytes of a footer's entry, and of its end.
pub const ENTRY: usize = 40;
/// Bytes after the entries, at the very end of a sealed segment.
pub const TAIL: usize = 48;

/// The largest head that a record may have, bytes.
pub const MAX_HEAD: u32 = 4 << 20;

/// The largest purge that the journal takes, bytes.
pub const MAX_RULE: usize = 1 << 20;

/// Bytes of a body with a checksum of their own. For a longer body their list, eight bytes each, follows the envelope, as
/// part of the record's head.
pub const PART: u64 = 64 << 10;

const SEGMENT: &[u8; 8] = b"larderSG";
const JOURNAL: &[u8; 8] = b"larderPJ";
const SNAPSHOT: &[u8; 8] = b"larderRS";
const FOOTER: &[u8; 8] = b"larderFT";
const RECORD: &[u8; 4] = b"LRDR";

/// The position of bytes: their checksums are valid only there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPart {
    /// The directory's secret.
    pub seed: u64,
    /// The number of the file.
    pub file: u32,
    /// Bytes from its beginning.
    pub offset: u64,
}

impl RecordPart {
    fn sum(self, bytes: &[u8]) -> u64 {
        let place = u64::from(self.file).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.offset.rotate_left(32);
        xxh3_64_with_seed(bytes, self.seed ^ place)
    }
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentFile {
    /// A segment of the log.
    Segment,
    /// The journal of purges.
    Journal,
    /// A snapshot of the RAM tier.
    Snapshot,
}

impl SegmentFile {
    fn magic(self) -> &'static [u8; 8] {
        match self {
            SegmentFile::Segment => SEGMENT,
            SegmentFile::Journal => JOURNAL,
            SegmentFile::Snapshot => SNAPSHOT,
        }
    }
}

/// The first [`START`] bytes of a file of this version; `place.offset` is ignored.
#[must_use]
pub fn start(kind: SegmentFile, version: u32, place: RecordPart) -> [u8; START] {
    let mut out = [0; START];
    out[..8].copy_from_slice(kind.magic());
    out[8..12].copy_from_slice(&version.to_le_bytes());
    out[12..16].copy_from_slice(&place.file.to_le_bytes());
    let sum = RecordPart { offset: 0, ..place }.sum(&out[..START - 8]);
    out[START - 8..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// The version of a file of this kind, by its beginning; `None` for any other file.
#[must_use]
pub fn version(kind: SegmentFile, bytes: &[u8]) -> Option<u32> {
    (bytes.starts_with(kind.magic()) && bytes.len() >= 12).then(|| half(bytes, 8))
}

/// Whether a file has the right beginning.
#[must_use]
pub fn is_start(kind: SegmentFile, version: u32, place: RecordPart, bytes: &[u8]) -> bool {
    bytes.get(..START) == Some(&start(kind, version, place))
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// A response: head and body follow.
    Response,
    /// Removes every record under this hash with a lower stamp: of this variant, or of all if that is zero. No bytes
    /// follow. With stamp zero it removes nothing: it records that the purge with the number `epoch` was acknowledged.
    Removal,
}

/// A record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// The kind.
    pub kind: RecordKind,
    /// The hash of the key.
    pub hash: u64,
    /// Its number among all records ever written here; below 2^40.
    pub stamp: u64,
    /// The purge in force when the response was requested from its origin.
    pub epoch: u64,
    /// The hash of the variant, see `store`.
    pub variant: u32,
    /// The hash of the names that it varies on; zero without.
    pub names: u16,
    /// Bytes of the head.
    pub head: u32,
    /// Bytes of the body, which follows the head.
    pub body: u64,
    /// [`sum`] of the head.
    pub head_sum: u64,
    /// [`sum`] of the body; for one above [`PART`], of the list of its parts' checksums.
    pub body_sum: u64,
}

impl RecordHeader {
    /// The record that the purge with this number was acknowledged: a journal without it is damaged.
    #[must_use]
    pub fn purge_note(purge: u64) -> RecordHeader {
        RecordHeader {
            kind: RecordKind::Removal,
            hash: 0,
            stamp: 0,
            epoch: purge,
            variant: 0,
            names: 0,
            head: 0,
            body: 0,
            head_sum: 0,
            body_sum: 0,
        }
    }

    /// Bytes of the whole record without the padding to a [`UNIT`].
    #[must_use]
    pub fn length(&self) -> u64 {
        HEADER as u64 + u64::from(self.head) + self.body
    }

    /// Its bytes.
    #[must_use]
    pub fn write(&self, place: RecordPart) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[..4].copy_from_slice(RECORD);
        out[4] = u8::try_from(VERSION).unwrap_or(u8::MAX);
        out[5] = u8::from(self.kind == RecordKind::Removal);
        out[6..8].copy_from_slice(&self.names.to_le_bytes());
        out[8..12].copy_from_slice(&self.head.to_le_bytes());
        out[12..16].copy_from_slice(&self.variant.to_le_bytes());
        let numbers = [self.hash, self.stamp, self.epoch, self.body, self.head_sum, self.body_sum];
        for (at, number) in numbers.into_iter().enumerate() {
            out[16 + 8 * at..24 + 8 * at].copy_from_slice(&number.to_le_bytes());
        }
        // For inspection of the file; the checksum depends on it anyway.
        out[64..72].copy_from_slice(&place.offset.to_le_bytes());
        let sum = place.sum(&out[..HEADER - 8]);
        out[HEADER - 8..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// The header at the start of `bytes`; `None` if there is none, or not one of this position.
    #[must_use]
    pub fn read(bytes: &[u8], place: RecordPart) -> Option<RecordHeader> {
        let bytes = bytes.get(..HEADER)?;
        if !could_be_record(bytes) || place.sum(&bytes[..HEADER - 8]) != number(bytes, HEADER - 8) {
            return None;
        }
        let kind = match bytes[5] {
            0 => RecordKind::Response,
            1 => RecordKind::Removal,
            _ => return None,
        };
        let header = RecordHeader {
            kind,
            names: u16::from_le_bytes([bytes[6], bytes[7]]),
            head: half(bytes, 8),
            variant: half(bytes, 12),
            hash: number(bytes, 16),
            stamp: number(bytes, 24),
            epoch: number(bytes, 32),
            body: number(bytes, 40),
            head_sum: number(bytes, 48),
            body_sum: number(bytes, 56),
        };
        (header.head <= MAX_HEAD && header.body < 1 << 40 && header.stamp < 1 << 40).then_some(header)
    }
}

/// Whether a record's header may begin here: a cheap test for a scan.
#[must_use]
pub fn could_be_record(bytes: &[u8]) -> bool {
    bytes.starts_with(RECORD) && bytes.get(4).is_some_and(|it| u32::from(*it) == VERSION)
}

/// The checksum of a head or a body.
#[must_use]
pub fn sum(seed: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, seed)
}

/// One record, as listed in a footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FooterEntry {
    /// The hash of the key.
    pub hash: u64,
    /// The record's number.
    pub stamp: u64,
    /// As in its header.
    pub epoch: u64,
    /// The start of its header, units.
    pub offset: u32,
    /// Units of the whole record; zero for a removal and for a note of a purge.
    pub size: u32,
    /// As in its header.
    pub variant: u32,
    /// As in its header.
    pub names: u16,
}

impl FooterEntry {
    /// Whether it is a response, not a removal or a note of a purge.
    #[must_use]
    pub fn is_response(&self) -> bool {
        self.size > 0
    }

    /// Whether it is a removal.
    #[must_use]
    pub fn is_removal(&self) -> bool {
        self.size == 0 && self.stamp > 0
    }
}

/// Appends a footer for a file of `place.offset` bytes: the entries, and the tail by which it is found.
pub fn write_footer(entries: &[FooterEntry], place: RecordPart, out: &mut Vec<u8>) {
    let from = out.len();
    for it in entries {
        out.extend_from_slice(&it.hash.to_le_bytes());
        out.extend_from_slice(&it.stamp.to_le_bytes());
        out.extend_from_slice(&it.epoch.to_le_bytes());
        out.extend_from_slice(&it.offset.to_le_bytes());
        out.extend_from_slice(&it.size.to_le_bytes());
        out.extend_from_slice(&it.variant.to_le_bytes());
        out.extend_from_slice(&it.names.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
    }
    let entries_sum = place.sum(&out[from..]);
    let tail = out.len();
    out.extend_from_slice(FOOTER);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&place.file.to_le_bytes());
    out.extend_from_slice(&(entries.len() as u64).to_le_bytes());
    out.extend_from_slice(&place.offset.to_le_bytes());
    out.extend_from_slice(&entries_sum.to_le_bytes());
    let sum = RecordPart { offset: 0, ..place }.sum(&out[tail..]);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// The end of a footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FooterTail {
    /// The number of entries.
    pub count: u64,
    /// Their start in the file.
    pub offset: u64,
    sum: u64,
}

impl FooterTail {
    /// Parses the last [`TAIL`] bytes of a file of `length` bytes; `None` if they are not the tail of a footer of that
    /// file.
    #[must_use]
    pub fn read(bytes: &[u8], seed: u64, file: u32, length: u64) -> Option<FooterTail> {
        let bytes = bytes.get(..TAIL)?;
        let place = RecordPart { seed, file, offset: 0 };
        let is_ours = bytes.starts_with(FOOTER) && half(bytes, 8) == VERSION && half(bytes, 12) == file;
        if !is_ours || place.sum(&bytes[..TAIL - 8]) != number(bytes, TAIL - 8) {
            return None;
        }
        let tail = FooterTail { count: number(bytes, 16), offset: number(bytes, 24), sum: number(bytes, 32) };
        let entries = tail.count.checked_mul(ENTRY as u64)?;
        (tail.offset.checked_add(entries)?.checked_add(TAIL as u64)? == length).then_some(tail)
    }

    /// The entries, from the bytes between [`FooterTail::offset`] and the tail; `None` if they are damaged.
    #[must_use]
    pub fn entries(&self, bytes: &[u8], seed: u64, file: u32) -> Option<Vec<FooterEntry>> {
        let is_whole = (bytes.len() as u64) == self.count.checked_mul(ENTRY as u64)?;
        if !is_whole || (RecordPart { seed, file, offset: self.offset }).sum(bytes) != self.sum {
            return None;
        }
        let entry = |it: &[u8]| FooterEntry {
            hash: number(it, 0),
            stamp: number(it, 8),
            epoch: number(it, 16),
            offset: half(it, 24),
            size: half(it, 28),
            variant: half(it, 32),
            names: u16::from_le_bytes([it[36], it[37]]),
        };
        Some(bytes.chunks_exact(ENTRY).map(entry).collect())
    }
}

/// One purge, as in the journal. The meanings of `scope` and `strength` are in `store`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleEntry {
    /// Its number.
    pub seq: u64,
    /// Its kind of target; zero: none, only the number is recorded.
    pub scope: u8,
    /// Its effect.
    pub strength: u8,
    /// The parameter of the target.
    pub text: Vec<u8>,
    /// Names and entries of the fleet's logs.
    pub positions: Vec<(u64, u64)>,
}

impl RuleEntry {
    /// Appends it for the position `place`. Returns false, and appends nothing, if it is larger than [`MAX_RULE`].
    pub fn write(&self, place: RecordPart, out: &mut Vec<u8>) -> bool {
        let length = RULE + self.text.len() + 16 * self.positions.len();
        let (Ok(whole), Ok(positions)) = (u32::try_from(length), u16::try_from(self.positions.len())) else {
            return false;
        };
        if length > MAX_RULE {
            return false;
        }
        let from = out.len();
        out.extend_from_slice(&whole.to_le_bytes());
        out.extend_from_slice(&(!whole).to_le_bytes());
        out.extend_from_slice(&[self.scope, self.strength]);
        out.extend_from_slice(&positions.to_le_bytes());
        out.extend_from_slice(&self.seq.to_le_bytes());
        out.extend_from_slice(&(self.text.len() as u64).to_le_bytes());
        for (log, entry) in &self.positions {
            out.extend_from_slice(&log.to_le_bytes());
            out.extend_from_slice(&entry.to_le_bytes());
        }
        out.extend_from_slice(&self.text);
        let sum = place.sum(&out[from..]);
        out.extend_from_slice(&sum.to_le_bytes());
        true
    }

    /// The entry at the start of `bytes`.
    #[must_use]
    pub fn read(bytes: &[u8], place: RecordPart) -> ReadRule {
        if bytes.is_empty() {
            return ReadRule::End;
        }
        if bytes.len() < 8 {
            return ReadRule::Cut;
        }
        let announced = half(bytes, 0);
        let length = usize::try_from(announced).unwrap_or(usize::MAX);
        if half(bytes, 4) != !announced || !(RULE..=MAX_RULE).contains(&length) {
            return ReadRule::Damaged;
        }
        let Some(whole) = bytes.get(..length) else { return ReadRule::Cut };
        let body = &whole[..length - 8];
        if place.sum(body) != number(whole, length - 8) {
            return ReadRule::Damaged;
        }
        Self::fields(body).map_or(ReadRule::Damaged, |it| ReadRule::Entry(it, length))
    }

    fn fields(body: &[u8]) -> Option<RuleEntry> {
        let positions = usize::from(u16::from_le_bytes([body[10], body[11]]));
        let text = usize::try_from(number(body, 20)).ok()?;
        let listed = body.get(28..28 + 16 * positions)?;
        Some(RuleEntry {
            seq: number(body, 12),
            scope: body[8],
            strength: body[9],
            text: body.get(28 + 16 * positions..).filter(|it| it.len() == text)?.to_vec(),
            positions: listed.chunks_exact(16).map(|it| (number(it, 0), number(it, 8))).collect(),
        })
    }
}

/// Bytes of a purge without text and positions, its checksum included.
const RULE: usize = 36;

/// The content at a position of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadRule {
    /// A purge, and its bytes.
    Entry(RuleEntry, usize),
    /// The end.
    End,
    /// A truncated entry that was being written when the process ended: it was not acknowledged.
    Cut,
    /// Damaged bytes.
    Damaged,
}

/// Eight bytes at `at`, which exist: every caller has cut `bytes` to a known length.
fn number(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|it| it.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Four bytes at `at`.
fn half(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|it| it.try_into().ok()).map_or(0, u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: RecordPart = RecordPart { seed: 7, file: 3, offset: 64 };

    fn header() -> RecordHeader {
        RecordHeader {
            kind: RecordKind::Response,
            hash: 1,
            stamp: 2,
            epoch: 3,
            variant: 4,
            names: 5,
            head: 6,
            body: 7,
            head_sum: 8,
            body_sum: 9,
        }
    }

    #[test]
    fn a_header_comes_back() {
        assert_eq!(Some(header()), RecordHeader::read(&header().write(PLACE), PLACE));
        let removal = RecordHeader { kind: RecordKind::Removal, ..header() };
        assert_eq!(Some(removal), RecordHeader::read(&removal.write(PLACE), PLACE));
    }

    #[test]
    fn a_header_is_valid_only_at_its_place() {
        let bytes = header().write(PLACE);
        for other in [
            RecordPart { seed: 8, ..PLACE },
            RecordPart { file: 4, ..PLACE },
            RecordPart { offset: 80, ..PLACE },
        ] {
            assert_eq!(None, RecordHeader::read(&bytes, other), "{other:?}");
        }
    }

    #[test]
    fn no_bit_of_a_header_can_turn() {
        for bit in 0..HEADER * 8 {
            let mut bytes = header().write(PLACE);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(None, RecordHeader::read(&bytes, PLACE), "bit {bit}");
        }
    }

    #[test]
    fn a_footer_comes_back_and_no_bit_of_it_can_turn() {
        let entry = FooterEntry { hash: 1, stamp: 2, epoch: 3, offset: 4, size: 5, variant: 6, names: 7 };
        let entries = [entry, FooterEntry { hash: 9, ..entry }];
        let place = RecordPart { offset: 640, ..PLACE };
        let mut footer = Vec::new();
        write_footer(&entries, place, &mut footer);
        let length = 640 + footer.len() as u64;
        let read = |bytes: &[u8]| {
            let (entries, tail) = bytes.split_at(bytes.len() - TAIL);
            FooterTail::read(tail, PLACE.seed, PLACE.file, length)?.entries(entries, PLACE.seed, PLACE.file)
        };
        assert_eq!(Some(entries.to_vec()), read(&footer));
        for bit in 0..footer.len() * 8 {
            let mut turned = footer.clone();
            turned[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(None, read(&turned), "bit {bit}");
        }
    }

    #[test]
    fn a_purge_comes_back_and_no_bit_of_it_can_turn() {
        let rule = RuleEntry {
            seq: 7,
            scope: 2,
            strength: 1,
            text: b"http://a/".to_vec(),
            positions: vec![(1, 2), (3, 4)],
        };
        let mut bytes = Vec::new();
        assert!(rule.write(PLACE, &mut bytes));
        assert_eq!(ReadRule::Entry(rule, bytes.len()), RuleEntry::read(&bytes, PLACE));
        for cut in 1..bytes.len() {
            assert_eq!(ReadRule::Cut, RuleEntry::read(&bytes[..cut], PLACE), "cut to {cut}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut turned = bytes.clone();
            turned[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(ReadRule::Damaged, RuleEntry::read(&turned, PLACE), "bit {bit}");
        }
    }

    #[test]
    fn a_purge_that_is_too_large_is_not_written() {
        let text = vec![b'x'; MAX_RULE];
        let rule = RuleEntry { seq: 7, scope: 2, strength: 1, text, positions: Vec::new() };
        assert!(!rule.write(PLACE, &mut Vec::new()));
    }
}
