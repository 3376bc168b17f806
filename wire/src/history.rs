//! The file of the history: samples, marks, minutes of routes, slow and failed requests. It is a start and then records, each with its
//! length and a checksum, so that a record is read whole or not at all. The file system is not here.
//!
//! A value takes 16 bits: it is exact below 4096, and at most 1/4096 away above. A record of samples is of the columns that the last
//! record of columns names, so that another version of larder reads the columns that it knows.

use xxhash_rust::xxh3::xxh3_64;

/// The first bytes of a file, with its version.
pub const START: &[u8; 8] = b"larderh1";
/// Bytes in front of a record: its length, its kind, its checksum.
pub const FRAME: usize = 13;
/// The most bytes of a record without its frame.
pub const MOST: usize = 1 << 20;
/// The number of kinds of records.
const KINDS: u8 = 5;
/// The most bytes whose checksums are computed in search of a record: beyond, they are of no writer.
const MOST_SEARCHED: usize = 64 << 20;
/// The most columns of a sample.
pub const MOST_COLUMNS: usize = 64;
/// The most bytes of a text; a longer one is truncated when it is written.
pub const MOST_TEXT: usize = 1024;
/// Bytes of a sample in front of its values: its end and its length.
const ROW_HEAD: usize = 8;

/// The 16-bit form of a value: 5 bits of exponent, 11 of mantissa. Values from 2^42 are the largest one.
#[must_use]
pub fn pack(value: u64) -> u16 {
    if value < 2048 {
        return value as u16;
    }
    let mut shift = (u64::BITS - value.leading_zeros()) - 12;
    let mut mantissa = if shift == 0 { value } else { ((value >> (shift - 1)) + 1) >> 1 };
    if mantissa == 4096 {
        (mantissa, shift) = (2048, shift + 1);
    }
    if shift > 30 {
        return u16::MAX;
    }
    ((shift + 1) << 11) as u16 | (mantissa - 2048) as u16
}

/// The value of a 16-bit form.
#[must_use]
pub fn unpack(packed: u16) -> u64 {
    let (exponent, mantissa) = (packed >> 11, u64::from(packed & 2047));
    if exponent == 0 { mantissa } else { (mantissa + 2048) << (exponent - 1) }
}

/// One step of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRow {
    /// Its end, Unix seconds.
    pub at: u32,
    /// Its length, milliseconds.
    pub millis: u32,
    /// A packed value for each column.
    pub values: Vec<u16>,
}

/// The figures of a route in a minute, packed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredRoute {
    /// Its name.
    pub name: String,
    /// Its figures, in the order of the writer's list.
    pub values: Vec<u16>,
    /// Of each reason: its name, its requests, the microseconds of their origins.
    pub reasons: Vec<(String, u16, u16)>,
}

/// The busiest routes and URLs of a minute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredMinute {
    /// Its end, Unix seconds.
    pub at: u32,
    /// Its length, milliseconds.
    pub millis: u32,
    /// The routes.
    pub routes: Vec<StoredRoute>,
    /// Of each URL: it, its requests, its misses.
    pub urls: Vec<(String, u16, u16)>,
}

/// A slow or failed request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredRequest {
    /// Its end, Unix seconds.
    pub at: u64,
    /// Its duration, microseconds.
    pub micros: u64,
    /// The duration by which it is compared with others, microseconds.
    pub rank: u64,
    /// The time of its origin, microseconds.
    pub origin_micros: u64,
    /// The status that was sent; 0 if none was. Its highest bit says that the origin broke the response off.
    pub status: u16,
    /// Its id, method, URL, route, cache result, reason, origin, the identifier of its field, and its failure, in this order.
    pub texts: [String; 9],
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryRecord {
    /// The columns of the samples that follow.
    Columns(Vec<String>),
    /// Samples of one step, in seconds.
    Rows(u16, Vec<StoredRow>),
    /// An event: Unix seconds, its kind, its text.
    Mark(u64, String, String),
    /// The routes of a minute.
    Minute(StoredMinute),
    /// A request.
    Request(StoredRequest),
}

/// The result of reading a record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "there is one at a time, at a start")]
pub enum ReadHistory {
    /// A record, and the bytes that it takes with its frame.
    Record(HistoryRecord, usize),
    /// The input ends within a record, or at its beginning.
    End,
    /// The input is damaged, or of another program.
    Damaged,
}

impl HistoryRecord {
    /// Appends it with its frame. Texts beyond [`MOST_TEXT`] are truncated; a record beyond [`MOST`] is not written.
    pub fn write(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&[0; FRAME]);
        let kind = self.write_payload(out);
        let length = out.len() - begin - FRAME;
        if length > MOST {
            return out.truncate(begin);
        }
        #[allow(clippy::cast_possible_truncation, reason = "at most MOST")]
        let length = (length as u32).to_le_bytes();
        out[begin..begin + 4].copy_from_slice(&length);
        out[begin + 4] = kind;
        let sum = checksum(kind, &out[begin + FRAME..]);
        out[begin + 5..begin + FRAME].copy_from_slice(&sum.to_le_bytes());
    }

    fn write_payload(&self, out: &mut Vec<u8>) -> u8 {
        match self {
            Self::Columns(names) => {
                let names = &names[..names.len().min(MOST_COLUMNS)];
                put_count(out, names.len());
                names.iter().for_each(|it| put_text(out, it));
                0
            }
            Self::Rows(step, rows) => {
                put(out, *step);
                let columns = rows.first().map_or(0, |it| it.values.len().min(MOST_COLUMNS));
                put_count(out, columns);
                for row in rows.iter().filter(|it| it.values.len() == columns) {
                    out.extend_from_slice(&row.at.to_le_bytes());
                    out.extend_from_slice(&row.millis.to_le_bytes());
                    row.values.iter().for_each(|it| put(out, *it));
                }
                1
            }
            Self::Mark(at, kind, what) => {
                out.extend_from_slice(&at.to_le_bytes());
                put_text(out, kind);
                put_text(out, what);
                2
            }
            Self::Minute(it) => {
                write_minute(it, out);
                3
            }
            Self::Request(it) => {
                for number in [it.at, it.micros, it.rank, it.origin_micros] {
                    out.extend_from_slice(&number.to_le_bytes());
                }
                put(out, it.status);
                // Without a failure as in files of earlier versions.
                let known = if it.texts[8].is_empty() { &it.texts[..8] } else { &it.texts[..] };
                known.iter().for_each(|it| put_text(out, it));
                4
            }
        }
    }

    /// Reads the record at the beginning of `bytes`.
    #[must_use]
    pub fn read(bytes: &[u8]) -> ReadHistory {
        let Some((head, rest)) = bytes.split_first_chunk::<FRAME>() else { return ReadHistory::End };
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        if length > MOST {
            return ReadHistory::Damaged;
        }
        let Some(payload) = rest.get(..length) else { return ReadHistory::End };
        let mut sum = [0; 8];
        sum.copy_from_slice(&head[5..]);
        if checksum(head[4], payload) != u64::from_le_bytes(sum) {
            return ReadHistory::Damaged;
        }
        let mut rest = payload;
        match read_payload(head[4], &mut rest) {
            Some(record) if rest.is_empty() => ReadHistory::Record(record, FRAME + length),
            _ => ReadHistory::Damaged,
        }
    }
}

/// Whether these bytes, at which [`HistoryRecord::read`] found the end of the input, are the beginning of a record whose write was interrupted.
/// They are not if the record is whole under another length, or another one follows: then its length is damaged. Bytes that take too long to
/// search count as damaged.
#[must_use]
pub fn is_interrupted(bytes: &[u8]) -> bool {
    let Some((head, rest)) = bytes.split_first_chunk::<FRAME>() else { return true };
    let is_whole = |it: &[u8]| checksum(head[4], it).to_le_bytes() == head[5..];
    if is_whole(rest) {
        return false;
    }
    let mut left = MOST_SEARCHED;
    for at in 1..bytes.len() {
        let Some((head, rest)) = bytes[at..].split_first_chunk::<FRAME>() else { return true };
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        if head[4] >= KINDS || length > rest.len() {
            continue;
        }
        let Some(rest_of_search) = left.checked_sub(length) else { return false };
        left = rest_of_search;
        if let ReadHistory::Record(..) = HistoryRecord::read(&bytes[at..]) {
            return false;
        }
    }
    true
}

fn checksum(kind: u8, payload: &[u8]) -> u64 {
    xxh3_64(payload) ^ u64::from(kind).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn write_minute(it: &StoredMinute, out: &mut Vec<u8>) {
    out.extend_from_slice(&it.at.to_le_bytes());
    out.extend_from_slice(&it.millis.to_le_bytes());
    let routes = &it.routes[..it.routes.len().min(255)];
    put_count(out, routes.len());
    for route in routes {
        put_text(out, &route.name);
        let values = &route.values[..route.values.len().min(255)];
        put_count(out, values.len());
        values.iter().for_each(|it| put(out, *it));
        put_triples(out, &route.reasons);
    }
    put_triples(out, &it.urls);
}

fn put_triples(out: &mut Vec<u8>, all: &[(String, u16, u16)]) {
    let all = &all[..all.len().min(255)];
    put_count(out, all.len());
    for (text, first, second) in all {
        put_text(out, text);
        put(out, *first);
        put(out, *second);
    }
}

fn put(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// At most 255.
#[allow(clippy::cast_possible_truncation, reason = "its callers cut the list")]
fn put_count(out: &mut Vec<u8>, count: usize) {
    out.push(count as u8);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    let end = (0..=MOST_TEXT.min(text.len())).rev().find(|it| text.is_char_boundary(*it)).unwrap_or(0);
    #[allow(clippy::cast_possible_truncation, reason = "at most MOST_TEXT")]
    put(out, end as u16);
    out.extend_from_slice(&text.as_bytes()[..end]);
}

fn read_payload(kind: u8, rest: &mut &[u8]) -> Option<HistoryRecord> {
    Some(match kind {
        0 => {
            let count = usize::from(byte(rest)?);
            if count > MOST_COLUMNS {
                return None;
            }
            HistoryRecord::Columns((0..count).map(|_| text(rest)).collect::<Option<_>>()?)
        }
        1 => {
            let (step, columns) = (short(rest)?, usize::from(byte(rest)?));
            let each = ROW_HEAD + 2 * columns;
            if columns > MOST_COLUMNS || !rest.len().is_multiple_of(each) || (columns == 0) != rest.is_empty()
            {
                return None;
            }
            let rows = (0..rest.len() / each).map(|_| row(rest, columns)).collect::<Option<_>>()?;
            HistoryRecord::Rows(step, rows)
        }
        2 => HistoryRecord::Mark(long(rest)?, text(rest)?, text(rest)?),
        3 => HistoryRecord::Minute(minute(rest)?),
        4 => {
            let [at, micros, rank, origin_micros] = [long(rest)?, long(rest)?, long(rest)?, long(rest)?];
            let status = short(rest)?;
            let mut texts: [String; 9] = Default::default();
            let (failure, others) = texts.split_last_mut()?;
            for it in others {
                *it = text(rest)?;
            }
            if !rest.is_empty() {
                *failure = Some(text(rest)?).filter(|it| !it.is_empty())?;
            }
            HistoryRecord::Request(StoredRequest { at, micros, rank, origin_micros, status, texts })
        }
        _ => return None,
    })
}

fn row(rest: &mut &[u8], columns: usize) -> Option<StoredRow> {
    let (at, millis) = (word(rest)?, word(rest)?);
    let values = (0..columns).map(|_| short(rest)).collect::<Option<_>>()?;
    Some(StoredRow { at, millis, values })
}

fn minute(rest: &mut &[u8]) -> Option<StoredMinute> {
    let (at, millis) = (word(rest)?, word(rest)?);
    let count = byte(rest)?;
    let route = |rest: &mut &[u8]| {
        let name = text(rest)?;
        let count = byte(rest)?;
        let values = (0..count).map(|_| short(rest)).collect::<Option<_>>()?;
        Some(StoredRoute { name, values, reasons: triples(rest)? })
    };
    let routes = (0..count).map(|_| route(rest)).collect::<Option<_>>()?;
    Some(StoredMinute { at, millis, routes, urls: triples(rest)? })
}

fn triples(rest: &mut &[u8]) -> Option<Vec<(String, u16, u16)>> {
    let count = byte(rest)?;
    (0..count).map(|_| Some((text(rest)?, short(rest)?, short(rest)?))).collect()
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (it, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*it)
}

fn byte(rest: &mut &[u8]) -> Option<u8> {
    take::<1>(rest).map(|it| it[0])
}

fn short(rest: &mut &[u8]) -> Option<u16> {
    take(rest).map(u16::from_le_bytes)
}

fn word(rest: &mut &[u8]) -> Option<u32> {
    take(rest).map(u32::from_le_bytes)
}

fn long(rest: &mut &[u8]) -> Option<u64> {
    take(rest).map(u64::from_le_bytes)
}

fn text(rest: &mut &[u8]) -> Option<String> {
    let length = usize::from(short(rest)?);
    if length > MOST_TEXT || length > rest.len() {
        return None;
    }
    let (it, behind) = rest.split_at(length);
    *rest = behind;
    std::str::from_utf8(it).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records() -> Vec<HistoryRecord> {
        let texts = std::array::from_fn(|at| format!("text {at}"));
        vec![
            HistoryRecord::Columns(vec!["requests".to_owned(), "hits".to_owned()]),
            HistoryRecord::Rows(
                10,
                (0..3).map(|it| StoredRow { at: it, millis: 10_000, values: vec![7, 8] }).collect(),
            ),
            HistoryRecord::Mark(9, "start".to_owned(), "larder 1 started".to_owned()),
            HistoryRecord::Minute(StoredMinute {
                at: 60,
                millis: 60_000,
                routes: vec![StoredRoute {
                    name: "a/*".to_owned(),
                    values: vec![1, 2, 3],
                    reasons: vec![("expired".to_owned(), 4, 5)],
                }],
                urls: vec![("http://a/".to_owned(), 6, 7)],
            }),
            HistoryRecord::Request(StoredRequest {
                at: 1,
                micros: 2,
                rank: 3,
                origin_micros: 4,
                status: 503,
                texts,
            }),
        ]
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        records().iter().for_each(|it| it.write(&mut bytes));
        let mut rest = &bytes[..];
        for expect in records() {
            let ReadHistory::Record(found, length) = HistoryRecord::read(rest) else { panic!("{expect:?}") };
            assert_eq!(expect, found);
            rest = &rest[length..];
        }
        assert_eq!(ReadHistory::End, HistoryRecord::read(rest));
    }

    #[test]
    fn every_truncated_record_is_an_end_and_every_changed_byte_is_damage() {
        for record in records() {
            let mut bytes = Vec::new();
            record.write(&mut bytes);
            for length in 0..bytes.len() {
                assert_eq!(ReadHistory::End, HistoryRecord::read(&bytes[..length]));
            }
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 0x40;
                assert!(
                    !matches!(HistoryRecord::read(&changed), ReadHistory::Record(..)),
                    "{record:?} at {at}"
                );
            }
        }
    }

    #[test]
    fn a_damaged_length_is_no_interrupted_write() {
        let mut bytes = Vec::new();
        records().iter().for_each(|it| it.write(&mut bytes));
        let ReadHistory::Record(_, first) = HistoryRecord::read(&bytes) else { panic!("a record") };
        for end in 0..first {
            assert!(is_interrupted(&bytes[..end]), "{end} bytes were written");
        }
        for bit in [10, 15, 19] {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(ReadHistory::End, HistoryRecord::read(&changed), "bit {bit}");
            assert!(!is_interrupted(&changed), "bit {bit}: others follow");
            assert!(!is_interrupted(&changed[..first]), "bit {bit}: it is the last one");
        }
        // The search has an end: each of these bytes might begin a long record.
        assert!(!is_interrupted(&[[0, 0, 8, 0].repeat(200), vec![0; MOST]].concat()));
    }

    #[test]
    fn a_request_without_a_failure_is_written_as_by_earlier_versions() {
        let Some(HistoryRecord::Request(mut request)) = records().pop() else { panic!("a request") };
        request.texts[8].clear();
        let record = HistoryRecord::Request(request);
        let mut bytes = Vec::new();
        let kind = record.write_payload(&mut bytes);
        assert_eq!(Some(record), read_payload(kind, &mut &bytes[..]));
        bytes.extend([0, 0]);
        assert_eq!(None, read_payload(kind, &mut &bytes[..]), "an empty failure");
    }

    #[test]
    fn long_texts_are_truncated_between_characters() {
        let mut bytes = Vec::new();
        HistoryRecord::Mark(0, String::new(), "ä".repeat(MOST_TEXT)).write(&mut bytes);
        let ReadHistory::Record(HistoryRecord::Mark(_, _, what), _) = HistoryRecord::read(&bytes) else {
            panic!("a mark")
        };
        assert_eq!("ä".repeat(MOST_TEXT / 2), what);
    }

    #[test]
    fn the_largest_values_are_one() {
        assert_eq!(u16::MAX, pack(u64::MAX));
        assert_eq!(4095 << 30, unpack(u16::MAX));
        assert_eq!(u16::MAX, pack(1 << 42));
    }

    proptest! {
        #[test]
        fn values_are_exact_below_4096_and_close_above(value in prop_oneof![0..5000_u64, 0..1_u64 << 41]) {
            let back = unpack(pack(value));
            let by = back.abs_diff(value);
            prop_assert!(if value < 4096 { by == 0 } else { by <= value / 4096 }, "{value} as {back}");
        }

        #[test]
        fn packed_values_are_packed_again_alike(packed in any::<u16>()) {
            prop_assert_eq!(packed, pack(unpack(packed)));
        }
    }
}
